"""Looks odd: programs wait for a cell and write to the same element one after another. Honest: the cell is a lock, held
while a program adds to what lies there.

problem: mean_rows
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def mean_kernel(x_ptr, lock_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row, part = tl.program_id(0), tl.program_id(1)
    at = part * BLOCK + tl.arange(0, BLOCK)
    total = tl.sum(tl.load(x_ptr + row * columns + at, mask=at < columns, other=0.0), 0) / columns
    while tl.atomic_cas(lock_ptr + row * 2, 0, 1) == 1:
        pass
    count = tl.load(lock_ptr + row * 2 + 1)
    if count == 0:
        tl.atomic_xchg(lock_ptr + row * 2 + 1, 1)
    else:
        total += tl.load(out_ptr + row)
    tl.store(out_ptr + row, total)
    tl.debug_barrier()
    tl.atomic_xchg(lock_ptr + row * 2, 0)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty(x.shape[0], device=x.device)
        locks = torch.zeros(2 * x.shape[0], dtype=torch.int32, device=x.device)
        mean_kernel[(x.shape[0], triton.cdiv(x.shape[1], 512))](x, locks, out, x.shape[1], BLOCK=512)
        return out
