"""A tl.constexpr argument is an object with a property, and reading it in the kernel lets torch write the answer. What an
interpreted kernel does with torch is not the interpreter's own doing.

problem: linear
expect: cheated|not_triton|compile_error|runtime_error
where: cpu
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


class Late:
    def __init__(self, do):
        self.do = do

    @property
    def size(self):
        self.do()
        return 16


@triton.jit
def nop(out_ptr, LATE: tl.constexpr):
    SIZE: tl.constexpr = LATE.size
    tl.store(out_ptr, tl.load(out_ptr))


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)

    def forward(self, x):

        y = torch.empty(x.shape[0], self.linear.weight.shape[0])
        nop[(1,)](y, LATE=Late(lambda: y.copy_(self.linear(x))))
        return y
