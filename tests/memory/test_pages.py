"""Pages of runs and attempts join without gaps on both databases, and a long list names the best of each run."""

from __future__ import annotations

import dataclasses
import datetime

import pytest
from tests.runs import reported_run as sample

from triton_agent.memory.listing import HeaderFilter, RunFilter
from triton_agent.memory.sql import reading_runs
from triton_agent.memory.store import Store
from triton_agent.tools.results import Status


def test_pages_of_runs_and_attempts_join_without_gap_or_repetition(store: Store) -> None:
    history = sample.history()
    for number in range(7):
        began = sample.BEGAN + datetime.timedelta(seconds=number // 2)
        store.add_run(dataclasses.replace(history.run, id=f"run-{number}", started_at=began))
    for item in history.attempts:
        attempt = dataclasses.replace(item.attempt, run="run-3", parent=None)
        store.add_attempt(attempt, dataclasses.replace(item.gradings[0], attempt=attempt.key))
    seen: list[str] = []
    while page := store.runs(RunFilter(limit=2, before=seen[-1] if seen else None, search="run-")):
        seen += [run.id for run in page]
    assert sorted(seen) == [f"run-{number}" for number in range(7)] and len(seen) == 7
    keys: list[str] = []
    while some := store.headers("run-3", HeaderFilter(limit=3, after=keys[-1] if keys else None)):
        keys += [line.key for line in some]
    assert keys == [line.key for line in store.headers("run-3")] and len(keys) == 10
    back: list[str] = []
    while some := store.headers("run-3", HeaderFilter(limit=3, before=back[-1] if back else "run-3/9.9")):
        back += [line.key for line in some]
    assert back == keys[::-1]
    best = store.headers("run-3", HeaderFilter(best_first=True))
    assert [line.speedup.median for line in best if line.speedup] == [1.61, 1.58, 1.38, 1.12, 0.93]
    assert all(line.passed for line in store.headers("run-3", HeaderFilter(status=Status.PASSED)))
    assert store.policies() == ["author"]


def test_a_page_of_many_ended_runs_names_the_best_of_each(store: Store) -> None:
    history = sample.history()
    assert history.end is not None
    for number in range(230):
        id = f"run-{number:03}"
        began = sample.BEGAN + datetime.timedelta(minutes=number)
        store.add_run(dataclasses.replace(history.run, id=id, started_at=began))
        moved = [
            (dataclasses.replace(item.attempt, run=id, parent=None), item.gradings[0]) for item in history.attempts
        ]
        store.add_attempts((attempt, dataclasses.replace(grading, attempt=attempt.key)) for attempt, grading in moved)
        if number % 10:
            store.end_run(dataclasses.replace(history.end, run=id, best=f"{id}/2.1"))
    runs = store.runs(RunFilter(limit=None))
    assert len(runs) == 230 and runs[0].id == "run-229"
    for run in runs:
        expected = ("2.1", 1.38) if run.ended_at else ("3.1", 1.61)
        assert run.best == f"{run.id}/{expected[0]}" and run.speedup and run.speedup.median == expected[1]


def test_a_search_finds_few_and_many_runs_alike(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    run = sample.history().run
    for number in range(12):
        view = sample.problem(name=f"Soft_{number % 4}%", digest=f"{number % 4:064x}")
        began = sample.BEGAN + datetime.timedelta(minutes=number)
        store.add_run(dataclasses.replace(run, id=f"run-{number:02}", problem=view, started_at=began))
    wanted = {"soft_1": 3, "SOFT": 12, "run-0": 10, "run-03": 1, "0" * 63 + "2": 3, "%": 12, "_2%": 3, "t-1": 0}
    for many in (2_000, 2):
        monkeypatch.setattr(reading_runs, "MANY_RUNS", many)
        for text, count in wanted.items():
            found = store.runs(RunFilter(search=text, limit=None))
            assert len(found) == count, text
            assert [item.id for item in found] == sorted((item.id for item in found), reverse=True)
