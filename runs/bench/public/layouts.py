"""Finds the problems in clones of public benchmarks, and converts each to a problem of this project.

    KernelBench    levelN/<number>_<name>.py below KernelBench/ or at the top; each file is a problem as it stands
    TritonBench    channel T: PyTorch functions, channel G: functions that launch Triton kernels; a folder each,
                   TritonBench_T_v1/ and TritonBench_G_v1/, and beside it a JSON listing that names the files in order

A TritonBench file is a function, a line of `#`, and a test that calls the function; `operator_problem.py` makes a
problem file of it. Nothing is executed here, and torch is not needed. Not covered: TritonBench's instructions to
language models, its similarity score, its published results, and levels of KernelBench that download models.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from triton_agent.runs.bench.public.operator_problem import operator_problem
from triton_agent.tools.errors import UsageError
from triton_agent.tools.problem import source as problem_source
from triton_agent.tools.problem.problem import ProblemSpec, parse_problem

LEVEL = re.compile(r"level(\d+)")
NUMBERED = re.compile(r"(\d+)_(.+)\.py")
CHANNEL = re.compile(r"TritonBench_([GT])(_v\d+)?")


class Benchmark(enum.StrEnum):
    """The benchmark that a layout belongs to."""

    KERNELBENCH = "kernelbench"
    TRITONBENCH = "tritonbench"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkProblem:
    """One problem in a clone."""

    benchmark: Benchmark
    group: str
    """`level1`, or the channel: `G`, `T`."""
    number: int
    """KernelBench: the number in the file's name. TritonBench: the position in the listing, from 1."""
    name: str
    path: Path
    is_triton: bool
    """The reference launches Triton kernels: it needs a GPU, and there is no float64 truth."""

    @property
    def label(self) -> str:
        """A name that is unique within the benchmark: `level1/3_name`."""
        return f"{self.group}/{self.number}_{self.name}"

    @property
    def is_problem_file(self) -> bool:
        """True if the file can be judged as it is; else it is converted first."""
        return self.benchmark is Benchmark.KERNELBENCH


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A file among the problems, or in their listing, that is no problem."""

    path: Path
    reason: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """The contents of a clone."""

    problems: tuple[BenchmarkProblem, ...]
    left_out: tuple[LeftOut, ...]


def survey(folder: Path) -> Survey:
    """Find all problems in a clone of a benchmark or a part of one, by group and number, and files left out."""
    if not folder.is_dir():
        raise UsageError("no such folder", where=str(folder), remedy="clone the benchmark, and name the clone")
    found = [*_kernelbench(folder), *_tritonbench(folder)]
    problems = sorted((item for item in found if isinstance(item, BenchmarkProblem)), key=_order)
    if not problems:
        raise UsageError(
            "holds no benchmark in a known layout",
            where=str(folder),
            remedy="looked for level1/<number>_<name>.py, also below KernelBench/, "
            "and for TritonBench_T_v1/ and TritonBench_G_v1/, also below data/",
        )
    return Survey(problems=tuple(problems), left_out=tuple(item for item in found if isinstance(item, LeftOut)))


def problem_spec(problem: BenchmarkProblem, workspace: Path, *, call: int = 1) -> ProblemSpec:
    """Return the problem for the evaluator, after writing a problem file into `workspace` if it needs one.

    `call` selects the call of a TritonBench test that gives the inputs. Raises `ProblemError` if there is none.
    """
    if problem.is_problem_file:
        return parse_problem(str(problem.path))
    made = workspace / f"{problem.name}_{problem.group}_{call}.py"
    text = operator_problem(problem_source.read(problem.path), call=call)
    workspace.mkdir(parents=True, exist_ok=True)
    made.write_text(text, encoding="utf-8")
    return parse_problem(str(made))


def _order(problem: BenchmarkProblem) -> tuple[str, int, str, int, str]:
    level = LEVEL.fullmatch(problem.group)
    return problem.benchmark, int(level[1]) if level else 0, problem.group, problem.number, problem.name


def _kernelbench(folder: Path) -> Iterator[BenchmarkProblem | LeftOut]:
    for level in _below(folder, LEVEL, ("KernelBench",)):
        for path in sorted(level.glob("*.py")):
            match = NUMBERED.fullmatch(path.name)
            if match is None:
                yield LeftOut(path=path, reason="is not named <number>_<name>.py")
                continue
            yield BenchmarkProblem(
                benchmark=Benchmark.KERNELBENCH,
                group=level.name,
                number=int(match[1]),
                name=match[2],
                path=path,
                is_triton=False,
            )


def _below(folder: Path, pattern: re.Pattern[str], homes: tuple[str, ...]) -> list[Path]:
    """Return the folders of that name: the folder itself, those in it, or those in one of its `homes`, in this
    order.
    """
    folder = folder.resolve()
    for candidates in (
        [folder],
        *([*place.iterdir()] for place in (folder, *(folder / h for h in homes)) if place.is_dir()),
    ):
        found = sorted(path for path in candidates if path.is_dir() and pattern.fullmatch(path.name))
        if found:
            return found
    return []


def _tritonbench(folder: Path) -> Iterator[BenchmarkProblem | LeftOut]:
    for channel in _below(folder, CHANNEL, ("data",)):
        match = CHANNEL.fullmatch(channel.name)
        assert match is not None
        present = {path.name: path for path in sorted(channel.glob("*.py"))}
        listed = _listing(channel) or list(present)
        for number, name in enumerate(listed, start=1):
            if name in present:
                yield _operator(match[1], number, present[name])
            else:
                yield LeftOut(path=channel / name, reason="is listed, but there is no such file")
        yield from (
            LeftOut(path=path, reason="is not in the listing") for name, path in present.items() if name not in listed
        )


def _operator(channel: str, number: int, path: Path) -> BenchmarkProblem:
    return BenchmarkProblem(
        benchmark=Benchmark.TRITONBENCH,
        group=channel,
        number=number,
        name=path.stem,
        path=path,
        is_triton=channel == "G",
    )


def _listing(channel: Path) -> list[str]:
    """Return the names of files in the order of the JSON file beside the folder; empty without one.

    The published files are arrays, one of them with the suffix .jsonl. One record for each line is accepted, too.
    """
    for suffix in (".json", ".jsonl"):
        path = channel.with_name(channel.name + suffix)
        if path.is_file():
            try:
                return list(dict.fromkeys(record["file"] for record in _records(path.read_text(encoding="utf-8"))))
            except (ValueError, KeyError, TypeError, OSError) as error:
                what = f"is not a listing of operators: {type(error).__name__}: {error}"
                raise UsageError(what, where=str(path), remedy="fetch it again: every record names its file") from None
    return []


def _records(text: str) -> list[Any]:
    if text.lstrip().startswith("["):
        records: list[Any] = json.loads(text)
        return records
    return [json.loads(line) for line in text.splitlines() if line.strip()]
