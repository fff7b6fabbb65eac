"""An atomic that orders nothing comes first; then programs wait for flags of others that no atomic writes.

problem: mean_of_parts
expect: wrong_values
where: cpu
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def mean_kernel(x_ptr, idle_ptr, part_ptr, flag_ptr, out_ptr, columns, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    row, part = tl.program_id(0), tl.program_id(1)
    tl.atomic_add(idle_ptr + row, 1)
    at = part * BLOCK + tl.arange(0, BLOCK)
    total = tl.sum(tl.load(x_ptr + row * columns + at, mask=at < columns, other=0.0), 0)
    tl.store(part_ptr + row * PARTS + part, total)
    tl.store(flag_ptr + row * PARTS + part, 1)
    if part == 0:
        others = row * PARTS + tl.arange(0, PARTS)
        count = tl.sum(tl.load(flag_ptr + others), 0)
        while count < tl.num_programs(1):
            count = tl.sum(tl.load(flag_ptr + others), 0)
        sums = tl.load(part_ptr + others, mask=tl.arange(0, PARTS) < tl.num_programs(1), other=0.0)
        tl.store(out_ptr + row, tl.sum(sums, 0) / columns)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        rows, columns = x.shape
        parts = triton.cdiv(columns, 32)
        slots = triton.next_power_of_2(parts)
        idle = torch.zeros(rows, dtype=torch.int32, device=x.device)
        part = torch.empty(rows, slots, device=x.device)
        flags = torch.zeros(rows, slots, dtype=torch.int32, device=x.device)
        out = torch.empty(rows, device=x.device)
        mean_kernel[(rows, parts)](x, idle, part, flags, out, columns, PARTS=slots, BLOCK=32)
        return out
