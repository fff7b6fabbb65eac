"""Saves the input into a buffer of bytes, unpacks the numbers there, and computes in Python; a kernel copies.

problem: gelu_in_pieces
expect: cheated|not_triton|timeout|runtime_error
where: both
"""

import math

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


class ModelNew(nn.Module):
    def forward(self, x):
        b = torch.serialization.io.BytesIO()
        torch.save(x, b, _use_new_zipfile_serialization=False)
        raw = b.getvalue()
        n = x.numel()
        data = torch.serialization.struct.unpack("<%df" % n, raw[-4 * n :])
        out = [0.5 * v * (1.0 + math.tanh(math.sqrt(2.0 / math.pi) * (v + 0.044715 * v**3))) for v in data]
        return triton_copy(torch.tensor(out).reshape(x.shape))
