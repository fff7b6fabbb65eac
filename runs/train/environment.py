"""Opens problems for trainers of other libraries: all at once with `opened`, or when they are used with `Problems`."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

from triton_agent.policy.train.online.rollouts import OpenProblem
from triton_agent.runs.cli.devices import choose
from triton_agent.runs.train.online import Judges, problem_files
from triton_agent.tools.errors import ProblemError


@contextlib.contextmanager
def opened(paths: Sequence[str], *, device: str = "auto") -> Iterator[Mapping[str, OpenProblem]]:
    """Yield the problems in these files and folders by name, each with a running evaluator.

    `device` is where verdicts are reached, as for `--device`.
    """
    with Judges(problem_files(paths), choose(device)) as judges:
        yield asyncio.run(judges.open(judges.names))


class Problems:
    """The problems in files and folders, shared by concurrent episodes; each is opened when it is first used."""

    def __init__(self, paths: Sequence[str], *, device: str = "auto", at_once: int = 8) -> None:
        """`at_once` episodes or answers are judged at a time; the others wait."""
        self._judges = Judges(problem_files(paths), choose(device))
        self.places, self._opening = asyncio.Semaphore(at_once), asyncio.Lock()

    @property
    def names(self) -> Sequence[str]:
        return self._judges.names

    @contextlib.asynccontextmanager
    async def using(self, name: str) -> AsyncIterator[OpenProblem]:
        """Yield a problem with a running evaluator; raise ProblemError if it cannot be judged."""
        if name not in self.names:
            raise ProblemError(f"there is no problem {name}", remedy=f"one of {', '.join(self.names)}")
        with self._judges.kept_open(name):
            async with self._opening:
                found = await self._judges.open([name])
            if name not in found:
                raise ProblemError(f"{name} cannot be judged", remedy="triton-agent check-problem says why")
            yield found[name]

    def close(self) -> None:
        self._judges.__exit__(None, None, None)
