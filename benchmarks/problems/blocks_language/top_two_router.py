"""Scores of experts, the two best, their shares, and how the load spreads: the router of mixtures of experts."""

import torch
import torch.nn as nn
import torch.nn.functional as F

TOKENS = 16384
WIDTH = 2048
EXPERTS = 64


class Model(nn.Module):
    def __init__(self, width: int, experts: int) -> None:
        super().__init__()
        self.score = nn.Linear(width, experts)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        chances = torch.softmax(self.score(x), dim=-1)
        best = chances.topk(2, dim=-1)
        shares = best.values / best.values.sum(dim=-1, keepdim=True)
        chosen = F.one_hot(best.indices, chances.shape[-1]).sum(dim=1).to(chances.dtype)
        return shares, best.indices, chosen.mean(dim=0) * chances.mean(dim=0)


def get_inputs():
    return [3 * torch.randn(TOKENS, WIDTH)]


def get_init_inputs():
    return [WIDTH, EXPERTS]
