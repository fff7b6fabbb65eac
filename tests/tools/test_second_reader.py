"""What a second process finds out of a problem is what the checker would have found, and finds out without it."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from triton_agent.tools.isolate.tensors import nested_tensors
from triton_agent.tools.problem import ProblemSpec, parse_problem
from triton_agent.tools.verify.plan import PlanSettings
from triton_agent.tools.verify.prepare import prepare_plan
from triton_agent.tools.verify.second_reader import TIMING_SETS, SecondReader
from triton_agent.tools.verify.sizes import AS_GIVEN
from triton_agent.tools.verify.variants import family

PROBLEM = """
import torch
ROWS, COLUMNS = 64, 2048
class Model(torch.nn.Module):
    def forward(self, x):
        return x * 2
def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]
"""


@pytest.fixture
def spec(tmp_path: Path) -> ProblemSpec:
    (tmp_path / "problem.py").write_text(PROBLEM)
    return parse_problem(str(tmp_path / "problem.py"))


@contextlib.contextmanager
def reading(spec: ProblemSpec, *, sizes: bool = True) -> Iterator[SecondReader]:
    reader = SecondReader(spec, contextlib.nullcontext, device="cpu", sizes=sizes)
    yield reader
    reader.close()
    assert not Path(f"/proc/{reader._pid}").exists()


def test_it_finds_the_sizes_that_the_checker_would_find_and_draws_inputs_of_its_own(spec: ProblemSpec) -> None:
    with reading(spec) as reader:
        assert reader.variants() == family(spec, 0)
        sets = reader.timing_sets()
    assert sets is not None and len(sets) == TIMING_SETS
    drawn = [nested_tensors(packed.unpack())[0] for packed in sets]
    assert all(tensor.shape == (64, 2048) for tensor in drawn)
    assert not torch.equal(drawn[0], drawn[1])
    assert all(packed.file is not None for packed in sets), "half a megabyte travels in a file"
    assert len({packed.identity() for packed in sets}) == TIMING_SETS


def test_a_plan_takes_the_sizes_it_found(spec: ProblemSpec) -> None:
    with reading(spec) as reader:
        plan = prepare_plan(spec, PlanSettings(modes=("eval",), remedies=False), second=reader)
    assert plan.facts["variants"] == [variant.name for variant in family(spec, 0)]
    assert len(plan.trials) > 1


def test_where_no_other_sizes_are_wanted_the_inputs_come_at_once(spec: ProblemSpec) -> None:
    with reading(spec, sizes=False) as reader:
        plan = prepare_plan(spec, PlanSettings(modes=("eval",), remedies=False, family=False), second=reader)
        drawn = reader.timing_sets()
    assert plan.facts["variants"] == [AS_GIVEN.name]
    assert drawn is not None and len(drawn) == TIMING_SETS


def test_one_that_dies_leaves_the_checker_to_find_out_for_itself(spec: ProblemSpec) -> None:
    with reading(spec) as reader:
        os.kill(reader._pid, signal.SIGKILL)
        os.waitid(os.P_PID, reader._pid, os.WEXITED | os.WNOWAIT)
        plan = prepare_plan(spec, PlanSettings(modes=("eval",), remedies=False), second=reader)
        assert len(plan.trials) > 1


def test_a_file_that_cannot_be_read_is_the_checkers_to_complain_of(tmp_path: Path) -> None:
    (tmp_path / "problem.py").write_text(PROBLEM.replace("ROWS, COLUMNS = 64, 2048", "raise ValueError('no')"))
    spec = parse_problem(str(tmp_path / "problem.py"))
    with reading(spec) as reader:
        assert reader.variants() is None or reader.timing_sets() is None


def test_it_can_be_closed_in_the_middle_of_its_work(spec: ProblemSpec) -> None:
    with reading(spec):
        pass
