"""Steps of composed problems over rows, channels or pixels: parameters, norms, softmaxes, reductions, scans."""

from __future__ import annotations

from collections.abc import Sequence

from triton_agent.policy.train.data.blueprint import ONE, Blueprint, Value
from triton_agent.policy.train.data.pointwise import Move


def lane(x: Value) -> int | None:
    """Return the axis of norms and sums: an image's channels, otherwise the last axis; None if there is none."""
    if len(x.axes) < 2:
        return None
    at = x.axes.index("CHANNELS") if "CHANNELS" in x.axes else len(x.axes) - 1
    return None if x.axes[at] == ONE else at


def dim_of(x: Value, at: int) -> str:
    return "dim=-1" if at == len(x.axes) - 1 else f"dim={at}"


def _broadcast(x: Value, at: int) -> str:
    """Return the index that broadcasts a one-dimensional tensor along this axis of `x`."""
    later = len(x.axes) - 1 - at
    return f"[:{', None' * later}]" if later else ""


def _each(x: Value, at: int) -> str:
    return {"CHANNELS": "channel"}.get(x.axes[at], "column")


# -- parameters and smaller inputs -------------------------------------------------------------------------------------


def bias(blueprint: Blueprint, x: Value) -> Value | None:
    at = lane(x)
    if at is None:
        return None
    name = blueprint.parameter(("bias", "shift"), (x.axes[at],))
    phrase = f"adds a bias to every {_each(x, at)}"
    return blueprint.step("bias", phrase, [x], ("biased", "shifted"), f"{x.name} + {name}{_broadcast(x, at)}")


def weight(blueprint: Blueprint, x: Value) -> Value | None:
    at = lane(x)
    if at is None:
        return None
    name = blueprint.parameter(("scale", "gain"), (x.axes[at],))
    phrase = f"scales every {_each(x, at)} by a parameter"
    return blueprint.step("weight", phrase, [x], ("scaled", "weighted"), f"{x.name} * {name}{_broadcast(x, at)}")


def affine(blueprint: Blueprint, x: Value) -> Value | None:
    at = lane(x)
    if at is None:
        return None
    gain, shift = (
        blueprint.parameter(("gain", "scale"), (x.axes[at],)),
        blueprint.parameter(("shift", "offset"), (x.axes[at],)),
    )
    index = _broadcast(x, at)
    expression = f"{x.name} * {gain}{index} + {shift}{index}"
    phrase = f"scales and shifts every {_each(x, at)} by parameters"
    return blueprint.step("affine", phrase, [x], ("adjusted", "mapped"), expression)


def prelu(blueprint: Blueprint, x: Value) -> Value | None:
    at = lane(x)
    if at is None or x.positive:
        return None
    slope = f"{blueprint.parameter(('slope', 'negative_slope'), (x.axes[at],))}{_broadcast(x, at)}"
    expression = f"torch.where({x.name} > 0, {x.name}, {slope} * {x.name})"
    phrase = f"applies a ReLU with a slope for every {_each(x, at)}"
    return blueprint.step("prelu", phrase, [x], ("activated", "bent"), expression)


def factor_of_row(blueprint: Blueprint, x: Value) -> Value | None:
    if len(x.axes) < 2 or x.axes[0] == ONE or len(blueprint.inputs) > 3:
        return None
    factor = blueprint.input(("row_scale", "strength"), x.axes[:1])
    name, phrase = f"{factor.name}{_broadcast(x, 0)}", "multiplies every row by an input"
    return blueprint.step("row_factor", phrase, [x, factor], ("row_scaled", "stretched"), f"{x.name} * {name}")


def offset_of_row(blueprint: Blueprint, x: Value) -> Value | None:
    if len(x.axes) < 2 or x.axes[0] == ONE or len(blueprint.inputs) > 3:
        return None
    offset = blueprint.input(("row_offset", "level"), x.axes[:1])
    name, phrase = f"{offset.name}{_broadcast(x, 0)}", "subtracts an input from every row"
    return blueprint.step("row_offset", phrase, [x, offset], ("lowered", "moved"), f"{x.name} - {name}")


# -- results of the same shape -----------------------------------------------------------------------------------------


def _over_lane(
    word: str, phrase: str, names: str, text: str, *lines: str, positive: bool = False, takes_positive: bool = False
) -> Move:
    """Return a step along the norm axis. In `text`, `{x}` is the value, `{d}` its dimension, `{n0}` a variable of the
    step.
    """

    def move(blueprint: Blueprint, x: Value) -> Value | None:
        at = lane(x)
        if at is None or (takes_positive and not x.positive):
            return None
        own = {f"n{k}": blueprint.name(line.split(" = ")[0]) for k, line in enumerate(lines)}
        filled = {**own, "x": x.name, "d": dim_of(x, at)}
        before = [f"{own[f'n{k}']} = {line.split(' = ', 1)[1].format(**filled)}" for k, line in enumerate(lines)]
        expression = text.format(**filled)
        return blueprint.step(word, phrase, [x], names.split(), expression, lines=before, positive=positive)

    return move


SOFTMAX: Sequence[Move] = (
    _over_lane("softmax", "takes a softmax", "weights shares", "torch.softmax({x}, {d})", positive=True),
    _over_lane("softmax", "takes a softmax", "weights shares", "F.softmax({x} * 0.5, {d})", positive=True),
    _over_lane(
        *("softmax", "takes a softmax", "weights shares", "{n0} / {n0}.sum({d}, keepdim=True)"),
        "exponentials = torch.exp({x} - {x}.amax({d}, keepdim=True))",
        positive=True,
    ),
    _over_lane("log_softmax", "takes a log-softmax", "log_shares log_weights", "F.log_softmax({x}, {d})"),
    _over_lane("softmin", "takes a softmin", "weights shares", "F.softmin({x}, {d})", positive=True),
)
CENTRE: Sequence[Move] = (
    _over_lane("centre", "subtracts the mean", "centred deviation", "{x} - {x}.mean({d}, keepdim=True)"),
    _over_lane("below_peak", "subtracts the maximum", "below_peak lowered", "{x} - {x}.amax({d}, keepdim=True)"),
    _over_lane("above_floor", "subtracts the minimum", "above_floor raised", "{x} - {x}.amin({d}, keepdim=True)"),
    _over_lane(
        *("unit_length", "brings to unit length", "direction unit"),
        "{x} * torch.rsqrt({x}.square().sum({d}, keepdim=True) + 1e-3)",
    ),
    _over_lane(
        *("unit_length", "brings to unit length", "direction unit"),
        "{x} / {n0}",
        "length = {x}.norm({d}, keepdim=True) + 0.01",
    ),
    _over_lane(
        *("rms_norm", "divides by the root mean square", "normal normed"),
        "{x} * torch.rsqrt({n0} + 1e-5)",
        "mean_square = {x}.square().mean({d}, keepdim=True)",
    ),
    _over_lane(
        *("standardise", "standardises", "standard normal"),
        "{n0} * torch.rsqrt({n1} + 1e-5)",
        "centred = {x} - {x}.mean({d}, keepdim=True)",
        "variance = {n0}.square().mean({d}, keepdim=True)",
    ),
    _over_lane(
        *("peak_norm", "divides by the largest magnitude", "relative normed"),
        "{x} / ({x}.abs().amax({d}, keepdim=True) + 0.01)",
    ),
    _over_lane(
        *("shares", "divides by the sum", "shares portions"),
        "{x} / ({x}.sum({d}, keepdim=True) + 0.01)",
        positive=True,
        takes_positive=True,
    ),
    _over_lane(
        *("min_max", "maps to the range from 0 to 1", "stretched normed"),
        "({x} - {n0}) / ({n1} - {n0} + 0.01)",
        "lowest = {x}.amin({d}, keepdim=True)",
        "highest = {x}.amax({d}, keepdim=True)",
    ),
    _over_lane(
        *("mean_gate", "gates by the sigmoid of the mean", "gated passed"),
        "{x} * torch.sigmoid({x}.mean({d}, keepdim=True))",
    ),
)


def layer_norm(blueprint: Blueprint, x: Value) -> Value | None:
    """Apply a layer norm over the last axis, with or without parameters."""
    if lane(x) != len(x.axes) - 1:
        return None
    size = x.axes[-1]
    if blueprint.chance.random() < 0.5:
        expression = f"{blueprint.module(('norm', 'layer_norm'), f'nn.LayerNorm({size.lower()}')}({x.name})"
    else:
        expression = f"F.layer_norm({x.name}, {x.name}.shape[-1:])"
    return blueprint.step("layer_norm", "applies a layer norm", [x], ("normal", "normed"), expression)


def weighted_rms_norm(blueprint: Blueprint, x: Value) -> Value | None:
    if lane(x) != len(x.axes) - 1:
        return None
    gain, mean_square = (
        blueprint.parameter(("gain", "norm_weight"), (x.axes[-1],)),
        blueprint.name("mean_square", "power"),
    )
    lines = [f"{mean_square} = {x.name}.square().mean(dim=-1, keepdim=True)"]
    expression = f"{x.name} * torch.rsqrt({mean_square} + 1e-6) * {gain}"
    return blueprint.step(
        "weighted_rms_norm", "applies an RMS norm", [x], ("normal", "normed"), expression, lines=lines
    )


def running_sum(blueprint: Blueprint, x: Value) -> Value | None:
    at = lane(x)
    if at is None:
        return None
    expression = f"torch.cumsum({x.name}, {dim_of(x, at)})"
    return blueprint.step("running_sum", "takes running sums", [x], ("running", "total"), expression)


def flipped(blueprint: Blueprint, x: Value) -> Value | None:
    at = lane(x)
    if at is None:
        return None
    return blueprint.step("flip", "reverses the order", [x], ("reversed_order", "mirrored"), f"{x.name}.flip({at})")


def rolled(blueprint: Blueprint, x: Value) -> Value | None:
    if len(x.axes) != 3 or x.axes[1] == ONE:
        return None
    text = f"{x.name} + torch.roll({x.name}, 1, dims=1)"
    return blueprint.step("token_shift", "adds the step before", [x], ("shifted_sum", "neighbours"), text)


def glu(blueprint: Blueprint, x: Value) -> Value | None:
    """Gate one half of the last axis by the other half."""
    if lane(x) != len(x.axes) - 1 or blueprint.sizes[x.axes[-1]].given % 2 or "HALF" in blueprint.sizes:
        return None
    size = blueprint.sizes[x.axes[-1]]
    half = blueprint.axis(["HALF"], size.given // 2, size.small // 2)
    left, right = blueprint.name("content", "left"), blueprint.name("gate", "right")
    lines = [f"{left}, {right} = {x.name}.chunk(2, dim=-1)"]
    function = blueprint.chance.choice(("torch.sigmoid({})", "F.silu({})", "F.gelu({})")).format(right)
    phrase, names = "gates one half by the other", ("gated", "passed")
    return blueprint.step("glu", phrase, [x], names, f"{left} * {function}", lines=lines, axes=(*x.axes[:-1], half))


# -- reductions --------------------------------------------------------------------------------------------------------

_REDUCTIONS = (
    ("sum", "sums up", "total sums", "{x}.sum({d})"),
    ("mean", "takes the mean", "mean average", "{x}.mean({d})"),
    ("maximum", "takes the maximum", "highest peak", "{x}.amax({d})"),
    ("minimum", "takes the minimum", "lowest floor_value", "{x}.amin({d})"),
    ("log_sum_exp", "takes the log of the sum of exponentials", "log_total soft_peak", "torch.logsumexp({x}, {d})"),
    ("variance", "takes the variance", "variance spread", "{x}.var({d}, unbiased=False)"),
    ("deviation", "takes the standard deviation", "deviation spread", "{x}.std({d})"),
    ("norm", "takes the length", "length lengths", "{x}.norm({d})"),
    ("mean_square", "takes the mean square", "power mean_square", "{x}.square().mean({d})"),
    ("mean_magnitude", "takes the mean magnitude", "mean_size level", "{x}.abs().mean({d})"),
    ("span", "takes the range", "span spread", "{x}.amax({d}) - {x}.amin({d})"),
)


def _reduction(word: str, phrase: str, names: str, text: str) -> Move:
    def move(blueprint: Blueprint, x: Value) -> Value | None:
        at = lane(x)
        if at is None or ONE in x.axes:
            return None
        axes = (*x.axes[:at], *x.axes[at + 1 :])
        expression = text.format(x=x.name, d=dim_of(x, at))
        said = f"{phrase} over the {x.axes[at].lower().replace('_', ' ')}"
        return blueprint.step(word, said, [x], names.split(), expression, axes=axes)

    return move


REDUCTIONS: Sequence[Move] = tuple(_reduction(*row) for row in _REDUCTIONS)


def dot_product(blueprint: Blueprint, x: Value) -> Value | None:
    """Sum the product with another input."""
    at = lane(x)
    if at is None or ONE in x.axes or len(blueprint.inputs) > 2:
        return None
    y, axes = blueprint.input(("direction", "query"), x.axes), (*x.axes[:at], *x.axes[at + 1 :])
    expression, phrase = f"({x.name} * {y.name}).sum({dim_of(x, at)})", "takes the dot product with another input"
    return blueprint.step("dot_product", phrase, [x, y], ("score", "projection"), expression, axes=axes)


def entropy(blueprint: Blueprint, x: Value) -> Value | None:
    at = lane(x)
    if at is None or ONE in x.axes:
        return None
    logs, axes = blueprint.name("log_shares", "logs"), (*x.axes[:at], *x.axes[at + 1 :])
    lines = [f"{logs} = F.log_softmax({x.name}, {dim_of(x, at)})"]
    expression = f"-({logs}.exp() * {logs}).sum({dim_of(x, at)})"
    phrase = "takes the entropy of the softmax"
    return blueprint.step("entropy", phrase, [x], ("entropy", "doubt"), expression, lines=lines, axes=axes)
