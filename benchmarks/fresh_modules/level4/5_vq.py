import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, n=64, d=16):
        super().__init__()
        self.book = nn.Embedding(n, d)

    def forward(self, z):
        f = z.permute(0, 2, 3, 1).reshape(-1, z.shape[1])
        d = f.square().sum(1, keepdim=True) - 2 * f @ self.book.weight.t() + self.book.weight.square().sum(1)
        q = self.book(d.argmin(1)).view(z.shape[0], z.shape[2], z.shape[3], -1).permute(0, 3, 1, 2)
        return q, F.mse_loss(q, z)


def get_inputs():
    return [torch.randn(2, 16, 8, 8)]


def get_init_inputs():
    return []
