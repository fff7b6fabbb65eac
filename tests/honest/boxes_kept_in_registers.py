"""Non-maximum suppression with a program for each image, whose flags of one box are summed out of a block.

problem: nms_greedy
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def larger(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def lesser(a, b):
    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def relu(a):
    return tl.where(a < 0.0, 0.0, a)


@triton.jit
def nms_kernel(b_ptr, keep_ptr, N, R, thr, BN: tl.constexpr):
    img = tl.program_id(0)
    n = tl.arange(0, BN)
    nm = n < N
    base = b_ptr + (img * N + n) * R
    x1 = tl.load(base, mask=nm, other=0.0)
    y1 = tl.load(base + 1, mask=nm, other=0.0)
    w = tl.load(base + 2, mask=nm, other=0.0)
    h = tl.load(base + 3, mask=nm, other=0.0)
    x2 = x1 + w
    y2 = y1 + h
    area = w * h
    keep = nm.to(tl.int32)
    for i in range(0, N):
        bx = b_ptr + (img * N + i) * R
        ax1 = tl.load(bx)
        ay1 = tl.load(bx + 1)
        aw = tl.load(bx + 2)
        ah = tl.load(bx + 3)
        alive = tl.sum(tl.where(n == i, keep, 0), 0)
        if alive > 0:
            iw = relu(lesser(ax1 + aw, x2) - larger(ax1, x1))
            ih = relu(lesser(ay1 + ah, y2) - larger(ay1, y1))
            inter = iw * ih
            union = larger(aw * ah + area - inter, 1e-6)
            hit = (inter / union > thr) & (n > i)
            keep = tl.where(hit, 0, keep)
    tl.store(keep_ptr + img * N + n, keep != 0, mask=nm)


class ModelNew(nn.Module):
    def __init__(self, threshold):
        super().__init__()
        self.threshold = threshold

    def forward(self, boxes):
        boxes = boxes.contiguous()
        B, N, R = boxes.shape
        keep = torch.empty(B, N, dtype=torch.bool, device=boxes.device)
        nms_kernel[(B,)](boxes, keep, N, R, self.threshold, BN=triton.next_power_of_2(N))
        return keep
