"""Files that the stories of `record_runs.py` answer with: right ones, and wrong ones of every kind.

They are data and are never imported; the judge runs them as it runs every candidate.
"""

from __future__ import annotations

from pathlib import Path

REPOSITORY = Path(__file__).parents[4]
EXAMPLES = REPOSITORY / "examples"

ONLINE = (EXAMPLES / "softmax_online.py").read_text(encoding="utf-8")
HALF = (EXAMPLES / "softmax_half.py").read_text(encoding="utf-8")
TORCH = (EXAMPLES / "softmax_torch.py").read_text(encoding="utf-8")
WHOLE = HALF.replace(".to(tl.bfloat16)", "").replace(HALF[: HALF.index("import torch")], "")
NOT_POWER_OF_TWO = WHOLE.replace("BLOCK=triton.next_power_of_2(columns)", "BLOCK=columns")
UNKNOWN_FUNCTION = WHOLE.replace("tl.exp(", "tl.math.fast_expf(")
UNMASKED = WHOLE.replace(', other=-float("inf")', ", other=0.0")
ENDLESS = ONLINE.replace("for start in range(0, columns, BLOCK):", "start = 0\n    while start >= 0:", 1)
TOO_LONG = ONLINE.replace("for start in range(0, columns, BLOCK):", "for start in range(0, 2_000_000_000):", 1)
OUT_OF_PLACE = WHOLE.replace("tl.program_id(0).to(tl.int64) * columns", "(tl.program_id(0).to(tl.int64) + 1) * columns")
WRONG_SHAPE = WHOLE.replace("return y\n", "return y.view(-1)\n")
REMEMBERED = WHOLE.replace(
    "        x = x.contiguous()\n",
    "        if getattr(self, 'kept', None) is not None:\n            return self.kept\n        x = x.contiguous()\n",
).replace("        return y\n", "        self.kept = y\n        return y\n")
IDLE = WHOLE.replace("        return y\n", "        return torch.softmax(x, dim=-1)\n")
THREE_KERNELS = """import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def row_tops(x_ptr, top_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=-float("inf"))
    tl.store(top_ptr + row, tl.max(x, axis=0))


@triton.jit
def row_totals(x_ptr, top_ptr, total_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=-float("inf"))
    tl.store(total_ptr + row, tl.sum(tl.exp(x - tl.load(top_ptr + row)), axis=0))


@triton.jit
def divided(x_ptr, top_ptr, total_ptr, y_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns)
    power = tl.exp(x - tl.load(top_ptr + row))
    tl.store(y_ptr + row * columns + at, power / tl.load(total_ptr + row), mask=at < columns)


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        columns = x.shape[-1]
        rows = x.numel() // columns
        y = torch.empty_like(x)
        top, total = x.new_empty(rows), x.new_empty(rows)
        block = triton.next_power_of_2(columns)
        row_tops[(rows,)](x, top, columns, BLOCK=block)
        row_totals[(rows,)](x, top, total, columns, BLOCK=block)
        divided[(rows,)](x, top, total, y, columns, BLOCK=block)
        return y
"""
BARE_PRODUCT = """import torch
import torch.nn as nn
import torch.nn.functional as F
import triton
import triton.language as tl


@triton.jit
def linear_gelu(x_ptr, weight_ptr, bias_ptr, y_ptr, rows, width, depth,
                M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m = (tl.program_id(0) * M + tl.arange(0, M)).to(tl.int64)
    n = (tl.program_id(1) * N + tl.arange(0, N)).to(tl.int64)
    total = tl.zeros((M, N), dtype=tl.float32)
    for start in range(0, depth, K):
        k = start + tl.arange(0, K)
        x = tl.load(x_ptr + m[:, None] * depth + k[None, :],
                    mask=(m[:, None] < rows) & (k[None, :] < depth), other=0.0)
        weight = tl.load(weight_ptr + n[None, :] * depth + k[:, None],
                         mask=(n[None, :] < width) & (k[:, None] < depth), other=0.0)
        total = tl.dot(x, weight, total, input_precision="ieee")
    total += tl.load(bias_ptr + n, mask=n < width, other=0.0)[None, :]
    total = APPLIED
    tl.store(y_ptr + m[:, None] * width + n[None, :], total, mask=(m[:, None] < rows) & (n[None, :] < width))


class ModelNew(nn.Module):
    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.up = nn.Linear(width, hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        width, depth = self.up.weight.shape
        rows = x.numel() // depth
        y = x.new_empty(*x.shape[:-1], width)
        grid = (triton.cdiv(rows, 64), triton.cdiv(width, 64))
        linear_gelu[grid](x, self.up.weight, self.up.bias, y, rows, width, depth, M=64, N=64, K=32)
        return RETURNED
"""
GELU = "0.5 * total * (1.0 + tl.erf(total * 0.7071067811865476))"
TANH = "total * tl.sigmoid(1.5957691216 * (total + 0.044715 * total * total * total))"
FUSED = BARE_PRODUCT.replace("APPLIED", GELU).replace("RETURNED", "y")
APPROXIMATE = BARE_PRODUCT.replace("APPLIED", TANH).replace("RETURNED", "y")
HALF_FUSED = BARE_PRODUCT.replace("APPLIED", "total").replace("RETURNED", "F.gelu(y)")
TF32 = FUSED.replace(', input_precision="ieee"', "")

ONE_WARP = WHOLE.replace("BLOCK=triton", "num_warps=1, BLOCK=triton")
FOUR_ROWS = """import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax_rows(x_ptr, y_ptr, rows, columns, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    at = tl.arange(0, BLOCK)
    inside = (row[:, None] < rows) & (at[None, :] < columns)
    place = row[:, None] * columns + at[None, :]
    x = tl.load(x_ptr + place, mask=inside, other=-float("inf"))
    x = tl.where(row[:, None] < rows, x, 0.0)
    power = tl.exp(x - tl.max(x, axis=1)[:, None])
    tl.store(y_ptr + place, power / tl.sum(power, axis=1)[:, None], mask=inside)


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        columns = x.shape[-1]
        rows = x.numel() // columns
        y = torch.empty_like(x)
        block = triton.next_power_of_2(columns)
        softmax_rows[(triton.cdiv(rows, 4),)](x, y, rows, columns, ROWS=4, BLOCK=block, num_warps=1)
        return y
"""

ADVANTAGES = """import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def advantages(rewards_ptr, values_ptr, ended_ptr, out_ptr, steps, rows, discount, trace, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < rows
    advantage = tl.zeros((BLOCK,), dtype=tl.float32)
    later = tl.load(values_ptr + steps * rows + at, mask=inside, other=0.0)
    for back in range(0, steps):
        place = (steps - 1 - back) * rows + at
        value = tl.load(values_ptr + place, mask=inside, other=0.0)
        goes_on = 1.0 - tl.load(ended_ptr + place, mask=inside, other=0).to(tl.float32)
        surprise = tl.load(rewards_ptr + place, mask=inside, other=0.0) + discount * goes_on * later - value
        advantage = surprise + discount * trace * goes_on * advantage
        tl.store(out_ptr + place, advantage, mask=inside)
        later = value


class ModelNew(nn.Module):
    def __init__(self, discount: float, trace: float) -> None:
        super().__init__()
        self.discount, self.trace = discount, trace

    def forward(self, rewards: torch.Tensor, values: torch.Tensor, ended: torch.Tensor) -> torch.Tensor:
        rewards, values, ended = rewards.contiguous(), values.contiguous(), ended.contiguous()
        steps, rows = rewards.shape
        out = torch.empty_like(rewards)
        grid = (triton.cdiv(rows, 1024),)
        advantages[grid](rewards, values, ended, out, steps, rows, self.discount, self.trace, BLOCK=1024)
        return out
"""
SMALLER_BLOCKS = ADVANTAGES.replace("1024", "64")
LATER_FLAG = ADVANTAGES.replace(
    "        goes_on = 1.0 - tl.load(ended_ptr + place, mask=inside, other=0).to(tl.float32)\n",
    "        after = (back > 0) & inside\n"
    "        goes_on = 1.0 - tl.load(ended_ptr + place + rows, mask=after, other=0).to(tl.float32)\n",
)
WRITES_INPUT = ADVANTAGES.replace("out = torch.empty_like(rewards)", "out = rewards")
WRONG_NAME = ADVANTAGES.replace("steps, rows = rewards.shape", "steps, rows = reward.shape")
ONE_LAUNCH_EACH = """import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def one_step(rewards_ptr, values_ptr, ended_ptr, out_ptr, step, steps, rows, discount, trace, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < rows
    place = step * rows + at
    goes_on = 1.0 - tl.load(ended_ptr + place, mask=inside, other=0).to(tl.float32)
    later = tl.load(values_ptr + place + rows, mask=inside, other=0.0)
    surprise = tl.load(rewards_ptr + place, mask=inside, other=0.0) + discount * goes_on * later
    surprise -= tl.load(values_ptr + place, mask=inside, other=0.0)
    after = tl.load(out_ptr + place + rows, mask=inside & (step + 1 < steps), other=0.0)
    tl.store(out_ptr + place, surprise + discount * trace * goes_on * after, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, discount: float, trace: float) -> None:
        super().__init__()
        self.discount, self.trace = discount, trace

    def forward(self, rewards: torch.Tensor, values: torch.Tensor, ended: torch.Tensor) -> torch.Tensor:
        rewards, values, ended = rewards.contiguous(), values.contiguous(), ended.contiguous()
        steps, rows = rewards.shape
        out = torch.empty_like(rewards)
        grid = (triton.cdiv(rows, 256),)
        for step in range(steps - 1, -1, -1):
            one_step[grid](rewards, values, ended, out, step, steps, rows, self.discount, self.trace, BLOCK=256)
        return out
"""
LEFT_IN_TORCH = """import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, discount: float, trace: float) -> None:
        super().__init__()
        self.discount, self.trace = discount, trace

    def forward(self, rewards: torch.Tensor, values: torch.Tensor, ended: torch.Tensor) -> torch.Tensor:
        goes_on = 1.0 - ended.to(values.dtype)
        out = rewards + self.discount * goes_on * values[1:] - values[:-1]
        for step in range(len(out) - 2, -1, -1):
            out[step] += self.discount * self.trace * goes_on[step] * out[step + 1]
        return out
"""
TABLE_OF_PAIRS = ADVANTAGES.replace(
    "        out = torch.empty_like(rewards)\n",
    "        weights = torch.empty((rows, steps, steps, 1 << 20), device=rewards.device)\n"
    "        out = torch.empty_like(rewards) if weights.numel() else rewards\n",
)
A_DIFF = """I use smaller blocks, so that all multiprocessors have work.

```diff
-        grid = (triton.cdiv(rows, 1024),)
+        grid = (triton.cdiv(rows, 64),)
```
"""
