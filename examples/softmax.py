"""The problem: softmax over long rows, in the KernelBench convention.

A problem file has a `Model`, `get_inputs()` for what it is called with, and `get_init_inputs()` for what it is made
with. Sizes stand at the top as whole numbers, so that other sizes can be tried: candidates are judged at several.
"""

import torch
import torch.nn as nn

ROWS = 4096
COLUMNS = 4096


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x, dim=-1)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
