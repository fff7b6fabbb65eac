"""Kernels compiled beforehand land in the folder of the worker that will run them; nothing is decided by it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from triton_agent.tools.crew import COMPILER, Crew, CrewSettings, Team
from triton_agent.tools.isolate.conditions import DEFAULT
from triton_agent.tools.isolate.processes import Nursery
from triton_agent.tools.problem import parse_problem
from triton_agent.tools.verify.ahead import fill_cache
from triton_agent.tools.verify.plan import Plan, PlanSettings
from triton_agent.tools.verify.prepare import prepare_plan
from triton_agent.tools.verify.session import Session

TARGET = "cuda:90"
FOLDER = Path(__file__).resolve().parent.parent / "kernels" / "linear_relu_f32"


@pytest.fixture(scope="module")
def plan() -> Plan:
    return prepare_plan(parse_problem(str(FOLDER / "problem.py")), PlanSettings(modes=("eval",), remedies=False))


@contextlib.contextmanager
def at_work(nursery: Nursery, folder: Path, compilers: int) -> Iterator[tuple[Team, list[Session]]]:
    """A candidate's worker, which never hears of it here, and those who compile for it."""
    settings = CrewSettings(
        modes=("interpreter",),
        target=TARGET,
        folder=folder,
        memory_bytes=1 << 30,
        copies_bytes=0,
        cpu_s=60,
        compilers=compilers,
    )
    crew = Crew({mode: nursery.mode(mode, TARGET) for mode in ("interpreter", COMPILER)}, settings)
    try:
        with crew.team() as team:
            until = time.monotonic() + 60
            yield team, [Session(one.channel, call_timeout_s=60, deadline=until) for one in team.compilers]
    finally:
        crew.close()


def cubins(team: Team) -> list[Path]:
    return sorted(Path(team.judged[0].scratch).glob("triton/*/*.cubin"))


def test_every_sizes_kernels_are_there_before_the_candidate_runs(nursery: Nursery, tmp_path: Path, plan: Plan) -> None:
    source = (FOLDER / "right_tiles.py").read_text()
    with at_work(nursery, tmp_path, compilers=2) as (team, sessions):
        assert len(sessions) == 2 and cubins(team) == []
        fill_cache(source, plan.trials, sessions, DEFAULT)
        assert cubins(team)


@pytest.mark.parametrize(
    "source",
    [
        "import torch\n\nraise RuntimeError('not here')\n",
        "x = 1\n",
        "import torch\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, *x):\n        return x[0].nothing()\n",
    ],
)
def test_what_fails_here_is_left_to_the_candidates_own_turn(
    nursery: Nursery, tmp_path: Path, plan: Plan, source: str
) -> None:
    with at_work(nursery, tmp_path, compilers=1) as (team, sessions):
        fill_cache(source, plan.trials, sessions, DEFAULT)
        assert cubins(team) == []


def test_compilers_are_shared_out_among_those_at_work(nursery: Nursery, tmp_path: Path) -> None:
    with at_work(nursery, tmp_path, compilers=0) as (team, _):
        assert team.compilers == []
    with at_work(nursery, tmp_path, compilers=3) as (team, _):
        assert len(team.compilers) == 3
