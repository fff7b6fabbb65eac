"""An autograd function under torch.amp.custom_fwd, with device questions and a device guard.

problem: rms_normed
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def rms_kernel(x_ptr, w_ptr, y_ptr, stride, N, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * stride
    y_ptr += row * stride
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, N, BLOCK):
        c = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + c, mask=c < N, other=0.0).to(tl.float32)
        total += x * x
    inverse = 1 / tl.sqrt_rn(tl.sum(total, axis=0) / N + eps)
    for start in range(0, N, BLOCK):
        c = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + c, mask=c < N, other=0.0)
        w = tl.load(w_ptr + c, mask=c < N, other=0.0)
        tl.store(y_ptr + c, (w * (x * inverse)).to(y_ptr.dtype.element_ty), mask=c < N)


class RMSNormFunction(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda")
    def forward(ctx, x, weight, eps):
        assert x.is_cuda and x.get_device() == torch.cuda.current_device() and x.device.index == 0
        shape = x.shape
        x = x.reshape(-1, shape[-1])
        y = torch.empty_like(x)
        with torch.cuda.device_of(x):
            rms_kernel[(x.shape[0],)](x, weight, y, x.stride(0), x.shape[1], eps, BLOCK=64, num_warps=2)
        ctx.save_for_backward(x, weight)
        ctx.eps = eps
        return y.view(shape)

    @staticmethod
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(ctx, dy):
        raise NotImplementedError


class ModelNew(nn.Module):
    def __init__(self, features, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.eps = eps

    def forward(self, x):
        return RMSNormFunction.apply(x.contiguous(), self.weight, self.eps)

    def extra_repr(self):
        return f"{tuple(self.weight.shape)}, eps={self.eps}"
