"""The recurrent layer stays torch's; the head is a kernel.

problem: gru_head
expect: passed
where: both
mode: allow-library
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


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
        self.rnn.flatten_parameters()
        _, state = self.rnn(x)
        last = state[-1].contiguous()
        N, K = self.head.weight.shape
        y = torch.empty((last.shape[0], N), device=x.device, dtype=x.dtype)
        head_kernel[(last.shape[0],)](
            last, self.head.weight, self.head.bias, y, N, K, BN=triton.next_power_of_2(N), BK=triton.next_power_of_2(K)
        )
        return y
