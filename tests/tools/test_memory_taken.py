"""A candidate that ran out of GPU memory: whether that counts against it, and that the driver always gets an answer."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from triton_agent.tools.checker import checker
from triton_agent.tools.checker.checker import Checker, device_trouble
from triton_agent.tools.checker.memory_shortage import (
    CALLS_HELD,
    CONTEXT_BYTES,
    MOST_OF_A_CARD,
    room_needed,
    taken_at,
)
from triton_agent.tools.checker.session import Failed
from triton_agent.tools.errors import InstrumentError, MemoryTaken, ProblemError
from triton_agent.tools.problem import source as problem_source
from triton_agent.tools.problem.problem import parse_problem
from triton_agent.tools.processes.codec import from_plain
from triton_agent.tools.processes.protocol import Bug, JobAnswer, Judge, MemoryRefusal, Refused, Taped, Tapes
from triton_agent.tools.processes.wire import Channel
from triton_agent.tools.reference.user_code import UserModule
from triton_agent.tools.results import Finding
from triton_agent.tools.settings import EvaluatorSettings

PROBLEM = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return x + 1
def get_inputs():
    return [torch.ones(2)]
"""


def plan_of(case_bytes: int) -> Any:
    expectation = SimpleNamespace(packed_inputs=SimpleNamespace(size_bytes=case_bytes), answer_bytes=0)
    return SimpleNamespace(trials=[SimpleNamespace(cases=[SimpleNamespace(expectation=expectation)])])


def answer_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, finding: Finding, taken: Any, *, may_lack: bool = True
) -> JobAnswer:
    """Return the answer to the driver for a candidate with this finding, given the state of the card."""
    driver, judge = checker_of(tmp_path)
    judge.plan = plan_of(1)
    failed = Failed(finding, "it failed", may_lack_memory=may_lack)
    monkeypatch.setattr(judge, "_answer", lambda *_: (Taped(job=7, tapes=Tapes(modules=())), failed))
    monkeypatch.setattr(checker, "memory_was_taken", taken)
    return judged(driver, judge)


def judged(driver: Channel, judge: Checker) -> JobAnswer:
    thread = threading.Thread(target=judge.judge, args=(Judge(job=7, source="", workers=()), []))
    thread.start()
    told, _ = driver.receive(20)
    thread.join()
    answer: JobAnswer = from_plain(JobAnswer, told)
    return answer


def checker_of(folder: Path) -> tuple[Channel, Checker]:
    """Return a checker and the driver's end of its channel."""
    (folder / "problem.py").write_text(PROBLEM)
    driver, ours = Channel.pair()
    return driver, Checker(ours, parse_problem(str(folder / "problem.py")), EvaluatorSettings())


def test_a_message_without_the_processes_gets_an_answer_too(tmp_path: Path) -> None:
    driver, judge = checker_of(tmp_path)
    judge.plan = plan_of(1)
    judge.facts = SimpleNamespace()  # type: ignore[assignment]
    judge.judge(Judge(job=7, source="", workers=()), [])
    told = from_plain(JobAnswer, driver.receive(20)[0])
    assert isinstance(told, Bug) and told.job == 7 and "not enough values" in told.trace


@pytest.mark.parametrize(
    ("failure", "free_gib", "kind"),
    [
        ("torch.OutOfMemoryError('CUDA out of memory')", 20, InstrumentError),
        ("torch.OutOfMemoryError('CUDA out of memory')", 130, ProblemError),
        ("RuntimeError('CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate')", 20, InstrumentError),
        ("RuntimeError('the sizes do not match')", 20, ProblemError),
    ],
)
def test_a_reference_without_memory_is_the_problems_fault_unless_others_hold_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: str, free_gib: int, kind: type[Exception]
) -> None:
    _, judge = checker_of(tmp_path)
    (tmp_path / "problem.py").write_text(PROBLEM.replace("return x + 1", f"raise {failure}"))
    judge.spec = parse_problem(str(tmp_path / "problem.py"))
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda: 2 << 30)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (free_gib << 30, 140 << 30))
    answer = judge.prepare()
    assert isinstance(answer, Refused) and type(answer.error) is kind


def user_module(folder: Path) -> UserModule:
    source = problem_source.read(folder / "problem.py")
    return UserModule(source, source.tree)


def full_card(plan: Any) -> MemoryTaken:
    return MemoryTaken("the GPU's memory is taken")


def free_card(plan: Any) -> None:
    return None


def broken_card(plan: Any) -> None:
    raise RuntimeError("no one can say")


def test_nothing_is_known_of_a_candidate_whose_memory_others_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = answer_to(tmp_path, monkeypatch, Finding.MEMORY, full_card)
    assert isinstance(told, Refused) and "taken" in told.error.what


def test_another_finding_stands_on_a_full_card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(answer_to(tmp_path, monkeypatch, Finding.VALUES, full_card), Taped)


def test_more_memory_than_allowed_is_the_candidates_own_on_a_full_card_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(answer_to(tmp_path, monkeypatch, Finding.MEMORY, full_card, may_lack=False), Taped)


@pytest.mark.parametrize("card", [full_card, free_card])
def test_memory_that_was_refused_while_others_held_it_is_no_verdict_even_if_it_is_free_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, card: Any
) -> None:
    driver, judge = checker_of(tmp_path)
    judge.plan = plan_of(1)

    def refused(*_: object) -> None:
        raise MemoryTaken("38 MiB were asked for")

    monkeypatch.setattr(judge, "_answer", refused)
    monkeypatch.setattr(checker, "memory_was_taken", card)
    told = judged(driver, judge)
    assert isinstance(told, Refused) and type(told.error) is MemoryTaken


@pytest.mark.parametrize(
    ("held_bytes", "asked_bytes", "free_bytes", "is_taken"),
    [
        (3 << 29, 38 << 20, 20 << 20, True),
        (3 << 29, 38 << 20, 60 << 30, True),  # others freed theirs meanwhile
        (60 << 30, 38 << 20, 20 << 20, False),
        (0, 61 << 30, 70 << 30, False),
        (3 << 29, None, 20 << 20, True),
        (3 << 29, None, 20 << 30, False),
        (61 << 30, None, 20 << 20, False),
    ],
)
def test_a_candidate_that_holds_no_more_than_it_may_did_not_cause_a_shortage(
    held_bytes: int, asked_bytes: int | None, free_bytes: int, is_taken: bool
) -> None:
    refusal = MemoryRefusal(held_bytes=held_bytes, asked_bytes=asked_bytes, limit_bytes=60 << 30, free_bytes=free_bytes)
    assert (taken_at(refusal) is not None) is is_taken


def test_a_card_that_cannot_be_asked_leaves_no_driver_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = answer_to(tmp_path, monkeypatch, Finding.CRASHED, broken_card)
    assert isinstance(told, Bug) and "no one can say" in told.trace


def test_an_original_that_runs_out_of_memory_once_it_has_run_is_no_fault_of_the_problems(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def raised(*_: object) -> None:
        with user_module(tmp_path).running("forward"):
            raise torch.OutOfMemoryError("CUDA out of memory")

    told = answer_to(tmp_path, monkeypatch, Finding.MEMORY, raised)
    assert isinstance(told, Refused) and isinstance(told.error, InstrumentError)


def test_a_mistake_of_the_problems_stays_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def raised(*_: object) -> None:
        with user_module(tmp_path).running("verify(inputs, outputs)"):
            raise ValueError("no such thing")

    told = answer_to(tmp_path, monkeypatch, Finding.MEMORY, raised)
    assert isinstance(told, Refused) and isinstance(told.error, ProblemError)


def test_memory_that_cannot_be_freed_just_now_is_told_of_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def recording() -> None:
        raise RuntimeError("captures_underway")

    monkeypatch.setattr(torch.cuda, "empty_cache", recording)
    trouble = device_trouble(torch.OutOfMemoryError("CUDA out of memory"))
    assert trouble is not None and "does not suffice" in trouble.what


def test_who_has_most_of_a_card_cannot_say_that_others_took_it() -> None:
    card = 80 << 30
    assert room_needed(plan_of(1 << 20), card) == CONTEXT_BYTES + (CALLS_HELD << 20)
    assert room_needed(plan_of(8 << 30), card) == int(MOST_OF_A_CARD * card)
