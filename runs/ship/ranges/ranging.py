"""Finds the brackets of a problem's ranges: lengths at which a candidate's tapes differ in numbers only.

  found = Tracing(ranges, tapes).brackets(given)

The candidate is traced at some lengths. Where two neighbours differ in more than numbers, lengths between them are
traced until the bound is known. With several ranges there is one bracket, the whole box, or none.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from triton_agent.runs.ship.facts import NotEmitted
from triton_agent.runs.ship.module_forms import Kernels
from triton_agent.runs.ship.plan import Loose
from triton_agent.runs.ship.ranges.brackets import Bracket, is_between, span
from triton_agent.runs.ship.ranges.fitting import Unfitted
from triton_agent.runs.ship.ranges.sized_plans import forms_at, sized_forms, structure_of
from triton_agent.tools.kernels.kernel import value_from_json
from triton_agent.tools.problem.size_range import Lengths, SizeRange, drawn, points, telling
from triton_agent.tools.processes.protocol import TapedModule
from triton_agent.tools.tape.tape import Constexpr, Tape, decode

FIRST = 24
"""Lengths that are traced at first."""
IN_A_BRACKET = 16
"""Lengths that are traced in a bracket, or all of them if it has fewer."""
BRACKETS_AT_MOST = 8
HELD_OUT = 4
"""One in this many lengths is held out of the fit."""
ROUNDS = 12
"""Rounds of tracing between lengths that differ; each makes a gap four times smaller."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Brackets in ascending order, and sentences about what is left to the reference."""

    brackets: tuple[Bracket, ...]
    left_out: tuple[str, ...]


class Tracing:
    """A candidate's tapes at the lengths traced so far."""

    def __init__(
        self,
        ranges: Sequence[SizeRange],
        tapes: Callable[[Sequence[Lengths]], Sequence[TapedModule]],
        *,
        seed: int,
        chosen: Mapping[bool, Mapping[int, int]],
    ) -> None:
        """`chosen` holds the configurations of autotuned launches at the sizes given, by mode."""
        self._ranges = ranges
        self._tapes = tapes
        self._chosen = chosen
        self._numbers = random.Random(seed)
        self._known: dict[Lengths, TapedModule] = {}

    def brackets(self, given: Lengths) -> Found:
        """Find the brackets; those that cannot be fitted are left out."""
        if len(self._ranges) > 1:
            return self._box(given)
        low, high = self._ranges[0].low, self._ranges[0].high
        inside = [length for length in given if low <= length <= high]
        known = telling(low, high)
        first = [low, high, *inside, *self._numbers.sample(known, min(len(known), FIRST // 2))]
        first += [drawn(low, high, self._numbers) for _ in range(FIRST // 2)]
        self._trace((length,) for length in first)
        for _ in range(ROUNDS):
            between = self._between_unlike()
            if not between or len(self._runs()) > BRACKETS_AT_MOST:
                break
            self._trace(between)
        runs = self._runs()
        if len(runs) > BRACKETS_AT_MOST:
            said = f"{self._ranges[0]}: the kernels' steps change too often from length to length"
            return Found(brackets=(), left_out=(said,))
        found: list[Bracket] = []
        left_out: list[str] = []
        for run in runs:
            self._trace(self._more_inside(run[0], run[-1]))
            bracket = self._bracket(run[0], run[-1])
            trouble = self._trouble(bracket)
            if trouble:
                left_out.append(f"{span(self._ranges, bracket.low, bracket.high)}: {trouble}")
            else:
                found.append(bracket)
        return Found(brackets=tuple(found), left_out=tuple(left_out))

    def _box(self, given: Lengths) -> Found:
        low, high = (tuple(getattr(one, end) for one in self._ranges) for end in ("low", "high"))
        count = 3 * FIRST if len(self._ranges) > 2 else 2 * FIRST
        inside = all(a <= length <= b for a, length, b in zip(low, given, high))
        self._trace([*points(self._ranges, count, self._numbers.randrange(1 << 30)), *([given] if inside else [])])
        bracket = self._bracket(low, high)
        trouble = self._trouble(bracket)
        if trouble:
            return Found(brackets=(), left_out=(f"{span(self._ranges, low, high)}: {trouble}",))
        return Found(brackets=(bracket,), left_out=())

    def _trace(self, wanted: Iterable[Lengths]) -> None:
        new = [lengths for lengths in dict.fromkeys(wanted) if lengths not in self._known]
        for lengths, module in zip(new, self._tapes(new) if new else ()):
            forms = tuple(
                dataclasses.replace(form, chosen=dict(self._chosen.get(form.train, {}))) for form in module.forms
            )
            self._known[lengths] = dataclasses.replace(module, forms=forms)

    def _structures(self) -> dict[Lengths, str]:
        """Return the structure that the lengths of a bracket share, by length in ascending order; empty without a
        plan.
        """
        kernels = Kernels([*self._known.values()], self._ranges, self._loose())
        found = {}
        for lengths in sorted(self._known):
            try:
                module = self._known[lengths]
                found[lengths] = structure_of(forms_at(module, kernels)) if module.forms else ""
            except NotEmitted:
                found[lengths] = ""
        return found

    def _loose(self) -> frozenset[Loose]:
        """Return compile-time arguments with more values than the limit of brackets; these are taken to be sizes."""
        values: dict[tuple[int, str, str], set[int]] = {}
        for module in self._known.values():
            for form in module.forms:
                for number, kernel, name, value in _whole_arguments(decode(form.tape)):
                    values.setdefault((number, kernel, name), set()).add(value)
        return frozenset((kernel, name) for (_, kernel, name), seen in values.items() if len(seen) > BRACKETS_AT_MOST)

    def _runs(self) -> list[list[Lengths]]:
        """Return groups of neighbouring lengths with one structure, without lengths that have no plan."""
        runs: list[tuple[str, list[Lengths]]] = []
        for lengths, structure in self._structures().items():
            if not runs or runs[-1][0] != structure:
                runs.append((structure, []))
            runs[-1][1].append(lengths)
        return [run for structure, run in runs if structure]

    def _between_unlike(self) -> list[Lengths]:
        """Return lengths between neighbours of different structure."""
        structures = self._structures()
        found: list[Lengths] = []
        for (low,), (high,) in zip(structures, [*structures][1:]):
            if structures[(low,)] != structures[(high,)]:
                quarters = {low + (high - low) * part // 4 for part in (1, 2, 3)}
                found += [(length,) for length in sorted(quarters) if low < length < high]
        return found

    def _more_inside(self, low: Lengths, high: Lengths) -> list[Lengths]:
        """Return as many further lengths inside a bracket as a fit needs."""
        (first,), (last,) = low, high
        known = sum(low <= lengths <= high for lengths in self._known)
        unknown = [length for length in range(first, last + 1) if (length,) not in self._known]
        wanted = min(max(IN_A_BRACKET - known, 0), len(unknown))
        return [(length,) for length in self._numbers.sample(unknown, wanted)]

    def _bracket(self, low: Lengths, high: Lengths) -> Bracket:
        inside = sorted(lengths for lengths in self._known if is_between(low, lengths, high))
        whole = 1
        for first, last in zip(low, high):
            whole *= last - first + 1
        apart = [lengths for lengths in inside if lengths not in (low, high)]
        return Bracket(
            low=low,
            high=high,
            modules={lengths: self._known[lengths] for lengths in inside},
            held_out=frozenset(self._numbers.sample(apart, len(apart) // HELD_OUT)),
            complete=len(inside) == whole,
            loose=self._loose(),
        )

    def _trouble(self, bracket: Bracket) -> str:
        """Return the reason why the bracket has no plan; empty if it has one."""
        modules = [*bracket.modules.values()]
        if any(not module.forms for module in modules):
            return "the kernels' module fails at some lengths"
        try:
            sized_forms(bracket, self._ranges, Kernels(modules, self._ranges, bracket.loose))
        except (Unfitted, NotEmitted) as reason:
            return str(reason)
        return ""


def _whole_arguments(tape: Tape) -> Iterator[tuple[int, str, str, int]]:
    """Yield the integers among compile-time arguments: number of the launch, kernel, name and value."""
    for number, launch in enumerate(tape.launches()):
        for choice in launch.choices:
            for name, value in choice.arguments:
                plain = value_from_json(value.value) if isinstance(value, Constexpr) else None
                if type(plain) is int:
                    yield number, choice.kernel, name, plain
