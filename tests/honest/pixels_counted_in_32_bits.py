"""Counts pixels in 32 bits and returns 64, as the reference does.

problem: pixels_of_classes
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def count_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    own = tl.program_id(0)
    total = tl.full((), 0, tl.int32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + at, mask=at < n, other=-1)
        total += tl.sum((x == own).to(tl.int32), 0)
    tl.store(out_ptr + own, total.to(tl.int64))


class ModelNew(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.classes = classes

    def forward(self, labels):
        labels = labels.contiguous()
        out = torch.empty(self.classes, device=labels.device, dtype=torch.int64)
        count_kernel[(self.classes,)](labels, out, labels.numel(), BLOCK=4096)
        return out
