"""A candidate that had too little of the GPU's memory: whether that stands, and that the driver is always answered."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from triton_agent.tools.checker import checker
from triton_agent.tools.checker.checker import Checker, device_trouble
from triton_agent.tools.checker.memory_shortage import CALLS_HELD, CONTEXT_BYTES, MOST_OF_A_CARD, room_needed
from triton_agent.tools.errors import InstrumentError, ProblemError
from triton_agent.tools.problem import source as problem_source
from triton_agent.tools.problem.problem import parse_problem
from triton_agent.tools.processes.wire import Channel, error_from_json
from triton_agent.tools.reference.user_code import UserModule

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
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, finding: str, taken: Any, *, measured: bool = False
) -> dict[str, Any]:
    """What a driver is told of a candidate with this finding, where the card says so."""
    (tmp_path / "problem.py").write_text(PROBLEM)
    spec = parse_problem(str(tmp_path / "problem.py"))
    driver, ours = Channel.pair()
    judge = Checker(ours, {"spec": spec.to_json(), "judge": {}, "plan": {"modes": ["eval"]}})
    judge.plan = plan_of(1)
    monkeypatch.setattr(judge, "_verdict", lambda *_: {"verdict": {"finding": finding, "measured": measured}})
    monkeypatch.setattr(checker, "memory_was_taken", taken)
    thread = threading.Thread(target=judge.judge, args=({"job": 7, "source": "", "roles": []}, []))
    thread.start()
    told, _ = driver.receive(20)
    thread.join()
    return told


def test_a_message_without_the_processes_gets_an_answer_too(tmp_path: Path) -> None:
    (tmp_path / "problem.py").write_text(PROBLEM)
    driver, ours = Channel.pair()
    spec = parse_problem(str(tmp_path / "problem.py")).to_json()
    judge = Checker(ours, {"spec": spec, "judge": {}, "plan": {"modes": ["eval"]}})
    judge.judge({"job": 7, "source": ""}, [])
    told, _ = driver.receive(20)
    assert told["job"] == 7 and "KeyError: 'roles'" in told["bug"]


def user_module(folder: Path) -> UserModule:
    source = problem_source.read(folder / "problem.py")
    return UserModule(source, source.tree)


def full_card(plan: Any) -> InstrumentError:
    return InstrumentError("the GPU's memory is taken")


def broken_card(plan: Any) -> None:
    raise RuntimeError("no one can say")


def test_nothing_is_known_of_a_candidate_whose_memory_others_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "taken" in str(answer_to(tmp_path, monkeypatch, "memory", full_card)["error"])


def test_another_finding_stands_on_a_full_card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert answer_to(tmp_path, monkeypatch, "values", full_card)["verdict"]["finding"] == "values"


def test_more_memory_than_allowed_is_the_candidates_own_on_a_full_card_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = answer_to(tmp_path, monkeypatch, "memory", full_card, measured=True)
    assert told["verdict"]["finding"] == "memory"


def test_a_card_that_cannot_be_asked_leaves_no_driver_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "no one can say" in answer_to(tmp_path, monkeypatch, "crashed", broken_card)["bug"]


def test_an_original_that_runs_out_of_memory_once_it_has_run_is_no_fault_of_the_problems(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def raised(*_: object) -> None:
        with user_module(tmp_path).running("forward"):
            raise torch.OutOfMemoryError("CUDA out of memory")

    told = answer_to(tmp_path, monkeypatch, "memory", raised)
    assert isinstance(error_from_json(told["error"]), InstrumentError)


def test_a_mistake_of_the_problems_stays_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def raised(*_: object) -> None:
        with user_module(tmp_path).running("verify(inputs, outputs)"):
            raise ValueError("no such thing")

    told = answer_to(tmp_path, monkeypatch, "memory", raised)
    assert isinstance(error_from_json(told["error"]), ProblemError)


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
