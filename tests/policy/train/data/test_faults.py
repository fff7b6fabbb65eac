"""Injected faults change a kernel in one place, and every kind of fault can be injected somewhere."""

from __future__ import annotations

import random
from pathlib import Path

from triton_agent.policy.train.data.faults import FAULTS, faulty_versions

KERNEL = '''import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def row_kernel(x_ptr, bias_ptr, out_ptr, rows, columns, BLOCK_ROWS: tl.constexpr, BLOCK_COLUMNS: tl.constexpr):
    """Everything that a fault may change."""
    row = (tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS))[:, None]
    column = tl.arange(0, BLOCK_COLUMNS)[None, :]
    inside = (row < rows) & (column < columns)
    x = tl.load(x_ptr + row * columns + column, mask=inside, other=0.0)
    bias = tl.load(bias_ptr + column, mask=column < columns, other=0.0)
    total = x + bias
    peak = tl.max(total, axis=1, keep_dims=True)
    mean = tl.sum(total * 0.5, axis=1, keep_dims=True) / columns
    tl.store(out_ptr + row * columns + column, tl.exp(total - peak) - mean, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.randn(width))

    def forward(self, x):
        x = x.contiguous()
        rows, columns = x.shape
        out = torch.empty_like(x)
        row_kernel[(triton.cdiv(rows, 16),)](
            x, self.bias, out, rows, columns, BLOCK_ROWS=16, BLOCK_COLUMNS=triton.next_power_of_2(columns)
        )
        return out
'''


def test_every_fault_has_a_place_and_changes_little() -> None:
    found = {fault.name: text for fault, text in faulty_versions(random.Random(0), KERNEL)}
    assert set(found) == {fault.name for fault in FAULTS}
    for name, text in found.items():
        changed = set(KERNEL.splitlines()) ^ set(text.splitlines())
        assert 1 <= len(changed) <= 4, name


def test_equal_chances_give_equal_faults() -> None:
    assert faulty_versions(random.Random(3), KERNEL) == faulty_versions(random.Random(3), KERNEL)


def test_a_file_without_kernels_has_few_faults() -> None:
    text = Path(__file__).read_text().split("KERNEL")[0]
    assert len(faulty_versions(random.Random(0), text)) < len(FAULTS) / 2
