"""A module that is called with a named tuple of its own file is judged and shipped like any other."""

from __future__ import annotations

import copy
import json
import pickle
import typing
from pathlib import Path

import torch
from tests.runs.commands import call

from triton_agent.runs.ship.module_forms import checks_of
from triton_agent.tools.problem import named_tuples
from triton_agent.tools.problem.input_spec import parse_input
from triton_agent.tools.problem.problem import parse_problem
from triton_agent.tools.reference.reference import load
from triton_agent.tools.tape import outline

PROBLEM = """
import typing

import torch


class State(typing.NamedTuple):
    x: torch.Tensor
    scale: torch.Tensor


class Model(torch.nn.Module):
    def forward(self, state, options):
        return state.x * state.scale + options["bias"]


def get_inputs():
    return [State(torch.randn(8, 32), torch.rand(32)), {"bias": torch.randn(32)}]


def get_init_inputs():
    return []
"""
KERNEL = """
import torch
import triton
import triton.language as tl


@triton.jit
def scaled(x, scale, bias, out, COLUMNS: tl.constexpr):
    row, columns = tl.program_id(0), tl.arange(0, COLUMNS)
    value = tl.load(x + row * COLUMNS + columns) * tl.load(scale + columns) + tl.load(bias + columns)
    tl.store(out + row * COLUMNS + columns, value)


class ModelNew(torch.nn.Module):
    def forward(self, state, options):
        x, scale = state.x.contiguous(), state[1].contiguous()
        out = torch.empty_like(x)
        scaled[(x.shape[0],)](x, scale, options["bias"].contiguous(), out, COLUMNS=x.shape[1])
        return out
"""


class State(typing.NamedTuple):
    x: torch.Tensor
    scale: int


def test_a_named_tuple_is_rebuilt_by_its_description() -> None:
    made = named_tuples.rebuilt("State", ("x", "scale"), (1, 2))
    for copied in (pickle.loads(pickle.dumps(made)), copy.deepcopy(made)):
        assert copied == made and type(copied) is type(made) and copied.scale == 2


def test_its_outline_survives_as_json() -> None:
    given = outline.outline([named_tuples.rebuilt("State", ("x", "scale"), (torch.ones(2), 3))])
    read = outline.from_json(json.loads(json.dumps(outline.to_json(given))))
    assert read == given
    assert outline.fill(read.values, ["a tensor"])[0].x == "a tensor"


def test_the_guard_takes_the_user_s_class_and_no_other() -> None:
    given = outline.outline([named_tuples.rebuilt("State", ("x", "scale"), (torch.ones(2), 3))])
    condition = " and ".join(checks_of("state", given.values[0], given.tensors))
    for state, admitted in (
        (State(torch.ones(2), 3), True),
        (State(torch.ones(2), 4), False),
        ((torch.ones(2), 3), False),
    ):
        assert eval(condition, {"torch": torch, "state": state}) is admitted


def test_an_option_makes_it_by_the_name_of_its_class(tmp_path: Path) -> None:
    text = "State(f32[8,32], scale=f32[32])"
    assert str(parse_input(text)) == text
    (tmp_path / "problem.py").write_text(PROBLEM.partition("def get_inputs")[0])
    spec = parse_problem(f"{tmp_path / 'problem.py'}:Model", inputs=(text, "{'bias': f32[32]}"))
    state, options = load(spec).make_inputs(0)
    assert state.x.shape == (8, 32) and state.scale.shape == options["bias"].shape == (32,)


def test_a_kernel_reads_its_fields_by_name(tmp_path: Path) -> None:
    (tmp_path / "problem.py").write_text(PROBLEM)
    (tmp_path / "kernel.py").write_text(KERNEL)
    paths = (str(tmp_path / "problem.py"), str(tmp_path / "kernel.py"))
    done = call("evaluate", *paths, "--target", "none", "--shapes", "given", "--json")
    assert done.json["status"] == "passed", done.stdout
