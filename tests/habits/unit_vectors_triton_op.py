"""torch.library.triton_op with wrap_triton, and libdevice for the root and the larger of two.

problem: unit_vectors
Drops NaN in the norm, as `tl.maximum` does by default.
expect: wrong_values/non_finite
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl
from torch.library import triton_op, wrap_triton
from triton.language.extra import libdevice


@triton.jit
def normalize_kernel(x_ptr, y_ptr, n_cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0)
    norm = libdevice.sqrt(tl.sum(x * x, axis=0))
    tl.store(y_ptr + row * n_cols + cols, x / tl.maximum(norm, eps), mask=mask)


@triton_op("habits_unit::normalize_rows", mutates_args={})
def normalize_rows(x: torch.Tensor, eps: float) -> torch.Tensor:
    x = x.contiguous()
    y = torch.empty_like(x)
    rows, cols = x.shape
    wrap_triton(normalize_kernel)[(rows,)](x, y, cols, eps, BLOCK=triton.next_power_of_2(cols))
    return y


class ModelNew(nn.Module):
    def forward(self, x):
        return normalize_rows(x, 1e-12)
