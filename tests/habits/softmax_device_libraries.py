"""Exponentials and divisions of libdevice, ranges for a profiler, precision switches at import.

problem: row_softmax
expect: passed
where: both
"""

import logging

import torch
import torch.nn as nn
import triton
import triton.language as tl
from triton.language.extra import libdevice


torch.backends.cuda.matmul.allow_tf32 = True
torch.backends.cudnn.allow_tf32 = True
torch.backends.cudnn.benchmark = True
torch.set_float32_matmul_precision("high")
logger = logging.getLogger(__name__)


@triton.jit
def softmax_kernel(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + c, mask=c < N, other=float("-inf"))
    e = libdevice.exp(x - tl.max(x, axis=0))
    y = libdevice.div_rn(e, tl.sum(e, axis=0))
    tl.store(y_ptr + row * N + c, y, mask=c < N)


class ModelNew(nn.Module):
    @torch.no_grad()
    def forward(self, x):
        logger.debug("softmax of %s", tuple(x.shape))
        x = x.contiguous()
        y = torch.empty_like(x)
        with torch.cuda.nvtx.range("softmax"), torch.profiler.record_function("softmax"):
            softmax_kernel[(x.shape[0],)](x, y, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return y
