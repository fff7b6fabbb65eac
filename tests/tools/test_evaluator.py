"""The evaluator beyond single operators: problems of every kind, modules with state, nested values, all failures.

Problems and kernels are written here as text; everything runs in the evaluator's own processes.
"""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from triton_agent.tools.errors import NotJudgeableHere, ProblemError
from triton_agent.tools.evaluate.evaluator import Evaluator
from triton_agent.tools.problem.problem import parse_problem
from triton_agent.tools.processes.zygotes import Nursery
from triton_agent.tools.results import Evaluation, Finding, Status
from triton_agent.tools.settings import EvaluatorSettings

HEAD = """
import torch
import torch.nn as nn
import triton
import triton.language as tl
"""

DOUBLE_KERNEL = """
@triton.jit
def double(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n) * 2, mask=at < n)


def doubled(x):
    x = x.contiguous()
    y = torch.empty_like(x)
    if x.numel():
        double[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
    return y
"""


AFFINE_KERNEL = """
@triton.jit
def affine_kernel(x_ptr, b_ptr, y_ptr, n, width, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    b = tl.load(b_ptr + at % width, mask=at < n)
    tl.store(y_ptr + at, tl.maximum(x * 2 + b * 2, 0.0, propagate_nan=tl.PropagateNan.ALL) + 1, mask=at < n)


def affine(x, b):
    x = x.contiguous()
    y = torch.empty_like(x)
    affine_kernel[(triton.cdiv(x.numel(), 256),)](x, b, y, x.numel(), b.numel(), BLOCK=256)
    return y
"""


KERNELS = DOUBLE_KERNEL + AFFINE_KERNEL


@pytest.fixture
def judge(nursery: Nursery, tmp_path: Path):  # type: ignore[no-untyped-def]
    """Return the evaluations of these kernel texts for a problem text."""

    def run(problem: str, *kernels: str, settings: EvaluatorSettings | None = None) -> list[Evaluation]:
        path = tmp_path / "problem.py"
        path.write_text(HEAD + textwrap.dedent(problem))
        chosen = settings or EvaluatorSettings(target=None, call_timeout_s=10, total_timeout_s=60)
        with Evaluator(parse_problem(str(path)), chosen, nursery=nursery) as evaluator:
            return [
                evaluator.evaluate(HEAD + DOUBLE_KERNEL + AFFINE_KERNEL + textwrap.dedent(kernel)) for kernel in kernels
            ]

    return run


DOUBLE_PROBLEM = """
N = 300
class Model(nn.Module):
    def forward(self, x):
        return x * 2
def get_inputs():
    return [torch.randn(N)]
def get_init_inputs():
    return []
"""


def test_a_verifier_judges_where_there_is_no_reference(judge) -> None:  # type: ignore[no-untyped-def]
    problem = """
    def get_inputs():
        return [torch.randn(50)]
    def verify(inputs, outputs):
        return bool(torch.equal(outputs, inputs[0] * 2)) or bool(torch.equal(outputs, inputs[0] * 4))
    """
    right, other, wrong = judge(
        problem,
        "class ModelNew(nn.Module):\n    def forward(self, x): return doubled(x)",
        "class ModelNew(nn.Module):\n    def forward(self, x): return doubled(doubled(x))",
        "class ModelNew(nn.Module):\n    def forward(self, x): return doubled(doubled(doubled(x)))",
    )
    assert right.status is Status.PASSED
    assert other.status is Status.PASSED
    assert (wrong.status, wrong.finding) == (Status.WRONG_VALUES, Finding.VALUES)


def test_nested_outputs_keep_their_structure_and_plain_values(judge) -> None:  # type: ignore[no-untyped-def]
    problem = """
    class Model(nn.Module):
        def forward(self, x, flag):
            return {"twice": x * 2, "more": (x * 4, [None, 3, flag])}
    def get_inputs():
        return [torch.randn(40, 3), True]
    """
    body = "class ModelNew(nn.Module):\n    def forward(self, x, flag):\n        return "
    right, flat, other = judge(
        problem,
        body + '{"twice": doubled(x), "more": (doubled(doubled(x)), [None, 3, flag])}',
        body + "doubled(x), doubled(doubled(x))",
        body + '{"twice": doubled(x), "more": (doubled(doubled(x)), [None, 4, flag])}',
    )
    assert right.status is Status.PASSED
    assert (flat.status, flat.finding) == (Status.WRONG_SHAPE, Finding.STRUCTURE)
    assert other.status is Status.WRONG_VALUES


def test_tied_parameters_and_parameters_changed_in_place_are_followed(judge) -> None:  # type: ignore[no-untyped-def]
    problem = """
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Parameter(torch.randn(64))
            self.b = self.a
        def forward(self, x):
            return torch.relu((x + self.a) * 2 + self.b * 2) + 1
    def get_inputs():
        return [torch.randn(8, 64)]
    """
    start = """
class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Parameter(torch.randn(64))
        self.b = self.a
        self.kept = None
    def forward(self, x):
"""
    right, kept = judge(
        problem,
        start + "        return affine(x, self.a + self.b)",
        start + "        if self.kept is None: self.kept = (self.a + self.b).detach().clone()\n"
        "        return affine(x, self.kept)",
    )
    assert right.status is Status.PASSED, right.message
    assert kept.status is Status.PASSED, kept.message  # what is made of parameters is made again when they change


def test_buffers_that_a_call_changes_have_to_change_alike(judge) -> None:  # type: ignore[no-untyped-def]
    problem = """
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("calls", torch.zeros(()))
        def forward(self, x):
            if self.training:
                self.calls += 1
            return x * 2
    def get_inputs():
        return [torch.randn(33)]
    """
    start = """
class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))
    def forward(self, x):
"""
    right, forgetful = judge(
        problem,
        start + "        if self.training: self.calls += 1\n        return doubled(x)",
        start + "        return doubled(x)",
    )
    assert right.status is Status.PASSED
    assert (forgetful.status, forgetful.finding) == (Status.WRONG_VALUES, Finding.STATE)


def test_a_module_that_writes_into_its_input_has_to_be_followed_in_that(judge) -> None:  # type: ignore[no-untyped-def]
    problem = """
    class Model(nn.Module):
        def forward(self, x):
            x.mul_(2)
            return x + 0
    def get_inputs():
        return [torch.randn(65)]
    """
    same, clean = judge(
        problem,
        "class ModelNew(nn.Module):\n    def forward(self, x):\n        x.copy_(doubled(x))\n        return x.clone()",
        "class ModelNew(nn.Module):\n    def forward(self, x): return doubled(x)",
    )
    assert same.status is Status.PASSED
    assert (clean.status, clean.finding) == (Status.WRONG_VALUES, Finding.MUTATED_INPUT)


def test_dropout_is_checked_in_eval_mode_only_and_that_is_said(judge) -> None:  # type: ignore[no-untyped-def]
    problem = """
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.drop = nn.Dropout(0.5)
        def forward(self, x):
            return self.drop(x) * 2
    def get_inputs():
        return [torch.randn(100)]
    """
    (verdict,) = judge(problem, "class ModelNew(nn.Module):\n    def forward(self, x): return doubled(x)")
    assert verdict.status is Status.PASSED
    assert any("train mode was not checked, so a shipped file runs the reference" in note for note in verdict.notes)


def test_empty_and_non_contiguous_inputs_work(judge) -> None:  # type: ignore[no-untyped-def]
    problem = """
    class Model(nn.Module):
        def forward(self, x, nothing):
            return x * 2, nothing * 2
    def get_inputs():
        return [torch.randn(12, 30).t()[::2], torch.empty(0, 5)]
    """
    right, careless = judge(
        problem,
        "class ModelNew(nn.Module):\n    def forward(self, x, n): return doubled(x), doubled(n)",
        """
class ModelNew(nn.Module):
    def forward(self, x, n):
        y = torch.empty(x.shape, device=x.device)
        double[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
        return y, doubled(n)
""",
    )
    assert right.status is Status.PASSED
    assert careless.status in (Status.WRONG_VALUES, Status.RUNTIME_ERROR)


def test_inputs_that_show_one_element_many_times_are_filled_anew_as_others_are(judge) -> None:  # type: ignore[no-untyped-def]
    problem = """
    ROWS, COLUMNS = 6, 14
    class Model(nn.Module):
        def forward(self, x, y):
            return x * 2, y * 2
    def get_inputs():
        return [torch.randn(ROWS, 1).expand(ROWS, COLUMNS), torch.randn(ROWS, 1, 3).expand(-1, 4, -1)]
    def get_init_inputs():
        return []
    """
    (right,) = judge(problem, "class ModelNew(nn.Module):\n    def forward(self, x, y): return doubled(x), doubled(y)")
    assert right.status is Status.PASSED, right.message


def test_a_sample_of_equal_elements_is_not_asked_for_where_their_order_decides(
    nursery: Nursery, tmp_path: Path
) -> None:
    def cases(answer: str) -> int:
        path = tmp_path / "problem.py"
        inputs = "def get_inputs():\n    return [torch.randn(4, 9), torch.randn(9)]\n"
        path.write_text(
            f"{HEAD}\nclass Model(nn.Module):\n    def forward(self, x, w):\n        return {answer}\n{inputs}"
        )
        with Evaluator(parse_problem(str(path)), EvaluatorSettings(target=None), nursery=nursery) as evaluator:
            return evaluator.facts.cases

    assert cases("w[x.topk(3)[1]].sum(-1)") < cases("x.topk(3)[0].sum(-1)")


@pytest.mark.parametrize("ends", [True, False], ids=["ends its process", "breaks its GPU"])
def test_a_reference_that_does_not_survive_other_layouts_is_judged_without_them(
    nursery: Nursery, tmp_path: Path, ends: bool
) -> None:
    path = tmp_path / "problem.py"
    path.write_text(
        HEAD
        + textwrap.dedent(
            f"""
            import os
            broken = []

            class Model(nn.Module):
                def forward(self, x):
                    if not x.is_contiguous():
                        {"os.abort()" if ends else "broken.append(x)"}
                    if broken:
                        raise RuntimeError("CUDA error: misaligned address")
                    return x * 2

            def get_inputs():
                return [torch.randn(12, 20)]
            """
        )
    )
    right = HEAD + DOUBLE_KERNEL + "class ModelNew(nn.Module):\n    def forward(self, x):\n        return doubled(x)\n"
    wrong = right.replace("* 2, mask", "* 3, mask")
    with Evaluator(parse_problem(str(path)), EvaluatorSettings(target=None), nursery=nursery) as evaluator:
        assert any("memory layouts were not checked" in note for note in evaluator.facts.notes)
        assert [evaluator.evaluate(it).status for it in (right, wrong)] == [Status.PASSED, Status.WRONG_VALUES]


def test_inputs_with_gaps_are_read_by_their_strides(judge) -> None:  # type: ignore[no-untyped-def]
    problem = """
    ROWS, COLUMNS = 6, 14
    class Model(nn.Module):
        def forward(self, x):
            return x * 2
    def get_inputs():
        return [torch.randn(ROWS, 2 * COLUMNS)[:, ::2]]
    def get_init_inputs():
        return []
    """
    (right,) = judge(
        problem,
        """
@triton.jit
def by_strides(x_ptr, y_ptr, n, columns, row, column, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at // columns * row + at % columns * column, mask=at < n)
    tl.store(y_ptr + at, x * 2, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty(x.shape, device=x.device)
        by_strides[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), x.shape[1], *x.stride(), BLOCK=256)
        return y
""",
    )
    assert right.status is Status.PASSED, right.message


@pytest.mark.parametrize(
    ("kernel", "status", "finding"),
    [
        ("", Status.NO_ANSWER, Finding.NO_MODEL),
        ("class ModelNew: pass", Status.NO_ANSWER, Finding.NO_MODEL),
        ("def f(:", Status.COMPILE_ERROR, Finding.SYNTAX),
        ("import os\nclass ModelNew(nn.Module): here = os.getcwd()", Status.CHEATED, Finding.FORBIDDEN_ACCESS),
        ("1 / 0\nclass ModelNew(nn.Module): pass", Status.RUNTIME_ERROR, Finding.IMPORT),
        ("class ModelNew(nn.Module):\n    def __init__(self): 1 / 0", Status.RUNTIME_ERROR, Finding.CONSTRUCT),
        ("class ModelNew(nn.Module):\n    def forward(self, x): return x.nope", Status.RUNTIME_ERROR, Finding.RAISED),
        (
            "class ModelNew(nn.Module):\n    def forward(self, x): raise SystemExit(0)",
            Status.RUNTIME_ERROR,
            Finding.RAISED,
        ),
        (
            "class ModelNew(nn.Module):\n    def forward(self, x): return torch.empty(1 << 45)",
            Status.OUT_OF_MEMORY,
            Finding.MEMORY,
        ),
        (
            "class ModelNew(nn.Module):\n    def forward(self, x): return doubled(x)[:5]",
            Status.WRONG_SHAPE,
            Finding.SHAPE,
        ),
        (
            "class ModelNew(nn.Module):\n    def forward(self, x): return doubled(x).double()",
            Status.WRONG_DTYPE,
            Finding.DTYPE,
        ),
        (
            "class ModelNew(nn.Module):\n    def forward(self, x):\n        doubled(x)\n"
            "        return torch.empty_like(x)",
            Status.WRONG_VALUES,
            Finding.UNWRITTEN_OUTPUT,
        ),
    ],
)
def test_every_way_to_fail_has_its_name(judge, kernel: str, status: Status, finding: Finding) -> None:  # type: ignore[no-untyped-def]
    (verdict,) = judge(DOUBLE_PROBLEM, kernel)
    assert (verdict.status, verdict.finding) == (status, finding), verdict.message
    assert verdict.message


def test_an_infinite_loop_ends_in_a_timeout_and_the_next_kernel_is_none_the_worse(judge) -> None:  # type: ignore[no-untyped-def]
    loops, right = judge(
        DOUBLE_PROBLEM,
        "class ModelNew(nn.Module):\n    def forward(self, x):\n        while True: pass",
        "class ModelNew(nn.Module):\n    def forward(self, x): return doubled(x)",
        settings=EvaluatorSettings(target=None, call_timeout_s=2, total_timeout_s=20),
    )
    assert loops.status is Status.TIMEOUT
    assert right.status is Status.PASSED


SLOW_OVER_EARLIER_RESULTS = """
@triton.jit
def slow_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    left_there = tl.load(y_ptr + at, mask=at < n, other=0.0)
    known = tl.sum(((at < n) & (tl.abs(left_there - 2 * x) < 4.5)).to(tl.int32), 0)
    again = (known > 0).to(tl.int32) * 1000000000
    for _ in range(again):
        x = x + 0.0
    tl.store(y_ptr + at, 2 * x, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        slow_kernel[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
        return y
"""


def test_a_call_that_is_too_slow_over_earlier_results_is_a_timeout(judge) -> None:  # type: ignore[no-untyped-def]
    """The call whose memory holds an earlier answer runs out of time; nothing is known of its values."""
    settings = EvaluatorSettings(target=None, call_timeout_s=2, total_timeout_s=60)
    (verdict,) = judge(DOUBLE_PROBLEM, SLOW_OVER_EARLIER_RESULTS, settings=settings)
    assert verdict.status is Status.TIMEOUT, verdict.message


def test_an_original_that_raises_is_a_problem_error_with_its_line(judge) -> None:  # type: ignore[no-untyped-def]
    problem = """
    class Model(nn.Module):
        def forward(self, x):
            return x @ x
    def get_inputs():
        return [torch.randn(3, 4)]
    """
    with pytest.raises((ProblemError, NotJudgeableHere), match=r"problem\.py"):
        judge(problem, "class ModelNew(nn.Module): pass")


def test_the_message_names_the_line_and_a_likely_cause(judge) -> None:  # type: ignore[no-untyped-def]
    (verdict,) = judge(
        DOUBLE_PROBLEM,
        """
@triton.jit
def past_the_end(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at) * 2)

class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        past_the_end[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
        return y
""",
    )
    assert (verdict.status, verdict.finding) == (Status.RUNTIME_ERROR, Finding.OUT_OF_BOUNDS)
    assert "tl.load(x_ptr + at)" in verdict.message
    assert "mask" in verdict.message
    assert len(verdict.message) <= 700


def test_a_trial_ends_after_the_first_call_and_tells_errors_as_a_verdict_does(nursery: Nursery, tmp_path: Path) -> None:
    path = tmp_path / "problem.py"
    path.write_text(HEAD + textwrap.dedent(DOUBLE_PROBLEM))
    model = """
    class ModelNew(nn.Module):
        def forward(self, x):
            y = torch.empty_like(x)
            double[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
            return y
    """
    right = HEAD + DOUBLE_KERNEL + textwrap.dedent(model)
    settings = EvaluatorSettings(target=None, call_timeout_s=10, total_timeout_s=60)
    with Evaluator(parse_problem(str(path)), settings, nursery=nursery) as evaluator:
        tried, refused = evaluator.try_out(right), evaluator.try_out(right.replace("BLOCK=256", "BLOCK=255"))
    assert [stage.stage for stage in tried.stages] == ["screen", "trace", "compile", "first"]
    assert len({case.variant for case in tried.accuracy}) == 1 and tried.timings == ()
    assert refused.finding is not None and "power of 2" in refused.message
