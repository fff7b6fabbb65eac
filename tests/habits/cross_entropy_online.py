"""Losses per row with an online log-sum-exp, and a last kernel of one program for their mean.

problem: token_cross_entropy
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def row_loss_kernel(logits_ptr, target_ptr, loss_ptr, stride, C, ignore_index: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    logits_ptr += row * stride
    y = tl.load(target_ptr + row)
    if y == ignore_index:
        tl.store(loss_ptr + row, 0.0)
        return
    m = float("-inf")
    d = 0.0
    for i in range(0, C, BLOCK):
        offs = i + tl.arange(0, BLOCK)
        x = tl.load(logits_ptr + offs, mask=offs < C, other=float("-inf"))
        block_max = tl.max(x)
        m_new = tl.maximum(m, block_max)
        d = d * tl.exp(m - m_new) + tl.sum(tl.exp(x - m_new))
        m = m_new
    tl.store(loss_ptr + row, m + tl.log(d) - tl.load(logits_ptr + y))


@triton.jit
def mean_kernel(loss_ptr, target_ptr, out_ptr, n, ignore_index: tl.constexpr, BLOCK: tl.constexpr):
    total = 0.0
    count = 0.0
    for start in range(0, n, BLOCK):
        i = start + tl.arange(0, BLOCK)
        total += tl.sum(tl.load(loss_ptr + i, mask=i < n, other=0.0))
        y = tl.load(target_ptr + i, mask=i < n, other=ignore_index)
        count += tl.sum(tl.where(y == ignore_index, 0.0, 1.0))
    tl.store(out_ptr, total / count)


class ModelNew(nn.Module):
    ignore_index = -100

    def forward(self, logits, targets):
        logits, targets = logits.contiguous(), targets.contiguous()
        n, C = logits.shape
        losses = torch.empty(n, dtype=torch.float32, device=logits.device)
        out = torch.empty((), dtype=logits.dtype, device=logits.device)
        row_loss_kernel[(n,)](logits, targets, losses, logits.stride(0), C, self.ignore_index, BLOCK=64)
        mean_kernel[(1,)](losses, targets, out, n, self.ignore_index, BLOCK=128)
        return out
