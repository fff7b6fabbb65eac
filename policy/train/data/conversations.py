"""Training conversations from the attempts of a dataset's problems.

Each has the prompt that a language model would be shown, and an answer with plan and code that passed or was not
judged. There are three kinds. The prompt of a `single` contains no earlier attempt. A `repair` answers an attempt that
failed, and an `improvement` surpasses one that passed; their prompts contain that attempt and the evaluator's feedback,
as in every later turn of a run.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from triton_agent.memory.records import Attempt, Grading, Message
from triton_agent.memory.verdicts import passed
from triton_agent.tools.ranking import standing
from triton_agent.tools.results import Evaluation
from triton_agent.tools.versions import TRITON_OF_TORCH

Render = Callable[[Attempt], Sequence[Message]]
"""Returns prompt and answer of an attempt; nothing if the prompt is too long."""
FAULT_POLICY = "fault"
"""Author name of attempts with an injected fault; the fault's name follows after a colon."""
SINGLE, REPAIR, IMPROVEMENT = "single", "repair", "improvement"
MOST_TURNS = 4
"""Most turns that a prompt states as remaining."""
BUILDS = ("", "+cpu", "+cu126", "+cu128", "+cu130")
"""Ends of torch's versions that a prompt states."""


def conversations(
    problem: Mapping[str, Any], found: Iterable[tuple[Attempt, Sequence[Grading]]], render: Render
) -> Iterator[dict[str, Any]]:
    """Yield the conversations of a problem's attempts. Attempts that did not pass occur in prompts only."""
    judged: dict[str, tuple[Attempt, Evaluation | None]] = {}
    unjudged: set[str] = set()
    for attempt, gradings in found:
        if not gradings:
            unjudged.add(attempt.key)
        verdicts = [grading.evaluation for grading in gradings if grading.evaluation is not None]
        judged[attempt.key] = attempt, verdicts[-1] if verdicts else None
    written: set[tuple[str, str | None]] = set()
    chance = random.Random(problem["fingerprint"])
    for attempt, evaluation in judged.values():
        good = passed(evaluation) or attempt.key in unjudged
        if not good or attempt.completion.policy.startswith(FAULT_POLICY):
            continue
        parent, before = judged.get(attempt.parent or "", (None, None))
        kind = SINGLE if parent is None else REPAIR if not passed(before) else IMPROVEMENT
        if kind == IMPROVEMENT and not standing(evaluation).surpasses(standing(before)):
            continue
        said = render(_varied(attempt, chance))
        if not said or (attempt.source or "", parent.source if parent else "") in written:
            continue
        written.add((attempt.source or "", parent.source if parent else ""))
        *prompt, answer = ({"role": message.role, "content": message.content} for message in said)
        policy = parent.completion.policy if parent else ""
        yield {
            "kind": kind,
            "device": attempt.observation.problem.device,
            "problem": problem["name"],
            "difficulty": problem["difficulty"],
            "fingerprint": problem["fingerprint"],
            "attempt": attempt.key,
            "judged": evaluation is not None,
            "turn": attempt.turn,
            "fault": policy.partition(":")[2] if policy.startswith(FAULT_POLICY) else "",
            "status_before": before.status.value if before else "",
            "prompt": prompt,
            "completion": [answer],
        }


def _varied(attempt: Attempt, chance: random.Random) -> Attempt:
    """Return the attempt with a random number of remaining turns and random supported versions of torch and triton. A
    model would learn constants as a rule, and be at a loss on a machine with other versions.
    """
    seen = attempt.observation
    budget = dataclasses.replace(seen.budget, turns=chance.randint(1, MOST_TURNS))
    numbers, triton = chance.choice(TRITON_OF_TORCH)
    torch = ".".join(map(str, numbers)) + ".0" + chance.choice(BUILDS)
    problem = dataclasses.replace(seen.problem, torch=torch, triton=triton)
    return dataclasses.replace(attempt, observation=dataclasses.replace(seen, budget=budget, problem=problem))
