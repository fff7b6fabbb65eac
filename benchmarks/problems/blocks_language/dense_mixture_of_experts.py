"""All experts applied to all tokens, mixed by a gate that is zero for most: small mixtures, soft merging of experts."""

import torch
import torch.nn as nn
import torch.nn.functional as F

TOKENS = 2048
WIDTH = 768
EXPERTS = 8
HIDDEN = 1024


class Model(nn.Module):
    def __init__(self, width: int, experts: int, hidden: int) -> None:
        super().__init__()
        self.up = nn.Parameter(torch.randn(experts, width, hidden) * width**-0.5)
        self.down = nn.Parameter(torch.randn(experts, hidden, width) * hidden**-0.5)
        self.to(torch.bfloat16)

    def forward(self, x: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
        hidden = F.silu(torch.einsum("tw,ewh->eth", x, self.up))
        return torch.einsum("eth,ehw,te->tw", hidden, self.down, gate)


def get_inputs():
    gate = torch.rand(TOKENS, EXPERTS) * (torch.rand(TOKENS, EXPERTS) < 0.5)
    return [torch.randn(TOKENS, WIDTH).to(torch.bfloat16), gate.to(torch.bfloat16)]


def get_init_inputs():
    return [WIDTH, EXPERTS, HIDDEN]
