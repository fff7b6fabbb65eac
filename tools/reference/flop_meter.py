"""Counts the arithmetic of matrix products, convolutions and attentions in a call, by torch's own formulas.

The count is that of `torch.utils.flop_counter.FlopCounterMode`, which imports torch's compiler (2.6 s) at the first
operator. Not covered: shares of submodules, higher-order operators, custom kernels.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.utils.flop_counter import flop_registry

from triton_agent.tools.dispatch_modes import UncompiledMode


class FlopMeter(UncompiledMode):  # type: ignore[no-untyped-call]
    """Counts the flops of the operators called inside; a multiply-add counts as two."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.flops = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        # Queries of sizes and devices return no tensors; decomposing those of nested tensors would not terminate.
        if any("Tensor" in str(returned.type) for returned in func._schema.returns):
            with self:  # in inference mode torch dispatches larger operators, which contain the products
                result = func.decompose(*args, **kwargs)
            if result is not NotImplemented:
                return result
        result = func(*args, **kwargs)
        count = _FORMULAS.get(func._overloadpacket)
        if count is not None:
            self.flops += count(*args, **kwargs, out_val=result)
        return result


def attention_flops(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *rest: Any, **named: Any) -> int:
    """Count every query-key pair. torch's own formula fails in some versions if the keys have fewer heads."""
    return 2 * math.prod(query.shape[:-1]) * key.shape[-2] * (query.shape[-1] + value.shape[-1])


_FORMULAS: dict[Any, Callable[..., int]] = {
    **flop_registry,
    torch.ops.aten._scaled_dot_product_flash_attention: attention_flops,
    torch.ops.aten._scaled_dot_product_efficient_attention: attention_flops,
    torch.ops.aten._scaled_dot_product_cudnn_attention: attention_flops,
}
