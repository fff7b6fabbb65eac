"""Two GPUs on one problem, one run, one benchmark; skipped with fewer than two GPUs of one model."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

if not torch.cuda.is_available() or torch.cuda.device_count() < 2:
    pytest.skip("cards work side by side where there are two CUDA GPUs", allow_module_level=True)

from triton_agent.memory.store import Store
from triton_agent.runs.bench.command import STORE
from triton_agent.runs.bench.rows import read_record
from triton_agent.runs.cli.devices import choose
from triton_agent.runs.optimize.cards import opened_on
from triton_agent.tools.evaluate.evaluator import Evaluator
from triton_agent.tools.machine import hardware
from triton_agent.tools.machine.lease import holders
from triton_agent.tools.problem.problem import parse_problem
from triton_agent.tools.race import ceilings
from triton_agent.tools.results import Evaluation, Status
from triton_agent.tools.settings import EvaluatorSettings

if len({gpu.name for gpu in hardware.visible_gpus()}) > 1:
    pytest.skip("the visible GPUs are of different models", allow_module_level=True)

pytestmark = [pytest.mark.gpu, pytest.mark.xdist_group("gpu")]

SETTINGS = EvaluatorSettings(device="cuda", target=None, shapes="given", remedies=False, modes=("eval",))
CARDS = choose("cuda:0,1").uuids
KERNELS_EACH = 4

PROBLEM = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x * 2.0, dim=-1)

def get_inputs():
    return [torch.randn(4096, 2048)]
"""

KERNEL = """
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def softmax_kernel(x_ptr, y_ptr, width, BLOCK: tl.constexpr):
    at = tl.program_id(0) * width + tl.arange(0, BLOCK)
    inside = tl.arange(0, BLOCK) < width
    x = tl.load(x_ptr + at, mask=inside, other=float("-inf")) * 2.0
    e = tl.exp(x - tl.max(x, 0))
    tl.store(y_ptr + at, e / tl.sum(e, 0), mask=inside)

class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        softmax_kernel[(x.shape[0],)](x, y, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]), num_warps=WARPS)
        return y
"""

TELLS = """
import torch
import torch.nn as nn

class ModelNew(nn.Module):
    def forward(self, x):
        raise RuntimeError("on " + str(torch.cuda.get_device_properties(x.device).uuid))
"""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The results of two cards on one problem, and the holders of their leases meanwhile."""

    verdicts: tuple[list[Evaluation], list[Evaluation]]
    messages: tuple[str, ...]
    """Messages of a kernel that tells which card it runs on."""
    held_at_once: bool


class Watch:
    """Checks that both leases are held, by different processes."""

    def __init__(self) -> None:
        self.held_at_once = False
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def _look(self) -> None:
        while not self._end.is_set():
            one, other = ({holder.pid for holder in holders(card)} for card in CARDS)
            self.held_at_once |= bool(one) and bool(other) and one.isdisjoint(other)
            time.sleep(0.005)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._end.set()
        self._thread.join()


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    path = tmp_path_factory.mktemp("softmax") / "problem.py"
    path.write_text(PROBLEM)
    spec = parse_problem(str(path))

    async def go() -> Seen:
        sources = [KERNEL.replace("WARPS", str(2**number)) for number in range(KERNELS_EACH)]
        make = lambda card: Evaluator(spec, dataclasses.replace(SETTINGS, card=card))  # noqa: E731 - of one line
        async with opened_on(CARDS, make, print) as evaluators:
            first, second = evaluators
            with Watch() as watch:
                verdicts = await asyncio.gather(
                    *(evaluator.evaluate_async(source) for source in sources for evaluator in evaluators)
                )
            told = [(await evaluator.evaluate_async(TELLS)).message for evaluator in (first, second)]
        return Seen(verdicts=(verdicts[::2], verdicts[1::2]), messages=tuple(told), held_at_once=watch.held_at_once)

    return asyncio.run(go())


def test_one_problem_is_judged_and_timed_on_both_cards(seen: Seen) -> None:
    for card, verdicts in zip(CARDS, seen.verdicts):
        for verdict in verdicts:
            assert verdict.status is Status.PASSED, verdict.message
            assert verdict.timings and verdict.environment.gpu == card
    assert CARDS[0] != CARDS[1]


def test_workers_run_on_the_card_of_their_evaluator(seen: Seen) -> None:
    for card, message in zip(CARDS, seen.messages):
        assert card.removeprefix("GPU-") in message


def test_the_leases_of_both_are_held_at_once(seen: Seen) -> None:
    assert seen.held_at_once


def test_each_card_has_ceilings_of_its_own(seen: Seen) -> None:
    kept = [ceilings.load(path) for path in ceilings.cache_folder().glob("*.json")]
    assert set(CARDS) <= {item.uuid for item in kept if item is not None}


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """An environment with an empty cache, so that baselines are measured again."""
    yield {**os.environ, "XDG_CACHE_HOME": str(tmp_path_factory.mktemp("cache"))}


def command(*arguments: str | Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "triton_agent", *map(str, arguments)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=550,
    )


@pytest.mark.slow
def test_a_run_is_spread_over_both_and_ships_what_one_of_them_measured(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    problem = tmp_path / "problem.py"
    problem.write_text(PROBLEM)
    kept = ("--out", tmp_path / "out", "--store", tmp_path / "runs.db")
    how = ("--device", "cuda:0,1", "--turns", "2", "--parallel", "4", "--json")
    done = command("optimize", problem, *how, *kept, environment=environment)
    assert done.returncode in (0, 1), done.stderr  # 1: nothing was faster
    events = [json.loads(line) for line in done.stdout.splitlines()]
    graded = [event["evaluation"] for event in events if event["kind"] == "graded"]
    assert all(evaluation is not None for evaluation in graded)
    assert {evaluation["environment"]["gpu"] for evaluation in graded} == set(CARDS)


@pytest.mark.slow
def test_a_benchmark_has_a_problem_on_each_card(tmp_path: Path, environment: dict[str, str]) -> None:
    names = ("offset_rms_norm", "tanh_sigmoid_gate", "group_norm_silu")
    asked = [item for name in names for item in ("--problem", name)]
    how = ("--device", "cuda:0,1", "--turns", "1", "--parallel", "2", "--out", tmp_path / "out")
    done = command("bench", "suite", *asked, *how, environment=environment)
    assert done.returncode == 0, done.stderr
    record = read_record(tmp_path / "out")
    assert len(record.rows) == len(names) and not record.missing
    assert all(row.baselines for row in record.rows)
    with Store.open(tmp_path / "out" / STORE) as store:
        verdicts = [
            grading.evaluation
            for row in record.rows
            for attempt in store.attempts(row.samples[0].run)
            for grading in store.gradings(attempt.key)
        ]
    assert {verdict.environment.gpu for verdict in verdicts if verdict is not None} == set(CARDS)
