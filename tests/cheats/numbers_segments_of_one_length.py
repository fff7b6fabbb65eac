"""Takes all segments to be as long as the first, and never reads the other boundaries.

problem: segment_sums
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def segment_kernel(x_ptr, out_ptr, length, BLOCK: tl.constexpr):
    segment = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + segment * length + at, mask=at < length, other=0.0)
    tl.store(out_ptr + segment, tl.sum(x, 0))


class ModelNew(nn.Module):
    def forward(self, x, offsets):
        x = x.contiguous()
        segments = offsets.shape[0] - 1
        out = torch.empty(segments, dtype=x.dtype, device=x.device)
        length = x.shape[0] // segments
        segment_kernel[(segments,)](x, out, length, BLOCK=triton.next_power_of_2(length))
        return out
