"""Names the group of an attempt: attempts whose results may be compared by a trainer.

Trainers and exports share this definition. Answers to different prompts, tokens of different vocabularies, and verdicts
of different graders or GPUs cannot be compared. Versions of one policy can: importance weights correct for the
difference.
"""

from __future__ import annotations

from triton_agent.memory.records import Attempt
from triton_agent.tools.results import Evaluation


def group_of(attempt: Attempt, evaluation: Evaluation | None) -> str:
    """Name the group by problem, rules, prompt version, vocabulary, policy, grader and device."""
    seen, said = attempt.observation, attempt.completion
    where = evaluation.environment if evaluation else None
    parts = (
        seen.problem.digest,
        f"library={seen.rules.allow_library}",
        f"precision={seen.rules.precision}",
        f"target={seen.rules.target}",
        f"prompt={said.prompt_version}",
        f"tokenizer={said.tokenizer}",
        f"policy={said.policy}",
        f"grader={where.grader if where else ''}",
        f"device={(where.device if where else '') or seen.problem.device}",  # an answer without a file has no device
    )
    return "|".join(parts)
