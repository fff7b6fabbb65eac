"""The standard that an output is measured by: the truth and the limits of errors, independent of candidates.

A yardstick is made once for each output of a case. Its limits are computed at the first judgement, because that takes
many times longer than judging one answer. `accuracy.py` explains the measures.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import statistics
from collections.abc import Callable

import torch


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """Errors that a candidate is allowed, by kind of output dtype."""

    factor: dict[str, float]
    """Allowed multiple of the reference's error, by measure. Maxima vary more between honest kernels than means."""
    units: dict[str, float]
    """Units of roundoff that are always allowed, by measure."""
    at_given_scale: bool
    """True if the units apply at the scale of the outputs as given, for distributions that make outputs tiny."""


WIDE = Allowance(
    factor={"l2": 4.0, "small": 4.0, "max": 6.0}, units={"l2": 16.0, "small": 128.0, "max": 16.0}, at_given_scale=True
)
"""float32 and float64: an answer is a chain of roundings, and a CPU may sum in double where a GPU does not (a scan of a
thousand elements then differs by 14 units). The next lower precision is over 4,000 units off."""

NARROW = Allowance(
    factor={"l2": 1.5, "small": 1.5, "max": 2.0}, units={"l2": 1.02, "small": 4.0, "max": 1.02}, at_given_scale=False
)
"""Half precision and narrower: only the one rounding at the end is unavoidable."""

TINY_AT_MOST = 100.0
"""Limit on the outputs' scale as given, relative to their scale in a case, if the given scale counts. Inputs become a
hundred times smaller at most. An error that does not shrink with them, as in 1 - exp(x), is then a hundred times larger
relative to the output; squares and cubes shrink more, but so do their errors."""

ONCE = 0.9
"""If this share of an output is the correctly rounded truth, the reference rounds only once. If it rounds intermediate
values as well, a third of the elements are a neighbour of the rounded truth."""
ON_THE_WAY = 2.0
"""Factor on the limit of the largest error if the reference also rounds intermediate values. Its roundings may cancel
by chance, and those of a kernel that rounds other values may not."""

FEW_CARRY, FEW_SHARE = 2.0, 0.001
"""Further factor on the limits of largest and mean error then, if so small a share of the elements makes up the output,
as after a large number in one row. They share the roundings of a few values (four in a gated layer), so neither a mean
nor the reference's own error tells what others may be.
"""

COARSE: dict[str, float] = {"l2": 1.5, "small": 1.5, "max": 2.0}
"""Allowed multiple of the error of the coarsest permitted arithmetic (see `tensor_cores.py`). It rounds each operand to
a known grid, so small factors suffice. bfloat16 operands err three times as much."""

MISMATCH_FACTOR = 3.0
"""In integer outputs: allowed mismatches as a multiple of the elements that the reference or random rounding flips."""
RARE_FLIPS = 0.01
"""Largest share of integer elements that rounding flips by accident. If more are flipped, the data have ties, and only
the flipped elements may differ."""

SAME_SIZE = 1e-6
"""Relative difference up to which two sorted elements count as equal, so that their positions may be exchanged."""
MOST_FOR_MORE = 1 << 24
"""Number of elements of an output from which additional draws, all of which are kept, would take too much memory."""
NEGLIGIBLE = 0.03
"""Errors below this fraction of the output's spacing are negligible compared with its final rounding."""
AGREE = 1.25
"""If the errors of two draws agree within this factor, they are typical, unless another test disagrees."""
ALIKE = 0.3
"""Cosine between two error fields above which the errors come from a rounding that many elements share."""
BY_CHANCE = 4.0
"""Standard deviations that an honest error may exceed its mean by, given its number of independent parts."""
ONE_PART = 0.75
"""Standard deviation over mean of the absolute value of a normal number."""

FEW_ELEMENTS = 64
"""In smaller outputs an imprecise element cannot be distinguished from a wrong one."""

METRICS = ("l2", "max", "small")
GROSS = {"l2": 0.5, "max": math.inf, "small": 0.5}
"""Limits, by measure, where only gross errors are refused."""
GROSS_SHARE = 0.5
"""Largest share of wrong integers or flags there."""

SMALL = 1 << 16
"""Answers up to this many elements are judged on the CPU. On the GPU, each of a comparison's dozen operators waits for
other processes on the card, which takes milliseconds with many candidates; a CPU takes a tenth of a millisecond."""
LARGE = 1 << 27
"""Answers above this many elements stay on the host and are copied to the GPU in pieces (see `full_size.py`)."""


def near(tensor: torch.Tensor, device: str | torch.device | None = None) -> torch.Tensor:
    """Return the tensor on the CPU if it is small; otherwise on `device`, or unmoved if it is very large."""
    if tensor.numel() <= SMALL:
        return tensor.cpu()
    return tensor if device is None or tensor.numel() > LARGE else tensor.to(device)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """The operand of an operator that sorts elements, and the dimension along which it sorts."""

    operand: torch.Tensor
    """float64, or exact integers."""
    dim: int

    def misplaced(self, got: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
        """Return which positions are out of range, occur twice, or belong to an element of another value."""
        home, size = got.device, self.operand.shape[self.dim]
        got, truth = got.to(self.operand.device), truth.to(self.operand.device)
        inside = (got >= 0) & (got < size)
        at = got.clamp(0, size - 1).long()
        have, want = self.operand.gather(self.dim, at), self.operand.gather(self.dim, truth.long())
        spread = self.operand.double().nan_to_num(0.0, 0.0, 0.0).square().mean().sqrt()
        alike = (have == want) | ((have - want).abs() <= SAME_SIZE * (want.abs() + spread))
        ordered, order = at.sort(dim=self.dim, stable=True)
        repeated = torch.zeros_like(inside)
        repeated.narrow(self.dim, 1, at.shape[self.dim] - 1).copy_(ordered.diff(dim=self.dim) == 0)
        return (~inside | ~alike | torch.zeros_like(inside).scatter(self.dim, order, repeated)).to(home)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Yardstick:
    """The standard that one output is measured by."""

    truth: torch.Tensor
    """The true values: float64 for floats, the exact dtype for integers."""
    original: torch.Tensor
    """The reference's own output."""
    nudged: tuple[torch.Tensor, ...]
    """Outputs of the reference in randomly rounding arithmetic, one per draw; empty if unknown."""
    scale: float
    """Root mean square of this output on the inputs as given; 0 if unknown."""
    coarse: tuple[torch.Tensor, ...] = ()
    """Output of the reference in the coarsest permitted arithmetic, if it was run in another."""
    span: tuple[torch.Tensor, torch.Tensor] | None = None
    """The lowest and highest accepted value of elements that are not decided (see `jumps.py`); elsewhere both are the
    truth."""
    unbounded: torch.Tensor | None = None
    """Elements in which NaN and both infinities are right: a sum of an infinity, which depends on the order, or where a
    result is too small for a normal float32 number and may be taken as zero."""
    places: Places | None = None
    """The sorted elements, for an output of positions in which equal elements may be exchanged."""
    slack: float = 1.0
    """Factor on the limits of a floating output."""
    gross_only: bool = False
    """True to refuse only answers of which a large part is wrong: rounding may have decided otherwise on the way."""

    @functools.cached_property
    def as_real(self) -> Yardstick:
        """The yardstick of a complex output, with real and imaginary parts as separate elements."""
        real = self._each(lambda tensor: torch.view_as_real(tensor.to(torch.complex128)))
        original, unbounded = torch.view_as_real(self.original), self.unbounded
        if unbounded is not None:  # an infinity in one part may make NaN of either
            unbounded = torch.stack([unbounded, unbounded], -1)
            original = original.masked_fill(unbounded, math.nan)
        return dataclasses.replace(real, original=original, span=None, unbounded=unbounded)

    def brought_near(self) -> Yardstick:
        """Move all tensors to the device on which answers are judged."""
        return self._each(near)

    def _each(self, made: Callable[[torch.Tensor], torch.Tensor]) -> Yardstick:
        return dataclasses.replace(
            self,
            truth=made(self.truth),
            original=made(self.original),
            nudged=tuple(map(made, self.nudged)),
            coarse=tuple(map(made, self.coarse)),
            span=None if self.span is None else (made(self.span[0]), made(self.span[1])),
            unbounded=None if self.unbounded is None else made(self.unbounded),
        )

    @functools.cached_property
    def limits(self) -> Limits | None:
        """Limits of a floating output; None if no element is finite."""
        truth, settled = self.truth.double(), self.settled()
        if not bool(settled.any()):
            return None
        nudged, coarse = (
            [
                self.decided(torch.where(torch.isfinite(other.double()), other.double(), truth))[settled]
                for other in others
            ]
            for others in (self.nudged, self.coarse)
        )
        fields = [self.decided(self.original.double())[settled], *nudged, *coarse]
        found = _limits(truth[settled], fields, len(nudged), self.scale, self.original.dtype)
        least = GROSS if self.gross_only else dict.fromkeys(METRICS, 0.0)
        allowed = {metric: max(self.slack * limit, least[metric]) for metric, limit in found.allowed.items()}
        return dataclasses.replace(found, allowed=allowed, whole=bool(settled.all()))

    def decided(self, values: torch.Tensor) -> torch.Tensor:
        """Replace float64 values that lie within a span by the truth."""
        return values if self.span is None else torch.where(self.may_stand(values), self.truth.double(), values)

    def may_stand(self, values: torch.Tensor) -> torch.Tensor:
        """Return which of these float64 values lie within a span."""
        assert self.span is not None
        low, high = self.span
        return (low < high) & (low <= values) & (values <= high)

    @property
    def judged_share(self) -> float:
        """Share of the elements in which an answer is judged."""
        if not self.truth.numel():
            return 1.0
        left = torch.ones_like(self.truth, dtype=torch.bool) if self.span is None else self.span[0] >= self.span[1]
        if self.original.is_floating_point():
            left = left & self.settled()
        return float(left.double().mean())

    def settled(self) -> torch.Tensor:
        """Return the elements where both reference and truth are finite, so that every answer has to be finite."""
        return torch.isfinite(self.original) & torch.isfinite(self.truth.to(self.original.dtype))

    @functools.cached_property
    def holds_nan(self) -> bool:
        """True if the reference returns NaN, which unwritten memory resembles."""
        return self.original.is_floating_point() and bool(torch.isnan(self.original).any())

    @functools.cached_property
    def flips(self) -> Flips:
        truth = self.truth.to(self.original.dtype)
        others = self.alternatives()
        differ = torch.stack([other != truth for other in others])
        count = int(differ.any(0).sum())
        reach = max(float((other.double() - truth.double()).abs().max()) for other in others) if count else 0.0
        return Flips(count=count, reach=reach, of_original=int(differ[0].sum()))

    def alternatives(self) -> list[torch.Tensor]:
        """Return accepted values for an integer or boolean output besides the truth, the reference's first."""
        return [self.original, *(other.to(self.original.dtype) for other in (*self.nudged, *self.coarse))]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How far a floating output may be off, by measure, and the scales that the measures use."""

    allowed: dict[str, float]
    of_original: dict[str, float]
    """The reference's own errors, by measure."""
    peak: float
    """Largest magnitude of the truth. Errors are in units of it, which keeps squares of 1e200 and 1e-200 in range."""
    rms: float
    small: float
    """A magnitude far below the scale of the output, for the measure `small`."""
    whole: bool = False
    """True if all elements are settled, that is finite in reference and truth."""

    def measure(self, got: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
        """Return the errors by `METRICS`, then 1 if all elements are finite, in one tensor to be read at once."""
        error = (got - truth).abs_().div_(self.peak)
        return torch.stack([*self.errors(error, (truth / self.peak).abs_()), torch.isfinite(got).all().double()])

    def errors(self, error: torch.Tensor, size: torch.Tensor) -> list[torch.Tensor]:
        """Return the errors by `METRICS`, from an error field and the truth's magnitude, both in units of the peak."""
        l2 = error.square().mean().sqrt() / (self.rms if self.rms else 1.0)
        small = (error / (size + (self.small + 1e-300))).clamp_(max=1.0).mean()
        return [l2, error.max(), small]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Flips:
    """Elements in which the reference or random rounding differs from the truth."""

    count: int
    reach: float
    """Largest difference from the truth."""
    of_original: int


def _limits(truth: torch.Tensor, fields: list[torch.Tensor], nudged: int, scale: float, dtype: torch.dtype) -> Limits:
    """Find limits from error fields: those of the reference, of `nudged` random roundings, and the coarse ones."""
    unit = torch.finfo(dtype).eps / 2
    once = float((fields[0] == truth.to(dtype).double()).double().mean()) >= ONCE
    peak = float(truth.abs().max()) or 1.0
    t = truth / peak
    rms = float(t.square().mean().sqrt())
    allowance = WIDE if dtype.itemsize >= 4 else NARROW
    given = max(rms, min(scale / peak, TINY_AT_MOST * rms)) if allowance.at_given_scale else rms
    on_the_way = not once and not allowance.at_given_scale
    luck = ON_THE_WAY if on_the_way else 1.0
    of_few = FEW_CARRY if on_the_way and _effective_count(t) < max(FEW_ELEMENTS, FEW_SHARE * t.numel()) else 1.0
    smaller = given / rms if rms else 1.0
    stretch = {"l2": of_few * smaller, "max": of_few * luck * max(1.0, given), "small": math.sqrt(smaller)}
    limits = Limits(allowed={}, of_original={}, peak=peak, rms=rms, small=math.sqrt(unit) * given)
    errors = [(field - truth).abs() / peak for field in fields]
    count: float = t.numel()
    if count > MOST_FOR_MORE:
        count = min(map(_effective_count, errors[1 : 1 + nudged]), default=count)
    size = t.abs()
    measured = torch.stack([torch.stack(limits.errors(error, size)) for error in errors]).T.tolist()
    for metric, (its, *others) in zip(METRICS, measured):
        moved, coarser = others[:nudged], others[nudged:]
        limits.of_original[metric] = its
        # It is not known how many elements share one rounding; the scatter of errors between draws shows it. An honest
        # error may by chance equal its usual size if it has many parts, and five times that if it has one.
        shared = 0.0
        if len(moved) > 2 and max(moved) > 0:
            shared = statistics.stdev(moved) / statistics.fmean(moved) / ONE_PART
        limits.allowed[metric] = max(
            allowance.factor[metric] * its,
            allowance.factor[metric]
            * (1.0 + BY_CHANCE * max(1.0 / math.sqrt(count), min(1.0, shared)))
            * max(moved, default=0.0),
            COARSE[metric] * max(coarser, default=0.0),
            allowance.units[metric] * unit * stretch[metric],
        )
    return limits


def left_to_chance(truth: torch.Tensor, nudged: list[torch.Tensor], dtype: torch.dtype) -> bool:
    """Return True if more draws are needed to know how large such errors are; `dtype` is the output's."""
    if not nudged or not 0 < truth.numel() <= MOST_FOR_MORE:
        return False
    errors = [(other - truth).nan_to_num(posinf=0.0, neginf=0.0).reshape(-1) for other in nudged]
    sizes = [float(error.norm()) for error in errors]
    if max(sizes) <= NEGLIGIBLE * torch.finfo(dtype).eps * float(truth.nan_to_num(posinf=0.0, neginf=0.0).norm()):
        return False
    return (
        truth.numel() < FEW_ELEMENTS
        or max(sizes) > AGREE * min(sizes)
        or min(map(_effective_count, errors)) < FEW_ELEMENTS
        or abs(float(errors[0] @ errors[-1])) > ALIKE * sizes[0] * sizes[-1]
    )


def _effective_count(error: torch.Tensor) -> float:
    """Return the effective number of elements with an error: all if they err alike, one if only one errs."""
    largest = error.abs().max()
    squares = (error / largest).square() if largest > 0 else torch.ones_like(error)
    return float(squares.sum().square() / squares.square().sum())
