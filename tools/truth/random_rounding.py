"""float32 arithmetic that rounds up or down at random, to show how much honest kernels differ from each other.

An honest float32 answer errs by a few roundings at the magnitude of its intermediate values. If large ones cancel, that
is far more than a rounding of the inputs or of the output, and the reference's own error shows it only by luck. So the
reference is run in float64, with the result of every operator rounded to one of its two float32 neighbours, with
probabilities that make it unbiased. A result that is a float32 number stays: moves, selections and exact arithmetic
have no error. Quotients are an exception: a GPU multiplies by a reciprocal, and even x / x may differ from 1. Equal
values are rounded in the same direction, so ties stay ties.

Some operators hide a rounding that many elements share (the logarithm of a sum, a mean, a variance), or may cancel
(scores). These are replaced by torch's own decompositions, or by those in this module. Sums and matrix products are
accumulated in a few parts. A long matrix product strays further, as one whose terms are added one after another: an
honest kernel does so where a library splits the sum, as it does for a single row.

A GPU may add a product without rounding it first. Where two products cancel, one of them is exact here, too.

Operands of products and convolutions lose their last bit: `tf32x3` splits a float32 number into two numbers of 11 bits
and their signs, so it keeps 23 bits of 24.

Not covered: sums in convolutions, and scans other than running sums and products. They round once, at the end, so only
the reference's own error shows how much their order matters. A softmax that the reference writes by hand is computed
once, not twice as in `_softmax`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import math
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from triton_agent.tools.dispatch_modes import UncompiledMode
from triton_agent.tools.reference.input_tensors import map_tensors

LOW_BITS = 29
"""Mantissa bits of float64 beyond those of float32."""
CACHED = 1 << 15
LARGE = 1 << 24
"""Elements rounded at a time, on a CPU and on other devices: the random bits take as much memory as the values."""
BEYOND = 1e300
"""Larger values are masks, such as the smallest number of a dtype. They are truncated, so that none overflows."""
LOG2_E = math.log2(math.e)
MOST_OFF = 2.0**-11
"""Limit on the error of an exponent. Without it, a peak beyond some thousands would leave no accuracy to judge."""
SPACING = 2.0**-23
"""Relative spacing of float32 numbers."""
SMALLEST_NORMAL = 2.0**-126
"""Smallest normal float32 number."""
TERMS = 8
"""Number of parts of a sum that are added one after another; large parts may cancel."""
CANCELLED = 16
"""A sum of which a term is that many times as large as itself keeps errors of this term's size."""
PRODUCTS_KEPT = 4
"""How many of the last products are looked up when one is added."""
LONG = 128
"""Number of terms from which matrix products stray as if their terms were added one after another."""
STRAY = 0.36 * SPACING
"""Bound of the error of one addition, relative to the running total. Errors are drawn evenly within it. True ones are
within half a unit in the last place, which is between half of the spacing and all of it: 0.72 of it on average."""


def _exp(x: torch.Tensor) -> torch.Tensor:
    """Compute exp(x) as 2 ** (x * log2(e)), as a GPU does: the rounding of the product grows with x."""
    if x.is_complex():
        power = torch.exp2(x.real * LOG2_E)
        return torch.complex(power * x.imag.cos(), power * x.imag.sin())
    return torch.exp2(x * LOG2_E)


def _softmax(x: torch.Tensor, dim: int, half_to_float: bool) -> torch.Tensor:
    """Let the numerators differ from the sum by a rounding at the magnitude of the peak.

    A compiler may compute the scores once for the sum and again for the numerators, in another order or fused with the
    subtraction of the peak. Then exp(score - peak) is not 1 at the peak.
    """
    peak = x.amax(dim, keepdim=True) if x.numel() else x
    power = torch.exp(x - peak)
    off = torch.addcmul(-(peak * LOG2_E), peak, torch.full_like(peak, LOG2_E)).clamp(-MOST_OFF, MOST_OFF)
    return power * torch.exp2(off) / power.sum(dim, keepdim=True)


def _log_softmax(x: torch.Tensor, dim: int, half_to_float: bool) -> torch.Tensor:
    """Subtract the logarithm of the sum, which many kernels store: it is rounded at the magnitude of the peak."""
    return x - _logsumexp(x, [dim], keepdim=True)


def _logsumexp(x: torch.Tensor, dim: list[int], keepdim: bool = False) -> torch.Tensor:
    """Let the result be rounded at the magnitude of the peak, even if the sum is 1 and its logarithm zero.

    A compiler may fuse the product that makes a score with the subtraction of the peak, which was rounded before.
    """
    peak = x.amax(dim, keepdim=True) if x.numel() else x.sum(dim, keepdim=True)
    peak = torch.where(peak.abs() == math.inf, 0.0, peak)
    total = (x - peak).exp().sum(dim, keepdim=True).log() + peak * (1 + SPACING / 2)
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
    """Compute Euclidean distances of many points as torch does, with a product in which near points cancel."""
    a2, b2 = a.square().sum(-1, keepdim=True), b.square().sum(-1, keepdim=True)
    product = torch.cat([-2 * a, a2, torch.ones_like(a2)], -1) @ torch.cat([b, torch.ones_like(b2), b2], -1).mT
    return product.clamp_min(0).sqrt()


BY_HAND: dict[str, Callable[..., torch.Tensor | tuple[torch.Tensor, torch.Tensor]]] = {
    "exp": _exp,
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
"""Decompositions of these operators. torch's own tables would take half a second to import."""

COMPOUND = frozenset(
    {
        *("_safe_softmax", "native_layer_norm", "native_group_norm", "_fused_rms_norm"),
        *("native_batch_norm", "cudnn_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_no_training"),
        *("_scaled_dot_product_flash_attention_for_cpu", "mv", "addmv", "dot", "affine_grid_generator"),
    }
)
"""Operators that are decomposed by torch's tables."""


def round_in_place(values: torch.Tensor, draw: int) -> None:
    """Round float64 values to either float32 neighbour. Non-finite values stay, and finite values stay finite."""
    with _without_modes():
        for part in _parts(values.detach()):
            _round(part, draw)


def _round(values: torch.Tensor, draw: int, low_bits: int = LOW_BITS) -> None:
    bits, low = values.view(torch.int64), (1 << low_bits) - 1
    added = _mixed(values, draw).bitwise_right_shift_(64 - low_bits).bitwise_and_(low)
    # One comparison with the largest takes a quarter of the time of one for each, but on a GPU the host would wait.
    if values.device.type != "cpu" or not values.numel() or not float(values.abs().amax()) < BEYOND:
        added.mul_(values.abs() < BEYOND)
    bits.add_(added).bitwise_and_(~low)


def _as_operand(values: torch.Tensor, draw: int) -> torch.Tensor:
    """Return the operand of a product as tensor cores may see it, which keep all but the last bit of a float32."""
    with _without_modes():
        values = values.detach().clone(memory_format=torch.contiguous_format)
        for part in _parts(values):
            _round(part, draw, LOW_BITS + 1)
    return values


def _mixed(values: torch.Tensor, draw: int) -> torch.Tensor:
    """Return a random 64-bit number for each value, the same for equal values."""
    bits = values.view(torch.int64)
    return (bits >> 31).bitwise_xor_(bits).mul_(_multiplier(draw))


def _parts(values: torch.Tensor) -> Iterable[torch.Tensor]:
    """Return the values in parts that a cache holds, so that a dozen operators in a row read them from there."""
    size = CACHED if values.device.type == "cpu" else LARGE
    long = values.numel() > size and values.is_contiguous()
    return torch.split(values.view(-1), size) if long else (values,)


def move_exact_quotients(values: torch.Tensor, divisor: torch.Tensor | float, draw: int) -> None:
    """Move quotients that are float32 numbers to a neighbour, unless the divisor is a power of two."""
    with _without_modes():
        values = values.detach()
        mantissa = divisor.double().frexp().mantissa if isinstance(divisor, torch.Tensor) else math.frexp(divisor)[0]
        exact = (values.float() == values) & (torch.as_tensor(mantissa, device=values.device).abs() != 0.5)
        bits = values.contiguous().view(torch.int64)
        up = (bits ^ (bits >> 31)) * _multiplier(~draw) < 0
        values.mul_(1 + SPACING * torch.where(up, 1.0, -1.0) * exact)


def _on_the_grid(values: torch.Tensor) -> torch.Tensor:
    """Return which values are float32 numbers."""
    with _without_modes():
        return values.to(torch.float32) == values


def stray_in_place(total: torch.Tensor, walked: torch.Tensor, draw: int) -> None:
    """Add the errors of a sum in float32. `walked` is the root of the sum of squares of its running totals.

    Equal totals stray equally if they were reached in the same way.
    """
    with _without_modes():
        chance = _mixed(total, ~draw).double().mul_(2.0**-63)
        total.add_(walked.mul_(STRAY).mul_(chance).nan_to_num_(0.0, 0.0, 0.0))


@contextlib.contextmanager
def _without_modes() -> Iterator[None]:
    """Bypass all modes: a dozen operators run here for each one of the reference, and modes would dominate the time."""
    with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
        yield


@functools.cache
def _multiplier(draw: int) -> int:
    """Return an odd 64-bit number with a random sign, a different one for each draw."""
    return int.from_bytes(hashlib.sha256(b"%d" % draw).digest()[:8], "big", signed=True) | 1


class Moved:
    """Base class of functions that change every float in a nested value slightly."""

    __slots__ = ()

    def arithmetic(self) -> contextlib.AbstractContextManager[Any]:
        """Return a context in which operators round in the same way."""
        return contextlib.nullcontext()

    def __call__(self, value: Any) -> Any:
        return map_tensors(value, lambda it: self._moved(it) if it.is_floating_point() and it.numel() else it)

    def _moved(self, value: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Nudge(Moved):
    """Rounds every float up or down depending on its value, so that equal values stay equal."""

    relative: float
    draw: int
    """Seed of the directions: with another draw, other values are rounded up."""
    everywhere: bool
    """True to round intermediate values to float32 as well; False for inputs and parameters only."""

    def arithmetic(self) -> contextlib.AbstractContextManager[Any]:
        return RandomRounding(self.draw) if self.everywhere else contextlib.nullcontext()

    def _moved(self, value: torch.Tensor) -> torch.Tensor:
        with _without_modes():
            moved = value.detach().clone(memory_format=torch.contiguous_format)
            step = torch.full((), self.relative, dtype=torch.float64, device=moved.device)
            for part in _parts(moved):
                part.mul_(torch.copysign(step, _mixed(part, ~self.draw).view(torch.float64)).add_(1.0))
                if self.everywhere:
                    _round(part, self.draw)
        return moved


@dataclasses.dataclass(frozen=True, slots=True)
class Flush(Moved):
    """Makes results that float32 holds with fewer digits, or not at all, zero; inputs and parameters stay."""

    def arithmetic(self) -> contextlib.AbstractContextManager[Any]:
        return _Flushing()  # type: ignore[no-untyped-call]

    def _moved(self, value: torch.Tensor) -> torch.Tensor:
        return value


class _Flushing(UncompiledMode):  # type: ignore[no-untyped-call]
    """Replaces float64 results of operators inside by zero if they are smaller than the normal float32 numbers."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if not func.is_view:
            for tensor in _doubles(result if isinstance(result, (list, tuple)) else [result]):
                with _without_modes():
                    values = tensor.detach()
                    values.masked_fill_(values.abs() < SMALLEST_NORMAL, 0.0)
        return result


class RandomRounding(UncompiledMode):  # type: ignore[no-untyped-call]
    """Rounds the float64 results of operators inside to float32 numbers."""

    def __init__(self, draw: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._draw = draw
        aten = torch.ops.aten
        self._products = {aten.mm.default, aten.bmm.default}
        self._means = {aten.mean.default, aten.mean.dim}
        self._quotients = {aten.div.Tensor, aten.div_.Tensor, aten.div.Scalar, aten.div_.Scalar}
        self._additions = {aten.add.Tensor, aten.sub.Tensor}
        self._last_products: list[tuple[weakref.ref[torch.Tensor], Any, Any]] = []
        """The last products, while they exist, each with its factors."""
        self._sums = {aten.sum.default, aten.sum.dim_IntList, *self._means}
        self._scans: dict[Any, Callable[..., torch.Tensor]] = {
            aten.cumsum.default: torch.add,
            aten.cumprod.default: torch.mul,
        }

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        self._last_products = [it for it in self._last_products if it[0]() is not None]
        parts = _parts_of(func)
        if parts is not None:
            with self:
                return parts(*args, **kwargs)
        if _is_composite(func):
            with self:  # composites only arrive here from within a decomposition or in inference mode
                return func.decompose(*args, **kwargs)
        if func in self._products and args[0].dtype is torch.float64 and args[0].shape[-1]:
            terms = args[0].shape[-1]
            a, b = (_as_operand(x, self._draw) for x in args)
            count = min(TERMS, terms)
            products = (func(x, y) for x, y in zip(a.tensor_split(count, -1), b.tensor_split(count, -2)))
            return self._added(products, terms=terms if terms >= LONG else 0)
        if func in self._sums and args[0].dtype is torch.float64 and args[0].numel() and args[0].dim():
            return self._sum(*args, **kwargs, mean=func in self._means)
        if func in self._scans and args[0].dtype is torch.float64 and args[0].dim():
            return self._scan(self._scans[func], args[0], args[1])
        if func is torch.ops.aten.convolution.default and args[0].dtype is torch.float64:
            args = (*(_as_operand(x, self._draw) for x in args[:2]), *args[2:])
        result = func(*args, **kwargs)
        if func is torch.ops.aten.linspace.default and result.dtype is torch.float64:
            self._let_steps_stray(result, *map(float, args[:2]))
        if func in self._additions and not kwargs and result.dtype is torch.float64:
            self._fuse(func, args, result)
        elif func is torch.ops.aten.mul.Tensor and result.dtype is torch.float64:
            self._last_products = [*self._last_products[1 - PRODUCTS_KEPT :], (weakref.ref(result), *args)]
        if not func.is_view:
            for tensor in _doubles(result if isinstance(result, (list, tuple)) else [result]):
                if func in self._quotients and tensor is result:  # parts of a complex quotient are separate tensors
                    move_exact_quotients(tensor, args[1], self._draw)
                round_in_place(tensor, self._draw)
        return result

    def _let_steps_stray(self, result: torch.Tensor, start: float, end: float) -> None:
        """Add errors as large as those of rounding the ends of the range, also to values near zero."""
        step = (end - start) / max(1, len(result) - 1)
        if start != _in_float32(start) or step != _in_float32(step):
            with _without_modes():
                stray_in_place(result, torch.full_like(result, max(abs(start), abs(end))), self._draw)

    def _fuse(self, func: Any, args: Sequence[Any], result: torch.Tensor) -> None:
        """Use the exact product in a sum of products, or in a difference of them, where these cancel."""
        factors = [[it[1:] for it in self._last_products if it[0]() is arg] for arg in args]
        if not all(factors):
            return
        left = self._draw % 2 == 0
        product, other = args if left else reversed(args)
        a, b = factors[0 if left else 1][0]
        with _without_modes():
            cancelled = (result.abs() * CANCELLED < product.abs()) & (other.abs() < math.inf)
            if not bool(cancelled.any()):
                return
            exact = a * b
            cancelled &= (exact - product).abs() <= SPACING * product.abs()  # the factors may have changed since
            fused = func(exact, other) if left else func(other, exact)
            result.copy_(torch.where(cancelled, fused, result))

    def _sum(
        self,
        terms: torch.Tensor,
        dim: Sequence[int] | None = None,
        keepdim: bool = False,
        *,
        dtype: torch.dtype | None = None,
        mean: bool,
    ) -> torch.Tensor:
        """Sum in parts. `dtype` would be a float lifted to float64, so it is ignored."""
        dims = [place % terms.dim() for place in dim or range(terms.dim())]
        longest = max(dims, key=lambda place: terms.shape[place])
        parts = terms.tensor_split(min(TERMS, terms.shape[longest]), longest)
        total = self._added(part.sum(dims, keepdim) for part in parts)
        self._let_large_terms_stray(total, terms, dims, keepdim)
        if mean:
            count = math.prod(terms.shape[place] for place in dims)
            total /= count
            move_exact_quotients(total, count, self._draw)
            round_in_place(total, self._draw)
        return total

    def _let_large_terms_stray(self, total: torch.Tensor, terms: torch.Tensor, dims: list[int], keepdim: bool) -> None:
        """Add the errors that terms far larger than their sum leave in it, if others are added in between.

        Large terms of one part cancel before anything is rounded here. Sums that are exact in any order do not stray.
        """
        norm = functools.partial(torch.linalg.vector_norm, terms, dim=dims)
        with _without_modes():
            cancelled = norm(math.inf, keepdim=keepdim) > CANCELLED * total.abs()
            if not bool(cancelled.any()):
                return
            spacing = torch.exp2(norm(1, keepdim=True).log2_().floor_()).mul_(SPACING)
            whole = terms / spacing
            inexact = (whole != whole.round()).any(dims[0], keepdim=True)
            for place in dims[1:]:
                inexact = inexact.any(place, keepdim=True)
            walked = norm(2, keepdim=keepdim).mul_(cancelled & inexact.reshape(total.shape))
        stray_in_place(total, walked, self._draw)
        round_in_place(total, self._draw)

    def _scan(self, combine: Callable[..., torch.Tensor], terms: torch.Tensor, dim: int) -> torch.Tensor:
        """Scan in doubling steps as a GPU does: the rounding of x * x enters x**64 thirty-two times."""
        total, reach, count = terms.clone(), 1, terms.shape[dim]
        while reach < count:
            later = combine(total.narrow(dim, 0, count - reach), total.narrow(dim, reach, count - reach))
            round_in_place(later, self._draw)
            total = torch.cat([total.narrow(dim, 0, reach), later], dim)
            reach *= 2
        return total

    def _added(self, parts: Iterable[torch.Tensor], terms: int = 0) -> torch.Tensor:
        """Add the parts. With `terms`, there are `TERMS` parts, and the total strays as if so many terms were added one
        after another.
        """
        total: torch.Tensor | None = None
        squares: torch.Tensor | None = None
        for part in parts:
            inexact = ~_on_the_grid(part) if terms else None
            round_in_place(part, self._draw)
            if total is None:
                total = part
            else:
                total += part
                round_in_place(total, self._draw)
            if inexact is not None:
                square = total.square().mul_(inexact)
                squares = square if squares is None else squares.add_(square)
        assert total is not None
        if squares is not None:
            stray_in_place(total, squares.mul_(terms / TERMS).sqrt_(), self._draw)
            round_in_place(total, self._draw)
        return total


def _in_float32(number: float) -> float:
    return float(np.float32(number))


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
    """Notes whether any result inside is float64."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.any = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.any |= any(True for _ in _doubles(result if isinstance(result, (list, tuple)) else [result]))
        return result
