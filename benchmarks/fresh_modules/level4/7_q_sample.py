import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, steps=100):
        super().__init__()
        betas = torch.linspace(1e-4, 0.02, steps)
        ac = torch.cumprod(1 - betas, 0)
        self.register_buffer("a", ac.sqrt())
        self.register_buffer("b", (1 - ac).sqrt())

    def forward(self, x, noise, t):
        v = (-1, 1, 1, 1)
        return self.a[t].view(v) * x + self.b[t].view(v) * noise


def get_inputs():
    return [torch.randn(4, 3, 16, 16), torch.randn(4, 3, 16, 16), torch.randint(0, 100, (4,))]


def get_init_inputs():
    return []
