"""What holds for every benchmark: it explains itself without torch, and its rows land where rows like them are."""

from __future__ import annotations

import csv
import dataclasses
import importlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks import learn, rows

from tests.policy.author.briefs import brief_of
from triton_agent.policy.author.decisions import first_choice
from triton_agent.policy.author.writer import write
from triton_agent.tools.problem.problem import parse_problem

FOLDER = Path(rows.__file__).parent
SCRIPTS = sorted(path.name for path in FOLDER.glob("*.py") if "argparse" in path.read_text())
SHARED = dict.fromkeys(rows.SHARED_COLUMNS, "x")

WITHOUT_TORCH = """
import runpy, sys
sys.modules["torch"] = sys.modules["triton"] = None  # importing either raises
script = sys.argv[1]
sys.argv = [script, "--help"]
sys.path.insert(0, script.rpartition("/")[0])
runpy.run_path(script, run_name="__main__")
"""


@pytest.mark.parametrize("script", SCRIPTS)
def test_help_needs_neither_torch_nor_triton(script: str) -> None:
    argv = [sys.executable, "-c", WITHOUT_TORCH, str(FOLDER / script)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage:")


def test_rows_begin_with_a_header_and_are_added_below(tmp_path: Path) -> None:
    path = tmp_path / "results" / "made.csv"
    rows.append(path, SHARED, [{"figure": "a, quoted", "value": 1.5}])
    rows.append(path, SHARED, [{"figure": "b", "value": 2}, {"figure": "c", "value": 3}])
    with path.open(newline="") as file:
        found = list(csv.DictReader(file))
    assert list(found[0]) == [*rows.SHARED_COLUMNS, "figure", "value"]
    assert [(row["figure"], row["value"]) for row in found] == [("a, quoted", "1.5"), ("b", "2"), ("c", "3")]
    assert {row["commit"] for row in found} == {"x"}


OTHER_ROWS: dict[str, dict[str, object]] = {
    "fewer": {"figure": "a"},
    "more": {"figure": "a", "value": 1, "unit": "s"},
    "other order": {"value": 1, "figure": "a"},
    "other names": {"figure": "a", "time": 1},
}


@pytest.mark.parametrize("row", OTHER_ROWS.values(), ids=OTHER_ROWS)
def test_rows_with_other_columns_are_refused(tmp_path: Path, row: dict[str, object]) -> None:
    path = tmp_path / "made.csv"
    rows.append(path, SHARED, [{"figure": "a", "value": 1}])
    before = path.read_bytes()
    with pytest.raises(rows.SchemaMismatch, match="columns"):
        rows.append(path, SHARED, [row])
    assert path.read_bytes() == before


def test_rows_that_differ_among_themselves_are_refused(tmp_path: Path) -> None:
    with pytest.raises(rows.SchemaMismatch):
        rows.append(tmp_path / "made.csv", SHARED, [{"figure": "a"}, {"value": 1}])
    assert not (tmp_path / "made.csv").exists()


def test_no_rows_make_no_file(tmp_path: Path) -> None:
    rows.append(tmp_path / "made.csv", SHARED, [])
    assert not (tmp_path / "made.csv").exists()


def test_provenance_fills_every_shared_column() -> None:
    found = rows.provenance()
    assert tuple(found) == rows.SHARED_COLUMNS
    assert all(found.values())
    assert found["torch"] != "none"


def test_commit_says_when_files_differ_from_it(tmp_path: Path) -> None:
    assert rows.commit(tmp_path / "nowhere") == "unknown"
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    (tmp_path / "benchmarks" / "results").mkdir(parents=True)
    (tmp_path / "code.py").write_text("x = 1\n")
    for arguments in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "first"]):
        subprocess.run([*git, *arguments], check=True, capture_output=True)
    clean = rows.commit(tmp_path)
    assert len(clean) >= 7
    assert "+" not in clean
    (tmp_path / "benchmarks" / "results" / "made.csv").write_text("a\n")
    assert rows.commit(tmp_path) == clean
    (tmp_path / "code.py").write_text("x = 2\n")
    assert rows.commit(tmp_path) == f"{clean}+dirty"


OF_A_COMMAND = "suite_baselines.csv"
"""Written by `bench baselines`, as any user can have it: where it was measured stands in columns of its own."""


def test_every_tracked_result_file_says_where_it_was_measured() -> None:
    for path in rows.RESULTS.glob("*.csv"):
        with path.open(newline="") as file:
            header = next(csv.reader(file))
        if path.name == OF_A_COMMAND:
            assert {"measured_at", "commit", "gpu", "driver", "torch", "triton"} <= set(header)
        else:
            assert tuple(header[: len(rows.SHARED_COLUMNS)]) == rows.SHARED_COLUMNS, path


def graded(*against: tuple[str, float]) -> dict[str, object]:
    timings = [{"baseline": name, "speedup": {"low": low}} for name, low in against]
    return {"kind": "graded", "evaluation": {"timings": timings}}


READ = {"kind": "run"}
AHEAD = {"kind": "stage", "stage": "ahead 1.52x"}
TELLING: dict[str, tuple[list[dict[str, object]], dict[str, float]]] = {
    "told before the verdict": ([READ, AHEAD, graded()], {"problem read": 1, "first win": 2}),
    "told by the verdict": (
        [READ, graded(), graded(("eager (x)", 1.2), ("compile (x)", 0.9))],
        {"problem read": 1, "first verdict": 2, "first win": 3},
    ),
    "none": (
        [READ, graded(("eager (x)", 1.2), ("eager (x)", 0.99)), {"kind": "stage", "stage": "time"}],
        {"problem read": 1, "first verdict": 2},
    ),
}


@pytest.mark.parametrize("name", TELLING)
def test_a_first_win_is_known_by_what_a_run_prints(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    events, wanted = TELLING[name]
    clock = iter(range(1, 10))
    reached = importlib.import_module("first_win").reached
    assert reached(map(json.dumps, events), lambda: next(clock)) == wanted


@pytest.mark.parametrize("place", [0, -1])
def test_a_bare_product_is_a_problem_and_is_written_as_one_kernel(
    place: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    products = importlib.import_module("products")
    path = tmp_path / "product.py"
    path.write_text(products.problem_of(list(products.SHAPES)[place]).replace("4096", "64").replace("1024", "48"))
    brief = brief_of(parse_problem(str(path)))
    source = write(brief, first_choice(brief)).source
    assert source.count("@triton.jit") == 1 and "tl.dot" in source


def test_a_command_of_the_chain_is_run_once_and_other_settings_are_refused(tmp_path: Path) -> None:
    chain = learn.Chain(learn.SCALES["smoke"], tmp_path, seed=0)
    words = (
        "data",
        "make",
        tmp_path / "data",
        "--count",
        "2",
        "--difficulty",
        "tiny",
        "--held-out",
        "0",
        "--jobs",
        "1",
    )
    made = chain.command("data", *words)
    assert made["problems"] == {"train": 2}
    shutil.rmtree(tmp_path / "data")
    assert chain.command("data", *words, "--resume") == made, "its result is kept"
    with pytest.raises(SystemExit, match="other settings"):
        chain.command("data", *words, "--seed", "1")


def test_both_scales_give_online_training_and_logged_runs_as_many_episodes() -> None:
    for scale in learn.SCALES.values():
        assert scale.logged * scale.rl_problems == scale.updates * scale.per_update * scale.rollouts
    with pytest.raises(ValueError, match="equally many"):
        dataclasses.replace(learn.SCALES["smoke"], rl_problems=23)


def test_the_page_of_learning_has_a_table_and_a_plot_of_what_the_rows_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(FOLDER.parent / "docs"))
    page = importlib.import_module("make_learning")
    monkeypatch.setattr(page, "CSV", tmp_path / "learn.csv")
    assert "Not measured yet" in page.page()[0] and page.page()[1] == {}
    row = {"scale": "gpu", "seed": 0, "kind": "figure", "policy": "sft", "over": "", "figure": "correct@1", "step": ""}
    row |= {"value": "0.25", "low": "0.2", "high": "0.3"}
    gain = row | {"kind": "gain", "policy": "online", "over": "sft", "value": "-0.05"}
    points = [row | {"kind": "curve", "figure": "loss", "step": step, "low": "", "high": ""} for step in (1, 2)]
    rows.append(tmp_path / "learn.csv", SHARED, [row, gain, *points])
    text, plots = page.page()
    assert "Not measured yet" not in text
    assert "| sft | 0.250 [0.200, 0.300] |" in text and "| online over sft | -0.050 [0.200, 0.300] |" in text
    assert [path.name for path in plots] == ["learning_gpu_0_sft.svg"] and "polyline" in "".join(plots.values())
