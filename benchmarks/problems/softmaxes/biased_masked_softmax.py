"""Attention scores plus a bias per head, padding masked out, softmax: the middle of written-out attention."""

import torch
import torch.nn as nn

BATCH = 8
HEADS = 12
STEPS = 512


class Model(nn.Module):
    def forward(self, scores: torch.Tensor, bias: torch.Tensor, padding: torch.Tensor) -> torch.Tensor:
        masked = (scores + bias).masked_fill(padding[:, None, None, :], float("-inf"))
        return torch.softmax(masked, dim=-1)


def get_inputs():
    scores = 2 * torch.randn(BATCH, HEADS, STEPS, STEPS)
    bias = torch.randn(HEADS, STEPS, STEPS)
    lengths = torch.randint(STEPS // 2, STEPS + 1, (BATCH,))
    return [scores.half(), bias.half(), torch.arange(STEPS) >= lengths[:, None]]


def get_init_inputs():
    return []
