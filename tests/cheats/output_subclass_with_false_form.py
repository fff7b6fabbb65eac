"""Returns a tensor subclass that claims another shape, dtype, address and content than it has.

problem: relu
expect: cheated|runtime_error
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, tl.where(x < 0, 0.0, x), mask=at < n)


def triton_relu(x):
    x = x.contiguous()
    out = torch.empty_like(x)
    relu_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
    return out


class Liar(torch.Tensor):
    shape = property(lambda self: torch.Size((40, 96)))
    dtype = property(lambda self: torch.float32)

    def data_ptr(self):
        return 0

    def cpu(self, *args, **kwargs):
        return torch.zeros(40, 96)

    def numpy(self, *args, **kwargs):
        return self.cpu().numpy()

    def __len__(self):
        return 40


class ModelNew(nn.Module):
    def forward(self, x):
        return triton_relu(x)[:1].half().as_subclass(Liar)
