"""How much arithmetic the matrix products, convolutions and attentions of a call take, by torch's own formulas.

The same figure as `torch.utils.flop_counter.FlopCounterMode` gives, which cannot be used: it imports torch's whole
compiler, 2.6 s, at the first operator. Not covered: shares of submodules, higher-order operators, kernels of others.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.utils.flop_counter import flop_registry

from triton_agent.tools.dispatch_modes import UncompiledMode


class FlopMeter(UncompiledMode):  # type: ignore[no-untyped-call]
    """Adds up what is called inside; a multiply-add counts as two."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.flops = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if _gives_tensors(func):
            with self:  # under inference mode products come as parts of larger operators
                result = func.decompose(*args, **kwargs)
            if result is not NotImplemented:
                return result
        result = func(*args, **kwargs)
        count = _FORMULAS.get(func._overloadpacket)
        if count is not None:
            self.flops += count(*args, **kwargs, out_val=result)
        return result


def _gives_tensors(func: Any) -> bool:
    """Questions about sizes and places do not; taken apart, those about nested tensors would come back for ever."""
    return any("Tensor" in str(given.type) for given in func._schema.returns)


def attention_flops(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *rest: Any, **named: Any) -> int:
    """Every query meets every key. Some versions of torch fail where keys have fewer heads than queries."""
    return 2 * math.prod(query.shape[:-1]) * key.shape[-2] * (query.shape[-1] + value.shape[-1])


_FORMULAS: dict[Any, Callable[..., int]] = {
    **flop_registry,
    torch.ops.aten._scaled_dot_product_flash_attention: attention_flops,
    torch.ops.aten._scaled_dot_product_efficient_attention: attention_flops,
    torch.ops.aten._scaled_dot_product_cudnn_attention: attention_flops,
}
