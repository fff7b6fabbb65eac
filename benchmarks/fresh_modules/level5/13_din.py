import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, d=16):
        super().__init__()
        self.a = nn.Sequential(nn.Linear(4 * d, 24), nn.PReLU(), nn.Linear(24, 1))

    def forward(self, q, k, mask):
        qq = q[:, None].expand_as(k)
        s = self.a(torch.cat([qq, k, qq - k, qq * k], -1)).squeeze(-1)
        s = torch.where(mask, s, torch.full_like(s, -1e4)).softmax(-1)
        return torch.einsum("bn,bnd->bd", s, k)


def get_inputs():
    return [torch.randn(8, 16), torch.randn(8, 20, 16), torch.rand(8, 20) > 0.3]


def get_init_inputs():
    return []
