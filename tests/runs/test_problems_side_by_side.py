"""Problems for trainers of other libraries: an evaluator is opened when it is first used, and kept while in use."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.runs.test_verifiers import PROBLEM, RIGHT

from triton_agent.runs.train.environment import Problems
from triton_agent.tools.errors import ProblemError


def test_a_problem_in_use_stays_open_while_others_open_and_close(tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / f"{name}.py").write_text(PROBLEM)
    problems = Problems([str(tmp_path)], device="cpu", at_once=2)
    problems._judges.open_at_most = 1

    async def go() -> list[str]:
        async with problems.using("first") as first:
            async with problems.using("second"):
                pass
            verdict = await first.judge.evaluate_async(RIGHT)
        async with problems.using("second") as second:  # closes the first
            return [verdict.status, (await second.judge.evaluate_async(RIGHT)).status]

    try:
        assert asyncio.run(go()) == ["passed", "passed"]
        assert list(problems._judges._open) == ["second"]
    finally:
        problems.close()


def test_a_problem_that_is_not_there_is_named_with_those_that_are(tmp_path: Path) -> None:
    (tmp_path / "first.py").write_text(PROBLEM)
    problems = Problems([str(tmp_path)], device="cpu")

    async def go() -> None:
        async with problems.using("third"):
            pass

    with pytest.raises(ProblemError, match="there is no problem third"):
        asyncio.run(go())
    problems.close()
