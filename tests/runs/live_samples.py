"""Modules as users write them, which `triton_agent.optimize` has to be able to write to a file."""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
import math
import threading
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

SCALE = 1.5
OFFSETS = {"low": -1.0}
OFFSETS["high"] = 1.0


class Order(enum.Enum):
    BEFORE = "before"
    AFTER = "after"


@dataclasses.dataclass(frozen=True)
class Config:
    width: int = 8
    order: Order = Order.BEFORE
    activation: Callable[[torch.Tensor], torch.Tensor] = F.gelu


def stretched(x: torch.Tensor) -> torch.Tensor:
    return x * SCALE + OFFSETS["high"]


class Block(nn.Module):
    """Needs a dataclass, an enumeration, a function of torch's, a function and two values of the file."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.linear = nn.Linear(config.width, config.width)
        self.norm = nn.LayerNorm(config.width)
        self.register_buffer("mask", torch.ones(16, 16).tril().bool(), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.config.order is Order.BEFORE:
            x = self.norm(x)
        return stretched(self.config.activation(self.linear(x))).masked_fill(self.mask[0, : x.shape[-1]], 0.5)


class Tied(nn.Module):
    """Two names of one parameter, two of one part, and a place with nothing in it."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 8, bias=False)
        self.second = nn.Linear(8, 8)
        self.second.weight = self.first.weight
        self.again = self.second
        self.nothing: nn.Module | None = None
        self.register_parameter("missing", None)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.again(self.first(x)) + self.second(x)


class Held(nn.Module):
    """Plain attributes of many kinds."""

    def __init__(self) -> None:
        super().__init__()
        self.limits = (float("-inf"), 2.0)
        self.dtype = torch.float32
        self.sizes = torch.Size([8])
        self.power = functools.partial(torch.pow, exponent=2)
        self.named = collections.OrderedDict(a=1, b=[2, {3}])
        self.table = torch.arange(8.0)
        self.root = math.sqrt
        self.lock = threading.Lock()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.power(x.clamp(*self.limits)).to(self.dtype)
        return x.reshape(-1, *self.sizes) * self.table + self.root(self.named["b"][0])


class Counting(nn.Module):
    """Draws at random, and remembers its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.norm = nn.BatchNorm1d(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return F.dropout(self.norm(x), 0.5, self.training) + torch.rand(1)


class Pair(nn.Module):
    """Nested arguments, one of them no tensor, some with defaults."""

    def forward(
        self, x: torch.Tensor, pair: tuple[torch.Tensor, list[torch.Tensor]], factor: float = 1.0, bias: object = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        total = x * factor + pair[0] + pair[1][0]
        return total, total if bias is None else total + bias


class KeywordOnly(nn.Module):
    def forward(self, x: torch.Tensor, *, factor: float) -> torch.Tensor:
        return x * factor


class Locked(nn.Module):
    """Its forward needs what cannot be written down."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with self.lock:
            return x + 1


class Dated(nn.Module):
    """Its forward needs a module that no kernel file may import."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + (time.time() < 0)


class Moody(nn.Module):
    """Answers by a value that its file changes as it likes."""

    mood = 1.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * Moody.mood


def made_in_a_function() -> nn.Module:
    class Local(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1

    return Local()


def channels_last() -> nn.Module:
    return nn.Sequential(nn.Conv2d(4, 6, 3), nn.BatchNorm2d(6)).to(memory_format=torch.channels_last).eval()
