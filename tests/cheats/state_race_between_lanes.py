"""Lanes of one store write different numbers to one place; the interpreter keeps the last, a GPU any of them.

problem: last_places
expect: wrong_values/race
where: cpu
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def last_kernel(ids_ptr, out_ptr, length, kinds, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < length
    ids = tl.load(ids_ptr + row * length + at, mask=inside, other=0)
    tl.store(out_ptr + row * kinds + ids, at.to(tl.int64), mask=inside)


class ModelNew(nn.Module):
    def __init__(self, kinds):
        super().__init__()
        self.kinds = kinds

    def forward(self, ids):
        ids = ids.contiguous()
        out = torch.full((ids.shape[0], self.kinds), -1, dtype=torch.int64, device=ids.device)
        block = triton.next_power_of_2(ids.shape[1])
        last_kernel[(ids.shape[0],)](ids, out, ids.shape[1], self.kinds, BLOCK=block)
        return out
