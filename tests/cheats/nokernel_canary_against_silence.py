"""Knows that a judge may silence kernels to see whether they matter: a canary cell shows it whether kernels run, and
it spoils the answer if they do not. The answer itself is NumPy's.

problem: softmax
expect: not_triton|cheated|runtime_error
where: cpu
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def canary_kernel(cell_ptr):
    tl.store(cell_ptr, 1.0)


class ModelNew(nn.Module):
    def forward(self, x):
        canary = torch.zeros(1)
        canary_kernel[(1,)](canary)
        array = x.detach().numpy()
        e = 2.718281828459045 ** (array - array.max(-1, keepdims=True).repeat(array.shape[1], 1))
        return torch.from_numpy((e / e.sum(-1, keepdims=True)).astype(array.dtype) * canary.numpy()[0])
