"""Looks odd: functions of this file run before each trial of the autotuner, and choose among its configurations. Honest: one
clears the output, the other leaves out tiles that are too large.

problem: relu
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


def ready(args):
    args["out_ptr"].zero_()


def early(configs, named_args, **kwargs):
    return [c for c in configs if c.kwargs["BLOCK"] <= 4 * named_args["n"]] or configs[:1]


@triton.autotune(
    configs=[
        triton.Config({"BLOCK": b}, num_warps=w, num_stages=1, pre_hook=ready) for b in (256, 1024) for w in (2, 4)
    ],
    key=["n"],
    restore_value=["x_ptr"],
    prune_configs_by={"early_config_prune": early},
    warmup=1,
    rep=2,
)
@triton.jit
def relu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, tl.maximum(x, 0.0, propagate_nan=tl.PropagateNan.ALL), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        relu_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, out, x.numel())
        return out
