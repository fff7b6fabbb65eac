"""Runs of a tiny policy as the store returns them: records with tokens, and gradings by hand-made verdicts."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from typing import Any

from tests.policy.train.evaluations import failed
from tests.verdicts import passed

from triton_agent.memory.observation import BudgetLeft, Observation, ProblemView, Rules
from triton_agent.memory.records import Attempt, Completion, Distribution, Grading, SamplingRecord
from triton_agent.tools.results import Evaluation, Finding

NOW = datetime.datetime(2026, 1, 31, tzinfo=datetime.UTC)
Records = list[tuple[Attempt, tuple[Grading, ...]]]


def observation(problem: str = "p", turn: int = 0) -> Observation:
    view = ProblemView(digest=problem, name=problem, spec={}, source="", fingerprint="")
    return Observation(
        problem=view, rules=Rules(), turn=turn, attempts_before=0, seed=0, budget=BudgetLeft(turns=3 - turn)
    )


def attempt(run: str, turn: int, parent: str | None = None, problem: str = "p", **completion: Any) -> Attempt:
    source = completion.pop("source", None)
    usual: dict[str, Any] = {"text": "", "policy": "tiny", "policy_version": "v0", "prompt_ids": (1, 2)}
    usual |= {"sampling": SamplingRecord(temperature=1.0), "log_probabilities_of": Distribution.SAMPLED}
    fields = usual | completion
    return Attempt(
        run=run,
        turn=turn,
        index=0,
        parent=parent,
        observation=observation(problem, turn),
        completion=Completion(**fields),
        source=source,
        created_at=NOW + datetime.timedelta(minutes=turn),
    )


def grading(key: str, evaluation: Evaluation, minutes: int = 0) -> Grading:
    return Grading(
        attempt=key, evaluation=evaluation, grader="1", graded_at=NOW + datetime.timedelta(hours=1, minutes=minutes)
    )


def even_tokens_pass(tokens: Sequence[int]) -> Evaluation:
    """Return a verdict that a tiny model can learn to reach: the answer passes if at least half of its tokens are
    even.
    """
    even = sum(token % 2 == 0 for token in tokens)
    return passed() if 2 * even >= len(tokens) else failed(Finding.VALUES, launched=True)


def log_runs(
    model: Any,
    *,
    problems: int = 4,
    runs: int = 4,
    turns: int = 2,
    tokens: int = 10,
    seed: int = 0,
    verdict: Callable[[Sequence[int]], Evaluation] = even_tokens_pass,
) -> Records:
    """Sample runs of several turns. The last two tokens of a turn stand for the result of a tool and are masked."""
    import torch

    from triton_agent.policy.train.evaluate.sampling import sample

    torch.manual_seed(seed)
    prompts = {f"run{p}-{r}": [10 + p, 20 + p, 30] for p in range(problems) for r in range(runs)}
    records: Records = []
    for turn in range(turns):
        answers = sample(model, list(prompts.values()), tokens_at_most=tokens, end_id=2, pad_id=0, scored=True)
        for (run, prompt), answer in zip(list(prompts.items()), answers):
            said = (*answer.token_ids, 7, 8)
            made = attempt(
                run,
                turn,
                parent=records_key(run, turn - 1),
                problem=run.partition("-")[0],
                prompt_ids=tuple(prompt),
                token_ids=said,
                log_probabilities=(*answer.log_probabilities, 0.0, 0.0),
                mask=(True,) * len(answer.token_ids) + (False, False),
            )
            records.append((made, (grading(made.key, verdict(answer.token_ids)),)))
            prompts[run] = [*prompt, *said, 40]
    return records


def records_key(run: str, turn: int) -> str | None:
    return f"{run}/{turn}.0" if turn >= 0 else None
