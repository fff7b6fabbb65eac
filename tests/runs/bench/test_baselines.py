"""Baselines: a child that fails gives a note, lines are whole, and on a GPU every problem gets all three, once."""

from __future__ import annotations

import asyncio
import csv
import dataclasses
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from tests.runs.bench.test_journal import row

from triton_agent.runs.bench.baselines import process, references, worker
from triton_agent.runs.bench.baselines.clock import multiplies_float32
from triton_agent.runs.bench.baselines.found import Baselines, from_races, with_baselines
from triton_agent.runs.bench.baselines.memory import fitted, sized
from triton_agent.runs.bench.baselines.process import in_child
from triton_agent.runs.bench.baselines.references import References, ReferenceSettings
from triton_agent.runs.bench.baselines.table import COLUMNS, cells
from triton_agent.runs.bench.baselines.worker import Worker
from triton_agent.runs.bench.problems import Task, of_suite
from triton_agent.runs.bench.rows import Against, BaselineTime, Kind, ProblemRow, Speed, Where
from triton_agent.runs.cli.devices import Chosen
from triton_agent.tools.errors import InstrumentError
from triton_agent.tools.machine.card_memory import KEPT_FREE_BYTES, POLL_S, Reservation
from triton_agent.tools.machine.hardware import Gpu, gpus
from triton_agent.tools.problem.problem import parse_problem
from triton_agent.tools.results import Interval, Status

NAMES = ("offset_rms_norm", "tanh_sigmoid_gate")
GIB = 1 << 30
ONE = Interval(median=1.0, low=1.0, high=1.0)
EAGER = BaselineTime(against=Against.EAGER, kind=Kind.DEVICE, ms=ONE, over_eager=ONE)


def tasks() -> tuple[Task, ...]:
    return of_suite(quick=False, names=NAMES).tasks


def card(uuid: str, memory_bytes: int | None = 141 * GIB) -> Gpu:
    return Gpu(
        name="a card",
        uuid=uuid,
        compute_capability=None,
        memory_bytes=memory_bytes,
        sm_count=None,
        l2_bytes=None,
        driver=None,
        max_sm_clock_mhz=None,
        max_memory_clock_mhz=None,
    )


def chosen(*uuids: str, memory_bytes: int | None = 141 * GIB) -> Chosen:
    return Chosen(device="cuda", cards="all", gpus=tuple(card(uuid, memory_bytes) for uuid in uuids))


class Stand:
    """Replaces a worker: records the questions and returns a made-up answer."""

    asked: ClassVar[list[tuple[str, str]]] = []
    answer: ClassVar[dict[str, Any]] = {}
    seconds: ClassVar[float] = 0.0

    def __init__(self, card: str) -> None:
        self.card = card

    async def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        if "size" in question:
            return {"peak_bytes": 20 * GIB}
        Stand.asked.append((self.card, Path(question["measure"]["path"]).stem))
        await asyncio.sleep(Stand.seconds)
        return dict(Stand.answer)

    async def close(self) -> None:
        return


@pytest.fixture
def stand(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> type[Stand]:
    monkeypatch.setattr(references, "Worker", Stand)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(Stand, "asked", [])
    monkeypatch.setattr(Stand, "seconds", 0.0)
    monkeypatch.setattr(Stand, "answer", {"times": [], "failure": "no GPU"})
    return Stand


def looked_at(tmp_path: Path, cards: Chosen, **said: Any) -> References:
    return References(cards, ReferenceSettings(workspace=tmp_path, leases=tmp_path / "leases", **said), print)


def measured(found: References, on_found: Callable[[Task, Baselines], None] = lambda task, result: None) -> None:
    async def whole() -> None:
        ask_for_all(found)
        try:
            await found.measure(on_found)
        finally:
            await found.close()

    asyncio.run(whole())


def ask_for_all(found: References) -> None:
    for task in tasks():
        found.ask_for(task)
    found.ask_no_more()


# -- the process and its children --------------------------------------------------------------------------------------


@pytest.mark.skipif(bool(gpus()), reason="there is a GPU")
def test_without_a_gpu_every_problem_is_told_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    found = looked_at(tmp_path, chosen("GPU-0", memory_bytes=None))
    measured(found)
    assert set(found.found) == {task.label for task in tasks()}
    assert all(not result.times and "CUDA" in result.failure for result in found.found.values())


def test_a_process_that_does_not_begin_is_an_instruments_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "PROCESS", "triton_agent.no_such_module")

    async def asked() -> None:
        one = Worker("")
        try:
            await one.ask({"size": {}})
        finally:
            await one.close()

    with pytest.raises(InstrumentError, match="no_such_module"):
        asyncio.run(asked())


def test_a_child_is_ended_at_its_limit_and_its_death_is_told() -> None:
    began = time.monotonic()
    assert in_child(lambda: time.sleep(600) or {}, 0.2) == {"failure": "it took longer than 0 s"}
    assert time.monotonic() - began < 300
    assert in_child(lambda: os._exit(3), 60.0) == {"failure": "its process ended without an answer"}
    assert in_child(lambda: {"peak_bytes": 1}, 60.0) == {"peak_bytes": 1}
    assert in_child(lambda: {}["no"], 60.0)["failure"].startswith("KeyError")


def test_the_limit_of_the_compiler_is_the_one_that_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiler that takes too long means a missing baseline with a reason; the others are measured."""
    seen: dict[str, Any] = {}
    ended: list[bool] = []

    class Slow:
        def __init__(self, *args: Any, limit_s: float, **kwargs: Any) -> None:
            seen["limit_s"] = limit_s

        def share(self, *args: Any) -> None:
            return

        def wait(self, tell: Callable[[], None]) -> bool:
            return False

        def end(self) -> None:
            ended.append(True)

    def in_this_process(work: Callable[[], dict[str, Any]], limit_s: float) -> dict[str, Any]:
        return work()

    class Contest:
        def __init__(self, spec: Any, gpu: str, compiled: object, *, without_compile: str = "") -> None:
            self.notes = [without_compile]

        def measure(self) -> dict[str, Any]:
            return {"times": [], "notes": self.notes, "failure": ""}

    from triton_agent.runs.bench.baselines import clock
    from triton_agent.tools.race import compiled_process

    monkeypatch.setattr(compiled_process, "CompiledProcess", Slow)
    monkeypatch.setattr(clock, "Contest", Contest)
    monkeypatch.setattr(process, "in_child", in_this_process)
    monkeypatch.setattr(process, "_gpu", lambda: {"gpu": "GPU-0"})
    answer = process._measure({"measure": tasks()[0].spec(Path()).to_json(), "limit_s": 7.0})
    assert seen == {"limit_s": 7.0} and ended
    assert answer["notes"] == ["baseline compile was not measured: torch.compile took longer than 7 s"]


# -- beside the verdicts -----------------------------------------------------------------------------------------------


def test_cards_share_the_problems_and_each_is_asked_once(stand: type[Stand], tmp_path: Path) -> None:
    stand.seconds = 0.05
    found = looked_at(tmp_path, chosen("GPU-0", "GPU-1"))
    measured(found)
    assert sorted(name for _, name in stand.asked) == sorted(NAMES)
    assert {uuid for uuid, _ in stand.asked} == {"GPU-0", "GPU-1"}


def test_races_with_eager_and_torch_compile_give_the_baselines() -> None:
    def speed(against: Against, kind: Kind, times: float, baseline_ms: float) -> Speed:
        return Speed(
            against=against,
            kind=kind,
            speedup=Interval(median=times, low=0.9 * times, high=1.1 * times),
            kernel_ms=ONE,
            baseline_ms=Interval(median=baseline_ms, low=baseline_ms, high=baseline_ms),
            baseline=against.value,
        )

    speeds = [speed(Against.EAGER, kind, 4.0, 12.0) for kind in Kind]
    raced = [*speeds, *(speed(Against.COMPILE, kind, 2.0, 6.0) for kind in Kind)]
    (sample,) = (whole := row("a/x")).samples

    def with_speeds(found: list[Speed]) -> ProblemRow:
        return dataclasses.replace(
            whole, samples=(dataclasses.replace(sample, status=Status.PASSED, executed=True, speeds=tuple(found)),)
        )

    assert from_races(with_speeds(speeds)) == from_races(whole) == ()
    found = {(time.against, time.kind): time for time in from_races(with_speeds(raced))}
    assert len(found) == 4 and found[Against.EAGER, Kind.DEVICE] == dataclasses.replace(EAGER, ms=speeds[0].baseline_ms)
    compiled = found[Against.COMPILE, Kind.DEVICE]
    assert compiled.ms.median == 6.0
    over = compiled.over_eager
    assert (over.low, over.median, over.high) == pytest.approx((3.6 / 2.2, 2.0, 4.4 / 1.8))


def test_what_was_measured_is_known_the_next_time_unless_it_is_asked_for_again(
    stand: type[Stand], tmp_path: Path
) -> None:
    from triton_agent.tools.results import to_json

    compiled = BaselineTime(against=Against.COMPILE, kind=Kind.DEVICE, ms=ONE, over_eager=ONE)
    stand.answer = {"times": to_json([EAGER, compiled]), "failure": ""}
    for again, count in ((False, 2), (False, 2), (True, 4)):
        measured(looked_at(tmp_path, chosen("GPU-0"), again=again))
        assert len(stand.asked) == count


def test_a_compiler_that_took_too_long_is_asked_again_only_with_more_time(stand: type[Stand], tmp_path: Path) -> None:
    from triton_agent.tools.results import to_json

    stand.answer = {"times": to_json([EAGER]), "notes": ["torch.compile took longer than 60 s"], "failure": ""}
    for limit_s, count in ((60.0, 2), (30.0, 2), (120.0, 4)):
        measured(looked_at(tmp_path, chosen("GPU-0"), compile_limit_s=limit_s))
        assert len(stand.asked) == count


def test_baselines_that_do_not_fit_beside_a_verdict_wait_for_it(stand: type[Stand], tmp_path: Path) -> None:
    folder, capacity_bytes = tmp_path / "leases", 141 * GIB - KEPT_FREE_BYTES
    verdict = Reservation("GPU-0", 100 * GIB, capacity_bytes=capacity_bytes, what="a verdict", folder=folder)
    assert verdict.granted()

    async def whole() -> None:
        found = looked_at(tmp_path, chosen("GPU-0"))
        assert (await found.of(tasks()[0])).baseline_bytes == 62 * GIB and found.capacity_bytes == capacity_bytes
        ask_for_all(found)
        measuring = asyncio.create_task(found.measure(lambda task, result: None))
        await asyncio.sleep(5 * POLL_S)
        assert not stand.asked
        verdict.close()
        await measuring
        await found.close()

    asyncio.run(whole())
    assert len(stand.asked) == len(tasks())


def test_reasons_for_missing_baselines_stand_in_the_row() -> None:
    found = Baselines(times=(EAGER,), notes=("baseline compile was not measured: it took too long",), limit_s=60.0)
    made = with_baselines(row("a/x"), found)
    assert made.baselines == (EAGER,) and found.notes[0] in made.notes
    assert with_baselines(made, found) == made
    lost = with_baselines(row("a/x"), Baselines(times=(), failure="it took longer than 300 s"))
    assert lost.notes[-1] == "its baselines were not measured: it took longer than 300 s"


# -- memory ------------------------------------------------------------------------------------------------------------

WIDE = """
import torch
BATCH = 64
ROWS = 4096
WIDTH = 8192
class Model(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(width))
    def forward(self, x):
        return x * self.weight
def get_inputs():
    return [torch.randn(BATCH, ROWS, WIDTH)]
def get_init_inputs():
    return [WIDTH]
"""


def test_a_reference_that_does_not_fit_is_scaled_down_batch_first_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "wide.py"
    path.write_text(WIDE)
    spec = parse_problem(str(path))
    told = in_child(lambda: sized(spec, 20 * GIB), 120.0)
    assert told["sentence"] == "scaled down to fit the card: BATCH 64 -> 32"
    problem = fitted(spec, told, 20 * GIB, tmp_path / "scaled")
    assert "BATCH = 32" in Path(problem.spec.path).read_text() and problem.spec.digest != spec.digest
    assert problem.baseline_bytes == 20 * GIB


def test_a_reference_that_fits_stays_as_it_is_and_its_needs_are_told(tmp_path: Path) -> None:
    path = tmp_path / "wide.py"
    path.write_text(WIDE)
    spec = parse_problem(str(path))
    told = in_child(lambda: sized(spec, 139 * GIB), 120.0)
    peak = 2 * 8 * GIB + 4 * 8192
    assert told == {"peak_bytes": peak}
    problem = fitted(spec, told, 139 * GIB, tmp_path)
    assert problem.spec is spec and problem.baseline_bytes == int(3.0 * peak) + 2 * GIB


def test_half_a_card_is_reserved_for_what_cannot_be_predicted(tmp_path: Path) -> None:
    spec = tasks()[0].spec(tmp_path)
    problem = fitted(spec, {"failure": "it branches on values"}, 100 * GIB, tmp_path)
    assert (problem.baseline_bytes, problem.sentence) == (50 * GIB, "")


@pytest.mark.parametrize(
    ("call", "matters"),
    [
        (lambda: torch.nn.functional.linear(torch.ones(2, 3), torch.ones(4, 3)), True),
        (lambda: torch.nn.functional.conv1d(torch.ones(1, 2, 8), torch.ones(2, 2, 3)), True),
        (lambda: torch.ones(2, 3, dtype=torch.bfloat16) @ torch.ones(3, 2, dtype=torch.bfloat16), False),
        (lambda: torch.softmax(torch.ones(2, 3), 1), False),
    ],
)
def test_tf32_is_timed_where_float32_matrices_are_multiplied(call: Callable[[], object], matters: bool) -> None:
    assert multiplies_float32(call) == matters


# -- the table ---------------------------------------------------------------------------------------------------------


def test_line_of_a_problem_names_baseline_kind_and_interval() -> None:
    (task,) = of_suite(quick=False, names=NAMES[:1]).tasks
    ms, ratio = Interval(median=0.2, low=0.1, high=0.3), Interval(median=1.5, low=1.4, high=1.6)
    time = BaselineTime(against=Against.EAGER_TF32, kind=Kind.LATENCY, ms=ms, over_eager=ratio)
    result = Baselines(times=(time,), notes=("no compile",), measured_at="2026-01-31", commit="abc")
    line = cells(task, "0" * 64, result, Where(device="cuda", gpu="a card"))
    assert set(line) <= set(COLUMNS) and line["problem"] == task.label and line["note"] == "no compile"
    assert (line["eager-tf32_latency_ms"], line["eager-tf32_latency_over_eager_high"]) == ("0.2", "1.6")
    assert "compile_device_ms" not in line


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.skipif(not gpus(), reason="needs a GPU")
def test_every_problem_gets_every_baseline_and_is_measured_once(tmp_path: Path) -> None:
    asked = [word for name in NAMES for word in ("--problem", name)]
    argv = [sys.executable, "-m", "triton_agent", "bench", "baselines", *asked, "--out", str(tmp_path / "made.csv")]
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    first = subprocess.run(argv, capture_output=True, text=True, env=env, timeout=550)
    assert first.returncode == 0, first.stderr
    with (tmp_path / "made.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == len(NAMES)
    assert all(float(line[f"{against}_device_ms"]) > 0 for line in lines for against in Against)
    again = subprocess.run(argv, capture_output=True, text=True, env=env, timeout=550)
    assert "compiling" in first.stderr and "compiling" not in again.stderr
