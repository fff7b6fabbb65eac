"""The shipped file is self-contained, states what it is, and passes as a candidate by itself."""

from __future__ import annotations

import ast
import asyncio
import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests import verdicts
from tests.runs import shipped_samples as samples

from triton_agent.runs.ship import call_form
from triton_agent.runs.ship.artefact import forced, has_cuda_graphs, is_shipped, ship, switched_on
from triton_agent.runs.ship.facts import Gpu, TensorForm
from triton_agent.runs.ship.shipped import judged_draft, no_faster
from triton_agent.runs.ship.source.original import take_out
from triton_agent.tools.candidate.screen import screen
from triton_agent.tools.errors import ProblemError, UsageError
from triton_agent.tools.evaluate.evaluator import Evaluator
from triton_agent.tools.problem.problem import parse_problem
from triton_agent.tools.processes.zygotes import Nursery
from triton_agent.tools.results import Determinism, Interval, Status
from triton_agent.tools.settings import EvaluatorSettings

CANDIDATE = """
import torch
import torch.nn as nn
import triton
import triton.language as tl

SCALE = 2.0


@triton.jit
def double_kernel(x_ptr, y_ptr, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < count) * 2.0, mask=at < count)


class ModelNew(nn.Module):
    def __init__(self, *args, **kwargs):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(3))

    def forward(self, x):
        y = torch.empty_like(x)
        double_kernel[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), BLOCK=64)
        return y
"""


def run_python(folder: Path, code: str, **environment: str) -> str:
    """Run code in a process that can import torch and triton, but not this project."""
    hide = "import sys; sys.modules['triton_agent'] = None\n"
    surroundings = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | environment
    done = subprocess.run(
        [sys.executable, "-c", hide + code], cwd=folder, env=surroundings, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def shipped_from(folder: Path, original: str, target: str = "problem.py", **options: object) -> str:
    """Write a draft of `CANDIDATE` for this reference, beside the reference."""
    (folder / "problem.py").write_text(original)
    spec = parse_problem(str(folder / target), **options)  # type: ignore[arg-type]
    text = ship(spec, CANDIDATE, samples.facts(spec, form=samples.UNKNOWN), draft=True)
    (folder / "optimized.py").write_text(text)
    return text


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("layer_norm_f16", "right_block.py"),
        pytest.param("linear_relu_f32", "right_autotuned.py", marks=pytest.mark.slow),
        pytest.param("batch_norm_train_f32", "right_program_per_channel.py", marks=pytest.mark.slow),
        pytest.param("select_nested_f32", "right_fused.py", marks=pytest.mark.slow),
    ],
)
def test_a_shipped_file_passes_with_its_own_kernels_at_work(folder: str, name: str, nursery: Nursery) -> None:
    spec, source = samples.problem(folder), samples.kernel(folder, name)
    text = samples.draft(spec, source, nursery)
    with Evaluator(spec, samples.SETTINGS, nursery=nursery) as evaluator:
        verdict = evaluator.evaluate(forced(text), as_given=True, file=switched_on(text))
        assert verdict.status is Status.PASSED, verdict.message
        assert evaluator.evaluate(text).status is not Status.PASSED  # with its guard it is no candidate


def test_a_file_with_cuda_graphs_launches_its_kernels_where_there_is_no_gpu(nursery: Nursery) -> None:
    spec, source = samples.problem("layer_norm_f16"), samples.kernel("layer_norm_f16", "right_block.py")
    plans = samples.plans(spec, source, nursery)
    plain, text = (ship(spec, plans, samples.facts(spec, cuda_graph=asked), draft=True) for asked in (False, True))
    assert has_cuda_graphs(text) and not has_cuda_graphs(plain)
    assert "_replayed" not in plain and "threading" not in plain and "REPLAYS_GRAPHS" not in text
    assert "replayed as CUDA graphs" in text.partition("import ")[0]
    with Evaluator(spec, samples.SETTINGS, nursery=nursery) as evaluator:
        verdict = evaluator.evaluate(forced(text), as_given=True, file=switched_on(text))
    assert verdict.status is Status.PASSED, verdict.message


@pytest.mark.ci
@pytest.mark.slow
def test_a_draft_at_other_sizes_takes_over_the_verdict_on_equal_tapes_only(tmp_path: Path, nursery: Nursery) -> None:
    """The interpreter cannot run the sizes as given, so that all a verdict on the draft can see is its tapes."""
    (tmp_path / "problem.py").write_text(
        "import torch\nfrom torch import nn\n"
        "class Model(nn.Module):\n    def forward(self, x):\n        return x * 2.0\n"
        "def get_inputs():\n    return [torch.randn(4096, 1024)]\n"
    )
    spec = parse_problem(str(tmp_path / "problem.py"))
    source = CANDIDATE.replace("        self.weight = nn.Parameter(torch.zeros(3))\n", "").replace("64", "1024")
    source = source.replace("y = torch.empty_like(x)", "x = x.contiguous()\n        y = torch.empty_like(x)")
    text = samples.draft(spec, source, nursery)
    another = text.replace("* 2.0, mask", "* 3.0, mask")
    assert another != text
    with Evaluator(spec, samples.SETTINGS, nursery=nursery) as evaluator:
        assert evaluator.facts.scaled
        kernels = evaluator.evaluate(source)
        same, other = (
            asyncio.run(judged_draft(one, source, kernels, evaluator, has_ranges=False)) for one in (text, another)
        )
    assert kernels.status is Status.PASSED and same is kernels
    assert other.status is Status.WRONG_VALUES


def test_the_file_itself_is_checked_and_not_only_its_tapes(nursery: Nursery) -> None:
    spec, source = samples.problem("layer_norm_f16"), samples.kernel("layer_norm_f16", "right_block.py")
    text = samples.draft(spec, source, nursery)
    wrong = switched_on(text).replace("else plan(state, *tensors)", "else plan(state, *tensors) * 2")
    assert wrong != switched_on(text)
    with Evaluator(spec, samples.SETTINGS, nursery=nursery) as evaluator:
        verdict = evaluator.evaluate(forced(text), as_given=True, file=wrong)
    assert verdict.status is Status.WRONG_VALUES and verdict.stages[-1].stage == "file"


def test_a_draft_stands_alone_and_is_the_original(tmp_path: Path) -> None:
    spec = samples.problem("layer_norm_f16")
    source = samples.kernel("layer_norm_f16", "right_block.py")
    (tmp_path / "fast.py").write_text(ship(spec, source, samples.facts(spec), draft=True))
    (tmp_path / "slow.py").write_text(Path(spec.path).read_text())
    said = run_python(
        tmp_path,
        """
import inspect, torch, fast, slow
torch.manual_seed(0); a = slow.Model(203); before = torch.get_rng_state()
torch.manual_seed(0); b = fast.Model(203)
assert torch.equal(before, torch.get_rng_state())
assert fast.Model is fast.ModelNew and list(a.state_dict()) == list(b.state_dict())
assert str(inspect.signature(fast.Model)) == str(inspect.signature(slow.Model))
assert str(inspect.signature(b.forward)) == str(inspect.signature(a.forward))
inputs = slow.get_inputs()
assert torch.equal(a(*inputs), b(*inputs))
print("same")
""",
    )
    assert said == "same\n"


@pytest.mark.slow
def test_plans_read_the_models_own_tensors(tmp_path: Path, nursery: Nursery) -> None:
    spec = samples.problem("layer_norm_f16")
    source = samples.plans(spec, samples.kernel("layer_norm_f16", "right_block.py"), nursery)
    (tmp_path / "fast.py").write_text(ship(spec, source, samples.facts(spec), draft=True))
    said = run_python(
        tmp_path,
        """
import gc, torch, fast
fast.ModelNew.use_kernels = "always"
model = fast.Model(203)
with torch.no_grad():
    _, state, _ = fast._admitted(model, [torch.ones(13, 203, dtype=torch.float16) for _ in range(2)], {})
assert state["norm.weight"] is model.norm.weight
print(sum(isinstance(item, torch.nn.Parameter) for item in gc.get_objects()), len(list(model.named_modules())))
gone = torch.utils.weak.WeakIdRef(model)
del model
print(gone() is None)  # at once, not when garbage is collected next
""",
        TRITON_INTERPRET="1",
    )
    assert said.split() == ["2", "2", "True"]


IN_A_DICT = """
import torch
from torch import nn
class Model(nn.Module):
    def forward(self, batch, factor, mask):
        return {"y": batch["x"] * factor}
def get_inputs():
    return [{"x": torch.randn(3, 4), "rest": [torch.randn(2)]}, 2.0, None]
"""
TAKES_A_DICT = (
    CANDIDATE.replace("(self, x):", "(self, batch, factor, mask):")
    .replace("y = torch.empty_like(x)", 'x = batch["x"]\n        y = torch.empty_like(x)')
    .replace("return y", 'return {"y": y}')
    .replace("self.weight = nn.Parameter(torch.zeros(3))", "pass")
)


@pytest.mark.ci
@pytest.mark.slow
def test_what_comes_in_a_dict_is_known_again(tmp_path: Path, nursery: Nursery) -> None:
    (tmp_path / "problem.py").write_text(IN_A_DICT)
    spec = parse_problem(str(tmp_path / "problem.py"))
    (tmp_path / "fast.py").write_text(samples.draft(spec, TAKES_A_DICT, nursery))
    said = run_python(
        tmp_path,
        """
import torch, fast
fast.ModelNew.use_kernels = "always"
model, x, rest = fast.Model().eval(), torch.ones(3, 4), [torch.ones(2)]
def known(batch, factor=2.0, none=None):
    with torch.no_grad():
        try:
            return fast._admitted(model, (batch, factor, none), {}) is not None
        except (TypeError, ValueError, AttributeError):
            return False
given = dict(x=x, rest=rest)
print(known(given), known(given, 3.0), known(given, 2.0, {3}), known(dict(x=x)), known(dict(x=x[:2], rest=rest)))
with torch.no_grad():
    print(model(given, 2.0, None)["y"].mean().item())
""",
        TRITON_INTERPRET="1",
    )
    assert said.split() == ["True", "False", "False", "False", "False", "2.0"]


TWICE = """
import torch
from torch import nn
class Model(nn.Module):
    def forward(self, x, y):
        return x - 2 * y
def get_inputs():
    x = torch.randn(5, 6)
    return [x, x]
"""
READS_BOTH = """
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def minus_kernel(x_ptr, y_ptr, z_ptr, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    x, y = tl.load(x_ptr + at, mask=inside), tl.load(y_ptr + at, mask=inside)
    tl.store(z_ptr + at, x - 2 * y, mask=inside)


class ModelNew(nn.Module):
    def forward(self, x, y):
        x, y = x.contiguous(), y.contiguous()
        z = torch.empty_like(x)
        minus_kernel[(triton.cdiv(x.numel(), 64),)](x, y, z, x.numel(), BLOCK=64)
        return z
"""


def test_inputs_that_are_one_tensor_in_the_problem_may_be_two(tmp_path: Path, nursery: Nursery) -> None:
    (tmp_path / "problem.py").write_text(TWICE)
    spec = parse_problem(str(tmp_path / "problem.py"))
    text = samples.draft(spec, READS_BOTH, nursery)
    with Evaluator(spec, EvaluatorSettings(target=None), nursery=nursery) as evaluator:
        assert all(len(graph["inputs"]) == 2 for graph in evaluator.facts.graphs), "authors are told of two"
        verdict = evaluator.evaluate(forced(text), as_given=True, file=switched_on(text))
    assert verdict.status is Status.PASSED, verdict.message
    assert any("memory of its own" in case.distribution for case in verdict.accuracy)


@pytest.mark.ci
@pytest.mark.slow
def test_what_kernels_write_is_counted_and_shares_no_memory(tmp_path: Path, nursery: Nursery) -> None:
    """The file's own name is not ASCII. The name of its operator is made from it, and has to be ASCII."""
    (tmp_path / "problem.py").write_text(
        "import torch\nfrom torch import nn\nclass Model(nn.Module):\n    def forward(self, x, y):\n"
        "        x.add_(y)\n        return x * 2.0\n"
        "def get_inputs():\n    return [torch.randn(8, 16), torch.randn(8, 16)]\n"
    )
    spec = parse_problem(str(tmp_path / "problem.py"))
    source = (
        CANDIDATE.replace("x_ptr, y_ptr, count", "x_ptr, y_ptr, z_ptr, count")
        .replace(
            "tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < count) * 2.0", "x = LOAD\n    tl.store(x_ptr + at, x"
        )
        .replace("LOAD", "tl.load(x_ptr + at, mask=at < count) + tl.load(y_ptr + at, mask=at < count)")
        .replace("\n\n\nclass", "\n    tl.store(z_ptr + at, x * 2.0, mask=at < count)\n\n\nclass")
        .replace("        self.weight = nn.Parameter(torch.zeros(3))\n", "")
        .replace("(self, x):", "(self, x, y):")
        .replace(
            "y = torch.empty_like(x)", "given, x, y = x, x.contiguous(), y.contiguous()\n        z = x.new_empty(8, 16)"
        )
        .replace("](x, y, x.numel()", "](x, y, z, x.numel()")
        .replace("return y", "if x is not given:\n            given.copy_(x)\n        return z")
    )
    text = samples.draft(spec, source, nursery)
    (tmp_path / "sch\u00f6n.py").write_text(text)
    said = run_python(
        tmp_path,
        """
import torch, sch\u00f6n
torch.set_grad_enabled(False)
model, x = sch\u00f6n.Model(), torch.ones(9, 16)
model.use_kernels = "always"
for given in ((x[:8].clone(), x[:8]), (x[:8], x[:8]), (x[:8], x[1:])):
    print(sch\u00f6n._admitted(model, given, {}) is not None, end=" ")
given, version = x[:8].clone(), x._version
print(model(given, x[:8]).unique().tolist(), given._version)
""",
        TRITON_INTERPRET="1",
    )
    assert said.split() == ["True", "False", "False", "[4.0]", "1"]


KEPT = """
import torch
from torch import nn
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("NAME", torch.zeros(16))
    def forward(self, x):
        self.NAME.copy_(x[0])
        return x * 2.0
def get_inputs():
    return [torch.randn(8, 16)]
"""


@pytest.mark.parametrize(("name", "counted"), [("latest", True), ("running_mean", False)])
def test_running_statistics_are_not_counted_as_written(
    name: str, counted: bool, tmp_path: Path, nursery: Nursery
) -> None:
    """Otherwise a call without gradients would spoil a backward pass that saved them, which torch's norms do not."""
    (tmp_path / "problem.py").write_text(KEPT.replace("NAME", name))
    spec = parse_problem(str(tmp_path / "problem.py"))
    source = (
        CANDIDATE.replace("x_ptr, y_ptr, count", "x_ptr, y_ptr, kept_ptr, count")
        .replace(
            "\n\n\nclass", "\n    tl.store(kept_ptr + at, tl.load(x_ptr + at, mask=at < 16), mask=at < 16)\n\n\nclass"
        )
        .replace("self.weight = nn.Parameter(torch.zeros(3))", f'self.register_buffer("{name}", torch.zeros(16))')
        .replace("y = torch", "x = x.contiguous()\n        y = torch")
        .replace("](x, y, x.numel()", f"](x, y, self.{name}, x.numel()")
    )
    text = samples.draft(spec, source, nursery)
    assert ("increment_version(" in text) == counted


@pytest.mark.ci
@pytest.mark.slow
def test_tied_weights_that_a_plan_reads_once_have_to_be_tied(tmp_path: Path, nursery: Nursery) -> None:
    (tmp_path / "problem.py").write_text(
        "import torch\nfrom torch import nn\nclass Model(nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n        self.a = nn.Parameter(torch.ones(3))\n        self.b = self.a\n"
        "    def forward(self, x):\n        return x * self.a * self.b\n"
        "def get_inputs():\n    return [torch.randn(3)]\n"
    )
    spec = parse_problem(str(tmp_path / "problem.py"))
    source = (
        CANDIDATE.replace("x_ptr, y_ptr, count", "x_ptr, a_ptr, y_ptr, count")
        .replace("* 2.0", "* tl.load(a_ptr + at, mask=at < count) * tl.load(a_ptr + at, mask=at < count)")
        .replace("self.weight = nn.Parameter(torch.zeros(3))", "self.a = self.b = nn.Parameter(torch.ones(3))")
        .replace("](x, y, x.numel()", "](x, self.a, y, x.numel()")
    )
    text = samples.draft(spec, source, nursery)
    (tmp_path / "fast.py").write_text(text)
    said = run_python(
        tmp_path,
        """
import copy, torch, fast
torch.set_grad_enabled(False)
fast.ModelNew.use_kernels = "always"
model, x = fast.Model(), torch.ones(3)
def runs_kernels(model):
    return fast._admitted(model, (x,), {}) is not None
print(runs_kernels(model), runs_kernels(copy.deepcopy(model)), end=" ")
model.load_state_dict({"a": torch.full((3,), 2.0), "b": torch.full((3,), 3.0)}, assign=True)
print(runs_kernels(model), model(x).mean().item())
""",
        TRITON_INTERPRET="1",
    )
    assert said.split() == ["True", "True", "False", "6.0"]


@pytest.mark.ci
@pytest.mark.slow
def test_kernels_do_not_stand_in_for_a_model_made_with_other_numbers(tmp_path: Path, nursery: Nursery) -> None:
    """A plan contains the numbers of the verified model; the call alone does not show them."""
    original = (
        "import torch\nfrom torch import nn\nclass Model(nn.Module):\n    def __init__(self, factor=2.0):\n"
        "        super().__init__()\n        self.factor = factor\n    def forward(self, x):\n"
        "        return x * self.factor\ndef get_inputs():\n    return [torch.randn(3)]\n"
    )
    (tmp_path / "problem.py").write_text(original)
    spec = parse_problem(str(tmp_path / "problem.py"))
    candidate = CANDIDATE.replace("(self):", "(self, factor=2.0):").replace(
        "self.weight = nn.Parameter(torch.zeros(3))", "pass"
    )
    (tmp_path / "fast.py").write_text(samples.draft(spec, candidate, nursery))
    said = run_python(
        tmp_path,
        """
import torch, fast
fast.ModelNew.use_kernels = "always"
for model in (fast.Model(), fast.Model(factor=2.0), fast.Model(3.0)):
    print(model._watch.made is not None, model(torch.ones(3)).mean().item())
model = fast.Model()
for model.factor in (torch.tensor(2.0), [2.0], 2.0):
    print(fast._admitted(model, (torch.ones(3),), {}) is not None)
""",
        TRITON_INTERPRET="1",
    )
    assert said.split() == ["True", "2.0", "True", "2.0", "False", "3.0", "False", "False", "True"]
    assert "def _inside(" not in (tmp_path / "fast.py").read_text(), "a number does not change without being replaced"


@pytest.mark.ci
@pytest.mark.slow
def test_a_model_without_parts_is_known_by_its_attributes(tmp_path: Path, nursery: Nursery) -> None:
    """Its file has a shorter guard, without lists of parameters and modules."""
    original = (
        "import torch\nfrom torch import nn\nclass Model(nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n        self.factors = [2.0]\n    def forward(self, x):\n"
        "        return x * self.factors[0]\ndef get_inputs():\n    return [torch.randn(3)]\n"
    )
    (tmp_path / "problem.py").write_text(original)
    spec = parse_problem(str(tmp_path / "problem.py"))
    candidate = CANDIDATE.replace("self.weight = nn.Parameter(torch.zeros(3))", "pass")
    text = samples.draft(spec, candidate, nursery)
    assert "itemgetter" not in text and "_verified_state" not in text
    (tmp_path / "fast.py").write_text(text)
    said = run_python(
        tmp_path,
        """
import copy, pickle, torch, fast
from torch import nn
fast.ModelNew.use_kernels = "always"
torch.set_grad_enabled(False)

def runs_kernels(model, change=lambda model: None):
    model(torch.ones(3))
    change(model)
    return fast._admitted(model, (torch.ones(3),), {}) is not None

made = fast.Model()
print(runs_kernels(made), runs_kernels(copy.deepcopy(made)), runs_kernels(pickle.loads(pickle.dumps(made))))
print(runs_kernels(made, lambda model: model.eval()))
print(runs_kernels(made, lambda model: setattr(model, "use_kernels", "always")))
for change in (
    lambda model: model.factors.append(1.0),
    lambda model: setattr(model, "factors", (2.0,)),
    lambda model: setattr(model, "more", 1),
    lambda model: delattr(model, "factors"),
    lambda model: model.add_module("act", nn.ReLU()),
    lambda model: model.register_buffer("more", torch.ones(1)),
    lambda model: setattr(model, "weight", nn.Parameter(torch.ones(1))),
    lambda model: setattr(model, "forward", lambda x: x),
):
    print(runs_kernels(fast.Model(), change), end=" ")
handle = nn.modules.module.register_module_forward_hook(lambda module, given, result: None)
print(runs_kernels(made))
handle.remove()
""",
        TRITON_INTERPRET="1",
    )
    assert said.split() == ["True"] * 5 + ["False"] * 9


@pytest.mark.slow  # starts torch.compile
def test_a_compiled_graph_of_a_model_without_parts_runs_the_kernels(tmp_path: Path, nursery: Nursery) -> None:
    spec, source = samples.problem("softmax_f32"), samples.kernel("softmax_f32", "right_block.py")
    text = samples.draft(spec, source, nursery)
    (tmp_path / "fast.py").write_text(text)
    said = run_python(
        tmp_path,
        """
import torch, fast
fast.ModelNew.use_kernels = "always"
seen = []
for name, (plan, *forms) in list(fast.CALLS.items()):
    fast.CALLS[name] = (lambda *args, plan=plan: (seen.append(1), plan(*args))[1], *forms)
shape, _, strides = fast.CALLS["call"][2][1]
x = torch.randn(shape)
with torch.no_grad():
    model = fast.Model()
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    print(torch.allclose(compiled(x), fast.OriginalModel()(x), atol=1e-5), len(seen))
    model.more = 1
    print(torch.allclose(compiled(x), fast.OriginalModel()(x), atol=1e-5))
""",
        TRITON_INTERPRET="1",
    )
    assert said.split() == ["True", "1", "True"]


CONFIGURED = """
import dataclasses
import torch
from torch import nn

@dataclasses.dataclass
class Config:
    factor: float = 2.0

class Model(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.factor = config.factor

    def forward(self, x, shift=None, *, power=1, gate):
        return x * self.factor

def get_inputs():
    return {"x": torch.randn(3), "gate": torch.randn(3)}

def get_init_inputs():
    return [Config()]
"""


INHERITED = CONFIGURED.replace("class Model(nn.Module):", "class Configured(nn.Module):").replace(
    "    def forward(", "class Model(Configured):\n    def forward("
)


@pytest.mark.ci
@pytest.mark.slow
@pytest.mark.parametrize("text", [CONFIGURED, INHERITED], ids=["own constructor", "inherited constructor"])
def test_config_objects_and_keyword_only_arguments_are_known_again(text: str, tmp_path: Path, nursery: Nursery) -> None:
    (tmp_path / "problem.py").write_text(text)
    spec = parse_problem(str(tmp_path / "problem.py"))
    candidate = CANDIDATE.replace("self.weight = nn.Parameter(torch.zeros(3))", "pass").replace(
        "def forward(self, x):", "def forward(self, x, shift=None, *, power=1, gate):"
    )
    (tmp_path / "fast.py").write_text(samples.draft(spec, candidate, nursery))
    script = """
import inspect, types, warnings, torch, fast
from problem import Config, Model
fast.ModelNew.use_kernels = "always"
assert inspect.signature(fast.Model.forward) == inspect.signature(Model.forward)
x, gate = torch.randn(3), torch.randn(3)
said = []
fast.plan_for, plan_for = (lambda *given: said.append(plan_for(*given)) or said[-1]), fast.plan_for
for config in (Config(), types.SimpleNamespace(factor=2.0), Config(3.0)):
    model = fast.Model(config)
    print(model._watch.made is not None)
model = fast.Model(Config())
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for given in ({"gate": gate}, {"gate": gate, "power": 1, "shift": None}, {"gate": gate, "power": 2}):
        torch.testing.assert_close(model(x, **given), Model(Config())(x, **given))
        print(said.pop() is not None)
try:
    model(x, None, 1, gate)
except TypeError:
    print("refused", *[warning.message for warning in caught])
"""
    lines = run_python(tmp_path, script, TRITON_INTERPRET="1").splitlines()
    assert lines == ["True", "True", "False", "True", "True", "False", "refused"]
    told = run_python(tmp_path, script, TRITON_INTERPRET="0").splitlines()  # without a GPU
    assert told[:-1] == lines[:-1] and told[-1].startswith("refused the kernels need a GPU, or TRITON_INTERPRET=1")


def test_the_header_says_what_is_known_and_what_is_not() -> None:
    spec, source = samples.problem("layer_norm_f16"), samples.kernel("layer_norm_f16", "right_block.py")
    verdict = samples.accepted(spec)
    command = "triton-agent promote 20260131-154500-3fa9c1"
    draft = ast.get_docstring(ast.parse(ship(spec, source, samples.facts(spec, verdict, promote=command), draft=True)))
    assert draft is not None
    for expected in ("Verified for correctness in the interpreter, not measured", command, "the reference's own"):
        assert expected in draft
    assert "as fast as" not in draft

    timings = tuple(
        verdicts.timing(Interval(median=1.5, low=1.4, high=1.6), kind=kind) for kind in ("device", "latency")
    )
    measured = dataclasses.replace(verdict, timings=timings)
    facts = samples.facts(spec, measured, gpu=Gpu(name='A "quoted" \\ GPU', capability=(9, 0), driver="570"))
    final = ast.get_docstring(ast.parse(ship(spec, source, facts, draft=False)))
    assert final is not None
    for expected in ("device time: 1.50x", "[1.40, 1.60]", "call latency: 1.50x", 'A "quoted" \\ GPU', "driver 570"):
        assert expected in final


@pytest.mark.slow
def test_kernels_verified_under_autocast_run_under_it_alone(tmp_path: Path, nursery: Nursery) -> None:
    spec = samples.problem("layer_norm_f16")
    source = samples.plans(spec, samples.kernel("layer_norm_f16", "right_block.py"), nursery)
    verdict = samples.accepted(spec)
    verdict = dataclasses.replace(verdict, environment=dataclasses.replace(verdict.environment, autocast="bfloat16"))
    (tmp_path / "fast.py").write_text(ship(spec, source, samples.facts(spec, verdict), draft=True))
    said = run_python(
        tmp_path,
        """
import torch, fast
fast.ModelNew.use_kernels = "always"
model = fast.Model(203).eval()
inputs = [torch.randn(13, 203, dtype=torch.float16) for _ in range(2)]
for dtype, enabled in ((torch.bfloat16, True), (torch.float16, True), (torch.bfloat16, False)):
    with torch.no_grad(), torch.autocast("cpu", dtype=dtype, enabled=enabled):
        print(fast._admitted(model, inputs, {}) is not None)
""",
        TRITON_INTERPRET="1",
    )
    assert said.split() == ["True", "False", "False"]


@pytest.mark.slow
def test_lazy_conjugates_and_forward_mode_differentiation_run_the_reference(tmp_path: Path, nursery: Nursery) -> None:
    tests = samples.KERNELS.parent
    spec = parse_problem(str(tests / "cheats" / "problems" / "complex_squares.py"))
    source = (tests / "honest" / "squares_of_complex_numbers.py").read_text()
    plans = samples.plans(spec, source, nursery)
    (tmp_path / "fast.py").write_text(ship(spec, plans, samples.facts(spec), draft=True))
    said = run_python(
        tmp_path,
        """
import torch, fast
model, x = fast.ModelNew(), torch.randn(16, 48, dtype=torch.complex64)
model.use_kernels = "always"
for given in (x, x.conj()):
    print(fast._admitted(model, (given,), {}) is not None, torch.allclose(model(given), given * given))
with torch.autograd.forward_ad.dual_level():
    dual = torch.autograd.forward_ad.make_dual(x, torch.ones_like(x))
    print(torch.allclose(torch.autograd.forward_ad.unpack_dual(model(dual)).tangent, 2 * x))
""",
        TRITON_INTERPRET="1",
    )
    assert said.split() == ["True", "True", "False", "True", "True"]


def test_names_of_both_sides_stay_apart(tmp_path: Path) -> None:
    shipped_from(
        tmp_path,
        """
import operator
from math import floor as triton
import torch
from torch import nn as layers

SCALE = 3.0  # the candidate has a SCALE of its own
_fact = {"x": 1}
_fact["x"] = 4

def sum(SCALE):
    return [SCALE for SCALE in (SCALE, 2)][0] + triton(0.5)

class Base(layers.Module):
    def forward(self, x):
        return operator.mul(x, SCALE) + _fact["x"] + len(f"{SCALE}")

class Model(Base):
    def __init__(self, *, width=3):
        super(Model, self).__init__()
        self.weight = layers.Parameter(torch.ones(width))

    def forward(self, x):
        global SCALE
        return super(Model, self).forward(x) * self.weight + sum(1)

class NotNeeded(Model):
    pass

def get_inputs():
    return [torch.randn(4, 3)]
""",
    )
    said = run_python(
        tmp_path,
        "import torch, problem, optimized\nx = torch.randn(4, 3)\n"
        "print(torch.equal(problem.Model()(x), optimized.Model(width=3)(x)), hasattr(optimized, 'NotNeeded'))",
    )
    assert said == "True False\n"


@pytest.mark.slow
def test_modules_beside_the_original_come_along(tmp_path: Path) -> None:
    (tmp_path / "layers").mkdir()
    (tmp_path / "layers" / "__init__.py").write_text("")
    (tmp_path / "layers" / "scaling.py").write_text(
        "import torch\nfrom torch import nn\nfrom .numbers import EPS as SMALL\nSCALE = 5.0\n"
        "class Scale(nn.Module):\n    def forward(self, x):\n        return x * SCALE + SMALL\n"
    )
    (tmp_path / "layers" / "numbers.py").write_text("EPS = 0.25\nUNUSED = 1\n")
    text = shipped_from(
        tmp_path,
        "import torch\nfrom torch import nn\nfrom layers.scaling import Scale as Times\n"
        "torch.set_num_threads(2)\n"
        "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.times = Times()\n"
        "    def forward(self, x):\n        return self.times(x)\n",
        "problem.py:Net",
        inputs=["f32[3,4]"],
    )
    assert "layers" not in text.split('"""')[2].split("# -- the kernels")[0]  # not imported
    assert "left out: problem.py:4 torch.set_num_threads(2)" in text
    alone = tmp_path / "alone"
    alone.mkdir()
    (alone / "optimized.py").write_text(text)
    said = run_python(alone, "import torch, optimized\nprint(optimized.Net()(torch.ones(1)).item())")
    assert said == "5.25\n"


@pytest.mark.slow
def test_a_class_of_the_project_with_the_shipped_originals_name_gets_another(tmp_path: Path) -> None:
    (tmp_path / "layers.py").write_text("from torch import nn\nclass OriginalModel(nn.Module):\n    pass\n")
    problem = tmp_path / "problem.py"
    problem.write_text("from layers import OriginalModel\nclass Model(OriginalModel):\n    pass\n")
    text = take_out(parse_problem(f"{problem}:Model", inputs=("f32[4]",)), {}).text
    assert "class layers_OriginalModel(nn.Module)" in text
    assert "class OriginalModel(layers_OriginalModel)" in text


def test_what_cannot_be_taken_out_is_imported_and_the_header_says_so(tmp_path: Path) -> None:
    (tmp_path / "scaling.py").write_text("SCALE = 5.0\n")
    text = shipped_from(
        tmp_path,
        "import torch\nimport scaling\nclass Model(torch.nn.Module):\n    def forward(self, x):\n"
        "        return x * scaling.SCALE\ndef get_inputs():\n    return [torch.randn(3)]\n",
    )
    assert "not self-contained" in text and "from problem import Model as OriginalModel" in text
    said = run_python(tmp_path, "import torch, optimized\nprint(optimized.Model()(torch.ones(1)).item())")
    assert said == "5.0\n"


def test_a_problem_without_an_original_is_not_shipped(tmp_path: Path) -> None:
    (tmp_path / "problem.py").write_text(
        "def get_inputs():\n    return []\ndef verify(inputs, outputs):\n    return True\n"
    )
    spec = parse_problem(str(tmp_path / "problem.py"))
    with pytest.raises(UsageError, match="no reference"):
        ship(spec, CANDIDATE, samples.facts(spec, form=samples.UNKNOWN), draft=True)


def test_kernels_whose_order_of_adding_is_free_step_aside_where_determinism_is_asked_for() -> None:
    spec, ordered = samples.problem("layer_norm_f16"), samples.kernel("layer_norm_f16", "right_block.py")
    atomic = ordered.replace("tl.store(y_ptr", "tl.atomic_add(y_ptr")
    differs = dataclasses.replace(samples.accepted(spec), determinism=Determinism.DIFFERS)
    asked = "\n    if torch.are_deterministic_algorithms_enabled():"
    assert asked not in ship(spec, ordered, samples.facts(spec), draft=True)
    assert asked in ship(spec, atomic, samples.facts(spec), draft=True)
    assert asked in ship(spec, ordered, samples.facts(spec, differs), draft=True)


def test_only_files_made_here_are_switched() -> None:
    assert not is_shipped(CANDIDATE)
    assert forced(CANDIDATE) == CANDIDATE


def test_what_compiles_the_original_stays_with_its_owner_and_is_not_judged(tmp_path: Path) -> None:
    """Judged files must not use a compiler; a model that uses one gets kernels all the same."""
    text = shipped_from(
        tmp_path,
        """
import functools, torch
from torch import nn
@torch.jit.script
def act(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x)
@functools.partial(torch.compile, dynamic=False)
def more(x): return act(x) + 1
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.jit.script(nn.Linear(8, 8))
    @torch.compile
    def forward(self, x): return more(self.inner(x))
def get_inputs(): return [torch.rand(8)]
""",
    )
    assert "@torch.compile" in text and "@torch.jit.script" in text
    judged = forced(text)
    assert screen(judged) is None
    assert "self.inner = nn.Linear(8, 8)" in judged and "return act(x) + 1" in judged


@pytest.mark.slow
def test_the_form_of_a_call_is_found() -> None:
    form = samples.form_of(samples.problem("layer_norm_f16"))
    tensor = TensorForm(shape=(13, 203), dtype="float16", strides=(203, 1))
    assert form.constructed == "203" and form.parameters == ("x", "residual")
    assert [call.arguments for call in form.calls] == [(tensor, tensor)] * 2
    assert dict(form.state)["norm.bias"] == TensorForm(shape=(203,), dtype="float16", strides=(1,))


@pytest.mark.slow
def test_an_original_that_does_not_run_is_the_problems_error(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text(
        "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return x @ x\n"
        "def get_inputs():\n    return [torch.randn(2, 3)]\n"
    )
    with pytest.raises(ProblemError, match="forward"):
        call_form.find(parse_problem(str(tmp_path / "broken.py")))


@pytest.mark.slow
def test_a_call_that_changes_state_stays_out_of_compiled_graphs(nursery: Nursery) -> None:
    spec = samples.problem("batch_norm_train_f32")
    text = samples.plans(spec, samples.kernel("batch_norm_train_f32", "right_program_per_channel.py"), nursery)
    calls = text[text.index("CALLS = {") :]
    assert "None)," in calls[: calls.index("}")]


def test_a_file_that_loses_by_one_clock_only_is_told_which_and_by_how_much() -> None:
    ratios = [("device", 1.5), ("latency", 1.2), ("back_to_back", 0.8)]
    timings = [verdicts.timing(ratio, spread=0.01, kind=kind, original_ms=0.04) for kind, ratio in ratios]
    against_compile = verdicts.timing(0.5, baseline="compile")
    said = no_faster(verdicts.passed(*timings, against_compile)).splitlines()
    assert said[1:] == ["  back-to-back calls: 0.80x [0.79, 0.81]; 0.05 ms, the reference's 0.04 ms"]
