"""Restores a stored problem: from its file if that is unchanged, otherwise from the stored text.

The digest decides. If the stored text is not enough (modules beside the file, a file of saved inputs), an error says
so.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from triton_agent.memory.observation import ProblemView
from triton_agent.tools.errors import NotJudgeableHere, UsageError
from triton_agent.tools.problem.problem import ProblemKind, ProblemSpec, parse_problem


def restored(view: ProblemView, folder: Path) -> ProblemSpec:
    """Return the problem with the same digest; its text is written into `folder` if its file is gone or changed."""
    stored = ProblemSpec.from_json(view.spec)
    here = _same_problem(stored, Path(stored.path))
    if here is not None:
        return here
    file = folder / (Path(stored.path).name or "problem.py")
    return from_files(view, {file.name: view.source}, file.name, folder)


def from_files(view: ProblemView, files: Mapping[str, str], main: str, folder: Path) -> ProblemSpec:
    """Restore the problem from texts laid out in `folder` as before; `main` is the problem's own file."""
    lay_out(files, folder)
    again = _same_problem(ProblemSpec.from_json(view.spec), folder / main)
    if again is None:
        raise NotJudgeableHere(
            f"the stored text of problem {view.name} is not the whole problem",
            where=str(view.spec.get("path", "")),
            remedy="it imports modules beside it, or has a file of inputs; put these back as they were",
        )
    return again


def lay_out(files: Mapping[str, str], folder: Path) -> None:
    """Write the texts under `folder`; their names are relative paths."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode("utf-8", "surrogatepass"))


def _same_problem(stored: ProblemSpec, path: Path) -> ProblemSpec | None:
    """Return the problem in that file if its digest is the stored one."""
    try:
        found = parse_at(stored, path)
    except (UsageError, OSError):
        return None
    return found if found.digest == stored.digest else None


def parse_at(stored: ProblemSpec, path: Path) -> ProblemSpec:
    """Parse the problem from a file with the stored arguments."""
    target = str(path) if stored.class_name is None else f"{path}:{stored.class_name}"
    dynamic = [str(item) for item in stored.ranges]
    if stored.kind is not ProblemKind.USER_MODULE:
        return parse_problem(target, dynamic=dynamic)
    arguments = [repr(value) for value in stored.init]
    arguments += [f"{name}={value!r}" for name, value in stored.init_keywords.items()]
    if stored.sets and not stored.ranges:
        return parse_problem(target, init=", ".join(arguments), sets=stored.sets)
    return parse_problem(
        target,
        init=", ".join(arguments),
        inputs=[str(item) for item in stored.inputs],
        inputs_file=stored.inputs_file,
        dynamic=dynamic,
    )
