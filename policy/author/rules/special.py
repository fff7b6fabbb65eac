"""Rules for rarer functions of single elements: angles, log-odds, entropies, tests for infinity."""

from __future__ import annotations

import math

from triton_agent.policy.author.brief import BeyondAuthor
from triton_agent.policy.author.ir.program import INTEGERS
from triton_agent.policy.author.rules.building import Builder, Call, lowers

_FACTORS = {"deg2rad": math.pi / 180, "rad2deg": 180 / math.pi}


@lowers("deg2rad", "rad2deg")
def _turned(builder: Builder, call: Call) -> str:
    factor = builder.number(_FACTORS[call.aligned.operator.removeprefix("aten.")])
    return builder.point("mul", call.tensor("self"), factor, dtype=call.dtype, hint="angle")


@lowers("sinc")
def _sinc(builder: Builder, call: Call) -> str:
    """Compute sin(pi x) / (pi x), which is 1 at zero."""
    dtype = call.dtype
    angle = builder.point("mul", call.tensor("self"), builder.number(math.pi), dtype=dtype, hint="angle")
    wave = builder.point("div", builder.point("sin", angle, dtype=dtype), angle, dtype=dtype)
    middle = builder.point("eq", angle, builder.number(0.0), dtype="bool", compute=dtype)
    return builder.where(middle, builder.number(1.0), wave, dtype)


@lowers("logit")
def _logit(builder: Builder, call: Call) -> str:
    x, dtype = call.tensor("self"), call.dtype
    if call.has("eps"):
        least = float(call.plain("eps"))
        x = builder.point("clamp_min", x, builder.number(least), dtype=dtype)
        x = builder.point("clamp_max", x, builder.number(1.0 - least), dtype=dtype)
    odds = builder.point("div", x, builder.point("sub", builder.number(1.0), x, dtype=dtype), dtype=dtype, hint="odds")
    return builder.point("log", odds, dtype=dtype)


@lowers("isposinf", "isneginf")
def _is_infinite(builder: Builder, call: Call) -> str:
    name, sign = call.tensor("self"), 1 if "pos" in call.aligned.operator else -1
    given = builder.get(name).dtype
    if given in INTEGERS | {"bool"}:
        return builder.full(False, call.shape, "bool")
    return builder.point("eq", name, builder.number(sign * math.inf), dtype="bool", compute=given)


@lowers("special_entr")
def _entropy(builder: Builder, call: Call) -> str:
    """Compute -x log(x): zero at zero, and minus infinity below."""
    x, dtype = call.tensor("self"), call.dtype
    nought = builder.number(0.0)
    made = builder.point("mul", x, builder.point("log", x, dtype=dtype), dtype=dtype)
    made = builder.point("neg", made, dtype=dtype, hint="entropy")
    made = builder.where(builder.point("eq", x, nought, dtype="bool", compute=dtype), nought, made, dtype, "entropy")
    below = builder.point("lt", x, nought, dtype="bool", compute=dtype)
    return builder.where(below, builder.number(-math.inf), made, dtype, "entropy")


@lowers("special_xlog1py")
def _times_log(builder: Builder, call: Call) -> str:
    x, dtype = call.tensor("self"), call.dtype
    nought = builder.point("eq", x, builder.number(0.0), dtype="bool", compute=dtype)
    both = builder.point("mul", x, builder.point("log1p", call.tensor("other"), dtype=dtype), dtype=dtype)
    return builder.where(nought, builder.number(0.0), both, dtype)


@lowers("special_ndtr")
def _normal_share(builder: Builder, call: Call) -> str:
    """Compute the cumulative distribution function of the normal distribution."""
    scaled = builder.point("mul", call.tensor("self"), builder.number(-math.sqrt(0.5)), dtype=call.dtype)
    above = builder.point("erfc", scaled, dtype=call.dtype)
    return builder.point("mul", above, builder.number(0.5), dtype=call.dtype, hint="share")


@lowers("logaddexp", "logaddexp2")
def _logaddexp(builder: Builder, call: Call) -> str:
    """Compute the maximum plus log1p(exp(-distance)). Equal operands have distance zero, even if infinite."""
    a, b, dtype = call.tensor("self"), call.tensor("other"), call.dtype
    two = call.aligned.operator.endswith("2")
    apart = builder.point("abs", builder.point("sub", a, b, dtype=dtype), dtype=dtype, hint="apart")
    same = builder.point("eq", a, b, dtype="bool", compute=dtype)
    apart = builder.where(same, builder.number(0.0), apart, dtype, "apart")
    power = builder.point("exp2" if two else "exp", builder.point("neg", apart, dtype=dtype), dtype=dtype)
    extra = builder.point("log1p", power, dtype=dtype)
    if two:
        extra = builder.point("mul", extra, builder.number(1.0 / math.log(2.0)), dtype=dtype)
    return builder.point("add", builder.point("maximum", a, b, dtype=dtype), extra, dtype=dtype)


@lowers("rrelu_with_noise")
def _random_relu(builder: Builder, call: Call) -> list[str]:
    """In evaluation mode the slope is the mean of both bounds, and no noise is drawn."""
    if call.plain("training", False):
        raise BeyondAuthor("a slope drawn at random")
    slope = (float(call.plain("lower", 1 / 8)) + float(call.plain("upper", 1 / 3))) / 2
    made = builder.point("leaky_relu", call.tensor("self"), builder.number(slope), dtype=call.dtype)
    return [made, call.tensor("noise")]
