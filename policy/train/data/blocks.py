"""Steps that are larger than a line of arithmetic: products, convolutions, pools, attention, losses, image norms."""

from __future__ import annotations

from collections.abc import Sequence

from triton_agent.policy.train.data.draft import ONE, Draft, Value
from triton_agent.policy.train.data.pointwise import Move

WIDTHS = (64, 128, 256, 512)


def linear(draft: Draft, x: Value) -> Value | None:
    """Apply a linear layer over the last axis."""
    if len(x.axes) not in (2, 3) or ONE in x.axes or "CHANNELS" in x.axes[:-1]:
        return None
    out = draft.axis(["HIDDEN", "FEATURES", "OUTPUTS"], draft.chance.choice(WIDTHS))
    size = x.axes[-1].lower()
    with_bias = "" if draft.chance.random() < 0.6 else ", bias=False"
    layer = draft.module(("project", "mix", "lift", "readout"), f"nn.Linear({size}, {out.lower()}{with_bias}")
    axes = (*x.axes[:-1], out)
    return draft.step("linear", "projects linearly", [x], ("projected", "features"), f"{layer}({x.name})", axes=axes)


def product(draft: Draft, x: Value) -> Value | None:
    """Multiply by a matrix that is another input."""
    if len(x.axes) != 2 or ONE in x.axes or len(draft.inputs) > 2:
        return None
    out = draft.axis(["COLUMNS", "TARGETS"], draft.chance.choice(WIDTHS))
    if draft.chance.random() < 0.5:
        matrix = draft.input(("matrix", "basis"), (x.axes[1], out))
        text = f"torch.matmul({x.name}, {matrix.name})"
    else:
        matrix = draft.input(("table", "directions"), (out, x.axes[1]))
        text = f"{x.name} @ {matrix.name}.T"
    text += " * 0.1"
    axes = (x.axes[0], out)
    return draft.step("product", "multiplies by a matrix", [x, matrix], ("product", "mixed"), text, axes=axes)


def similarities(draft: Draft, x: Value) -> Value | None:
    """Multiply every pair of steps of a sequence."""
    if len(x.axes) != 3 or ONE in x.axes or draft.sizes[x.axes[1]].given > 1024 or "OTHERS" in draft.sizes:
        return None
    others = draft.axis(["OTHERS"], 256)
    keys = draft.input(("keys", "memory"), (x.axes[0], others, x.axes[2]))
    text = f"torch.bmm({x.name}, {keys.name}.transpose(1, 2)) * 0.1"
    axes = (x.axes[0], x.axes[1], others)
    return draft.step("similarity", "compares with keys", [x, keys], ("scores", "similarity"), text, axes=axes)


def attention(draft: Draft, x: Value) -> Value | None:
    """Attend to keys and values that are other inputs."""
    if len(x.axes) != 3 or ONE in x.axes or draft.sizes[x.axes[1]].given > 1024 or len(draft.inputs) > 1:
        return None
    if draft.sizes[x.axes[2]].given > 256 or "WIDTH" not in x.axes:
        return None
    keys, values = draft.input(("keys",), x.axes), draft.input(("values",), x.axes)
    text = f"F.scaled_dot_product_attention({x.name}, {keys.name}, {values.name})"
    return draft.step("attention", "attends to another input", [x, keys, values], ("attended", "context"), text)


# -- images ------------------------------------------------------------------------------------------------------------


def _is_image(x: Value) -> bool:
    return x.axes == ("BATCH", "CHANNELS", "HEIGHT", "WIDTH")


def convolution(draft: Draft, x: Value) -> Value | None:
    if not _is_image(x):
        return None
    size, depthwise = draft.chance.choice((1, 3)), draft.chance.random() < 0.4
    groups = ", groups=channels" if depthwise and size == 3 else ""
    text = f"nn.Conv2d(channels, channels, {size}{f', padding={size // 2}' if size > 1 else ''}{groups}"
    layer = draft.module(("conv", "mix", "filters"), text)
    word = "depthwise_convolution" if groups else f"convolution_{size}"
    phrase = "convolves every channel by itself" if groups else f"convolves with {size} by {size} filters"
    return draft.step(word, phrase, [x], ("filtered", "features"), f"{layer}({x.name})")


def group_norm(draft: Draft, x: Value) -> Value | None:
    if not _is_image(x):
        return None
    layer = draft.module(("norm", "group_norm"), "nn.GroupNorm(4, channels")
    return draft.step("group_norm", "applies a group norm", [x], ("normal", "normed"), f"{layer}({x.name})")


def batch_norm(draft: Draft, x: Value) -> Value | None:
    if not _is_image(x):
        return None
    layer = draft.module(("norm", "batch_norm"), "nn.BatchNorm2d(channels")
    return draft.step("batch_norm", "applies a batch norm", [x], ("normal", "normed"), f"{layer}({x.name})")


def instance_norm(draft: Draft, x: Value) -> Value | None:
    if not _is_image(x):
        return None
    text = f"F.instance_norm({x.name})"
    return draft.step("instance_norm", "normalises every feature map", [x], ("normal", "normed"), text)


def global_mean(draft: Draft, x: Value) -> Value | None:
    if not _is_image(x):
        return None
    text, axes = f"{x.name}.mean(dim=(2, 3))", x.axes[:2]
    return draft.step("global_mean", "averages every feature map", [x], ("pooled", "levels"), text, axes=axes)


def global_peak(draft: Draft, x: Value) -> Value | None:
    if not _is_image(x):
        return None
    text, axes = f"{x.name}.amax(dim=(2, 3))", x.axes[:2]
    return draft.step("global_peak", "takes the peak of every feature map", [x], ("pooled", "peaks"), text, axes=axes)


def pooled(draft: Draft, x: Value) -> Value | None:
    """Pool windows of two by two."""
    if not _is_image(x) or "HALF_HEIGHT" in draft.sizes:
        return None
    height, width = (
        draft.axis([f"HALF_{name}"], draft.sizes[name].given // 2, draft.sizes[name].small // 2) for name in x.axes[2:]
    )
    kind, phrase = draft.chance.choice((("max", "takes maxima over windows"), ("avg", "takes means over windows")))
    axes, names = (*x.axes[:2], height, width), ("pooled", "coarse")
    return draft.step(f"{kind}_pool", phrase, [x], names, f"F.{kind}_pool2d({x.name}, 2)", axes=axes)


def squeeze_gate(draft: Draft, x: Value) -> Value | None:
    """Gate channels by their means."""
    if not _is_image(x):
        return None
    layer, level = draft.module(("gate", "excite"), "nn.Linear(channels, channels"), draft.name("levels", "squeezed")
    lines = [f"{level} = torch.sigmoid({layer}({x.name}.mean(dim=(2, 3))))"]
    text = f"{x.name} * {level}[:, :, None, None]"
    phrase, names = "gates channels by their means", ("excited", "gated")
    return draft.step("squeeze_gate", phrase, [x], names, text, lines=lines)


def modulation(draft: Draft, x: Value) -> Value | None:
    """Scale and shift every feature map by inputs."""
    if not _is_image(x) or len(draft.inputs) > 2:
        return None
    scale, shift = draft.input(("scale", "style"), x.axes[:2]), draft.input(("shift", "style_shift"), x.axes[:2])
    text = f"{x.name} * (1 + {scale.name}[:, :, None, None]) + {shift.name}[:, :, None, None]"
    phrase, names = "scales and shifts every feature map by inputs", ("styled", "modulated")
    return draft.step("modulation", phrase, [x, scale, shift], names, text)


# -- losses ------------------------------------------------------------------------------------------------------------

_LOSSES = (
    ("mse", "takes the mean squared error", "F.mse_loss({x}, {y})"),
    ("l1", "takes the mean absolute error", "F.l1_loss({x}, {y})"),
    ("smooth_l1", "takes the smooth L1 loss", "F.smooth_l1_loss({x}, {y})"),
    ("huber", "takes the Huber loss", "F.huber_loss({x}, {y}, delta=0.5)"),
    ("soft_margin", "takes the logistic loss", "F.softplus(-{x} * {y}).mean()"),
)


def _loss(word: str, phrase: str, text: str) -> Move:
    def move(draft: Draft, x: Value) -> Value | None:
        if not x.axes or ONE in x.axes or len(draft.inputs) > 3:
            return None
        y = draft.input(("target", "labels"), x.axes)
        expression = text.format(x=x.name, y=y.name)
        return draft.step(f"{word}_loss", phrase, [x, y], ("loss", "error"), expression, axes=())

    return move


def _loss_of_row(word: str, phrase: str, text: str) -> Move:
    def move(draft: Draft, x: Value) -> Value | None:
        if len(x.axes) not in (2, 3) or ONE in x.axes or "CHANNELS" in x.axes[:-1] or len(draft.inputs) > 2:
            return None
        y = draft.input(("target", "reference"), x.axes)
        expression = text.format(x=x.name, y=y.name)
        return draft.step(word, phrase, [x, y], ("score", "agreement"), expression, axes=x.axes[:-1])

    return move


def cross_entropy(draft: Draft, x: Value) -> Value | None:
    if len(x.axes) != 2 or ONE in x.axes:
        return None
    text = f"torch.randint({x.axes[1]}, ({x.axes[0]},))"
    labels = draft.special_input(("labels", "classes"), text, x.axes[:1])
    kept = draft.chance.random() < 0.5
    reduction = ', reduction="none"' if kept else ""
    expression = f"F.cross_entropy({x.name}, {labels.name}{reduction})"
    axes, phrase = (x.axes[:1] if kept else ()), "takes the cross-entropy with labels"
    return draft.step("cross_entropy", phrase, [x, labels], ("loss", "surprise"), expression, axes=axes)


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
