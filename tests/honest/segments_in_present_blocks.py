"""Means of segments: blocks without an element of a segment are skipped, so its count may stay the constant zero.

problem: segments_by_one_hot
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def segment_mean(x_ptr, s_ptr, o_ptr, n, D, BN: tl.constexpr, BD: tl.constexpr):
    seg = tl.program_id(0)
    d = tl.arange(0, BD)
    acc = tl.zeros((BD,), tl.float32)
    count = 0
    for i0 in range(0, n, BN):
        i = i0 + tl.arange(0, BN)
        hit = tl.load(s_ptr + i, mask=i < n, other=-1) == seg
        if tl.max(hit.to(tl.int32), 0) > 0:
            x = tl.load(x_ptr + i[:, None] * D + d[None, :], mask=hit[:, None] & (d < D)[None, :], other=0.0)
            acc += tl.sum(x, 0)
            count += tl.sum(hit.to(tl.int32), 0)
    if count == 0:
        tl.store(o_ptr + seg * D + d, tl.zeros((BD,), tl.float32), mask=d < D)
        return
    tl.store(o_ptr + seg * D + d, acc / count, mask=d < D)


class ModelNew(nn.Module):
    def __init__(self, segments):
        super().__init__()
        self.segments = segments

    def forward(self, x, seg):
        x, seg = x.contiguous(), seg.contiguous()
        n, D = x.shape
        o = torch.empty((self.segments, D), device=x.device, dtype=x.dtype)
        segment_mean[(self.segments,)](x, seg, o, n, D, BN=8, BD=triton.next_power_of_2(D))
        return o
