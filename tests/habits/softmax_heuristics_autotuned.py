"""Heuristics stand above an autotuner that prunes its configurations and restores an output.

problem: row_softmax
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


def prune(configs, named_args, **kwargs):
    return [config for config in configs if config.num_warps <= 8]


def configs():
    return [triton.Config({"ROWS": rows}, num_warps=warps, num_stages=2) for rows in (1, 2) for warps in (2, 4, 16)]


@triton.heuristics({"BLOCK": lambda args: triton.next_power_of_2(args["N"]), "EVEN": lambda args: args["N"] % 2 == 0})
@triton.autotune(configs=configs(), key=["N"], prune_configs_by={"early_config_prune": prune}, restore_value=["y_ptr"])
@triton.jit
def softmax_kernel(x_ptr, y_ptr, rows, N, ROWS: tl.constexpr, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    for r in range(ROWS):
        row = tl.program_id(0) * ROWS + r
        c = tl.arange(0, BLOCK)
        mask = (c < N) & (row < rows)
        x = tl.load(x_ptr + row * N + c, mask=mask, other=-float("inf"))
        x = tl.where(c < N, x, -float("inf")) if EVEN else x
        e = tl.exp(x - tl.max(tl.where(mask, x, -1.0e30), axis=0))
        tl.store(y_ptr + row * N + c, e / tl.sum(tl.where(mask, e, 0.0), axis=0), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        rows, N = x.shape
        y = torch.empty_like(x)
        softmax_kernel[lambda meta: (triton.cdiv(rows, meta["ROWS"]),)](x, y, rows, N)
        return y
