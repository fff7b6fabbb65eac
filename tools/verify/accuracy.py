"""May this output stand for the original's? The yardstick is the original's own error against a float64 truth.

Three measures of an error field e against truth t, since each is blind to something:

    l2      |e|₂ / |t|₂                          sees what is wrong everywhere, blind to one bad element of a million
    max     max|e| / max|t|                      sees one bad element, blind among outputs of very different size
    small   mean of min(1, |e| / (|t| + s))      sees lost small values behind large ones; s is far below their scale

A candidate may reach a small factor times the larger of two errors: the original's, and what float32 arithmetic that
rounds up or down at random does to the exact answer (`nudged`, see `random_rounding.py`: without it an original that is
lucky where large values cancel would set a limit no float32 kernel can meet). Both are draws from what rounding may do,
and where few elements bear them, or one sum that all elements share, a draw says little: there more are drawn, and
further is allowed. A floor of a few units in the last place covers originals that are exact; in float32 it is taken at
the scale of the outputs on the inputs as given. Lower precision than the original's is hundreds of units away in
float32. In half precision it is a factor of two or three: there an honest kernel computes in float32 and rounds once,
and errs exactly as the original does.

Integers and booleans must equal the truth, the original, or what random rounding makes of them, one by one; where such
flips are rare accidents, a few more of the same size are let pass.
An element that magnifies rounding widens the limit for its whole output in that case; others are there to see the rest.
Not covered: whether two different answers are both right (ties beyond first-index, sets); that takes a verifier.
"""

from __future__ import annotations

import dataclasses
import math
import statistics

import torch

from triton_agent.tools.results import Finding


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """What a candidate may err, by the kind of output dtype."""

    factor: dict[str, float]
    """How many times the yardstick, by measure. An extreme value varies more between honest kernels than a mean."""
    units: dict[str, float]
    """Units of roundoff that are always allowed."""
    at_given_scale: bool
    """Whether those are taken at the scale of the outputs as given, for distributions that make outputs tiny."""


WIDE = Allowance(
    factor={"l2": 4.0, "small": 4.0, "max": 6.0}, units={"l2": 16.0, "small": 128.0, "max": 16.0}, at_given_scale=True
)
"""float32 and float64: an answer is a chain of roundings, and a CPU's original may sum in double where a GPU's does not
(a scan of a thousand elements is then 14 units apart). The next lower precision is over 4,000 units off."""

NARROW = Allowance(
    factor={"l2": 1.5, "small": 1.5, "max": 2.0}, units={"l2": 1.02, "small": 4.0, "max": 1.02}, at_given_scale=False
)
"""Half precision and less: the one rounding at the end, which no answer can avoid."""

COARSE: dict[str, float] = {"l2": 1.5, "small": 1.5, "max": 2.0}
"""How many times the error of the coarsest way that is right (see `tensor_cores.py`): one known step for each operand,
to which little is to be added. bfloat16 operands err three times as much."""

MISMATCH_FACTOR = 3.0
"""How many times the elements that the original or random rounding flips may differ, in integer outputs."""
RARE_FLIPS = 0.01
"""Up to this share, flips are accidents of rounding. Beyond, they are ties in the data, and each of them is known."""

MOST_FOR_MORE = 1 << 24
"""Elements of an output beyond which more draws, all of which are kept, would take too much memory."""
NEGLIGIBLE = 0.03
"""Spacings of the output's own numbers that are nothing beside its last rounding."""
AGREE = 1.25
"""Two draws that err alike within this factor have told how large such errors are, if nothing below speaks against."""
ALIKE = 0.3
"""Cosine between two error fields beyond which a rounding that many elements share bears them."""
BY_CHANCE = 4.0
"""So many standard deviations more than expected an honest error may be, for its number of independent parts."""
ONE_PART = 0.75
"""Standard deviation over mean of the size of a single normal number."""

LOOKS_LIKE_PRECISION = 0.03
"""Relative l2 error up to which a refused answer is called imprecise rather than wrong; bfloat16 chains reach 0.02."""
A_FEW = 0.001
"""The share of an output's elements that bears at most half of the squared error where all of them are imprecise."""
FEW_ELEMENTS = 64
"""In smaller outputs nothing tells an imprecise element from a wrong one."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Yardstick:
    """What one output is measured against."""

    truth: torch.Tensor
    """float64 for floats, the exact dtype for integers."""
    original: torch.Tensor
    """In its own dtype."""
    nudged: tuple[torch.Tensor, ...]
    """What arithmetic that rounds at random makes of it, each in ways of its own; empty where it is not known."""
    scale: float
    """Root mean square of this output on the inputs as given; 0 where unknown."""
    coarse: tuple[torch.Tensor, ...] = ()
    """What the original makes of it in the coarsest way that the user allows, where that is not how it was run."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The measure that came closest to its limit, and what it means."""

    metric: str
    error: float
    original_error: float
    limit: float
    finding: Finding | None
    detail: str
    """For the author, where it failed: worst element, share of elements."""

    @property
    def ok(self) -> bool:
        return self.finding is None


def left_to_chance(truth: torch.Tensor, nudged: list[torch.Tensor], dtype: torch.dtype) -> bool:
    """Whether these few roundings do not tell how large such errors are, and more might; the output is of `dtype`."""
    if not nudged or not 0 < truth.numel() <= MOST_FOR_MORE:
        return False
    errors = [(other - truth).nan_to_num(posinf=0.0, neginf=0.0).reshape(-1) for other in nudged]
    sizes = [float(error.norm()) for error in errors]
    if max(sizes) <= NEGLIGIBLE * torch.finfo(dtype).eps * float(truth.nan_to_num(posinf=0.0, neginf=0.0).norm()):
        return False
    return (
        truth.numel() < FEW_ELEMENTS
        or max(sizes) > AGREE * min(sizes)
        or min(map(_bearers, errors)) < FEW_ELEMENTS
        or abs(float(errors[0] @ errors[-1])) > ALIKE * sizes[0] * sizes[-1]
    )


def _bearers(error: torch.Tensor) -> float:
    """How many elements bear an error: all of them where they err alike, one where it has it all."""
    largest = error.abs().max()
    squares = (error / largest).square() if largest > 0 else torch.ones_like(error)
    return float(squares.sum().square() / squares.square().sum())


def judge(candidate: torch.Tensor, yard: Yardstick) -> Judgement:
    """Measure one output; shape and dtype are already known to agree."""
    if candidate.numel() == 0:
        return Judgement(metric="l2", error=0.0, original_error=0.0, limit=0.0, finding=None, detail="")
    if candidate.is_complex():
        real = dataclasses.replace(
            yard,
            truth=torch.view_as_real(yard.truth.to(torch.complex128)),
            original=torch.view_as_real(yard.original),
            nudged=tuple(torch.view_as_real(other.to(torch.complex128)) for other in yard.nudged),
            coarse=tuple(torch.view_as_real(other.to(torch.complex128)) for other in yard.coarse),
        )
        return judge(torch.view_as_real(candidate), real)
    if candidate.is_floating_point():
        return _judge_floats(candidate, yard)
    return _judge_exact(candidate, yard)


def _judge_floats(candidate: torch.Tensor, yard: Yardstick) -> Judgement:
    got, original, truth = candidate.double(), yard.original.double(), yard.truth.double()
    representable = truth.to(candidate.dtype).double()
    odd = _non_finite_fault(got, original, representable)
    if odd is not None:
        return odd
    both = torch.isfinite(got) & torch.isfinite(original) & torch.isfinite(representable)
    if not bool(both.any()):
        return Judgement(metric="l2", error=0.0, original_error=0.0, limit=0.0, finding=None, detail="")
    nudged, coarse = (
        [torch.where(torch.isfinite(other.double()), other.double(), truth)[both] for other in others]
        for others in (yard.nudged, yard.coarse)
    )
    worst = _worst_measure(got[both], original[both], nudged, coarse, truth[both], yard.scale, candidate.dtype)
    if worst.error <= worst.limit:
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
    return Judgement(
        metric="max", error=math.inf, original_error=0.0, limit=0.0, finding=Finding.NON_FINITE, detail=detail
    )


def _worst_measure(
    got: torch.Tensor,
    original: torch.Tensor,
    nudged: list[torch.Tensor],
    coarse: list[torch.Tensor],
    truth: torch.Tensor,
    scale: float,
    dtype: torch.dtype,
) -> Judgement:
    """The measure in which the candidate comes closest to, or furthest beyond, what it is allowed."""
    unit = torch.finfo(dtype).eps / 2
    peak = float(truth.abs().max())
    norm_scale = peak if peak > 0 else 1.0  # keeps squares of 1e200 and of 1e-200 in range
    t = truth / norm_scale
    fields = (got, original, *nudged, *coarse)
    errors = [(field - truth).abs() / norm_scale for field in fields]
    rms = float(t.square().mean().sqrt())
    allowance = WIDE if dtype.itemsize >= 4 else NARROW
    given = max(rms, scale / norm_scale) if allowance.at_given_scale else rms
    stretch = {"l2": given / rms if rms else 1.0, "max": max(1.0, given), "small": 1.0}
    count: float = t.numel()
    if count > MOST_FOR_MORE:
        count = min(map(_bearers, errors[2 : 2 + len(nudged)]), default=count)
    candidates = []
    for metric, factor in allowance.factor.items():
        own, its, *others = (_measure(metric, error, t, rms, given, unit) for error in errors)
        moved, coarser = others[: len(nudged)], others[len(nudged) :]
        limit = max(
            factor * its,
            factor * _chance(count, moved) * max(moved, default=0.0),
            COARSE[metric] * max(coarser, default=0.0),
            allowance.units[metric] * unit * stretch[metric],
        )
        candidates.append((own / limit, metric, own, its, limit))
    _, metric, error, original_error, limit = max(candidates)
    return Judgement(metric=metric, error=error, original_error=original_error, limit=limit, finding=None, detail="")


def _chance(count: float, errors: list[float]) -> float:
    """How many times its usual size an honest error may have by chance: once for many parts, five times for one.

    What sums share one rounding is not known; that errors scatter from one draw to the next tells.
    """
    shared = 0.0
    if len(errors) > 2 and max(errors) > 0:
        shared = statistics.stdev(errors) / statistics.fmean(errors) / ONE_PART
    return 1.0 + BY_CHANCE * max(1.0 / math.sqrt(count), min(1.0, shared))


def _measure(metric: str, error: torch.Tensor, t: torch.Tensor, rms: float, given: float, unit: float) -> float:
    if metric == "l2":
        return float(error.square().mean().sqrt()) / (rms if rms else 1.0)
    if metric == "max":
        return float(error.max())
    small = math.sqrt(unit) * given
    return float((error / (t.abs() + small + 1e-300)).clamp(max=1.0).mean())


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
    """Whether many elements bear the error, as rounding leaves it, and not a few that are plainly wrong.

    Counting the elements beyond the limit would not tell: of an imprecise output as few as one may be.
    """
    if error.numel() < FEW_ELEMENTS:
        return True
    squares = error.reshape(-1).square()
    worst = squares.topk(max(1, round(A_FEW * squares.numel()))).values
    return float(worst.sum()) <= 0.5 * float(squares.sum())


def _judge_exact(candidate: torch.Tensor, yard: Yardstick) -> Judgement:
    """Every element has to be the truth, or what the original or random rounding makes of it there."""
    truth = yard.truth.to(candidate.dtype)
    others = [yard.original, *(other.to(candidate.dtype) for other in (*yard.nudged, *yard.coarse))]
    flips = torch.stack([other != truth for other in others]).any(0)
    wrong = candidate != truth
    for other in others:
        wrong &= candidate != other
    error, allowed = float(wrong.sum()), _allowed_mismatches(candidate, truth, flips, others)
    judgement = Judgement(
        metric="mismatches",
        error=error,
        original_error=float((yard.original != truth).sum()),
        limit=allowed,
        finding=None,
        detail="",
    )
    if error <= allowed:
        return judgement
    where = _index(wrong, int(wrong.reshape(-1).to(torch.uint8).argmax()))
    detail = (
        f"{_share(wrong)} of the elements; first at {where}: "
        f"got {candidate[where].item()}, expected {truth[where].item()}"
    )
    return dataclasses.replace(judgement, finding=Finding.VALUES, detail=detail)


def _allowed_mismatches(
    candidate: torch.Tensor, truth: torch.Tensor, flips: torch.Tensor, others: list[torch.Tensor]
) -> float:
    """A rounding not among those tried flips about as many elements, as far as those; none where flips are common."""
    count = int(flips.sum())
    if not count or count > RARE_FLIPS * truth.numel():
        return 0.0
    reach = max(float((other.double() - truth.double()).abs().max()) for other in others)
    if float((candidate.double() - truth.double()).abs().max()) > reach:
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
