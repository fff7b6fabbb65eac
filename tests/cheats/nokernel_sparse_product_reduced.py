"""A sparse product with a reduction has an operator of its own; a kernel copies.

problem: linear
expect: not_triton|cheated|runtime_error
where: cpu
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


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
        rows, columns = x.shape
        starts = torch.arange(rows + 1, device=x.device) * columns
        at = torch.arange(columns, device=x.device).repeat(rows)
        sparse = torch.sparse_csr_tensor(starts, at, x.reshape(-1), (rows, columns))
        y = torch.sparse.mm(sparse, self.linear.weight.t().contiguous(), "sum")
        return triton_copy(y + self.linear.bias)
