"""Mistakes along the dimension of a reduction: the wrong one, one element short, a wrong count."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch

from triton_agent.tools.verify.mistakes import CONTRACTIONS, Mistake
from triton_agent.tools.verify.operator_call import Call, mapped
from triton_agent.tools.worth import Family

OTHER_DIMENSIONS = 2
"""So many wrong ones of each reduction are tried."""

SOFTMAXES = frozenset({"_softmax", "_log_softmax", "_safe_softmax"})
SCANS = frozenset({"cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"})


def dimensions_of(call: Call) -> list[int] | None:
    """The dimensions that a call reduces or scans over; None where it does neither."""
    if call.kind != "reduction" or not call.tensors or "norm" in call.name.removeprefix("linalg_vector_norm"):
        return None
    ndim, dim = call.first.dim(), call.get("dim")
    if "dim" not in call.arguments or dim is None or (isinstance(dim, (list, tuple)) and not dim):
        keeps_shape = call.name in SCANS or call.name in SOFTMAXES
        return None if keeps_shape or call.name not in REDUCERS else list(range(ndim))
    return [d % ndim for d in (dim if isinstance(dim, (list, tuple)) else [dim])] if ndim else None


REDUCERS = frozenset(
    [
        "sum",
        "mean",
        "prod",
        "amax",
        "amin",
        "max",
        "min",
        "argmax",
        "argmin",
        "any",
        "all",
        "var",
        "std",
        "logsumexp",
        "linalg_vector_norm",
    ]
)


def wrong_axis(call: Call, result: Any) -> Iterator[Mistake]:
    """Over a dimension that is not meant, brought back to the expected shape."""
    dims = dimensions_of(call)
    if dims is None or call.get("dim") is None:
        return
    sizes = call.first.shape
    others = [d for d in reversed(range(call.first.dim())) if d not in dims and (sizes[d] > 1 or sizes[dims[0]] > 1)]
    if "keepdim" not in call.arguments and call.name not in SCANS | SOFTMAXES:
        return
    for other in others[:OTHER_DIMENSIONS]:
        yield Mistake(
            family=Family.AXIS,
            what=f"{call.name} over dimension {other} instead of {dims[0]}",
            result=_reduced_over([other, *dims[1:]], dims),
        )


def _reduced_over(wrong: list[int], right: list[int]) -> Callable[[Call], Any]:
    return lambda call: _over(call, wrong, right)


def _over(call: Call, wrong: list[int], right: list[int]) -> Any:
    dim: Any = wrong if isinstance(call.get("dim"), (list, tuple)) else wrong[0]
    if "keepdim" not in call.arguments:
        return call.run({"dim": dim})
    shape = [1 if d in right else size for d, size in enumerate(call.first.shape)]
    expected = shape if call.get("keepdim") else [size for d, size in enumerate(shape) if d not in right]
    plain = call.run({"dim": dim})
    if list((plain if isinstance(plain, torch.Tensor) else plain[0]).shape) == expected:
        return plain

    def fitted(kept: torch.Tensor) -> torch.Tensor:
        whole = kept.expand(call.first.shape)
        for d in right:
            whole = whole.narrow(d, 0, 1)
        return whole.reshape(expected).clone()

    return mapped(call.run({"dim": dim, "keepdim": True}), fitted)


def truncated(call: Call, result: Any) -> Iterator[Mistake]:
    """The last element of what is summed, compared or multiplied is left out."""
    if call.name in CONTRACTIONS and call.get(CONTRACTIONS[call.name][0]).shape[-1] > 1:
        yield _mistake(call, _contracted_short)
    elif call.name == "convolution" and call.get("weight").shape[1] > 1:
        yield _mistake(call, _without_last_channel)
    elif "attention" in call.name and "key" in call.tensors and call.get("attn_mask") is None:
        yield _mistake(call, lambda c: c.run({name: c.get(name)[..., :-1, :] for name in ("key", "value")}))
    dims = dimensions_of(call)
    if not dims or call.first.shape[dims[-1]] < 2 or call.name in SCANS:
        return
    if call.name in SOFTMAXES:
        yield _mistake(call, lambda c: _softmax_short(c, dims[0]))
    elif call.name in REDUCERS:
        last = dims[-1]
        yield _mistake(call, lambda c: c.run({"self": c.first.narrow(last, 0, c.first.shape[last] - 1)}))
    if call.name == "mean":
        yield Mistake(
            family=Family.CONSTANT, what="dividing by n + 1 in mean", result=lambda c: _mean_of_one_more(c, dims)
        )


def _mistake(call: Call, result: Any) -> Mistake:
    return Mistake(family=Family.TRUNCATED, what=f"leaving the last element out of {call.name}", result=result)


def _contracted_short(call: Call) -> Any:
    a, b = CONTRACTIONS[call.name]
    return call.run({a: call.get(a)[..., :-1], b: call.get(b)[..., :-1, :]})


def _without_last_channel(call: Call) -> Any:
    weight = call.get("weight").clone()
    weight[:, -1] = 0
    return call.run({"weight": weight})


def _softmax_short(call: Call, dim: int) -> Any:
    size = call.first.shape[dim]
    short = call.run({"self": call.first.narrow(dim, 0, size - 1)})
    return torch.cat([short, torch.zeros_like(short.narrow(dim, 0, 1))], dim)


def _mean_of_one_more(call: Call, dims: list[int]) -> Any:
    count = math.prod(call.first.shape[d] for d in dims)
    return call.run() * (count / (count + 1))
