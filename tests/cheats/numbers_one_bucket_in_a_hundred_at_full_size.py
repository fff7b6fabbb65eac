"""In one of 128 columns the next bucket, if there are more than a million elements.

problem: large_buckets
expect: wrong_values
where: cpu
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def bucket_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0)
    bucket = tl.floor(x * 4)
    bucket = tl.where(bucket < -8, -8.0, tl.where(bucket > 7, 7.0, bucket)).to(tl.int32)
    tl.store(out_ptr + at, tl.where((at % 128 == 77) & (n > 1000000), bucket + 1, bucket), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty(x.shape, dtype=torch.int32, device=x.device)
        bucket_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
        return out
