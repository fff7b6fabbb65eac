"""Kernel files by others: every usual file name is matched to its problem, and an operator becomes a candidate."""

from __future__ import annotations

from pathlib import Path

import pytest

from triton_agent.runs.bench.kernels import KernelFolder, as_candidate, read_kernels
from triton_agent.runs.bench.problems import Selection, of_clone, of_suite
from triton_agent.runs.bench.public.layouts import Benchmark
from triton_agent.tools.errors import UsageError

LAYOUTS = Path(__file__).parents[1] / "layouts"
KERNEL = "class ModelNew: pass\n"


@pytest.fixture(scope="module")
def levels() -> Selection:
    return of_clone(LAYOUTS / "kernelbench", Benchmark.KERNELBENCH, [])


def laid_out(folder: Path, *places: str) -> Path:
    for place in places:
        path = folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(KERNEL + f"# {place}\n")
    return folder


def names_for(found: KernelFolder, selection: Selection, label: str) -> list[str]:
    task = next(task for task in selection.tasks if task.label == label)
    return [file.name for file in found.of(task)]


@pytest.mark.parametrize(
    "place",
    [
        "bent_line.py",
        "2_bent_line.py",
        "bent_line_0.py",
        "level1/2.py",
        "level1/2_7.py",
        "level1/bent_line.py",
        "level1/2_bent_line_3.py",
        "level1/2_bent_line/a.py",
        "bent_line/a.py",
        "level_1_problem_2_sample_0_kernel.py",
        "some_run/level_1_problem_2_sample_11.py",
    ],
)
def test_usual_names_find_their_problem(levels: Selection, tmp_path: Path, place: str) -> None:
    found = read_kernels(laid_out(tmp_path, place), levels.tasks)
    assert names_for(found, levels, "level1/2_bent_line") == [place]
    assert found.unmatched == ()


def test_samples_are_in_the_order_of_their_numbers(levels: Selection, tmp_path: Path) -> None:
    laid_out(tmp_path, *(f"bent_line_{number}.py" for number in (10, 2, 0)))
    found = read_kernels(tmp_path, levels.tasks)
    assert names_for(found, levels, "level1/2_bent_line") == ["bent_line_0.py", "bent_line_2.py", "bent_line_10.py"]


def test_a_number_that_several_levels_have_means_none_of_them(levels: Selection, tmp_path: Path) -> None:
    laid_out(tmp_path, "bent_line.py", "2.py")
    assert read_kernels(tmp_path, levels.tasks).unmatched == ("2.py",)
    alone = of_clone(LAYOUTS / "kernelbench", Benchmark.KERNELBENCH, ["level1"])
    assert read_kernels(tmp_path, alone.tasks).unmatched == ()


def test_suite_goes_by_family_and_name(tmp_path: Path) -> None:
    selection = of_suite(quick=False)
    laid_out(tmp_path, "norms/group_norm_silu_0.py", "offset_rms_norm.py")
    found = read_kernels(tmp_path, selection.tasks)
    assert {file.label for file in found.files} == {"norms/group_norm_silu", "norms/offset_rms_norm"}


def test_a_folder_in_which_nothing_fits_is_refused_with_an_example(levels: Selection, tmp_path: Path) -> None:
    laid_out(tmp_path, "notes.py")
    with pytest.raises(UsageError, match="named after a problem") as refused:
        read_kernels(tmp_path, levels.tasks)
    assert "level1/1_rows_less_their_median.py" in refused.value.remedy


def test_version_changes_with_a_file(levels: Selection, tmp_path: Path) -> None:
    laid_out(tmp_path, "bent_line.py")
    before = read_kernels(tmp_path, levels.tasks).version
    (tmp_path / "bent_line.py").write_text(KERNEL + "x = 1\n")
    assert read_kernels(tmp_path, levels.tasks).version != before


PROBLEM = """
def bend(x):
    return x

class Model(torch.nn.Module):
    def forward(self, x):
        return bend(x, 2)
"""


def test_an_operator_gets_the_class_of_its_problem_and_loses_its_test() -> None:
    answer = "import triton\n\ndef bend(x, n):\n    return x * n\n\n" + "#" * 146 + "\n\ntest_bend()\n"
    made = as_candidate(answer, PROBLEM)
    assert "class ModelNew(torch.nn.Module)" in made and "return bend(x, 2)" in made
    assert "return x * n" in made and "test_bend" not in made


@pytest.mark.parametrize(
    "text", [KERNEL, "def other(x):\n    return x\n", "def bend(x:\n", "", "class ModelNewer: pass\n"]
)
def test_whatever_is_no_such_operator_is_judged_as_it_is(text: str) -> None:
    assert as_candidate(text, PROBLEM) == text
