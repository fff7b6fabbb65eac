"""Groups of query heads share a head of keys and values: language models that read long prompts."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 16
GROUPS = 8
PER_GROUP = 4
STEPS = 8192
HEAD_WIDTH = 128


class Model(nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        wide_k, wide_v = (part.repeat_interleave(q.shape[1] // part.shape[1], dim=1) for part in (k, v))
        return F.scaled_dot_product_attention(q, wide_k, wide_v, is_causal=True)


def get_inputs():
    q = torch.randn(BATCH, GROUPS * PER_GROUP, STEPS, HEAD_WIDTH, dtype=torch.float16)
    k = torch.randn(BATCH, GROUPS, STEPS, HEAD_WIDTH, dtype=torch.float16)
    return [q, k, torch.randn(BATCH, GROUPS, STEPS, HEAD_WIDTH, dtype=torch.float16)]


def get_init_inputs():
    return []
