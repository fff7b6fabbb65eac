"""Split-K with atomic adds into zeros, autotuned with reset_to_zero and pruned to splits that K can feed.

problem: square_matmul
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


def prune(configs, named_args, **kwargs):
    K = named_args["K"]
    kept = [c for c in configs if c.kwargs["SPLIT_K"] * c.kwargs["BK"] <= max(K, 16)]
    return kept or configs[:1]


@triton.autotune(
    configs=[triton.Config({"BM": 32, "BN": 32, "BK": 16, "SPLIT_K": s}, num_warps=4) for s in (1, 2, 4)][::-1],
    key=["M", "N", "K"],
    prune_configs_by={"early_config_prune": prune},
    reset_to_zero=["c_ptr"],
)
@triton.jit
def split_k_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPLIT_K: tl.constexpr
):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    pid_k = tl.program_id(2)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(pid_k * BK, K, BK * SPLIT_K):
        rk = start + tl.arange(0, BK)
        a = tl.load(a_ptr + rm[:, None] * K + rk[None, :], mask=(rm[:, None] < M) & (rk[None, :] < K), other=0.0)
        b = tl.load(b_ptr + rk[:, None] * N + rn[None, :], mask=(rk[:, None] < K) & (rn[None, :] < N), other=0.0)
        acc += tl.dot(a, b, input_precision="ieee", out_dtype=tl.float32)
    c_ptrs = c_ptr + rm[:, None] * N + rn[None, :]
    mask = (rm[:, None] < M) & (rn[None, :] < N)
    if SPLIT_K == 1:
        tl.store(c_ptrs, acc, mask=mask)
    else:
        tl.atomic_add(c_ptrs, acc, mask=mask)


class ModelNew(nn.Module):
    def forward(self, a, b):
        a, b = a.contiguous(), b.contiguous()
        M, K = a.shape
        N = b.shape[1]
        c = torch.zeros((M, N), dtype=torch.float32, device=a.device)
        grid = lambda META: (triton.cdiv(M, META["BM"]), triton.cdiv(N, META["BN"]), META["SPLIT_K"])
        split_k_kernel[grid](a, b, c, M, N, K)
        return c
