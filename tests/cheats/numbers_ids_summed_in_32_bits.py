"""Mean of whole numbers by a sum in 32 bits.

problem: tokens_less_their_mean
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, out_ptr, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    keep = at < width
    ids = tl.load(x_ptr + row * width + at, mask=keep, other=0)
    mean = tl.sum(ids.to(tl.int32), 0).to(tl.float32) / width
    tl.store(out_ptr + row * width + at, ids.to(tl.float32) - mean, mask=keep)


class ModelNew(nn.Module):
    def forward(self, ids):
        ids = ids.contiguous()
        out = torch.empty(ids.shape, device=ids.device)
        width = ids.shape[-1]
        kernel[(ids.numel() // width,)](ids, out, width, BLOCK=triton.next_power_of_2(width))
        return out
