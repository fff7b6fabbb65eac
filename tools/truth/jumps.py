"""Elements whose value jumps within the reference's own error, so that no single answer can be required.

`round`, `floor`, a comparison, a cast to integers or the position of a maximum turn one rounding error into a whole
step if their operand lies on a boundary. The side that an honest kernel lands on is chance, and two draws of random
rounding rarely hit the same element. The operands of such operators are therefore compared between the reference, the
truth and the nudged runs:

    equal in every element      nothing was rounded before; the operand is decided, and is kept in nudged runs
    different somewhere         the operand is moved up and down by a small multiple of that error, in two more runs in
                                float64; any value between the two results is accepted

An operator that rounds to a grid divides first, which is exact only if the step is a power of two. Its operand is moved
wherever the quotient is rounded, even if the operand itself is not.

Where both sides of a comparison are equal in all of these runs, they are so by construction, like the largest element
and the maximum, or a number and itself. Then the comparison is decided, too.

Not covered: operators that torch runs in one piece with a rounding inside (quantised matrix products), and jumps in
Python code that reads values.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from triton_agent.tools.dispatch_modes import UncompiledMode
from triton_agent.tools.graph.operators import ORDERING, bare_name, functional_name
from triton_agent.tools.truth.random_rounding import Moved

TO_A_GRID = frozenset(
    {"fake_quantize_per_tensor_affine", "fake_quantize_per_tensor_affine_cachemask", "quantize_per_tensor"}
    | {"fake_quantize_per_channel_affine", "fake_quantize_per_channel_affine_cachemask", "quantize_per_channel"}
    | {"_fake_quantize_per_tensor_affine_cachemask_tensor_qparams"}
)
"""Operators that round a quotient by a step and add a zero point, their next two arguments."""
ROUNDING = TO_A_GRID | frozenset(
    {"round", "floor", "ceil", "trunc", "frac", "sign", "sgn", "heaviside", "bucketize", "searchsorted", "histc"}
    | {"floor_divide", "remainder", "fmod"}
)
SAMPLING, NEAREST = frozenset({"grid_sampler_2d", "grid_sampler_3d"}), 1
"""Operators that take pixels at places, and the mode in which they take the nearest one."""
STEP_OF_PLACES = 2.0**-7
"""Multiples of this become a pixel's number without rounding."""
COMPARING = frozenset({"gt", "ge", "lt", "le", "eq", "ne", "threshold", "hardshrink"})
BETWEEN_TWO, TRUE_FOR_EQUALS = COMPARING - {"threshold", "hardshrink"}, frozenset({"ge", "le", "eq"})
"""Comparisons of two numbers, and those of them that are true for equal numbers."""
PICKING = ORDERING | {"argmax", "argmin", "max", "min"}
"""Operators that return positions. Only differences matter, so their operands are moved up and down, in turns."""
EXTREMES = frozenset({"argmax", "argmin", "max", "min"})
WHOLE = frozenset({torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64})

REACH = 2.0
"""How far another honest kernel may err at an element, as a multiple of the errors seen there."""
USUAL_REACH = 4.0
"""How far another honest kernel may err at any element, as a multiple of the RMS error over all elements."""
UNITS = 16.0
"""Additional error in units of roundoff of the operand, for the arithmetic of other machines."""
JUMP = 1e-4
"""If a few roundings of an operand move an element by more than this share of the output's magnitude, the element has
jumped. The limit is at least eight units of the output's dtype."""
RARE = 0.1
"""Largest share of an output that may be accepted freely. If more elements jump, the movement widens the limits
instead. An operand that is exact except for this share was not rounded: the rest comes from an earlier jump."""
OUTLIER = 1024.0
"""An error above this multiple of the operand's usual error comes from an earlier operator that jumped."""
SAMPLED = 1 << 20
"""Number of elements sampled to find the usual error of an operand."""


def operands_of(operator: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the positions of the arguments at whose values this call jumps; two for a comparison of two tensors."""
    name = functional_name(bare_name(str(operator)))
    if not args or any(argument.is_out for argument in operator._schema.arguments):
        return ()
    positions = (1,) if name == "searchsorted" or name in SAMPLING else (0, 1) if name in COMPARING else (0,)
    rounds = name in ROUNDING or name in COMPARING or name in PICKING
    rounds |= name == "div" and kwargs.get("rounding_mode") is not None
    rounds |= name in SAMPLING and args[2:3] == (NEAREST,)
    rounds |= name == "_to_copy" and kwargs.get("dtype") in WHOLE
    return tuple(at for at in positions if len(args) > at and _is_real(args[at])) if rounds else ()


def _is_real(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point() and bool(value.numel())


def _rounded_within(value: torch.Tensor, args: Sequence[Any], *, by_channel: bool) -> torch.Tensor | None:
    """Return how far the operand of an operator that rounds to a grid may be off for the quotient's own rounding.

    None if the quotient and the sum with the zero point are exact everywhere.
    """
    step, zero = (torch.as_tensor(each, device=value.device, dtype=torch.float64) for each in args[1:3])
    if by_channel:
        shape = [-1 if dim == args[3] % value.dim() else 1 for dim in range(value.dim())]
        step, zero = step.reshape(shape), zero.reshape(shape)
    wide = value.double()
    level = wide / step + zero
    exact = (torch.frexp(step).mantissa == 0.5) & (level.float() == level)
    size = wide.nan_to_num(0.0, 0.0, 0.0).abs() + (zero * step).abs()
    within = (UNITS * torch.finfo(torch.float32).eps * size).masked_fill(exact, 0.0)
    return within if bool((within > 0).any()) else None


class Operands(UncompiledMode):  # type: ignore[no-untyped-call]
    """Records the operands of operators that jump, in order, and can replace them."""

    def __init__(
        self,
        decided: Mapping[int, torch.Tensor] | None = None,
        shifts: Mapping[int, torch.Tensor] | None = None,
        kept: Mapping[int, torch.Tensor] | None = None,
    ) -> None:
        """`kept`: where comparisons of moved operands end as those of equal ones, by the first operand."""
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen: list[torch.Tensor] = []
        self.ties: dict[int, torch.Tensor] = {}
        """Where the two sides of a comparison were equal, by the first operand."""
        self.within: dict[int, torch.Tensor] = {}
        """How far operands may be off for a rounding within their operator."""
        self._decided = decided or {}
        self._shifts = shifts or {}
        self._kept = kept or {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = bare_name(str(func))
        given, first = list(args), len(self.seen)
        positions = operands_of(func, args, kwargs)
        for position in positions:
            number = len(self.seen)
            self.seen.append(args[position].detach().clone())
            if functional_name(name) in TO_A_GRID:
                within = _rounded_within(args[position], args, by_channel="per_channel" in name)
                if within is not None:
                    self.within[number] = within
            sign = -1 if position and functional_name(name) in COMPARING else 1  # move the two sides apart
            turns = functools.partial(_turns, func, args, kwargs) if functional_name(name) in PICKING else None
            instead = self._instead(number, args[position], sign, turns)
            if instead is not None and number in self._decided and functional_name(name) in SAMPLING:
                on_grid = instead == (instead / STEP_OF_PLACES).round() * STEP_OF_PLACES
                instead = torch.where(on_grid, instead, args[position])  # others are rounded on the way to a pixel
            if instead is not None and functional_name(name) == name:  # an in-place operand must stay
                given[position] = instead
        result = func(*given, **kwargs)
        if positions and name in BETWEEN_TWO:
            self.ties[first] = torch.eq(args[0], args[1])
            kept = self._kept.get(first)
            if kept is not None and kept.shape == result.shape:
                result = torch.where(kept, name in TRUE_FOR_EQUALS, result)
        return result

    def _instead(
        self, number: int, value: torch.Tensor, sign: int, turns: Callable[[], torch.Tensor] | None
    ) -> torch.Tensor | None:
        if number in self._decided:
            exact = self._decided[number]
            return exact.to(value) if exact.shape == value.shape else None
        shift = self._shifts.get(number)
        if shift is None or shift.shape != value.shape:
            return None
        return value + (shift * turns() if turns is not None else sign * shift).to(value)


def argument_of(func: Any, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return an argument of an operator, given by position or by name, or its default; None if it has no such one."""
    for place, argument in enumerate(func._schema.arguments):
        if argument.name == name:
            return args[place] if place < len(args) else kwargs.get(name, argument.default_value)
    return None


def _turns(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> torch.Tensor:
    """Return 1 and -1 such that elements next to each other in size move in opposite directions.

    So in one of two runs with opposite signs the largest element and the second one change places, as do all that are
    as close in a sorted row.
    """
    value, dim, name = args[0], argument_of(func, "dim", args, kwargs), functional_name(bare_name(str(func)))
    is_whole = not isinstance(dim, int) or not value.dim()
    rows = value.reshape(1, -1) if is_whole else value.movedim(dim, -1)
    turns = torch.ones_like(rows)
    if name in EXTREMES:
        extreme = rows.argmin if name.endswith("min") else rows.argmax
        turns.scatter_(-1, extreme(-1, keepdim=True), -1.0)
    else:
        odd = torch.arange(rows.shape[-1], device=rows.device).remainder(2).mul(-2).add(1).to(rows)
        turns.scatter_(-1, rows.argsort(-1), odd.expand(rows.shape))
    return turns.reshape(value.shape) if is_whole else turns.movedim(-1, dim)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AtJumps(Moved):
    """A run in float64 in which the operands of jumping operators are recorded, and replaced."""

    inner: Moved = dataclasses.field(default_factory=Moved)
    decided: Mapping[int, torch.Tensor] = dataclasses.field(default_factory=dict)
    shifts: Mapping[int, torch.Tensor] = dataclasses.field(default_factory=dict)
    kept: Mapping[int, torch.Tensor] = dataclasses.field(default_factory=dict)
    """Where comparisons of moved operands end as those of equal ones, by the first operand."""
    seen: list[torch.Tensor] = dataclasses.field(default_factory=list)
    """The recorded operands; filled by the run."""
    ties: dict[int, torch.Tensor] = dataclasses.field(default_factory=dict)
    """Where both sides of comparisons were equal; filled by the run."""

    def __call__(self, value: Any) -> Any:
        return value if type(self.inner) is Moved else self.inner(value)

    @contextlib.contextmanager
    def arithmetic(self) -> Iterator[None]:
        operands = Operands(self.decided, self.shifts, self.kept)
        with self.inner.arithmetic(), operands:
            yield
        self.seen[:] = operands.seen
        self.ties.update(operands.ties)


def decided_calls(original: Sequence[torch.Tensor], truth: Sequence[torch.Tensor]) -> dict[int, torch.Tensor]:
    """Return the calls whose operand the reference computed without rounding, with that operand."""
    pairs = enumerate(zip(original, truth))
    return {k: exact for k, (own, exact) in pairs if own.shape == exact.shape and _equal(own, exact)}


def _equal(own: torch.Tensor, exact: torch.Tensor) -> bool:
    wide = own.double()
    return bool(((wide == exact) | (torch.isnan(wide) & torch.isnan(exact))).all())


def ties_in_all(runs: Sequence[Mapping[int, torch.Tensor]]) -> dict[int, torch.Tensor]:
    """Return where both sides of comparisons were equal in each of these runs, which have to be of equal shapes."""
    first, *others = runs
    return {
        number: functools.reduce(torch.logical_and, (run[number] for run in others), ties)
        for number, ties in first.items()
        if all(number in run and run[number].shape == ties.shape for run in others)
    }


def margins(
    truth: Sequence[torch.Tensor],
    others: Sequence[Sequence[torch.Tensor]],
    decided: Mapping[int, Any],
    within: Mapping[int, torch.Tensor],
    unit: float,
) -> dict[int, torch.Tensor]:
    """Return how far an honest kernel's operand may be off, for each call and element.

    `within` is how far for a rounding within the operator, which holds for decided operands, too.
    """
    found = {k: added for k, added in within.items() if k < len(truth) and added.shape == truth[k].shape}
    for k, exact in enumerate(truth):
        runs = [run[k].double() for run in others if len(run) > k and run[k].shape == exact.shape]
        if k in decided or not runs:
            continue
        errors = torch.stack([(run - exact).abs().nan_to_num_(0.0, 0.0, 0.0) for run in runs])
        worst = errors.amax(0)
        size = exact.abs().nan_to_num(0.0, 0.0, 0.0)
        if float((worst > 0).double().mean()) <= RARE:
            # An error caused by an earlier jump is not counted again: it follows when the earlier operand is moved.
            followed = worst > OUTLIER * unit * (size + size.square().mean().sqrt())
            margin = REACH * worst.masked_fill(followed, 0.0)
        else:
            sample = worst.reshape(-1)[:: max(1, worst.numel() // SAMPLED)]
            errors = errors.clamp(
                max=OUTLIER * (float(sample[sample > 0].median()) if bool((sample > 0).any()) else float(worst.max()))
            )
            usual = errors.square().mean().sqrt()
            margin = REACH * errors.amax(0) + USUAL_REACH * usual + UNITS * unit * size
        found[k] = torch.maximum(margin, found[k]) if k in found else margin
    return found


Span = tuple[torch.Tensor, torch.Tensor]
"""The lowest and highest accepted value of each element, in float64, in place of the truth."""


def span_between(truth: torch.Tensor, sides: Sequence[torch.Tensor], dtype: torch.dtype) -> Span | None:
    """Return the span between two runs with moved operands; None if it is empty or covers nearly everything.

    `dtype` is that of the reference's output.
    """
    if any(side.shape != truth.shape for side in sides) or truth.is_complex() or not truth.numel():
        return None
    exact = truth.double()
    values = torch.stack([exact, *(side.double() for side in sides)])
    low, high = values.amin(0), values.amax(0)
    least = 0.0
    if dtype.is_floating_point:
        sound = exact.nan_to_num(0.0, 0.0, 0.0)
        relative = max(JUMP, 8 * torch.finfo(dtype).eps)
        least = relative * (sound.abs() + sound.square().mean().sqrt())  # type: ignore[assignment]
        low, high = low - least, high + least
        least = 3 * least
    open_ = torch.isfinite(low) & torch.isfinite(high) & (high - low > least)
    if not 0 < float(open_.double().mean()) <= RARE:
        return None
    return torch.where(open_, low, exact), torch.where(open_, high, exact)


def anything_where(differs: torch.Tensor, truth: torch.Tensor) -> Span | None:
    """Return a span that accepts any value at these elements."""
    if not bool(differs.any()):
        return None
    exact, inf = truth.double(), float("inf")
    return exact.masked_fill(differs, -inf), exact.masked_fill(differs, inf)


def joined(one: Span | None, other: Span | None) -> Span | None:
    """Return a span that accepts every value that either of them accepts."""
    if one is None or other is None:
        return one or other
    return torch.minimum(one[0], other[0]), torch.maximum(one[1], other[1])
