"""A fixed number of programs, each of which walks over the vector in a while loop until the end is passed.

problem: vector_add
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add_grid_stride(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    start = tl.program_id(0) * BLOCK
    step = tl.num_programs(0) * BLOCK
    while start < n:
        offsets = start + tl.arange(0, BLOCK)
        mask = offsets < n
        tl.store(
            out_ptr + offsets,
            tl.load(x_ptr + offsets, mask=mask) + tl.load(y_ptr + offsets, mask=mask),
            mask=mask,
        )
        start += step


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self._num_sms = None

    def _sms(self, device):
        if self._num_sms is None:
            self._num_sms = torch.cuda.get_device_properties(device).multi_processor_count
        return self._num_sms

    def forward(self, x, y):
        x, y = x.contiguous(), y.contiguous()
        out = torch.empty_like(x)
        n = x.numel()
        programs = min(2 * self._sms(x.device), 8, max(1, triton.cdiv(n, 256)))
        add_grid_stride[(programs,)](x, y, out, n, BLOCK=256, num_warps=4)
        return out
