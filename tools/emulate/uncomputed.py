"""Host code run only for the launches it makes: what would take long and decides no launch is left out.

    with Uncomputed():
        model(*made_up(outline))

Products, convolutions and their like give memory that was never written, of the right shape, and random numbers are
not drawn. Views, allocations and light arithmetic happen, since host code branches on what they give. A tensor is made
up from an outline without values, so inputs need not be sent. Not covered: host code that looks at results; it was
never promised any where kernels are not run.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._pytree import tree_map_only

from triton_agent.tools.dispatch_modes import UncompiledMode
from triton_agent.tools.operators import kind_of

FACTORS = {"aten::mm": 0, "aten::bmm": 0, "aten::addmm": 1, "aten::baddbmm": 1}
"""Matrix products and where their factors begin: asking torch for their shapes imports its compiler, 2.6 s."""


class Uncomputed(UncompiledMode):  # type: ignore[no-untyped-call]
    """The mode in which nothing heavy is computed."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kind = kind_of(str(func))
        if kind == "random" and func._schema.is_mutable:
            return args[0]
        if kind == "heavy" and not func._schema.is_mutable:
            return _unwritten(func, args, kwargs or {})
        return func(*args, **(kwargs or {}))


def _unwritten(func: Any, args: Any, kwargs: Any) -> Any:
    """Of the shapes that torch says the operator gives; computed after all where it cannot say."""
    try:
        factors = FACTORS.get(func._schema.name)
        outlined = _product(*args[factors : factors + 2]) if factors is not None else _by_torch(func, args, kwargs)
    except Exception:
        return func(*args, **kwargs)
    return made_up(outlined)


def _product(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return torch.empty(*one.shape[:-1], *other.shape[-1:], dtype=one.dtype, device="meta")


def _by_torch(func: Any, args: Any, kwargs: Any) -> Any:
    return func(*outline(args), **outline(kwargs))


def outline(values: Any) -> Any:
    """The same with tensors that have no values."""
    return tree_map_only(torch.Tensor, _without_values, values)


def made_up(values: Any) -> Any:
    """Tensors on the CPU in place of those without values: whole numbers are zero, so that they index something."""
    return tree_map_only(torch.Tensor, _with_memory, values)


def _without_values(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")


def _with_memory(tensor: torch.Tensor) -> torch.Tensor:
    made = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)
    return made if tensor.is_floating_point() or tensor.is_complex() else made.zero_()
