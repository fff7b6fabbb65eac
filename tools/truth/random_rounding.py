"""float32 arithmetic that rounds up or down at random: it shows by how much honest kernels differ from each other.

An honest float32 answer errs by a few roundings at the size of its intermediate values. Where large ones cancel, that
is far more than a rounding of the inputs or of the output, and whether the reference shows it is luck. So the reference
is run in float64 with the result of every operator put on the grid of float32, to either neighbour, with the odds that
leave it right on average. What is on the grid stays: moving, choosing and exact arithmetic err by nothing. Not so
quotients: a GPU divides by way of a reciprocal, and even x / x may come out next to 1. Equal values go the same way, so
that what was tied stays tied.

Operators that hide a rounding which many elements share (the logarithm of a sum, a mean, a variance), or which may
cancel (scores), are taken apart as torch itself describes them, or here. Sums and products of matrices are added up
from a few parts.
Not covered: convolutions, and scans other than running sums and products, round once, at the end; only the reference's
own error shows how much their order matters. A softmax that the reference writes out by hand is computed once, not
twice as in `_softmax`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch

from triton_agent.tools.dispatch_modes import UncompiledMode
from triton_agent.tools.reference.input_tensors import map_tensors

LOW_BITS = 29
"""What the mantissa of float64 has beyond that of float32."""
CACHED = 1 << 16
LARGE = 1 << 24
"""Elements rounded at a time, on a CPU and elsewhere: the bits that decide take as much memory as the values."""
BEYOND = 1e300
"""Larger values are masks, such as the smallest number of a dtype: cut, lest they become infinite."""
LOG2_E = math.log2(math.e)
MOST_OFF = 2.0**-11
"""Of an exponent. A peak beyond some thousands would leave nothing to be judged by."""
SPACING = 2.0**-23
"""Of float32 numbers from 1 on."""
TERMS = 8
"""Parts of a sum that are added one after another: large ones among them may cancel."""


def _softmax(x: torch.Tensor, dim: int, half_to_float: bool) -> torch.Tensor:
    """Let the numerators differ from the sum by a rounding as large as the peak.

    A compiler may compute the scores once for the sum and once more for the numerators, in another order or with the
    subtraction of the peak fused in. Then exp(score - peak) is not 1 where the score is the peak.
    """
    peak = x.amax(dim, keepdim=True) if x.numel() else x
    power = torch.exp(x - peak)
    off = torch.addcmul(-(peak * LOG2_E), peak, torch.full_like(peak, LOG2_E)).clamp(-MOST_OFF, MOST_OFF)
    return power * torch.exp2(off) / power.sum(dim, keepdim=True)


def _log_softmax(x: torch.Tensor, dim: int, half_to_float: bool) -> torch.Tensor:
    """By way of the logarithm of the sum, which many kernels store: it is rounded at the size of the peak."""
    return x - _logsumexp(x, [dim], keepdim=True)


def _logsumexp(x: torch.Tensor, dim: list[int], keepdim: bool = False) -> torch.Tensor:
    peak = x.amax(dim, keepdim=True) if x.numel() else x.sum(dim, keepdim=True)
    peak = torch.where(peak.abs() == math.inf, 0.0, peak)
    total = (x - peak).exp().sum(dim, keepdim=True).log() + peak
    return total if keepdim else total.squeeze(dim)


def _product_added(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *, beta: Any = 1, alpha: Any = 1) -> torch.Tensor:
    product: torch.Tensor = alpha * (torch.mm(a, b) if a.dim() == 2 else torch.bmm(a, b))
    return product if beta == 0 else product + beta * x


def _var_mean(
    x: torch.Tensor, dim: Sequence[int] | None = None, *, correction: float | None = None, keepdim: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    dims = [place % x.dim() for place in dim or range(x.dim())]
    mean = x.mean(dims, keepdim=True)
    off = x - mean
    left = math.prod(x.shape[place] for place in dims) - (1 if correction is None else correction)
    var = off.abs().square().sum(dims, keepdim=keepdim) / max(left, 0)
    return var, mean if keepdim else mean.squeeze(dims)


def _std_mean(*args: Any, **kwargs: Any) -> tuple[torch.Tensor, torch.Tensor]:
    var, mean = _var_mean(*args, **kwargs)
    return var.sqrt(), mean


def _distances(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Compute Euclidean distances of many points as torch does, by a product, in which near points cancel."""
    a2, b2 = a.square().sum(-1, keepdim=True), b.square().sum(-1, keepdim=True)
    product = torch.cat([-2 * a, a2, torch.ones_like(a2)], -1) @ torch.cat([b, torch.ones_like(b2), b2], -1).mT
    return product.clamp_min(0).sqrt()


BY_HAND: dict[str, Callable[..., torch.Tensor | tuple[torch.Tensor, torch.Tensor]]] = {
    "_softmax": _softmax,
    "_log_softmax": _log_softmax,
    "logsumexp": _logsumexp,
    "addmm": _product_added,
    "baddbmm": _product_added,
    "var_mean.correction": _var_mean,
    "std_mean.correction": _std_mean,
    "var.correction": lambda *args, **kwargs: _var_mean(*args, **kwargs)[0],
    "std.correction": lambda *args, **kwargs: _std_mean(*args, **kwargs)[0],
    "_euclidean_dist": _distances,
}
"""As in torch's own tables, which take half a second to import for these."""

NEXT_TO_NOTHING = 2.0**-40
"""Relative: enough to tell equal numbers apart in float64, and far less than the spacing of float32."""

COMPOUND = frozenset(
    {
        *("_safe_softmax", "native_layer_norm", "native_group_norm", "_fused_rms_norm"),
        *("native_batch_norm", "cudnn_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_no_training"),
        *("_scaled_dot_product_flash_attention_for_cpu", "mv", "addmv", "dot"),
    }
)
"""Operators that torch's tables take apart."""


def round_in_place(values: torch.Tensor, draw: int) -> None:
    """Put float64 on the grid of float32, to either neighbour; what is not finite stays, nothing becomes so."""
    with _unwatched():
        values = values.detach()
        size = CACHED if values.device.type == "cpu" else LARGE
        odd, low = _multiplier(draw), (1 << LOW_BITS) - 1
        long = values.numel() > size and values.is_contiguous()
        for part in torch.split(values.view(-1), size) if long else (values,):
            bits = part.view(torch.int64)
            added = (bits >> 31).bitwise_xor_(bits).mul_(odd).bitwise_right_shift_(64 - LOW_BITS).bitwise_and_(low)
            bits.add_(added.mul_(part.abs() < BEYOND)).bitwise_and_(~low)


def move_exact_quotients(values: torch.Tensor, divisor: torch.Tensor | float, draw: int) -> None:
    """Move float64 quotients that are on the grid of float32 to a neighbour, unless the divisor is a power of two."""
    with _unwatched():
        values = values.detach()
        mantissa = divisor.double().frexp().mantissa if isinstance(divisor, torch.Tensor) else math.frexp(divisor)[0]
        exact = (values.float() == values) & (torch.as_tensor(mantissa, device=values.device).abs() != 0.5)
        bits = values.contiguous().view(torch.int64)
        up = (bits ^ (bits >> 31)) * _multiplier(~draw) < 0
        values.mul_(1 + SPACING * torch.where(up, 1.0, -1.0) * exact)


@contextlib.contextmanager
def _unwatched() -> Iterator[None]:
    """Bypass all modes. A dozen operators run here for each of the reference's; modes would take most of the time."""
    with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
        yield


@functools.cache
def _multiplier(draw: int) -> int:
    """Return an odd 64-bit number with a sign that looks random, another one for each draw."""
    return int.from_bytes(hashlib.sha256(b"%d" % draw).digest()[:8], "big", signed=True) | 1


class Moved:
    """Change every float in a nest a little."""

    __slots__ = ()

    def arithmetic(self) -> contextlib.AbstractContextManager[Any]:
        """Return a context in which operators compute like that."""
        return contextlib.nullcontext()

    def __call__(self, value: Any) -> Any:
        return map_tensors(value, lambda it: self._moved(it) if it.is_floating_point() and it.numel() else it)

    def _moved(self, value: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TieBreak(Moved):
    """Move every float by next to nothing, up or down by its place, so that equal values differ afterwards."""

    draw: int

    def _moved(self, value: torch.Tensor) -> torch.Tensor:
        generator = torch.Generator(value.device).manual_seed(self.draw)
        chance = torch.rand(value.shape, generator=generator, device=value.device, dtype=value.dtype)
        return value * (1 + NEXT_TO_NOTHING * (chance - 0.5))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Nudge(Moved):
    """Round every float up or down by its value alone, so that equal values stay equal."""

    relative: float
    draw: int
    """Another number sends other values up and others down."""
    everywhere: bool
    """True if intermediate values are rounded, too, to float32; else inputs and parameters alone."""

    def arithmetic(self) -> contextlib.AbstractContextManager[Any]:
        return RandomRounding(self.draw) if self.everywhere else contextlib.nullcontext()

    def _moved(self, value: torch.Tensor) -> torch.Tensor:
        bits = value.contiguous().view(torch.int64)
        up = (bits ^ (bits >> 31)) * _multiplier(~self.draw) < 0
        moved = value * (1 + self.relative * torch.where(up, 1.0, -1.0))
        if self.everywhere:
            round_in_place(moved, self.draw)
        return moved


class RandomRounding(UncompiledMode):  # type: ignore[no-untyped-call]
    """Put results in float64 on the grid of float32 inside."""

    def __init__(self, draw: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._draw = draw
        aten = torch.ops.aten
        self._products = {aten.mm.default, aten.bmm.default}
        self._means = {aten.mean.default, aten.mean.dim}
        self._quotients = {aten.div.Tensor, aten.div_.Tensor, aten.div.Scalar, aten.div_.Scalar}
        self._sums = {aten.sum.default, aten.sum.dim_IntList, *self._means}
        self._scans: dict[Any, Callable[..., torch.Tensor]] = {
            aten.cumsum.default: torch.add,
            aten.cumprod.default: torch.mul,
        }

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        parts = _parts_of(func)
        if parts is not None:
            with self:
                return parts(*args, **kwargs)
        if _is_composite(func):
            with self:  # only parts of something else come here whole
                return func.decompose(*args, **kwargs)
        if func in self._products and args[0].dtype is torch.float64 and args[0].shape[-1]:
            a, b = args
            count = min(TERMS, a.shape[-1])
            return self._added(func(x, y) for x, y in zip(a.tensor_split(count, -1), b.tensor_split(count, -2)))
        if func in self._sums and args[0].dtype is torch.float64 and args[0].numel() and args[0].dim():
            return self._sum(*args, **kwargs, mean=func in self._means)
        if func in self._scans and args[0].dtype is torch.float64 and args[0].dim():
            return self._scan(self._scans[func], args[0], args[1])
        result = func(*args, **kwargs)
        if not func.is_view:
            for tensor in _doubles(result if isinstance(result, (list, tuple)) else [result]):
                if func in self._quotients and tensor is result:  # a complex one has parts of its own
                    move_exact_quotients(tensor, args[1], self._draw)
                round_in_place(tensor, self._draw)
        return result

    def _sum(
        self,
        terms: torch.Tensor,
        dim: Sequence[int] | None = None,
        keepdim: bool = False,
        *,
        dtype: torch.dtype | None = None,
        mean: bool,
    ) -> torch.Tensor:
        """Add up in parts. Any `dtype` asked for is a float that was lifted to float64, so it is ignored."""
        dims = [place % terms.dim() for place in dim or range(terms.dim())]
        longest = max(dims, key=lambda place: terms.shape[place])
        parts = terms.tensor_split(min(TERMS, terms.shape[longest]), longest)
        total = self._added(part.sum(dims, keepdim) for part in parts)
        if mean:
            count = math.prod(terms.shape[place] for place in dims)
            total /= count
            move_exact_quotients(total, count, self._draw)
            round_in_place(total, self._draw)
        return total

    def _scan(self, combine: Callable[..., torch.Tensor], terms: torch.Tensor, dim: int) -> torch.Tensor:
        """As a GPU does it, twice as far at each step: the rounding of x * x is in x**64 thirty-two times."""
        total, reach, count = terms.clone(), 1, terms.shape[dim]
        while reach < count:
            later = combine(total.narrow(dim, 0, count - reach), total.narrow(dim, reach, count - reach))
            round_in_place(later, self._draw)
            total = torch.cat([total.narrow(dim, 0, reach), later], dim)
            reach *= 2
        return total

    def _added(self, parts: Iterable[torch.Tensor]) -> torch.Tensor:
        first, *others = parts
        round_in_place(first, self._draw)
        for part in others:
            round_in_place(part, self._draw)
            first += part
            round_in_place(first, self._draw)
        return first


@functools.cache
def _is_composite(func: Any) -> bool:
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd"))


@functools.cache
def _parts_of(func: Any) -> Callable[..., Any] | None:
    name, overload = func._schema.name.removeprefix("aten::"), func._overloadname
    by_hand = BY_HAND.get(name if overload == "default" else f"{name}.{overload}")
    if by_hand is not None:
        return by_hand
    return torch._decomp.decomposition_table.get(func) if name in COMPOUND else None


def _doubles(results: Iterable[Any]) -> Iterable[torch.Tensor]:
    for result in results:
        if isinstance(result, torch.Tensor) and result.layout is torch.strided and result.numel():
            if result.dtype is torch.complex128:
                yield torch.view_as_real(result.resolve_conj())
            elif result.dtype is torch.float64:
                yield result


class DoublesSeen(UncompiledMode):  # type: ignore[no-untyped-call]
    """Note whether any result inside is float64."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.any = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.any |= any(True for _ in _doubles(result if isinstance(result, (list, tuple)) else [result]))
        return result
