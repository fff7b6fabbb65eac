"""Looks up Triton's type in a dictionary by torch's and gives it to the kernel as a constexpr; asserts with f-strings.

problem: vector_add
expect: passed
where: both
"""

from typing import Dict

import torch
import torch.nn as nn
import triton
import triton.language as tl

TORCH_TO_TL: Dict[torch.dtype, tl.dtype] = {
    torch.float16: tl.float16,
    torch.bfloat16: tl.bfloat16,
    torch.float32: tl.float32,
}

BLOCK_SIZE = 1024


@triton.jit
def _add_fwd(x_ptr, y_ptr, o_ptr, numel, DTYPE: tl.constexpr, BLOCK_SIZE: tl.constexpr):
    tl.static_assert(BLOCK_SIZE % 32 == 0, "BLOCK_SIZE must be a multiple of the warp size")
    idx = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    idx = tl.max_contiguous(tl.multiple_of(idx, BLOCK_SIZE), BLOCK_SIZE)
    keep = idx < numel
    a = tl.load(x_ptr + idx, mask=keep, other=0.0).to(tl.float32)
    b = tl.load(y_ptr + idx, mask=keep, other=0.0).to(tl.float32)
    tl.store(o_ptr + idx, (a + b).to(DTYPE), mask=keep)


def triton_add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    assert x.shape == y.shape, f"shapes differ: {tuple(x.shape)} and {tuple(y.shape)}"
    assert x.dtype in TORCH_TO_TL, f"unsupported dtype {x.dtype}, expected one of {list(TORCH_TO_TL)}"
    x, y = x.contiguous(), y.contiguous()
    out = x.new_empty(x.shape)
    with torch.cuda.device(x.device):
        _add_fwd[(triton.cdiv(x.numel(), BLOCK_SIZE),)](
            x, y, out, x.numel(), DTYPE=TORCH_TO_TL[x.dtype], BLOCK_SIZE=BLOCK_SIZE
        )
    return out


class ModelNew(nn.Module):
    """Optimised vector addition."""

    def forward(self, x, y):
        return triton_add(x, y)
