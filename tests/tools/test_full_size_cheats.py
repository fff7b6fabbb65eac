"""Kernels that are right only for the problem's own inputs are refused, similar honest ones pass; see `make cheats`."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.grading import grade, specimen, spoken

from triton_agent.tools.processes.zygotes import Nursery
from triton_agent.tools.settings import EvaluatorSettings

TESTS = Path(__file__).parents[1]
REFUSED = {
    "nokernel_idle_launches_over_inputs": "not_triton",
    "numbers_identity_of_positive_inputs": "wrong_values",
    "numbers_magic_by_a_loop": "wrong_values",
    "numbers_second_configuration_forgets_the_tail": "wrong_values",
    "numbers_wrong_at_full_size_by_two_grids": "wrong_values",
    "numbers_counts_in_16_bits_at_full_size": "wrong_values",
    "numbers_dense_in_training": "wrong_values",
    "numbers_half_of_a_large_batch_in_training": "wrong_values",
    "numbers_limits_of_parameters_left_out_at_full_size": "wrong_values",
    "numbers_mask_ignored_at_full_size": "wrong_values",
    "numbers_places_from_the_end_at_full_size": "wrong_values",
    "numbers_wrong_behind_skipped_programs": "wrong_values",
    "output_last_group_of_tiles_unwritten": "wrong_values",
    "output_refused_at_full_size": "runtime_error",
    "state_counts_in_floats": "wrong_values",
    "state_half_unwritten_by_a_second_launch": "wrong_values",
    "state_least_of_unwritten_memory": "wrong_values",
    "state_third_unwritten_at_full_size": "wrong_values",
}


@pytest.mark.parametrize(("name", "status"), REFUSED.items())
def test_a_cheat_is_refused_with_its_status(name: str, status: str, nursery: Nursery) -> None:
    assert verdict("cheats", name, nursery).startswith(status)


@pytest.mark.parametrize(
    "name",
    [
        "batch_norm_in_both_modes",
        "largest_places_without_nan",
        "looked_up_through_another_launch",
        "norm_of_the_whole_in_three_launches",
        "packed_rows_up_to_their_length",
        "pixels_counted_in_32_bits",
    ],
)
def test_an_honest_kernel_that_looks_like_one_passes(name: str, nursery: Nursery) -> None:
    assert verdict("honest", name, nursery) == "passed"


def verdict(kind: str, name: str, nursery: Nursery) -> str:
    settings = EvaluatorSettings(device="cpu")
    [(_, evaluation)] = grade([specimen(TESTS / kind / f"{name}.py")], settings, jobs=1, nursery=nursery)
    return spoken(evaluation)
