"""Tile sizes stand in a frozen dataclass with a class method that picks them.

problem: layer_normed
expect: passed
where: both
"""

import dataclasses
import enum

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def norm_kernel(x_ptr, w_ptr, b_ptr, y_ptr, rows, N, eps, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    c = tl.arange(0, BLOCK)[None, :]
    mask = (r < rows) & (c < N)
    x = tl.load(x_ptr + r * N + c, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=1, keep_dims=True) / N
    centred = tl.where(mask, x - mean, 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, axis=1, keep_dims=True) / N + eps)
    w = tl.load(w_ptr + c, mask=c < N)
    b = tl.load(b_ptr + c, mask=c < N)
    tl.store(y_ptr + r * N + c, centred * scale * w + b, mask=mask)


class Size(enum.Enum):
    SMALL = 2
    LARGE = 8


@dataclasses.dataclass(frozen=True)
class NormConfig:
    rows: int
    block: int
    num_warps: int = 4
    num_stages: int = dataclasses.field(default=2)

    @classmethod
    def pick(cls, rows: int, columns: int) -> "NormConfig":
        size = Size.LARGE if rows > 4096 else Size.SMALL
        return cls(rows=size.value, block=triton.next_power_of_2(columns))

    def meta(self):
        return {"ROWS": self.rows, "BLOCK": self.block, "num_warps": self.num_warps, "num_stages": self.num_stages}


class ModelNew(nn.Module):
    def __init__(self, features, eps):
        super().__init__()
        self.norm = nn.LayerNorm(features, eps=eps)

    def forward(self, x):
        flat = x.contiguous().view(-1, x.shape[-1])
        rows, columns = flat.shape
        config = NormConfig.pick(rows, columns)
        y = torch.empty_like(flat)
        norm_kernel[(triton.cdiv(rows, config.rows),)](
            flat, self.norm.weight, self.norm.bias, y, rows, columns, self.norm.eps, **config.meta()
        )
        return y.view_as(x)
