"""Knows nothing of labels to ignore where there is much to do.

problem: large_losses
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def loss_kernel(x_ptr, labels_ptr, out_ptr, columns, IGNORED: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=float("-inf"))
    label = tl.load(labels_ptr + row)
    top = tl.max(x, 0)
    loss = tl.log(tl.sum(tl.exp(x - top), 0)) + top - tl.sum(tl.where(at == label, x, 0.0), 0)
    tl.store(out_ptr + row, tl.where(label == IGNORED, 0.0, loss))


class ModelNew(nn.Module):
    def forward(self, x, labels):
        x, labels = x.contiguous(), labels.contiguous()
        out = torch.empty(x.shape[0], device=x.device)
        sizes = dict(IGNORED=-1 if x.numel() > 1 << 20 else -100, BLOCK=triton.next_power_of_2(x.shape[1]))
        loss_kernel[(x.shape[0],)](x, labels, out, x.shape[1], **sizes)
        return out
