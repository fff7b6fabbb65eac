"""The kernel itself never ends: it waits for a cell that nobody writes.

problem: relu
expect: timeout|wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def waiting_kernel(cell_ptr, out_ptr):
    waited = 0
    while tl.load(cell_ptr, volatile=True) == 0:
        waited += 1
    tl.store(out_ptr, waited)


class ModelNew(nn.Module):
    def forward(self, x):
        cell = torch.zeros(1, dtype=torch.int32, device=x.device)
        waiting_kernel[(1,)](cell, torch.zeros_like(cell))
        return torch.empty_like(x)
