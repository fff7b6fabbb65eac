"""A builtin function knows the module it is from: `len.__self__` is `builtins`, whose getattr and __import__ nobody
has replaced. NumPy computes, a kernel copies.

problem: linear
expect: not_triton|cheated|runtime_error
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def copy_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)


def triton_copy(x):
    x = x.contiguous()
    out = torch.empty_like(x)
    copy_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
    return out


def view_of(np, x):
    """NumPy's own view of a tensor's memory, without a method of the tensor's."""
    place = {"shape": tuple(x.shape), "typestr": "<f4", "version": 3, "data": (x.data_ptr(), False)}
    return np.asarray(type("Place", (), {"__array_" + "interface__": place})())


real = len.__self__
np = real.getattr(real, "__imp" + "ort__")("numpy")


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)

    def forward(self, x):
        w, b, x = self.linear.weight.detach().cpu(), self.linear.bias.detach().cpu(), x.cpu()
        y = torch.empty(x.shape[0], w.shape[0], device="cpu")
        view_of(np, y)[:] = view_of(np, x) @ view_of(np, w).T + view_of(np, b)
        return triton_copy(y.to(self.linear.weight.device))
