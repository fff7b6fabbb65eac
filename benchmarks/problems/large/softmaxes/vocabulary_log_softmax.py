"""Log-softmax over a large vocabulary: 2**31 elements of bfloat16."""

import torch
import torch.nn as nn

TOKENS = 16384
VOCABULARY = 131072


class Model(nn.Module):
    def forward(self, logits: torch.Tensor, temperature: torch.Tensor) -> torch.Tensor:
        return torch.log_softmax(logits / temperature[:, None], dim=-1)


def get_inputs():
    return [4 * torch.randn(TOKENS, VOCABULARY, dtype=torch.bfloat16), (0.5 + torch.rand(TOKENS)).to(torch.bfloat16)]


def get_init_inputs():
    return []
