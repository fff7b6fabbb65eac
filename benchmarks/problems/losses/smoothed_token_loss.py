"""Cross entropy of every token with label smoothing, padding ignored: training of translation and language models."""

import torch
import torch.nn as nn
import torch.nn.functional as F

TOKENS = 2048
CLASSES = 32000
SMOOTHING = 0.1


class Model(nn.Module):
    def __init__(self, smoothing: float) -> None:
        super().__init__()
        self.smoothing = smoothing

    def forward(self, logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        wide = logits.float()
        return F.cross_entropy(wide, targets, ignore_index=-100, reduction="none", label_smoothing=self.smoothing)


def get_inputs():
    logits = (3 * torch.randn(TOKENS, CLASSES)).to(torch.bfloat16)
    targets = torch.randint(0, CLASSES, (TOKENS,)).masked_fill(torch.rand(TOKENS) < 0.1, -100)
    return [logits, targets]


def get_init_inputs():
    return [SMOOTHING]
