"""What an output is measured against and how far it may be off, whatever the candidate.

A yardstick is made once for each output of a case. Its limits are found at the first judgement, since finding them
takes many times as long as holding one answer against them. `accuracy.py` says what they mean.
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
    """What a candidate may err, by the kind of output dtype."""

    factor: dict[str, float]
    """How many times the yardstick, by measure. An extreme value varies more between honest kernels than a mean."""
    units: dict[str, float]
    """Units of roundoff that are always allowed."""
    at_given_scale: bool
    """True if those are taken at the scale of the outputs as given, for distributions that make outputs tiny."""


WIDE = Allowance(
    factor={"l2": 4.0, "small": 4.0, "max": 6.0}, units={"l2": 16.0, "small": 128.0, "max": 16.0}, at_given_scale=True
)
"""float32 and float64: an answer is a chain of roundings, and a CPU's original may sum in double where a GPU's does not
(a scan of a thousand elements is then 14 units apart). The next lower precision is over 4,000 units off."""

NARROW = Allowance(
    factor={"l2": 1.5, "small": 1.5, "max": 2.0}, units={"l2": 1.02, "small": 4.0, "max": 1.02}, at_given_scale=False
)
"""Half precision and less: the one rounding at the end, which no answer can avoid."""

ONCE = 0.9
"""The share of an output that is the truth rounded once, from which on the reference rounds nowhere else. Values that
round on the way are next to it in a third of their elements."""
ON_THE_WAY = 2.0
"""Times the units of a reference that rounds once, for one that rounds on the way as well: where it was lucky with both
roundings, a kernel that rounds elsewhere may not be."""

COARSE: dict[str, float] = {"l2": 1.5, "small": 1.5, "max": 2.0}
"""Times the error of the coarsest arithmetic that is right (see `tensor_cores.py`): it rounds each operand in one known
step, so little has to be added. bfloat16 operands err three times as much."""

MISMATCH_FACTOR = 3.0
"""How many times the elements that the reference or random rounding flips may differ, in integer outputs."""
RARE_FLIPS = 0.01
"""Up to this share, flips are accidents of rounding. Beyond, they are ties in the data, and each of them is known."""

MOST_FOR_MORE = 1 << 24
"""Elements of an output beyond which more draws, all of which are kept, would take too much memory."""
NEGLIGIBLE = 0.03
"""Spacings of the output's own numbers that are nothing beside its last rounding."""
AGREE = 1.25
"""Two draws whose errors agree within this factor tell how large errors are, unless a test below says otherwise."""
ALIKE = 0.3
"""Cosine between two error fields beyond which their errors come from a rounding that many elements share."""
BY_CHANCE = 4.0
"""Standard deviations that an honest error may be above its mean, for its number of independent parts."""
ONE_PART = 0.75
"""Standard deviation over mean of the size of a single normal number."""

FEW_ELEMENTS = 64
"""In smaller outputs nothing tells an imprecise element from a wrong one."""

METRICS = ("l2", "max", "small")

SMALL = 1 << 16
"""Elements of an answer up to which it is judged on the CPU. On the GPU each of the dozen operators of a comparison
waits for the other processes that share it: with many candidates at work that takes milliseconds, where a CPU takes a
tenth of one."""
LARGE = 1 << 27
"""Elements from which an answer stays on the host, and comes to the GPU in pieces (see `full_size.py`)."""


def near(tensor: torch.Tensor, device: str | torch.device | None = None) -> torch.Tensor:
    """Return the tensor on the CPU if it is small, else on `device`, or where it is."""
    if tensor.numel() <= SMALL:
        return tensor.cpu()
    return tensor if device is None or tensor.numel() > LARGE else tensor.to(device)


@dataclasses.dataclass(frozen=True, kw_only=True)
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
    """What the reference makes of it in the coarsest way that the user allows, where that is not how it was run."""
    span: tuple[torch.Tensor, torch.Tensor] | None = None
    """The lowest and the highest value that may stand in place of the truth where it is not decided (see `jumps.py`);
    both are the truth elsewhere."""

    @functools.cached_property
    def as_real(self) -> Yardstick:
        """Return the yardstick of a complex output with real and imaginary parts side by side."""
        real = self._each(lambda tensor: torch.view_as_real(tensor.to(torch.complex128)))
        return dataclasses.replace(real, original=torch.view_as_real(self.original), span=None)

    def brought_near(self) -> Yardstick:
        """Move all tensors to where answers are judged."""
        return self._each(near)

    def _each(self, made: Callable[[torch.Tensor], torch.Tensor]) -> Yardstick:
        return dataclasses.replace(
            self,
            truth=made(self.truth),
            original=made(self.original),
            nudged=tuple(map(made, self.nudged)),
            coarse=tuple(map(made, self.coarse)),
            span=None if self.span is None else (made(self.span[0]), made(self.span[1])),
        )

    @functools.cached_property
    def limits(self) -> Limits | None:
        """Limits of a floating output; None where no element of it is finite."""
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
        return dataclasses.replace(found, whole=bool(settled.all()))

    def decided(self, values: torch.Tensor) -> torch.Tensor:
        """Put the truth in place of the float64 values that lie within a span."""
        return values if self.span is None else torch.where(self.may_stand(values), self.truth.double(), values)

    def may_stand(self, values: torch.Tensor) -> torch.Tensor:
        """Return which of these float64 values lie within a span."""
        assert self.span is not None
        low, high = self.span
        return (low < high) & (low <= values) & (values <= high)

    @property
    def judged_share(self) -> float:
        """The share of elements that an answer is judged by."""
        if not self.truth.numel():
            return 1.0
        left = torch.ones_like(self.truth, dtype=torch.bool) if self.span is None else self.span[0] >= self.span[1]
        if self.original.is_floating_point():
            left = left & self.settled()
        return float(left.double().mean())

    def settled(self) -> torch.Tensor:
        """Return where the reference and the truth are both finite, so that every answer has to be."""
        return torch.isfinite(self.original) & torch.isfinite(self.truth.to(self.original.dtype))

    @functools.cached_property
    def holds_nan(self) -> bool:
        """Where NaN is right, what was never written looks right."""
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
        """Return what may stand in place of the truth of an integer or boolean output, the reference's first."""
        return [self.original, *(other.to(self.original.dtype) for other in (*self.nudged, *self.coarse))]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How far a floating output may be off, by measure; and what it takes to measure it."""

    allowed: dict[str, float]
    of_original: dict[str, float]
    """The reference's own errors."""
    peak: float
    """Of the truth; errors are in units of it, which keeps squares of 1e200 and of 1e-200 in range."""
    rms: float
    small: float
    """What is far below the scale of the output."""
    whole: bool = False
    """True if all elements are settled."""

    def measure(self, got: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
        """Return errors by `METRICS`, and whether all is finite, as one tensor, without waiting for the device."""
        error = (got - truth).abs_().div_(self.peak)
        return torch.stack([*self.errors(error, (truth / self.peak).abs_()), torch.isfinite(got).all().double()])

    def errors(self, error: torch.Tensor, size: torch.Tensor) -> list[torch.Tensor]:
        """Return errors by `METRICS`, of an error field and the size of the truth, both in units of the peak."""
        l2 = error.square().mean().sqrt() / (self.rms if self.rms else 1.0)
        small = (error / (size + (self.small + 1e-300))).clamp_(max=1.0).mean()
        return [l2, error.max(), small]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Flips:
    """Elements at which the reference or random rounding differs from the truth."""

    count: int
    reach: float
    """How far off, at most."""
    of_original: int


def _limits(truth: torch.Tensor, fields: list[torch.Tensor], nudged: int, scale: float, dtype: torch.dtype) -> Limits:
    """Find limits from error fields of the reference, `nudged` random roundings and the coarse ones, in this order."""
    unit = torch.finfo(dtype).eps / 2
    once = float((fields[0] == truth.to(dtype).double()).double().mean()) >= ONCE
    peak = float(truth.abs().max()) or 1.0
    t = truth / peak
    rms = float(t.square().mean().sqrt())
    allowance = WIDE if dtype.itemsize >= 4 else NARROW
    given = max(rms, scale / peak) if allowance.at_given_scale else rms
    luck = 1.0 if once or allowance.at_given_scale else ON_THE_WAY
    stretch = {"l2": given / rms if rms else 1.0, "max": luck * max(1.0, given), "small": 1.0}
    limits = Limits(allowed={}, of_original={}, peak=peak, rms=rms, small=math.sqrt(unit) * given)
    errors = [(field - truth).abs() / peak for field in fields]
    count: float = t.numel()
    if count > MOST_FOR_MORE:
        count = min(map(_bearers, errors[1 : 1 + nudged]), default=count)
    size = t.abs()
    measured = torch.stack([torch.stack(limits.errors(error, size)) for error in errors]).T.tolist()
    for metric, (its, *others) in zip(METRICS, measured):
        moved, coarser = others[:nudged], others[nudged:]
        limits.of_original[metric] = its
        # How many elements share one rounding is not known; the scatter of errors between draws tells. So an honest
        # error may by chance be once its usual size for many parts, and five times for one.
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
    """Return whether more draws are needed to tell how large such errors are; `dtype` is the output's."""
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
    """Return how many elements bear an error: all of them if they err alike, one if it has all of it."""
    largest = error.abs().max()
    squares = (error / largest).square() if largest > 0 else torch.ones_like(error)
    return float(squares.sum().square() / squares.square().sum())
