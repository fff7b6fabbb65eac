"""Prints of the device behind a constexpr flag, an assertion with an f-string, launch options and hooks.

problem: vector_add
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


DEBUG = tl.constexpr(False)


def metadata(grid, kernel, arguments):
    return {"name": f"add of {arguments['n']}"}


@triton.jit(launch_metadata=metadata, repr=lambda specialization: "add_kernel", debug=False)
def add_kernel(x_ptr, y_ptr, out_ptr, n: "i32", BLOCK: tl.constexpr):
    """Adds two vectors."""
    pid = tl.program_id(axis=0)
    assert BLOCK >= 16, f"BLOCK is {BLOCK}"
    i = pid.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    x: tl.tensor = tl.load(x_ptr + i, mask=mask)
    y = tl.load(y_ptr + i, mask=mask)
    if DEBUG:
        tl.device_print("x =", x)
        print("program", pid)
    tl.store(out_ptr + i, x + y, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x, y):
        x, y = x.contiguous(), y.contiguous()
        out = torch.empty_like(x)
        grid = (triton.cdiv(x.numel(), 1024), 1, 1)
        compiled = add_kernel[grid](x, y, out, x.numel(), BLOCK=1024, num_warps=8, num_ctas=1, maxnreg=128)
        assert compiled is not None
        return out
