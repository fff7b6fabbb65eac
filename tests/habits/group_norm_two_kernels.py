"""Statistics by a first kernel, the affine by a second one, both autotuned; the statistics lie in new_empty tensors.

problem: group_normed
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.autotune([triton.Config({"BLOCK": 128}), triton.Config({"BLOCK": 256})], key=["size"])
@triton.jit
def stats_kernel(x_ptr, mean_ptr, rstd_ptr, size, eps, BLOCK: tl.constexpr):
    group = tl.program_id(0)
    x_ptr += group.to(tl.int64) * size
    acc = 0.0
    for start in tl.range(0, size, BLOCK):
        i = start + tl.arange(0, BLOCK)
        acc += tl.sum(tl.load(x_ptr + i, mask=i < size, other=0.0))
    mean = acc / size
    acc2 = 0.0
    for start in tl.range(0, size, BLOCK):
        i = start + tl.arange(0, BLOCK)
        centred = tl.load(x_ptr + i, mask=i < size, other=mean) - mean
        acc2 += tl.sum(centred * centred)
    tl.store(mean_ptr + group, mean)
    tl.store(rstd_ptr + group, tl.rsqrt(acc2 / size + eps))


@triton.autotune(configs=[triton.Config({"BLOCK": 512}), triton.Config({"BLOCK": 1024}, num_warps=8)], key=["n"])
@triton.jit
def affine_kernel(x_ptr, mean_ptr, rstd_ptr, w_ptr, b_ptr, y_ptr, n, size, hw, channels, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ok = i < n
    group = i // size
    channel = (i // hw) % channels
    x = tl.load(x_ptr + i, mask=ok)
    mean = tl.load(mean_ptr + group, mask=ok)
    rstd = tl.load(rstd_ptr + group, mask=ok)
    y = (x - mean) * rstd * tl.load(w_ptr + channel, mask=ok) + tl.load(b_ptr + channel, mask=ok)
    tl.store(y_ptr + i, y, mask=ok)


class ModelNew(nn.Module):
    def __init__(self, groups, channels):
        super().__init__()
        self.norm = nn.GroupNorm(num_groups=groups, num_channels=channels)

    def forward(self, x):
        x = x.contiguous()
        batch, channels, height, width = x.shape
        groups = batch * self.norm.num_groups
        size = x.numel() // groups
        mean = x.new_empty(groups)
        rstd = x.new_empty(groups)
        stats_kernel[(groups,)](x, mean, rstd, size, self.norm.eps)
        y = torch.empty_like(x)
        grid = lambda META: (triton.cdiv(x.numel(), META["BLOCK"]),)
        affine_kernel[grid](
            x, mean, rstd, self.norm.weight, self.norm.bias, y, x.numel(), size, height * width, channels
        )
        return y
