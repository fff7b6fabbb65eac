"""Judges one output. The yardstick is the reference's own error against a float64 truth.

Three measures of an error field e against truth t are taken, since each has a blind spot:

    l2      |e|₂ / |t|₂                          sees errors everywhere, misses one bad element of a million
    max     max|e| / max|t|                      sees one bad element, misses small outputs beside large ones
    small   mean of min(1, |e| / (|t| + s))      sees lost small values beside large ones; s is far below their scale

A candidate's error may be a small multiple of the larger of two errors: the reference's, and that of float32 arithmetic
which rounds up or down at random (`nudged`, see `random_rounding.py`). Without the second, a reference that is lucky
where large values cancel would set a limit that no float32 kernel can meet. Both are random samples. If few elements
carry the error, or if all elements share one sum, a sample says little: then more are drawn, and the factor is larger.
A minimum of a few units in the last place covers references that are exact; in float32 it applies at the scale of the
outputs on the inputs as given. In float32, a lower precision errs by hundreds of units. In half precision it errs by a
factor of two or three: an honest kernel computes in float32 and rounds once, and errs exactly as the reference does. If
the reference also rounds intermediate values, as a chain of operators does, the minimum of the largest error is two
roundings, and four if a few large elements make up the output: they share the roundings of a few values.

Integers and booleans must equal the truth, the reference, or a randomly rounded run, element by element; if such flips
are rare, a few more of the same size are accepted. Where a value jumps within the reference's own error (a rounding, a
cast, a tie), any value between the two sides is accepted, for floats as well (`jumps.py`). An element that magnifies
rounding widens the limit of its whole output in that case; other cases judge the rest. Positions of equal elements may
be exchanged, but each must point at an element of the right size, and none may occur twice.

Not covered: other outputs with several correct answers (sets, for example); these need a verifier.
"""

from __future__ import annotations

import dataclasses
import math

import torch

from triton_agent.tools.results import Finding
from triton_agent.tools.truth.yardstick import (
    FEW_ELEMENTS,
    GROSS_SHARE,
    METRICS,
    MISMATCH_FACTOR,
    RARE_FLIPS,
    Limits,
    Yardstick,
)

LOOKS_LIKE_PRECISION = 0.03
"""Up to this relative l2 error a refused answer is called imprecise rather than wrong; bfloat16 chains reach 0.02."""
A_FEW = 0.001
"""If this share of an output's elements carries more than half of the squared error, they are wrong, not imprecise."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The measure that came closest to its limit, and the finding if it exceeds the limit."""

    metric: str
    error: float = 0.0
    original_error: float = 0.0
    limit: float = 0.0
    finding: Finding | None = None
    detail: str = ""
    """For the author of a failed candidate: the worst element, the share of wrong ones, and where they are."""
    everywhere: bool = False
    """True if the output is imprecise and most of its elements err by similar amounts, as after a rounding."""
    from_reference: bool = False
    """True if error and limit are distances from the reference's answer, not errors relative to the truth."""

    @property
    def ok(self) -> bool:
        return self.finding is None


NOTHING_TO_MEASURE = Judgement(metric="l2")


def judge(candidate: torch.Tensor, yard: Yardstick) -> Judgement:
    """Measure one output on any device; shape and dtype are known to match."""
    if candidate.numel() == 0:
        return NOTHING_TO_MEASURE
    piecewise = getattr(yard, "judge", None)
    if piecewise is not None:
        return piecewise(candidate)  # type: ignore[no-any-return]
    candidate = candidate.to(yard.truth.device)
    if candidate.is_complex():
        return judge(torch.view_as_real(candidate), yard.as_real)
    if candidate.is_floating_point():
        got, truth, limits = yard.decided(candidate.double()), yard.truth.double(), yard.limits
        if limits is not None and limits.whole:
            *errors, finite = limits.measure(got, truth).tolist()
            if finite:
                return _verdict(errors, limits, got, truth)
        representable, epsilon = truth.to(candidate.dtype).double(), torch.finfo(candidate.dtype).eps
        odd = _non_finite_fault(got, yard.original.double(), representable, yard.unbounded, epsilon)
        if odd is not None:
            return odd
        if limits is None:
            return NOTHING_TO_MEASURE
        settled = yard.settled()
        *errors, _ = limits.measure(got[settled], truth[settled]).tolist()
        return _verdict(errors, limits, got, truth)
    return _judge_exact(candidate, yard)


def _verdict(errors: list[float], limits: Limits, got: torch.Tensor, truth: torch.Tensor) -> Judgement:
    """Judge by the measure that is largest relative to its limit."""
    _, metric, error = max((own / limits.allowed[metric], metric, own) for metric, own in zip(METRICS, errors))
    own, allowed = limits.of_original[metric], limits.allowed[metric]
    worst = Judgement(metric=metric, error=error, original_error=own, limit=allowed)
    if error <= worst.limit:
        return worst
    return _explained(got, truth, worst)


def _non_finite_fault(
    got: torch.Tensor,
    original: torch.Tensor,
    representable: torch.Tensor,
    unbounded: torch.Tensor | None,
    epsilon: float,
) -> Judgement | None:
    """Where reference or truth is not finite, require agreement with one of them; elsewhere require finite values.

    In `unbounded` elements anything that is not finite agrees. If only the truth is finite, a percent of it is allowed,
    or one rounding error of the largest element: nothing tells how exact float32 arithmetic is there.
    """

    def same(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return (torch.isnan(a) & torch.isnan(b)) | (a == b)

    finite = torch.isfinite(representable)
    settled = finite & torch.isfinite(original)
    peak = torch.where(finite, representable, 0.0).abs().max()
    near = (got - representable).abs() <= 0.01 * representable.abs() + epsilon * peak
    better = finite & torch.isfinite(got) & near
    agrees = same(got, original) | same(got, representable) | better
    if unbounded is not None:
        agrees |= unbounded & ~torch.isfinite(got)
    fault = torch.where(settled, ~torch.isfinite(got), ~agrees)
    if not bool(fault.any()):
        return None
    where = _index(fault, int(fault.reshape(-1).to(torch.uint8).argmax()))
    detail = (
        f"{_share(fault)} elements; first at {where}: got {got[where].item():g}, "
        f"expected {representable[where].item():g}{_place(fault)}"
    )
    return Judgement(metric="max", error=math.inf, finding=Finding.NON_FINITE, detail=detail)


def _explained(got: torch.Tensor, truth: torch.Tensor, worst: Judgement) -> Judgement:
    """Return the judgement with its finding and what the author is told of it."""
    error = torch.nan_to_num((got - truth).abs(), nan=0.0, posinf=0.0)
    where = _index(error, int(error.reshape(-1).argmax()))
    peak = float(truth.abs().nan_to_num(posinf=0.0).max()) or 1.0
    wrong = error > worst.limit * peak if worst.metric != "small" else error > 0.1 * truth.abs()
    detail = (
        f"{_share(wrong)} elements; worst at {where}: "
        f"got {got[where].item():.7g}, expected {truth[where].item():.7g}{_place(wrong)}"
    )
    if looks_like_rounding(error, truth):
        everywhere = _is_everywhere(error[truth != 0])
        return dataclasses.replace(worst, finding=Finding.PRECISION, detail=detail, everywhere=everywhere)
    return dataclasses.replace(worst, finding=Finding.VALUES, detail=detail)


def looks_like_rounding(error: torch.Tensor, truth: torch.Tensor) -> bool:
    """Return True if an error is small beside the truth and many elements carry it."""
    finite = truth.nan_to_num(0.0, 0.0, 0.0)
    l2 = float(error.norm() / finite.norm().clamp(min=1e-300))
    peak = float(finite.abs().max()) or 1.0
    return l2 <= LOOKS_LIKE_PRECISION and _spread_out(error) and float(error.max()) <= 0.1 * peak


def _is_everywhere(error: torch.Tensor) -> bool:
    """Return True if most elements err by at least a percent of the usual error."""
    return bool(error.numel()) and float((error > 0.01 * error.square().mean().sqrt()).double().mean()) > 0.5


def _spread_out(error: torch.Tensor) -> bool:
    """Return True if many elements carry the error, as rounding does, and not a few that are plainly wrong.

    The number of elements beyond the limit would not show it: an imprecise output may have only one.
    """
    if error.numel() < FEW_ELEMENTS:
        return True
    squares = error.reshape(-1).square()
    worst = squares.topk(max(1, round(A_FEW * squares.numel()))).values
    return float(worst.sum()) <= 0.5 * float(squares.sum())


def _judge_exact(candidate: torch.Tensor, yard: Yardstick) -> Judgement:
    """Require every element to be the truth, or the value of the reference or of a randomly rounded run."""
    truth, flips = yard.truth.to(candidate.dtype), yard.flips
    wrong = candidate != truth
    if candidate.dtype is torch.bool and bool((odd := candidate.view(torch.uint8) > 1).any()):
        where = _index(odd, int(odd.reshape(-1).to(torch.uint8).argmax()))
        detail = f"{_share(odd)} of the flags are bytes other than 0 and 1, the first at {where}"
        return Judgement(metric="mismatches", error=float(odd.sum()), finding=Finding.VALUES, detail=detail)
    if flips.count:
        for other in yard.alternatives():
            wrong &= candidate != other
    if yard.span is not None:
        wrong &= ~yard.may_stand(candidate.double())
    if yard.places is not None:
        wrong |= yard.places.misplaced(candidate, truth)
    error, allowed = float(wrong.sum()), _allowed_mismatches(candidate, yard)
    judgement = Judgement(metric="mismatches", error=error, original_error=float(flips.of_original), limit=allowed)
    if error <= allowed:
        return judgement
    where = _index(wrong, int(wrong.reshape(-1).to(torch.uint8).argmax()))
    detail = (
        f"{_share(wrong)} elements; first at {where}: "
        f"got {candidate[where].item()}, expected {truth[where].item()}{_place(wrong)}"
    )
    return dataclasses.replace(judgement, finding=Finding.VALUES, detail=detail)


def _allowed_mismatches(candidate: torch.Tensor, yard: Yardstick) -> float:
    """Return the number of mismatches to accept, since other roundings than those tried flip other elements.

    None are accepted if flips are common, or if the yardstick has a span, which states what each element may be.
    """
    count = yard.flips.count
    if yard.gross_only:
        return GROSS_SHARE * yard.truth.numel()
    if yard.span is not None or not count or count > RARE_FLIPS * yard.truth.numel():
        return 0.0
    if float((candidate.double() - yard.truth.double()).abs().max()) > yard.flips.reach:
        return 0.0
    return MISMATCH_FACTOR * count


def _index(tensor: torch.Tensor, flat: int) -> tuple[int, ...]:
    index = []
    for size in reversed(tensor.shape):
        index.append(flat % size)
        flat //= size
    return tuple(reversed(index))


def _place(wrong: torch.Tensor) -> str:
    """Say which indices of a dimension hold the wrong elements, unless all do: `; all in 96 to 127 of dim 1`."""
    told = []
    for dim, size in enumerate(wrong.shape):
        found = wrong.movedim(dim, 0).reshape(size, -1).any(dim=1).nonzero().reshape(-1)
        first, last = (int(found[0]), int(found[-1])) if len(found) else (0, size - 1)
        if last - first + 1 < size:
            told.append(f"{first} to {last} of dim {dim}" if last > first else f"{first} of dim {dim}")
    return f"; all in {', '.join(told)}" if told else ""


def _share(mask: torch.Tensor) -> str:
    wrong, total = int(mask.sum()), mask.numel()
    return f"{wrong} of {total}" if total < 1000 else f"{100 * wrong / total:.3g}% of"
