"""Memory allocated by operators is counted, and a request with an excessive size is stopped before the allocation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from triton_agent.tools.reference.allowance import Allowance, AllowanceSpent

MEBI = 1 << 20


@pytest.mark.parametrize(
    ("make", "more"),
    [
        (lambda: torch.randn(MEBI), False),
        (lambda: torch.randn(3 * MEBI), True),
        (lambda: [torch.randn(MEBI) for _ in range(3)], True),
        (lambda: torch.randn(3 * MEBI, dtype=torch.bfloat16), False),
        (lambda: torch.arange(2 * MEBI), True),
        (lambda: torch.randperm(2 * MEBI), True),
        (lambda: torch.randn(1).repeat(3 * MEBI), True),
        (lambda: torch.randn(1).expand(3 * MEBI), False),
        (lambda: torch.empty_strided((256, 256), (1024, 1)), False),
        (lambda: torch.randn(MEBI).to(torch.float64), True),
        (lambda: torch.zeros(1 << 50), True),
        (lambda: torch.sparse_coo_tensor([[0, 5]], [1.0, 2.0], (1 << 40,), check_invariants=False), False),
    ],
)
def test_eight_mebibytes_are_so_many_wherever_they_come_from(make: Callable[[], Any], more: bool) -> None:
    spent = False
    try:
        with Allowance(8 * MEBI):
            make()
    except AllowanceSpent:
        spent = True
    assert spent == more


def test_code_that_catches_every_exception_is_stopped_all_the_same() -> None:
    def stubborn() -> None:
        try:
            torch.zeros(4 * MEBI)
        except Exception:
            torch.zeros(1)

    with pytest.raises(AllowanceSpent), Allowance(8 * MEBI):
        stubborn()
    assert torch.zeros(4 * MEBI).sum() == 0
