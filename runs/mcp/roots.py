"""Resolves the files that a client names: only those in the folders that the server was started with, links
resolved.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from triton_agent.tools.errors import UsageError
from triton_agent.tools.problem import source as problem_source
from triton_agent.tools.problem.problem import ProblemSpec


class Roots:
    """The folders that a client may read. A relative path is looked up in them in order."""

    def __init__(self, folders: Sequence[str]) -> None:
        self.folders = tuple(Path(os.path.realpath(folder)) for folder in folders or ["."])
        for folder in self.folders:
            if not folder.is_dir():
                raise UsageError(f"--root {folder} is not a folder")

    def file(self, name: str) -> Path:
        """Return the path of the regular file of that name; the error does not say what exists outside the folders."""
        for folder in self.folders:
            try:
                found = Path(os.path.realpath(folder / name))
            except ValueError:  # a NUL in the name
                break
            if self._holds(found) and found.is_file():
                return found
        raise UsageError(
            f"no file {name!r} in the folders that this server reads",
            remedy=f"a path in {', '.join(map(str, self.folders))}; the server takes more folders by --root",
        )

    def target(self, problem: str) -> str:
        """Return `file.py` or `file.py:ClassName` with the file as an absolute path."""
        name, colon, class_name = problem.rpartition(":")
        if not (colon and class_name.isidentifier()):
            return str(self.file(problem))
        path = self.file(name)
        if os.path.lexists(f"{path}:{class_name}"):  # such a file would be read in its place
            raise UsageError(f"{problem!r} names both a class and a file", remedy="rename the file")
        return f"{path}:{class_name}"

    def require(self, spec: ProblemSpec) -> None:
        """Raise `UsageError` if the problem needs files outside the folders, such as modules that it imports."""
        path = Path(spec.path)
        root, _ = problem_source.import_root(path)
        modules = problem_source.local_modules(spec.source()).values()
        for part in (path, root, *modules, *map(Path, spec.saved_files)):
            if not self._holds(Path(os.path.realpath(part))):
                raise UsageError(
                    f"the problem needs {part}, which is outside the folders that this server reads",
                    remedy="start the server with that folder as another --root",
                )

    def _holds(self, path: Path) -> bool:
        return any(path.is_relative_to(folder) for folder in self.folders)
