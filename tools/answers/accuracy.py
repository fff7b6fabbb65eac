"""Judge one output. The yardstick is the reference's own error against a float64 truth.

Three measures of an error field e against truth t are taken, since each is blind to something:

    l2      |e|₂ / |t|₂                          sees what is wrong everywhere, blind to one bad element of a million
    max     max|e| / max|t|                      sees one bad element, blind among outputs of very different size
    small   mean of min(1, |e| / (|t| + s))      sees lost small values behind large ones; s is far below their scale

A candidate may reach a small factor times the larger of two errors: the reference's, and what float32 arithmetic that
rounds up or down at random does to the exact answer (`nudged`, see `random_rounding.py`: without it a reference that is
lucky where large values cancel would set a limit no float32 kernel can meet). Both are draws from what rounding may do,
and where few elements bear them, or one sum that all elements share, a draw says little: there more are drawn, and
further is allowed. A floor of a few units in the last place covers references that are exact; in float32 it is taken at
the scale of the outputs on the inputs as given. Lower precision than the reference's is hundreds of units away in
float32. In half precision it is a factor of two or three: there an honest kernel computes in float32 and rounds once,
and errs exactly as the reference does. Where that rounds on the way as well, as a chain of operators does, the floor of
the largest error is two roundings.

Integers and booleans must equal the truth, the reference, or what random rounding makes of them, one by one; where such
flips are rare accidents, a few more of the same size are let pass. Where a value jumps within the reference's own error
(a rounding, a cast, a tie), whatever lies between the two sides is right, in floats as well (`jumps.py`).
An element that magnifies rounding widens the limit for its whole output in that case; others are there to see the rest.
Not covered: whether two different answers are both right (ties beyond first-index, sets); that takes a verifier.
"""

from __future__ import annotations

import dataclasses
import math

import torch

from triton_agent.tools.results import Finding
from triton_agent.tools.truth.yardstick import FEW_ELEMENTS, METRICS, MISMATCH_FACTOR, RARE_FLIPS, Limits, Yardstick

LOOKS_LIKE_PRECISION = 0.03
"""Relative l2 error up to which a refused answer is called imprecise rather than wrong; bfloat16 chains reach 0.02."""
A_FEW = 0.001
"""The share of an output's elements that bears at most half of the squared error where all of them are imprecise."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The measure that came closest to its limit, and the finding if it is beyond."""

    metric: str
    error: float = 0.0
    original_error: float = 0.0
    limit: float = 0.0
    finding: Finding | None = None
    detail: str = ""
    """For the author of a failed candidate: the worst element, the share of wrong ones."""

    @property
    def ok(self) -> bool:
        return self.finding is None


NOTHING_TO_MEASURE = Judgement(metric="l2")


def judge(candidate: torch.Tensor, yard: Yardstick) -> Judgement:
    """Measure one output, wherever it is; shape and dtype are already known to agree."""
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
        odd = _non_finite_fault(got, yard.original.double(), truth.to(candidate.dtype).double())
        if odd is not None:
            return odd
        if limits is None:
            return NOTHING_TO_MEASURE
        settled = yard.settled()
        *errors, _ = limits.measure(got[settled], truth[settled]).tolist()
        return _verdict(errors, limits, got, truth)
    return _judge_exact(candidate, yard)


def _verdict(errors: list[float], limits: Limits, got: torch.Tensor, truth: torch.Tensor) -> Judgement:
    """By the measure in which the candidate comes closest to, or furthest beyond, what it is allowed."""
    _, metric, error = max((own / limits.allowed[metric], metric, own) for metric, own in zip(METRICS, errors))
    own, allowed = limits.of_original[metric], limits.allowed[metric]
    worst = Judgement(metric=metric, error=error, original_error=own, limit=allowed)
    if error <= worst.limit:
        return worst
    finding, detail = _explain(got, truth, worst)
    return dataclasses.replace(worst, finding=finding, detail=detail)


def _non_finite_fault(got: torch.Tensor, original: torch.Tensor, representable: torch.Tensor) -> Judgement | None:
    """Where original or truth is not finite, the candidate must agree with one of them; elsewhere it must be finite."""

    def same(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return (torch.isnan(a) & torch.isnan(b)) | (a == b)

    finite = torch.isfinite(representable)
    settled = finite & torch.isfinite(original)
    better = finite & torch.isfinite(got) & ((got - representable).abs() <= 0.01 * representable.abs())
    fault = torch.where(settled, ~torch.isfinite(got), ~(same(got, original) | same(got, representable) | better))
    if not bool(fault.any()):
        return None
    where = _index(fault, int(fault.reshape(-1).to(torch.uint8).argmax()))
    detail = (
        f"{_share(fault)} of the elements; first at {where}: got {got[where].item():g}, "
        f"expected {representable[where].item():g}"
    )
    return Judgement(metric="max", error=math.inf, finding=Finding.NON_FINITE, detail=detail)


def _explain(got: torch.Tensor, truth: torch.Tensor, worst: Judgement) -> tuple[Finding, str]:
    error = torch.nan_to_num((got - truth).abs(), nan=0.0, posinf=0.0)
    where = _index(error, int(error.reshape(-1).argmax()))
    peak = float(truth.abs().nan_to_num(posinf=0.0).max()) or 1.0
    wrong = error > worst.limit * peak if worst.metric != "small" else error > 0.1 * truth.abs()
    l2 = float(error.norm() / truth.nan_to_num(posinf=0.0, neginf=0.0).norm().clamp(min=1e-300))
    detail = (
        f"{_share(wrong)} of the elements; worst at {where}: "
        f"got {got[where].item():.7g}, expected {truth[where].item():.7g}"
    )
    if l2 <= LOOKS_LIKE_PRECISION and _spread_out(error) and float(error.max()) <= 0.1 * peak:
        return Finding.PRECISION, detail
    return Finding.VALUES, detail


def _spread_out(error: torch.Tensor) -> bool:
    """Return whether many elements bear the error, as rounding leaves it, and not a few that are plainly wrong.

    Counting the elements beyond the limit would not tell: in an imprecise output there may be only one.
    """
    if error.numel() < FEW_ELEMENTS:
        return True
    squares = error.reshape(-1).square()
    worst = squares.topk(max(1, round(A_FEW * squares.numel()))).values
    return float(worst.sum()) <= 0.5 * float(squares.sum())


def _judge_exact(candidate: torch.Tensor, yard: Yardstick) -> Judgement:
    """Every element has to be the truth, or what the reference or random rounding makes of it there."""
    truth, flips = yard.truth.to(candidate.dtype), yard.flips
    wrong = candidate != truth
    if flips.count:
        for other in yard.alternatives():
            wrong &= candidate != other
    if yard.span is not None:
        wrong &= ~yard.may_stand(candidate.double())
    error, allowed = float(wrong.sum()), _allowed_mismatches(candidate, yard)
    judgement = Judgement(metric="mismatches", error=error, original_error=float(flips.of_original), limit=allowed)
    if error <= allowed:
        return judgement
    where = _index(wrong, int(wrong.reshape(-1).to(torch.uint8).argmax()))
    detail = (
        f"{_share(wrong)} of the elements; first at {where}: "
        f"got {candidate[where].item()}, expected {truth[where].item()}"
    )
    return dataclasses.replace(judgement, finding=Finding.VALUES, detail=detail)


def _allowed_mismatches(candidate: torch.Tensor, yard: Yardstick) -> float:
    """A rounding not among those tried flips about as many elements, as far as those.

    None do where flips are common, nor where a span says element by element what rounding may do.
    """
    count = yard.flips.count
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


def _share(mask: torch.Tensor) -> str:
    wrong, total = int(mask.sum()), mask.numel()
    return f"{wrong} of {total}" if total < 1000 else f"{100 * wrong / total:.3g}%"
