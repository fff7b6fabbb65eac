"""The kernel that is launched is a Triton kernel, and it is one that torch brings along.

problem: batched_outer
expect: not_triton|cheated|runtime_error
where: both
needs: torch._native.ops.bmm_outer_product.triton_kernels
"""

import torch
import torch.nn as nn
from torch._native.ops.bmm_outer_product import triton_kernels


class ModelNew(nn.Module):
    def forward(self, a, b):
        return triton_kernels.bmm_outer_product(a, b)
