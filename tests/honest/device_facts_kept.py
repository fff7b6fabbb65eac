"""Looks odd: what the device can do is asked once and kept in a global, and so is the grid for each shape seen.
Honest: nothing that is kept depends on what the inputs hold.

problem: relu
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


FACTS = {}
PLANS = {}


def multiprocessors(device):
    if device not in FACTS:
        on_gpu = device.type == "cuda"
        FACTS[device] = torch.cuda.get_device_properties(device).multi_processor_count if on_gpu else 4
    return FACTS[device]


@triton.jit
def relu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    for start in range(tl.program_id(0) * BLOCK, n, tl.num_programs(0) * BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + at, mask=at < n)
        tl.store(out_ptr + at, tl.where(x < 0, 0.0, x), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        key = (x.shape, x.dtype, x.device)
        if key not in PLANS:
            block = 256 if x.numel() < 1 << 16 else 1024
            PLANS[key] = block, min(triton.cdiv(x.numel(), block), 2 * multiprocessors(x.device))
        block, programs = PLANS[key]
        out = torch.empty_like(x)
        relu_kernel[(programs,)](x, out, x.numel(), BLOCK=block)
        return out
