"""Larger steps of composed problems: products, convolutions, pools, attention, losses, image norms."""

from __future__ import annotations

from collections.abc import Sequence

from triton_agent.policy.train.data.blueprint import ONE, Blueprint, Value
from triton_agent.policy.train.data.pointwise import Move

WIDTHS = (64, 128, 256, 512)


def linear(blueprint: Blueprint, x: Value) -> Value | None:
    """Apply a linear layer over the last axis."""
    if len(x.axes) not in (2, 3) or ONE in x.axes or "CHANNELS" in x.axes[:-1]:
        return None
    out = blueprint.axis(["HIDDEN", "FEATURES", "OUTPUTS"], blueprint.chance.choice(WIDTHS))
    size = x.axes[-1].lower()
    with_bias = "" if blueprint.chance.random() < 0.6 else ", bias=False"
    layer = blueprint.module(("project", "mix", "lift", "readout"), f"nn.Linear({size}, {out.lower()}{with_bias}")
    axes = (*x.axes[:-1], out)
    return blueprint.step(
        "linear", "projects linearly", [x], ("projected", "features"), f"{layer}({x.name})", axes=axes
    )


def product(blueprint: Blueprint, x: Value) -> Value | None:
    """Multiply by a matrix that is another input."""
    if len(x.axes) != 2 or ONE in x.axes or len(blueprint.inputs) > 2:
        return None
    out = blueprint.axis(["COLUMNS", "TARGETS"], blueprint.chance.choice(WIDTHS))
    if blueprint.chance.random() < 0.5:
        matrix = blueprint.input(("matrix", "basis"), (x.axes[1], out))
        text = f"torch.matmul({x.name}, {matrix.name})"
    else:
        matrix = blueprint.input(("table", "directions"), (out, x.axes[1]))
        text = f"{x.name} @ {matrix.name}.T"
    text += " * 0.1"
    axes = (x.axes[0], out)
    return blueprint.step("product", "multiplies by a matrix", [x, matrix], ("product", "mixed"), text, axes=axes)


def similarities(blueprint: Blueprint, x: Value) -> Value | None:
    """Multiply each pair of a sequence element and a key."""
    if len(x.axes) != 3 or ONE in x.axes or blueprint.sizes[x.axes[1]].given > 1024 or "OTHERS" in blueprint.sizes:
        return None
    others = blueprint.axis(["OTHERS"], 256)
    keys = blueprint.input(("keys", "memory"), (x.axes[0], others, x.axes[2]))
    text = f"torch.bmm({x.name}, {keys.name}.transpose(1, 2)) * 0.1"
    axes = (x.axes[0], x.axes[1], others)
    return blueprint.step("similarity", "compares with keys", [x, keys], ("scores", "similarity"), text, axes=axes)


def attention(blueprint: Blueprint, x: Value) -> Value | None:
    """Attend to keys and values that are other inputs."""
    if len(x.axes) != 3 or ONE in x.axes or blueprint.sizes[x.axes[1]].given > 1024 or len(blueprint.inputs) > 1:
        return None
    if blueprint.sizes[x.axes[2]].given > 256 or "WIDTH" not in x.axes:
        return None
    keys, values = blueprint.input(("keys",), x.axes), blueprint.input(("values",), x.axes)
    text = f"F.scaled_dot_product_attention({x.name}, {keys.name}, {values.name})"
    return blueprint.step("attention", "attends to another input", [x, keys, values], ("attended", "context"), text)


# -- images ------------------------------------------------------------------------------------------------------------


def _is_image(x: Value) -> bool:
    return x.axes == ("BATCH", "CHANNELS", "HEIGHT", "WIDTH")


def convolution(blueprint: Blueprint, x: Value) -> Value | None:
    if not _is_image(x):
        return None
    size, depthwise = blueprint.chance.choice((1, 3)), blueprint.chance.random() < 0.4
    groups = ", groups=channels" if depthwise and size == 3 else ""
    text = f"nn.Conv2d(channels, channels, {size}{f', padding={size // 2}' if size > 1 else ''}{groups}"
    layer = blueprint.module(("conv", "mix", "filters"), text)
    word = "depthwise_convolution" if groups else f"convolution_{size}"
    phrase = "convolves every channel by itself" if groups else f"convolves with {size} by {size} filters"
    return blueprint.step(word, phrase, [x], ("filtered", "features"), f"{layer}({x.name})")


def group_norm(blueprint: Blueprint, x: Value) -> Value | None:
    if not _is_image(x):
        return None
    layer = blueprint.module(("norm", "group_norm"), "nn.GroupNorm(4, channels")
    return blueprint.step("group_norm", "applies a group norm", [x], ("normal", "normed"), f"{layer}({x.name})")


def batch_norm(blueprint: Blueprint, x: Value) -> Value | None:
    if not _is_image(x):
        return None
    layer = blueprint.module(("norm", "batch_norm"), "nn.BatchNorm2d(channels")
    return blueprint.step("batch_norm", "applies a batch norm", [x], ("normal", "normed"), f"{layer}({x.name})")


def instance_norm(blueprint: Blueprint, x: Value) -> Value | None:
    if not _is_image(x):
        return None
    text = f"F.instance_norm({x.name})"
    return blueprint.step("instance_norm", "normalises every feature map", [x], ("normal", "normed"), text)


def global_mean(blueprint: Blueprint, x: Value) -> Value | None:
    if not _is_image(x):
        return None
    text, axes = f"{x.name}.mean(dim=(2, 3))", x.axes[:2]
    return blueprint.step("global_mean", "averages every feature map", [x], ("pooled", "levels"), text, axes=axes)


def global_peak(blueprint: Blueprint, x: Value) -> Value | None:
    if not _is_image(x):
        return None
    text, axes = f"{x.name}.amax(dim=(2, 3))", x.axes[:2]
    return blueprint.step(
        "global_peak", "takes the peak of every feature map", [x], ("pooled", "peaks"), text, axes=axes
    )


def pooled(blueprint: Blueprint, x: Value) -> Value | None:
    """Pool windows of two by two."""
    if not _is_image(x) or "HALF_HEIGHT" in blueprint.sizes:
        return None
    height, width = (
        blueprint.axis([f"HALF_{name}"], blueprint.sizes[name].given // 2, blueprint.sizes[name].small // 2)
        for name in x.axes[2:]
    )
    kind, phrase = blueprint.chance.choice((("max", "takes maxima over windows"), ("avg", "takes means over windows")))
    axes, names = (*x.axes[:2], height, width), ("pooled", "coarse")
    return blueprint.step(f"{kind}_pool", phrase, [x], names, f"F.{kind}_pool2d({x.name}, 2)", axes=axes)


def squeeze_gate(blueprint: Blueprint, x: Value) -> Value | None:
    """Gate channels by their means."""
    if not _is_image(x):
        return None
    layer, level = (
        blueprint.module(("gate", "excite"), "nn.Linear(channels, channels"),
        blueprint.name("levels", "squeezed"),
    )
    lines = [f"{level} = torch.sigmoid({layer}({x.name}.mean(dim=(2, 3))))"]
    text = f"{x.name} * {level}[:, :, None, None]"
    phrase, names = "gates channels by their means", ("excited", "gated")
    return blueprint.step("squeeze_gate", phrase, [x], names, text, lines=lines)


def modulation(blueprint: Blueprint, x: Value) -> Value | None:
    """Scale and shift every feature map by inputs."""
    if not _is_image(x) or len(blueprint.inputs) > 2:
        return None
    scale, shift = (
        blueprint.input(("scale", "style"), x.axes[:2]),
        blueprint.input(("shift", "style_shift"), x.axes[:2]),
    )
    text = f"{x.name} * (1 + {scale.name}[:, :, None, None]) + {shift.name}[:, :, None, None]"
    phrase, names = "scales and shifts every feature map by inputs", ("styled", "modulated")
    return blueprint.step("modulation", phrase, [x, scale, shift], names, text)


# -- losses ------------------------------------------------------------------------------------------------------------

_LOSSES = (
    ("mse", "takes the mean squared error", "F.mse_loss({x}, {y})"),
    ("l1", "takes the mean absolute error", "F.l1_loss({x}, {y})"),
    ("smooth_l1", "takes the smooth L1 loss", "F.smooth_l1_loss({x}, {y})"),
    ("huber", "takes the Huber loss", "F.huber_loss({x}, {y}, delta=0.5)"),
    ("soft_margin", "takes the logistic loss", "F.softplus(-{x} * {y}).mean()"),
)


def _loss(word: str, phrase: str, text: str) -> Move:
    def move(blueprint: Blueprint, x: Value) -> Value | None:
        if not x.axes or ONE in x.axes or len(blueprint.inputs) > 3:
            return None
        y = blueprint.input(("target", "labels"), x.axes)
        expression = text.format(x=x.name, y=y.name)
        return blueprint.step(f"{word}_loss", phrase, [x, y], ("loss", "error"), expression, axes=())

    return move


def _loss_of_row(word: str, phrase: str, text: str) -> Move:
    def move(blueprint: Blueprint, x: Value) -> Value | None:
        if len(x.axes) not in (2, 3) or ONE in x.axes or "CHANNELS" in x.axes[:-1] or len(blueprint.inputs) > 2:
            return None
        y = blueprint.input(("target", "reference"), x.axes)
        expression = text.format(x=x.name, y=y.name)
        return blueprint.step(word, phrase, [x, y], ("score", "agreement"), expression, axes=x.axes[:-1])

    return move


def cross_entropy(blueprint: Blueprint, x: Value) -> Value | None:
    if len(x.axes) != 2 or ONE in x.axes:
        return None
    text = f"torch.randint({x.axes[1]}, ({x.axes[0]},))"
    labels = blueprint.special_input(("labels", "classes"), text, x.axes[:1])
    kept = blueprint.chance.random() < 0.5
    reduction = ', reduction="none"' if kept else ""
    expression = f"F.cross_entropy({x.name}, {labels.name}{reduction})"
    axes, phrase = (x.axes[:1] if kept else ()), "takes the cross-entropy with labels"
    return blueprint.step("cross_entropy", phrase, [x, labels], ("loss", "surprise"), expression, axes=axes)


LOSSES: Sequence[Move] = (
    *(_loss(*row) for row in _LOSSES),
    _loss_of_row("cosine", "takes the cosine similarity of rows", "F.cosine_similarity({x}, {y}, dim=-1)"),
    _loss_of_row("row_error", "takes the squared error of every row", "({x} - {y}).square().mean(dim=-1)"),
    cross_entropy,
)
IMAGES: Sequence[Move] = (
    *(convolution, group_norm, batch_norm, instance_norm, global_mean, global_peak, pooled, squeeze_gate, modulation),
)
PRODUCTS: Sequence[Move] = (linear, linear, product, similarities, attention)
