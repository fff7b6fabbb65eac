"""Keeps the tokens with the best scores, in their order, each times its score: token pruning in vision transformers."""

import torch
import torch.nn as nn

BATCH = 128
TOKENS = 576
WIDTH = 768
KEPT = TOKENS // 2


class Model(nn.Module):
    def __init__(self, kept: int) -> None:
        super().__init__()
        self.kept = kept

    def forward(self, tokens: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        best = scores.topk(self.kept, dim=1).indices.sort(dim=1).values
        chosen = tokens.gather(1, best[:, :, None].expand(-1, -1, tokens.shape[2]))
        return chosen * torch.sigmoid(scores.gather(1, best))[:, :, None].to(tokens.dtype)


def get_inputs():
    return [torch.randn(BATCH, TOKENS, WIDTH).half(), torch.randn(BATCH, TOKENS)]


def get_init_inputs():
    return [KEPT]
