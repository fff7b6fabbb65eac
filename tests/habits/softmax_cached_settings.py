"""Settings and the count of multiprocessors come from cached helpers, one of them a method.

problem: row_softmax
expect: passed
where: both
"""

import functools

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + c, mask=c < N, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(y_ptr + row * N + c, e / tl.sum(e, axis=0), mask=c < N)


@functools.lru_cache(maxsize=None)
def settings(columns: int, dtype: torch.dtype):
    block = triton.next_power_of_2(columns)
    return {"BLOCK": block, "num_warps": 4 if block < 2048 else 8}


@functools.cache
def processors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count


class ModelNew(nn.Module):
    @functools.cached_property
    def device_name(self):
        return torch.cuda.get_device_name()

    def forward(self, x):
        assert self.device_name and processors(x.device) > 0
        x = x.contiguous()
        y = torch.empty_like(x)
        softmax_kernel[(x.shape[0],)](x, y, x.shape[1], **settings(x.shape[1], x.dtype))
        return y
