"""Lists the problems of a benchmark: those of the project's own suite, or of a clone of a public benchmark.

Texts are read and nothing is run. A listed problem that cannot be read is a task all the same, with the reason.
"""

from __future__ import annotations

import dataclasses
import difflib
import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path

from triton_agent.runs.bench import suite
from triton_agent.runs.bench.public import layouts
from triton_agent.runs.bench.rows import Head, read_record
from triton_agent.tools.errors import UsageError
from triton_agent.tools.problem.problem import ProblemSpec, parse_problem

SUITE = "suite"
"""Benchmark name of the suite's part `core`; another part has the name `suite-PART`."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One problem of a benchmark, before it is read."""

    label: str
    group: str
    name: str
    number: int | None = None
    """Number of the problem in a public benchmark."""
    path: Path
    sha256: str
    """Hash of the file; empty without one."""
    origin: layouts.BenchmarkProblem | None = None
    """None for a problem of the suite, which is judged as it is."""
    dominant: str = ""
    dtype: str = ""
    unusable: str = ""

    @property
    def needs_gpu(self) -> bool:
        """True if the reference launches Triton kernels itself."""
        return self.origin is not None and self.origin.is_triton

    @property
    def names(self) -> tuple[str, ...]:
        """Names by which the problem may be asked for and kernels matched."""
        numbered = () if self.number is None else (f"{self.number}_{self.name}", str(self.number))
        short = (self.name, *numbered)
        return (self.label, *short, *(f"{self.group}/{name}" for name in short))

    def spec(self, workspace: Path) -> ProblemSpec:
        """Return the problem for the evaluator; files that have to be written for it go into `workspace`."""
        if self.origin is None:
            return parse_problem(str(self.path))
        return layouts.problem_spec(self.origin, workspace)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The problems that were asked for, in order."""

    benchmark: str
    title: str
    tasks: tuple[Task, ...]
    passed_over: tuple[str, ...] = ()
    """Files in the folder that are not problems, each with the reason."""

    @property
    def digest(self) -> str:
        """Hash of all tasks, whatever their order and folder."""
        lines = sorted(f"{task.label} {task.sha256}\n" for task in self.tasks)
        return hashlib.sha256("".join(lines).encode()).hexdigest()

    def head(self, settings: dict[str, object]) -> Head:
        return Head(
            benchmark=self.benchmark,
            title=self.title,
            digest=self.digest,
            labels=tuple(task.label for task in self.tasks),
            settings=settings,
        )


def of_suite(*, quick: bool, names: Sequence[str] = (), part: str = suite.CORE) -> Selection:
    """Select problems of one part of the project's suite, and check that they are the frozen ones."""
    whole = suite.load_suite(suite.folder_of(part))
    chosen = whole.pick(quick=quick, names=names)
    if not chosen:
        raise UsageError("no problem is left", remedy="--quick and --problem leave none in common")
    some = "" if len(chosen) == len(whole.problems) else f", {len(chosen)} of {len(whole.problems)} problems"
    name = SUITE if part == suite.CORE else f"{SUITE}-{part}"
    return Selection(benchmark=name, title=f"{name}{some}", tasks=tuple(map(_of_suite, chosen)))


def part_before(resume: str | None) -> str:
    """Return the part of the suite that a record is of; the core without a record."""
    name = read_record(Path(resume)).head.benchmark if resume else SUITE
    return name.removeprefix(f"{SUITE}-") if name.startswith(f"{SUITE}-") else suite.CORE


def _of_suite(problem: suite.SuiteProblem) -> Task:
    return Task(
        label=problem.key,
        group=problem.family,
        name=problem.name,
        path=problem.path,
        sha256=problem.sha256,
        dominant=problem.dominant,
        dtype=problem.dtype,
    )


def of_clone(
    folder: Path, benchmark: layouts.Benchmark, groups: Sequence[str], *, names: Sequence[str] = ()
) -> Selection:
    """Select the problems of a public benchmark's clone: of these levels or channels, or all."""
    found = layouts.survey(folder)
    tasks = [_of_clone(problem) for problem in found.problems if problem.benchmark is benchmark]
    if not tasks:
        raise UsageError(f"holds no {benchmark.value} problems", where=str(folder), remedy="name a clone of it")
    gone = [item for item in found.left_out if not item.path.exists()]
    tasks += [_gone(item) for item in gone]
    present = tuple(dict.fromkeys(task.group for task in tasks))
    for group in groups:
        if group not in present:
            raise UsageError(f"has no {group}", where=str(folder), remedy=f"it has {', '.join(present)}")
    wanted = [task for task in tasks if not groups or task.group in groups]
    chosen = _named(wanted, names, folder) if names else wanted
    shown = ", ".join(dict.fromkeys(task.group for task in chosen))
    part = "" if len(chosen) == len(wanted) else f", {len(chosen)} of {len(wanted)} problems"
    others = tuple(f"{item.path.name} {item.reason}" for item in found.left_out if item not in gone)
    return Selection(
        benchmark=benchmark.value, title=f"{benchmark.value} {shown}{part}", tasks=tuple(chosen), passed_over=others
    )


def _of_clone(problem: layouts.BenchmarkProblem) -> Task:
    return Task(
        label=problem.label,
        group=problem.group,
        name=problem.name,
        number=problem.number,
        path=problem.path,
        sha256=suite.hash_of(problem.path),
        origin=problem,
    )


def _gone(item: layouts.LeftOut) -> Task:
    channel = layouts.CHANNEL.fullmatch(item.path.parent.name)
    group = channel[1] if channel else item.path.parent.name
    name = item.path.stem
    return Task(label=f"{group}/{name}", group=group, name=name, path=item.path, sha256="", unusable=item.reason)


def _named(tasks: Iterable[Task], names: Sequence[str], folder: Path) -> list[Task]:
    tasks = list(tasks)
    for name in names:
        if not any(name in task.names for task in tasks):
            known = [word for task in tasks for word in task.names]
            close = list(dict.fromkeys(difflib.get_close_matches(name, known, n=3)))
            hint = f"did you mean {' or '.join(close)}?" if close else "name it by its number, its name, or both"
            raise UsageError(f"no problem {name!r}", where=str(folder), remedy=hint)
    return [task for task in tasks if any(name in task.names for name in names)]
