"""Fits expressions of the free sizes to the numbers in which otherwise equal texts differ.

  merged(texts, fitter) -> one text, with expressions in place of numbers that differ

Possible expressions are polynomials with whole coefficients, such a polynomial divided by a constant and rounded up or
down, products of these, the next power of two, and the minimum of an expression and a constant; for floats a
reciprocal, a reciprocal square root, or a size itself. Some sizes are held out of a fit and have to come out right all
the same. A fit is a guess until the plans that contain it have been judged.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from fractions import Fraction

from triton_agent.runs.ship.python_text import Group, Text
from triton_agent.tools.problem.size_range import Lengths

NUMBER = re.compile(r"(?<![\w.\"'])\d+(?:\.\d+)?(?:e[-+]?\d+)?(?![\w.\"'])")
DEGREE = 2
"""Highest power of one size in a polynomial."""
SPARE = 3
"""Points beyond the number of a polynomial's coefficients, unless all possible points are known."""
CAPPED_AT_LEAST = 3
"""Points at which the constant of a `min` has to be seen."""


class Unfitted(Exception):
    """Raised if no expression fits, or the texts differ in more than numbers; the message says where."""


def masked(text: object) -> str:
    """Return a text without its numbers; texts of equal structure are then equal."""
    return NUMBER.sub("#", str(text))


def merged(texts: Sequence[Text], fit: Callable[[Sequence[str]], str]) -> Text:
    """Merge the texts into one, with an expression for each number that differs; raise `Unfitted`."""
    first = texts[0]
    if isinstance(first, str):
        rows = [NUMBER.findall(text) if isinstance(text, str) else [] for text in texts]
        if any(masked(text) != masked(first) or isinstance(text, Group) for text in texts):
            raise Unfitted(f"`{first}` differs in more than numbers at other sizes")
        columns = iter([row[0] if len(set(row)) == 1 else fit(row) for row in zip(*rows)])
        return NUMBER.sub(lambda _: next(columns), first)
    groups = [text for text in texts if isinstance(text, Group)]
    if len(groups) < len(texts) or len({len(group.items) for group in groups}) > 1:
        raise Unfitted(f"`{first}` differs in more than numbers at other sizes")
    opening, closing = (merged([getattr(g, name) for g in groups], fit) for name in ("opening", "closing"))
    items = [merged(row, fit) for row in zip(*(group.items for group in groups))]
    return Group(str(opening), items, str(closing))


class Fitter:
    """Finds expressions at given points; expressions found earlier serve as parts of later ones."""

    def __init__(
        self,
        points: Sequence[Lengths],
        variables: Sequence[str],
        *,
        held_out: Collection[Lengths] = (),
        constants: Collection[int] = (),
        complete: bool = False,
    ) -> None:
        """`constants` are likely divisors; `complete` says that no other points exist."""
        self._points = points
        self._fitted = [at for at, point in enumerate(points) if point not in held_out or complete]
        self._variables = variables
        self._told = sorted({*constants})
        self._constants = sorted({*constants, *(1 << exponent for exponent in range(1, 21))})
        self._complete = complete
        self._pool: dict[tuple[int, ...], str] = {}
        self._known: dict[tuple[str, ...], str] = {}
        for at, name in enumerate(variables):
            self._pool.setdefault(tuple(point[at] for point in points), name)

    def learn(self, rows: Sequence[Sequence[str]]) -> None:
        """Use polynomials among these rows of numbers as parts of later expressions."""
        for row in rows:
            if all(text.isdigit() for text in row) and len(set(row)) > 1:
                values = tuple(map(int, row))
                text = self._polynomial(values)
                if text:
                    self._pool.setdefault(values, text)

    def __call__(self, row: Sequence[str]) -> str:
        """Return an expression whose values at the points are written in `row`; raise `Unfitted` if there is none."""
        key = tuple(row)
        if key not in self._known:
            whole = all(text.isdigit() for text in row)
            found = self._whole(tuple(map(int, row))) if whole else self._real(tuple(map(float, row)))
            if found is None:
                shown = ", ".join(f"{text} at {point}" for text, point in [*zip(row, self._points)][:4])
                raise Unfitted(f"no expression of {', '.join(self._variables)} gives {shown}")
            self._known[key] = found
        return self._known[key]

    def _whole(self, values: tuple[int, ...]) -> str | None:
        for text in itertools.chain(self._guesses(values), self._capped(values)):
            if self._holds(text, values):
                return text
        return None

    def _guesses(self, values: tuple[int, ...]) -> Iterator[str]:
        text = self._polynomial(values)
        if text:
            yield text
        for part, name in self._pool.items():
            if all(value == 1 << max(size - 1, 0).bit_length() for value, size in zip(values, part)):
                yield f"(1 << ({name} - 1).bit_length())"
        yield from self._quotients(values)
        for part, name in [*self._pool.items()]:  # a quotient times a polynomial
            if all(size and value % size == 0 for value, size in zip(values, part)):
                yield from (f"{text} * {_bracketed(name)}" for text in self._quotients(_by(values, part)))
        for part, name in [*self._pool.items()]:  # a quotient times a quotient
            for constant in self._constants:
                up = tuple(-(-size // constant) for size in part)
                if len(set(up)) > 1 and all(size and value % size == 0 for value, size in zip(values, up)):
                    yield from (f"{text} * ({_up(name, constant)})" for text in self._quotients(_by(values, up)))

    def _capped(self, values: tuple[int, ...]) -> Iterator[str]:
        cap = max(values)
        below = [at for at, value in enumerate(values) if value < cap]
        if len(values) - len(below) >= CAPPED_AT_LEAST and len(below) > DEGREE + SPARE:
            points = [self._points[at] for at in below]
            inner = Fitter(points, self._variables, constants=self._constants)
            inner._pool = {tuple(part[at] for at in below): name for part, name in self._pool.items()}
            yield from (f"min({text}, {cap})" for text in inner._guesses(tuple(values[at] for at in below)))

    def _real(self, values: tuple[float, ...]) -> str | None:
        for name in self._pool.values():
            for text in (f"1.0 / ({name})", f"({name}) ** -0.5", f"float({name})"):
                if self._holds(text, values):
                    return text
        return None

    def _holds(self, text: str, values: Sequence[float]) -> bool:
        """Return whether the expression has these values at all points, including held-out ones."""
        code = compile(text, "<fit>", "eval")  # the text was composed above, by the grammar
        known = {"__builtins__": {}, "min": min, "float": float}
        return all(
            eval(code, known, dict(zip(self._variables, point))) == value for point, value in zip(self._points, values)
        )

    def _polynomial(self, values: Sequence[int]) -> str:
        """Return a polynomial with whole coefficients through the points of the fit; empty if there is none."""
        powers = [
            power
            for power in itertools.product(range(DEGREE + 1), repeat=len(self._variables))
            if sum(power) <= max(DEGREE, len(self._variables))
        ]
        powers.sort(key=sum)
        if self._complete:
            powers = powers[: len(self._points)]
        elif len(self._fitted) < len(powers) + SPARE:
            return ""
        rows = [
            [Fraction(math.prod(size**n for size, n in zip(self._points[at], power))) for power in powers]
            + [Fraction(values[at])]
            for at in self._fitted
        ]
        solution = _solved(rows, len(powers))
        if solution is None or any(coefficient.denominator != 1 for coefficient in solution):
            return ""
        terms = [(int(c), power) for c, power in zip(solution, powers) if c]
        text = ""
        for coefficient, power in sorted(terms, key=lambda term: (-sum(term[1]), term[1])):
            names = [name for name, n in zip(self._variables, power) for _ in range(n)]
            size = abs(coefficient)
            factors = [*names, *([str(size)] if size != 1 or not names else [])]
            sign = (" - " if coefficient < 0 else " + ") if text else ("-" if coefficient < 0 else "")
            text += sign + " * ".join(factors)
        return text if text and self._holds(text, values) else ""

    def _quotients(self, values: tuple[int, ...]) -> Iterator[str]:
        """Yield quotients of known parts, times a constant."""
        common = math.gcd(*values)
        if not common or len(set(values)) == 1:
            return
        factors = [n for n in {1, common, *self._constants} if common % n == 0]
        for factor in sorted(factors):
            wanted = [value // factor for value in values]
            times = f" * {factor}" if factor > 1 else ""
            for part, name in self._pool.items():
                at_least = max((-(-size // value) for size, value in zip(part, wanted) if value), default=2)
                at_most = min(
                    (-(-size // (value - 1)) - 1 for size, value in zip(part, wanted) if value > 1), default=0
                )
                for constant in self._likely(at_least, at_most):
                    yield _up(name, constant) + times
                at_least = max(size // (value + 1) + 1 for size, value in zip(part, wanted))
                at_most = min((size // value for size, value in zip(part, wanted) if value), default=0)
                for constant in self._likely(at_least, at_most):
                    yield f"{_bracketed(name)} // {constant}{times}"

    def _likely(self, at_least: int, at_most: int) -> Iterator[int]:
        """Yield the likely divisor between these bounds: a constant that a launch is given, or the only power of
        two.
        """
        at_least = max(at_least, 2)
        told, likely = ([n for n in known if at_least <= n <= at_most] for known in (self._told, self._constants))
        if len(told) == 1 or len(likely) == 1:
            yield (told if len(told) == 1 else likely)[0]
        elif at_least == at_most or (self._complete and at_least <= at_most):
            yield at_least


def _up(name: str, constant: int) -> str:
    return f"({name} + {constant - 1}) // {constant}"


def _bracketed(name: str) -> str:
    return f"({name})" if " + " in name or " - " in name else name


def _by(values: Sequence[int], divisors: Sequence[int]) -> tuple[int, ...]:
    return tuple(value // divisor for value, divisor in zip(values, divisors))


def _solved(rows: list[list[Fraction]], unknowns: int) -> list[Fraction] | None:
    """Solve linear equations with as many independent rows as unknowns, or more; None if they contradict each other.

    An unknown that nothing determines is 0.
    """
    pivots: list[int] = []
    top = 0
    for column in range(unknowns):
        at = next((at for at in range(top, len(rows)) if rows[at][column]), None)
        if at is None:
            continue
        rows[top], rows[at] = rows[at], rows[top]
        pivot = rows[top]
        for below in range(len(rows)):
            if below != top and rows[below][column]:
                factor = rows[below][column] / pivot[column]
                rows[below] = [a - factor * b for a, b in zip(rows[below], pivot)]
        pivots.append(column)
        top += 1
    if any(row[-1] for row in rows[top:]):
        return None
    found = [Fraction(0)] * unknowns
    for at, column in enumerate(pivots):
        found[column] = rows[at][-1] / rows[at][column]
    return found
