"""What a kernel computes once for many elements, and files at sizes four times as large as given."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.policy.author.briefs import full_size_brief, on_target, problem
from tests.policy.author.test_author import check_passes

from triton_agent.policy.author.decisions import first_choice
from triton_agent.policy.author.writer import write
from triton_agent.tools.evaluate.evaluator import Evaluator
from triton_agent.tools.problem.problem import parse_problem
from triton_agent.tools.processes.zygotes import Nursery
from triton_agent.tools.settings import EvaluatorSettings

SUITE = Path(__file__).parents[3] / "benchmarks" / "problems"
PAIRS = """
class Model(nn.Module):
    def __init__(self, pairs):
        super().__init__()
        self.register_buffer("speed", torch.logspace(0, -3, pairs))

    def forward(self, x, position):
        angle = position[:, :, None, None] * self.speed
        even, odd = x[..., 0::2], x[..., 1::2]
        turned = [even * angle.cos() - odd * angle.sin(), even * angle.sin() + odd * angle.cos()]
        return torch.stack(turned, dim=-1).flatten(-2)

HEADS, PAIRS = 6, 16


def get_inputs():
    return [torch.randn(2, 5, HEADS, 2 * PAIRS), torch.rand(2, 5)]


def get_init_inputs():
    return [PAIRS]
"""
LAYERS = """
HIDDEN = 256


class Model(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.first = nn.Linear(hidden, hidden)
        self.second = nn.Linear(hidden, 128)

    def forward(self, x):
        return self.second(F.relu(self.first(x)))


def get_inputs():
    return [torch.randn(4096, HIDDEN)]


def get_init_inputs():
    return [HIDDEN]
"""
WRITTEN_OUT = """
HEADS, STEPS, WIDTH = 4, 512, 64


class Model(nn.Module):
    def forward(self, query, key, value):
        scores = query @ key.transpose(-2, -1) * query.shape[-1] ** -0.5
        return torch.softmax(scores, -1) @ value


def get_inputs():
    return [torch.randn(2, HEADS, STEPS, WIDTH).half() for _ in range(3)]


def get_init_inputs():
    return []
"""
ORDERED = """
ROWS, COLUMNS = 4096, 1000


class Model(nn.Module):
    def forward(self, x):
        return x.sort(dim=-1).values.cumsum(-1)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
"""
SO_FAR = """
STEPS, WIDTH = 2048, 384


class Model(nn.Module):
    def forward(self, x, weight):
        return (x * weight).cumsum(dim=1) / (weight.cumsum(dim=1) + 1.0)


def get_inputs():
    return [torch.randn(16, STEPS, WIDTH), torch.rand(16, STEPS, WIDTH)]


def get_init_inputs():
    return []
"""
BIASED = """
SIDE, HEADS, WIDTH, WINDOWS = 4, 2, 16, 40


class Model(nn.Module):
    def __init__(self, side, heads):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(31, heads))
        at = torch.arange(side * side)
        self.register_buffer("offset", at[:, None] - at + side * side - 1)

    def forward(self, query, key, value):
        scores = query @ key.transpose(-2, -1) + self.bias[self.offset].permute(2, 0, 1)
        return torch.softmax(scores, -1) @ value


def get_inputs():
    return [torch.randn(WINDOWS, HEADS, SIDE * SIDE, WIDTH) for _ in range(3)]


def get_init_inputs():
    return [SIDE, HEADS]
"""
PLAIN = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        {made}

    def forward(self, x):
        return {result}


def get_inputs():
    return [{given}]


def get_init_inputs():
    return []
"""
PATCHES = PLAIN.format(
    made="self.cut = nn.Conv2d(3, 24, 6, stride=6)", result="self.cut(x)", given="torch.randn(2, 3, 36, 36)"
)
UPSAMPLED = PLAIN.format(
    made="self.conv = nn.ConvTranspose1d(16, 8, 16, stride=8, padding=4, dtype=torch.float16)",
    result="self.conv(x)",
    given="torch.randn(2, 16, 21).half()",
)
DOUBLED = PLAIN.format(
    made="self.conv = nn.ConvTranspose2d(16, 24, 4, stride=2, padding=1)",
    result="F.leaky_relu(self.conv(x), 0.2)",
    given="torch.randn(2, 16, 9, 9)",
)
POWERS = PLAIN.format(
    made="self.power = nn.Parameter(torch.full((6, 1, 1), 3.0))",
    result="(x.clamp(min=0.02) ** self.power).mean(dim=(2, 3))",
    given="torch.randn(2, 6, 9, 11)",
)


def written(folder: Path, text: str) -> str:
    brief = on_target(full_size_brief(problem(folder, text), grown=True), "cuda:90")
    return write(brief, first_choice(brief)).source


def judged(folder: Path, nursery: Nursery, text: str, source: str) -> str:
    with Evaluator(problem(folder, text), EvaluatorSettings(target=None, device="cpu"), nursery=nursery) as evaluator:
        verdict = evaluator.evaluate(source)
    return f"{verdict.status} {verdict.message}".strip()


def test_angles_are_computed_once_for_all_heads(tmp_path: Path, nursery: Nursery) -> None:
    source = check_passes(tmp_path, nursery, PAIRS).source
    before, _, loop = source.partition("for step in tl.static_range(")
    assert "tl.cos" in before and "tl.cos" not in loop


@pytest.mark.parametrize(
    ("name", "shared"), [("blocks_language/rotary_embedding_pairs", True), ("pointwise/snake_activation", False)]
)
def test_work_is_shared_along_an_axis_if_no_program_does_it_once_anyway(name: str, shared: bool) -> None:
    """Angles differ within a row, so heads share them. A channel's frequency holds for a whole row."""
    brief = on_target(full_size_brief(parse_problem(str(SUITE / f"{name}.py")), grown=True), "cuda:90")
    assert ("for step in tl.static_range(8)" in write(brief, first_choice(brief)).source) is shared


def test_a_float32_weight_is_split_once_and_not_in_each_step(tmp_path: Path, nursery: Nursery) -> None:
    source = written(tmp_path, LAYERS)
    assert source.count("weight_in_parts(self, ") == 2 and "tf32x3" not in source
    assert judged(tmp_path, nursery, LAYERS, source) == "passed"


def test_attention_stays_one_kernel_although_heads_are_much_wider_elsewhere(tmp_path: Path, nursery: Nursery) -> None:
    source = written(tmp_path, WRITTEN_OUT)
    assert source.count("@triton.jit") == 1 and "if width <= 256 else 16" in source
    assert judged(tmp_path, nursery, WRITTEN_OUT, source) == "passed"


def test_rows_are_sorted_by_a_kernel_although_they_are_much_longer_elsewhere(tmp_path: Path) -> None:
    source = written(tmp_path, ORDERED)
    assert "tl.sort" in source and "num_warps=1 if columns <= 1024 else 16" in source


def test_blocks_that_are_scanned_are_loaded_ahead(tmp_path: Path) -> None:
    assert "BLOCK_COLUMNS, num_stages=3)" in written(tmp_path, SO_FAR)


def test_biases_picked_by_distance_are_stored_once_for_all_windows(tmp_path: Path, nursery: Nursery) -> None:
    source = written(tmp_path, BIASED)
    attention = source[source.index("def attention_kernel") :]
    assert "offset_ptr" in source and "offset_ptr" not in attention[: attention.index("class ModelNew")]
    assert judged(tmp_path, nursery, BIASED, source) == "passed"


@pytest.mark.parametrize("text", [PATCHES, UPSAMPLED, DOUBLED], ids=["patches", "upsampled", "doubled"])
def test_what_would_be_moved_element_by_element_is_copied(tmp_path: Path, nursery: Nursery, text: str) -> None:
    passed = check_passes(tmp_path, nursery, text)
    assert len(re.findall("^@triton.jit", passed.source, re.MULTILINE)) >= 2


def test_a_positive_number_is_raised_by_its_logarithm(tmp_path: Path, nursery: Nursery) -> None:
    assert "tl.exp2(tl.log2(" in check_passes(tmp_path, nursery, POWERS).source
