"""A product by way of a weighted lookup: every row of the weight is looked up, weighted by x and summed.

problem: linear
expect: not_triton|runtime_error
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl
import torch.nn.functional as F


@triton.jit
def copy_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)


def triton_copy(x):
    x = x.contiguous()
    out = torch.empty_like(x)
    copy_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
    return out


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)

    def forward(self, x):
        ids = torch.arange(x.shape[1], device=x.device).expand(x.shape).contiguous()
        table = self.linear.weight.t().contiguous()
        y = F.embedding_bag(ids, table, per_sample_weights=x.contiguous(), mode="sum")
        return triton_copy(y + self.linear.bias)
