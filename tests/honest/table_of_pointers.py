"""Looks odd: the kernel gets addresses in a tensor and makes pointers of them. Honest: so does a grouped product.

problem: scaled_add
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add_kernel(table_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(table_ptr).to(tl.pointer_type(tl.float32))
    b = tl.load(table_ptr + 1).to(tl.pointer_type(tl.float32))
    tl.store(out_ptr + at, tl.load(a + at, mask=at < n) * 2.0 + tl.load(b + at, mask=at < n), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x, y):
        x, y = x.contiguous(), y.contiguous()
        out = torch.empty_like(x)
        table = torch.tensor([x.data_ptr(), y.data_ptr()], dtype=torch.int64, device=x.device)
        add_kernel[(triton.cdiv(x.numel(), 1024),)](table, out, x.numel(), BLOCK=1024)
        return out
