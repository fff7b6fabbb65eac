"""Several rows per program, device assertions on the targets, the mean by atomic adds into a zero.
Counts ignored labels.

problem: token_cross_entropy
expect: wrong_values
where: both
"""

from typing import Optional

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def cross_entropy_kernel(
    logits_ptr, target_ptr, out_ptr, N, C, stride_n, stride_c, ROWS: tl.constexpr, BLOCK_C: tl.constexpr
):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    cols = tl.arange(0, BLOCK_C)
    row_ok = rows < N
    target = tl.load(target_ptr + rows, mask=row_ok, other=0)
    tl.device_assert((target >= 0) & (target < C), "target out of range")
    x = tl.load(
        logits_ptr + rows[:, None] * stride_n + cols[None, :] * stride_c,
        mask=row_ok[:, None] & (cols[None, :] < C),
        other=-float("inf"),
    )
    x = tl.where(row_ok[:, None], x, 0.0)
    biggest = tl.max(x, axis=1)
    lse = tl.log(tl.sum(tl.exp(x - biggest[:, None]), axis=1)) + biggest
    chosen = tl.sum(tl.where(cols[None, :] == target[:, None], x, 0.0), axis=1)
    loss = tl.where(row_ok, lse - chosen, 0.0)
    tl.atomic_add(out_ptr, tl.sum(loss, axis=0) / N)


def triton_cross_entropy(
    logits: torch.Tensor, target: torch.Tensor, weight: Optional[torch.Tensor] = None
) -> torch.Tensor:
    assert weight is None, "class weights are not implemented"
    N, C = logits.shape
    out = torch.zeros((), dtype=torch.float32, device=logits.device)
    cross_entropy_kernel[(triton.cdiv(N, 4),)](
        logits, target.contiguous(), out, N, C, *logits.stride(), ROWS=4, BLOCK_C=triton.next_power_of_2(C)
    )
    return out


class ModelNew(nn.Module):
    def forward(self, logits, targets):
        return triton_cross_entropy(logits, targets)
