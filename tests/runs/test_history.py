"""The best attempt of a history is the one that the search considers best."""

from __future__ import annotations

import dataclasses

import pytest
from tests.agent.tables import passed
from tests.recorded_run import Recorded, recorded

from triton_agent.policy import episode
from triton_agent.runs.history.records import History, StoredAttempt
from triton_agent.tools.processes.zygotes import Nursery
from triton_agent.tools.ranking import best_of


@pytest.fixture(scope="module")
def told(nursery: Nursery) -> Recorded:
    return recorded(nursery)


def test_the_best_so_far_of_an_open_run_is_the_one_its_search_holds(told: Recorded) -> None:
    """The best is not the highest median: a difference within the noise replaces nothing."""
    speeds = (1.1, 1.5, 1.505, 1.2)
    gradings = [
        dataclasses.replace(grading, evaluation=passed("", speed)) for grading, speed in zip(told.gradings, speeds)
    ]
    pairs = list(zip(told.attempts, gradings))
    shown = tuple(StoredAttempt(attempt=attempt, gradings=(grading,)) for attempt, grading in pairs)
    searched = [episode.Graded(attempt=attempt, grading=grading) for attempt, grading in pairs]
    best = History(run=told.run, attempts=shown, end=None).best
    assert best.key == told.attempts[1].key == best_of(searched).attempt.key
    assert (best.speedup, best.passed) == (gradings[1].evaluation.timings[0].speedup, True)


def test_an_ended_run_names_its_best(told: Recorded) -> None:
    items = tuple(StoredAttempt(attempt=one, gradings=(grading,)) for one, grading in zip(told.attempts, told.gradings))
    assert History(run=told.run, attempts=items, end=told.end).best.key == told.end.best
