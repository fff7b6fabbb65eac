"""Lets torch.compile write the kernels: they are Triton on a GPU, but they are not the candidate's own.

problem: gelu
expect: not_triton|cheated|runtime_error
where: gpu
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.compiled = torch.compile(lambda x: F.gelu(x), fullgraph=True)

    def forward(self, x):
        return self.compiled(x)
