import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, dim=64, heads=4):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(dim)
        self.fused = nn.Linear(dim, 3 * dim + 4 * dim)
        self.o, self.d = nn.Linear(dim, dim), nn.Linear(4 * dim, dim)

    def forward(self, x):
        b, n, c = x.shape
        q, k, v, m = self.fused(self.norm(x)).split([c, c, c, 4 * c], dim=-1)
        q, k, v = (t.view(b, n, self.heads, -1).transpose(1, 2) for t in (q, k, v))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, n, c)
        return x + self.o(a) + self.d(F.gelu(m))


def get_inputs():
    return [torch.randn(2, 24, 64)]


def get_init_inputs():
    return []
