"""A file of plans written from tapes does the same as the tapes, in plain code.

The texts are run only by the evaluator or in separate processes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.grading import Specimen, habits, honest, spoken

from triton_agent.runs.ship.facts import NotEmitted
from triton_agent.runs.ship.plan_file import plans_of
from triton_agent.tools.candidate.screen import screen
from triton_agent.tools.evaluate.evaluator import Evaluator
from triton_agent.tools.evaluate.sets_evaluator import SetsEvaluator
from triton_agent.tools.problem.input_spec import parse_sets
from triton_agent.tools.problem.problem import ProblemSpec, parse_problem
from triton_agent.tools.processes.zygotes import Nursery
from triton_agent.tools.settings import EvaluatorSettings

SETTINGS = EvaluatorSettings(target=None, shapes="given")
QUICK = (
    *("online_softmax_attention", "table_of_pointers", "weights_packed_at_first_use", "autotuned_add"),
    "mask_repeated_for_each_head",
)
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {"TRITON_INTERPRET": "1"}

LINEAR_PROBLEM = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
        self.register_buffer("calls", torch.zeros(1))
    def forward(self, batch, factor):
        return {"y": self.layers(batch["x"]) * factor}

def get_inputs():
    return [{"x": torch.randn(4, 8)}, 2.0]
"""
LINEAR_KERNEL = """
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def linear_kernel(x_ptr, wt_ptr, b_ptr, y_ptr, scale, RELU: tl.constexpr, N: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, N)
    x = tl.load(x_ptr + row * N + at)
    wt = tl.load(wt_ptr + at[:, None] * N + at[None, :])
    y = tl.sum(x[:, None] * wt, 0) + tl.load(b_ptr + at)  # the author's own words
    if RELU:
        y = tl.maximum(y, 0.0)
    tl.store(y_ptr + row * N + at, y * scale)

class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
        self.register_buffer("calls", torch.zeros(1))
        self.packed = None
    def forward(self, batch, factor):
        x = batch["x"]
        if self.packed is None or self.version != self.layers[0].weight._version:
            self.packed, self.version = self.layers[0].weight.t().contiguous(), self.layers[0].weight._version
        hidden, y = torch.empty_like(x), torch.empty_like(x)
        linear_kernel[(x.shape[0],)](x, self.packed, self.layers[0].bias, hidden, 1.0, RELU=True, N=8)
        wt = self.layers[2].weight.t().contiguous()
        linear_kernel[(x.shape[0],)](hidden, wt, self.layers[2].bias, y, factor, RELU=False, N=8, num_warps=2)
        return {"y": y}
"""


SPECIMENS = [item for item in (*honest(), *habits()) if item.where != "gpu"]
PROBLEMS = sorted({item.problem for item in SPECIMENS})


@pytest.mark.parametrize(
    "item", [item for item in honest() if item.path.stem in QUICK], ids=lambda item: item.path.stem
)
def test_a_file_of_plans_passes_and_has_the_same_plans(item: Specimen, nursery: Nursery) -> None:
    spec = parse_problem(str(item.problem))
    settings = EvaluatorSettings(target=None, shapes="given", allow_library=item.allow_library)
    with Evaluator(spec, settings, nursery=nursery) as evaluator:
        text = plans_of(evaluator, item.path.read_text())
        assert screen(text) is None
        verdict = evaluator.evaluate(text, as_given=True)
        assert spoken(verdict) == "passed", verdict.message
        assert plans_of(evaluator, text) == text


@pytest.mark.slow
@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.stem)
def test_plans_get_the_verdict_of_the_tapes_they_were_written_from(problem: Path, nursery: Nursery) -> None:
    """At the main sizes with all distributions and layouts, where a plan that differs from its tape is found."""
    unexpected = []
    for library in (False, True):
        members = [item for item in SPECIMENS if item.problem == problem and item.allow_library == library]
        if not members:
            continue
        settings = EvaluatorSettings(target=None, shapes="given", allow_library=library)
        with Evaluator(parse_problem(str(problem)), settings, nursery=nursery) as evaluator:
            for item in members:
                source = item.path.read_text()
                own = evaluator.evaluate(source, as_given=True)
                try:
                    found = evaluator.evaluate(plans_of(evaluator, source), as_given=True)
                except NotEmitted as reason:
                    if spoken(own) == "passed":
                        unexpected.append(f"{item.name}: {reason}")
                    continue
                if spoken(found) != spoken(own):
                    unexpected.append(f"{item.name}: {spoken(own)}, as plans {spoken(found)}: {found.message}")
    assert not unexpected, "\n".join(unexpected)


@pytest.fixture(scope="module")
def linear(tmp_path_factory: pytest.TempPathFactory, nursery: Nursery) -> tuple[ProblemSpec, str]:
    folder = tmp_path_factory.mktemp("linear")
    (folder / "problem.py").write_text(LINEAR_PROBLEM)
    spec = parse_problem(str(folder / "problem.py"))
    with Evaluator(spec, SETTINGS, nursery=nursery) as evaluator:
        text = plans_of(evaluator, LINEAR_KERNEL)
    (folder / "emitted.py").write_text(text)
    return spec, text


def run_python(spec: ProblemSpec, code: str) -> str:
    """Run code in a process that can import torch, triton, the problem and the file, but not this project."""
    hide = "import sys; sys.modules['triton_agent'] = None\nimport torch, problem, emitted\n"
    done = subprocess.run(
        [sys.executable, "-c", hide + code], cwd=Path(spec.path).parent, env=ENVIRONMENT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


BOTH = """
model, fast = problem.Model(), emitted.ModelNew()
print(fast.load_state_dict(model.state_dict()), list(fast.state_dict()) == list(model.state_dict()))
def same():
    with torch.no_grad():
        given = [{"x": torch.randn(4, 8)}, 2.0]
        return torch.allclose(model(*given)["y"], fast(*given)["y"], atol=1e-5)
"""


def test_the_file_stands_alone_and_takes_the_references_state(linear: tuple[ProblemSpec, str]) -> None:
    assert run_python(linear[0], f"{BOTH}\nprint(same())") == "<All keys matched successfully> True\nTrue\n"


def test_what_was_prepared_is_made_anew_when_a_parameter_changes(linear: tuple[ProblemSpec, str]) -> None:
    said = run_python(
        linear[0],
        f"""{BOTH}
weights = [model.layers[0].weight]
first = emitted.prepare(torch.device("cpu"), *weights)
print(emitted.prepare(torch.device("cpu"), *weights) is first)
with torch.no_grad():
    for one in (model, fast):
        one.get_parameter("layers.0.weight").mul_(3.0)
print(same())
other = problem.Model()
model.load_state_dict(other.state_dict())
for name, parameter in other.named_parameters():
    owner, _, leaf = name.rpartition(".")
    fast.get_submodule(owner)._parameters[leaf] = parameter
print(same())
""",
    )
    assert said.split()[-3:] == ["True", "True", "True"]


def test_a_call_of_another_form_has_no_plan_and_another_layout_is_copied(linear: tuple[ProblemSpec, str]) -> None:
    said = run_python(
        linear[0],
        f"""{BOTH}
for given in ([{{"x": torch.ones(3, 8)}}, 2.0], [{{"x": torch.ones(4, 8)}}, 3.0]):
    try:
        fast(*given)
    except NotImplementedError as error:
        print("no plan" in str(error))
given = [{{"x": torch.randn(8, 4).t()}}, 2.0]
print(torch.allclose(model(*given)["y"], fast(*given)["y"], atol=1e-5))
""",
    )
    assert said.split()[-3:] == ["True", "True", "True"]


def test_the_text_is_laid_out_as_ruff_does_it_and_keeps_comments(linear: tuple[ProblemSpec, str]) -> None:
    text = linear[1]
    assert "# the author's own words" in text
    assert "launch_linear = Launch(linear_kernel, (4, 1, 1), RELU=True, N=8)" in text
    assert "    launch_linear_2(y, wt_2, layers_2_bias, y_2, 2.0)" in text
    ruff = Path(sys.executable).with_name("ruff")
    if not ruff.exists():
        pytest.skip("ruff is not installed")
    config = Path(__file__).parents[2] / "pyproject.toml"
    whole = subprocess.run(
        [ruff, "format", "--config", str(config), "--stdin-filename", "emitted.py", "-"],
        input=text[text.index("\nclass Launch") :].lstrip("\n"),
        capture_output=True,
        text=True,
    )
    assert whole.stdout == text[text.index("\nclass Launch") :].lstrip("\n")


def test_a_launch_too_long_for_a_line_is_broken(linear: tuple[ProblemSpec, str], nursery: Nursery) -> None:
    long = "NEGATIVE_NUMBERS_BECOME_ZERO_AND_ALL_OTHERS_STAY_AS_THEY_WERE"
    with Evaluator(linear[0], SETTINGS, nursery=nursery) as evaluator:
        text = plans_of(evaluator, LINEAR_KERNEL.replace("RELU", long))
    assert f"launch_linear = Launch(\n    linear_kernel, (4, 1, 1), {long}=True, N=8\n)" in text


RELU_PROBLEM = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)
"""
TUNED = """
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.autotune([triton.Config({"BLOCK": 32}, num_warps=1), triton.Config({"BLOCK": 64}, num_warps=2)], key=["n"])
@triton.jit
def relu_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    tl.static_assert(BLOCK == 64)
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(y_ptr + at, tl.where(x < 0, 0.0, x), mask=at < n)

class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        relu_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, x.numel())
        return y
"""


def test_sets_of_inputs_share_a_file_and_choices_are_frozen(tmp_path: Path, nursery: Nursery) -> None:
    (tmp_path / "problem.py").write_text(RELU_PROBLEM)
    sets = parse_sets(["small=f32[10,10]", "long=f32[40,10]"])
    spec = parse_problem(f"{tmp_path / 'problem.py'}:Model", sets=sets)
    with SetsEvaluator(spec, SETTINGS, nursery=nursery) as evaluator:
        text = plans_of(evaluator, TUNED)
        assert "autotune" not in text
        assert "Launch(relu_kernel, (2, 1, 1), BLOCK=64, num_warps=2" in text  # the first one cannot be compiled
        assert "Launch(relu_kernel, (7, 1, 1), BLOCK=64, num_warps=2" in text
        assert spoken(evaluator.evaluate(text, as_given=True)) == "passed"
        assert "(40, 10)" not in plans_of(evaluator, TUNED, ["small"])


def test_random_numbers_of_the_constructor_have_no_text(tmp_path: Path, nursery: Nursery) -> None:
    made = "def __init__(self):\n        super().__init__()\n        self.r = torch.rand(10, 10)\n    def forward"
    kernel = TUNED.replace("def forward", made)
    kernel = kernel.replace("return y", "return y + self.r")
    (tmp_path / "problem.py").write_text(RELU_PROBLEM + "def get_inputs():\n    return [torch.randn(10, 10)]\n")
    spec = parse_problem(str(tmp_path / "problem.py"))
    with (
        Evaluator(spec, SETTINGS, nursery=nursery) as evaluator,
        pytest.raises(NotEmitted, match="random numbers"),
    ):
        plans_of(evaluator, kernel)


TABLE_PROBLEM = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) + torch.relu(x)
def get_inputs():
    return [torch.randn(640, 512)]
"""
TABLE_KERNEL = """
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def relu_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(y_ptr + at, tl.where(x < 0, 0.0, x), mask=at < n)

@triton.jit
def twice_kernel(table_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(table_ptr).to(tl.pointer_type(tl.float32))
    tl.store(y_ptr + at, 2.0 * tl.load(x + at, mask=at < n), mask=at < n)

class ModelNew(nn.Module):
    def forward(self, x):
        x, n = x.contiguous(), x.numel()
        middle = torch.empty_like(x)
        relu_kernel[(triton.cdiv(n, 4096),)](x, middle, n, BLOCK=4096)
        table = torch.tensor([middle.data_ptr()], dtype=torch.int64, device=x.device)
        y = torch.empty_like(x)
        twice_kernel[(triton.cdiv(n, 4096),)](table, y, n, BLOCK=4096)
        return y
"""


def test_memory_that_a_table_of_addresses_names_is_not_given_back_before_its_use(
    tmp_path: Path, nursery: Nursery
) -> None:
    (tmp_path / "problem.py").write_text(TABLE_PROBLEM)
    with Evaluator(parse_problem(str(tmp_path / "problem.py")), SETTINGS, nursery=nursery) as evaluator:
        text = plans_of(evaluator, TABLE_KERNEL)
    assert "data_ptr()" in text and "del " not in text


SCALED_PROBLEM = """
import torch
ROWS = 4096
WIDTH = 4096
class Model(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(width))
    def forward(self, x):
        return x * self.weight
def get_inputs():
    return [torch.randn(ROWS, WIDTH)]
def get_init_inputs():
    return [WIDTH]
"""
SCALED_KERNEL = """
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def scale_kernel(x_ptr, w_ptr, y_ptr, width, BLOCK: tl.constexpr):
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    here = tl.program_id(0) * width + at
    inside = at < width
    tl.store(y_ptr + here, tl.load(x_ptr + here, mask=inside) * tl.load(w_ptr + at, mask=inside), mask=inside)

class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(width))
    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        scale_kernel[(x.shape[0], triton.cdiv(x.shape[1], 256))](x, self.weight, y, x.shape[1], BLOCK=256)
        return y
"""


def test_a_problem_that_is_scaled_down_for_the_check_gets_plans_at_both_sizes(tmp_path: Path, nursery: Nursery) -> None:
    (tmp_path / "problem.py").write_text(SCALED_PROBLEM)
    with Evaluator(parse_problem(str(tmp_path / "problem.py")), SETTINGS, nursery=nursery) as evaluator:
        assert evaluator.facts.scaled
        text = plans_of(evaluator, SCALED_KERNEL)
        assert "Launch(scale_kernel, (4096, 16, 1), BLOCK=256)" in text
        verdict = evaluator.evaluate(text, as_given=True)
        assert spoken(verdict) == "passed", verdict.message
        assert verdict.diagnosis is not None and verdict.diagnosis.traffic_ratio is not None
        assert 1.0 <= verdict.diagnosis.traffic_ratio < 2.0  # counted at the main sizes, and compared with them
        assert plans_of(evaluator, text) == text
