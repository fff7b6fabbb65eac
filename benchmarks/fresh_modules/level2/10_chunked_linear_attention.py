import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, chunk=16):
        super().__init__()
        self.chunk = chunk

    def forward(self, q, k, v):
        b, h, n, d = q.shape
        c = n // self.chunk
        q, k, v = (t.reshape(b, h, c, self.chunk, d) for t in (q, k, v))
        kv = (k.transpose(-1, -2) @ v).cumsum(2)
        kv = torch.cat([torch.zeros_like(kv[:, :, :1]), kv[:, :, :-1]], dim=2)
        inner = (q @ k.transpose(-1, -2)).tril() @ v
        return (q @ kv + inner).reshape(b, h, n, d)


def get_inputs():
    return [torch.randn(2, 2, 64, 16), torch.randn(2, 2, 64, 16), torch.randn(2, 2, 64, 16)]


def get_init_inputs():
    return []
