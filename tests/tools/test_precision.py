"""The precision that the user allows decides what passes: TF32 only on request, autocast as the user runs it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch

from triton_agent.tools.evaluate.evaluator import Evaluator
from triton_agent.tools.problem.problem import parse_problem
from triton_agent.tools.processes.torch_switches import Conditions
from triton_agent.tools.processes.zygotes import Nursery
from triton_agent.tools.reference.tensor_cores import as_the_user_runs_it, at_the_coarsest, to_tf32
from triton_agent.tools.results import Evaluation, Finding, Status
from triton_agent.tools.settings import EvaluatorSettings
from triton_agent.tools.truth.expectation import Expectation, expect

PROBLEM = """
import torch
import torch.nn as nn

ROWS, INNER, COLUMNS = 33, 70, 45

class Model(nn.Module):
    def forward(self, a, b):
        return torch.relu(a @ b)

def get_inputs():
    return [torch.randn(ROWS, INNER), torch.randn(INNER, COLUMNS)]
"""

KERNEL = """
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def product(a_ptr, b_ptr, y_ptr, m, n, k, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for start in range(0, k, BLOCK):
        inner = start + tl.arange(0, BLOCK)
        a_inside = (row[:, None] < m) & (inner[None, :] < k)
        b_inside = (inner[:, None] < k) & (column[None, :] < n)
        a = tl.load(a_ptr + row[:, None] * k + inner[None, :], mask=a_inside, other=0.0)
        b = tl.load(b_ptr + inner[:, None] * n + column[None, :], mask=b_inside, other=0.0)
        total = DOT
    y = tl.maximum(total, 0.0, propagate_nan=tl.PropagateNan.ALL)
    tl.store(y_ptr + row[:, None] * n + column[None, :], y, mask=(row[:, None] < m) & (column[None, :] < n))

class ModelNew(nn.Module):
    def forward(self, a, b):
        a, b = a.contiguous(), b.contiguous()
        (m, k), n = a.shape, b.shape[1]
        y = torch.empty((m, n), dtype=OUT, device=a.device)
        product[(triton.cdiv(m, 32), triton.cdiv(n, 32))](a, b, y, m, n, k, BLOCK=32)
        return y
""".replace("OUT", "torch.float32")

DOTS = {
    "default": "tl.dot(a, b, total)",
    "tf32x3": 'tl.dot(a, b, total, input_precision="tf32x3")',
    "ieee": 'tl.dot(a, b, total, input_precision="ieee")',
    "bfloat16": "tl.dot(a.to(tl.bfloat16), b.to(tl.bfloat16), total)",
}


def judged(nursery: Nursery, folder: Path, *dots: str, **conditions: str) -> list[Evaluation]:
    (folder / "problem.py").write_text(PROBLEM)
    settings = dataclasses.replace(EvaluatorSettings(target=None), **conditions)  # type: ignore[arg-type]
    with Evaluator(parse_problem(str(folder / "problem.py")), settings, nursery=nursery) as evaluator:
        return [evaluator.evaluate(KERNEL.replace("DOT", dot)) for dot in dots]


def test_a_default_dot_passes_only_where_tf32_is_allowed(nursery: Nursery, tmp_path: Path) -> None:
    (strict,) = judged(nursery, tmp_path, DOTS["default"])
    assert (strict.status, strict.finding) == (Status.WRONG_VALUES, Finding.PRECISION)
    (allowed,) = judged(nursery, tmp_path, DOTS["default"], precision="tf32")
    assert allowed.status is Status.PASSED, allowed.message


def test_a_rounding_is_named_as_the_cause_only_where_errors_look_like_one(nursery: Nursery, tmp_path: Path) -> None:
    without_dots = "total + tl.sum(a[:, :, None] * b[None, :, :], 1)"
    in_some_columns = f"{DOTS['ieee']} * tl.where(column[None, :] < 9, 1.0002, 1.0)"
    dots = DOTS["default"], DOTS["bfloat16"], f"1.0001 * ({without_dots})", in_some_columns
    verdicts = judged(nursery, tmp_path, *dots)
    assert {verdict.finding for verdict in verdicts} == {Finding.PRECISION}
    assert ["likely cause: a value rounded" in verdict.message for verdict in verdicts] == [True, True, False, False]
    assert all("compare each step with the reference's" in verdict.message for verdict in verdicts[2:])


def test_more_precise_dots_pass_either_way(nursery: Nursery, tmp_path: Path) -> None:
    for precision in ("same", "tf32"):
        for verdict in judged(nursery, tmp_path, DOTS["tf32x3"], DOTS["ieee"], precision=precision):
            assert verdict.status is Status.PASSED, verdict.message


def test_allowing_tf32_does_not_allow_bfloat16(nursery: Nursery, tmp_path: Path) -> None:
    (verdict,) = judged(nursery, tmp_path, DOTS["bfloat16"], precision="tf32")
    assert (verdict.status, verdict.finding) == (Status.WRONG_VALUES, Finding.PRECISION)


def test_under_autocast_half_outputs_are_expected_and_float32_ones_refused(nursery: Nursery, tmp_path: Path) -> None:
    (tmp_path / "problem.py").write_text(PROBLEM)
    settings = EvaluatorSettings(target=None, autocast="bfloat16")
    half = KERNEL.replace("torch.float32", "torch.bfloat16").replace("DOT", DOTS["bfloat16"])
    with Evaluator(parse_problem(str(tmp_path / "problem.py")), settings, nursery=nursery) as evaluator:
        right = evaluator.evaluate(half)
        wide = evaluator.evaluate(KERNEL.replace("DOT", DOTS["ieee"]))
    assert right.status is Status.PASSED, right.message
    assert wide.finding is Finding.DTYPE


# -- the emulation -------------------------------------------------------------------------------------------------


def test_tf32_keeps_ten_bits_and_what_is_not_finite() -> None:
    one = 1 + 2.0**-10
    values = torch.tensor([1.0, one, 1 + 2.0**-11, 1 + 2.0**-12, -(1 + 2.0**-11), torch.inf, -torch.inf, torch.nan])
    rounded, cut = to_tf32(values, cut=False), to_tf32(values, cut=True)
    assert rounded[:5].tolist() == [1.0, one, one, 1.0, -one]
    assert cut[:5].tolist() == [1.0, one, 1.0, 1.0, -1.0]
    assert rounded[5:7].tolist() == cut[5:7].tolist() == [torch.inf, -torch.inf]
    assert rounded[7].isnan() and cut[7].isnan()


class Many(torch.nn.Module):
    """A module that uses every operator with which torch multiplies matrices."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.linear = torch.nn.Linear(64, 64)
        self.convolution = torch.nn.Conv2d(8, 8, 3)
        self.recurrent = torch.nn.LSTM(64, 64, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.kind == "linear":
            return self.linear(x)
        if self.kind == "matmul":
            return x @ x.transpose(-1, -2)
        if self.kind == "einsum":
            return torch.einsum("bij,bkj->bik", x, x)
        if self.kind == "conv":
            return self.convolution(x.reshape(-1, 8, 8, 8))
        if self.kind == "lstm":
            return self.recurrent(x)[0]
        if self.kind == "attention":
            return torch.nn.functional.scaled_dot_product_attention(x, x, x)
        return torch.softmax(x, -1)


def original_error(expectation: Expectation) -> float:
    yard = expectation.outputs[0].yard
    return float((yard.original.double() - yard.truth).norm() / yard.truth.norm())


@pytest.mark.parametrize("kind", ["linear", "matmul", "einsum", "conv", "lstm", "attention"])
def test_originals_err_as_on_tensor_cores_where_tf32_is_allowed(kind: str) -> None:
    torch.manual_seed(0)
    allowed = Conditions(precision="tf32")
    model, x = Many(kind).eval(), torch.randn(4, 32, 64)
    strict = expect(model, [x])
    loose = expect(model, [x], around=as_the_user_runs_it(allowed, "cpu"), coarse=at_the_coarsest(allowed, "cpu"))
    assert original_error(strict) < 2e-6
    assert 3e-5 < original_error(loose) < 1e-3
    (coarse,) = loose.outputs[0].yard.coarse
    truth = loose.outputs[0].yard.truth
    assert original_error(loose) < float((coarse.double() - truth).norm() / truth.norm()) < 3e-3


def test_what_multiplies_no_matrices_is_judged_as_strictly_as_ever() -> None:
    allowed = Conditions(precision="tf32")
    model, x = Many("softmax"), torch.randn(4, 32, 64)
    loose = expect(model, [x], around=as_the_user_runs_it(allowed, "cpu"), coarse=at_the_coarsest(allowed, "cpu"))
    assert original_error(loose) == original_error(expect(model, [x])) < 1e-6


@pytest.mark.parametrize(("kind", "met"), [("conv", True), ("linear", False)])
def test_convolutions_may_use_tf32_on_a_gpu_as_torch_lets_cudnn_do(kind: str, met: bool) -> None:
    """At small sizes cuDNN does not use TF32, and a kernel that does would seem less accurate than the reference."""
    torch.manual_seed(0)
    model, x = Many(kind).eval(), torch.randn(4, 32, 64)
    found = expect(model, [x], coarse=at_the_coarsest(Conditions(), "cuda"))
    assert original_error(found) < 2e-6
    yard = found.outputs[0].yard
    assert bool(yard.coarse) == met
    if met:
        assert 3e-5 < float((yard.coarse[0].double() - yard.truth).norm() / yard.truth.norm()) < 3e-3
    assert at_the_coarsest(Conditions(), "cpu") is None
