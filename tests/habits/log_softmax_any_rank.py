"""Flattens leading dimensions, several rows per program as a block, num_warps by a helper.

problem: row_log_softmax
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


def calculate_settings(n):
    MAX_FUSED_SIZE = 65536
    BLOCK_SIZE = triton.next_power_of_2(n)
    if BLOCK_SIZE > MAX_FUSED_SIZE:
        raise RuntimeError(f"Cannot launch Triton kernel since n = {n} exceeds the maximum of {MAX_FUSED_SIZE}.")
    num_warps = 4
    if BLOCK_SIZE >= 32768:
        num_warps = 32
    elif BLOCK_SIZE >= 8192:
        num_warps = 16
    elif BLOCK_SIZE >= 2048:
        num_warps = 8
    return BLOCK_SIZE, num_warps


@triton.jit
def log_softmax_kernel(x_ptr, y_ptr, M, N, ROWS: tl.constexpr, BLOCK_N: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    cols = tl.arange(0, BLOCK_N)[None, :]
    mask = (rows < M) & (cols < N)
    x = tl.load(x_ptr + rows * N + cols, mask=mask, other=float("-inf"))
    x = tl.where(rows < M, x, 0.0)
    shifted = x - tl.max(x, axis=1, keep_dims=True)
    y = shifted - tl.log(tl.sum(tl.exp(shifted), axis=1, keep_dims=True))
    tl.store(y_ptr + rows * N + cols, y, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        *lead, N = x.shape
        flat = x.reshape(-1, N).contiguous()
        out = torch.empty_like(flat)
        BLOCK_N, num_warps = calculate_settings(N)
        M = flat.shape[0]
        log_softmax_kernel[(triton.cdiv(M, 4),)](flat, out, M, N, ROWS=4, BLOCK_N=BLOCK_N, num_warps=num_warps)
        return out.unflatten(0, lead)
