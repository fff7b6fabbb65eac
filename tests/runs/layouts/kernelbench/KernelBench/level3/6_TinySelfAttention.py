import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """One head of causal attention with projections."""

    def __init__(self, width):
        super().__init__()
        self.pack = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        query, key, value = self.pack(x).chunk(3, dim=-1)
        return self.out(F.scaled_dot_product_attention(query, key, value, is_causal=True))


batch = 3
steps = 12
width = 16


def get_inputs():
    return [2 * torch.randn(batch, steps, width)]


def get_init_inputs():
    return [width]
