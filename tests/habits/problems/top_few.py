"""The largest four of each row, with their places."""

import torch
import torch.nn as nn

ROWS = 12
COLUMNS = 64
COUNT = 4


class Model(nn.Module):
    def __init__(self, count):
        super().__init__()
        self.count = count

    def forward(self, scores):
        values, indices = torch.topk(scores, self.count, dim=-1)
        return torch.softmax(values, dim=-1), indices


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return [COUNT]
