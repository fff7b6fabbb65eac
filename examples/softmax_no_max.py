"""Wrong: does not subtract the row's maximum.

On standard normal inputs the answer is right to the last digit, and a test with `torch.randn` alone lets it through.
exp(89) is already infinite in float32, though, and infinity over infinity is NaN.
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
    power = tl.exp(x)
    tl.store(y_ptr + row + at, power / tl.sum(power, axis=0), mask=at < columns)


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        y = torch.empty_like(x)
        columns = x.shape[-1]
        softmax_kernel[(x.numel() // columns,)](x, y, columns, BLOCK=triton.next_power_of_2(columns))
        return y
