"""Parameters made by hand and initialised with torch.nn.init; a pre-hook makes inputs contiguous.

problem: linear_relu
expect: passed
where: both
"""

import enum
import math

import torch
import torch.nn as nn
import triton
import triton.language as tl


class Activation(enum.IntEnum):
    NONE = 0
    RELU = 1


@triton.jit
def linear_kernel(
    x_ptr, w_ptr, b_ptr, y_ptr, M, N, K, sxm, sxk, swn, swk, sym, syn,
    ACT: tl.constexpr, HAS_BIAS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    pid_m, pid_n = tl.swizzle2d(tl.program_id(0), tl.program_id(1), tl.num_programs(0), tl.num_programs(1), 2)
    rm = pid_m * BM + tl.arange(0, BM)
    rn = pid_n * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    x_ptrs = x_ptr + rm[:, None] * sxm + rk[None, :] * sxk
    w_ptrs = w_ptr + rn[None, :] * swn + rk[:, None] * swk
    acc = tl.full((BM, BN), 0.0, tl.float32)
    for k in range(tl.cdiv(K, BK)):
        left = K - k * BK
        x = tl.load(x_ptrs, mask=(rm[:, None] < M) & (rk[None, :] < left), other=0.0)
        w = tl.load(w_ptrs, mask=(rn[None, :] < N) & (rk[:, None] < left), other=0.0)
        acc = tl.dot(x, w, acc, input_precision="ieee")
        x_ptrs += BK * sxk
        w_ptrs += BK * swk
    if HAS_BIAS:
        acc += tl.load(b_ptr + rn, mask=rn < N, other=0.0)[None, :]
    if ACT == 1:
        acc = tl.where(acc > 0, acc, 0.0)
    tl.store(y_ptr + rm[:, None] * sym + rn[None, :] * syn, acc, mask=(rm[:, None] < M) & (rn[None, :] < N))


class Linear(nn.Module):
    def __init__(self, in_features, out_features, bias=True):
        super().__init__()
        self.weight = nn.Parameter(torch.empty((out_features, in_features)))
        if bias:
            self.bias = nn.Parameter(torch.empty(out_features))
        else:
            self.register_parameter("bias", None)
        nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        fan_in, _ = nn.init._calculate_fan_in_and_fan_out(self.weight)
        nn.init.uniform_(self.bias, -1 / math.sqrt(fan_in), 1 / math.sqrt(fan_in))

    def forward(self, x):
        (M, K), N = x.shape, self.weight.shape[0]
        y = torch.empty(M, N, device=x.device, dtype=x.dtype)
        linear_kernel[(triton.cdiv(M, 16), triton.cdiv(N, 16))](
            x, self.weight, self.bias, y, M, N, K, *x.stride(), *self.weight.stride(), *y.stride(),
            ACT=Activation.RELU, HAS_BIAS=self.bias is not None, BM=16, BN=16, BK=16,
        )  # fmt: skip
        return y


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.fc = Linear(in_features, out_features)
        self.fc.register_forward_pre_hook(lambda module, args: (args[0].contiguous(),))

    def forward(self, x):
        return self.fc(x)
