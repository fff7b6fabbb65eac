"""A gated activation, and its rounding to 8 bits with a scale for each token: what feeds a quantised linear layer."""

import torch
import torch.nn as nn
import torch.nn.functional as F

TOKENS, WIDTH = 8192, 4096


class Model(nn.Module):
    def forward(self, gate: torch.Tensor, up: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = F.silu(gate.float()) * up.float()
        scale = hidden.abs().amax(dim=-1, keepdim=True).clamp(min=1e-6) / 127
        return torch.round(hidden / scale).to(torch.int8), scale


def get_inputs():
    return [torch.randn(TOKENS, WIDTH).half(), torch.randn(TOKENS, WIDTH).half()]


def get_init_inputs():
    return []
