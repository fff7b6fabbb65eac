"""A policy that reads its answers from files: for demonstrations, tests of the loop, and grading existing kernels.

`scripted:FOLDER` proposes the kernel files of a folder by name, each once; the first line of a docstring serves as the
plan. The number of earlier answers in the observation decides which file is next, so a resumed run continues in order.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
from collections.abc import Sequence
from pathlib import Path

from triton_agent.memory.observation import Observation
from triton_agent.memory.records import Completion
from triton_agent.policy.answer import write_answer
from triton_agent.tools.errors import UsageError


class Scripted:
    """Proposes given answers in order."""

    def __init__(self, answers: Sequence[str], *, name: str = "scripted") -> None:
        self._answers = tuple(answers)
        self.name = name
        self.version = hashlib.sha256("\0".join(self._answers).encode()).hexdigest()[:12]

    @classmethod
    def from_folder(cls, folder: Path) -> Scripted:
        """Load every Python file of a folder that defines ModelNew, by name."""
        if not folder.is_dir():
            raise UsageError("no such folder of kernels", where=f"--policy scripted:{folder}")
        texts = [path.read_text(errors="replace") for path in sorted(folder.glob("*.py"))]
        files = [text for text in texts if "class ModelNew" in text]
        if not files:
            raise UsageError(
                "no file there defines ModelNew", where=f"--policy scripted:{folder}", remedy="name a folder of kernels"
            )
        return cls([write_answer(_first_line(text), text) for text in files], name=f"scripted:{folder.name}")

    async def propose(self, observation: Observation, n: int = 1) -> list[Completion]:
        """Return the next answers, starting at the number of earlier answers in the observation."""
        start = observation.attempts_before
        return [self._completion(text) for text in self._answers[start : start + n]]

    async def propose_many(self, observations: Sequence[Observation]) -> list[Completion | None]:
        found = [self._answers[item.attempts_before :][:1] for item in observations]
        return [self._completion(texts[0]) if texts else None for texts in found]

    async def close(self) -> None:
        """Do nothing: there is nothing to close."""

    def _completion(self, text: str) -> Completion:
        return Completion(text=text, policy=self.name, policy_version=self.version)


def _first_line(source: str) -> str:
    with contextlib.suppress(SyntaxError, ValueError):
        docstring = ast.get_docstring(ast.parse(source))
        if docstring:
            return docstring.splitlines()[0]
    return "A kernel from a file."
