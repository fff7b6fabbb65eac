"""Integers that depend on the sizes of a problem, represented by their values at each of its sizes.

A size is a tuple with one entry per aligned graph. Arithmetic is elementwise, and two sizes are equal when all entries
are, so nothing symbolic is needed. The formula of a size (`rows * heads`) is only determined in the end, by searching
for an expression in the tensors' dimensions that has the same values (`SizeNames`). With a single graph, sizes that
happen to agree count as equal; the file is then right at those sizes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

Size: TypeAlias = tuple[int, ...]
Shape: TypeAlias = tuple[Size, ...]


def constant(value: int, width: int) -> Size:
    return (value,) * width


def is_constant(size: Size, value: int | None = None) -> bool:
    return all(entry == (size[0] if value is None else value) for entry in size)


def plus(a: Size, b: Size) -> Size:
    return tuple(x + y for x, y in zip(a, b))


def minus(a: Size, b: Size) -> Size:
    return tuple(x - y for x, y in zip(a, b))


def times(a: Size, b: Size) -> Size:
    return tuple(x * y for x, y in zip(a, b))


def product(sizes: Iterable[Size], width: int) -> Size:
    total = constant(1, width)
    for size in sizes:
        total = times(total, size)
    return total


def divides(a: Size, b: Size) -> bool:
    """Return whether `a` divides `b` at every size."""
    return all(x != 0 and y % x == 0 for x, y in zip(a, b))


def quotient(a: Size, b: Size) -> Size:
    return tuple(x // y if y else 0 for x, y in zip(a, b))


def remainder(a: Size, b: Size) -> Size:
    return tuple(x % y if y else 0 for x, y in zip(a, b))


def at_most(a: Size, b: Size) -> bool:
    return all(x <= y for x, y in zip(a, b))


def is_spread(size: Size) -> Size:
    """Return 1 where a dimension has several elements, and 0 where it has one."""
    return tuple(int(entry != 1) for entry in size)


def contiguous_strides(shape: Shape, width: int) -> Shape:
    strides: list[Size] = []
    step = constant(1, width)
    for size in reversed(shape):
        strides.append(step)
        step = times(step, tuple(max(1, entry) for entry in size))
    return tuple(reversed(strides))


def _is_small(size: Size) -> bool:
    """Return True for a small number that never changes. It may mean anything: a stride, a window, a number of
    heads.
    """
    return is_constant(size) and size[0] <= LITERAL_LIMIT


LITERAL_LIMIT = 16
"""Constants up to this are written as numbers, even where a dimension has that size."""


NAMES_AT_MOST = 12
"""Most names that a search for products tries; more would take too long."""
FACTORS_AT_MOST = 6
"""Most factors of a product. The elements of a video have five: batch, channels, depth, height, width."""
DIVISORS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
"""Constant divisors of products that are tried: numbers of groups, of heads and of pixels that are shuffled."""
TIMES_IN_A_DIFFERENCE = (1, 2, 4)
"""Factors of the second size in differences that are halved: an image may have been enlarged."""
FIRST_TERMS = 30
"""Products tried as the first two terms of a sum."""


def _factors(
    size: Size, useful: Sequence[tuple[str, Size]], count: int, *, any_rest: bool = False
) -> tuple[list[str], Size] | None:
    """Return `count` names whose product divides the size, and the quotient: one, or any constant with `any_rest`."""
    if count == 0:
        return ([], size) if is_constant(size, None if any_rest else 1) else None
    for i, (name, known) in enumerate(useful):
        if divides(known, size):
            found = _factors(quotient(size, known), useful[i:], count - 1, any_rest=any_rest)
            if found is not None:
                return [name, *found[0]], found[1]
    return None


def _direction(size: Size) -> tuple[Size, int]:
    """Return how a size changes from its first entry on, as a primitive vector and its multiple."""
    changes = [entry - size[0] for entry in size]
    common = math.gcd(*changes)
    if common == 0:
        return constant(0, len(size)), 0
    if next(change for change in changes if change) < 0:
        common = -common
    return tuple(change // common for change in changes), common


def _in_words(size: Size, known: Mapping[Size, tuple[Size, str]]) -> list[tuple[int, str]] | None:
    """Return a size as a multiple of a known term plus a number, or as a number alone; None if neither fits."""
    direction, steps = _direction(size)
    if not steps:
        return [(size[0], "")]
    entries, text = known.get(direction, ((), ""))
    if not entries or steps % (unit := _direction(entries)[1]):
        return None
    factor = steps // unit
    return [(factor, text), (size[0] - factor * entries[0], "")]


def _joined(terms: Iterable[tuple[int, str]]) -> str:
    """Format terms as a sum: `2 * a + b - 1`."""
    made = ""
    for factor, text in terms:
        if factor:
            times_over = str(abs(factor)) if abs(factor) != 1 or not text else ""
            made += (" - " if factor < 0 else " + ") + " * ".join(filter(None, (times_over, text)))
    return made[3:] if made.startswith(" + ") else f"-{made[3:]}"


WINDOWS = sorted(
    itertools.product((1, 2, 3, 4), range(-8, 9), (-1, 0, 1)), key=lambda it: (abs(it[1]) + abs(it[2]), it[0])
)
"""Divisor, shift and addend of window sizes, simplest first."""


class SizeNames:
    """Names of sizes in the host code, and expressions in them for all other sizes."""

    def __init__(self, width: int) -> None:
        self._width = width
        self.names: dict[str, Size] = {}
        self.attributes: dict[str, Size] = {}
        """Numbers that the module holds as attributes; used only where no expression of dimensions fits."""
        self.fractions: dict[str, tuple[float, ...]] = {}
        self.guessed: list[Size] = []
        """Sizes without an expression. They are written as their number at the main size."""

    def add(self, name: str, size: Size) -> None:
        self.names[name] = size

    def find(self, size: Size) -> str | None:
        """Return a name with exactly these values."""
        return next((name for name, known in self.names.items() if known == size), None)

    def expression(self, size: Size) -> str:
        """Return Python text for the size; a plain number if it never changes."""
        found = self._expression(size)
        if found is None and not is_constant(size):
            found = self._rounded_down(size) or self._polynomial(size) or self._half_of_difference(size)
        if found is not None:
            return found
        if not is_constant(size):
            self.guessed.append(size)
        return str(size[0])

    def search(self, size: Size) -> str | None:
        """Like `expression`, but return None if no expression was found."""
        return self._expression(size)

    def _expression(self, size: Size) -> str | None:
        if is_constant(size) and abs(size[0]) <= LITERAL_LIMIT:
            return str(size[0])
        exact = self.find(size)
        if exact is not None:
            return exact
        products = self._product(size) or self._switched(size)
        if products is not None:
            return products
        if is_constant(size):
            return str(size[0])
        for name, known in self.attributes.items():
            if known == size:
                return name
        simple = self._share(size) or self._least(size) or self._quotient(size) or self._sum(size) or self._window(size)
        return simple or self._with_attribute(size) or self._factored(size) or self._part_of_product(size)

    def _with_attribute(self, size: Size) -> str | None:
        """Find an attribute of the module, or a dimension divided or multiplied by one: `7 * self.rows`."""
        for name, known in self.attributes.items():
            if is_constant(known):
                continue
            if divides(known, size) and is_constant(quotient(size, known)):
                return f"{quotient(size, known)[0]} * {name}"
            for other, dimension in self.names.items():
                if all(known) and divides(known, dimension) and quotient(dimension, known) == size:
                    return f"{other} // {name}"
                if times(dimension, known) == size:
                    return f"{other} * {name}"
                for third, more in self.names.items():
                    both = times(dimension, more)
                    if all(known) and divides(known, both) and quotient(both, known) == size:
                        return f"{other} * {third} // {name}"
                    if times(both, known) == size:
                        return f"{other} * {third} * {name}"
        return None

    def _factored(self, size: Size) -> str | None:
        """Find `a * (b + c)`."""
        for name, known in self.names.items():
            if divides(known, size) and not is_constant(known, 1):
                rest = quotient(size, known)
                inner = self._sum(rest) or self._quotient(rest) or self._window(rest) or self._with_attribute(rest)
                inner = inner or next((n for n, k in self.attributes.items() if k == rest), None)
                if inner is not None:
                    return f"{name} * ({inner})"
        return None

    def _product(self, size: Size) -> str | None:
        """Find `a * b`, `a * b * c`, `4 * a`, `6 * a * a * b`."""
        useful = [(n, s) for n, s in self.names.items() if divides(s, size) and not _is_small(s)][:NAMES_AT_MOST]
        for count in range(2, FACTORS_AT_MOST + 1):
            found = _factors(size, useful, count)
            if found is not None and is_constant(found[1], 1):
                return " * ".join(found[0])
        for count in range(1, FACTORS_AT_MOST):
            found = _factors(size, useful, count, any_rest=True)
            if found is not None:
                return " * ".join([str(found[1][0]), *found[0]])
        return None

    def _part_of_product(self, size: Size) -> str | None:
        """Find `a * b * c // 8`: a group of channels in a volume."""
        for parts in DIVISORS:
            whole = times(size, constant(parts, self._width))
            useful = [(n, s) for n, s in self.names.items() if divides(s, whole) and not _is_small(s)][:NAMES_AT_MOST]
            for count in range(2, FACTORS_AT_MOST + 1):
                found = _factors(whole, useful, count)
                if found is not None:
                    return f"{' * '.join(found[0])} // {parts}"
        return None

    def _rounded_down(self, size: Size) -> str | None:
        """Find `a // b` with a remainder: the number of whole patches in an image."""
        varying = {**self.names, **self.attributes}
        divisors = {name: known for name, known in varying.items() if all(known) and not is_constant(known)}
        for name, known in self.names.items():
            for other, divisor in divisors.items():
                if tuple(k // d for k, d in zip(known, divisor)) == size:
                    return f"{name} // {other}"
        return None

    def _half_of_difference(self, size: Size) -> str | None:
        """Find `(a - 2 * b) // 2`, rounded down or up, or its negative: the padding of an image to a larger one."""
        useful = list(self.names.items())[:NAMES_AT_MOST]
        for (name, known), (other, less) in itertools.permutations(useful, 2):
            for count, odd in itertools.product(TIMES_IN_A_DIFFERENCE, (0, 1)):
                half = tuple((a - count * b + odd) // 2 for a, b in zip(known, less))
                if size not in (half, tuple(-it for it in half)):
                    continue
                times_over = f"{count} * {other}" if count > 1 else other
                text = f"({name} - {times_over}{' + 1' if odd else ''}) // 2"
                return text if size == half else f"-({text})"
        return None

    def _polynomial(self, size: Size) -> str | None:
        """Find `a * b + b + 1`: up to three products of names, and a number."""
        varying = [(n, s) for n, s in self.names.items() if not is_constant(s)]
        found = self._polynomial_of(size, varying[:NAMES_AT_MOST])
        if found is None and len(varying) > NAMES_AT_MOST:  # strides come before the dimensions they are made of
            found = self._polynomial_of(size, sorted(varying, key=lambda named: max(named[1]))[:NAMES_AT_MOST])
        return found

    def _polynomial_of(self, size: Size, useful: Sequence[tuple[str, Size]]) -> str | None:
        terms: dict[Size, str] = {}
        for count in (1, 2, 3):
            for group in itertools.combinations_with_replacement(useful, count):
                terms.setdefault(product((s for _, s in group), self._width), " * ".join(n for n, _ in group))
        last: dict[Size, tuple[Size, str]] = {}
        for known, text in terms.items():
            last.setdefault(_direction(known)[0], (known, text))
        for more, first in ((1, len(terms)), (2, FIRST_TERMS)):
            for chosen in itertools.combinations(list(terms.items())[:first], more):
                for factors in itertools.product((1, -1, 2, -2, 3, 4), repeat=more):
                    rest = size
                    for factor, (known, _) in zip(factors, chosen):
                        rest = minus(rest, tuple(factor * entry for entry in known))
                    told = _in_words(rest, last)
                    if told is not None:
                        return _joined([*((f, text) for f, (_, text) in zip(factors, chosen)), *told])
        return None

    def _switched(self, size: Size) -> str | None:
        """Find `4 * a * step`, where `step` is 0 at some sizes and 1 at the others."""
        for step, known in self.names.items():
            if set(known) != {0, 1} or any(s and not k for s, k in zip(size, known)):
                continue
            factors = [(n, s) for n, s in self.names.items() if all(s) and not _is_small(s)]
            for count in (0, 1, 2, 3):
                for group in itertools.combinations_with_replacement(factors[:12], count):
                    rest = product((s for _, s in group), self._width)
                    times_over = {s / r for s, r, k in zip(size, rest, known) if k}
                    if len(times_over) == 1 and (more := times_over.pop()).is_integer():
                        names = ([f"{more:.0f}"] if more != 1 else []) + [name for name, _ in group]
                        return " * ".join([*names, step])
        return None

    def _quotient(self, size: Size) -> str | None:
        """Find `a // 8`, `a // b`, `a * b // c`."""
        named = list(self.names.items())
        for name, known in named:
            if all(size) and all(k % s == 0 for k, s in zip(known, size)) and is_constant(quotient(known, size)):
                return f"{name} // {known[0] // size[0]}"
        for (a, x), (b, y) in itertools.permutations(named, 2):
            if all(y) and quotient(x, y) == size and divides(y, x):
                return f"{a} // {b}"
        for (a, x), (b, y) in itertools.combinations(named, 2):
            both = times(x, y)
            if all(size) and divides(size, both) and is_constant(quotient(both, size)):
                return f"{a} * {b} // {both[0] // size[0]}"
            for c, z in named:
                if all(z) and divides(z, both) and quotient(both, z) == size:
                    return f"{a} * {b} // {c}"
        return None

    def _share(self, size: Size) -> str | None:
        """Find `a // 2`, rounded down: half of a dimension that may be odd."""
        for part in (2, 3, 4):
            for name, known in self.names.items():
                if not is_constant(known) and all(k // part == s for k, s in zip(known, size)):
                    return f"{name} // {part}"
        return None

    def _least(self, size: Size) -> str | None:
        """Find `min(9, a)`, `min(a, b)`."""
        most = max(size)
        for name, known in self.names.items():
            if max(known) > most and all(min(most, k) == s for k, s in zip(known, size)):
                return f"min({most}, {name})"
        for (a, x), (b, y) in itertools.combinations(self.names.items(), 2):
            if tuple(min(pair) for pair in zip(x, y)) == size:
                return f"min({a}, {b})"
        return None

    def _sum(self, size: Size) -> str | None:
        """Find `a + 3`, `a + b`, `a - b`, `2 * a + 1`."""
        named = list(self.names.items())
        for factor in (1, 2, 3, 4):
            for name, known in named:
                rest = minus(size, tuple(factor * entry for entry in known))
                if is_constant(rest):
                    sign = "+" if rest[0] >= 0 else "-"
                    return f"{name if factor == 1 else f'{factor} * {name}'} {sign} {abs(rest[0])}"
        for (a, x), (b, y) in itertools.combinations_with_replacement(named, 2):
            if plus(x, y) == size:
                return f"{a} + {b}"
        for (a, x), (b, y) in itertools.permutations(named, 2):
            if minus(x, y) == size:
                return f"{a} - {b}"
        for (a, x), (b, y) in itertools.combinations(named, 2):
            rest = minus(size, times(x, y))
            if is_constant(rest):
                return f"{a} * {b} {'+' if rest[0] >= 0 else '-'} {abs(rest[0])}"
        return None

    def _window(self, size: Size) -> str | None:
        """Find `(a + 2) // 3 + 1`, the size of a sliding window. The simplest match is most likely the intended one."""
        for step, shift, extra in WINDOWS:
            for name, known in self.names.items():
                if all((k + shift) // step + extra == s for k, s in zip(known, size)):
                    inner = f"({name} {'+' if shift >= 0 else '-'} {abs(shift)})" if shift else name
                    return f"{inner} // {step}" + (f" {'+' if extra > 0 else '-'} 1" if extra else "")
        return None


def number_expression(values: Sequence[float], names: SizeNames) -> str | None:
    """Return Python text for a number that varies with the sizes, such as `1.0 / math.sqrt(width)`."""
    for name, held in names.fractions.items():
        if tuple(held) == tuple(values):
            return name
    for name, known in names.names.items():
        if not all(known):
            continue
        for text, function in _FUNCTIONS:
            factor = _common_factor([function(k) for k in known], values)
            if factor == 1:
                return text.format(name)
            if factor is not None and len(set(values)) > 1:
                made = text.format(name)
                return f"{factor!r} / {made[6:]}" if made.startswith("1.0 / ") else f"{factor!r} * {made}"
    for (a, x), (b, y) in itertools.combinations(names.names.items(), 2):
        if not all(x) or not all(y):
            continue
        if all(math.isclose(p * q, v, rel_tol=1e-12) for p, q, v in zip(x, y, values)):
            return f"{a} * {b}"
        if all(math.isclose(1 / (p * q), v, rel_tol=1e-12) for p, q, v in zip(x, y, values)):
            return f"1.0 / ({a} * {b})"
        if all(math.isclose((x[0] / y[0]) * (v / values[0]), p / q, rel_tol=1e-12) for p, q, v in zip(x, y, values)):
            factor = values[0] / (x[0] / y[0]) if values[0] else 0.0
            if all(math.isclose(factor * p / q, v, rel_tol=1e-12) for p, q, v in zip(x, y, values)):
                return f"{factor!r} * {a} / {b}"
    return None


def _common_factor(made: Sequence[float], wanted: Sequence[float]) -> float | None:
    """Return the factor between `made` and `wanted` if it is the same for all, rounded where few digits suffice."""
    if any(m == 0 or not math.isfinite(m) for m in made):
        return None
    factor = wanted[0] / made[0]
    if not all(math.isclose(m * factor, w, rel_tol=1e-9) for m, w in zip(made, wanted)):
        return None
    short = float(f"{factor:.6g}")
    return short if all(math.isclose(m * short, w, rel_tol=1e-9) for m, w in zip(made, wanted)) else factor


_FUNCTIONS: tuple[tuple[str, Callable[[int], float]], ...] = (
    ("{}", lambda n: float(n)),
    ("1.0 / math.sqrt({})", lambda n: 1 / math.sqrt(n)),
    ("math.sqrt({})", lambda n: math.sqrt(n)),
    ("1.0 / {}", lambda n: 1 / n),
    ("({} - 1)", lambda n: float(n - 1)),
    ("1.0 / ({} - 1)", lambda n: 1 / (n - 1) if n > 1 else math.inf),
    ("math.log({})", lambda n: math.log(n)),
    ("{} ** -0.25", lambda n: n**-0.25),
)


def power_of_two(number: int) -> int:
    """Return the smallest power of two that is at least `number`."""
    return 1 << max(0, number - 1).bit_length()
