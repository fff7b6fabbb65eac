"""The floor of a call, against numbers worked out by hand."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from triton_agent.tools.graph import extents
from triton_agent.tools.graph.extents import Part, distinct, touched
from triton_agent.tools.graph.floor import Floor, floor_of
from triton_agent.tools.graph.flops import UnitFlops
from triton_agent.tools.graph.recorder import extract
from triton_agent.tools.graph.values import TensorMeta


class Call(nn.Module):
    """A module that calls a function, with the named buffers."""

    def __init__(self, function: Callable[..., Any], **buffers: torch.Tensor) -> None:
        super().__init__()
        self.function = function
        for name, buffer in buffers.items():
            self.register_buffer(name, buffer)

    def forward(self, *inputs: Any) -> Any:
        return self.function(self, *inputs)


def floor(model: nn.Module | Callable[..., Any], *inputs: Any, **buffers: torch.Tensor) -> Floor:
    return floor_of(extract(model if isinstance(model, nn.Module) else Call(model, **buffers), inputs))


def zeros(*shape: int) -> torch.Tensor:
    return torch.zeros(*shape)


FLOAT, LONG = 4, 8


# --- Whole modules. Bytes as (read, written), in elements where all are float32. ---

MODULES: dict[str, tuple[nn.Module, list[torch.Tensor], int, dict[str, int]]] = {
    "linear": (
        nn.Linear(8, 3),
        [zeros(4, 8)],
        FLOAT * (4 * 8 + 3 * 8 + 3 + 4 * 3),
        {"matmul float32": 2 * 4 * 8 * 3, "vector float32": 4 * 3},
    ),
    "linear on an empty batch": (nn.Linear(8, 3), [zeros(0, 8)], 0, {}),
    "linear in half precision": (
        nn.Linear(8, 3).half(),
        [zeros(4, 8).half()],
        2 * (4 * 8 + 3 * 8 + 3 + 4 * 3),
        {"matmul float16": 2 * 4 * 8 * 3, "vector float16": 4 * 3},
    ),
    "conv2d": (
        nn.Conv2d(3, 4, 3, padding=1),
        [zeros(2, 3, 5, 5)],
        FLOAT * (2 * 3 * 25 + 4 * 3 * 9 + 4 + 2 * 4 * 25),
        {"matmul float32": 2 * (2 * 4 * 25) * (3 * 9), "vector float32": 2 * 4 * 25},
    ),
    "softmax": (nn.Softmax(-1), [zeros(4, 8)], FLOAT * (32 + 32), {"vector float32": 5 * 32}),
    "layer norm": (nn.LayerNorm(8), [zeros(4, 8)], FLOAT * (32 + 8 + 8 + 32), {"vector float32": 8 * 32}),
    "rms norm": (nn.RMSNorm(8), [zeros(4, 8)], FLOAT * (32 + 8 + 32), {"vector float32": 4 * 32}),
    "batch norm, given statistics": (
        nn.BatchNorm1d(8).eval(),
        [zeros(4, 8)],
        FLOAT * (32 + 4 * 8 + 32),
        {"vector float32": 2 * 32},
    ),
    "batch norm in training writes its buffers": (
        nn.BatchNorm1d(8),
        [zeros(4, 8)],
        FLOAT * (32 + 4 * 8 + 32 + 2 * 8) + 2 * LONG,
        {"vector float32": 8 * 32, "vector int64": 1},
    ),
    "max pool": (nn.MaxPool2d(2), [zeros(1, 1, 4, 4)], FLOAT * (16 + 4), {"vector float32": 4 * 4}),
    "gru cell": (
        nn.GRUCell(8, 5),
        [zeros(4, 8), zeros(4, 5)],
        FLOAT * (4 * 8 + 4 * 5 + 15 * 8 + 15 * 5 + 15 + 15 + 4 * 5),
        {"matmul float32": 2 * 4 * 15 * (8 + 5), "vector float32": 17 * 4 * 5},
    ),
    "lstm over a sequence reads its weights once": (
        nn.LSTM(8, 5),
        [zeros(3, 2, 8)],
        FLOAT * (3 * 2 * 8 + 20 * 8 + 20 * 5 + 20 + 20 + 3 * 2 * 5 + 2 * 5 + 2 * 5),
        {"matmul float32": 2 * (3 * 2) * 20 * (8 + 5), "vector float32": 21 * 3 * 2 * 5},
    ),
    "embedding reads the rows asked for": (
        nn.Embedding(100, 4),
        [torch.tensor([1, 2, 3])],
        LONG * 3 + FLOAT * (3 * 4 + 3 * 4),
        {},
    ),
    "embedding reads no more than the table": (
        nn.Embedding(3, 4),
        [torch.arange(100) % 3],
        LONG * 100 + FLOAT * (3 * 4 + 100 * 4),
        {},
    ),
    "embedding bag reads every row of a bag": (
        nn.EmbeddingBag(100, 4),
        [torch.arange(6).view(2, 3)],
        LONG * 6 + FLOAT * (6 * 4 + 2 * 4),
        {},
    ),
}


@pytest.mark.parametrize("case", MODULES)
def test_a_module_has_the_floor_worked_out_by_hand(case: str) -> None:
    model, inputs, bytes_moved, flops = MODULES[case]
    found = floor(model, *inputs)
    assert found.bytes_moved == bytes_moved
    assert {part.unit: part.flops for part in found.flops_by_unit} == flops


# --- Single operators on float32, bytes in elements. ---

OPERATORS: dict[str, tuple[Callable[..., Any], list[torch.Tensor], int, int]] = {
    "broadcast add": (lambda _, x, y: x + y, [zeros(4, 8), zeros(8)], 32 + 8 + 32, 32),
    "cumulative sum": (lambda _, x: x.cumsum(0), [zeros(4, 8)], 32 + 32, 32),
    "mean of everything": (lambda _, x: x.mean(), [zeros(4, 8)], 32 + 1, 32),
    "concatenation": (lambda _, x, y: torch.cat([x, y]), [zeros(4, 8), zeros(4, 8)], 64 + 64, 0),
    "matrix times vector": (lambda _, x, y: x @ y, [zeros(4, 8), zeros(8)], 32 + 8 + 4, 2 * 32),
    "values in between cost nothing": (lambda _, x: (x * 2).relu().sum(0), [zeros(4, 8)], 32 + 8, 3 * 32),
    "one input used twice is read once": (lambda _, x: x * x.sum(), [zeros(4, 8)], 32 + 32, 64),
    "an unused input is not read": (lambda _, x, y: x + 1, [zeros(4, 8), zeros(4, 8)], 32 + 32, 32),
    "only the shape of an input": (lambda _, x: torch.zeros_like(x), [zeros(4, 8)], 32, 0),
    "an expanded input is read once": (lambda _, x: x * 2, [zeros(8).expand(4, 8)], 8 + 32, 32),
    "a slice": (lambda _, x: x[:, :3] * 2, [zeros(4, 8)], 12 + 12, 12),
    "slices that overlap": (lambda _, x: x[:, :5] + x[:, 1:6], [zeros(4, 8)], 24 + 20, 20),
    "one column": (lambda _, x: x[:, 2] * 2, [zeros(4, 8)], 4 + 4, 4),
    "every other row": (lambda _, x: x[::2] * 2, [zeros(4, 8)], 16 + 16, 16),
    "sliding windows": (lambda _, x: x.unfold(1, 3, 1).sum(-1), [zeros(4, 8)], 32 + 24, 72),
    "a view as the output": (lambda _, x: x.T, [zeros(4, 8)], 0, 0),
    "an input as the output": (lambda _, x: x, [zeros(4, 8)], 0, 0),
    "a transposed view of a result": (lambda _, x: (x + 1).T, [zeros(4, 8)], 32 + 32, 32),
    "one result handed out twice": (
        lambda _, x: (lambda y: (y, y.view(-1)))(x + 1),
        [zeros(4, 8)],
        32 + 32,
        32,
    ),
    "an expanded output is written once": (lambda _, x: (x + 1).expand(4, 8), [zeros(8)], 8 + 8, 8),
    "in place": (lambda _, x: x.add_(1), [zeros(4, 8)], 32 + 32, 32),
    "overwritten without a look": (lambda _, x: x.zero_(), [zeros(4, 8)], 32, 0),
    "output filled piece by piece": (
        lambda _, x: (lambda out: (out[:, :4].copy_(x[:, :4]), out[:, 4:].fill_(0), out)[2])(torch.empty(4, 8)),
        [zeros(4, 8)],
        16 + 32,
        0,
    ),
    "complex numbers seen as pairs": (
        lambda _, x: torch.view_as_real(torch.view_as_complex(x) * 2),
        [zeros(4, 8, 2)],
        64 + 64,
        32,
    ),
}


@pytest.mark.parametrize("case", OPERATORS)
def test_an_operator_has_the_floor_worked_out_by_hand(case: str) -> None:
    function, inputs, elements, flops = OPERATORS[case]
    found = floor(function, *inputs)
    assert (found.bytes_moved, found.flops) == (FLOAT * elements, flops)


def test_attention_counts_scores_and_values_and_the_softmax_between() -> None:
    query, key = zeros(1, 2, 4, 8), zeros(1, 2, 6, 8)
    found = floor(lambda _, q, k, v: F.scaled_dot_product_attention(q, k, v), query, key, key.clone())
    assert found.bytes_moved == FLOAT * (64 + 96 + 96 + 64)
    assert found.flops_by_unit == (
        UnitFlops(unit="matmul float32", flops=2 * 2 * (2 * 4 * 6 * 8)),
        UnitFlops(unit="vector float32", flops=5 * 2 * 4 * 6),
    )


def test_causal_attention_counts_only_the_pairs_that_see_each_other() -> None:
    inputs = [zeros(1, 2, 4, 8) for _ in range(3)]
    found = floor(lambda _, q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), *inputs)
    pairs = 4 + 3 + 2 + 1
    assert found.flops == 2 * pairs * (2 * 2 * 8 + 5)


def test_keys_shared_between_heads_are_read_once_and_multiplied_by_each() -> None:
    query, key = zeros(1, 4, 4, 8), zeros(1, 2, 4, 8)
    found = floor(lambda _, q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True), query, key, key.clone())
    assert found.bytes_moved == FLOAT * (128 + 64 + 64 + 128)
    assert found.flops_by_unit[0].flops == 2 * 2 * (4 * 4 * 4 * 8)


def test_one_tensor_passed_twice_is_read_once() -> None:
    x = zeros(4, 8)
    assert floor(lambda _, a, b: a + b, x, x).bytes_moved == FLOAT * (32 + 32)
    assert floor(lambda _, a, b: a[0] + b, x, x[1]).bytes_moved == FLOAT * (8 + 8 + 8)


def test_autocast_reads_what_is_stored_and_computes_in_what_it_casts_to() -> None:
    inner = nn.Linear(8, 3)

    class Narrowed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                result: torch.Tensor = self.inner(x)
                return result

    found = floor(Narrowed(), zeros(4, 8))
    assert found.bytes_moved == FLOAT * (32 + 24 + 3) + 2 * 12
    assert found.flops_by_unit[0] == UnitFlops(unit="matmul bfloat16", flops=2 * 4 * 8 * 3)


def test_a_cache_counts_the_rows_written_and_the_rest_read() -> None:
    def by_slice(module: Any, rows: torch.Tensor) -> torch.Tensor:
        module.cache[1:3] = rows
        total: torch.Tensor = module.cache.sum(0)
        return total

    def by_index(module: Any, rows: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        module.cache.index_copy_(0, index, rows)
        total: torch.Tensor = module.cache.sum(0)
        return total

    new, kept, out = 2 * 5, 4 * 5, 5
    elements = new + kept + out + new
    assert floor(by_slice, zeros(2, 5), cache=zeros(6, 5)).bytes_moved == FLOAT * elements
    assert (
        floor(by_index, zeros(2, 5), torch.tensor([1, 2]), cache=zeros(6, 5)).bytes_moved == FLOAT * elements + 2 * LONG
    )


def test_a_write_that_is_not_read_again_does_not_read_the_rest() -> None:
    def store(module: Any, row: torch.Tensor) -> torch.Tensor:
        module.cache[2] = row
        return row + 1

    assert floor(store, zeros(5), cache=zeros(6, 5)).bytes_moved == FLOAT * (5 + 5 + 5)


@pytest.mark.parametrize(
    ("function", "flops"),
    [
        (lambda _, x: torch.linalg.cholesky(x), 171),  # n^3 / 3, rounded up
        (lambda _, x: torch.fft.rfft(x), 5 * 64 * 3 // 2),  # 5 n log2 n for each of 8 rows, halved: real input
        (lambda _, x: x.sort(), 64 * 3),  # n log2 n for each row
    ],
)
def test_transforms_and_factorisations_follow_the_textbook(function: Callable[..., Any], flops: int) -> None:
    assert floor(function, torch.eye(8)).flops == flops


def test_a_floor_whose_parts_do_not_add_up_is_refused() -> None:
    with pytest.raises(ValueError, match="add up"):
        Floor(bytes_moved=0, flops=3, flops_by_unit=(UnitFlops(unit="vector float32", flops=2),))


# --- Counting elements that layouts have in common. ---


def layout(shape: tuple[int, ...], strides: tuple[int, ...], offset: int = 0) -> TensorMeta:
    return TensorMeta(shape=shape, dtype="float32", strides=strides, offset=offset)


def indices(meta: TensorMeta) -> set[int]:
    places = itertools.product(*(range(size) for size in meta.shape))
    return {meta.offset + sum(i * stride for i, stride in zip(place, meta.strides)) for place in places}


LAYOUTS = [
    layout((4, 8), (8, 1)),
    layout((8, 4), (1, 8)),
    layout((4, 8), (0, 1), 3),
    layout((4, 3), (8, 1), 2),
    layout((2, 4), (16, 2), 1),
    layout((4, 6, 3), (8, 1, 1)),
    layout((3, 3), (2, 3)),
    layout((), (), 7),
    layout((0, 8), (8, 1)),
]


@pytest.mark.parametrize("one", LAYOUTS, ids=str)
@pytest.mark.parametrize("other", LAYOUTS, ids=str)
def test_elements_in_common_are_counted_once(one: TensorMeta, other: TensorMeta) -> None:
    assert touched([Part(layout=one), Part(layout=other)]) == len(indices(one) | indices(other))


def test_holes_are_left_out_unless_another_part_shows_them() -> None:
    whole, row = layout((4, 8), (8, 1)), layout((8,), (1,), 8)
    assert touched([Part(layout=whole, holes=(row,))]) == 24
    assert touched([Part(layout=whole, holes=(row,)), Part(layout=row)]) == 32


@pytest.mark.parametrize("one", LAYOUTS, ids=str)
@pytest.mark.parametrize("other", LAYOUTS, ids=str)
def test_memory_too_large_to_paint_is_never_overcounted(
    one: TensorMeta, other: TensorMeta, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extents, "EXACT_SPAN", 0)
    assert touched([Part(layout=one), Part(layout=other)]) <= len(indices(one) | indices(other))
    assert distinct(one) <= len(indices(one))


@pytest.mark.parametrize("one", LAYOUTS)
@pytest.mark.parametrize("other", LAYOUTS)
def test_layouts_of_long_stretches_are_counted_exactly_without_painting_all(
    monkeypatch: pytest.MonkeyPatch, one: TensorMeta, other: TensorMeta
) -> None:
    """In this test each element of the memory stands for 1,000."""

    def stretched(layout: TensorMeta) -> TensorMeta:
        steps = tuple(1000 * stride for stride in layout.strides)
        return dataclasses.replace(
            layout, shape=(*layout.shape, 1000), strides=(*steps, 1), offset=1000 * layout.offset
        )

    monkeypatch.setattr(extents, "EXACT_SPAN", 200)
    long = [Part(layout=stretched(layout)) for layout in (one, other)]
    assert touched(long) == 1000 * len(indices(one) | indices(other))


def test_both_halves_of_a_large_input_are_read() -> None:
    x = torch.empty(16, 256, 8192)

    def gate(_: nn.Module, x: torch.Tensor) -> torch.Tensor:
        signal, control = x.chunk(2, dim=1)
        return torch.tanh(signal) * torch.sigmoid(control)

    assert floor(gate, x).bytes_moved == x.nbytes + x.nbytes // 2
