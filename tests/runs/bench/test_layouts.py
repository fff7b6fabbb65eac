"""Public layouts: every problem of a clone is found, in order, and converted to one that the evaluator accepts."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

from triton_agent.runs.bench.public.layouts import Benchmark, BenchmarkProblem, problem_spec, survey
from triton_agent.runs.bench.public.operator_problem import operator_problem
from triton_agent.tools.errors import ProblemError, UsageError
from triton_agent.tools.problem.problem import ProblemKind, ProblemSpec, parse_problem
from triton_agent.tools.problem.source import read
from triton_agent.tools.reference.reference import load
from triton_agent.tools.reference.sizes import free_sizes

FOLDER = Path(__file__).parents[1] / "layouts"
KERNELBENCH = FOLDER / "kernelbench"
TRITONBENCH = FOLDER / "tritonbench"
LINE = "#" * 146


def discover(folder: Path) -> tuple[BenchmarkProblem, ...]:
    return survey(folder).problems


def operators(channel: str) -> dict[str, BenchmarkProblem]:
    return {problem.name: problem for problem in discover(TRITONBENCH) if problem.group == channel}


def answer(spec: ProblemSpec) -> list[torch.Tensor]:
    """Run the reference once on its inputs."""
    reference = load(spec)
    with torch.no_grad():
        made = reference.call(reference.make_model(0), reference.make_inputs(0))
    return list(made) if isinstance(made, tuple) else [made]


def written(folder: Path, operator: str, test: str, name: str = "bend") -> Path:
    path = folder / f"{name}.py"
    path.write_text(f"import torch\n\n\n{operator}\n\n{LINE}\n\nimport torch\n\n\n{test}\n")
    return path


def made_of(folder: Path, operator: str, test: str, *, call: int = 1) -> str:
    return operator_problem(read(written(folder, operator, test)), call=call)


# -- KernelBench -------------------------------------------------------------------------------------------------------


def test_levels_are_found_in_the_order_of_their_numbers() -> None:
    found = discover(KERNELBENCH)
    assert len(found) == 20
    assert [problem.group for problem in found] == ["level1"] * 8 + ["level2"] * 7 + ["level3"] * 5
    assert [problem.number for problem in found if problem.group == "level1"] == [1, 2, 3, 4, 7, 10, 12, 100]
    assert {problem.benchmark for problem in found} == {Benchmark.KERNELBENCH}
    assert found[6].label == "level1/12_wide_window_mean_"
    assert len({problem.label for problem in found}) == 20


@pytest.mark.parametrize("part", ["", "KernelBench", "KernelBench/level2"])
def test_a_clone_its_folder_and_a_level_are_all_understood(part: str) -> None:
    found = {problem.label for problem in discover(KERNELBENCH / part)}
    everything = {problem.label for problem in discover(KERNELBENCH)}
    assert found == {label for label in everything if not part.endswith("level2") or label.startswith("level2/")}


def test_every_problem_of_the_levels_is_accepted_as_it_stands(tmp_path: Path) -> None:
    for problem in discover(KERNELBENCH):
        spec = problem_spec(problem, tmp_path / "nothing is written here")
        assert (spec.kind, spec.path) == (ProblemKind.MODEL_FILE, str(problem.path))
        assert all(torch.isfinite(tensor).all() for tensor in answer(spec)), problem.label
        assert free_sizes(spec, read(problem.path).tree), problem.label
    assert not list(tmp_path.iterdir())


def test_files_without_a_number_are_left_out_with_the_reason(tmp_path: Path) -> None:
    shutil.copytree(KERNELBENCH / "KernelBench" / "level3", tmp_path / "level3")
    (tmp_path / "level3" / "shared_parts.py").write_text("x = 1\n")
    found = survey(tmp_path)
    assert len(found.problems) == 5
    assert [(item.path.name, item.reason) for item in found.left_out] == [
        ("shared_parts.py", "is not named <number>_<name>.py")
    ]


# -- TritonBench -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", ["", "data", "data/TritonBench_T_v1"])
def test_channels_are_found_in_the_order_of_their_listing(part: str) -> None:
    found = [problem for problem in discover(TRITONBENCH / part) if problem.group == "T"]
    names = ["scaled_bend", "window_extremes", "gated_linear_rows", "looped_only"]
    assert [(problem.number, problem.name) for problem in found] == list(enumerate(names, start=1))
    assert not any(problem.is_triton for problem in found)


def test_channel_of_triton_operators_is_marked_as_such() -> None:
    found = operators("G")
    assert list(found) == ["row_peaks", "shifted_product"]
    assert all(problem.is_triton for problem in found.values())


def test_listing_and_folder_that_disagree_are_reported(tmp_path: Path) -> None:
    shutil.copytree(TRITONBENCH / "data", tmp_path / "data")
    (tmp_path / "data" / "TritonBench_T_v1" / "extra.py").write_text("x = 1\n")
    reasons = {item.path.name: item.reason for item in survey(tmp_path).left_out}
    assert reasons == {
        "never_written.py": "is listed, but there is no such file",
        "extra.py": "is not in the listing",
    }


def test_listing_may_be_an_array_lines_or_absent(tmp_path: Path) -> None:
    shutil.copytree(TRITONBENCH / "data" / "TritonBench_G_v1", tmp_path / "TritonBench_G_v1")
    assert [p.name for p in discover(tmp_path)] == ["row_peaks", "shifted_product"]
    lines = [json.dumps({"file": f"{name}.py"}) for name in ("shifted_product", "row_peaks")]
    (tmp_path / "TritonBench_G_v1.jsonl").write_text("\n".join(lines) + "\n")
    assert [p.name for p in discover(tmp_path)] == ["shifted_product", "row_peaks"]


@pytest.mark.parametrize("text", ["[{]", '[{"name": "no file"}]', '["row_peaks.py"]', '{"file": "a.py"\n'])
def test_broken_listing_is_refused(tmp_path: Path, text: str) -> None:
    shutil.copytree(TRITONBENCH / "data" / "TritonBench_G_v1", tmp_path / "TritonBench_G_v1")
    (tmp_path / "TritonBench_G_v1.json").write_text(text)
    with pytest.raises(UsageError, match="is not a listing of operators"):
        discover(tmp_path)


def test_operators_in_torch_become_problems_that_run(tmp_path: Path) -> None:
    found = operators("T")
    for name in ("scaled_bend", "window_extremes", "gated_linear_rows"):
        spec = problem_spec(found[name], tmp_path)
        assert spec.kind is ProblemKind.MODEL_FILE
        assert Path(spec.path).parent == tmp_path
        assert all(torch.isfinite(tensor).all() for tensor in answer(spec))
        assert free_sizes(spec, read(Path(spec.path)).tree), name


def test_operators_in_triton_become_problems_whose_original_needs_a_gpu(tmp_path: Path) -> None:
    texts = {}
    for name, problem in operators("G").items():
        spec = problem_spec(problem, tmp_path)
        assert spec.kind is ProblemKind.MODEL_FILE
        texts[name] = Path(spec.path).read_text()
        inputs = load(spec).make_inputs(0)
        assert {tensor.device.type for tensor in inputs} == {"cpu"}
    assert "return shifted_product(x, y, 0.5)" in texts["shifted_product"]
    assert "write_row_peaks(x, out)\n        return (x, out,)" in texts["row_peaks"]


def test_each_call_of_a_test_is_a_problem_with_its_literals_in_the_original(tmp_path: Path) -> None:
    problem = operators("T")["scaled_bend"]
    makes = {
        1: ("def forward(self, input, other):", "return scaled_bend(input, other)"),
        2: ("def forward(self, input, other):", "return scaled_bend(input, other, factor=-0.5, bend='tanh')"),
        3: ("def forward(self, input):", "return scaled_bend(input, 2.0)"),
    }
    for call, (signature, body) in makes.items():
        text = Path(problem_spec(problem, tmp_path, call=call).path).read_text()
        assert signature in text and body in text
    with pytest.raises(ProblemError, match="no call 4 of scaled_bend; it has 3"):
        problem_spec(problem, tmp_path, call=4)


def test_made_problem_computes_what_the_test_computed(tmp_path: Path) -> None:
    spec = problem_spec(operators("T")["gated_linear_rows"], tmp_path, call=2)
    (made,) = answer(spec)
    x, weight, bias, gate = load(spec).make_inputs(0)
    torch.testing.assert_close(made, (x @ weight.T + bias) * torch.sigmoid(gate))
    assert gate[:, 0].tolist() == [row - 4.5 for row in range(10)]  # the loop that fills it was kept


def test_inputs_are_drawn_anew_whatever_the_test_seeds(tmp_path: Path) -> None:
    test = """def test_bend():
    def make(size):
        return torch.randn(size, device="cuda:0")

    def unused():
        return 3

    torch.manual_seed(0)
    x = make(5)
    x.mul_(2)
    return {"a": bend(x)}"""
    text = made_of(tmp_path, "def bend(x):\n    return x.sin()", test)
    assert "manual_seed" not in text and "x.mul_(2)" in text and "def unused" not in text
    path = tmp_path / "made.py"
    path.write_text(text)
    reference = load(parse_problem(str(path)))
    assert not torch.equal(reference.make_inputs(0)[0], reference.make_inputs(1)[0])


def test_last_value_that_a_name_was_given_counts(tmp_path: Path) -> None:
    test = """def test_bend():
    power, size = 2, 6
    x = torch.randn(size)
    power = 3
    y = bend(x, power)
    power += 1
    return bend(x, power, axis=size), y"""
    operator = "def bend(value, power, axis=None):\n    return value**power"
    assert "return bend(value, 3)" in made_of(tmp_path, operator, test)
    second = made_of(tmp_path, operator, test, call=2)
    assert "def forward(self, value, power):" in second and "return bend(value, power, axis=6)" in second
    assert "power += 1" in second


def test_operator_is_what_the_file_is_named_after_or_what_is_called_last(tmp_path: Path) -> None:
    operator = (
        "def prepare(x):\n    return x * 2\n\n\ndef bend(x):\n    return x.sin()\n\n\ndef check(x):\n    return x"
    )
    test = "def test_it():\n    x = prepare(torch.randn(5))\n    y = bend(x)\n    return check(y)"
    text = made_of(tmp_path, operator, test)
    assert "return bend(x)" in text and "x = prepare(torch.randn(5))" in text
    other = operator_problem(read(written(tmp_path, operator, test, "another")))
    assert "return check(x)" in other and "y = bend(x)" in other


def test_values_that_were_overwritten_are_not_made(tmp_path: Path) -> None:
    test = """def test_it():
    x = torch.randn(5)
    first = bend(x)
    x = torch.randn(7)
    return first, bend(x)"""
    text = made_of(tmp_path, "def bend(x):\n    return x.sin()", test, call=2)
    assert "torch.randn(7)" in text and "torch.randn(5)" not in text


def test_second_call_does_not_repeat_the_first(tmp_path: Path) -> None:
    test = """def test_it():
    size, dims = 4, [1, 2]
    x, out = torch.randn(size), torch.empty(size)
    write(x, out, size, dims)
    dims.append(3)
    first = out.clone()
    write(x, out, size, dims)
    return first, out.clone()"""
    text = made_of(tmp_path, "def write(source, target, size, dims):\n    target.copy_(source)", test, call=2)
    assert "def forward(self, source, target, dims):" in text
    assert "write(source, target, 4, dims)\n        return (source, target, dims,)" in text
    making = text.partition("def get_inputs():")[2]
    assert "write(" not in making and "dims.append(3)" in making


UNFIT = {
    "no line": ("x = 1", "", "no line of # parts"),
    "loops": ("def bend(x):\n    return x", "def test_a():\n    for i in range(3):\n        bend(i)", "outside loops"),
    "literals": ("def bend(x):\n    return x", "def test_a():\n    return bend(3)", "nothing but literals"),
    "stars": ("def bend(x):\n    return x", "def test_a():\n    a = [1]\n    return bend(*a)", "by \\* or"),
    "a Model": ("class Model: ...\ndef bend(x): ...", "def test_a():\n    bend(torch.ones(1))", "defines Model itself"),
    "broken": ("def bend(x): ...", "def test_a(:\n", "does not stand by itself|syntax error"),
}


@pytest.mark.parametrize(("operator", "test", "said"), UNFIT.values(), ids=UNFIT)
def test_what_no_problem_can_be_made_of_is_refused_with_the_reason(
    tmp_path: Path, operator: str, test: str, said: str
) -> None:
    path = written(tmp_path, operator, test)
    if not test:
        path.write_text(operator)
    with pytest.raises(ProblemError, match=said):
        operator_problem(read(path))


# -- neither -----------------------------------------------------------------------------------------------------------


def test_folder_without_a_benchmark_says_what_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no benchmark") as caught:
        discover(tmp_path)
    assert "level1/<number>_<name>.py" in caught.value.remedy
    with pytest.raises(UsageError, match="no such folder"):
        discover(tmp_path / "nowhere")


def test_clones_side_by_side_are_both_found(tmp_path: Path) -> None:
    shutil.copytree(KERNELBENCH / "KernelBench", tmp_path / "KernelBench")
    shutil.copytree(TRITONBENCH / "data", tmp_path / "data")
    found = discover(tmp_path)
    assert [problem.benchmark for problem in found] == [Benchmark.KERNELBENCH] * 20 + [Benchmark.TRITONBENCH] * 6
