import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, dim=64, latent=24, heads=4, hd=16):
        super().__init__()
        self.heads, self.hd = heads, hd
        self.q = nn.Linear(dim, heads * hd, bias=False)
        self.down = nn.Linear(dim, latent, bias=False)
        self.norm = nn.RMSNorm(latent)
        self.up_k = nn.Linear(latent, heads * hd, bias=False)
        self.up_v = nn.Linear(latent, heads * hd, bias=False)
        self.o = nn.Linear(heads * hd, dim, bias=False)

    def forward(self, x):
        b, n, _ = x.shape
        c = self.norm(self.down(x))
        q = self.q(x).view(b, n, self.heads, self.hd).transpose(1, 2)
        k = self.up_k(c).view(b, n, self.heads, self.hd).transpose(1, 2)
        v = self.up_v(c).view(b, n, self.heads, self.hd).transpose(1, 2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(y.transpose(1, 2).flatten(2))


def get_inputs():
    return [torch.randn(2, 32, 64)]


def get_init_inputs():
    return []
