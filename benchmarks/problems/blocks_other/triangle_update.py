"""Each pair of residues updated by all third ones, gated, with norms before and after: AlphaFold's pair stack."""

import torch
import torch.nn as nn

RESIDUES = 256
WIDTH = 128


class Model(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.edges = nn.Linear(width, 4 * width)
        self.mixed_norm = nn.LayerNorm(width)
        self.out = nn.Linear(width, width)
        self.gate = nn.Linear(width, width)
        self.to(torch.bfloat16)

    def forward(self, pairs: torch.Tensor) -> torch.Tensor:
        normal = self.norm(pairs)
        left, left_gate, right, right_gate = self.edges(normal).chunk(4, dim=-1)
        left, right = left * torch.sigmoid(left_gate), right * torch.sigmoid(right_gate)
        mixed = torch.einsum("ikc,jkc->ijc", left, right)
        return torch.sigmoid(self.gate(normal)) * self.out(self.mixed_norm(mixed))


def get_inputs():
    return [torch.randn(RESIDUES, RESIDUES, WIDTH).to(torch.bfloat16)]


def get_init_inputs():
    return [WIDTH]
