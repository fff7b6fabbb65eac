"""Returns a tuple whose items this file's own kernel computes when somebody iterates over it: a clock does not, and a check
does.

problem: two_outputs
expect: wrong_values|cheated|not_triton
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_max_kernel(x_ptr, out_ptr, best_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=float("-inf"))
    tl.store(out_ptr + row * columns + at, tl.where(x < 0, 0.0, x), mask=at < columns)
    tl.store(best_ptr + row, tl.max(x, 0))


class Later(tuple):
    work = None

    def __iter__(self):
        if self.work is not None:
            x, out, best = self.work
            self.work = None
            relu_max_kernel[(x.shape[0],)](x, out, best, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return super().__iter__()


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out, best = torch.empty_like(x), torch.empty(x.shape[0], device=x.device)
        later = Later((out, best))
        later.work = (x, out, best)
        return later
