"""Packs value and place into one 64-bit key whose order is the value's, and sorts the keys with tl.sort.

problem: top_few
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def topk_kernel(x_ptr, v_ptr, i_ptr, N, K, stride_row, stride_col, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride_row + c * stride_col, mask=c < N, other=float("-inf"))
    bits = x.to(tl.int32, bitcast=True)
    ordered = tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    key = (ordered.to(tl.int64) << 32) | (BLOCK - 1 - c).to(tl.int64)
    key = tl.sort(key, descending=True)
    place = BLOCK - 1 - (key & 0xFFFFFFFF).to(tl.int32)
    back = (key >> 32).to(tl.int32)
    value = tl.where(back < 0, back ^ 0x7FFFFFFF, back).to(tl.float32, bitcast=True)
    chosen = c < K
    largest = tl.max(value, 0)
    e = tl.where(chosen, tl.exp(value - largest), 0.0)
    tl.store(v_ptr + row * K + c, e / tl.sum(e, 0), mask=chosen)
    tl.store(i_ptr + row * K + c, place.to(tl.int64), mask=chosen)


class ModelNew(nn.Module):
    def __init__(self, count):
        super().__init__()
        self.count = count

    def forward(self, scores):
        rows, columns = scores.shape
        values = scores.new_empty(rows, self.count)
        indices = torch.empty(rows, self.count, dtype=torch.int64, device=scores.device)
        topk_kernel[(rows,)](
            scores, values, indices, columns, self.count, *scores.stride(), BLOCK=triton.next_power_of_2(columns)
        )
        return values, indices
