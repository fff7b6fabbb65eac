"""Every step of the recurrent layer is a kernel; its parameters stay in an nn.GRU.

problem: gru_head
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def cell_kernel(
    x_ptr,
    x_stride,
    h_ptr,
    h_stride,
    wi_ptr,
    wh_ptr,
    bi_ptr,
    bh_ptr,
    y_ptr,
    y_stride,
    I,
    H,
    BI: tl.constexpr,
    BH: tl.constexpr,
):
    row = tl.program_id(0)
    j = tl.arange(0, BH)
    i = tl.arange(0, BI)
    x = tl.load(x_ptr + row * x_stride + i, mask=i < I, other=0.0)
    h = tl.load(h_ptr + row * h_stride + j, mask=j < H, other=0.0)
    gates_i = ()
    gates_h = ()
    for g in tl.static_range(3):
        at = g * H + j
        wi = tl.load(wi_ptr + at[:, None] * I + i[None, :], mask=(j[:, None] < H) & (i[None, :] < I), other=0.0)
        wh = tl.load(wh_ptr + at[:, None] * H + j[None, :], mask=(j[:, None] < H) & (j[None, :] < H), other=0.0)
        gates_i = gates_i + (tl.sum(wi * x[None, :], 1) + tl.load(bi_ptr + at, mask=j < H, other=0.0),)
        gates_h = gates_h + (tl.sum(wh * h[None, :], 1) + tl.load(bh_ptr + at, mask=j < H, other=0.0),)
    r = tl.sigmoid(gates_i[0] + gates_h[0])
    z = tl.sigmoid(gates_i[1] + gates_h[1])
    n = 2.0 * tl.sigmoid(2.0 * (gates_i[2] + r * gates_h[2])) - 1.0
    tl.store(y_ptr + row * y_stride + j, (1.0 - z) * n + z * h, mask=j < H)


@triton.jit
def head_kernel(x_ptr, w_ptr, b_ptr, y_ptr, N, K, BN: tl.constexpr, BK: tl.constexpr):
    row = tl.program_id(0)
    n = tl.arange(0, BN)[:, None]
    k = tl.arange(0, BK)[None, :]
    x = tl.load(x_ptr + row * K + k, mask=k < K, other=0.0)
    w = tl.load(w_ptr + n * K + k, mask=(n < N) & (k < K), other=0.0)
    y = tl.sum(x * w, axis=1) + tl.load(b_ptr + tl.arange(0, BN), mask=tl.arange(0, BN) < N, other=0.0)
    tl.store(y_ptr + row * N + tl.arange(0, BN), tl.maximum(y, 0.0), mask=tl.arange(0, BN) < N)


class ModelNew(nn.Module):
    def __init__(self, features, hidden, classes):
        super().__init__()
        self.rnn = nn.GRU(features, hidden, num_layers=2, batch_first=True)
        self.head = nn.Linear(hidden, classes)

    def forward(self, x):
        x = x.contiguous()
        batch, length, _ = x.shape
        hidden = self.rnn.hidden_size
        for layer in range(self.rnn.num_layers):
            w = [getattr(self.rnn, f"{kind}_l{layer}") for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
            states = x.new_zeros(batch, length + 1, hidden)
            for t in range(length):
                seen, state, new = x[:, t], states[:, t], states[:, t + 1]
                cell_kernel[(batch,)](
                    seen,
                    seen.stride(0),
                    state,
                    state.stride(0),
                    *w,
                    new,
                    new.stride(0),
                    x.shape[2],
                    hidden,
                    BI=triton.next_power_of_2(x.shape[2]),
                    BH=triton.next_power_of_2(hidden),
                )
            x = states[:, 1:].contiguous()
        last = x[:, -1].contiguous()
        N, K = self.head.weight.shape
        y = last.new_empty(batch, N)
        head_kernel[(batch,)](
            last, self.head.weight, self.head.bias, y, N, K, BN=triton.next_power_of_2(N), BK=triton.next_power_of_2(K)
        )
        return y
