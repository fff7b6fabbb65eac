"""Opens problems for trainers of other libraries: `with opened(["examples/"]) as problems`."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Mapping, Sequence

from triton_agent.policy.train.online.rollouts import OpenProblem
from triton_agent.runs.cli.devices import choose
from triton_agent.runs.train.online import Judges, problem_files


@contextlib.contextmanager
def opened(paths: Sequence[str], *, device: str = "auto") -> Iterator[Mapping[str, OpenProblem]]:
    """Yield the problems in these files and folders by name, each with a running evaluator.

    `device` is where verdicts are reached, as for `--device`.
    """
    with Judges(problem_files(paths), choose(device)) as judges:
        yield asyncio.run(judges.open(judges.names))
