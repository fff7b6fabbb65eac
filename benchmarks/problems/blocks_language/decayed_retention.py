"""Linear attention whose past fades at a rate per head, normalised per head and gated: the parallel form of RetNet."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 4
STEPS = 768
HEADS = 12
HEAD_WIDTH = 64


class Model(nn.Module):
    def __init__(self, heads: int, head_width: int) -> None:
        super().__init__()
        width = heads * head_width
        self.heads = heads
        self.project_in = nn.Linear(width, 4 * width, bias=False)
        self.norm = nn.RMSNorm(head_width, eps=1e-4)
        self.project_out = nn.Linear(width, width, bias=False)
        self.register_buffer("log_rate", torch.log(1 - torch.exp2(-3.0 - torch.arange(heads) % 5)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        packed = self.project_in(x).unflatten(-1, (4, self.heads, -1)).permute(2, 0, 3, 1, 4)
        query, key, value, gate = packed.unbind(0)
        at = torch.arange(x.shape[1], device=x.device)
        back = at[:, None] - at
        decay = torch.exp(self.log_rate[:, None, None] * back.clamp(min=0)) * (back >= 0)
        mixed = self.norm((query @ key.transpose(-2, -1) * decay) @ value)
        return self.project_out((F.silu(gate) * mixed).transpose(1, 2).flatten(2))


def get_inputs():
    return [torch.randn(BATCH, STEPS, HEADS * HEAD_WIDTH)]


def get_init_inputs():
    return [HEADS, HEAD_WIDTH]
