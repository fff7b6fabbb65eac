"""A model file as people have them: no `get_inputs`, no convention, a class among others.

Name the class, say what it is made with and what it is called with:

    triton-agent evaluate examples/gated_mlp.py:GatedMLP --init "64, 128" --input "f32[4,32,64]" \\
        examples/gated_mlp_fused.py
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


class GatedMLP(nn.Module):
    """The feed-forward block of most recent language models: down(silu(gate(x)) * up(x))."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(F.silu(self.gate(x)) * self.up(x))
