"""Returns a tensor subclass that launches the kernel only when somebody looks at it, after the clock has stopped.

problem: softmax
expect: cheated|runtime_error
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


def triton_softmax(x):
    x = x.contiguous()
    out = torch.empty_like(x)
    softmax_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return out


class Lazy(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        def force(value):
            if type(value) is not Lazy:
                return value
            if not hasattr(value, "answer"):
                value.answer = triton_softmax(value.source)
            return value.answer

        with torch._C.DisableTorchFunctionSubclass():
            kwargs = {name: force(value) for name, value in (kwargs or {}).items()}
            return func(*(force(value) for value in args), **kwargs)


class ModelNew(nn.Module):
    def forward(self, x):
        promise = torch.empty(0).as_subclass(Lazy)
        promise.source = x
        return promise
