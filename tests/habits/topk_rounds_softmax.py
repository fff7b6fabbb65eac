"""The largest by rounds of tl.max with indices; what was taken is put to minus infinity.

problem: top_few
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def topk_softmax_kernel(x_ptr, values_ptr, indices_ptr, n_cols, K: tl.constexpr, KP: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols, other=float("-inf"))
    slots = tl.arange(0, KP)
    values = tl.full((KP,), float("-inf"), tl.float32)
    indices = tl.zeros((KP,), tl.int32)
    for i in tl.static_range(K):
        v, at = tl.max(x, axis=0, return_indices=True)
        values = tl.where(slots == i, v, values)
        indices = tl.where(slots == i, at, indices)
        x = tl.where(cols == at, float("-inf"), x)
    e = tl.exp(values - tl.max(values, axis=0))
    tl.store(values_ptr + row * K + slots, e / tl.sum(e, axis=0), mask=slots < K)
    tl.store(indices_ptr + row * K + slots, indices.to(tl.int64), mask=slots < K)


class ModelNew(nn.Module):
    def __init__(self, count):
        super().__init__()
        self.count = count

    def forward(self, scores):
        scores = scores.contiguous()
        rows, columns = scores.shape
        values = torch.empty((rows, self.count), dtype=scores.dtype, device=scores.device)
        indices = torch.empty((rows, self.count), dtype=torch.long, device=scores.device)
        topk_softmax_kernel[(rows,)](
            scores,
            values,
            indices,
            columns,
            K=self.count,
            KP=triton.next_power_of_2(self.count),
            BLOCK=triton.next_power_of_2(columns),
        )
        return values, indices
