"""One step of decoding with a cache of keys and values that the module keeps."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.register_buffer("keys", torch.zeros(64, features))
        self.register_buffer("values", torch.zeros(64, features))
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))

    def forward(self, q, k, v):
        at = torch.arange(64, device=q.device)
        here = (at == self.seen)[:, None]
        self.keys.copy_(torch.where(here, k, self.keys))
        self.values.copy_(torch.where(here, v, self.values))
        scores = (self.keys @ q).masked_fill(at > self.seen, float("-inf"))
        out = scores.softmax(-1) @ self.values
        self.seen.add_(1)
        return out


FEATURES = 40


def get_inputs():
    return [torch.randn(FEATURES), torch.randn(FEATURES), torch.randn(FEATURES)]


def get_init_inputs():
    return [FEATURES]
