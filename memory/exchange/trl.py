"""Rows for TRL's trainers from stored attempts.

`sft_row` is an example to imitate: a conversation that ended in a candidate that passed. `grpo_row` is a sample with
its result: the sampled tokens with log-probabilities and mask, under the names of a TRL rollout, how they were drawn,
the verdict, and the group of samples to compare it with (`memory/groups.py`). It holds no reward: the trainer computes
that from status and speed-up by a recipe. Attempts that were not measured become no row.

TRL is not needed here; the rows are plain data.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from triton_agent.memory.groups import group_of
from triton_agent.memory.records import Attempt, Message
from triton_agent.memory.verdicts import passed, speedup_of
from triton_agent.tools.ranking import Standing, standing
from triton_agent.tools.results import Evaluation, Interval

Render = Callable[[Attempt], Sequence[Message]]
"""Makes the conversation that a language model would have had, its answer last, for attempts without one."""

SAMPLING = (
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "frequency_penalty",
    "presence_penalty",
    "repetition_penalty",
    "pattern",
    "tokens_at_most",
    "seed",
)
"""Settings of a draw that become columns; None where unknown."""
WIN = 1.0
"""A win's whole speed-up interval lies above this."""


class Shape(enum.StrEnum):
    """The two ways in which TRL takes a conversation."""

    MESSAGES = "messages"
    """One list; the trainer learns all of it, or the assistant's part if told so."""
    PROMPT_COMPLETION = "prompt-completion"
    """Two lists; the trainer learns the second."""


class Which(enum.StrEnum):
    """Which attempts are examples to imitate."""

    PASSED = "passed"
    WINS = "wins"
    """The whole interval of the speed-up lies above 1."""
    BEST = "best"
    """The best of each problem."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class JudgedAttempt:
    """An attempt with its newest verdict; None without one."""

    attempt: Attempt
    evaluation: Evaluation | None

    @property
    def passed(self) -> bool:
        return passed(self.evaluation)

    @property
    def speedup(self) -> Interval | None:
        return speedup_of(self.evaluation)

    @property
    def standing(self) -> Standing:
        return standing(self.evaluation)


@dataclasses.dataclass(slots=True)
class SkipCounts:
    """Counts attempts that became no row, by reason; filled while rows are read."""

    reasons: dict[str, int] = dataclasses.field(default_factory=dict)

    def count(self, reason: str) -> None:
        self.reasons[reason] = self.reasons.get(reason, 0) + 1


# -- examples to imitate -----------------------------------------------------------------------------------------------


def sft_rows(
    judged: Iterable[JudgedAttempt], which: Which, shape: Shape, left_out: SkipCounts, render: Render | None = None
) -> Iterator[dict[str, Any]]:
    """Yield a row per example; `render` makes the conversation where none was stored."""
    chosen = _best(judged, left_out) if which is Which.BEST else judged
    for item in chosen:
        if not item.passed:
            left_out.count("did not pass")
        elif which is Which.WINS and (item.speedup is None or item.speedup.low <= WIN):
            left_out.count("not surely faster than the reference")
        elif not (said := _conversation(item.attempt, render)):
            left_out.count("its author was shown no messages")
        else:
            yield sft_row(item, said, shape)


def sft_row(item: JudgedAttempt, said: Sequence[Message], shape: Shape) -> dict[str, Any]:
    """Return a conversation in TRL's form, with its attempt and problem."""
    *prompt, answer = map(_plain, said)
    view = item.attempt.observation.problem
    about = {"attempt": item.attempt.key, "problem": view.digest, "fingerprint": view.fingerprint}
    if shape is Shape.MESSAGES:
        return {"messages": [*prompt, answer], **about, **_speed(item.speedup)}
    return {"prompt": prompt, "completion": [answer], **about, **_speed(item.speedup)}


def _best(judged: Iterable[JudgedAttempt], left_out: SkipCounts) -> list[JudgedAttempt]:
    """Return the best attempt of each problem, in the order in which problems first appear."""
    found: dict[str, JudgedAttempt] = {}
    for item in judged:
        problem = item.attempt.observation.problem.digest
        if not item.passed:
            left_out.count("did not pass")
            continue
        if problem in found:
            left_out.count("not the best of its problem")
        if problem not in found or item.standing.surpasses(found[problem].standing):
            found[problem] = item
    return list(found.values())


def _plain(message: Message) -> dict[str, Any]:
    plain: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.calls:
        called = [{"name": call.name, "arguments": call.arguments} for call in message.calls]
        plain["tool_calls"] = [
            {"id": call.id, "type": "function", "function": function} for call, function in zip(message.calls, called)
        ]
    return plain | {"tool_call_id": message.answers_call} if message.answers_call else plain


def _conversation(attempt: Attempt, render: Render | None) -> Sequence[Message]:
    said = attempt.completion
    if said.messages:
        return (*said.messages, Message(role="assistant", content=said.text))
    return render(attempt) if render is not None else ()


# -- samples with what they earned -------------------------------------------------------------------------------------


def grpo_rows(judged: Iterable[JudgedAttempt], left_out: SkipCounts) -> Iterator[dict[str, Any]]:
    """Yield a row per sample that has tokens and a verdict."""
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
    """Return a sampled completion with its result, under TRL's names where there are any."""
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
        "group": group_of(attempt, evaluation),
        "question": said.group,
        "attempt": attempt.key,
        "run": attempt.run,
        "turn": attempt.turn,
        "index": attempt.index,
        "parent": attempt.parent or "",
        "problem": attempt.observation.problem.digest,
        "fingerprint": attempt.observation.problem.fingerprint,
        "policy": said.policy,
        "policy_version": said.policy_version,
        "adapter_version": said.adapter_version,
        "prompt_version": said.prompt_version,
        "tokenizer": said.tokenizer,
        "logprobs_of": said.log_probabilities_of.value,
        **{name: getattr(said.sampling, name) for name in SAMPLING},
    }


def _speed(speedup: Interval | None) -> dict[str, float | None]:
    if speedup is None:
        return {"speedup": None, "speedup_low": None, "speedup_high": None}
    return {"speedup": speedup.median, "speedup_low": speedup.low, "speedup_high": speedup.high}
