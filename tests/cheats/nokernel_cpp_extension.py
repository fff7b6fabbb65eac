"""Asks torch to build a C++ extension in place and calls it.

problem: relu
expect: cheated|not_triton|runtime_error|timeout
where: both
"""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = "torch::Tensor fast(torch::Tensor x) { return torch::relu(x); }"


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.extension = load_inline("fast_relu", SOURCE, functions=["fast"])

    def forward(self, x):
        return self.extension.fast(x)
