"""Rules for operators that work element by element."""

from __future__ import annotations

import math

from triton_agent.policy.author.brief import BeyondAuthor
from triton_agent.policy.author.ir.program import FLOATS, INTEGERS, Number, Operand
from triton_agent.policy.author.ir.sizes import constant
from triton_agent.policy.author.rules.building import Builder, Call, lowers
from triton_agent.policy.author.rules.movement import added_onto

_SAME_NAME = (
    "neg abs sqrt rsqrt exp exp2 expm1 log log2 log10 log1p sin cos tan tanh sinh cosh asin acos atan asinh acosh "
    "atanh erf erfc erfinv lgamma sigmoid log_sigmoid reciprocal silu relu6 hardsigmoid hardswish frac square"
)
_RENAMED = {"special_erf": "erf", "special_expit": "sigmoid", "special_log1p": "log1p", "special_expm1": "expm1"}


@lowers(*_SAME_NAME.split(), *_RENAMED)
def _unary(builder: Builder, call: Call) -> str:
    operator = call.aligned.operator.removeprefix("aten.")
    return builder.point(_RENAMED.get(operator, operator), call.tensor("self"), dtype=call.dtype)


@lowers("log_sigmoid_forward")
def _log_sigmoid(builder: Builder, call: Call) -> tuple[str | None, ...]:
    return (builder.point("log_sigmoid", call.tensor("self"), dtype=call.dtype), None)


@lowers("relu")
def _relu(builder: Builder, call: Call) -> str:
    return builder.point("relu" if call.dtype in FLOATS else "int_relu", call.tensor("self"), dtype=call.dtype)


@lowers("sign", "sgn")
def _sign(builder: Builder, call: Call) -> str:
    return builder.point("sign" if call.dtype in FLOATS else "int_sign", call.tensor("self"), dtype=call.dtype)


@lowers("floor", "ceil", "trunc", "fix")
def _rounding(builder: Builder, call: Call) -> str:
    if call.dtype not in FLOATS:
        return call.tensor("self")
    function = call.aligned.operator.removeprefix("aten.").replace("fix", "trunc")
    return builder.point(function, call.tensor("self"), dtype=call.dtype)


@lowers("round")
def _round(builder: Builder, call: Call) -> str:
    if (decimals := int(call.plain("decimals", 0))) != 0:
        return _rounded_to(builder, call, decimals)
    return (
        builder.point("round", call.tensor("self"), dtype=call.dtype) if call.dtype in FLOATS else call.tensor("self")
    )


def _rounded_to(builder: Builder, call: Call, decimals: int) -> str:
    """Scale, round, and scale back by a power of ten, as torch does."""
    if call.dtype not in FLOATS:
        return call.tensor("self")
    power = builder.number(10.0 ** abs(decimals))
    there, back = ("mul", "div") if decimals > 0 else ("div", "mul")
    scaled = builder.point(there, call.tensor("self"), power, dtype=call.dtype)
    return builder.point(back, builder.point("round", scaled, dtype=call.dtype), power, dtype=call.dtype)


@lowers("signbit")
def _sign_bit(builder: Builder, call: Call) -> str:
    """Return the sign bit, which negative zero has, too."""
    name = call.tensor("self")
    dtype = builder.get(name).dtype
    sign = builder.point("copysign", builder.number(1.0), name, dtype=dtype) if dtype in FLOATS else name
    return builder.point("lt", sign, builder.number(0), dtype="bool", compute=dtype)


@lowers("heaviside")
def _step(builder: Builder, call: Call) -> str:
    x, dtype = call.tensor("self"), call.dtype
    zero = builder.point("eq", x, builder.number(0), dtype="bool", compute=dtype)
    above = builder.cast(builder.point("gt", x, builder.number(0), dtype="bool", compute=dtype), dtype)
    return builder.where(zero, call.operand("values"), above, dtype, "step")


@lowers("fake_quantize_per_tensor_affine_cachemask", "fake_quantize_per_tensor_affine")
def _fake_quantize(builder: Builder, call: Call) -> list[str | None]:
    """Quantize and dequantize. The mask of clamped elements is needed for gradients only and not computed."""
    scale, zero = float(call.plain("scale")), int(call.plain("zero_point"))
    x, dtype = call.tensor("self"), "float32"
    steps = builder.point("round", builder.point("mul", x, builder.number(1.0 / scale), dtype=dtype), dtype=dtype)
    level = builder.point("add", steps, builder.number(float(zero)), dtype=dtype, hint="level")
    for function, bound in (("clamp_min", "quant_min"), ("clamp_max", "quant_max")):
        level = builder.point(function, level, builder.number(float(call.plain(bound))), dtype=dtype, hint="level")
    level = builder.point("sub", level, builder.number(float(zero)), dtype=dtype)
    made = builder.point("mul", level, builder.number(scale), dtype=dtype)
    return [builder.cast(made, call.dtype), None]


@lowers("fake_quantize_per_channel_affine_cachemask", "fake_quantize_per_channel_affine")
def _fake_quantize_channels(builder: Builder, call: Call) -> list[str | None]:
    """Quantize and dequantize with a scale and a zero point per channel; here the zero point is added before
    rounding.
    """
    x, axis, dtype = call.tensor("self"), int(call.plain("axis")), "float32"
    along = tuple(size if dim == axis else builder.one() for dim, size in enumerate(call.shape))
    scale = builder.reshape(call.tensor("scale"), along)
    zero = builder.cast(builder.reshape(call.tensor("zero_point"), along), dtype)
    inverse = builder.point("div", builder.number(1.0), scale, dtype=dtype, hint="inverse")
    level = builder.point("add", zero, builder.point("mul", x, inverse, dtype=dtype), dtype=dtype)
    level = builder.point("round", level, dtype=dtype, hint="level")
    for function, bound in (("clamp_min", "quant_min"), ("clamp_max", "quant_max")):
        level = builder.point(function, level, builder.number(float(call.plain(bound))), dtype=dtype, hint="level")
    made = builder.point("mul", builder.point("sub", level, zero, dtype=dtype), scale, dtype=dtype)
    return [builder.cast(made, call.dtype), None]


@lowers("gelu")
def _gelu(builder: Builder, call: Call) -> str:
    tanh = call.plain("approximate", "none") == "tanh"
    return builder.point("gelu_tanh" if tanh else "gelu", call.tensor("self"), dtype=call.dtype)


@lowers("add", "sub", "rsub")
def _sum(builder: Builder, call: Call) -> str:
    a, b = call.operand("self"), call.operand("other")
    name = call.aligned.operator.removeprefix("aten.")
    alpha = call.operand("alpha", 1)
    if name == "rsub":
        a, b = b, a
    if not (isinstance(alpha, Number) and alpha.fixed and alpha.values[0] == 1):
        scaled = a if name == "rsub" else b
        if isinstance(scaled, Number):
            raise BeyondAuthor("a number with alpha")
        b = builder.point("mul", b, alpha, dtype=call.dtype)
    if call.dtype == "bool":
        return builder.point("or", a, b, dtype="bool")
    if name == "add" and (together := added_onto(builder, a, b) or added_onto(builder, b, a)) is not None:
        return together
    return builder.point("sub" if name != "add" else "add", a, b, dtype=call.dtype, hint=_centred(builder, name, b))


def _centred(builder: Builder, name: str, other: Operand) -> str:
    return "centred" if name == "sub" and isinstance(other, str) and builder.get(other).hint == "mean" else ""


@lowers("mul", "multiply")
def _product(builder: Builder, call: Call) -> str:
    a, b = call.operand("self"), call.operand("other")
    if call.dtype == "bool":
        return builder.point("and", a, b, dtype="bool")
    if a == b:
        return builder.point("square", a, dtype=call.dtype)
    return builder.point("mul", a, b, dtype=call.dtype)


@lowers("div", "true_divide", "divide")
def _quotient(builder: Builder, call: Call) -> str:
    a, b, mode = call.operand("self"), call.operand("other"), call.plain("rounding_mode")
    if mode is None:
        inverse = _inverse(b) if call.dtype in FLOATS - {"float64"} else None
        if inverse is not None:
            return builder.point("mul", a, builder.number(inverse), dtype=call.dtype)
        return builder.point("div", a, b, dtype=call.dtype)
    if mode == "floor":
        return _floored(builder, call, a, b)
    return builder.point("int_trunc_div" if call.dtype in INTEGERS else "trunc_div", a, b, dtype=call.dtype)


def _inverse(number: Operand) -> float | None:
    """Return the reciprocal that torch's GPU kernels use instead of dividing by a number; None if they divide."""
    if not isinstance(number, Number) or not number.fixed:
        return None
    value = abs(float(number.values[0]))
    return 1.0 / float(number.values[0]) if 1e-30 < value < 1e30 else None


@lowers("floor_divide")
def _floor_divide(builder: Builder, call: Call) -> str:
    return _floored(builder, call, call.operand("self"), call.operand("other"))


def _floored(builder: Builder, call: Call, a: Operand, b: Operand) -> str:
    """Divide and round down. The rest tells on which side of a whole number a quotient lies that rounds to it."""
    if call.dtype in INTEGERS:
        return builder.point("int_floor_div", a, b, dtype=call.dtype)
    if not isinstance(b, Number):  # may be zero, for which there is no rest
        return builder.point("floor_div", a, b, dtype=call.dtype)
    rest = builder.point("fmod", a, b, dtype=call.dtype)
    return builder.point("whole_quotient", a, b, rest, dtype=call.dtype)


@lowers("remainder")
def _remainder(builder: Builder, call: Call) -> str:
    a, b = call.operand("self"), call.operand("other")
    if call.dtype in INTEGERS:
        return builder.point("int_mod", a, b, dtype=call.dtype)
    return builder.point("signed_rest", builder.point("fmod", a, b, dtype=call.dtype), b, dtype=call.dtype)


@lowers("fmod", "atan2", "hypot", "copysign", "fmax", "fmin")
def _two_floats(builder: Builder, call: Call) -> str:
    if call.dtype not in FLOATS:
        raise BeyondAuthor("integers")
    function = call.aligned.operator.removeprefix("aten.")
    return builder.point(function, call.operand("self"), call.operand("other"), dtype=call.dtype)


@lowers("maximum", "minimum")
def _extremum(builder: Builder, call: Call) -> str:
    function = call.aligned.operator.removeprefix("aten.")
    if call.dtype == "bool":
        function = "or" if function == "maximum" else "and"
    return builder.point(function, call.operand("self"), call.operand("other"), dtype=call.dtype)


_EXPONENTS = {2: "square", 3: "cube", 4: "fourth", 0.5: "sqrt", -0.5: "rsqrt", -1: "reciprocal"}


@lowers("pow")
def _pow(builder: Builder, call: Call) -> str:
    base, exponent = call.operand("self"), call.operand("exponent")
    if isinstance(exponent, Number) and exponent.fixed and isinstance(base, str):
        power = exponent.values[0]
        if power == 1:
            return builder.cast(base, call.dtype)
        if power in _EXPONENTS and (call.dtype in FLOATS or power in (2, 3, 4)):
            return builder.point(_EXPONENTS[power], base, dtype=call.dtype)
        if power == 0:
            return builder.full(1, call.shape, call.dtype)
    if call.dtype not in FLOATS:
        raise BeyondAuthor("powers of integers")
    function = "pow" if builder.exact or not _is_positive(builder, base) else "pow_of_positive"
    return builder.point(function, base, exponent, dtype=call.dtype)


def _is_positive(builder: Builder, base: Operand) -> bool:
    """Return True if no element is below a positive limit, as where a generalised mean is taken."""
    value = builder.get(base) if isinstance(base, str) else None
    if value is None or value.function != "clamp_min":
        return False
    least = value.operands[1]
    return isinstance(least, Number) and all(number > 0 for number in least.values)


@lowers("eq", "ne", "lt", "le", "gt", "ge")
def _comparison(builder: Builder, call: Call) -> str:
    function = call.aligned.operator.removeprefix("aten.")
    a, b = call.operand("self"), call.operand("other")
    return builder.point(function, a, b, dtype="bool", compute=_common_dtype(builder, a, b))


def _common_dtype(builder: Builder, *operands: Operand) -> str:
    """Return the dtype in which torch compares: the widest of the highest category."""
    dtypes = [builder.get(operand).dtype for operand in operands if isinstance(operand, str)]
    fractions = any(
        isinstance(o, Number) and any(isinstance(v, float) and not v.is_integer() for v in o.values) for o in operands
    )
    floats = [dtype for dtype in dtypes if dtype in FLOATS]
    if floats:
        return max(floats, key=("float16", "bfloat16", "float32", "float64").index)
    if fractions:
        return "float32"
    whole = [dtype for dtype in dtypes if dtype in INTEGERS]
    if not whole:
        return "int32" if any(isinstance(operand, Number) for operand in operands) else "bool"
    return max(whole, key=("uint8", "int8", "int16", "int32", "int64").index)


@lowers("isnan", "isinf", "isfinite")
def _finiteness(builder: Builder, call: Call) -> str:
    name, function = call.tensor("self"), call.aligned.operator.removeprefix("aten.")
    dtype = builder.get(name).dtype
    if dtype not in FLOATS:
        return builder.full(function == "isfinite", call.shape, "bool")
    return builder.point(function, name, dtype="bool", compute=dtype)


@lowers("logical_and", "logical_or", "logical_xor")
def _logical(builder: Builder, call: Call) -> str:
    function = call.aligned.operator.removeprefix("aten.logical_")
    return builder.point(function, call.operand("self"), call.operand("other"), dtype="bool")


@lowers("logical_not")
def _logical_not(builder: Builder, call: Call) -> str:
    return builder.point("not", call.tensor("self"), dtype="bool")


@lowers("bitwise_and", "bitwise_or", "bitwise_xor", "__and__", "__or__", "__xor__", "bitwise_not")
def _bitwise(builder: Builder, call: Call) -> str:
    function = call.aligned.operator.removeprefix("aten.").removeprefix("bitwise_").strip("_")
    if function == "not":
        return builder.point("not", call.tensor("self"), dtype=call.dtype)
    return builder.point(function, call.operand("self"), call.operand("other"), dtype=call.dtype)


@lowers("bitwise_left_shift", "bitwise_right_shift", "__lshift__", "__rshift__")
def _shift(builder: Builder, call: Call) -> str:
    function = "shift_left" if "left" in call.aligned.operator or "lsh" in call.aligned.operator else "shift_right"
    return builder.point(function, call.operand("self"), call.operand("other"), dtype=call.dtype)


@lowers("where")
def _where(builder: Builder, call: Call) -> str:
    return builder.where(call.tensor("condition"), call.operand("self"), call.operand("other"), call.dtype)


@lowers("masked_fill")
def _masked_fill(builder: Builder, call: Call) -> str:
    return builder.where(call.tensor("mask"), call.operand("value"), call.tensor("self"), call.dtype, "masked")


@lowers("clamp", "clip", "clamp_min", "clamp_max", "hardtanh")
def _clamp(builder: Builder, call: Call) -> str:
    made = call.tensor("self")
    low, high = ("min_val", "max_val") if "hardtanh" in call.aligned.operator else ("min", "max")
    defaults = (-1.0, 1.0) if "hardtanh" in call.aligned.operator else (None, None)
    for name, function, default in ((low, "clamp_min", defaults[0]), (high, "clamp_max", defaults[1])):
        if call.has(name) or default is not None:
            made = builder.point(function, made, call.operand(name, default), dtype=call.dtype, hint="clamped")
    return builder.cast(made, call.dtype)


@lowers("threshold")
def _threshold(builder: Builder, call: Call) -> str:
    x = call.tensor("self")
    below = builder.point("le", x, call.operand("threshold"), dtype="bool", compute=call.dtype)
    return builder.where(below, call.operand("value"), x, call.dtype)


@lowers("glu")
def _glu(builder: Builder, call: Call) -> str:
    name, shape = call.tensor("self"), call.shape
    dim = int(call.plain("dim", -1)) % len(shape)
    first = builder.slice(name, dim, constant(0, builder.width), shape[dim])
    gate = builder.point("sigmoid", builder.slice(name, dim, shape[dim], shape[dim]), dtype=call.dtype)
    return builder.point("mul", first, gate, dtype=call.dtype, hint="gated")


@lowers("leaky_relu")
def _leaky_relu(builder: Builder, call: Call) -> str:
    return builder.point("leaky_relu", call.tensor("self"), call.operand("negative_slope", 0.01), dtype=call.dtype)


@lowers("_prelu_kernel")
def _prelu(builder: Builder, call: Call) -> str:
    return builder.point("leaky_relu", call.tensor("self"), call.tensor("weight"), dtype=call.dtype)


@lowers("elu", "celu", "selu")
def _elu(builder: Builder, call: Call) -> str:
    name = call.aligned.operator.removeprefix("aten.")
    numbers = [call.operand("alpha", 1.0), call.operand("scale", 1.0), call.operand("input_scale", 1.0)]
    if name == "selu":
        numbers = [builder.number(n) for n in (1.6732632423543772, 1.0507009873554805, 1.0)]
    if name == "celu":
        alpha = float(call.plain("alpha", 1.0))
        numbers = [builder.number(n) for n in (alpha, 1.0, 1.0 / alpha)]
    return _scaled_elu(
        builder, call.tensor("self"), [float(n.values[0]) for n in numbers if isinstance(n, Number)], call
    )


def _scaled_elu(builder: Builder, x: str, numbers: list[float], call: Call) -> str:
    """Write an ELU without factors that are one."""
    alpha, scale, input_scale = numbers
    inner = x if input_scale == 1 else builder.point("mul", x, builder.number(input_scale), dtype=call.dtype)
    below = builder.point("expm1", inner, dtype=call.dtype, hint="below")
    if alpha * scale != 1:
        below = builder.point("mul", below, builder.number(alpha * scale), dtype=call.dtype, hint="below")
    above = x if scale == 1 else builder.point("mul", x, builder.number(scale), dtype=call.dtype, hint="above")
    positive = builder.point("gt", x, builder.number(0.0), dtype="bool", compute=call.dtype)
    return builder.where(positive, above, below, call.dtype, "activated")


SAME_FROM = 17.0
"""From here on, log(1 + exp(x)) is x in float32."""


@lowers("softplus")
def _softplus(builder: Builder, call: Call) -> str:
    beta, threshold = float(call.plain("beta", 1)), float(call.plain("threshold", 20))
    x = call.tensor("self")
    inner = x if beta == 1 else builder.point("mul", x, builder.number(beta), dtype=call.dtype)
    is_double = call.dtype == "float64"  # the short form has the digits of float32
    if is_double:
        soft = builder.point("log1p", builder.point("exp", inner, dtype=call.dtype), dtype=call.dtype, hint="soft")
    else:
        soft = builder.point("softplus", inner, dtype=call.dtype, hint="soft")
    if beta != 1:
        soft = builder.point("div", soft, builder.number(beta), dtype=call.dtype, hint="soft")
    if threshold >= SAME_FROM and not is_double:
        return soft
    large = builder.point("gt", inner, builder.number(threshold), dtype="bool", compute=call.dtype)
    return builder.where(large, x, soft, call.dtype, "activated")


@lowers("mish")
def _mish(builder: Builder, call: Call) -> str:
    return builder.point("mish", call.tensor("self"), dtype=call.dtype)


@lowers("hardshrink", "softshrink")
def _shrink(builder: Builder, call: Call) -> str:
    x, bound = call.tensor("self"), builder.number(float(call.plain("lambd", 0.5)))
    if "hard" in call.aligned.operator:
        small = builder.point("le", builder.point("abs", x, dtype=call.dtype), bound, dtype="bool", compute=call.dtype)
        return builder.where(small, builder.number(0.0), x, call.dtype)
    low, high = builder.point("clamp_min", x, _negated(bound), dtype=call.dtype), bound
    return builder.point("sub", x, builder.point("clamp_max", low, high, dtype=call.dtype), dtype=call.dtype)


def _negated(number: Number) -> Number:
    return Number(tuple(-value for value in number.values))


@lowers("addcmul", "addcdiv")
def _added_product(builder: Builder, call: Call) -> str:
    function = "mul" if "mul" in call.aligned.operator else "div"
    inner = builder.point(function, call.tensor("tensor1"), call.tensor("tensor2"), dtype=call.dtype)
    if call.plain("value", 1) != 1:
        inner = builder.point("mul", inner, call.operand("value"), dtype=call.dtype)
    return builder.point("add", call.tensor("self"), inner, dtype=call.dtype)


@lowers("lerp")
def _lerp(builder: Builder, call: Call) -> str:
    start, end = call.tensor("self"), call.tensor("end")
    way = builder.point("sub", end, start, dtype=call.dtype)
    return builder.point(
        "add", start, builder.point("mul", way, call.operand("weight"), dtype=call.dtype), dtype=call.dtype
    )


@lowers("nan_to_num")
def _nan_to_num(builder: Builder, call: Call) -> str:
    x, dtype = call.tensor("self"), call.dtype
    if dtype not in FLOATS:
        return x
    largest = {"float16": 65504.0, "bfloat16": 3.3895313892515355e38, "float32": 3.4028234663852886e38}.get(dtype)
    if largest is None:
        raise BeyondAuthor("float64")
    steps = (("eq", math.inf, "posinf", largest), ("eq", -math.inf, "neginf", -largest))
    made = builder.where(
        builder.point("isnan", x, dtype="bool", compute=dtype), builder.number(float(call.plain("nan", 0.0))), x, dtype
    )
    for function, extreme, name, default in steps:
        met = builder.point(function, x, builder.number(extreme), dtype="bool", compute=dtype)
        made = builder.where(met, builder.number(float(call.plain(name, default))), made, dtype)
    return made


@lowers("_to_copy", "to")
def _to_copy(builder: Builder, call: Call) -> str:
    return builder.cast(call.tensor("self"), call.dtype)


@lowers("xlogy")
def _xlogy(builder: Builder, call: Call) -> str:
    x, y, dtype = call.operand("self"), call.operand("other"), call.dtype
    if not isinstance(x, str) or not isinstance(y, str):
        raise BeyondAuthor("a number as an operand")
    zero = builder.point("eq", x, builder.number(0.0), dtype="bool", compute=dtype)
    both = builder.point("mul", x, builder.point("log", y, dtype=dtype), dtype=dtype)
    return builder.where(zero, builder.number(0.0), both, dtype)


@lowers("_neg_view")
def _negated_at_once(builder: Builder, call: Call) -> str:
    """Negate at once what torch only marks as negated, as in `z.conj().imag`."""
    return builder.point("neg", call.tensor("self"), dtype=call.dtype)
