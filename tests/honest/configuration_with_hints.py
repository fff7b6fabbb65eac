"""Looks odd: classes are made from texts at run time, by dataclasses, named tuples and type hints, and functions come
from functools and operator. Honest: that is what these are for.

problem: relu
expect: passed
where: both
"""

import collections
import dataclasses
import functools
import operator
import typing

import torch
import torch.nn as nn
import triton
import triton.language as tl


Tile = collections.namedtuple("Tile", "block warps", defaults=(4,))


@dataclasses.dataclass(frozen=True, order=True)
class Plan:
    tile: Tile = Tile(256)
    numel: "int" = 0
    name: "typing.Optional[str]" = None

    @property
    def programs(self):
        return triton.cdiv(self.numel, self.tile.block)


class Wish(typing.NamedTuple):
    plan: Plan
    dtype: "torch.dtype" = torch.float32


HINTS = typing.get_type_hints(Plan)


@functools.lru_cache(maxsize=None)
def plan_for(numel):
    plans = sorted(Plan(tile=Tile(block), numel=numel, name=f"{block}") for block in (128, 256))
    return max(plans, key=operator.attrgetter("tile.block"))


@triton.jit
def relu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, tl.where(x < 0, 0.0, x), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        wish = Wish(plan_for(x.numel()))
        plan = dataclasses.replace(wish.plan, name="chosen")
        assert plan != wish.plan and HINTS["numel"] is int and hash(plan)
        x = x.contiguous()
        out = torch.empty_like(x)
        relu_kernel[(plan.programs,)](x, out, plan.numel, BLOCK=plan.tile.block, num_warps=plan.tile.warps)
        return out
