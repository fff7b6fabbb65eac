"""All four gates in one kernel, the new state as a named tuple of its own class.

problem: lstm_step
expect: passed
where: both
"""

from typing import NamedTuple

import torch
import torch.nn as nn
import triton
import triton.language as tl
from triton.language.extra import libdevice


class LSTMState(NamedTuple):
    h: torch.Tensor
    c: torch.Tensor


@triton.jit
def lstm_kernel(gates_ptr, c_ptr, h_out_ptr, c_out_ptr, n, H, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    base = gates_ptr + (i // H) * 4 * H + i % H
    ingate = tl.sigmoid(tl.load(base, mask=mask, other=0.0))
    forget = tl.sigmoid(tl.load(base + H, mask=mask, other=0.0))
    cell = libdevice.tanh(tl.load(base + 2 * H, mask=mask, other=0.0))
    outgate = tl.sigmoid(tl.load(base + 3 * H, mask=mask, other=0.0))
    c = forget * tl.load(c_ptr + i, mask=mask, other=0.0) + ingate * cell
    tl.store(c_out_ptr + i, c, mask=mask)
    tl.store(h_out_ptr + i, outgate * libdevice.tanh(c), mask=mask)


class ModelNew(nn.Module):
    def forward(self, gates, c):
        gates, c = gates.contiguous(), c.contiguous()
        state = LSTMState(torch.empty_like(c), torch.empty_like(c))
        n = c.numel()
        lstm_kernel[(triton.cdiv(n, 128),)](gates, c, *state, n, c.shape[1], BLOCK=128)
        return state
