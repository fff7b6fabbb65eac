"""Image tokens look at the tokens of a prompt, padding left out: text conditioning in diffusion models."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 16
HEADS = 10
PIXELS = 4096
WORDS = 77
HEAD_WIDTH = 64


class Model(nn.Module):
    def forward(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, lengths: torch.Tensor
    ) -> torch.Tensor:
        inside = torch.arange(key.shape[2], device=key.device) < lengths[:, None]
        return F.scaled_dot_product_attention(query, key, value, attn_mask=inside[:, None, None, :])


def get_inputs():
    query = torch.randn(BATCH, HEADS, PIXELS, HEAD_WIDTH)
    key, value = (torch.randn(BATCH, HEADS, WORDS, HEAD_WIDTH) for _ in range(2))
    return [query.half(), key.half(), value.half(), torch.randint(1, WORDS + 1, (BATCH,))]


def get_init_inputs():
    return []
