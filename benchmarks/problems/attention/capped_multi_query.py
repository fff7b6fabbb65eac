"""Causal attention with one key and value head and scores bent into +-cap by tanh: Gemma 2, PaLM's shared heads."""

import torch
import torch.nn as nn

BATCH = 4
HEADS = 8
STEPS = 1024
HEAD_WIDTH = 128
CAP = 20.0


class Model(nn.Module):
    def __init__(self, cap: float) -> None:
        super().__init__()
        self.cap = cap

    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        scores = query @ key.transpose(-2, -1) * query.shape[-1] ** -0.5
        scores = self.cap * torch.tanh(scores / self.cap)
        at = torch.arange(query.shape[2], device=query.device)
        scores = scores.masked_fill(at[:, None] < at, float("-inf"))
        return torch.softmax(scores.float(), dim=-1).to(value.dtype) @ value


def get_inputs():
    query = 4 * torch.randn(BATCH, HEADS, STEPS, HEAD_WIDTH)
    return [query.half(), *(torch.randn(BATCH, 1, STEPS, HEAD_WIDTH).half() for _ in range(2))]


def get_init_inputs():
    return [CAP]
