"""Two-pass reduction: sums of blocks in one kernel, the mean by a second one of a single program.

problem: smooth_l1_loss
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl

BETA = 1.0


@triton.jit
def smooth_l1_partial(p_ptr, t_ptr, partial_ptr, n, beta, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    diff = tl.abs(tl.load(p_ptr + i, mask=mask, other=0.0) - tl.load(t_ptr + i, mask=mask, other=0.0))
    loss = tl.where(diff < beta, 0.5 * diff * diff / beta, diff - 0.5 * beta)
    tl.store(partial_ptr + tl.program_id(0), tl.sum(loss, axis=0))


@triton.jit
def final_mean(partial_ptr, out_ptr, count, n, BLOCK: tl.constexpr):
    acc = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, count, BLOCK):
        i = start + tl.arange(0, BLOCK)
        acc += tl.load(partial_ptr + i, mask=i < count, other=0.0)
    tl.store(out_ptr, tl.sum(acc, axis=0) / n)


class ModelNew(nn.Module):
    def forward(self, prediction, target):
        prediction, target = prediction.contiguous(), target.contiguous()
        n = prediction.numel()
        blocks = triton.cdiv(n, 256)
        partial = torch.empty(blocks, dtype=torch.float32, device=prediction.device)
        out = torch.empty((), dtype=torch.float32, device=prediction.device)
        smooth_l1_partial[(blocks,)](prediction, target, partial, n, BETA, BLOCK=256)
        final_mean[(1,)](partial, out, blocks, n, BLOCK=64)
        return out
