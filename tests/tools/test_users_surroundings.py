"""Problem files as people write them can be read on a machine without CUDA."""

from __future__ import annotations

import pickle
import textwrap
from pathlib import Path
from typing import Any

import pytest
import torch

from triton_agent.tools.checker.prepare import prepare_plan
from triton_agent.tools.errors import ProblemError
from triton_agent.tools.problem.problem import parse_problem
from triton_agent.tools.reference.reference import load
from triton_agent.tools.settings import EvaluatorSettings

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="there, what asks for CUDA gets it")

HEAD = "import torch\nimport torch.nn as nn\n"


def facts_of(folder: Path, text: str) -> dict[str, Any]:
    path = folder / "problem.py"
    path.write_text(HEAD + textwrap.dedent(text))
    return prepare_plan(parse_problem(str(path)), EvaluatorSettings(modes=("eval",), shapes="given")).facts


def operators(facts: dict[str, Any]) -> list[str]:
    return [node["operator"] for node in facts["graphs"][0]["nodes"]]


def test_a_file_that_works_on_cuda_is_read(tmp_path: Path) -> None:
    facts = facts_of(
        tmp_path,
        """
        device = "cuda"
        torch.set_default_device(device)
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = nn.Parameter(torch.randn(8, 8, device=device))
            def forward(self, x):
                torch.cuda.synchronize()
                return torch.relu(x.to(device) @ self.weight.to(torch.cuda.current_device()))
        def get_inputs():
            torch.cuda.empty_cache()
            return [torch.randn(4, 8).cuda()]
        """,
    )
    assert "aten.relu" in operators(facts)


def test_what_is_marked_for_the_compiler_is_read_without_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "/nowhere/no-compiler")
    facts = facts_of(
        tmp_path,
        """
        @torch.compile
        def act(x):
            return torch.relu(x) * 3.0
        class Model(nn.Module):
            def forward(self, x):
                return act(x) + 1
        Model.forward = torch.compile(Model.forward, dynamic=False)
        def get_inputs():
            return [torch.randn(4, 8)]
        """,
    )
    assert "aten.relu" in operators(facts)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("float(x.sum())", "returns no tensor"),
        ("nn.functional.dropout(x, 0.5)", "different answers in two calls"),
        ("vars(self).update(n=vars(self).get('n', 0) + 1) or x * self.n", "a state in plain attributes"),
        ("x @ x", "cannot be multiplied"),
    ],
)
def test_an_original_that_cannot_serve_is_told_once_and_what_to_do(tmp_path: Path, body: str, told: str) -> None:
    text = f"class Model(nn.Module):\n    def forward(self, x):\n        return {body}\n"
    with pytest.raises(ProblemError) as caught:
        facts_of(tmp_path, text + "def get_inputs():\n    return [torch.randn(4, 8)]\n")
    message = str(caught.value)
    assert told in message and caught.value.remedy
    assert message.count("problem.py") == 1 and "OriginalFailed" not in message


SETTINGS = """
import dataclasses, enum
class Kind(enum.Enum):
    WIDE = 3
@dataclasses.dataclass
class Inner:
    bias: bool = True
@dataclasses.dataclass(frozen=True)
class Settings:
    dim: int = 8
    inner: Inner = Inner
    kind: Kind = Kind.WIDE
    @property
    def double(self):
        return 2 * self.dim
    def method(self):
        return 1
def act(x):
    return x
class Model(nn.Module):
    def __init__(self, settings):
        super().__init__()
        self.linear = nn.Linear(8, 8)
    def forward(self, x):
        return self.linear(x)
def get_inputs():
    return [torch.randn(4, 8)]
def get_init_inputs():
    return [{given}]
"""


def arguments_of(folder: Path, given: str) -> Any:
    path = folder / "problem.py"
    path.write_text(HEAD + SETTINGS.replace("{given}", given))
    return load(parse_problem(str(path))).told_arguments()[0][0]


def test_a_settings_object_is_told_by_what_it_holds(tmp_path: Path) -> None:
    """The settings object arrives in a process without its class, so as a plain object."""
    told = pickle.loads(pickle.dumps(arguments_of(tmp_path, "Settings(dim=16)")))
    assert (told.dim, told.double, told.inner.bias, told.kind.value) == (16, 32, True, 3)
    assert not hasattr(told, "method")


def test_what_no_other_file_can_be_handed_is_refused_with_what_to_do(tmp_path: Path) -> None:
    for given in ("act", "lambda x: x", "[Model(None)]"):
        with pytest.raises(ProblemError, match="cannot be passed to another file") as caught:
            arguments_of(tmp_path, given)
        assert "problem.py" in caught.value.where and caught.value.remedy


def test_inputs_of_a_class_of_the_file_are_refused_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "problem.py"
    batch = "import dataclasses\n@dataclasses.dataclass\nclass Batch:\n    x: torch.Tensor\n"
    text = f"{batch}class Model(nn.Module):\n    def forward(self, given):\n        return given[0].x\n"
    path.write_text(f"{HEAD}{text}def get_inputs():\n    return [[Batch(torch.ones(3))]]\n")
    with pytest.raises(ProblemError, match="gives a Batch") as caught:
        load(parse_problem(str(path))).make_inputs(0)
    assert caught.value.remedy


def test_tensors_that_are_no_parameters_are_lifted_to_float64_as_well(tmp_path: Path) -> None:
    """Otherwise the reference's own outputs would serve as the truth, and honest kernels could be refused by chance."""
    facts = facts_of(
        tmp_path,
        """
        TABLE = torch.arange(64.0).reshape(8, 8) / 64
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.mine = torch.ones(8, 8)
            def forward(self, x):
                return x @ TABLE @ self.mine
        def get_inputs():
            return [torch.randn(4, 8)]
        """,
    )
    assert not [note for note in facts["notes"] if "float64" in note]


def test_inputs_may_come_one_by_one(tmp_path: Path) -> None:
    path = tmp_path / "problem.py"
    model = "class Model(nn.Module):\n    def forward(self, x, y):\n        return x + y\n"
    path.write_text(f"{HEAD}{model}def get_inputs():\n    for _ in range(2):\n        yield torch.randn(3)\n")
    reference = load(parse_problem(str(path)))
    first, again = reference.make_inputs(1), reference.make_inputs(1)
    assert len(first) == 2 and all(torch.equal(a, b) for a, b in zip(first, again))


def test_parameters_without_a_size_are_told_by_name(tmp_path: Path) -> None:
    text = "class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    text += "        self.l = nn.LazyLinear(3)\n"
    with pytest.raises(ProblemError, match="LazyLinear"):
        facts_of(
            tmp_path, f"{text}    def forward(self, x): return self.l(x)\ndef get_inputs(): return [torch.ones(3)]\n"
        )


def test_a_scripted_module_within_is_read(tmp_path: Path) -> None:
    text = "class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    text += "        self.inner = torch.jit.script(nn.Linear(3, 3))\n    def forward(self, x): return self.inner(x)\n"
    assert facts_of(tmp_path, f"{text}def get_inputs(): return [torch.ones(2, 3)]\n")["graphs"]


def test_a_model_that_keeps_a_computed_tensor_is_read(tmp_path: Path) -> None:
    text = "class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    text += (
        "        self.inner = nn.utils.weight_norm(nn.Linear(3, 3))\n    def forward(self, x): return self.inner(x)\n"
    )
    assert facts_of(tmp_path, f"{text}def get_inputs(): return [torch.ones(2, 3)]\n")["graphs"]
