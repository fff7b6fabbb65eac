"""Reads kernel files of others from a folder, and matches each to a problem and a sample.

A file is matched by its path below the folder, without `.py`: the problem's name, its number, or both (`3_name`), each
possibly below a folder of its level, channel or family. Several samples of a problem are `name_0.py`, `name_1.py`, or
the files of a folder `name/`; KernelBench's `level_1_problem_3_sample_0_kernel.py` is understood, too. A file without a
class `ModelNew` that defines a TritonBench operator as a function gets the class from the problem.
"""

from __future__ import annotations

import ast
import dataclasses
import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

from triton_agent.runs.bench.problems import Task
from triton_agent.runs.bench.public.operator_calls import SEPARATOR
from triton_agent.tools.errors import UsageError

NUMBERED = re.compile(r"(.+)_(\d+)")
OF_KERNELBENCH = re.compile(r"(?:.*/)?level_?(\d+)_problem_?(\d+)_sample_?(\d+)(?:_kernel)?")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class KernelFile:
    """One kernel file, with its problem and sample."""

    label: str
    """Label of the problem."""
    name: str
    """Path of the file below the folder."""
    text: str
    number: int | None = None
    """Number of the sample, if the name has one."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class KernelFolder:
    """The kernel files of a folder that belong to the problems asked for."""

    folder: Path
    files: tuple[KernelFile, ...]
    unmatched: tuple[str, ...]
    """Python files that belong to none of the problems."""

    def of(self, task: Task) -> list[KernelFile]:
        """Return the samples of a problem, in order."""
        found = [file for file in self.files if file.label == task.label]
        return sorted(found, key=lambda file: (file.number is None, file.number or 0, file.name))

    @property
    def version(self) -> str:
        """Hash of all files, as the version of what is graded."""
        parts = (f"{file.label}\0{file.name}\0{file.text}\0" for file in self.files)
        return hashlib.sha256("".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:12]


def read_kernels(folder: Path, tasks: Iterable[Task]) -> KernelFolder:
    """Read and match all Python files below the folder."""
    if not folder.is_dir():
        raise UsageError("no such folder of kernels", where=f"--kernels {folder}")
    known = _keys(tasks)
    files, unmatched = [], []
    for path in sorted(folder.rglob("*.py")):
        place = path.relative_to(folder).with_suffix("").as_posix()
        meant = _meant_for(place, known)
        if meant is None:
            unmatched.append(f"{place}.py")
        else:
            label, number = meant
            files.append(KernelFile(label=label, name=f"{place}.py", text=_text(path), number=number))
    if not files:
        first = next(iter(known), "name")
        remedy = f"name a file after its problem: {first}.py, {first}_0.py, or files in a folder {first}/"
        raise UsageError("no file there is named after a problem", where=f"--kernels {folder}", remedy=remedy)
    return KernelFolder(folder=folder, files=tuple(files), unmatched=tuple(unmatched))


def _keys(tasks: Iterable[Task]) -> dict[str, str]:
    """Return the label of each name that means exactly one problem."""
    labels: dict[str, set[str]] = {}
    for task in tasks:
        for name in task.names:
            labels.setdefault(name, set()).add(task.label)
    return {name: min(found) for name, found in labels.items() if len(found) == 1}


def _meant_for(place: str, known: dict[str, str]) -> tuple[str, int | None] | None:
    """Return the label and the number of the sample that a path means; None if it means no problem."""
    if place in known:
        return known[place], None
    numbered = NUMBERED.fullmatch(place)
    if numbered and numbered[1] in known:
        return known[numbered[1]], int(numbered[2])
    parent, _, _ = place.rpartition("/")
    if parent in known:
        return known[parent], None
    theirs = OF_KERNELBENCH.fullmatch(place)
    if theirs and f"level{theirs[1]}/{theirs[2]}" in known:
        return known[f"level{theirs[1]}/{theirs[2]}"], int(theirs[3])
    return None


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig", errors="replace")
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", where=str(path)) from None


def as_candidate(text: str, problem_text: str) -> str:
    """Return the file as a candidate; an operator without `ModelNew` gets the problem's class."""
    if re.search(r"^class ModelNew\b", text, re.MULTILINE):
        return text
    call = _class_of(problem_text)
    lines = list(SEPARATOR.finditer(text))
    own = text[: lines[-1].start()] if lines else text  # the rest is a test
    if call is None or not _defines_what_is_called(own, call):
        return text
    return f"{own.rstrip()}\n\n\nimport torch\n\n\n{ast.unparse(call)}\n"


def _class_of(problem_text: str) -> ast.ClassDef | None:
    tree = ast.parse(problem_text)
    found = next((node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Model"), None)
    if found is not None:
        found.name = "ModelNew"
    return found


def _defines_what_is_called(text: str, call: ast.ClassDef) -> bool:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return False
    bound = {node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    bound |= {
        name.id
        for node in tree.body
        if isinstance(node, ast.Assign)
        for name in node.targets
        if isinstance(name, ast.Name)
    }
    used = {node.id for node in ast.walk(call) if isinstance(node, ast.Name)}
    return bool(bound & used)
