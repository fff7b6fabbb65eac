"""Rules for views: the same elements with another shape, order or extent."""

from __future__ import annotations

from triton_agent.policy.author.brief import BeyondAuthor
from triton_agent.policy.author.ir.program import VIEWS
from triton_agent.policy.author.ir.sizes import Size, constant, minus, plus, product, quotient
from triton_agent.policy.author.rules.building import Builder, Call, lowers


@lowers("view", "reshape", "_unsafe_view", "_reshape_alias", "unsqueeze", "squeeze", "flatten", "unflatten", "ravel")
def _reshape(builder: Builder, call: Call) -> str:
    if call.aligned.operator == "aten.view" and call.has("dtype"):
        raise BeyondAuthor("a view as another dtype")
    return builder.reshape(call.tensor("self"), call.shape)


@lowers("detach", "alias", "lift_fresh", "lift_fresh_copy", "resolve_conj", "resolve_neg")
def _same(builder: Builder, call: Call) -> str:
    return call.tensor("self")


@lowers("clone", "contiguous")
def _copied(builder: Builder, call: Call) -> str:
    """Copy a tensor that exists in memory; a computed value gets memory of its own anyway."""
    name = value = call.tensor("self")
    while builder.get(value).operation in VIEWS:
        value = builder.get(value).inputs[0]
    return builder.copied(name) if builder.get(value).operation == "source" else name


@lowers("t", "transpose", "swapaxes", "swapdims", "numpy_T")
def _transpose(builder: Builder, call: Call) -> str:
    name = call.tensor("self")
    rank = len(builder.shape(name))
    if rank < 2:
        return name
    a, b = int(call.plain("dim0", 0)), int(call.plain("dim1", 1))
    return builder.swap(name, a % rank, b % rank)


@lowers("permute")
def _permute(builder: Builder, call: Call) -> str:
    name = call.tensor("self")
    rank = len(builder.shape(name))
    return builder.permute(name, [int(dim) % rank for dim in call.plain("dims")])


@lowers("expand", "expand_as", "broadcast_to")
def _expand(builder: Builder, call: Call) -> str:
    return builder.expand(call.tensor("self"), call.shape)


@lowers("slice", "narrow")
def _slice(builder: Builder, call: Call) -> str:
    name, dim = call.tensor("self"), int(call.plain("dim", 0))
    shape = builder.shape(name)
    dim %= len(shape)
    start = builder.size(call.aligned.arguments.get("start") or 0)
    first = tuple(min(max(s + n if s < 0 else s, 0), n) for s, n in zip(start, shape[dim]))
    return builder.slice(name, dim, first, call.shape[dim], int(call.plain("step", 1)))


@lowers("select")
def _select(builder: Builder, call: Call) -> str:
    return _picked(builder, call.tensor("self"), int(call.plain("dim")), builder.size(call.aligned.arguments["index"]))


def _picked(builder: Builder, name: str, dim: int, index: Size) -> str:
    shape = builder.shape(name)
    dim %= len(shape)
    first = tuple(i + n if i < 0 else i for i, n in zip(index, shape[dim]))
    piece = builder.slice(name, dim, first, builder.one())
    return builder.reshape(piece, (*shape[:dim], *shape[dim + 1 :]))


@lowers("split", "split_with_sizes", "chunk", "unsafe_split", "unsafe_split_with_sizes", "unsafe_chunk")
def _split(builder: Builder, call: Call) -> list[str]:
    name, dim = call.tensor("self"), int(call.plain("dim", 0))
    dim %= len(builder.shape(name))
    start, pieces = constant(0, builder.width), []
    for shape in call.aligned.shapes:
        pieces.append(builder.slice(name, dim, start, shape[dim]))
        start = plus(start, shape[dim])
    return pieces


@lowers("unbind")
def _unbind(builder: Builder, call: Call) -> list[str]:
    name, dim = call.tensor("self"), int(call.plain("dim", 0))
    return [_picked(builder, name, dim, constant(i, builder.width)) for i in range(len(call.aligned.shapes))]


@lowers("flip")
def _flip(builder: Builder, call: Call) -> str:
    name = call.tensor("self")
    shape = builder.shape(name)
    for dim in call.dims("dims", len(shape)):
        name = builder.slice(name, dim, minus(shape[dim], builder.one()), shape[dim], -1)
    return name


@lowers("repeat")
def _repeat(builder: Builder, call: Call) -> str:
    """Reshape each dimension to (times, size), expand it, and merge both."""
    name, repeats = call.tensor("self"), call.sizes("repeats")
    shape = builder.shape(name)
    shape = (*(builder.one() for _ in range(len(repeats) - len(shape))), *shape)
    apart: list[Size] = []
    spread: list[Size] = []
    for times, size in zip(repeats, shape):
        apart += [builder.one(), size]
        spread += [times, size]
    return builder.reshape(builder.expand(builder.reshape(name, tuple(apart)), tuple(spread)), call.shape)


@lowers("repeat_interleave")
def _repeat_interleave(builder: Builder, call: Call) -> str:
    name, repeats = call.tensor("self"), call.plain("repeats")
    if not isinstance(repeats, int):
        raise BeyondAuthor("repeats given by a tensor")
    if not call.has("dim"):
        raise BeyondAuthor("repeats over all dimensions")
    shape = builder.shape(name)
    dim = int(call.plain("dim")) % len(shape)
    apart = (*shape[: dim + 1], builder.one(), *shape[dim + 1 :])
    spread = (*shape[: dim + 1], constant(repeats, builder.width), *shape[dim + 1 :])
    return builder.reshape(builder.expand(builder.reshape(name, apart), spread), call.shape)


@lowers("pixel_shuffle")
def _pixel_shuffle(builder: Builder, call: Call) -> str:
    """Split the channels into (channels, r, r), and interleave each r with the lines or columns."""
    name, times = call.tensor("self"), constant(int(call.plain("upscale_factor")), builder.width)
    *lead, channels, height, width = builder.shape(name)
    rest = quotient(channels, product((times, times), builder.width))
    count = len(lead)
    apart = builder.reshape(name, (*lead, rest, times, times, height, width))
    order = (*range(count), *(count + i for i in (0, 3, 1, 4, 2)))
    return builder.reshape(builder.permute(apart, order), call.shape)


@lowers("pixel_unshuffle")
def _pixel_unshuffle(builder: Builder, call: Call) -> str:
    name, times = call.tensor("self"), constant(int(call.plain("downscale_factor")), builder.width)
    *lead, channels, _, _ = builder.shape(name)
    height, width = call.shape[-2:]
    count = len(lead)
    apart = builder.reshape(name, (*lead, channels, height, times, width, times))
    order = (*range(count), *(count + i for i in (0, 2, 4, 1, 3)))
    return builder.reshape(builder.permute(apart, order), call.shape)


@lowers("channel_shuffle", "native_channel_shuffle")
def _channel_shuffle(builder: Builder, call: Call) -> str:
    name, groups = call.tensor("self"), constant(int(call.plain("groups")), builder.width)
    batch, channels, *rest = builder.shape(name)
    apart = builder.reshape(name, (batch, groups, quotient(channels, groups), *rest))
    return builder.reshape(builder.swap(apart, 1, 2), call.shape)
