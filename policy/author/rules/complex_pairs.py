"""Complex numbers as two tensors, for the real and the imaginary part; kernels support no others."""

from __future__ import annotations

from triton_agent.policy.author.brief import BeyondAuthor
from triton_agent.policy.author.ir.program import VIEWS, Value
from triton_agent.policy.author.ir.sizes import constant
from triton_agent.policy.author.rules.building import Builder

COMPLEX = "complex64"


def parts_of_complex(builder: Builder, name: str) -> tuple[str, str]:
    """Return the real and the imaginary part as separate tensors."""
    value = builder.get(name)
    if value.operation == "complex":
        real, imaginary = value.inputs
        return real, imaginary
    if value.dtype != COMPLEX:
        raise BeyondAuthor(f"no kernels for {value.dtype}")
    if value.operation in VIEWS:
        real, imaginary = (_seen_alike(builder, part, value) for part in parts_of_complex(builder, value.inputs[0]))
        return real, imaginary
    two = constant(2, builder.width)
    pairs = builder.view_by_torch(
        "aten.view_as_real", name, (*value.shape, two), "float32", gaps=name in builder.program.strides
    )
    halves = [builder.slice(pairs, len(value.shape), constant(k, builder.width), builder.one()) for k in (0, 1)]
    return builder.reshape(halves[0], value.shape), builder.reshape(halves[1], value.shape)


def _seen_alike(builder: Builder, name: str, view: Value) -> str:
    """Return the view of another tensor with the same shape."""
    if view.operation == "permute":
        return builder.permute(name, view.detail)
    if view.operation == "slice":
        dim, start, step = view.detail
        return builder.slice(name, dim, start, view.shape[dim], step)
    return (builder.expand if view.operation == "expand" else builder.reshape)(name, view.shape)


def as_one(builder: Builder, name: str) -> str:
    """Return a value that was computed in two parts as complex numbers in memory, and any other value unchanged."""
    value = builder.get(name)
    base = value
    while base.operation in VIEWS:
        base = builder.get(base.inputs[0])
    if base.operation != "complex":
        return name
    last, both = len(value.shape), (*value.shape, constant(2, builder.width))
    parts = [builder.unsqueeze(part, last) for part in parts_of_complex(builder, name)]
    pairs = builder.emit("concat", *parts, shape=both, dtype="float32", detail=last, hint="pairs")
    return builder.view_by_torch("aten.view_as_complex", pairs, value.shape, value.dtype)
