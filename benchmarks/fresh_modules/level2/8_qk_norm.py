import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, dim=64, heads=4):
        super().__init__()
        self.heads = heads
        self.q, self.kv, self.o = nn.Linear(dim, dim), nn.Linear(dim, 2 * dim), nn.Linear(dim, dim)
        self.qn, self.kn = nn.LayerNorm(dim // heads), nn.LayerNorm(dim // heads)

    def forward(self, x, context):
        b, n, c = x.shape
        m = context.shape[1]
        q = self.qn(self.q(x).view(b, n, self.heads, -1)).transpose(1, 2)
        k, v = self.kv(context).chunk(2, dim=-1)
        k = self.kn(k.view(b, m, self.heads, -1)).transpose(1, 2)
        v = v.view(b, m, self.heads, -1).transpose(1, 2)
        y = F.scaled_dot_product_attention(q, k, v)
        return self.o(y.transpose(1, 2).reshape(b, n, c))


def get_inputs():
    return [torch.randn(2, 24, 64), torch.randn(2, 40, 64)]


def get_init_inputs():
    return []
