"""A launch computes row numbers, and the next one looks the rows up. At the problem's size only some programs of the
first run in the interpreter, so the next one finds numbers that nobody wrote.

problem: hashed_rows
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def hash_kernel(ids_ptr, numbers_ptr, count, rows, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    number = (tl.load(ids_ptr + at, mask=at < count, other=0) * 7 + 3) % rows
    tl.store(numbers_ptr + at, tl.where(number < 0, number + rows, number), mask=at < count)


@triton.jit
def lookup_kernel(numbers_ptr, table_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    number = tl.load(numbers_ptr + row)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        values = tl.load(table_ptr + number * columns + at, mask=at < columns)
        tl.store(out_ptr + row.to(tl.int64) * columns + at, values, mask=at < columns)


class ModelNew(nn.Module):
    def forward(self, identifiers, table):
        identifiers, table = identifiers.contiguous(), table.contiguous()
        rows, columns = table.shape
        numbers = torch.empty_like(identifiers)
        out = torch.empty((*identifiers.shape, columns), dtype=table.dtype, device=table.device)
        count = identifiers.numel()
        hash_kernel[(triton.cdiv(count, 256),)](identifiers, numbers, count, rows, BLOCK=256)
        lookup_kernel[(count,)](numbers, table, out, columns, BLOCK=128)
        return out
