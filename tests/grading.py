"""Kernel files with their expected verdicts, graded in groups that share a problem and all processes.

A file's docstring says what is expected: `expect: passed`, `expect: wrong_values/precision`, or several with bars
between; `problem:` and `where:` (cpu, gpu, both), `mode: allow-library` where they differ from the folder's default;
`needs:` a module, or a part of one, without which it cannot even begin.
"""

from __future__ import annotations

import ast
import concurrent.futures
import contextlib
import dataclasses
import re
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from triton_agent.tools.errors import TritonAgentError
from triton_agent.tools.evaluate.evaluator import Evaluator
from triton_agent.tools.problem.problem import parse_problem
from triton_agent.tools.processes.zygotes import Nursery
from triton_agent.tools.results import Evaluation
from triton_agent.tools.settings import EvaluatorSettings

HERE = Path(__file__).parent


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Specimen:
    """One kernel file and what ought to become of it."""

    path: Path
    problem: Path
    expected: tuple[str, ...]
    where: str
    allow_library: bool
    needs: str = ""
    """A module it imports that a machine may lack."""

    @property
    def name(self) -> str:
        return f"{self.path.parent.name}/{self.path.stem}"

    def meets(self, outcome: Evaluation | TritonAgentError) -> bool:
        """Return whether the status, or status and finding if both are named, is an expected one."""
        return any(said in self.expected for said in (spoken(outcome), spoken(outcome).split("/")[0]))


def spoken(outcome: Evaluation | TritonAgentError) -> str:
    """`passed`, `wrong_values/precision`, or the name of the error that kept us from measuring."""
    if isinstance(outcome, TritonAgentError):
        return type(outcome).__name__
    return f"{outcome.status}/{outcome.finding}" if outcome.finding else str(outcome.status)


def specimen(path: Path, problem: Path | None = None) -> Specimen:
    """Return the specimen in a file, for the given problem or the one that its docstring names."""
    docstring = ast.get_docstring(ast.parse(path.read_text())) or ""
    header = dict(re.findall(r"^(problem|expect|where|mode|needs): *(\S+)", docstring, re.MULTILINE))
    return Specimen(
        path=path,
        problem=problem or _problem(path.parent, header["problem"]),
        expected=tuple(header.get("expect", "passed").split("|")),
        where=header.get("where", "both"),
        allow_library=header.get("mode") == "allow-library",
        needs=header.get("needs", ""),
    )


def _problem(folder: Path, name: str) -> Path:
    """Return the path of a problem: one of the folder's own, or of those that cheats and honest files share."""
    own = folder / "problems" / f"{name}.py"
    return own if own.exists() else HERE / "cheats" / "problems" / f"{name}.py"


def corpus() -> list[Specimen]:
    """Right and wrong kernels by operator."""
    folders = sorted(path.parent for path in (HERE / "kernels").glob("*/problem.py"))
    return [
        specimen(path, folder / "problem.py")
        for folder in folders
        for path in sorted(folder.glob("*.py"))
        if path.name != "problem.py"
    ]


def cheats() -> list[Specimen]:
    return [specimen(path) for path in sorted((HERE / "cheats").glob("*.py")) if path.stem != "__init__"]


def honest() -> list[Specimen]:
    return [specimen(path) for path in sorted((HERE / "honest").glob("*.py")) if path.stem != "__init__"]


def habits() -> list[Specimen]:
    """Kernel files as people and models write them, over many problems; all honest."""
    return [specimen(path) for path in sorted((HERE / "habits").glob("*.py")) if path.stem != "__init__"]


def grade(
    specimens: Iterable[Specimen],
    settings: EvaluatorSettings,
    *,
    jobs: int = 2,
    problems: int = 1,
    nursery: Nursery | None = None,
) -> Iterator[tuple[Specimen, Evaluation | TritonAgentError]]:
    """Yield a verdict on each, problem by problem, of which `problems` are open at once, each for `jobs` specimens.

    With several open, which seeds a problem gets is left to chance, whatever tests have chosen.
    """
    groups: dict[tuple[Path, bool], list[Specimen]] = defaultdict(list)
    for item in specimens:
        groups[item.problem, item.allow_library].append(item)
    with contextlib.ExitStack() as stack:
        if nursery is None:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            nursery = stack.enter_context(Nursery(f"{folder}/log"))
            if problems > 1:
                nursery.expect_problems()
        if problems == 1:
            for members in groups.values():
                yield from _grade_group(members, settings, nursery, jobs)
            return
        pool = stack.enter_context(concurrent.futures.ThreadPoolExecutor(problems))
        graded = [
            pool.submit(lambda members: list(_grade_group(members, settings, nursery, jobs)), members)
            for members in groups.values()
        ]
        for done in concurrent.futures.as_completed(graded):
            yield from done.result()


def _grade_group(
    members: list[Specimen], settings: EvaluatorSettings, nursery: Nursery, jobs: int
) -> Iterator[tuple[Specimen, Evaluation | TritonAgentError]]:
    """Yield a verdict on each of the specimens of one problem."""
    chosen = dataclasses.replace(settings, allow_library=members[0].allow_library)
    try:
        evaluator = Evaluator(parse_problem(str(members[0].problem)), chosen, nursery=nursery)
    except TritonAgentError as error:  # the problem does not run on this device
        yield from ((item, error) for item in members)
        return

    def one(item: Specimen) -> Evaluation | TritonAgentError:
        try:
            return evaluator.evaluate(item.path.read_text())
        except TritonAgentError as error:
            return error

    with evaluator, concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        yield from zip(members, pool.map(one, members))
