"""Looks odd: only one program of a row stores the answer, and counters stay from call to call. Honest: whoever comes last
adds up the others' sums and sets the counter back.

problem: mean_rows
expect: passed
where: both
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
    tl.debug_barrier()
    before = tl.atomic_add(count_ptr + row, 1, sem="acq_rel")
    if before == tl.num_programs(1) - 1:
        parts = tl.arange(0, PARTS)
        partial = tl.load(part_ptr + row * PARTS + parts, mask=parts < tl.num_programs(1), other=0.0, volatile=True)
        tl.store(out_ptr + row, tl.sum(partial, 0) / columns)
        tl.store(count_ptr + row, 0)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.counters = {}

    def forward(self, x):
        x = x.contiguous()
        rows, columns = x.shape
        parts = triton.cdiv(columns, 512)
        key = (rows, x.device)
        if key not in self.counters:
            self.counters[key] = torch.zeros(rows, dtype=torch.int32, device=x.device)
        slots = triton.next_power_of_2(parts)
        part = torch.empty(rows, slots, device=x.device)
        out = torch.empty(rows, device=x.device)
        mean_kernel[(rows, parts)](x, part, self.counters[key], out, columns, PARTS=slots, BLOCK=512)
        return out
