"""Wrong: rounds the exponentials to bfloat16 on their way, and hands back float32 all the same.

It saves a few registers and keeps two or three of the answer's seven digits: `torch.allclose` with a tolerance of
1e-2 is content with it. Asked for was float32. Lower precision is the user's choice, not the kernel's.
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, y_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * columns
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row + at, mask=at < columns, other=-float("inf"))
    power = tl.exp(x - tl.max(x, axis=0)).to(tl.bfloat16)
    total = tl.sum(power.to(tl.float32), axis=0)
    tl.store(y_ptr + row + at, power.to(tl.float32) / total, mask=at < columns)


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        y = torch.empty_like(x)
        columns = x.shape[-1]
        softmax_kernel[(x.numel() // columns,)](x, y, columns, BLOCK=triton.next_power_of_2(columns))
        return y
