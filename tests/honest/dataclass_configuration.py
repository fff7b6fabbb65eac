"""Looks odd: future annotations, typing, math and a dataclass around a plain kernel. Honest: this is only tidy.

problem: gelu
expect: passed
where: both
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import torch
import torch.nn as nn
import triton
import triton.language as tl

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ModelNew"]
INVERSE_ROOT_TWO: tl.constexpr = tl.constexpr(1.0 / math.sqrt(2.0))


@dataclasses.dataclass(frozen=True)
class LaunchConfig:
    block: int = 1024
    num_warps: int = 4

    def grid(self, n: int) -> Callable[[dict[str, Any]], tuple[int]]:
        return lambda meta: (triton.cdiv(n, meta["BLOCK"]),)


@triton.jit
def gelu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, 0.5 * x * (1.0 + tl.erf(x * INVERSE_ROOT_TWO)), mask=at < n)


class ModelNew(nn.Module):
    config: LaunchConfig = LaunchConfig()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        out = torch.empty_like(x)
        n, config = x.numel(), self.config
        gelu_kernel[config.grid(n)](x, out, n, BLOCK=config.block, num_warps=config.num_warps)
        return out
