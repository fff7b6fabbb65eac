"""A kernel that compiles for ages: a tile of 256 by 256 with everything unrolled, to hold up whoever compiles it.

problem: matmul_fp16
expect: compile_error|timeout|out_of_memory
where: gpu
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, M, N, K: tl.constexpr, B: tl.constexpr):
    m = tl.program_id(0) * B + tl.arange(0, B)[:, None]
    n = tl.program_id(1) * B + tl.arange(0, B)[None, :]
    acc = tl.zeros((B, B), dtype=tl.float32)
    for k in tl.static_range(K):
        a = tl.load(a_ptr + m * K + k, mask=m < M, other=0.0).to(tl.float32)
        b = tl.load(b_ptr + k * N + n, mask=n < N, other=0.0).to(tl.float32)
        acc += a * b
    tl.store(c_ptr + m * N + n, acc.to(tl.float16), mask=(m < M) & (n < N))


class ModelNew(nn.Module):
    def forward(self, a, b):
        out = torch.empty(a.shape[0], b.shape[1], dtype=a.dtype, device=a.device)
        grid = (triton.cdiv(a.shape[0], 256), triton.cdiv(b.shape[1], 256))
        matmul_kernel[grid](a, b, out, a.shape[0], b.shape[1], a.shape[1], B=256, num_warps=1)
        return out
