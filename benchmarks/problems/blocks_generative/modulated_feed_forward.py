"""Layer norm shifted, scaled and gated by a condition, around a feed-forward: half a diffusion transformer layer."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 16
STEPS = 256
WIDTH = 1152


class Model(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.condition = nn.Linear(width, 3 * width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        self.to(torch.bfloat16)

    def forward(self, x: torch.Tensor, condition: torch.Tensor) -> torch.Tensor:
        shift, scale, gate = self.condition(F.silu(condition))[:, None].chunk(3, dim=-1)
        normal = F.layer_norm(x, x.shape[-1:], eps=1e-4) * (1 + scale) + shift
        return x + gate * self.down(F.gelu(self.up(normal), approximate="tanh"))


def get_inputs():
    x = 0.1 * torch.randn(BATCH, STEPS, WIDTH)
    return [x.to(torch.bfloat16), (3 * torch.randn(BATCH, WIDTH)).to(torch.bfloat16)]


def get_init_inputs():
    return [WIDTH]
