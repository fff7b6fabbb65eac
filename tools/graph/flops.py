"""Counts the floating-point operations of an operator call, by unit of the chip.

Matrix products, convolutions and attention follow torch's formulas; other operators count per element. An exponential
counts as one operation, like an addition. Iterative algorithms (singular values, eigenvalues) count as one reduction to
tridiagonal form, the least they need. Moves, indexing and views count as zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch.utils.flop_counter import flop_registry

from triton_agent.tools.graph.graph import Node
from triton_agent.tools.graph.operators import ADDING
from triton_agent.tools.graph.values import Argument, Reference, TensorMeta, references_in

Metas = Mapping[str, TensorMeta]

SOFTMAX_FLOPS = 5
"""Per element: compare for the maximum, subtract, exponential, sum, divide."""
NORM_FLOPS = 8
"""Per element: sum for the mean; subtract, square, sum for the variance; subtract, scale; weight, bias."""
RMS_NORM_FLOPS = 4
"""Per element: square, sum, scale, weight."""
FIXED_NORM_FLOPS = 2
"""Per element with given statistics, which fold into one factor and one offset per channel."""
DROPOUT_FLOPS = 2
"""Per element: compare, scale."""
_RECURRENT = {"lstm": (4, 21), "gru": (3, 17), "rnn_tanh": (1, 4), "rnn_relu": (1, 4)}
"""Gates, and operations per hidden element. Each gate has 3 additions. An LSTM adds 5 activations, 3 products and 1
addition, a GRU 3 activations, 3 products and 2 additions, a plain network 1 activation."""

_PER_ELEMENT = {
    **dict.fromkeys(("_softmax", "_log_softmax", "_safe_softmax", "_masked_softmax"), SOFTMAX_FLOPS),
    "logsumexp": SOFTMAX_FLOPS - 1,
    **dict.fromkeys(("native_layer_norm", "native_group_norm"), NORM_FLOPS),
    **dict.fromkeys(("rms_norm", "_fused_rms_norm"), RMS_NORM_FLOPS),
    **dict.fromkeys(("var", "std", "var_mean", "std_mean"), 4),
    "mse_loss": 3,
    "linalg_vector_norm": 2,
}
"""Operators that need more than one operation per element of their first tensor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitFlops:
    """Operations on one unit of the chip."""

    unit: str
    """The unit and the dtype: `matmul float16`, `vector float32`."""
    flops: int


def flops_of(node: Node, metas: Metas) -> tuple[UnitFlops, ...]:
    """Return the operations of one call; `metas` are all values of its graph."""
    taken = [metas[name] for name in node.references()]
    name = node.operator.removeprefix("aten.")
    if not taken or not node.outputs:
        return ()
    if name in _PRODUCTS:
        parts = [("matmul", _PRODUCTS[name](node, metas)), ("vector", _beside_product(name, node, metas))]
    elif name.removesuffix("_cell") in _RECURRENT:
        # Each weight matrix multiplies each row of the sequence once; the gates count per element of the hidden
        # state.
        gates, per_element = _RECURRENT[name.removesuffix("_cell")]
        rows = math.prod(metas[next(node.references())].shape[:-1])
        given = node.argument("params") or (node.argument("w_ih"), node.argument("w_hh"))
        shapes = [metas[reference].shape for reference in references_in(given)]
        matrices = [shape for shape in shapes if len(shape) == 2]
        hidden = sum(shape[0] // gates for shape in matrices) // 2  # two matrices per layer and direction
        parts = [("matmul", 2 * rows * sum(map(math.prod, matrices))), ("vector", rows * hidden * per_element)]
    elif node.kind == "heavy":
        parts = [_other_heavy(name, node, taken[0])]
    else:
        parts = [("vector", _vector(name, node, taken))]
    # The narrower dtype counts: an 8-bit product may have a wide result, and autocast narrows the arguments.
    numeric = [meta.dtype for meta in (taken[0], node.outputs[0]) if meta.dtype != "bool"] or [taken[0].dtype]
    dtype = min(numeric, key=itemsize)
    return tuple(UnitFlops(unit=f"{unit} {dtype}", flops=flops) for unit, flops in parts if flops)


def itemsize(dtype: str) -> int:
    size: int = getattr(torch, dtype).itemsize
    return size


def _vector(name: str, node: Node, taken: list[TensorMeta]) -> int:
    made = node.outputs[0].numel
    if node.kind in ("movement", "view", "allocation", "index", "metadata"):
        return made if name in ADDING else 0
    if name == "batch_norm":
        return taken[0].numel * (NORM_FLOPS if node.argument("training") else FIXED_NORM_FLOPS)
    if name in _PER_ELEMENT:
        return taken[0].numel * _PER_ELEMENT[name]
    if name in ("sort", "argsort", "msort"):
        dimension = node.argument("dim", -1)
        length = taken[0].shape[dimension] if taken[0].shape and isinstance(dimension, int) else 1
        return taken[0].numel * math.ceil(math.log2(length)) if length > 1 else 0  # comparisons, at least
    if name in ("dropout", "native_dropout"):
        return made * DROPOUT_FLOPS
    if "pool" in name and "adaptive" not in name:
        return made * _window(node)
    return taken[0].numel if node.kind == "reduction" else sum(output.numel for output in node.outputs)


def _window(node: Node) -> int:
    size = node.argument("kernel_size")
    spatial = 3 if "3d" in node.operator else 2 if "2d" in node.operator else 1
    if isinstance(size, int):
        return math.prod([size] * spatial)
    if not isinstance(size, tuple):
        return 1
    sides = [side for side in size if isinstance(side, int)]
    return math.prod(sides if len(sides) == spatial else sides * spatial)


def _registered(packet_name: str) -> Callable[[Node, Metas], int]:
    def count(node: Node, metas: Metas) -> int:
        formula = flop_registry[getattr(torch.ops.aten, packet_name)]
        shapes = [_shapes(argument, metas) for argument in node.arguments]
        return int(formula(*shapes, out_val=node.outputs[0].shape))

    return count


def _shapes(argument: Argument, metas: Metas) -> object:
    if isinstance(argument, Reference):
        return metas[argument.name].shape
    return [_shapes(item, metas) for item in argument] if isinstance(argument, tuple) else argument


def _attention(node: Node, metas: Metas) -> int:
    """Apply torch's formula, without the pairs that a causal mask excludes."""
    query, key, value = (metas[name].shape for name in list(node.references())[:3])
    batch, heads = math.prod(query[:-3]), query[-3] if len(query) > 2 else 1
    shapes = [(batch, heads, *shape[-2:]) for shape in (query, key, value)]
    formula = flop_registry[torch.ops.aten._scaled_dot_product_flash_attention]
    queries, keys = query[-2], key[-2]
    total = int(formula(*shapes))
    return total * _pairs(node, queries, keys) // max(1, queries * keys)


def _pairs(node: Node, queries: int, keys: int) -> int:
    """Return the number of query-key pairs that count: with a causal mask, query i attends to keys up to i."""
    if not node.argument("is_causal", False):
        return queries * keys
    full = min(queries, keys)
    return full * (full + 1) // 2 + (queries - full) * keys


_PRODUCTS: dict[str, Callable[[Node, Metas], int]] = {
    **{name: _registered(name) for name in ("mm", "addmm", "bmm", "baddbmm", "convolution", "_scaled_mm")},
    # a multiplication and an addition for each element of the largest argument
    **dict.fromkeys(
        ("mv", "addmv", "dot", "vdot"), lambda node, metas: 2 * max(metas[name].numel for name in node.references())
    ),
    "_int_mm": _registered("mm"),
    "scaled_dot_product_attention": _attention,
}


def _beside_product(name: str, node: Node, metas: Metas) -> int:
    """Return the operations of the bias, or of the softmax in attention."""
    if name == "scaled_dot_product_attention":
        query, key = (metas[reference].shape for reference in list(node.references())[:2])
        # The scale is folded into the query.
        return SOFTMAX_FLOPS * math.prod(query[:-2]) * _pairs(node, query[-2], key[-2])
    biased = name in ("addmm", "baddbmm", "addmv") or isinstance(node.argument("bias"), Reference)
    return node.outputs[0].numel if biased else 0


def _other_heavy(name: str, node: Node, taken: TensorMeta) -> tuple[str, int]:
    """Count transforms and factorisations by the leading term of the usual formula; 0 for operators without one."""
    if name.startswith("_fft_"):  # 5 n log2 n for a complex transform (radix 2), half of it if one side is real
        real, whole = name != "_fft_c2c", node.outputs[0] if name == "_fft_c2r" else taken
        dimensions = node.argument("dim")
        sizes = [whole.shape[d] for d in dimensions if isinstance(d, int)] if isinstance(dimensions, tuple) else []
        transform = max(1, math.prod(sizes))
        return "vector", math.ceil((2.5 if real else 5) * whole.numel * math.log2(transform))
    if name in ("_cdist_forward", "_euclidean_dist"):
        return "vector", 3 * node.outputs[0].numel * taken.shape[-1]
    if name not in _CUBIC or len(taken.shape) < 2:
        return "matmul", 0
    rows, columns = max(taken.shape[-2:]), min(taken.shape[-2:])
    return "matmul", math.ceil(math.prod(taken.shape[:-2]) * _CUBIC[name](rows, columns))


_CUBIC: dict[str, Callable[[int, int], float]] = {
    **dict.fromkeys(("linalg_cholesky_ex", "cholesky"), lambda m, n: n**3 / 3),
    **dict.fromkeys(
        ("linalg_lu_factor_ex", "linalg_lu", "_linalg_det", "_linalg_slogdet", "_linalg_solve_ex"),
        lambda m, n: 2 * n**3 / 3,
    ),
    "linalg_inv_ex": lambda m, n: 2 * n**3,
    "linalg_solve_triangular": lambda m, n: n**2,
    "linalg_qr": lambda m, n: 2 * m * n**2 - 2 * n**3 / 3,
    "_linalg_eigh": lambda m, n: 4 * n**3 / 3,
    "linalg_eig": lambda m, n: 10 * n**3 / 3,
    "_linalg_svd": lambda m, n: 4 * m * n**2 - 4 * n**3 / 3,
}
"""Operations for an m by n matrix with m >= n, as in textbooks on matrix computations."""
