"""Functions of single elements, and how Triton computes them.

In a template, `{0}` is the first operand. The hint names the result. An operand that occurs twice in a template is put
into a variable first. NaN propagates as in torch, which is why `relu` compares instead of taking a maximum.
"""

from __future__ import annotations

import dataclasses
import enum
import re

FUNCTIONS = {
    "multiply": ("@triton.jit", "def multiply(a, b):", "    return a * b"),
    "take_larger": (
        "@triton.jit",
        "def take_larger(a, b):",
        "    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)",
    ),
    "take_smaller": (
        "@triton.jit",
        "def take_smaller(a, b):",
        "    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)",
    ),
    "add_logarithms": (
        "@triton.jit",
        "def add_logarithms(a, b):",
        "    larger = tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)",
        "    total = larger + tl.log(tl.exp(a - larger) + tl.exp(b - larger))",
        '    return tl.where(tl.abs(larger) == float("inf"), larger, total)',
    ),
    "log_one_plus": (
        "@triton.jit",
        "def log_one_plus(x):",
        '    """log(1 + x) for x from 0 to 1, by the series of the inverse hyperbolic tangent."""',
        "    share = x / (x + 2.0)",
        "    square = share * share",
        "    series = square * 0.15384615384615385 + 0.18181818181818182",
        "    series = series * square + 0.2222222222222222",
        "    series = series * square + 0.2857142857142857",
        "    series = series * square + 0.4",
        "    series = series * square + 0.6666666666666666",
        "    return series * square * share + 2.0 * share",
    ),
    "mish": (
        "@triton.jit",
        "def mish(x):",
        '    """x * tanh(log(1 + exp(x))): the tangent is a quotient of polynomials of exp(x)."""',
        "    power = tl.exp(tl.minimum(x, 20.0))",
        "    grown = power * (power + 2.0)",
        "    return x * (grown / (grown + 2.0))",
    ),
    "short_gelu": (
        "@triton.jit",
        "def short_gelu(x):",
        '    """GELU to five digits, for results of half precision: x times the share of normal numbers below it."""',
        "    size = tl.abs(x)",
        "    exponent = size * -1.7938521e-06 + 6.0727598e-05",
        "    exponent = exponent * size - 9.2319688e-04",
        "    exponent = exponent * size + 8.4768892e-03",
        "    exponent = exponent * size - 5.3891016e-02",
        "    exponent = exponent * size - 4.5854152e-01",
        "    exponent = exponent * size - 1.1512144",
        "    beyond = tl.exp2(exponent * size - 1.0)",
        "    return x * tl.where(x < 0, beyond, 1.0 - beyond)",
    ),
    "cut_to_tf32": (
        "@triton.jit",
        "def cut_to_tf32(x):",
        '    """x cut to the 11 leading digits that the matrix unit takes."""',
        "    return (x.to(tl.int32, bitcast=True) & -8192).to(tl.float32, bitcast=True)",
    ),
    "nearest_tf32": (
        "@triton.jit",
        "def nearest_tf32(x):",
        '    """x rounded to 11 leading digits."""',
        "    return ((x.to(tl.int32, bitcast=True) + 4096) & -8192).to(tl.float32, bitcast=True)",
    ),
    "score_tanh": (
        "@triton.jit",
        "def score_tanh(x):",
        '    """tanh to six digits after the point, for the scores of a softmax."""',
        "    return 1.0 - 2.0 / (1.0 + tl.exp2(x * 2.8853900817779268))",
    ),
    "short_tanh": (
        "@triton.jit",
        "def short_tanh(x):",
        '    """tanh to six digits, for results of half precision."""',
        "    power = tl.exp(-2.0 * tl.abs(x))",
        "    far = (1.0 - power) / (1.0 + power)",
        "    square = x * x",
        "    near = x - x * square * 0.3333333333333333",
        "    return tl.where(square < 0.0025, near, tl.where(x < 0, -far, far))",
    ),
}
"""Helper functions that a file defines beside its kernels, where the library's version takes more instructions or does
not exist.
"""


class Binding(enum.IntEnum):
    """Operator precedence of an expression, lowest first."""

    LOOSEST = 0
    COMPARE = 10
    OR = 20
    XOR = 25
    AND = 30
    SHIFT = 35
    SUM = 40
    PRODUCT = 50
    UNARY = 60
    ATOM = 100


@dataclasses.dataclass(frozen=True, slots=True)
class Point:
    """A function of single elements as a Triton expression."""

    template: str
    binding: Binding
    """Precedence of the whole expression."""
    needs: tuple[Binding, ...]
    """For each operand, the lowest precedence at which it needs no parentheses."""
    hint: str
    """Name of the result where the model suggests none."""
    floats: bool = True
    """True if the function is computed in floating point for operands of any dtype."""

    @property
    def helpers(self) -> set[str]:
        """Names that the file must import or define to use the function."""
        return {name for name in ("libdevice", *FUNCTIONS) if re.search(rf"\b{name}\b", self.template)}

    @property
    def is_costly(self) -> bool:
        """Return True if an element takes about as long as a memory access that the cache serves."""
        return re.search(r"exp|log|sigmoid|tanh|erf|sin|cos|pow|libdevice", self.template) is not None

    def occurrences(self, position: int) -> int:
        return self.template.count(f"{{{position}}}")


def _call(template: str, hint: str, operands: int = 1, *, floats: bool = True) -> Point:
    return Point(template, Binding.ATOM, (Binding.LOOSEST,) * operands, hint, floats)


def _infix(sign: str, binding: Binding, hint: str, *, floats: bool = False) -> Point:
    tighter = Binding(min(b for b in Binding if b > binding))
    return Point(f"{{0}} {sign} {{1}}", binding, (binding, tighter), hint, floats)


def _formula(template: str, binding: Binding, hint: str, *needs: Binding, floats: bool = True) -> Point:
    return Point(template, binding, needs, hint, floats)


_C, _P, _S, _U = Binding.COMPARE, Binding.PRODUCT, Binding.SUM, Binding.UNARY
_A = Binding.ATOM

POINTS: dict[str, Point] = {
    "add": _infix("+", _S, "total"),
    "sub": _infix("-", _S, "shifted"),
    "mul": _infix("*", _P, "scaled"),
    "div": _infix("/", _P, "ratio", floats=True),
    "floor_div": _formula("tl.floor({0} / {1})", _A, "quotient", _P, _U),
    "trunc_div": _formula("libdevice.trunc({0} / {1})", _A, "quotient", _P, _U),
    "int_trunc_div": _infix("//", _P, "quotient"),
    "int_floor_div": _formula(
        "({0} // {1}) - (({0} % {1} != 0) & (({0} < 0) != ({1} < 0))).to({0}.dtype)",
        _S,
        "quotient",
        _A,
        _A,
        floats=False,
    ),
    "signed_rest": _formula("tl.where(({0} != 0) & (({0} < 0) != ({1} < 0)), {0} + {1}, {0})", _A, "rest", _A, _A),
    "whole_quotient": _formula(
        "tl.floor(({0} - {2}) / {1} + 0.5) - tl.where(({2} != 0) & (({2} < 0) != ({1} < 0)), 1.0, 0.0)",
        _S,
        "quotient",
        _A,
        _A,
        _A,
    ),
    "int_mod": _formula(
        "tl.where(({0} % {1} != 0) & (({0} < 0) != ({1} < 0)), {0} % {1} + {1}, {0} % {1})",
        _A,
        "rest",
        _A,
        _A,
        floats=False,
    ),
    "fmod": _call("libdevice.fmod({0}, {1})", "rest", 2),
    "neg": _formula("-{0}", _U, "negated", _U, floats=False),
    "abs": _call("tl.abs({0})", "magnitude", floats=False),
    "sign": _formula("tl.where({0} > 0, 1.0, 0.0) - tl.where({0} < 0, 1.0, 0.0)", _S, "sign", _A),
    "int_sign": _formula("({0} > 0).to({0}.dtype) - ({0} < 0).to({0}.dtype)", _S, "sign", _A, floats=False),
    "square": _formula("{0} * {0}", _P, "square", _A, floats=False),
    "cube": _formula("{0} * {0} * {0}", _P, "cube", _A, floats=False),
    "fourth": _formula("({0} * {0}) * ({0} * {0})", _P, "fourth", _A, floats=False),
    "reciprocal": _formula("1.0 / {0}", _P, "reciprocal", _U),
    "sqrt": _call("tl.sqrt({0})", "root"),
    "rsqrt": _call("tl.rsqrt({0})", "scale"),
    "exp": _call("tl.exp({0})", "power"),
    "fast_exp": _call("libdevice.fast_expf({0})", "power"),
    "exp2": _call("tl.exp2({0})", "power"),
    "expm1": _call("libdevice.expm1({0})", "power"),
    "log": _call("tl.log({0})", "logarithm"),
    "log2": _call("tl.log2({0})", "logarithm"),
    "log10": _call("libdevice.log10({0})", "logarithm"),
    "log1p": _call("libdevice.log1p({0})", "logarithm"),
    "sin": _call("tl.sin({0})", "sine"),
    "cos": _call("tl.cos({0})", "cosine"),
    "tan": _call("libdevice.tan({0})", "tangent"),
    "tanh": _call("libdevice.tanh({0})", "squashed"),
    "short_tanh": _call("short_tanh({0})", "squashed"),
    "short_gelu": _call("short_gelu({0})", "activated"),
    "score_tanh": _call("score_tanh({0})", "squashed"),
    "sinh": _call("libdevice.sinh({0})", "result"),
    "cosh": _call("libdevice.cosh({0})", "result"),
    "asin": _call("libdevice.asin({0})", "angle"),
    "acos": _call("libdevice.acos({0})", "angle"),
    "atan": _call("libdevice.atan({0})", "angle"),
    "asinh": _call("libdevice.asinh({0})", "result"),
    "acosh": _call("libdevice.acosh({0})", "result"),
    "atanh": _call("libdevice.atanh({0})", "result"),
    "atan2": _call("libdevice.atan2({0}, {1})", "angle", 2),
    "hypot": _call("libdevice.hypot({0}, {1})", "distance", 2),
    "erf": _call("tl.erf({0})", "result"),
    "erfc": _call("libdevice.erfc({0})", "result"),
    "erfinv": _call("libdevice.erfinv({0})", "result"),
    "lgamma": _call("libdevice.lgamma({0})", "result"),
    "floor": _call("tl.floor({0})", "whole"),
    "ceil": _call("tl.ceil({0})", "whole"),
    "trunc": _call("libdevice.trunc({0})", "whole"),
    "round": _call("libdevice.rint({0})", "whole"),
    "frac": _formula("{0} - libdevice.trunc({0})", _S, "fraction", _A),
    "pow": _call("libdevice.pow({0}, {1})", "power", 2),
    "pow_of_positive": _formula("tl.exp2(tl.log2({0}) * {1})", _A, "power", Binding.LOOSEST, _P),
    "copysign": _call("libdevice.copysign({0}, {1})", "result", 2),
    "sigmoid": _call("tl.sigmoid({0})", "gate"),
    "log_sigmoid": _formula("tl.where({0} < 0, {0}, 0.0) - log_one_plus(tl.exp(-tl.abs({0})))", _S, "log_gate", _A),
    "relu": _formula("tl.where({0} < 0, 0.0, {0})", _A, "activated", _A),
    "int_relu": _formula("tl.where({0} < 0, 0, {0})", _A, "activated", _A, floats=False),
    "relu6": _formula("tl.where({0} < 0, 0.0, tl.where({0} > 6, 6.0, {0}))", _A, "activated", _A),
    "silu": _formula("{0} * tl.sigmoid({0})", _P, "activated", _A),
    "gelu": _formula("0.5 * {0} * (1.0 + tl.erf({0} * 0.7071067811865476))", _P, "activated", _A),
    "gelu_tanh": _formula(
        "{0} * tl.sigmoid(1.5957691216057308 * {0} * (1.0 + 0.044715 * {0} * {0}))", _P, "activated", _A
    ),
    "elu": _formula(
        "tl.where({0} > 0, {0} * {2}, libdevice.expm1({0} * {3}) * ({1} * {2}))", _A, "activated", _A, _P, _P, _P
    ),
    "leaky_relu": _formula("tl.where({0} > 0, {0}, {0} * {1})", _A, "activated", _A, _U),
    "softplus": _formula("tl.where({0} > 0, {0}, 0.0) + log_one_plus(tl.exp(-tl.abs({0})))", _S, "activated", _A),
    "hardtanh": _formula("tl.where({0} < {1}, {1}, tl.where({0} > {2}, {2}, {0}))", _A, "clamped", _A, _S, _S),
    "hardsigmoid": _formula(
        "tl.clamp({0} + 3.0, 0.0, 6.0, propagate_nan=tl.PropagateNan.ALL) * 0.16666666666666666", _P, "gate", _S
    ),
    "hardswish": _formula("{0} * tl.clamp({0} + 3.0, 0.0, 6.0) * 0.16666666666666666", _P, "activated", _A),
    "mish": _call("mish({0})", "activated"),
    "softsign": _formula("{0} / (1.0 + tl.abs({0}))", _P, "activated", _A),
    "clamp_min": _formula("tl.where({0} < {1}, {1}, {0})", _A, "at_least", _A, Binding.ATOM, floats=False),
    "clamp_max": _formula("tl.where({0} > {1}, {1}, {0})", _A, "at_most", _A, Binding.ATOM, floats=False),
    "maximum": _call("tl.maximum({0}, {1}, propagate_nan=tl.PropagateNan.ALL)", "larger", 2, floats=False),
    "minimum": _call("tl.minimum({0}, {1}, propagate_nan=tl.PropagateNan.ALL)", "smaller", 2, floats=False),
    "fmax": _call("tl.maximum({0}, {1})", "larger", 2),
    "fmin": _call("tl.minimum({0}, {1})", "smaller", 2),
    "where": _call("tl.where({0}, {1}, {2})", "chosen", 3, floats=False),
    "eq": _infix("==", _C, "is_equal"),
    "ne": _infix("!=", _C, "differs"),
    "lt": _infix("<", _C, "is_less"),
    "le": _infix("<=", _C, "is_at_most"),
    "gt": _infix(">", _C, "is_more"),
    "ge": _infix(">=", _C, "is_at_least"),
    "isnan": _formula("{0} != {0}", _C, "is_nan", _A),
    "isinf": _formula('tl.abs({0}) == float("inf")', _C, "is_infinite", Binding.LOOSEST),
    "isfinite": _formula('tl.abs({0}) < float("inf")', _C, "is_finite", Binding.LOOSEST),
    "and": _infix("&", Binding.AND, "both"),
    "or": _infix("|", Binding.OR, "either"),
    "xor": _infix("^", Binding.XOR, "differs"),
    "not": _formula("~{0}", _U, "negated", _U, floats=False),
    "bits": _call("({0} + 0.0).to(tl.int32, bitcast=True)", "bits"),
    "from_bits": _call("{0}.to(tl.float32, bitcast=True)", "number", floats=False),
    "to_tf32": _formula(
        "tl.where(tl.abs({0}) < 3e38, "
        "(({0}.to(tl.int32, bitcast=True) + 4096) & -8192).to(tl.float32, bitcast=True), {0})",
        _A,
        "rounded",
        _A,
    ),
    "shift_left": _infix("<<", Binding.SHIFT, "shifted"),
    "shift_right": _infix(">>", Binding.SHIFT, "shifted"),
}
"""Maps the author's function names to expressions. `cast` is missing: its text depends on where the operand comes
from.
"""

IN_HALF_PRECISION = {"tanh": "short_tanh", "gelu": "short_gelu"}
"""Cheaper functions for results that are stored in half precision."""
SHORT = frozenset({*IN_HALF_PRECISION.values(), "score_tanh"})
"""All functions that are less accurate than the library's."""

UNSTEADY = frozenset(
    {"round", "floor", "ceil", "trunc", "frac", "floor_div", "trunc_div", "whole_quotient", "signed_rest", "fmod"}
    | {"sign", "eq", "ne", "lt", "le", "gt", "ge"}
)
"""Functions whose result may jump when the last digit of an argument changes."""
