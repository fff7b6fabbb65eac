"""The benchmark suite equals the frozen one, is as broad as it states, and any part of it can be selected."""

from __future__ import annotations

import collections
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from benchmarks import freeze

from triton_agent.runs.bench.journal import Journal
from triton_agent.runs.bench.problems import of_suite, part_before
from triton_agent.runs.bench.suite import (
    FOLDER,
    MANIFEST,
    Dominant,
    Shard,
    Suite,
    digest_of,
    drift,
    folder_of,
    load_suite,
    parse_shard,
    problem_files,
    read_manifest,
)
from triton_agent.tools.errors import UsageError
from triton_agent.tools.problem import source as problem_source
from triton_agent.tools.problem.problem import ProblemKind, parse_problem

SCRIPT = Path(freeze.__file__)


@pytest.fixture(scope="module")
def suite() -> Suite:
    return load_suite()


@pytest.fixture(scope="module")
def large() -> Suite:
    return load_suite(folder_of("large"))


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Two small families and their manifest, for tests to damage."""
    for family in ("pooling", "scans"):
        shutil.copytree(FOLDER / family, tmp_path / family, ignore=shutil.ignore_patterns("__pycache__"))
    kept = [p for p in read_manifest(FOLDER).problems if p.family in ("pooling", "scans")]
    (tmp_path / MANIFEST).write_text(freeze.manifest_text(kept))
    return tmp_path


# -- what is in it -----------------------------------------------------------------------------------------------------


def test_suite_is_as_it_was_frozen(suite: Suite) -> None:
    assert drift(suite) == []
    assert len(suite.problems) == 120
    assert len({problem.name for problem in suite.problems}) == 120


def test_suite_is_broad(suite: Suite) -> None:
    blocks = [problem for problem in suite.problems if problem.family.startswith("blocks_")]
    heavy = [problem for problem in suite.problems if problem.dominant is not Dominant.MEMORY]
    half = [problem for problem in suite.problems if problem.dtype in ("float16", "bfloat16")]
    assert len(blocks) >= 40
    assert len(heavy) >= 0.4 * len(suite.problems)
    assert len(half) >= 0.4 * len(suite.problems)
    assert {problem.dominant for problem in suite.problems} == set(Dominant)
    assert all(problem.dtype in ("float32", "float16", "bfloat16") for problem in suite.problems)


def test_quick_problems_are_a_third_of_every_family(suite: Suite) -> None:
    quick = suite.pick(quick=True)
    assert len(quick) == 40
    everywhere = collections.Counter(problem.family for problem in suite.problems)
    chosen = collections.Counter(problem.family for problem in quick)
    for family, count in everywhere.items():
        assert abs(chosen[family] - count / 3) < 1, family


def test_quick_problems_have_the_mixture_of_the_whole(suite: Suite) -> None:
    quick = suite.pick(quick=True)
    for trait in ("dominant", "dtype"):
        whole = collections.Counter(getattr(problem, trait) for problem in suite.problems)
        chosen = collections.Counter(getattr(problem, trait) for problem in quick)
        for value, count in whole.items():
            assert abs(chosen[value] / len(quick) - count / len(suite.problems)) < 0.1, value


def test_every_problem_says_what_it_computes_and_has_sizes_to_vary(suite: Suite, large: Suite) -> None:
    from triton_agent.tools.reference.sizes import free_sizes

    for problem in (*suite.problems, *large.problems):
        spec = parse_problem(str(problem.path))
        source = problem_source.read(problem.path)
        assert spec.kind is ProblemKind.MODEL_FILE
        assert len(source.text.splitlines()[0]) > 40, f"{problem.key} has no sentence about itself"
        assert source.text.startswith('"""')
        assert free_sizes(spec, source.tree), f"{problem.key} has one size only"


def test_what_the_manifest_says_of_a_problem_is_so(suite: Suite) -> None:
    """Each problem is called, at full size, on tensors without contents."""
    for problem in suite.problems:
        assert freeze.traits(problem.path) == (problem.dominant, problem.dtype), problem.key


# -- the part of real sizes --------------------------------------------------------------------------------------------


def test_the_large_part_has_every_family_and_a_digest_of_its_own(suite: Suite, large: Suite) -> None:
    assert len(large.problems) >= 40 and drift(large) == []
    assert large.digest != suite.digest
    families = {"attention", "convolutions", "gemm", "losses", "norms", "pooling", "reductions", "scans", "softmaxes"}
    assert families < set(large.families)
    assert {problem.dominant for problem in large.problems} == set(Dominant)
    assert {problem.dtype for problem in large.problems} == {"float32", "float16", "bfloat16"}


def test_the_core_is_the_one_whose_figures_are_known(suite: Suite) -> None:
    assert suite.digest == "12cd57791d09f7835bc944ba4f21390e186753001ef9dbfef19d88071a536f99"


def test_large_problems_hold_gigabytes_and_fit_a_large_card_twice(large: Suite) -> None:
    from triton_agent.tools.reference.peak_memory import predicted_peak
    from triton_agent.tools.reference.reference import load

    for problem in large.problems:
        found = predicted_peak(load(parse_problem(str(problem.path))))
        assert 4e9 < found.peak_bytes < 25e9, problem.key
        assert freeze.traits(problem.path) == (problem.dominant, problem.dtype), problem.key


def test_a_part_is_chosen_by_its_name_and_known_when_it_goes_on(tmp_path: Path) -> None:
    selection = of_suite(quick=True, part="large")
    assert selection.benchmark == "suite-large" and 15 <= len(selection.tasks) <= 25
    Journal(tmp_path, selection.head({}))
    assert part_before(str(tmp_path)) == "large" and part_before(None) == "core"
    with pytest.raises(UsageError, match="no part 'huge'"):
        of_suite(quick=False, part="huge")


# -- the freeze --------------------------------------------------------------------------------------------------------


def change_a_file(folder: Path) -> None:
    path = folder / "scans" / "pairwise_decay.py"
    path.write_text(path.read_text() + "\n")


def remove_a_file(folder: Path) -> None:
    (folder / "pooling" / "mixed_pooling.py").unlink()


def add_a_file(folder: Path) -> None:
    shutil.copy(folder / "pooling" / "mixed_pooling.py", folder / "pooling" / "another.py")


SPOILT: dict[Callable[[Path], None], str] = {
    change_a_file: "scans/pairwise_decay.py was changed",
    remove_a_file: "pooling/mixed_pooling.py is missing",
    add_a_file: "pooling/another.py is not in the manifest",
}


@pytest.mark.parametrize(("spoil", "said"), SPOILT.items(), ids=[spoil.__name__ for spoil in SPOILT])
def test_suite_that_differs_from_its_freeze_is_refused(copy: Path, spoil: Callable[[Path], None], said: str) -> None:
    load_suite(copy)
    spoil(copy)
    with pytest.raises(UsageError, match=said):
        load_suite(copy)


def test_manifest_edited_by_hand_is_refused(copy: Path) -> None:
    lines = (copy / MANIFEST).read_text().splitlines(keepends=True)
    (copy / MANIFEST).write_text("".join(line for line in lines if "mixed_pooling" not in line))
    (copy / "pooling" / "mixed_pooling.py").unlink()
    with pytest.raises(UsageError, match="edited by hand"):
        load_suite(copy)


BROKEN = {
    "not TOML": ("problems = [", "is not TOML"),
    "no table": ('digest = ""', "an entry is not what it should be"),
    "a word in place of a problem": ('[problems]\n"a/b" = "c"', "an entry is not what it should be"),
    "a key without a family": ('[problems]\n"a" = {}', "an entry is not what it should be"),
    "an unknown kind": (
        '[problems]\n"a/b" = { dominant = "fft", dtype = "float32", quick = true, sha256 = "" }',
        "'fft' is not a valid Dominant",
    ),
}


@pytest.mark.parametrize(("text", "said"), BROKEN.values(), ids=BROKEN)
def test_broken_manifest_is_refused(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / MANIFEST).write_text(text)
    with pytest.raises(UsageError, match=said):
        load_suite(tmp_path)


def test_folder_without_manifest_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read") as caught:
        load_suite(tmp_path)
    assert "manifest" in caught.value.remedy


def test_check_names_what_changed_and_fails(copy: Path) -> None:
    command = [sys.executable, str(SCRIPT), "--check", "--folder", str(copy)]
    good = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (good.returncode, good.stdout.splitlines()[0].split(",")[0]) == (0, "7 problems as frozen")
    change_a_file(copy)
    bad = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (bad.returncode, bad.stdout) == (1, "scans/pairwise_decay.py was changed\n")


def test_freezing_again_changes_nothing_but_what_changed(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (copy / MANIFEST).read_text()
    assert freeze.freeze(copy) == 0
    assert (copy / MANIFEST).read_text() == before
    change_a_file(copy)
    assert freeze.freeze(copy) == 0
    assert "looking at scans/pairwise_decay" in capsys.readouterr().out
    after = (copy / MANIFEST).read_text()
    different = [new for old, new in zip(before.splitlines(), after.splitlines()) if old != new]
    assert len(before.splitlines()) == len(after.splitlines())
    assert [line.partition(" ")[0] for line in different] == ["digest", '"scans/pairwise_decay"']
    assert {p.key for p in load_suite(copy).pick(quick=True)} == {
        "pooling/mixed_pooling",
        "scans/running_weighted_mean",
    }


def test_new_problem_is_frozen_with_what_is_found_out_about_it(copy: Path) -> None:
    (copy / "products").mkdir()
    text = (FOLDER / "gemm" / "linear_gelu_tanh.py").read_text()
    (copy / "products" / "linear.py").write_text(text)
    freeze.freeze(copy)
    found = next(problem for problem in load_suite(copy).problems if problem.key == "products/linear")
    assert (found.dominant, found.dtype, found.quick) == (Dominant.GEMM, "bfloat16", False)


# -- picking -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 3, 8, 120, 121])
def test_shards_are_the_whole_without_overlap(suite: Suite, count: int) -> None:
    shards = [suite.pick(shard=Shard(index=i, count=count)) for i in range(1, count + 1)]
    assert sorted(problem.key for shard in shards for problem in shard) == [p.key for p in suite.problems]
    sizes = {len(shard) for shard in shards}
    assert max(sizes) - min(sizes) <= 1


def test_each_of_a_few_shards_has_some_of_every_larger_family(suite: Suite) -> None:
    large = {p.family for p in suite.problems if len(suite.pick(names=[p.family])) >= 4}
    for i in range(1, 5):
        assert large <= {problem.family for problem in suite.pick(shard=Shard(index=i, count=4))}


def test_problems_are_picked_by_name_and_family(suite: Suite) -> None:
    assert [p.key for p in suite.pick(names=["gru_cell_step"])] == ["recurrent/gru_cell_step"]
    assert [p.key for p in suite.pick(names=["recurrent/gru_cell_step"])] == ["recurrent/gru_cell_step"]
    assert {p.family for p in suite.pick(names=["pooling", "scans"])} == {"pooling", "scans"}
    assert [p.key for p in suite.pick(names=["recurrent"], quick=True)] == ["recurrent/gru_cell_step"]


def test_misspelt_name_is_answered_with_the_right_one(suite: Suite) -> None:
    with pytest.raises(UsageError, match="no problem or family 'gru_cel_step'") as caught:
        suite.pick(names=["gru_cel_step"])
    assert "gru_cell_step" in caught.value.remedy


def test_shard_is_read_as_part_of_parts() -> None:
    assert parse_shard(" 2/8 ") == Shard(index=2, count=8)


@pytest.mark.parametrize("text", ["", "2", "0/4", "5/4", "1/0", "a/b", "-1/4", "1/2/3"])
def test_what_is_no_shard_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="not a shard"):
        parse_shard(text)


def test_digest_depends_on_the_choice_and_not_on_its_order_or_place(suite: Suite, copy: Path) -> None:
    chosen = suite.pick(names=["pooling", "scans"])
    assert digest_of(reversed(chosen)) == digest_of(chosen) == load_suite(copy).digest
    assert digest_of(chosen[1:]) != digest_of(chosen)
    assert digest_of(chosen) != suite.digest


def test_suite_is_read_without_torch() -> None:
    load = "from triton_agent.runs.bench.suite import load_suite; load_suite()"
    text = f"import sys; {load}; assert 'torch' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_files_of_the_suite_are_those_in_its_folders(suite: Suite) -> None:
    assert problem_files(FOLDER) == {problem.key: problem.path for problem in suite.problems}
