"""Uses the permission for libraries to do everything by the library: no kernel of its own is left.

problem: linear
expect: not_triton
where: both
mode: allow-library
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)

    def forward(self, x):
        return torch.addmm(self.linear.bias, x, self.linear.weight.t())
