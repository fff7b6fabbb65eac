import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("k", torch.tensor([[50.0, 0.0, 16.0], [0.0, 50.0, 12.0], [0.0, 0.0, 1.0]]))

    def forward(self, depth):
        b, h, w = depth.shape
        v, u = torch.meshgrid(torch.arange(h, device=depth.device), torch.arange(w, device=depth.device), indexing="ij")
        x = (u - self.k[0, 2]) / self.k[0, 0] * depth
        y = (v - self.k[1, 2]) / self.k[1, 1] * depth
        return torch.stack([x, y, depth], dim=1)


def get_inputs():
    return [torch.rand(2, 24, 32) + 0.5]


def get_init_inputs():
    return []
