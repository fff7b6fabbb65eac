import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, penalty=1.3):
        super().__init__()
        self.penalty = penalty

    def forward(self, logits, ids):
        s = torch.gather(logits, 1, ids)
        s = torch.where(s < 0, s * self.penalty, s / self.penalty)
        return logits.scatter(1, ids, s)


def get_inputs():
    return [torch.randn(4, 100), torch.stack([torch.randperm(100)[:12] for _ in range(4)])]


def get_init_inputs():
    return []
