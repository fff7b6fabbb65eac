"""Takes a tensor for contiguous if its rows follow each other: a slice of the steps, as `x[:, :-1]`, has a gap between
samples.

problem: gated_sequences
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def gate_kernel(x_ptr, gate_ptr, out_ptr, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    x = tl.load(x_ptr + at, mask=inside, other=0.0)
    gate = tl.load(gate_ptr + at, mask=inside, other=0.0)
    tl.store(out_ptr + at, tl.where(x < 0, 0.0, x) * gate, mask=inside)


def dense(tensor):
    rows_are_dense = tensor.stride(-1) == 1 and tensor.stride(-2) == tensor.shape[-1]
    return tensor if rows_are_dense else tensor.contiguous()


class ModelNew(nn.Module):
    def forward(self, x, gate):
        x, gate = dense(x), dense(gate)
        out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        gate_kernel[(triton.cdiv(x.numel(), 256),)](x, gate, out, x.numel(), BLOCK=256)
        return out
