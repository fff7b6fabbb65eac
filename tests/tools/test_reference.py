"""Loading a problem: its code runs in isolation with a seed, and its errors name their line."""

from __future__ import annotations

import ast
import copy
import inspect
import random
import sys
import types
from collections.abc import Callable
from pathlib import Path

import numpy
import pytest
import torch
import torch.nn.functional as F

from triton_agent.tools.cases.case_maker import CaseMaker
from triton_agent.tools.errors import ProblemError
from triton_agent.tools.graph.own_limits import Limit, OwnLimits
from triton_agent.tools.problem.problem import parse_problem
from triton_agent.tools.reference.input_tensors import DRAWS_AT_MOST, with_leading
from triton_agent.tools.reference.module_copy import copied_module
from triton_agent.tools.reference.reference import Reference, load
from triton_agent.tools.reference.user_code import UserModule
from triton_agent.tools.settings import EvaluatorSettings
from triton_agent.tools.truth.truth import lifting

HEAD = "import torch\nfrom torch import nn\n"
LINEAR = (
    HEAD
    + """
rows, width = 4, 2 * 8
double = 2 * width
class Model(nn.Module):
    def __init__(self, width, out):
        super().__init__()
        self.linear = nn.Linear(width, out)
    def forward(self, x):
        return self.linear(x)
def get_inputs():
    return [torch.randn(rows, width)]
def get_init_inputs():
    return [width, double]
"""
)


def problem(folder: Path, text: str, name: str = "problem.py", **options: object) -> Reference:
    class_name = options.pop("class_name", None)
    path = folder / name
    path.write_text(text)
    target = f"{path}:{class_name}" if class_name else str(path)
    return load(parse_problem(target, **options))  # type: ignore[arg-type]


KEYWORDS = (
    HEAD
    + """
class Config:
    def __init__(self, factor=1.0):
        self.factor = factor
class Scale(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.factor = config.factor
    def forward(self, x, shift=None, *, power=1, gate):
        x = x if shift is None else x + shift
        return (x * self.factor) ** power * gate
"""
)


def test_arguments_by_keyword_only_stand_at_the_end_with_their_defaults(tmp_path: Path) -> None:
    options = {"class_name": "Scale", "init": "Config(factor=3.0)"}
    made = problem(tmp_path, KEYWORDS, inputs=["f32[2]", "gate=f32[2]"], **options)
    x, shift, power, gate = made.make_inputs(1)
    assert (shift, power, made.keyword_only()) == (None, 1, ("power", "gate"))
    model = made.make_model(0)
    torch.testing.assert_close(made.call(model, [x, shift, power, gate]), x * 3.0 * gate)
    torch.testing.assert_close(copy.deepcopy(model)(x, shift, 2, gate), (x * 3.0) ** 2 * gate)
    assert list(inspect.signature(type(model).forward).parameters) == ["self", "x", "shift", "power", "gate"]


def test_inputs_that_forward_does_not_take_show_its_signature(tmp_path: Path) -> None:
    options = {"class_name": "Scale", "init": "Config()"}
    error = failure(tmp_path, KEYWORDS, inputs=["f32[2]"], **options)
    assert "(self, x, shift=None, *, power=1, gate)" in str(error) and "'gate'" in str(error)


def test_constructor_objects_are_made_of_the_users_classes_only(tmp_path: Path) -> None:
    text = KEYWORDS.replace("class Config:", "from fractions import Fraction\nclass Config:")
    error = failure(tmp_path, text, "make_model", inputs=["f32[2]"], class_name="Scale", init="Fraction(1)")
    assert "Fraction is not a class of this file" in str(error)


def model_with(inputs: str, body: str = "return x", init: str = "") -> str:
    model = f"class Model(nn.Module):\n    def forward(self, x, y=None):\n        {body}\n"
    return f"{HEAD}{model}def get_inputs():\n    {inputs}\n{init}"


def failure(folder: Path, text: str, stage: str = "make_inputs", **options: object) -> ProblemError:
    with pytest.raises(ProblemError) as caught:
        reference = problem(folder, text, **options)
        getattr(reference, stage)(1)
    return caught.value


def test_a_problem_loaded_while_a_truth_is_computed_keeps_its_dtype(tmp_path: Path) -> None:
    path = tmp_path / "problem.py"
    path.write_text(LINEAR)
    with lifting():  # in the checker this is another thread
        reference = load(parse_problem(str(path)))
    assert reference.make_inputs(0)[0].dtype is torch.float32
    assert reference.make_model(0).linear.weight.dtype is torch.float32


def test_a_problem_runs_as_it_was_when_its_digest_was_made(tmp_path: Path) -> None:
    path = tmp_path / "problem.py"
    path.write_text(model_with("return [torch.ones(2)]"))
    spec = parse_problem(str(path))
    path.write_text(model_with("return [torch.ones(2)]", body="return x + 1"))
    reference = load(spec)
    assert torch.equal(reference.call(reference.make_model(0), reference.make_inputs(0)), torch.ones(2))


def test_a_module_given_inputs_of_another_dtype_is_told_both(tmp_path: Path) -> None:
    path = tmp_path / "problem.py"
    path.write_text(LINEAR)
    reference = load(parse_problem(f"{path}:Model", init="16, 4", inputs=["bf16[4,16]"]))
    with pytest.raises(ProblemError, match="same dtype") as caught:
        reference.call(reference.make_model(0), reference.make_inputs(0))
    assert "torch.float32" in caught.value.remedy and "self.to(torch.bfloat16)" in caught.value.remedy


@pytest.mark.parametrize(
    ("made", "devices"),
    [
        ("torch.randn(8 << 20)", ["meta", "meta"]),
        ("torch.randn(8 << 10)", ["cpu", "cpu"]),
        ("torch.from_numpy(torch.randn(8 << 20).numpy())", ["cpu", "cpu"]),
        ("torch.randn(8 << 20, device=only_once_elsewhere())", ["cpu", "cpu"]),
    ],
)
def test_large_inputs_are_made_on_the_device_if_their_file_lets_them(
    tmp_path: Path, made: str, devices: list[str]
) -> None:
    fickle = f"""
import pathlib
tried = pathlib.Path({str(tmp_path / "tried")!r})
def only_once_elsewhere():
    device = torch.empty(1).device.type
    if device == "meta" and tried.exists():
        raise RuntimeError("not here")
    tried.touch()
    return device
"""
    reference = problem(tmp_path, model_with(f"return [{made}]", init=fickle))
    assert [reference.make_inputs_on("meta", 1)[0].device.type for _ in devices] == devices
    assert torch.equal(reference.make_inputs(7)[0], reference.make_inputs_on("cpu", 7)[0])


def test_a_file_that_can_be_executed_once_only_is_drawn_on_the_cpu(tmp_path: Path) -> None:
    mark = str(tmp_path / "executed")
    once = f"import os\nassert not os.path.exists({mark!r})\nopen({mark!r}, 'w').close()\n"
    reference = problem(tmp_path, once + model_with("return [torch.randn(8 << 20)]"))
    assert [reference.make_inputs_on("meta", 1)[0].device.type for _ in range(2)] == ["cpu", "cpu"]


def test_a_draw_that_is_left_half_way_leaves_torch_as_it_was(tmp_path: Path) -> None:
    drawing = "torch.set_num_threads(3)\n    x = torch.randn(8 << 20)\n    torch.set_num_threads(1)\n    return [x]"
    reference = problem(tmp_path, model_with(drawing))
    before = torch.get_num_threads()
    assert before != 3
    reference._inputs_are_large()
    assert torch.get_num_threads() == before


def test_a_file_that_remembers_tensors_gets_them_where_it_made_them(tmp_path: Path) -> None:
    text = model_with("return [torch.randn(2 << 20), table() + 1, table()]")
    remembering = "import functools\n@functools.cache\ndef table():\n    return torch.ones(2 << 20)\n"
    reference = problem(tmp_path, f"{text}{remembering}")
    for device in ("cpu", "meta", "cpu", "meta"):
        made = reference.make_inputs_on(device, 1)
        assert [tensor.device.type for tensor in made] == [device] * 3
    assert torch.equal(reference.make_inputs(1)[1], torch.full((2 << 20,), 2.0))


@pytest.mark.parametrize("made", ["torch.randn(2 << 20, 1).expand(-1, 4)", "torch.randn(1 << 20, 12).chunk(3, -1)[1]"])
def test_inputs_made_on_a_device_come_to_lie_as_those_that_are_moved_there(tmp_path: Path, made: str) -> None:
    reference = problem(tmp_path, model_with(f"return [{made}]"))
    maker = types.SimpleNamespace(settings=EvaluatorSettings(device="meta"))
    lies = [
        tensor.stride()
        for inputs in (reference.make_inputs(1), reference.make_inputs_on("meta", 1))
        for tensor in CaseMaker._moved(maker, inputs)  # type: ignore[arg-type]
    ]
    assert lies == [(4, 1), (4, 1)]


def test_everything_follows_the_seed_and_nothing_leaks(tmp_path: Path) -> None:
    drawing = "return [torch.rand(2), random.random(), float(numpy.random.rand())]"
    reference = problem(tmp_path, "import random, numpy\n" + model_with(drawing))
    before = (torch.get_rng_state(), random.getstate(), numpy.random.get_state()[1].tolist())
    first, again, other = (reference.make_inputs(seed) for seed in (7, 7, 8))
    assert torch.equal(first[0], again[0]) and first[1:] == again[1:]
    assert not torch.equal(first[0], other[0]) and first[1] != other[1] and first[2] != other[2]
    assert torch.equal(before[0], torch.get_rng_state())
    assert (before[1], before[2]) == (random.getstate(), numpy.random.get_state()[1].tolist())


def test_models_of_one_seed_are_equal_and_in_the_constructors_mode(tmp_path: Path) -> None:
    reference = problem(tmp_path, LINEAR)
    one, two, other = (reference.make_model(seed) for seed in (3, 3, 4))
    assert torch.equal(one.linear.weight, two.linear.weight)
    assert not torch.equal(one.linear.weight, other.linear.weight)
    assert one.training
    assert reference.call(one, reference.make_inputs(0)).shape == (4, 32)


def test_overridden_sizes_carry_over_to_derived_ones(tmp_path: Path) -> None:
    spec = problem(tmp_path, LINEAR).spec
    reference = load(spec, {"rows": 5, "width": 3})
    assert reference.make_inputs(0)[0].shape == (5, 3)
    assert reference.init_arguments() == ([3, 6], {})
    with pytest.raises(ProblemError, match="no module-level whole number height"):
        load(spec, {"height": 3})


def test_leading_dimension_is_cut_and_extended_by_fresh_rows(tmp_path: Path) -> None:
    spec = problem(tmp_path, LINEAR).spec
    given = load(spec).make_inputs(5)[0]
    assert torch.equal(load(spec, batch=3).make_inputs(5)[0], given[:3])
    longer = load(spec, batch=9).make_inputs(5)[0]
    assert longer.shape == (9, 16)
    assert torch.equal(longer[:4], given) and not torch.equal(longer[4:8], given)


def test_a_very_long_leading_dimension_repeats_draws_in_random_order(tmp_path: Path) -> None:
    """Rows of two inputs that were drawn together stay together, and none follows another by a fixed distance."""
    inputs = "rows = torch.randn(2, 3)\n    return [rows, 2 * rows[:, 0]]"
    spec = problem(tmp_path, model_with(inputs, "return x + y[:, None]")).spec
    rows, doubled = load(spec, batch=99_999).make_inputs(5)
    assert rows.shape == (99_999, 3) and torch.equal(doubled, 2 * rows[:, 0])
    first = 2 * DRAWS_AT_MOST
    assert torch.equal(load(spec, batch=first).make_inputs(5)[0], rows[:first])
    assert len(rows.unique(dim=0)) == first
    assert not any(torch.equal(rows[step : step + 1000], rows[:1000]) for step in range(1, 4000))


def test_modules_beside_the_file_are_found_and_kept_apart(tmp_path: Path) -> None:
    made = []
    for name, value in (("a", 1), ("b", 2)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "layers.py").write_text(f"VALUE = {value}\n")
        (tmp_path / name / "late.py").write_text(f"VALUE = {value}0\n")
        late = "import late\n        return x + late.VALUE"
        made.append(
            problem(tmp_path / name, "import layers\n" + model_with("return [torch.ones(1) * layers.VALUE]", late))
        )
    path = list(sys.path)
    results = [float(item.call(item.make_model(0), item.make_inputs(0))) for item in (*made, made[0])]
    assert results == [11.0, 22.0, 11.0]
    assert sys.path == path and not {"layers", "late"} & sys.modules.keys()
    assert not list(tmp_path.rglob("__pycache__"))


def test_another_thread_that_searches_the_import_path_misses_no_folder(tmp_path: Path) -> None:
    """Python iterates over `sys.path` during an import; removing entries meanwhile would make it skip others."""
    path = list(sys.path)
    user = UserModule(problem(tmp_path, LINEAR).spec.source(), ast.parse(""))
    with user.running("a test"):
        walk = iter(sys.path)
        while next(walk) != path[0]:
            pass
    assert list(walk) == path[1:]


def test_relative_imports_work_inside_a_package(tmp_path: Path) -> None:
    package = tmp_path / "mynet"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "base.py").write_text(HEAD + "class Base(nn.Module):\n    def forward(self, x): return x + 1\n")
    text = "from .base import Base\nclass Net(Base):\n    pass\n"
    reference = problem(package, text, class_name="Net", inputs=["f32[2]"])
    assert reference.call(reference.make_model(0), [torch.zeros(2)]).tolist() == [1, 1]


def test_classes_of_the_file_can_be_inspected_and_used_as_dataclasses(tmp_path: Path) -> None:
    text = "from __future__ import annotations\nimport dataclasses\n" + model_with("return [torch.ones(1)]")
    reference = problem(tmp_path, text + "@dataclasses.dataclass(kw_only=True)\nclass Config:\n    width: int = 3\n")
    assert "def forward" in inspect.getsource(type(reference.make_model(0)))
    reference.close()


def test_a_default_dtype_set_by_the_file_stays_with_it(tmp_path: Path) -> None:
    reference = problem(tmp_path, "import torch\ntorch.set_default_dtype(torch.float64)\n" + LINEAR)
    assert torch.get_default_dtype() is torch.float32
    assert reference.make_inputs(0)[0].dtype is torch.float64
    assert reference.make_model(0).linear.weight.dtype is torch.float64


def test_every_shape_of_input_answer_becomes_a_list(tmp_path: Path) -> None:
    def inputs(text: str) -> list[object]:
        return problem(tmp_path, model_with(text)).make_inputs(0)

    assert len(inputs("return torch.ones(2)")) == 1
    assert len(inputs("return torch.ones(2), 3")) == 2
    assert inputs("return {'y': 2, 'x': 1}") == [1, 2]
    assert "str" in str(failure(tmp_path, model_with("return 'x'")))
    assert "do not fit forward" in str(failure(tmp_path, model_with("return {'z': 1}")))


def test_inputs_belong_to_whoever_drew_them(tmp_path: Path) -> None:
    text = model_with("x = KEPT[:2]; return [x, x, KEPT.t(), KEPT[:1].expand(5, 4)]").replace(
        "class", "KEPT = torch.ones(4, 4)\nclass"
    )
    reference = problem(tmp_path, text)
    first = reference.make_inputs(0)
    assert first[0] is first[1]
    assert first[2].stride() == (1, 4) and first[3].stride() == (0, 1)
    first[0].fill_(7)
    assert first[2][0, 0] == 7, "views of one tensor stay views of one tensor"
    assert reference.make_inputs(0)[0].eq(1).all()


@pytest.mark.parametrize("init", ["[[], {'width': 4}]", "{'width': 4}", "[4]", "4", "(4,)"])
def test_every_form_of_constructor_arguments_is_understood(tmp_path: Path, init: str) -> None:
    body = "return x\n    def __init__(self, width):\n        super().__init__()\n        self.width = width"
    reference = problem(tmp_path, model_with("return []", body, f"def get_init_inputs(): return {init}\n"))
    assert reference.make_model(0).width == 4


def test_user_module_inputs_are_drawn_as_described(tmp_path: Path) -> None:
    text = HEAD + "class Block(nn.Module):\n    def forward(self, *xs): return xs\n"
    described = [
        "f16[3,4]",
        "i64[500]<7",
        "i32[500]",
        "bool[200]",
        "f32[]",
        "c64[2]",
        "f8e5m2[4]",
        "f32[0,2]",
        "u8[9]<256",
    ]
    drawn = problem(tmp_path, text, class_name="Block", inputs=described).make_inputs(1)
    half, limited, small, flags, scalar, *_ = drawn
    assert half.dtype is torch.float16 and half.shape == (3, 4) and half.float().std() > 0.3
    assert (limited.min(), limited.max()) == (0, 6)
    assert (small.min(), small.max()) == (0, 9)
    assert flags.any() and not flags.all()
    assert scalar.shape == () and [item.dtype for item in drawn[5:7]] == [torch.complex64, torch.float8_e5m2]


def test_saved_inputs_are_loaded_as_data_only(tmp_path: Path) -> None:
    text, saved = HEAD + "class Block(nn.Module):\n    def forward(self, x, n): return x * n\n", tmp_path / "saved.pt"
    torch.save([torch.arange(3.0), 2], saved)
    reference = problem(tmp_path, text, class_name="Block", inputs_file=str(saved))
    assert reference.call(reference.make_model(0), reference.make_inputs(0)).tolist() == [0, 2, 4]
    torch.save({"x": Path("x")}, saved)
    assert "cannot be loaded" in str(failure(tmp_path, text, class_name="Block", inputs_file=str(saved)))


@pytest.mark.skipif(torch.cuda.is_available(), reason="the machine has what the file asks for")
def test_a_file_that_asks_for_cuda_gets_the_cpu(tmp_path: Path) -> None:
    drawing = (
        "return [torch.randn(2, device='cuda'), torch.ones(2).cuda(), "
        "torch.ones(2).to('cuda:0'), torch.ones(2, pin_memory=True)]"
    )
    reference = problem(tmp_path, model_with(drawing, "return x.to(torch.device('cuda'))"))
    inputs = reference.make_inputs(0)
    assert {tensor.device.type for tensor in inputs} == {"cpu"}
    assert reference.call(reference.make_model(0), inputs[:1]).shape == (2,)


def test_what_the_files_code_raises_names_its_line(tmp_path: Path) -> None:
    error = failure(tmp_path, "import torch\n\nx = 1 / 0\n" + LINEAR)
    assert error.where.endswith("problem.py:3") and "ZeroDivisionError" in error.what
    error = failure(tmp_path, model_with("return [torch.ones(2, 3).view(5)]"))
    assert error.where.endswith("problem.py:7") and error.what.startswith("get_inputs()")
    error = failure(tmp_path, "import no_such_module\n" + LINEAR)
    assert "install no_such_module" in error.remedy
    error = failure(tmp_path, "import sys\nsys.exit(2)\n" + LINEAR)
    assert "__main__" in error.remedy


def test_mistakes_in_a_module_beside_the_file_are_blamed_on_that_module(tmp_path: Path) -> None:
    (tmp_path / "parts.py").write_text("def make():\n    raise ValueError('no parts')\n")
    error = failure(tmp_path, "import parts\n" + model_with("return parts.make()"))
    assert error.where.endswith("parts.py:2")
    (tmp_path / "parts.py").write_text("def make(:\n")
    assert failure(tmp_path, "import parts\n" + LINEAR).where.endswith("parts.py:1")


def test_wrong_constructor_arguments_show_what_it_takes(tmp_path: Path) -> None:
    error = failure(tmp_path, LINEAR.replace("[width, double]", "[width]"), "make_model")
    assert "Model(width, out)" in error.remedy
    text = LINEAR.split("def get_inputs")[0]
    error = failure(tmp_path, text, "make_model", class_name="Model", init="3", inputs=["f32[2]"])
    assert "--init" in error.remedy


def test_a_class_that_is_no_module_is_refused(tmp_path: Path) -> None:
    error = failure(tmp_path, "class Block:\n    pass\n", class_name="Block", inputs=["f32[2]"])
    assert "not derived from torch.nn.Module" in error.what


def test_index_out_of_range_explains_how_integers_are_drawn(tmp_path: Path) -> None:
    text = HEAD + "class E(nn.Module):\n    def forward(self, i): return torch.arange(3)[i]\n"
    reference = problem(tmp_path, text, class_name="E", inputs=["i64[64]"])
    with pytest.raises(ProblemError, match='"i64'):
        reference.call(reference.make_model(0), reference.make_inputs(0))


def test_verifier_judges_and_has_no_model(tmp_path: Path) -> None:
    text = "import torch\ndef get_inputs(): return [torch.rand(4)]\ndef verify(inputs, outputs):\n    return {}\n"
    reference = problem(tmp_path, text.format("(outputs >= inputs[0]).all()"))
    inputs = reference.make_inputs(0)
    assert reference.verify(inputs, inputs[0] + 1) is True
    assert reference.verify(inputs, inputs[0] - 1) is False
    assert not reference.has_reference and reference.init_arguments() == ([], {})
    with pytest.raises(ProblemError):
        reference.make_model(0)
    with pytest.raises(ProblemError, match="not True or False"):
        problem(tmp_path, text.format("None")).verify(inputs, None)


class HoldsFunctions(torch.nn.Module):
    """Calls submodules through a function, as models with a `ModuleDict` of layers do."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleDict({"up": torch.nn.Linear(2, 3), "down": torch.nn.Linear(3, 2)})
        layers = self.layers
        steps = [lambda x: layers.up(x), lambda x: layers.down(x)]
        self.whole = lambda x: steps[1](steps[0](x)) + later

        later = 1.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.whole(x)


def test_a_copy_calls_its_own_submodules_through_functions() -> None:
    model = HoldsFunctions()
    copied = copied_module(model)
    x = torch.ones(1, 2)
    assert torch.equal(copied(x), model(x))
    with torch.no_grad():
        copied.layers.up.weight.zero_()
        copied.layers.up.bias.zero_()
    assert torch.equal(copied(x), copied.layers.down.bias[None] + 1.0)
    assert not torch.equal(copied(x), model(x))


@pytest.mark.parametrize("batch", [2, 9])
def test_inputs_of_another_leading_size_lie_in_memory_as_those_given(batch: int) -> None:
    def make(seed: int) -> list[torch.Tensor]:
        torch.manual_seed(seed)
        wide = torch.randn(6, 28)
        return [torch.randn(14, 6).t(), wide[:, ::2], wide[:, :1].expand(6, 14), wide, torch.randn(1, 6).t()]

    made = with_leading(make, 0, batch=batch)
    draws = [torch.cat(parts) for parts in zip(make(0), make(1_000_003))]
    assert all(torch.equal(tensor, draw[:batch]) for tensor, draw in zip(made, draws))
    steps = [(1, batch), (28, 2), (28, 0), (28, 1), (1, 1)]
    assert [tensor.stride() for tensor in made[:4]] == steps[:4] and made[4].is_contiguous()


@pytest.mark.parametrize(("batch", "expected"), [(30, [0, 5, 5, 30]), (8, [0, 5, 5, 8]), (3, [0, 3, 3, 3])])
def test_offsets_divide_the_rows_of_another_leading_size(batch: int, expected: list[int]) -> None:
    def make(seed: int) -> list[torch.Tensor]:
        return [torch.randn(12, 2), torch.randn(12), torch.tensor([0, 5, 5, 12]), torch.tensor([0, 5, 11])]

    rows, _, offsets, others = with_leading(make, 0, batch=batch)
    assert len(rows) == batch and offsets.tolist() == expected and others.tolist() == [0, 5, 11]


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: torch.where(x * x > 0, x, 1.0), {(0.0, "above", 0.25, 4.0), (0.0, "unequal", 0.25, 4.0)}),
        (lambda x: torch.where(x > 0, x, 1.0), {(0.0, "both", -1.5, 2.0)}),
        (lambda x: (x / 4).clamp(max=1), {(1.0, "below", -0.375, 0.5), (1.0, "unequal", -0.375, 0.5)}),
        (lambda x: torch.where(x == 5, 0.0, x), {(5.0, "unequal", -1.5, 2.0)}),
        (torch.relu, {(0.0, "both", -1.5, 2.0)}),
        (lambda x: torch.complex(x, x).abs(), set()),
        (lambda x: F.softshrink(x, 1.7), {(-1.7, "above", -1.5, 2.0), (1.7, "both", -1.5, 2.0)}),
        (F.mish, {(20.0, "below", -1.5, 2.0), (20.0, "unequal", -1.5, 2.0)}),
    ],
)
def test_numbers_that_a_reference_compares_values_with(
    function: Callable[[torch.Tensor], torch.Tensor], expected: set[tuple[float, str, float, float]]
) -> None:
    with OwnLimits() as limits:
        function(torch.tensor([-1.5, 0.5, 2.0, float("nan")]))
    assert limits.found == {Limit(*it) for it in expected}
