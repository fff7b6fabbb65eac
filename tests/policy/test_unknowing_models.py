"""`triton-agent optimize` with models of random weights: every answer gets a verdict, and nothing crashes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.policy.llm.engines.real_engines import assert_exact, require_transformers, vllm_python, vllm_server

from triton_agent.memory.store import Store
from triton_agent.runs.cli import exit_codes
from triton_agent.tools.results import Status

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
PROBLEM = ROOT / "tests" / "kernels" / "row_sum_f32" / "problem.py"
TURNS, PARALLEL = 2, 3


@pytest.fixture(params=["hf", "vllm", "openai"])
def policy(request: pytest.FixtureRequest, served_model: Path, tmp_path: Path) -> Iterator[list[str]]:
    """Yield the command-line options that select the author."""
    if request.param == "hf":
        require_transformers()
        yield ["--policy", f"hf:{served_model}", "--model-dtype", "float32"]
    elif request.param == "vllm":
        yield ["--policy", f"vllm:{served_model}", "--vllm-python", vllm_python(), "--model-dtype", "float32"]
    else:
        with vllm_server(served_model, tmp_path / "log") as url:
            yield ["--policy", "openai:served", "--base-url", url]


def test_a_model_that_knows_nothing_gets_a_verdict_for_every_answer(
    policy: list[str], served_model: Path, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "triton_agent", "optimize", str(PROBLEM), *policy, "--json"]
    command += ["--turns", str(TURNS), "--parallel", str(PARALLEL), "--max-answer-tokens", "48", "--temperature", "1"]
    command += ["--store", str(tmp_path / "db"), "--out", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500)
    assert done.returncode == exit_codes.NOT_PASSED, done.stderr
    assert "bug" not in done.stderr and "Traceback" not in done.stderr
    graded = [event for event in map(json.loads, done.stdout.splitlines()) if event["kind"] == "graded"]
    assert [event["evaluation"]["status"] for event in graded] == [Status.NO_ANSWER.value] * TURNS * PARALLEL
    with Store.open(tmp_path / "db") as store:
        answers = [attempt.completion for run in store.runs() for attempt in store.attempts(run.id)]
    assert len(answers) == TURNS * PARALLEL
    assert all(answer.policy == policy[1] and answer.messages for answer in answers)
    assert_exact(served_model, answers, temperature=1.0)
