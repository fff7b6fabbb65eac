"""The functions of NVIDIA's libdevice that kernels use, by symbol, on numpy arrays.

Accurate to about one rounding, so at least as accurate as on the GPU. The `fast_` variants have the errors of their
definitions: sines convert the angle to turns in float32 and err by about 2**-21; powers use a rounded logarithm.
Not covered, and refused with `Unsupported`: arithmetic that rounds up, down or toward zero, Bessel functions, and
rarely used functions such as `erfcx` and `byte_perm`.
"""

from __future__ import annotations

import functools
import math
import re
import statistics
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from triton_agent.tools.emulate.faults import Unsupported
from triton_agent.tools.emulate.floats import Array

_SYMBOL_PREFIX = "__nv_"
_INTEGER_CONVERSION = re.compile(r"(float|double)2(int|uint|ll|ull)_(rn|rz|rd|ru)")
_ROUNDINGS = {"rn": np.rint, "rz": np.trunc, "rd": np.floor, "ru": np.ceil}
_CONVERSION_TO_NEAREST = re.compile(r"(int|uint|ll|ull|double)2(float|double)_rn")


def call(symbol: str, arguments: Sequence[Array]) -> Array:
    """Return the value of a symbol such as `__nv_tanhf`; the caller rounds it to the type of the result."""
    name = symbol.removeprefix(_SYMBOL_PREFIX)
    function = _FAST.get(name) or _find(symbol)
    if function is None:
        raise Unsupported(f"`libdevice` function `{symbol}`")
    return function(*arguments)


def by_element(function: Callable[[float], float], *, at_poles: float = math.nan) -> Callable[[Array], Array]:
    """Apply a function of the standard library to an array, with IEEE results where Python raises."""

    def guarded(value: float) -> float:
        try:
            return function(value)
        except OverflowError:
            return math.inf
        except ValueError:
            return at_poles

    apply = np.frompyfunc(guarded, 1, 1)
    return lambda values: np.asarray(apply(values.astype(np.float64))).astype(values.dtype)


@functools.cache
def _find(symbol: str) -> Callable[..., Array] | None:
    name = symbol.removeprefix(_SYMBOL_PREFIX)
    conversion = _INTEGER_CONVERSION.fullmatch(name)
    if conversion is not None:
        return _ROUNDINGS[conversion[3]]
    if _CONVERSION_TO_NEAREST.fullmatch(name):
        return np.asarray
    return next((_FUNCTIONS[spelling] for spelling in _spellings(name) if spelling in _FUNCTIONS), None)


def _spellings(name: str) -> list[str]:
    """Return `name` and its spellings without type letters: `tanhf`, `isnand`, `dadd_rn`, `fmaf_rn`, `fast_expf`."""
    plain = name.removeprefix("fast_")
    candidates = [plain, plain.replace("f_rn", "_rn"), plain.removesuffix("f"), plain.removesuffix("d")]
    if plain.endswith("_rn"):
        candidates += [candidate[1:] for candidate in candidates]
    return candidates


def _in_double(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    return lambda values: function(values.astype(np.float64)).astype(values.dtype)


def _round_half_away(values: Array) -> Array:
    whole = np.trunc(values)
    return whole + np.where(np.abs(values - whole) >= 0.5, np.copysign(values.dtype.type(1), values), 0)


def _remainder(x: Array, y: Array) -> Array:
    return np.asarray(np.frompyfunc(_ieee_remainder, 2, 1)(x.astype(np.float64), y.astype(np.float64))).astype(x.dtype)


def _ieee_remainder(x: float, y: float) -> float:
    try:
        return math.remainder(x, y)
    except ValueError:
        return math.nan


def _inverse_normal(probability: float) -> float:
    edges = {0.0: -math.inf, 1.0: math.inf}
    return edges[probability] if probability in edges else statistics.NormalDist().inv_cdf(probability)


def _fused_multiply_add(x: Array, y: Array, z: Array) -> Array:
    return (x.astype(np.float64) * y + z).astype(x.dtype)


def _view_as(kind: type) -> Callable[[Array], Array]:
    return lambda values: np.ascontiguousarray(values).view(kind)


def _bit_length(values: Array) -> Array:
    unsigned = np.ascontiguousarray(values).view(f"u{values.itemsize}").astype(object)
    return np.asarray(np.frompyfunc(int.bit_length, 1, 1)(unsigned)).astype(np.int32)


def _population(values: Array) -> Array:
    unsigned = np.ascontiguousarray(values).view(f"u{values.itemsize}").astype(object)
    return np.asarray(np.frompyfunc(int.bit_count, 1, 1)(unsigned)).astype(np.int32)


def _leading_zeros(values: Array) -> Array:
    return np.int32(values.itemsize * 8) - _bit_length(values)


def _norm(*parts: Array) -> Array:
    squares: Array = np.sum([part.astype(np.float64) ** 2 for part in parts], axis=0)
    return np.sqrt(squares).astype(parts[0].dtype)


_SQRT_HALF = math.sqrt(0.5)
_SINE_STEP = 2.0**-21
"""Absolute error of approximate sines and cosines, within half a turn."""


def _fast_sine(x: Array, quarter: float = 0.0) -> Array:
    turns = (x * np.float32(0.5 / np.pi)).astype(np.float64)
    exact = np.sin(2 * np.pi * (np.fmod(turns, 1.0) + quarter))
    return (np.rint(exact / _SINE_STEP) * _SINE_STEP).astype(np.float32)


def _fast_cosine(x: Array) -> Array:
    return _fast_sine(x, 0.25)


def _by_log2(factor: float) -> Callable[[Array], Array]:
    return lambda x: np.log2(x) * np.float32(factor)


_FAST: dict[str, Callable[..., Array]] = {
    "fast_sinf": _fast_sine,
    "fast_cosf": _fast_cosine,
    "fast_tanf": lambda x: _fast_sine(x) / _fast_cosine(x),
    "fast_expf": lambda x: np.exp2(x * np.float32(math.log2(math.e))),
    "fast_exp10f": lambda x: np.exp2(x * np.float32(math.log2(10.0))),
    "fast_logf": _by_log2(math.log(2.0)),
    "fast_log10f": _by_log2(math.log10(2.0)),
    "fast_powf": lambda x, y: np.exp2(y * np.log2(x)),
}
"""Computed as on a GPU: by one or two approximate instructions, each rounded to float32."""

_SAME_IN_NUMPY = (
    *("abs", "floor", "ceil", "trunc", "rint", "sqrt", "cbrt", "hypot", "fmod", "copysign", "nextafter", "ldexp"),
    *("isnan", "isinf", "signbit", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p"),
    *("sin", "cos", "tan", "sinh", "cosh", "tanh"),
)

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: getattr(np, name) for name in _SAME_IN_NUMPY},
    "llabs": np.abs,
    "fabs": np.abs,
    "nearbyint": np.rint,
    "llrint": np.rint,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "atan2": np.arctan2,
    "finite": np.isfinite,
    "isfinite": np.isfinite,
    "pow": np.power,
    "powi": lambda x, n: np.power(x, n.astype(x.dtype)),
    "scalbn": np.ldexp,
    # functions that numpy lacks
    "round": _round_half_away,
    "llround": _round_half_away,
    "remainder": _remainder,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "rcbrt": lambda x: 1 / np.cbrt(x),
    "rhypot": lambda x, y: 1 / np.hypot(x, y),
    "norm3d": _norm,
    "norm4d": _norm,
    "rnorm3d": lambda *parts: 1 / _norm(*parts),
    "rnorm4d": lambda *parts: 1 / _norm(*parts),
    "exp10": _in_double(lambda x: np.power(10.0, x)),
    "sinpi": _in_double(lambda x: np.sin(np.pi * np.fmod(x, 2))),
    "cospi": _in_double(lambda x: np.cos(np.pi * np.fmod(x, 2))),
    "erf": by_element(math.erf),
    "erfc": by_element(math.erfc),
    "erfinv": by_element(lambda x: _inverse_normal((x + 1) / 2) * _SQRT_HALF),
    "erfcinv": by_element(lambda x: -_inverse_normal(x / 2) * _SQRT_HALF),
    "normcdf": by_element(lambda x: math.erfc(-x * _SQRT_HALF) / 2),
    "normcdfinv": by_element(_inverse_normal),
    "tgamma": by_element(math.gamma),
    "lgamma": by_element(math.lgamma, at_poles=math.inf),
    "fdim": lambda x, y: np.where(np.isnan(x) | np.isnan(y), x + y, np.fmax(x - y, 0)),
    "logb": lambda x: np.where(x == 0, -np.inf, np.where(np.isinf(x), np.inf, np.frexp(x)[1] - 1.0)),
    "ilogb": lambda x: np.frexp(x)[1] - 1,
    "saturate": lambda x: np.fmin(np.fmax(x, 0), 1),
    "fma": _fused_multiply_add,
    # arithmetic rounded to nearest: `fadd_rn` and `dadd_rn` without the letter of the type
    "add_rn": np.add,
    "sub_rn": np.subtract,
    "mul_rn": np.multiply,
    "div_rn": np.divide,
    "fdivide": np.divide,
    "rcp_rn": lambda x: 1 / x,
    "sqrt_rn": np.sqrt,
    "rsqrt_rn": lambda x: 1 / np.sqrt(x),
    "fma_rn": _fused_multiply_add,
    # bits
    "clz": _leading_zeros,
    "clzll": _leading_zeros,
    "popc": _population,
    "popcll": _population,
    "float_as_int": _view_as(np.int32),
    "float_as_uint": _view_as(np.uint32),
    "int_as_float": _view_as(np.float32),
    "uint_as_float": _view_as(np.float32),
    "double_as_longlong": _view_as(np.int64),
    "longlong_as_double": _view_as(np.float64),
}
"""Functions by libdevice's name, without the library's prefix and the letters of the type."""
