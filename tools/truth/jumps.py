"""Elements that no answer can be held to: those whose value jumps within the reference's own error.

`round`, `floor`, a comparison, a cast to integers or the place of a maximum turn an error of one rounding into a whole
step where their operand lies on a boundary. Which side an honest kernel lands on is chance, and two draws of random
rounding rarely hit the same element of thousands. So the operands of such operators are compared between the reference,
the truth and the nudged runs:

    equal in every element      nothing was rounded on the way; boundaries are decided, and stay so in nudged runs
    different somewhere         the operand is moved up and down by a small multiple of that error, in two more runs in
                                float64; an element may be anything between the two answers

Not covered: operators that torch runs as one piece with a rounding inside (quantised matrix products), and jumps that
Python takes by looking at values.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from triton_agent.tools.dispatch_modes import UncompiledMode
from triton_agent.tools.graph.operators import ORDERING, bare_name, functional_name
from triton_agent.tools.truth.random_rounding import Moved

ROUNDING = frozenset(
    {"round", "floor", "ceil", "trunc", "frac", "sign", "sgn", "heaviside", "bucketize", "searchsorted", "histc"}
    | {"floor_divide", "remainder", "fmod", "fake_quantize_per_tensor_affine", "fake_quantize_per_channel_affine"}
    | {"fake_quantize_per_tensor_affine_cachemask", "fake_quantize_per_channel_affine_cachemask"}
    | {"_fake_quantize_per_tensor_affine_cachemask_tensor_qparams", "quantize_per_tensor", "quantize_per_channel"}
)
COMPARING = frozenset({"gt", "ge", "lt", "le", "eq", "ne", "threshold", "hardshrink"})
PICKING = ORDERING | {"argmax", "argmin", "max", "min"}
"""A place among other elements is all that jumps; their operand is moved up and down by turns."""
WHOLE = frozenset({torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64})

REACH = 2.0
"""Times the errors seen at an element that another honest kernel may err there."""
USUAL_REACH = 4.0
"""Times the root mean square of the errors seen at all elements that another honest kernel may err at any of them."""
UNITS = 16.0
"""Roundings of the operand itself: what the arithmetic of another machine adds."""
JUMP = 1e-4
"""Of an output's size. What moves by more when an operand moves by some roundings has jumped; at least eight units of
its own dtype."""
RARE = 0.1
"""Up to this share of an output is left open; where more of it jumps, the movement widens the limits instead. An
operand that is exact but for as many elements was not rounded: where it is off, an earlier operator has jumped."""
OUTLIER = 1024.0
"""Times the usual error of an operand; an error above that comes from an earlier operator that jumped."""
SAMPLED = 1 << 20
"""Elements from which the usual error of an operand is found."""


def operands_of(operator: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[int, ...]:
    """Positions of the arguments whose values decide where this call jumps: two for a comparison of two tensors."""
    name = functional_name(bare_name(str(operator)))
    if not args or any(argument.is_out for argument in operator._schema.arguments):
        return ()
    positions = (1,) if name == "searchsorted" else (0, 1) if name in COMPARING else (0,)
    rounds = name in ROUNDING or name in COMPARING or name in PICKING
    rounds |= name == "div" and kwargs.get("rounding_mode") is not None
    rounds |= name == "_to_copy" and kwargs.get("dtype") in WHOLE
    return tuple(at for at in positions if len(args) > at and _is_real(args[at])) if rounds else ()


def _is_real(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point() and bool(value.numel())


class Operands(UncompiledMode):  # type: ignore[no-untyped-call]
    """Notes the operands of jumping operators, in order; puts others in their place where told to."""

    def __init__(self, decided: Mapping[int, torch.Tensor], shifts: Mapping[int, torch.Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen: list[torch.Tensor] = []
        self._decided = decided
        self._shifts = shifts

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = bare_name(str(func))
        given = list(args)
        for position in operands_of(func, args, kwargs):
            number = len(self.seen)
            self.seen.append(args[position].detach().clone())
            sign = -1 if position and functional_name(name) in COMPARING else 1  # or both sides would move alike
            instead = self._instead(number, args[position], sign, picking=functional_name(name) in PICKING)
            if instead is not None and functional_name(name) == name:  # else it is written in place
                given[position] = instead
        return func(*given, **kwargs)

    def _instead(self, number: int, value: torch.Tensor, sign: int, *, picking: bool) -> torch.Tensor | None:
        if number in self._decided:
            exact = self._decided[number]
            return exact.to(value) if exact.shape == value.shape else None
        shift = self._shifts.get(number)
        if shift is None or shift.shape != value.shape:
            return None
        return value + (shift * _turns(shift) if picking else sign * shift).to(value)


def _turns(like: torch.Tensor) -> torch.Tensor:
    """One and minus one at random places, the same ones each time."""
    generator = torch.Generator().manual_seed(like.numel())
    return (torch.randint(0, 2, like.shape, generator=generator) * 2 - 1).to(like)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AtJumps(Moved):
    """A run in float64 whose jumping operators are watched, and given other operands."""

    inner: Moved = dataclasses.field(default_factory=Moved)
    decided: Mapping[int, torch.Tensor] = dataclasses.field(default_factory=dict)
    shifts: Mapping[int, torch.Tensor] = dataclasses.field(default_factory=dict)
    seen: list[torch.Tensor] = dataclasses.field(default_factory=list)
    """The operands, filled by the run."""

    def __call__(self, value: Any) -> Any:
        return value if type(self.inner) is Moved else self.inner(value)

    @contextlib.contextmanager
    def arithmetic(self) -> Iterator[None]:
        operands = Operands(self.decided, self.shifts)
        with self.inner.arithmetic(), operands:
            yield
        self.seen[:] = operands.seen


def decided_calls(original: Sequence[torch.Tensor], truth: Sequence[torch.Tensor]) -> dict[int, torch.Tensor]:
    """The calls whose operand the reference computed without any rounding, with that operand."""
    pairs = enumerate(zip(original, truth))
    return {k: exact for k, (own, exact) in pairs if own.shape == exact.shape and _equal(own, exact)}


def _equal(own: torch.Tensor, exact: torch.Tensor) -> bool:
    wide = own.double()
    return bool(((wide == exact) | (torch.isnan(wide) & torch.isnan(exact))).all())


def margins(
    truth: Sequence[torch.Tensor], others: Sequence[Sequence[torch.Tensor]], decided: Mapping[int, Any], unit: float
) -> dict[int, torch.Tensor]:
    """How far an honest kernel's operand may be off, call by call and element by element."""
    found = {}
    for k, exact in enumerate(truth):
        runs = [run[k].double() for run in others if len(run) > k and run[k].shape == exact.shape]
        if k in decided or not runs:
            continue
        errors = torch.stack([(run - exact).abs().nan_to_num_(0.0, 0.0, 0.0) for run in runs])
        worst = errors.amax(0)
        size = exact.abs().nan_to_num(0.0, 0.0, 0.0)
        if float((worst > 0).double().mean()) <= RARE:
            # Moving what an earlier jump moved would count that jump twice: it follows the earlier operand by itself.
            followed = worst > OUTLIER * unit * (size + size.square().mean().sqrt())
            found[k] = REACH * worst.masked_fill(followed, 0.0)
        else:
            sample = worst.reshape(-1)[:: max(1, worst.numel() // SAMPLED)]
            errors = errors.clamp(
                max=OUTLIER * (float(sample[sample > 0].median()) if bool((sample > 0).any()) else float(worst.max()))
            )
            usual = errors.square().mean().sqrt()
            found[k] = REACH * errors.amax(0) + USUAL_REACH * usual + UNITS * unit * size
    return found


Span = tuple[torch.Tensor, torch.Tensor]
"""The lowest and the highest value that may stand in place of the truth, element by element, in float64."""


def span_between(truth: torch.Tensor, sides: Sequence[torch.Tensor], dtype: torch.dtype) -> Span | None:
    """What lies between two runs with operands moved; None where that is nothing, or nearly everything.

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
    """Return a span that leaves these places open."""
    if not bool(differs.any()):
        return None
    exact, inf = truth.double(), float("inf")
    return exact.masked_fill(differs, -inf), exact.masked_fill(differs, inf)


def joined(one: Span | None, other: Span | None) -> Span | None:
    """Return a span that leaves open what either of them does."""
    if one is None or other is None:
        return one or other
    return torch.minimum(one[0], other[0]), torch.maximum(one[1], other[1])
