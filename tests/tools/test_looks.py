"""Renewed inputs before each timed call, and checks of the outputs of timed calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.tools.played_workers import played_by

from triton_agent.tools.answers.timed_looks import Looks
from triton_agent.tools.cases.plan import Case
from triton_agent.tools.checker.prepare import prepare_plan
from triton_agent.tools.checker.session import Failed
from triton_agent.tools.executor.program import Run
from triton_agent.tools.executor.stopwatch import TimedCall
from triton_agent.tools.problem.problem import parse_problem
from triton_agent.tools.processes.answers import hand_over
from triton_agent.tools.processes.codec import to_plain
from triton_agent.tools.processes.payloads import receive_request
from triton_agent.tools.processes.protocol import Done, HoldInputs, ReadClock, Readings
from triton_agent.tools.processes.wire import Channel, ChannelClosed
from triton_agent.tools.race.readings import Sample
from triton_agent.tools.race.renewal import renew
from triton_agent.tools.results import Finding
from triton_agent.tools.settings import EvaluatorSettings
from triton_agent.tools.tape.outline import tensors_in

RELU = Path(__file__).parents[1] / "cheats" / "problems" / "relu.py"
SAMPLE = Sample(device_ms=1.0, host_ms=1.0, enqueue_ms=0.5, queued=True)
SENT_AHEAD = -1
TREE = {"tensor": 0}
"""The tracer's description of a forward that returns one tensor."""


@pytest.fixture(scope="module")
def cases() -> Iterator[tuple[Case, ...]]:
    plan = prepare_plan(parse_problem(str(RELU)), EvaluatorSettings(modes=("eval",), shapes="given"))
    yield plan.trials[plan.main].cases[:3]


def sorted_numbers(tensor: torch.Tensor) -> list[float]:
    return sorted(tensor.reshape(-1).tolist())


@pytest.mark.parametrize(
    "tensor",
    [torch.randn(7, 33), torch.randn(50, 8).t(), torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)],
)
def test_renewed_inputs_hold_the_same_numbers_elsewhere(tensor: torch.Tensor) -> None:
    seen = [tensor.clone()]
    for _ in range(4):
        renew([tensor])
        assert not any(torch.equal(tensor, earlier) for earlier in seen)
        assert sorted_numbers(tensor) == sorted_numbers(seen[0])
        seen.append(tensor.clone())


def test_no_row_of_renewed_inputs_is_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("triton_agent.tools.race.renewal.MOST_TURNED", 500)
    tensor, pair = torch.randn(64, 24), torch.randn(2)
    for _ in range(5):
        before, other = tensor.clone(), pair.clone()
        renew([tensor, pair])
        assert not (tensor == before).all(dim=1).any() and torch.equal(pair, other.flip(0))
        assert sorted_numbers(tensor) == sorted_numbers(before)


def test_indices_flags_and_gaps_between_elements_stay_as_they_are() -> None:
    memory = torch.randn(6, 10)
    values = {"ids": torch.arange(9), "mask": torch.ones(4, dtype=torch.bool), "slice": memory[:, 2:5], "size": 7}
    before = {name: value.clone() if isinstance(value, torch.Tensor) else value for name, value in values.items()}
    renew(values)
    assert all(torch.equal(values[name], before[name]) for name in ("ids", "mask", "slice"))


def test_renewing_leaves_no_sign_on_a_version_counter() -> None:
    tensor = torch.randn(100)
    before = tensor._version
    renew([tensor])
    assert tensor._version == before


def test_a_timed_call_that_is_looked_at_gets_other_inputs_in_the_same_tensors() -> None:
    addresses: list[int] = []

    def double(x: torch.Tensor) -> torch.Tensor:
        addresses.append(x.data_ptr())
        return 2 * x

    call = TimedCall(Answering(double), [torch.randn(50)], renewed=True)
    asked = torch.randn(50)
    call.refresh()
    call()
    call.take([asked.clone()])
    call.refresh()
    call()
    call.refresh()  # the clock may repeat a reading
    call()
    readings, groups = call.shown(())
    assert torch.equal(groups[0][0].view(torch.float32), 2 * asked)
    assert readings.outputs[0].shape == (50,)
    assert len(set(addresses)) == 1


def worker(answer: Callable[[torch.Tensor], torch.Tensor], asked: list[int]) -> Callable[[Channel], None]:
    """A fake worker: times nothing, gives preset answers, and records which kind of call was requested, or
    `SENT_AHEAD`.
    """

    def play(channel: Channel) -> None:
        held: list[Any] = []
        while True:
            try:
                request, payloads = receive_request(channel, ReadClock | HoldInputs)
            except ChannelClosed:
                return
            inputs: list[Any] = [payload.unpack() for payload in payloads]
            if isinstance(request, HoldInputs):
                held = inputs
                asked.append(SENT_AHEAD)
                channel.send(to_plain(Done()))
                continue
            if request.held:
                inputs, held = held, []
            if not inputs:
                channel.send(to_plain(Readings(samples=(SAMPLE,) * len(request.turns))))
                continue
            asked.append(request.later)
            call = TimedCall(Answering(answer), tensors_in(inputs[0]), renewed=False)
            call.take(tensors_in(inputs[0]))
            call.refresh()
            call()
            hand_over(channel, *call.shown((SAMPLE,)))

    return play


class Answering:
    """A stand-in for a program, with preset answers."""

    def __init__(self, answer: Callable[[torch.Tensor], torch.Tensor]) -> None:
        self.answer = answer

    def bound(self, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        return inputs

    def call(self, inputs: list[torch.Tensor], run: Run) -> list[torch.Tensor]:
        return [self.answer(*inputs)]


def looks_after(
    samples: int,
    answer: Callable[[torch.Tensor], torch.Tensor],
    cases: tuple[Case, ...],
    asked: list[int] | None = None,
) -> Looks:
    with played_by(worker(answer, [] if asked is None else asked)) as session:
        looks = Looks(cases)
        for _ in cases:
            looks.begin(samples)
            for turn in range(0, samples, 2):
                turns = list(range(turn, min(turn + 2, samples)))
                assert len(looks.ask(session, turns)) == len(turns)
    return looks


def test_both_kinds_of_call_are_looked_at_in_the_first_series_and_one_of_them_later(cases: tuple[Case, ...]) -> None:
    asked: list[int] = []
    looks = looks_after(5, torch.relu, cases, asked)
    assert [look.case for look in looks.taken] == list(reversed(cases))
    assert sorted(asked[:2]) == [0, 1] and len(asked) == 3
    looks.judge(TREE, "cpu")


def test_each_series_of_long_calls_has_one_look(cases: tuple[Case, ...]) -> None:
    asked: list[int] = []
    with played_by(worker(torch.relu, asked)) as session:
        looks = Looks(cases)
        for _ in range(2):
            looks.begin(4, one_call=True)
            assert all(len(looks.ask(session, [turn], one_call=True)) == 1 for turn in range(4))
    assert asked == [0, 0]
    looks.judge(TREE, "cpu")


def test_a_series_of_one_sample_has_one_look(cases: tuple[Case, ...]) -> None:
    asked: list[int] = []
    looks_after(1, torch.relu, cases, asked)
    assert len(asked) == 3


def test_a_race_that_is_run_again_is_looked_at_again_and_both_are_judged(cases: tuple[Case, ...]) -> None:
    asked: list[int] = []
    looks = Looks(cases)
    with played_by(worker(torch.zeros_like, asked)) as session:
        for _ in range(2):
            race = looks.afresh()
            race.begin(2)
            race.ask(session, [0, 1])
    assert sorted(asked) == [0, 0, 1, 1] and len(looks.taken) == 4
    with pytest.raises(Failed):
        looks.judge(TREE, "cpu")


def test_large_inputs_are_sent_before_the_race_and_again_if_it_is_repeated(
    cases: tuple[Case, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("triton_agent.tools.cases.plan.LARGE_BYTES", 1)
    asked: list[int] = []
    with played_by(worker(torch.relu, asked)) as session:
        looks = Looks(cases[:1])
        looks.send_ahead(session)
        for _ in range(2):
            race = looks.afresh()
            race.begin(1, one_call=True)
            race.ask(session, [0], one_call=True)
    assert asked == [SENT_AHEAD, 0, 0]


def test_a_file_that_is_wrong_only_while_the_clock_runs_lied_to_the_clock(cases: tuple[Case, ...]) -> None:
    with pytest.raises(Failed) as failed:
        looks_after(3, torch.zeros_like, cases).judge(TREE, "cpu")
    assert failed.value.finding is Finding.FALSE_CLOCK


def test_an_answer_that_is_only_imprecise_while_the_clock_runs_is_no_cheat(cases: tuple[Case, ...]) -> None:
    with pytest.raises(Failed) as failed:
        looks_after(3, lambda x: torch.relu(x).bfloat16().float(), cases).judge(TREE, "cpu")
    assert failed.value.finding is Finding.PRECISION


def test_without_cases_nothing_is_looked_at() -> None:
    assert looks_after(2, torch.relu, ()).taken == []
