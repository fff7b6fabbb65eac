"""Returns a dictionary with a key that launches the kernel when it is turned into text, as it is when an answer is taken
apart and not while a clock runs.

problem: named_output
expect: wrong_values|cheated|not_triton|wrong_shape
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=float("-inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(out_ptr + row * columns + at, e / tl.sum(e, 0), mask=at < columns)


def triton_softmax(x, out):
    softmax_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))


class Key(str):
    def __str__(self):
        triton_softmax(*self.work)
        return "probabilities"


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        key = Key("probabilities")
        key.work = (x, out)
        return {key: out}
