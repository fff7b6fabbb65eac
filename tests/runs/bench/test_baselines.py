"""Baselines: a child that fails is a line, lines are whole, and on a GPU every problem gets all three, once."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from triton_agent.runs.bench.baselines import cards as baseline_cards
from triton_agent.runs.bench.baselines.cards import Baselines, measure
from triton_agent.runs.bench.baselines.table import COLUMNS, cells
from triton_agent.runs.bench.problems import of_suite
from triton_agent.runs.bench.rows import Against, BaselineTime, Kind, Where
from triton_agent.tools.errors import InstrumentError
from triton_agent.tools.machine.hardware import gpus
from triton_agent.tools.results import Interval

NAMES = ("offset_rms_norm", "tanh_sigmoid_gate")


@pytest.mark.skipif(bool(gpus()), reason="there is a GPU")
def test_children_that_fail_are_told_one_by_one() -> None:
    specs = [task.spec(Path()).to_json() for task in of_suite(quick=False, names=NAMES).tasks]
    done = subprocess.run(
        [sys.executable, "-m", "triton_agent.runs.bench.baselines.process"],
        input=json.dumps({"problems": specs, "at_once": 2}),
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    told = [json.loads(line) for line in done.stdout.splitlines()]
    results = {line["problem"]: line["result"] for line in told if "problem" in line}
    assert set(results) == {0, 1}
    assert all(result["times"] == [] and "CUDA" in result["failure"] for result in results.values())


@pytest.mark.skipif(bool(gpus()), reason="there is a GPU")
def test_several_cards_share_the_problems_and_each_is_told_once() -> None:
    specs = [task.spec(Path()) for task in of_suite(quick=False, names=NAMES).tasks]
    said: list[str] = []
    found = list(measure(specs, ["GPU-0", "GPU-1"], said.append))
    assert {(spec.name, card) for spec, card, _ in found} == {(specs[0].name, "GPU-0"), (specs[1].name, "GPU-1")}
    assert all(not result.times and "CUDA" in result.failure for _, _, result in found)
    assert [text.split("]")[0] for text in said] == ["[1/2", "[2/2"]


def test_what_a_card_leaves_undone_another_measures_until_none_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """The processes end at once, since there is no such module."""
    monkeypatch.setattr(baseline_cards, "PROCESS", "triton_agent.no_such_module")
    specs = [task.spec(Path()) for task in of_suite(quick=False, names=NAMES).tasks]
    with pytest.raises(InstrumentError, match="no_such_module"):
        list(measure(specs, ["GPU-0", "GPU-1"], [].append))


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
