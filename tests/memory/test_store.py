"""The promises of the store, on SQLite and on PostgreSQL."""

from __future__ import annotations

import dataclasses
import hashlib
import math
import struct
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
import sqlalchemy
from tests import verdicts
from tests.memory import samples

from triton_agent.memory.errors import NotInStore, RecordConflict, StoreReadOnly
from triton_agent.memory.listing import AttemptFilter, RunFilter, RunState
from triton_agent.memory.observation import BudgetLeft
from triton_agent.memory.records import Attempt, Event, Message
from triton_agent.memory.sql.commits import Committer, GroupWriter, _Ticket
from triton_agent.memory.sql.tables import Blob
from triton_agent.memory.sql.writing import KnownRows
from triton_agent.memory.store import Store
from triton_agent.policy.episode import Graded
from triton_agent.tools.errors import UsageError
from triton_agent.tools.ranking import best_of
from triton_agent.tools.results import Status

RUN = "20260131-120000-3fa9c1"


@pytest.fixture
def begun(store: Store) -> Iterator[Store]:
    """A store with one run."""
    store.add_run(samples.run())
    return store


# What is read is what was written


def test_a_run_comes_back_equal(store: Store) -> None:
    run = samples.run(forked_from="other/3.1", settings={"ratio": math.inf, "none": None, "deep": [{"a": [1, 2.5]}]})
    store.add_run(run)
    assert store.run(run.id) == run


def test_an_attempt_comes_back_equal_with_every_part_of_what_was_shown(begun: Store) -> None:
    attempt = samples.attempt(1, observation=samples.full_observation(), completion=samples.sampled())
    begun.add_attempt(attempt)
    assert begun.attempt(attempt.key) == attempt


@pytest.mark.parametrize(
    "changes",
    [
        {"source": None, "plan": ""},
        {"source": "", "completion": samples.completion("empty source")},
        {"source": "x" * 50_000, "completion": samples.completion("not a part of the text")},
        {"source": "twice", "completion": samples.completion("twice and twice")},
        {"source": "a\x00b \ud83d ü \r\n", "completion": samples.completion("\x00 \udfff"), "plan": "\x00 lone \ud83d"},
        {"parent": "a run that is elsewhere/12.0"},
        {"completion": samples.completion(token_ids=(), log_probabilities=(), mask=())},
        {"completion": samples.completion(prompt_ids=(), messages=(Message(role="user", content=""),))},
        {"completion": samples.completion(token_ids=None, missing="its server does not tell")},
        {"created_at": samples.NOON.replace(tzinfo=None)},
        {"observation": samples.observation(budget=BudgetLeft(seconds=math.inf, cost=-0.0))},
    ],
)
def test_odd_attempts_come_back_equal(begun: Store, changes: dict[str, object]) -> None:
    attempt = samples.attempt(2, 3, **changes)
    begun.add_attempt(attempt)
    assert begun.attempt(attempt.key) == attempt


def test_tokens_and_log_probabilities_come_back_to_the_bit(begun: Store) -> None:
    chances = (-0.1, -0.0, 0.0, -math.inf, -1e-320, 1e300, math.nan, -0.5, 1 / 3)
    tokens = (0, 1, 2**16, 2**24, 2**32, 2**40, -1, 151_935, 7)
    completion = samples.completion(token_ids=tokens, log_probabilities=chances)
    begun.add_attempt(samples.attempt(completion=completion))
    found = begun.attempt(f"{RUN}/0.0").completion
    assert found.token_ids == tokens
    assert found.log_probabilities is not None
    assert struct.pack("9d", *found.log_probabilities) == struct.pack("9d", *chances)


def test_gradings_come_back_equal_and_oldest_first(begun: Store) -> None:
    attempt = samples.attempt()
    later, earlier = samples.passed(attempt, 1.7, minute=20), samples.unmeasured(attempt, minute=10)
    begun.add_attempt(attempt, later)
    begun.add_grading(earlier)
    assert begun.gradings(attempt.key) == [earlier, later]


def test_events_and_ends_come_back_equal_and_the_last_end_counts(begun: Store) -> None:
    events = [Event(run=RUN, kind="stage", at=samples.at(k), data={"k": k, "key": f"{RUN}/0.{k}"}) for k in range(3)]
    for event in events:
        begun.add_event(event)
    assert begun.events(RUN) == events
    assert begun.end(RUN) is None
    begun.end_run(samples.end(minute=5))
    begun.end_run(samples.end(minute=50, stop_reason="seconds"))
    assert begun.end(RUN) == samples.end(minute=50, stop_reason="seconds")


def test_a_trajectory_goes_through_parents_even_into_another_run(begun: Store) -> None:
    path = [samples.attempt(turn) for turn in range(3)]
    fork = samples.run("20260201-000000-aaaaaa", forked_from=path[2].key)
    child = samples.attempt(0, run=fork.id, parent=path[2].key, completion=samples.sampled())
    begun.add_attempts([*path, samples.attempt(1, 1)])
    begun.add_run(fork)
    begun.add_attempt(child)
    assert begun.trajectory(child.key) == [*path, child]


def test_a_trajectory_begins_where_its_parent_is_not_in_the_store(begun: Store) -> None:
    for number, parent in enumerate(("elsewhere/7.0", "no key at all", f"{RUN}/0.2")):
        attempt = samples.attempt(0, number, parent=parent)  # the last is its own parent
        begun.add_attempt(attempt)
        assert begun.trajectory(attempt.key) == [attempt]


# Once and for good


def test_adding_the_same_again_does_nothing(begun: Store) -> None:
    attempt = samples.attempt()
    grading, event = samples.passed(attempt, 1.5), Event(run=RUN, kind="x", at=samples.NOON)
    for _ in range(2):
        begun.add_run(samples.run())
        begun.add_attempt(attempt, grading)
        begun.add_grading(grading)
        begun.add_event(event)
        begun.end_run(samples.end())
    assert list(begun.attempts(RUN)) == [attempt]
    assert begun.gradings(attempt.key) == [grading]
    assert begun.events(RUN) == [event]
    (summary,) = begun.runs()
    assert (summary.attempts, summary.judged, summary.passed) == (1, 1, 1)


def test_the_same_twice_in_one_batch_is_stored_once(begun: Store) -> None:
    attempt = samples.attempt()
    begun.add_attempts([(attempt, samples.passed(attempt)), (attempt, samples.passed(attempt))])
    assert len(list(begun.attempts(RUN))) == len(begun.gradings(attempt.key)) == 1


def test_another_attempt_under_the_same_key_is_refused_and_the_first_stays(begun: Store) -> None:
    first, second = samples.attempt(number=1), samples.attempt(number=2)
    begun.add_attempt(first)
    with pytest.raises(RecordConflict, match=first.key):
        begun.add_attempt(second)
    with pytest.raises(RecordConflict):
        begun.add_run(samples.run(policy="another"))
    assert begun.attempt(first.key) == first


def test_what_is_equal_but_written_otherwise_is_the_same(begun: Store) -> None:
    begun.add_run(samples.run(settings={"nested": {"names": ["a", "b"], "ratio": 0.5}, "seed": 7.0, "turns": 4}))
    attempt = samples.attempt(observation=samples.observation(budget=BudgetLeft(seconds=60)))
    begun.add_attempt(attempt)
    begun.add_attempt(dataclasses.replace(attempt, observation=samples.observation(budget=BudgetLeft(seconds=60.0))))
    assert len(begun.headers(RUN)) == 1


def test_one_refusal_in_a_batch_takes_nobody_with_it(begun: Store) -> None:
    begun.add_attempt(samples.attempt(0, 0, number=1))
    batch = [samples.attempt(0, 0, number=2), samples.attempt(0, 1), samples.attempt(0, 0, run="nowhere")]
    with pytest.raises(RecordConflict):
        begun.add_attempts(batch)
    assert [header.key for header in begun.headers(RUN)] == [f"{RUN}/0.0", f"{RUN}/0.1"]


def test_what_belongs_to_nothing_is_refused(store: Store) -> None:
    with pytest.raises(NotInStore, match="no run"):
        store.add_attempt(samples.attempt())
    with pytest.raises(NotInStore, match="no attempt"):
        store.add_grading(samples.failed(samples.attempt()))
    with pytest.raises(NotInStore, match="no run"):
        store.end_run(samples.end())
    with pytest.raises(NotInStore, match="no run"):
        store.add_event(Event(run="x", kind="x", at=samples.NOON))
    with pytest.raises(UsageError, match="the grading is of"):
        store.add_attempt(samples.attempt(), samples.failed(samples.attempt(1)))


def test_shared_texts_are_stored_once(begun: Store) -> None:
    siblings = [
        samples.attempt(
            1,
            k,
            observation=samples.full_observation(),
            completion=samples.sampled(f"answer {k}"),
            source=samples.source(9),
        )
        for k in range(6)
    ]
    begun.add_attempts(siblings)
    with begun.reading() as connection:
        blobs = connection.execute(sqlalchemy.select(sqlalchemy.func.count()).select_from(Blob)).scalar()
    # problem view and its file, observation and two sources in it, the candidate, conversation and message, prompt
    assert blobs == 9
    assert list(begun.attempts(RUN)) == siblings


# Found again


def test_a_run_is_found_by_the_beginning_of_its_id(store: Store) -> None:
    for id in ("20260131-120000-3fa9c1", "20260131-120000-3fb000", "20260202-000000-cccccc"):
        store.add_run(samples.run(id))
    assert store.run("20260202").id == "20260202-000000-cccccc"
    assert store.run("20260131-120000-3fa9c1").id == "20260131-120000-3fa9c1"
    with pytest.raises(NotInStore, match=r"more than one run begins with '20260131'.*\n.*3fa9c1, .*3fb000"):
        store.run("20260131")
    with pytest.raises(NotInStore, match=r"no run '20260202-000000-ccdccc'\n.*there are 20260202-000000-cccccc"):
        store.run("20260202-000000-ccdccc")
    with pytest.raises(NotInStore, match="no run ''"):
        store.run("")


def test_the_error_for_a_missing_run_says_when_there_are_none(store: Store) -> None:
    with pytest.raises(NotInStore, match="no runs yet"):
        store.run("x%_'\x00")


def test_runs_are_listed_newest_first_filtered_and_paged(store: Store) -> None:
    other = samples.problem("gelu", "aten.gelu")
    for k in range(6):
        view = other if k % 2 else samples.problem()
        store.add_run(samples.run(f"run-{k}", problem=view, policy="a" if k < 3 else "b", started_at=samples.at(k)))
    store.end_run(samples.end("run-2"))

    def ids(**wanted: object) -> list[str]:
        return [summary.id for summary in store.runs(RunFilter(**wanted))]  # type: ignore[arg-type]

    assert ids() == ["run-5", "run-4", "run-3", "run-2", "run-1", "run-0"]
    assert ids(limit=2) == ["run-5", "run-4"]
    assert ids(limit=2, before="run-4") == ["run-3", "run-2"]
    for name in ("gelu", other.digest, other.digest[:12], other.fingerprint):
        assert ids(problem=name) == ["run-5", "run-3", "run-1"], name
    assert ids(policy="a", problem="softmax") == ["run-2", "run-0"]
    assert ids(since=samples.at(4)) == ["run-5", "run-4"]
    assert ids(state=RunState.ENDED) == ["run-2"]
    assert ids(state=RunState.OPEN, limit=1) == ["run-5"]
    assert ids(problem="nothing of that name") == []


def test_the_best_so_far_is_the_one_that_the_search_holds_for_it(begun: Store) -> None:
    """A gain within the margin does not replace the best, in the search or in lists."""
    attempts = [samples.attempt(index=index) for index in range(3)]
    figures = [(1.50, 1.50), (1.505, 1.505), (1.90, 0.90)]
    for attempt, (device, latency) in zip(attempts, figures):
        verdict = samples.passed(attempt, device)
        assert verdict.evaluation is not None
        both = (verdicts.timing(device, spread=0.001), verdicts.timing(latency, spread=0.001, kind="latency"))
        begun.add_attempt(
            attempt, dataclasses.replace(verdict, evaluation=dataclasses.replace(verdict.evaluation, timings=both))
        )
    (summary,) = begun.runs()
    graded = [Graded(attempt=attempt, grading=begun.gradings(attempt.key)[-1]) for attempt in attempts]
    best = best_of(graded)
    assert best is not None
    assert summary.best == best.attempt.key == attempts[0].key


def test_a_summary_counts_what_happened(begun: Store) -> None:
    attempts = [samples.attempt(turn, completion=samples.sampled(tokens=50)) for turn in range(4)]
    gradings = [samples.passed(attempts[0], 1.2), samples.passed(attempts[1], 1.8), samples.failed(attempts[2])]
    for attempt, grading in zip(attempts, [*gradings, samples.unmeasured(attempts[3])], strict=True):
        begun.add_attempt(attempt, grading)
    (summary,) = begun.runs()
    assert (summary.attempts, summary.turns, summary.judged, summary.passed, summary.tokens) == (4, 4, 3, 2, 200)
    assert summary.best == attempts[1].key
    assert summary.speedup == verdicts.timing(1.8).speedup
    assert summary.state is RunState.OPEN
    begun.end_run(samples.end(best=attempts[0].key))
    (summary,) = begun.runs()
    assert (summary.state, summary.stop_reason, summary.best) == (RunState.ENDED, "turns", attempts[0].key)
    [short] = begun.runs(RunFilter(with_best=False))
    assert dataclasses.replace(summary, speedup=None) == short, "its speed-up was not looked up"
    assert summary.speedup == verdicts.timing(1.2).speedup
    assert summary.last_at == samples.at(200)


def test_headers_say_how_each_attempt_stands(begun: Store) -> None:
    attempts = [samples.attempt(0), samples.attempt(0, 1), samples.attempt(1, 0, completion=samples.sampled())]
    begun.add_attempts([(attempts[0], samples.passed(attempts[0], 1.5)), attempts[2]])
    begun.add_attempt(attempts[1], samples.unmeasured(attempts[1]))
    first, second, third = begun.headers(RUN)
    assert (first.status, first.speedup, first.device) == (Status.PASSED, verdicts.timing(1.5).speedup, samples.H200)
    assert first.source == hashlib.sha256((attempts[0].source or "").encode()).hexdigest()
    assert (second.status, second.unmeasured) == (None, "WorkerLost")
    assert (third.status, third.unmeasured, third.tokens, third.parent) == (None, "", 50, attempts[0].key)


def test_the_newest_verdict_counts_in_whatever_order_gradings_come(begun: Store) -> None:
    attempt = samples.attempt()
    begun.add_attempt(attempt, samples.passed(attempt, 2.0, minute=10))
    begun.add_grading(samples.failed(attempt, minute=30))
    begun.add_grading(samples.passed(attempt, 3.0, minute=20))
    (header,) = begun.headers(RUN)
    assert (header.status, header.speedup) == (Status.WRONG_VALUES, None)
    (summary,) = begun.runs()
    assert (summary.judged, summary.passed, summary.best) == (1, 0, None)


def test_a_failure_to_measure_takes_no_verdict_back_and_a_check_without_clock_no_speed(begun: Store) -> None:
    attempt = samples.attempt()
    begun.add_attempt(attempt, samples.passed(attempt, 2.0, minute=10))
    begun.add_grading(samples.unmeasured(attempt, minute=20))
    begun.add_grading(samples.passed(attempt, None, minute=30))
    (header,) = begun.headers(RUN)
    assert (header.status, header.speedup, header.unmeasured) == (Status.PASSED, verdicts.timing(2.0).speedup, "")


def test_a_verdict_on_a_source_is_found_from_any_run(begun: Store) -> None:
    attempt = samples.attempt()
    old, new = samples.passed(attempt, minute=10), samples.failed(attempt, minute=20)
    begun.add_attempt(attempt, old)
    begun.add_grading(samples.unmeasured(attempt, minute=30))
    digest, source = attempt.observation.problem.digest, hashlib.sha256((attempt.source or "").encode()).hexdigest()
    assert begun.find_graded(digest, source) == old
    begun.add_grading(new)
    assert begun.find_graded(digest, source) == new
    assert begun.find_graded(digest, source, grader="0") is None
    assert begun.find_graded("another problem", source) is None
    assert begun.find_graded(digest, "not a hash") is None


def test_attempts_stream_in_the_order_they_came_filtered(begun: Store) -> None:
    begun.add_run(samples.run("second", problem=samples.problem("gelu", "aten.gelu")))
    pairs = []
    for k in range(300):  # more than are read at once
        attempt = samples.attempt(k, run="second" if k % 3 == 0 else RUN, completion=samples.completion(f"t{k}"))
        view = samples.problem("gelu", "aten.gelu") if k % 3 == 0 else samples.problem()
        attempt = dataclasses.replace(attempt, observation=samples.observation(0, view), source=f"s{k}")
        pairs.append((attempt, [samples.passed(attempt) if k % 2 else samples.failed(attempt)]))
    begun.add_attempts([(attempt, gradings[0]) for attempt, gradings in pairs])
    assert list(begun.iterate()) == pairs
    assert list(begun.iterate(AttemptFilter(problem="gelu"))) == pairs[::3]
    assert list(begun.iterate(AttemptFilter(runs=("second",)))) == pairs[::3]
    many = ("second", *(f"none{k}" for k in range(600)), RUN)  # more runs than one query names
    assert list(begun.iterate(AttemptFilter(runs=many))) == pairs
    assert list(begun.iterate(AttemptFilter(statuses=(Status.PASSED,), problem="softmax"))) == [
        pair for k, pair in enumerate(pairs) if k % 2 and k % 3
    ]
    assert list(begun.iterate(AttemptFilter(policy="nobody"))) == []
    assert list(begun.iterate(AttemptFilter(with_tokens=True))) == []
    assert list(begun.iterate(AttemptFilter(since=samples.at(290)))) == pairs[290:]


def test_missing_attempts_are_named_with_what_there_is(begun: Store) -> None:
    begun.add_attempt(samples.attempt())
    assert begun.has_attempt(f"{RUN}/0.0")
    assert not begun.has_attempt(f"{RUN}/0.1")
    assert not begun.has_attempt("no key")
    with pytest.raises(NotInStore, match=r"no attempt '.*/9.9'\n.*has 1 attempts"):
        begun.attempt(f"{RUN}/9.9")
    with pytest.raises(NotInStore, match="is not the key of an attempt"):
        begun.gradings("what")


# Many at once


def test_threads_share_a_store_and_its_commits(begun: Store) -> None:
    errors: list[BaseException] = []

    def write(thread: int) -> None:
        try:
            for k in range(10):
                attempt = samples.attempt(thread, k)
                begun.add_attempt(attempt, samples.passed(attempt))
                assert begun.attempt(attempt.key) == attempt
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert [(h.turn, h.index) for h in begun.headers(RUN)] == [(t, k) for t in range(4) for k in range(10)]
    assert begun.runs()[0].passed == 40


def test_no_caller_is_told_of_a_failure_before_the_last_try() -> None:
    """Callers return with the first outcome they see. After a failed transaction of several, each is written alone."""
    record: Any = SimpleNamespace()
    tickets = [_Ticket([record]), _Ticket([record])]
    seen: list[list[object]] = []

    class FailsTogether:
        def write(self, work: object) -> object:
            seen.append([ticket.outcomes for ticket in tickets])
            if len(seen) == 1:
                raise ValueError("one record broke it")
            return SimpleNamespace(known=KnownRows()), [None]

    Committer(cast(Any, FailsTogether()))._write(tickets)
    assert seen == [[None, None], [None, None], [[None], None]]
    assert [ticket.outcomes for ticket in tickets] == [[None], [None]]


def test_two_stores_on_one_place_write_at_the_same_time(place: str) -> None:
    with Store.open(place) as one, Store.open(place) as other:
        one.add_run(samples.run())
        attempts = [samples.attempt(0, k) for k in range(30)]
        errors: list[BaseException] = []

        def write(store: Store, mine: list[Attempt]) -> None:
            try:
                for attempt in mine:
                    store.add_attempt(attempt, samples.failed(attempt))
            except BaseException as error:
                errors.append(error)

        # half of them by both
        threads = [threading.Thread(target=write, args=pair) for pair in ((one, attempts[:20]), (other, attempts[10:]))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        assert list(other.attempts(RUN)) == attempts
        (summary,) = one.runs()
        assert (summary.attempts, summary.judged) == (30, 30)


def test_a_group_writer_resolves_each_future_after_the_commit(begun: Store) -> None:
    attempts = [samples.attempt(k) for k in range(20)]
    with GroupWriter(begun) as writer:
        futures = [writer.add(attempt, samples.passed(attempt)) for attempt in attempts]
        futures[7].result(30)
        assert begun.attempt(attempts[7].key) == attempts[7]
        refused = writer.add(samples.attempt(3, number=999))
        homeless = writer.add(samples.failed(samples.attempt(0, run="nowhere")))
    assert [future.result() for future in futures] == [None] * 20
    assert isinstance(refused.exception(), RecordConflict)
    assert isinstance(homeless.exception(), NotInStore)
    assert list(begun.attempts(RUN)) == attempts
    with pytest.raises(RuntimeError, match="closed"):
        writer.add(attempts[0])


def test_a_store_opened_for_reading_reads_and_refuses_to_write(place: str) -> None:
    with Store.open(place) as store:
        store.add_run(samples.run())
        store.add_attempt(samples.attempt())
    with Store.open(place, read_only=True) as store:
        assert store.attempt(f"{RUN}/0.0") == samples.attempt()
        with pytest.raises(StoreReadOnly):
            store.add_attempt(samples.attempt(1))
