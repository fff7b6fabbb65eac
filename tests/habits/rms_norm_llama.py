"""Llama's RMS norm as fine-tuning libraries write it: an assertion on the device, rows by stride, a launcher with a
guard.

problem: rms_normed
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl
from triton.language.extra.libdevice import rsqrt


@triton.jit
def _rms_norm_forward_kernel(
    Y_ptr, Y_row_stride, X_ptr, X_row_stride, W_ptr, RSTD_ptr, n_cols, eps, offset, BLOCK_SIZE: tl.constexpr
):
    """
    y_i = (x_i / (RMS)) * (offset + wi), RMS = sqrt(sum(x_i^2) / N)
    """
    row_idx = tl.program_id(0).to(tl.int64)
    col_offsets = tl.arange(0, BLOCK_SIZE)
    mask = col_offsets < n_cols
    y_base = Y_ptr + row_idx * Y_row_stride
    x_base = X_ptr + row_idx * X_row_stride
    X_row = tl.load(x_base + col_offsets, mask=mask, other=0)
    W_row = tl.load(W_ptr + col_offsets, mask=mask, other=0)
    mean_square = tl.sum(X_row * X_row, axis=0) / n_cols
    rstd = rsqrt(mean_square + eps)
    # Save rstd for the backward pass: it is one number per row, and cheap to keep
    tl.store(RSTD_ptr + row_idx, rstd)
    tl.store(y_base + col_offsets, X_row * rstd * (offset + W_row), mask=mask)


def rms_norm(X, W, eps, offset=0.0):
    shape = X.shape
    dim = shape[-1]
    X = X.contiguous().view(-1, dim)
    n_rows, n_cols = X.shape
    assert X.shape[1] == W.shape[0], f"Incompatible hidden size dimension: {X.shape[1]} != {W.shape[0]}"
    assert X.is_cuda and X.is_contiguous()
    Y = torch.empty((n_rows, n_cols), dtype=X.dtype, device=X.device)
    RSTD = torch.empty(n_rows, dtype=torch.float32, device=X.device)
    _rms_norm_forward_kernel[(n_rows,)](
        Y,
        Y.stride(0),
        X,
        X.stride(0),
        W,
        RSTD,
        n_cols,
        eps,
        offset,
        BLOCK_SIZE=triton.next_power_of_2(n_cols),
        num_warps=4,
    )
    return Y.view(*shape)


class ModelNew(nn.Module):
    def __init__(self, features, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.eps = eps

    def forward(self, x):
        return rms_norm(x, self.weight, self.eps)
