"""Rows for TRL's trainers, made of stored attempts.

`sft_row` is an example to imitate: a conversation that ended in a candidate that passed. `grpo_row` is a sample with
what it earned: the tokens as they were sampled, with their log-probabilities and mask under the names that a TRL
rollout hands back, the verdict, and the group whose samples answer one observation. Rewards are not in it: they follow
from status and speed-up, by a recipe that the trainer names. What was never measured becomes no row of either kind.

TRL is not needed here; the rows are plain data.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from triton_agent.memory.records import Attempt, Message
from triton_agent.memory.verdicts import passed, speedup_of
from triton_agent.tools.results import Evaluation, Interval

Render = Callable[[Attempt], Sequence[Message]]
"""The conversation that a language model would have had, its answer last; for answers of authors that had none."""

WIN = 1.0
"""The whole interval of a win's speed-up lies above this."""


class Shape(enum.StrEnum):
    """The two ways in which TRL takes a conversation."""

    MESSAGES = "messages"
    """One list; the trainer learns all of it, or the assistant's part where it is told so."""
    PROMPT_COMPLETION = "prompt-completion"
    """Two lists; the trainer learns the second."""


class Which(enum.StrEnum):
    """Which attempts are examples to imitate."""

    PASSED = "passed"
    WINS = "wins"
    """Surely faster than the reference."""
    BEST = "best"
    """For each problem the one that is surely fastest."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """An attempt with the verdict that counts; None where there is none."""

    attempt: Attempt
    evaluation: Evaluation | None

    @property
    def passed(self) -> bool:
        return passed(self.evaluation)

    @property
    def speedup(self) -> Interval | None:
        return speedup_of(self.evaluation)


@dataclasses.dataclass(slots=True)
class LeftOut:
    """How many attempts became no row, by the reason; filled while rows are read."""

    reasons: dict[str, int] = dataclasses.field(default_factory=dict)

    def count(self, reason: str) -> None:
        self.reasons[reason] = self.reasons.get(reason, 0) + 1


# -- examples to imitate -----------------------------------------------------------------------------------------------


def sft_rows(
    judged: Iterable[Judged], which: Which, shape: Shape, left_out: LeftOut, render: Render | None = None
) -> Iterator[dict[str, Any]]:
    """One row an example; `render` makes the conversation where none was stored."""
    chosen = _best(judged, left_out) if which is Which.BEST else judged
    for item in chosen:
        if not item.passed:
            left_out.count("did not pass")
        elif which is Which.WINS and not _won(item):
            left_out.count("not surely faster than the reference")
        elif not (said := _conversation(item.attempt, render)):
            left_out.count("its author was shown no messages")
        else:
            yield sft_row(item, said, shape)


def sft_row(item: Judged, said: Sequence[Message], shape: Shape) -> dict[str, Any]:
    """A conversation in TRL's form, and what it is of."""
    *prompt, answer = map(_plain, said)
    about = {"attempt": item.attempt.key, "problem": item.attempt.observation.problem.digest}
    if shape is Shape.MESSAGES:
        return {"messages": [*prompt, answer], **about, **_speed(item.speedup)}
    return {"prompt": prompt, "completion": [answer], **about, **_speed(item.speedup)}


def _best(judged: Iterable[Judged], left_out: LeftOut) -> list[Judged]:
    """The best of each problem, problems in the order in which they were first met."""
    found: dict[str, Judged] = {}
    for item in judged:
        problem = item.attempt.observation.problem.digest
        if not item.passed:
            left_out.count("did not pass")
            continue
        if problem in found:
            left_out.count("not the best of its problem")
        if problem not in found or _sure(item) > _sure(found[problem]):
            found[problem] = item
    return list(found.values())


def _sure(item: Judged) -> float:
    return item.speedup.low if item.speedup is not None else 0.0


def _won(item: Judged) -> bool:
    return _sure(item) > WIN


def _plain(message: Message) -> dict[str, str]:
    return {"role": message.role, "content": message.content}


def _conversation(attempt: Attempt, render: Render | None) -> Sequence[Message]:
    said = attempt.completion
    if said.messages:
        return (*said.messages, Message(role="assistant", content=said.text))
    return render(attempt) if render is not None else ()


# -- samples with what they earned -------------------------------------------------------------------------------------


def grpo_rows(judged: Iterable[Judged], left_out: LeftOut) -> Iterator[dict[str, Any]]:
    """One row a sample that a trainer can learn from: its tokens are known, and so is its verdict."""
    for item in judged:
        said = item.attempt.completion
        if item.evaluation is None:
            left_out.count("not measured")
        elif said.token_ids is None or said.prompt_ids is None:
            left_out.count("its tokens are not known")
        elif said.log_probabilities is None:
            left_out.count("its log-probabilities are not known")
        else:
            yield grpo_row(item.attempt, item.evaluation)


def grpo_row(attempt: Attempt, evaluation: Evaluation) -> dict[str, Any]:
    """A sample as it was drawn; names as in TRL where TRL has one."""
    said = attempt.completion
    tokens = said.token_ids or ()
    mask = said.mask if said.mask is not None else (True,) * len(tokens)
    return {
        "prompt": [_plain(message) for message in said.messages],
        "completion": [_plain(Message(role="assistant", content=said.text))],
        "prompt_ids": list(said.prompt_ids or ()),
        "completion_ids": list(tokens),
        "logprobs": list(said.log_probabilities or ()),
        "env_mask": [int(own) for own in mask],
        "truncated": said.finish_reason == "length",
        "status": evaluation.status.value,
        "finding": evaluation.finding.value if evaluation.finding else "",
        "passed": passed(evaluation),
        **_speed(speedup_of(evaluation)),
        "group": group_of(attempt),
        "attempt": attempt.key,
        "run": attempt.run,
        "turn": attempt.turn,
        "index": attempt.index,
        "parent": attempt.parent or "",
        "problem": attempt.observation.problem.digest,
        "policy": said.policy,
        "policy_version": said.policy_version,
        "prompt_version": said.prompt_version,
    }


def group_of(attempt: Attempt) -> str:
    """Equal for the samples that are compared with each other: answers of one turn to one parent."""
    return f"{attempt.run}/{attempt.turn} from {attempt.parent or 'the start'}"


def _speed(speedup: Interval | None) -> dict[str, float | None]:
    if speedup is None:
        return {"speedup": None, "speedup_low": None, "speedup_high": None}
    return {"speedup": speedup.median, "speedup_low": speedup.low, "speedup_high": speedup.high}
