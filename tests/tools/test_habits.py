"""Kernel files written in styles that are common among people and models get the right verdicts in the interpreter."""

from __future__ import annotations

import pytest
from tests.grading import grade, habits, spoken
from tests.scoreboard import missing

from triton_agent.tools.processes.zygotes import Nursery
from triton_agent.tools.settings import EvaluatorSettings

SETTINGS = EvaluatorSettings(total_timeout_s=300.0)
SPECIMENS = [item for item in habits() if item.where != "gpu"]
PROBLEMS = sorted({item.problem.stem for item in SPECIMENS})


@pytest.mark.slow
@pytest.mark.parametrize("problem", PROBLEMS)
def test_a_file_as_people_write_it_gets_its_verdict(problem: str, nursery: Nursery) -> None:
    members = [item for item in SPECIMENS if item.problem.stem == problem and not missing(item.needs)]
    outcomes = grade(members, SETTINGS, nursery=nursery)
    unexpected = [
        f"{item.name}: {spoken(outcome)}, {getattr(outcome, 'message', outcome)}"
        for item, outcome in outcomes
        if not item.meets(outcome)
    ]
    assert not unexpected, "\n".join(unexpected)


def test_every_file_names_a_problem_of_the_folder() -> None:
    assert SPECIMENS and all(item.problem.parent.parent.name == "habits" for item in SPECIMENS)
