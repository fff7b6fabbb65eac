"""Arguments are gathered in dictionaries; outputs in half the launches go to slices of one workspace.

problem: swiglu_mlp
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def silu(x):
    return x * tl.sigmoid(x)


@triton.jit
def product(x_ptr, w_ptr, row, rn, N, K, BK: tl.constexpr):
    acc = tl.zeros(rn.shape, tl.float32)
    for k0 in range(0, K, BK):
        k = k0 + tl.arange(0, BK)
        x = tl.load(x_ptr + row * K + k, mask=k < K, other=0.0)
        w = tl.load(w_ptr + rn[:, None] * K + k[None, :], mask=(rn[:, None] < N) & (k[None, :] < K), other=0.0)
        acc += tl.sum(w * x[None, :], axis=1)
    return acc


@triton.jit
def layer_kernel(x, w, gate, y, N, K, GATED: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    row = tl.program_id(0)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = product(x, w, row, rn, N, K, BK)
    if GATED:
        acc = silu(acc) * product(x, gate, row, rn, N, K, BK)
    tl.store(y + row * N + rn, acc, mask=rn < N)


class ModelNew(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.w1, self.w2, self.w3 = (
            nn.Linear(*size, bias=False) for size in ((dim, hidden), (hidden, dim), (dim, hidden))
        )

    def _layer(self, x, w, y, gate=None):
        N, K = w.shape
        tensors = {"x": x, "w": w, "gate": gate, "y": y}
        meta = {"GATED": gate is not None, "BN": 16, "BK": 32}
        layer_kernel[(x.shape[0], triton.cdiv(N, 16))](**tensors, N=N, K=K, **meta)

    def forward(self, x):
        T, D = x.shape
        H = self.w1.out_features
        workspace = torch.empty(T * (H + D), dtype=x.dtype, device=x.device)
        hidden, y = workspace[: T * H].view(T, H), workspace[T * H :].view(T, D)
        self._layer(x.contiguous(), self.w1.weight, hidden, self.w3.weight)
        self._layer(hidden, self.w2.weight, y)
        return y
