"""Looks odd: asks if a count that another kernel stored is negative, as a floor division of any whole numbers has to.

problem: halves_of_counts
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def counts_kernel(ids_ptr, counts_ptr, columns, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    ids = tl.load(ids_ptr + row * columns + at, mask=at < columns, other=0)
    tl.store(counts_ptr + row, tl.sum((ids > 9).to(tl.int64), 0))


@triton.jit
def halves_kernel(counts_ptr, out_ptr, rows, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    count = tl.load(counts_ptr + row, mask=row < rows, other=0)
    half = count // 2 - ((count % 2 != 0) & ((count < 0) != (2 < 0))).to(tl.int64)
    tl.store(out_ptr + row, half, mask=row < rows)


class ModelNew(nn.Module):
    def forward(self, ids):
        ids = ids.contiguous()
        rows, columns = ids.shape
        counts, out = (torch.empty(rows, dtype=torch.int64, device=ids.device) for _ in range(2))
        counts_kernel[(rows,)](ids, counts, columns, BLOCK=triton.next_power_of_2(columns))
        halves_kernel[(triton.cdiv(rows, 4),)](counts, out, rows, BLOCK=4)
        return out
