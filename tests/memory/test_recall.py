"""Lessons of earlier runs: the closest and best first, explained, and overruled by later evidence."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from tests.memory import samples

from triton_agent.memory.observation import Lesson, ProblemView
from triton_agent.memory.recall import RecallSettings, recall
from triton_agent.memory.records import Attempt, Grading
from triton_agent.memory.store import Store

SOFTMAX = samples.problem("softmax", "aten._softmax")
_runs = itertools.count()


class Past:
    """Adds past runs to a store, one attempt after another."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.minute = 0.0

    def run(self, view: ProblemView = SOFTMAX) -> str:
        id = f"run-{next(_runs):04}"
        self.store.add_run(samples.run(id, problem=view))
        return id

    def attempt(self, run: str, turn: int, index: int = 0, view: ProblemView = SOFTMAX, **changes: Any) -> Attempt:
        changes.setdefault("source", f"# {run} {turn} {index}")
        attempt = samples.attempt(turn, index, run=run, observation=samples.observation(turn, view), **changes)
        self.store.add_attempt(attempt)
        return attempt

    def passed(self, attempt: Attempt, speedup: float | None = None) -> Grading:
        return self._graded(samples.passed(attempt, speedup, minute=self._tick()))

    def failed(self, attempt: Attempt, message: str = "wrong by 0.5") -> Grading:
        return self._graded(samples.failed(attempt, message, minute=self._tick()))

    def _graded(self, grading: Grading) -> Grading:
        self.store.add_grading(grading)
        return grading

    def _tick(self) -> float:
        self.minute += 1
        return self.minute


@pytest.fixture
def past(store: Store) -> Iterator[Past]:
    yield Past(store)


def kernels(lessons: tuple[Lesson, ...]) -> list[str]:
    return [lesson.attempt for lesson in lessons if lesson.kind == "kernel"]


def of_kind(lessons: tuple[Lesson, ...], kind: str) -> list[Lesson]:
    return [lesson for lesson in lessons if lesson.kind == kind]


def test_an_empty_store_teaches_nothing(store: Store) -> None:
    assert recall(store, SOFTMAX) == ()


def test_the_best_kernel_of_the_same_problem_comes_back_with_its_source_and_its_reason(past: Past) -> None:
    run = past.run()
    slow, fast = past.attempt(run, 0), past.attempt(run, 1)
    past.passed(slow, 1.2)
    past.passed(fast, 2.0)
    first, second = of_kind(recall(past.store, SOFTMAX), "kernel")
    assert (first.text, first.attempt, first.speedup) == (fast.source, fast.key, 2.0)
    assert first.why == "this problem; 2.00x on NVIDIA H200, at least 1.90x"
    assert second.attempt == slow.key


def test_closer_problems_come_before_faster_kernels(past: Past) -> None:
    views = {
        "far": samples.problem("other", "aten._softmax", "aten.add", "aten.mul"),
        "structure": samples.problem("wider", "aten._softmax", shape=(256, 4096)),
        "shapes": samples.problem("namesake", "aten._softmax"),
        "same": SOFTMAX,
    }
    keys = {}
    for speedup, (name, view) in zip((5.0, 4.0, 3.0, 2.0), views.items()):
        attempt = past.attempt(past.run(view), 0, view=view)
        past.passed(attempt, speedup)
        keys[name] = attempt.key
    found = recall(past.store, SOFTMAX, RecallSettings(kernels=4))
    assert kernels(found) == [keys["same"], keys["shapes"], keys["structure"], keys["far"]]
    whys = [lesson.why for lesson in of_kind(found, "kernel")]
    assert "namesake: the same operators and shapes" in whys[1]
    assert "wider: the same operators, sizes 8x apart" in whys[2]
    assert "other: 33% of the operators in common" in whys[3]


def test_nearer_sizes_and_the_same_dtype_come_first_among_equals(past: Past) -> None:
    kinds = {
        "near": samples.problem("near", "aten._softmax", shape=(256, 1024)),
        "far": samples.problem("far", "aten._softmax", shape=(256, 65536)),
        "half": samples.problem(
            "half", "aten._softmax", shape=(256, 1024), dtype="float16", fingerprint=SOFTMAX.fingerprint
        ),
    }
    names = {}
    for name, view in kinds.items():
        attempt = past.attempt(past.run(view), 0, view=view)
        past.passed(attempt, 2.0)
        names[attempt.key] = name
    found = recall(past.store, SOFTMAX)
    assert [names[key] for key in kernels(found)] == ["near", "far", "half"]
    assert "in float16" in of_kind(found, "kernel")[2].why


def test_problems_with_nothing_in_common_teach_nothing(past: Past) -> None:
    view = samples.problem("matmul", "aten.mm")
    past.passed(past.attempt(past.run(view), 0, view=view), 3.0)
    assert recall(past.store, SOFTMAX) == ()


def test_views_of_tensors_do_not_count_as_something_in_common(past: Past) -> None:
    view = samples.problem("reshaped", "aten.view", "aten.mm")
    past.passed(past.attempt(past.run(view), 0, view=view), 3.0)
    assert recall(past.store, samples.problem("mine", "aten.view", "aten._softmax")) == ()


def test_a_kernel_whose_newest_verdict_is_a_failure_is_forgotten(past: Past) -> None:
    run = past.run()
    attempt = past.attempt(run, 0)
    past.passed(attempt, 3.0)
    assert kernels(recall(past.store, SOFTMAX)) == [attempt.key]
    past.failed(attempt)
    assert kernels(recall(past.store, SOFTMAX)) == []
    past.passed(attempt, 2.5)
    assert kernels(recall(past.store, SOFTMAX)) == [attempt.key]


def test_a_kernel_is_forgotten_when_the_same_source_fails_elsewhere_later(past: Past) -> None:
    first = past.attempt(past.run(), 0, source="# the same")
    past.passed(first, 3.0)
    second = past.attempt(past.run(), 0, source="# the same")
    past.failed(second)
    assert kernels(recall(past.store, SOFTMAX)) == []


def test_each_source_comes_once_and_a_run_can_be_left_out(past: Past) -> None:
    run, other = past.run(), past.run()
    for turn in range(3):
        past.passed(past.attempt(run, turn, source="# the same"), 2.0 + turn)
    past.passed(past.attempt(other, 0), 1.5)
    assert kernels(recall(past.store, SOFTMAX)) == [f"{run}/2.0", f"{other}/0.0"]
    assert kernels(recall(past.store, SOFTMAX, exclude_run=run)) == [f"{other}/0.0"]


def test_kernels_that_were_never_timed_come_after_those_that_were(past: Past) -> None:
    run = past.run()
    untimed, timed = past.attempt(run, 0), past.attempt(run, 1)
    past.passed(untimed)
    past.passed(timed, 0.8)
    found = of_kind(recall(past.store, SOFTMAX), "kernel")
    assert [lesson.attempt for lesson in found] == [timed.key, untimed.key]
    assert found[1].speedup is None
    assert found[1].why == "this problem; passed, not timed"


def test_frequent_failures_are_told_with_how_often_and_figures_do_not_tell_them_apart(past: Past) -> None:
    run = past.run()
    for k in range(3):
        past.failed(past.attempt(run, 0, k), f"case ROWS={k}: wrong by 0.{k}\nlikely cause: half\nmore")
    past.failed(past.attempt(run, 1), "another message")
    first, second = of_kind(recall(past.store, SOFTMAX), "failure")
    assert first.text == "case ROWS=2: wrong by 0.2 likely cause: half"
    assert first.why == "values, 3 times; this problem"
    assert first.attempt == f"{run}/0.2"
    assert second.why == "values, 1 time; this problem"


def test_a_failure_that_was_taken_back_is_not_counted(past: Past) -> None:
    attempt = past.attempt(past.run(), 0)
    past.failed(attempt)
    assert len(of_kind(recall(past.store, SOFTMAX), "failure")) == 1
    past.passed(attempt, 1.5)
    assert of_kind(recall(past.store, SOFTMAX), "failure") == []


def improve(past: Past, run: str, turn: int, to: float, plan: str = "use split-k", since: float = 1.0) -> None:
    """Add two attempts, the second one a child of the first."""
    parent = past.attempt(run, turn, parent=None, plan="")
    past.passed(parent, since)
    child = past.attempt(run, turn + 1, parent=parent.key, plan=plan)
    past.passed(child, to)


def test_a_technique_that_beat_its_parents_twice_becomes_a_lesson(past: Past) -> None:
    run = past.run()
    improve(past, run, 0, 2.0)
    assert of_kind(recall(past.store, SOFTMAX), "lesson") == []
    improve(past, run, 2, 1.5)
    (lesson,) = of_kind(recall(past.store, SOFTMAX), "lesson")
    assert lesson.text == "split-k: faster than the attempt it set out from in 2 of 2"
    assert lesson.why == "measured on NVIDIA H200, for softmax"
    assert lesson.attempt == f"{run}/3.0"


def test_a_technique_loses_when_later_measurements_contradict_it(past: Past) -> None:
    run = past.run()
    for turn in (0, 2, 4):
        improve(past, run, turn, 2.0)
    assert len(of_kind(recall(past.store, SOFTMAX), "lesson")) == 1
    improve(past, run, 6, 0.5)
    improve(past, run, 8, 0.5)
    assert of_kind(recall(past.store, SOFTMAX), "lesson") == []


def test_differences_within_the_noise_and_attempts_that_fail_prove_nothing(past: Past) -> None:
    run = past.run()
    for turn in (0, 2, 4):
        improve(past, run, turn, 1.02)
    for turn in (10, 20):
        parent = past.attempt(run, turn, parent=None)
        past.passed(parent, 1.0)
        past.failed(past.attempt(run, turn + 1, parent=parent.key, plan="use split-k"))
    assert of_kind(recall(past.store, SOFTMAX), "lesson") == []


def test_a_plan_in_words_of_its_own_is_counted_by_its_first_sentence(past: Past) -> None:
    run = past.run()
    improve(past, run, 0, 2.0, "Halve the frobnication to 64. It may help.")
    improve(past, run, 2, 2.0, "halve the frobnication to 32")
    (lesson,) = of_kind(recall(past.store, SOFTMAX), "lesson")
    assert lesson.text.startswith("halve the frobnication to #: ")


def test_recall_is_bounded_and_always_the_same(past: Past) -> None:
    run = past.run()
    for turn in range(12):
        past.passed(past.attempt(run, turn, source=f"# {turn}\n" + "x" * 1_000), 1 + turn / 10)
        past.failed(past.attempt(run, turn, 1), "abcdefghijkl"[turn] * 40)
    settings = RecallSettings(kernels=5, failures=3, characters=2_500)
    found = recall(past.store, SOFTMAX, settings)
    assert len(of_kind(found, "failure")) == 3
    assert len(of_kind(found, "kernel")) == 2
    assert sum(len(lesson.text) + len(lesson.why) for lesson in found) <= settings.characters
    assert recall(past.store, SOFTMAX, settings) == found


def test_a_problem_without_a_graph_learns_from_itself_only(past: Past) -> None:
    view = samples.problem("verified", fingerprint="", graphs=(), signature="")
    view_of_another = samples.problem("verified too", fingerprint="", graphs=(), signature="", shape=(1, 1))
    attempt = past.attempt(past.run(view), 0, view=view)
    past.passed(attempt, 2.0)
    assert kernels(recall(past.store, view)) == [attempt.key]
    assert recall(past.store, view_of_another) == ()
