"""Whoever comes last adds up the sums of others, which a relaxed ticket does not make visible.

problem: mean_rows
expect: wrong_values
where: cpu
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def mean_kernel(x_ptr, part_ptr, count_ptr, out_ptr, columns, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    row, part = tl.program_id(0), tl.program_id(1)
    at = part * BLOCK + tl.arange(0, BLOCK)
    total = tl.sum(tl.load(x_ptr + row * columns + at, mask=at < columns, other=0.0), 0)
    tl.store(part_ptr + row * PARTS + part, total)
    before = tl.atomic_add(count_ptr + row, 1, sem="relaxed")
    if before == tl.num_programs(1) - 1:
        parts = tl.arange(0, PARTS)
        partial = tl.load(part_ptr + row * PARTS + parts, mask=parts < tl.num_programs(1), other=0.0)
        tl.store(out_ptr + row, tl.sum(partial, 0) / columns)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        rows, columns = x.shape
        parts = triton.cdiv(columns, 32)
        slots = triton.next_power_of_2(parts)
        part = torch.empty(rows, slots, device=x.device)
        count = torch.zeros(rows, dtype=torch.int32, device=x.device)
        out = torch.empty(rows, device=x.device)
        mean_kernel[(rows, parts)](x, part, count, out, columns, PARTS=slots, BLOCK=32)
        return out
