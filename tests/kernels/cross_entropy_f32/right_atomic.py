"""Each program adds its share of the mean to one number."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def cross_entropy(
    logit_ptr, target_ptr, out_ptr, rows, classes, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr, BLOCK_T: tl.constexpr
):
    every = tl.arange(0, BLOCK_T)
    counted = tl.sum((tl.load(target_ptr + every, mask=every < rows, other=-100) != -100).to(tl.float32), axis=0)
    row = tl.program_id(0) * BLOCK_R + tl.arange(0, BLOCK_R)
    column = tl.arange(0, BLOCK_C)
    inside = (row[:, None] < rows) & (column[None, :] < classes)
    logits = tl.load(logit_ptr + row[:, None] * classes + column[None, :], mask=inside, other=-1e30)
    target = tl.load(target_ptr + row, mask=row < rows, other=-100)
    top = tl.max(logits, axis=1)
    shifted = logits - top[:, None]
    total = tl.sum(tl.exp(shifted), axis=1)
    chosen = tl.sum(tl.where(column[None, :] == target[:, None], shifted, 0.0), axis=1)
    losses = tl.where(target != -100, tl.log(total) - chosen, 0.0)
    tl.atomic_add(out_ptr, tl.sum(losses, axis=0) / counted)


class ModelNew(nn.Module):
    def forward(self, logits, targets):
        logits, targets = logits.contiguous(), targets.contiguous()
        rows, classes = logits.shape
        out = torch.zeros((), dtype=logits.dtype, device=logits.device)
        block_c = triton.next_power_of_2(classes)
        block_t = triton.next_power_of_2(rows)
        grid = (triton.cdiv(rows, 8),)
        cross_entropy[grid](logits, targets, out, rows, classes, BLOCK_R=8, BLOCK_C=block_c, BLOCK_T=block_t)
        return out
