"""Autotuned with a pre_hook in every configuration and a class attribute that holds the kernel's options.

problem: vector_add
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


def zero_output(nargs):
    nargs["out_ptr"].zero_()


def get_configs():
    return [
        triton.Config({"BLOCK": block}, num_warps=warps, num_stages=stages, pre_hook=zero_output)
        for block in (512, 1024)
        for warps in (2, 4)
        for stages in (1, 2)
    ]


@triton.autotune(configs=get_configs(), key=["n_elements"])
@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n_elements, BLOCK: tl.constexpr):
    offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n_elements
    # out was zeroed by the hook, so adding into it is fine
    tl.atomic_add(out_ptr + offs, tl.load(x_ptr + offs, mask=mask), mask=mask, sem="relaxed")
    tl.atomic_add(out_ptr + offs, tl.load(y_ptr + offs, mask=mask), mask=mask, sem="relaxed")


class ModelNew(nn.Module):
    def forward(self, x, y):
        x = x.contiguous()
        y = y.contiguous()
        out = torch.empty_like(x)
        n_elements = x.numel()
        grid = lambda META: (triton.cdiv(n_elements, META["BLOCK"]),)
        add_kernel[grid](x, y, out, n_elements)
        return out
