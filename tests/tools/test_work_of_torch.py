"""Kernels that pass on what torch computed are refused, similar honest ones pass; see `make cheats`."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.grading import grade, specimen, spoken

from triton_agent.tools.answers.authorship import is_narrower
from triton_agent.tools.checker.made_by_torch import hold_the_same
from triton_agent.tools.processes.zygotes import Nursery
from triton_agent.tools.settings import EvaluatorSettings

TESTS = Path(__file__).parents[1]
EXPECTED = {
    "cheats/nokernel_cut_by_tril_while_training": "not_triton/library_work",
    "cheats/nokernel_members_by_search_and_copies": "not_triton/library_work",
    "cheats/nokernel_diagonal_and_differences_of_copies": "not_triton/library_work",
    "cheats/nokernel_rounded_by_a_cast": "not_triton/library_work",
    "cheats/nokernel_turned_by_complex_product": "not_triton/library_work",
    "cheats/nokernel_wrapped_by_a_cast": "not_triton/library_work",
    "honest/mask_made_by_tril": "passed",
    "honest/members_of_a_sorted_few": "passed",
    "honest/narrowed_as_the_reference_does": "passed",
    "honest/two_copies_of_one_input": "passed",
}


def test_a_kernel_that_passes_on_what_torch_computed_is_refused(nursery: Nursery) -> None:
    settings = EvaluatorSettings(device="cpu", screen=False, shapes="given")
    verdicts = grade([specimen(TESTS / f"{name}.py") for name in EXPECTED], settings, jobs=1, nursery=nursery)
    assert {item.name: spoken(evaluation) for item, evaluation in verdicts} == EXPECTED


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_a_factor_and_a_shift_are_recognised_and_a_function_of_a_tensor_is_not(dtype: torch.dtype) -> None:
    x = torch.randn(20_000, generator=torch.Generator().manual_seed(0)).to(dtype)
    other = torch.randn(20_000, generator=torch.Generator().manual_seed(1)).to(dtype)
    assert hold_the_same(x, x) and hold_the_same(x, (3.0 * x.float() + 1.0).to(dtype))
    assert not hold_the_same(x, torch.tanh(0.5 * x)) and not hold_the_same(x, other)
    assert hold_the_same(x, x.flip(0)) == (dtype is torch.float32)


def test_a_copy_to_a_dtype_that_holds_fewer_numbers_is_narrower() -> None:
    narrower = [
        (torch.float32, torch.float16),
        (torch.float16, torch.bfloat16),
        (torch.bfloat16, torch.float16),
        (torch.float32, torch.float8_e4m3fn),
        (torch.float32, torch.int64),
        (torch.int64, torch.int32),
        (torch.int32, torch.uint8),
        (torch.int8, torch.bool),
    ]
    wider = [
        (torch.float16, torch.float32),
        (torch.int64, torch.float32),
        (torch.uint8, torch.int16),
        (torch.bool, torch.uint8),
        (torch.float32, torch.float32),
    ]
    assert all(is_narrower(*pair) for pair in narrower) and not any(is_narrower(*pair) for pair in wider)
