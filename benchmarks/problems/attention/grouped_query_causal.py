"""Causal attention in which four query heads share a key and value head: Llama 3, Mistral, Qwen."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 2
GROUPS = 8
SHARING = 4
STEPS = 2048
HEAD_WIDTH = 128


class Model(nn.Module):
    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)


def get_inputs():
    query = torch.randn(BATCH, GROUPS * SHARING, STEPS, HEAD_WIDTH)
    key, value = (torch.randn(BATCH, GROUPS, STEPS, HEAD_WIDTH) for _ in range(2))
    return [query.to(torch.bfloat16), key.to(torch.bfloat16), value.to(torch.bfloat16)]


def get_init_inputs():
    return []
