"""Each token sees itself and a window of tokens before it: Mistral, Longformer, Gemma's local layers."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 2
HEADS = 16
HEAD_WIDTH = 64
WINDOW = 256
STEPS = 8 * WINDOW


class Model(nn.Module):
    def __init__(self, window: int) -> None:
        super().__init__()
        self.window = window

    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        at = torch.arange(query.shape[2], device=query.device)
        back = at[:, None] - at
        seen = (back >= 0) & (back < self.window)
        return F.scaled_dot_product_attention(query, key, value, attn_mask=seen)


def get_inputs():
    return [torch.randn(BATCH, HEADS, STEPS, HEAD_WIDTH).to(torch.bfloat16) for _ in range(3)]


def get_init_inputs():
    return [WINDOW]
