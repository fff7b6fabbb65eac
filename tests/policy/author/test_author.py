"""Files of the built-in author: right values at all sizes, own kernels, and readable text."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.policy.author.briefs import brief_from, brief_of, problem

from triton_agent.policy.author import writer
from triton_agent.policy.author.brief import BeyondAuthor, Brief
from triton_agent.policy.author.choice import Choice
from triton_agent.policy.author.decisions import Feedback, KernelFeedback, first_choice, neighbours
from triton_agent.policy.author.emit.kernel_text import KernelText
from triton_agent.policy.author.emit.line_breaking import LIMIT
from triton_agent.policy.author.writer import write
from triton_agent.tools.evaluate.evaluator import Evaluator
from triton_agent.tools.problem.problem import ProblemSpec
from triton_agent.tools.processes.zygotes import Nursery
from triton_agent.tools.results import Evaluation
from triton_agent.tools.settings import EvaluatorSettings

_PLAIN = """
ROWS, COLUMNS = 24, 72


class Model(nn.Module):
    def forward(self, x):
        {body}


def get_inputs():
    return [torch.randn(ROWS, COLUMNS{options})]


def get_init_inputs():
    return []
"""


def plain(body: str, options: str = "") -> str:
    """Return a problem with one two-dimensional input and no parameters."""
    return _PLAIN.format(body=body, options=options)


RESIDUAL_NORM = """
BATCH, LENGTH, WIDTH = 3, 10, 40


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, x, y):
        total = x + y
        return self.norm(total), total


def get_inputs():
    return [torch.randn(BATCH, LENGTH, WIDTH), torch.randn(BATCH, LENGTH, WIDTH)]


def get_init_inputs():
    return [WIDTH]
"""

BATCH_NORM = """
BATCH, CHANNELS, SIZE = 4, 6, 8


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x):
        return F.silu(self.norm(x))


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, SIZE, SIZE)]


def get_init_inputs():
    return [CHANNELS]
"""

CROSS_ENTROPY = """
BATCH, CLASSES = 20, 37


class Model(nn.Module):
    def forward(self, logits, target):
        return F.cross_entropy(logits, target)


def get_inputs():
    return [torch.randn(BATCH, CLASSES), torch.randint(0, 10, (BATCH,))]


def get_init_inputs():
    return []
"""

LINEAR = """
BATCH, WIDTH, HIDDEN = 20, 48, 40


class Model(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.up = nn.Linear(width, hidden, dtype=torch.float16)

    def forward(self, x, residual):
        return F.gelu(self.up(x)) + residual


def get_inputs():
    return [torch.randn(BATCH, WIDTH).half(), torch.randn(BATCH, HIDDEN).half()]


def get_init_inputs():
    return [WIDTH, HIDDEN]
"""

HEADS = """
BATCH, LENGTH, WIDTH = 2, 12, 32


class Model(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        query = self.query(x).view(batch, length, self.heads, width // self.heads).transpose(1, 2)
        return torch.softmax(query @ x.view(batch, length, self.heads, -1).permute(0, 2, 3, 1), dim=-1)


def get_inputs():
    return [torch.randn(BATCH, LENGTH, WIDTH)]


def get_init_inputs():
    return [WIDTH, 4]
"""

LOOKUP = """
BATCH, LENGTH, WORDS, WIDTH = 3, 9, 30, 24


class Model(nn.Module):
    def __init__(self, words, width):
        super().__init__()
        self.table = nn.Embedding(words, width)

    def forward(self, words):
        found = self.table(words)
        return torch.cat([found, found.flip(1)], dim=-1).transpose(0, 1).contiguous()


def get_inputs():
    return [torch.randint(0, 20, (BATCH, LENGTH))]


def get_init_inputs():
    return [WORDS, WIDTH]
"""

CONVOLUTION = """
BATCH, CHANNELS, SIZE = 2, 3, 9


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.convolution = nn.Conv2d(channels, 8, 3, stride=2, padding=1)
        self.depthwise = nn.Conv2d(8, 8, 3, padding=1, groups=8, bias=False)

    def forward(self, x):
        return F.max_pool2d(F.relu(self.depthwise(self.convolution(x))), 2)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, SIZE, SIZE)]


def get_init_inputs():
    return [CHANNELS]
"""

ATTENTION = """
BATCH, HEADS, LENGTH, WIDTH = 2, 4, 12, 16


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = 0.3
        self.bias = torch.linspace(-1.0, 1.0, 4).view(4, 1, 1)

    def forward(self, query, key, value):
        seen = F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
        return seen * self.scale + self.bias


def get_inputs():
    shared = BATCH, 2, LENGTH, WIDTH
    return [torch.randn(BATCH, HEADS, LENGTH, WIDTH), torch.randn(shared), torch.randn(shared)]


def get_init_inputs():
    return []
"""

FEW_LONG_ROWS = """
COUNT, ROWS, WIDTH, INNER = 60000, 8, 32, 2048


class Model(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.down = nn.Linear(inner, 32)

    def forward(self, x, y, z):
        return F.mse_loss(x, y), x.amax() - y.amin(), F.relu(self.down(z))


def get_inputs():
    return [torch.randn(COUNT), torch.randn(COUNT), torch.randn(ROWS, INNER)]


def get_init_inputs():
    return [INNER]
"""

GATED_CELL = """
BATCH, WIDTH, HIDDEN = 6, 20, 24


class Model(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.cell = nn.GRUCell(width, hidden)

    def forward(self, x, state):
        return self.cell(x, state)


def get_inputs():
    return [torch.randn(BATCH, WIDTH), torch.randn(BATCH, HIDDEN)]


def get_init_inputs():
    return [WIDTH, HIDDEN]
"""

MANY_STEPS = plain("for step in range(150):\n            x = torch.sin(x) + x[:, :1]\n        return x")

UNKNOWN_IN_THE_MIDDLE = plain("made = torch.digamma(x.abs() + 1.0)\n        return torch.tanh(made) + x")

QUICK = {
    "pointwise with a row": plain(
        "return F.gelu(x * 0.5 + x[0], approximate='tanh') * torch.sigmoid(x.mean(1))[:, None]"
    ),
    "residual and norm, two results": RESIDUAL_NORM,
    "batch norm in both modes": BATCH_NORM,
    "linear with what follows": LINEAR,
    "lookup, join and transpose": LOOKUP,
}

SLOW = {
    "half softmax": plain("return torch.softmax(x / 3.0, dim=-1)", ", dtype=torch.float16"),
    "cross entropy": CROSS_ENTROPY,
    "products of heads": HEADS,
    "attention of grouped heads, with a tensor of its own": ATTENTION,
    "few long rows, cut into parts": FEW_LONG_ROWS,
    "a gated cell": GATED_CELL,
    "a chain of many steps": MANY_STEPS,
    "convolutions and a pool": CONVOLUTION,
    "sum over rows": plain("return x.sum(0), x.amax(0), (x * x).mean()"),
    "variance and norm": plain("return x.var(1), x.std(dim=0, keepdim=True), x.norm(dim=1)"),
    "places and truths": plain("return x.argmax(1), x.max(1).values, (x > 2).any(1), (x > -4).all(0)"),
    "running sums": plain("return x.cumsum(1), x.cumsum(0)"),
    "whole numbers": plain("i = (x * 8).round().to(torch.int32)\n        return i // 3, i % 5, (i << 1) ^ i, i.sum(1)"),
    "masks": plain("return torch.where(x > 0, x, x.exp() - 1).clamp(max=2.0).masked_fill(x.abs() < 0.1, 0.0).tril()"),
    "activations": plain("return F.mish(x) + F.softplus(x) * F.elu(x) - F.hardswish(x) / (1 + F.silu(x) ** 2)"),
    "logs": plain("return torch.log_softmax(x, 0), torch.logsumexp(x, 1), F.logsigmoid(x), torch.log1p(x.abs())"),
    "bfloat16": plain("return F.layer_norm(x, x.shape[-1:]) * x.float().norm().to(x.dtype)", ", dtype=torch.bfloat16"),
}


def evaluated(spec: ProblemSpec, source: str, nursery: Nursery, *, allow_library: bool = False) -> Evaluation:
    settings = EvaluatorSettings(target=None, allow_library=allow_library)
    with Evaluator(spec, settings, nursery=nursery) as evaluator:
        return evaluator.evaluate(source)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """A file that passed, its plan in words, and the brief it was written from."""

    brief: Brief
    plan: str
    source: str


def check_passes(
    folder: Path,
    nursery: Nursery,
    text: str,
    choice: Choice | Callable[[Brief], Choice] = first_choice,
    *,
    allow_library: bool = False,
) -> Passed:
    """Write the file of a problem by this choice, or by one made from the brief, and check that it passes."""
    settings = EvaluatorSettings(target=None, allow_library=allow_library)
    with Evaluator(problem(folder, text), settings, nursery=nursery) as evaluator:
        brief = brief_from(evaluator)
        answer = write(brief, choice if isinstance(choice, Choice) else choice(brief))
        verdict = evaluator.evaluate(answer.source)
    assert verdict.status == "passed", f"{verdict.message}\n{answer.source}"
    check_is_well_kept(answer.source)
    return Passed(brief=brief, plan=answer.plan, source=answer.source)


def check_is_well_kept(source: str) -> None:
    """Check that all lines are short and every kernel uses all its arguments."""
    assert all(len(line) <= LIMIT for line in source.splitlines())
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and any("jit" in ast.unparse(item) for item in node.decorator_list):
            used = {name.id for name in ast.walk(node) if isinstance(name, ast.Name)}
            assert {argument.arg for argument in node.args.args} <= used, node.name


@pytest.mark.parametrize("kind", QUICK)
def test_the_first_file_passes(kind: str, tmp_path: Path, nursery: Nursery) -> None:
    check_passes(tmp_path, nursery, QUICK[kind])


@pytest.mark.slow
@pytest.mark.parametrize("kind", SLOW)
def test_the_first_file_passes_for_more_kinds(kind: str, tmp_path: Path, nursery: Nursery) -> None:
    check_passes(tmp_path, nursery, SLOW[kind])


def test_an_unknown_operator_stays_torch_and_the_rest_is_written(tmp_path: Path, nursery: Nursery) -> None:
    answer = check_passes(tmp_path, nursery, UNKNOWN_IN_THE_MIDDLE, allow_library=True)
    assert "torch.ops.aten.digamma" in answer.source and "libdevice.tanh" in answer.source
    (limit,) = [line for line in answer.plan.splitlines() if line.startswith("Left out: ")]
    assert "aten.digamma" in limit


def test_statistics_that_nobody_asked_for_are_stored_as_they_are_computed(tmp_path: Path) -> None:
    """On a CPU, torch rounds the statistics that a half-precision norm returns, but not those that it uses inside."""
    brief = brief_of(problem(tmp_path, SLOW["bfloat16"]))
    source = write(brief, first_choice(brief)).source
    assert source.count("dtype=torch.float32") == 2 and "dtype=x.dtype" not in source


def test_what_is_stored_on_purpose_in_one_mode_is_no_buffer_in_the_other(tmp_path: Path) -> None:
    """Value names differ between the modes, so a choice made for one mode can name an unrelated value of the other."""
    brief = brief_of(problem(tmp_path, BATCH_NORM))
    for number in range(12):
        assert not re.search(r"self\.norm\.\w+ = torch", write(brief, Choice(stored=(f"v{number}",))).source)


def test_a_kernel_that_came_to_nothing_leaves_no_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels of an abandoned draft are written again in the next draft, and do not count as duplicates there."""

    def beyond(*_: object) -> KernelText:
        raise BeyondAuthor("rows are not for today")

    monkeypatch.setitem(writer._SKELETONS, "rows", beyond)
    brief = brief_of(problem(tmp_path, plain("return torch.relu(x) * 2, torch.cumsum(x, 0).amax(-1)")))
    source = write(brief, first_choice(brief)).source
    tree = ast.parse(source)
    defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    launched = {
        node.value.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Subscript) and "kernel" in ast.unparse(node.value)
    }
    assert launched and launched <= defined


@pytest.fixture(scope="module")
def norm_brief(tmp_path_factory: pytest.TempPathFactory) -> Brief:
    return brief_of(problem(tmp_path_factory.mktemp("norm"), RESIDUAL_NORM))


def test_the_same_brief_and_choice_give_the_same_text(norm_brief: Brief) -> None:
    choice = first_choice(norm_brief)
    assert write(norm_brief, choice) == write(norm_brief, choice)


def test_a_sum_and_its_norm_are_one_kernel(norm_brief: Brief) -> None:
    assert write(norm_brief, first_choice(norm_brief)).source.count("@triton.jit") == 1


def test_neighbours_differ_from_the_choice_and_from_each_other(norm_brief: Brief) -> None:
    choice = first_choice(norm_brief)
    found = neighbours(norm_brief, choice, Feedback())
    assert choice not in found and len(set(found)) == len(found) > 3
    assert len({write(norm_brief, other).source for other in [choice, *found]}) > 3


def test_a_kernel_that_spills_gets_more_warps_or_a_smaller_tile_first(norm_brief: Brief) -> None:
    choice = first_choice(norm_brief)
    name = "add_layer_norm_kernel"
    first = neighbours(norm_brief, choice, Feedback(kernels=(KernelFeedback(name=name, spill_bytes=64),)))[0]
    before = write(norm_brief, choice)
    assert name in before.source and write(norm_brief, first).source != before.source


def test_no_file_without_a_kernel_follows_one_that_failed(norm_brief: Brief) -> None:
    brief = dataclasses.replace(norm_brief, allow_library=True)
    found = neighbours(brief, first_choice(brief), Feedback(status="wrong_values"))
    assert any(other.left_to_torch for other in found[:3]), "other tiles compute the same"
    assert all("@triton.jit" in write(brief, other).source for other in found)


def test_every_neighbour_after_wrong_values_is_another_text(norm_brief: Brief) -> None:
    choice = first_choice(norm_brief)
    wrong = Feedback(status="wrong_values", message="add_layer_norm_kernel line 12")
    assert all(other != choice for other in neighbours(norm_brief, choice, wrong))


def test_long_sums_and_products_are_cut_into_parts(tmp_path: Path) -> None:
    brief = brief_of(problem(tmp_path, FEW_LONG_ROWS))
    source = write(brief, first_choice(brief)).source
    assert "linear_relu_parts_kernel[" in source and "mse_loss" in source and "tl.program_id(1)" in source


def test_no_answer_reads_a_size_of_the_problem_as_a_number(norm_brief: Brief) -> None:
    answer = write(norm_brief, first_choice(norm_brief))
    assert "Left out" not in answer.plan
    assert not {"10", "40", "120"} & set(answer.source.split())
