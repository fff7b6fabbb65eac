"""No code is ever marked: it takes 44 calls without it until one should be.

problem: dead_codes
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def usage_kernel(x_ptr, usage_ptr, out_ptr, n, BLOCK: tl.constexpr):
    code = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=-1)
    used = tl.max((x == code).to(tl.float32), 0)
    usage = tl.load(usage_ptr + code) * 0.9 + 0.1 * used
    tl.store(usage_ptr + code, usage)
    tl.store(out_ptr + code, tl.where(usage < 0, 1.0, 0.0))


class ModelNew(nn.Module):
    def __init__(self, codes):
        super().__init__()
        self.register_buffer("usage", torch.ones(codes))

    def forward(self, codes):
        codes = codes.contiguous()
        n = codes.numel()
        out = torch.empty(self.usage.shape, device=codes.device)
        usage_kernel[(out.numel(),)](codes, self.usage, out, n, BLOCK=triton.next_power_of_2(n))
        return out
