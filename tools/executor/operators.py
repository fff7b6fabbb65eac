"""Operators of torch that exist on a CPU only, and what does the same on a GPU.

Tapes are made from tensors that torch takes for CPU tensors, so a tape may name the CPU's variant of an operator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def stand_in_for(operator: str, device: str) -> Callable[..., Any] | None:
    """What runs in place of an operator of this name on this device; None where it runs itself."""
    return _ON_GPU.get(operator) if device == "cuda" else None


def _attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: torch.Tensor | None = None,
    scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    answer = torch.nn.functional.scaled_dot_product_attention(
        query, key, value, attn_mask=attn_mask, dropout_p=dropout_p, is_causal=is_causal, scale=scale
    )
    return answer, query.new_empty(0)


_ON_GPU: dict[str, Callable[..., Any]] = {"aten._scaled_dot_product_flash_attention_for_cpu.default": _attention}
