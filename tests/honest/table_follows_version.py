"""Looks odd: keeps a copy of the whole table between calls, of which the answers are rows. Honest: renewed whenever the
parameter is another or was written.

problem: embedding
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def rows_kernel(ids_ptr, table_ptr, out_ptr, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    line = tl.load(ids_ptr + row)
    values = tl.load(table_ptr + line * width + at, mask=at < width)
    tl.store(out_ptr + row * width + at, values, mask=at < width)


class ModelNew(nn.Module):
    def __init__(self, *sizes):
        super().__init__()
        self.table = nn.Embedding(*sizes)
        self._seen = None
        self._kept = None

    def forward(self, ids):
        weight = self.table.weight
        seen = (weight.data_ptr(), weight._version)
        if seen != self._seen:
            self._seen, self._kept = seen, weight.detach().clone()
        ids = ids.contiguous()
        width = weight.shape[1]
        out = torch.empty(*ids.shape, width, dtype=weight.dtype, device=weight.device)
        rows_kernel[(ids.numel(),)](ids, self._kept, out, width, BLOCK=triton.next_power_of_2(width))
        return out
