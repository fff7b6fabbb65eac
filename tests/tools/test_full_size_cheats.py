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
}


@pytest.mark.parametrize(("name", "status"), REFUSED.items())
def test_a_cheat_is_refused_with_its_status(name: str, status: str, nursery: Nursery) -> None:
    assert verdict("cheats", name, nursery).startswith(status)


def test_a_lookup_through_what_another_launch_wrote_passes_at_a_size_that_is_not_run_whole(nursery: Nursery) -> None:
    assert verdict("honest", "looked_up_through_another_launch", nursery) == "passed"


def verdict(kind: str, name: str, nursery: Nursery) -> str:
    settings = EvaluatorSettings(device="cpu")
    [(_, evaluation)] = grade([specimen(TESTS / kind / f"{name}.py")], settings, jobs=1, nursery=nursery)
    return spoken(evaluation)
