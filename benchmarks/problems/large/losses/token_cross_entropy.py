"""Cross-entropy over a large vocabulary, a loss for each token."""

import torch
import torch.nn as nn
import torch.nn.functional as F

TOKENS = 16384
VOCABULARY = 98304


class Model(nn.Module):
    def forward(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(logits, labels, reduction="none")


def get_inputs():
    return [3 * torch.randn(TOKENS, VOCABULARY), torch.randint(0, VOCABULARY, (TOKENS,))]


def get_init_inputs():
    return []
