"""What a language model is shown: an observation as two messages, within a number of tokens.

A system message holds role, rules and the form of an answer; one user message holds all else. Earlier turns are not
replayed as turns of a chat: a search goes back, forks and starts afresh, an attempt may set out from any other, and
what matters of earlier answers is their file, their plan in short, and what became of them. So a prompt is a function
of the observation alone, the same for inference, for training and for a run that is resumed.

What gives way where tokens are few is decided in `sections.py`; words are in `templates/`, quotation in `quoting.py`.
Not covered: the marks that a chat template puts around messages; whoever asks leaves room for them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from triton_agent.memory.observation import Observation
from triton_agent.memory.records import Attempt, Message
from triton_agent.policy.answer import without_notes
from triton_agent.policy.llm.prompting.counting import Count, RememberedCount
from triton_agent.policy.llm.prompting.fitting import JOINT, PromptTooLong, fit
from triton_agent.policy.llm.prompting.sections import system_part, user_parts
from triton_agent.policy.llm.prompting.wording import prompt_version

__all__ = ["Prompt", "PromptTooLong", "RememberedCount", "as_messages", "prompt_version", "render"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """Messages as they are sent, and how they came about."""

    messages: tuple[Message, ...]
    version: str
    """Of the words; stored with every answer."""
    tokens: int
    """A bound from above, by the count that was given."""
    shortened: tuple[str, ...] = ()
    """What is not shown at full length, or not at all."""


def render(observation: Observation, *, budget_tokens: int, count: Count) -> Prompt:
    """The observation in at most `budget_tokens`; PromptTooLong where even the shortest form has more.

    Give the same `RememberedCount` at every turn, and texts that were counted before are not counted again.
    """
    remembered = count if isinstance(count, RememberedCount) else RememberedCount(count)
    fitted = fit([system_part(observation), *user_parts(observation)], budget_tokens, remembered)
    system, *user = fitted.texts
    messages = (Message(role="system", content=system), Message(role="user", content=JOINT.join(user)))
    return Prompt(messages=messages, version=prompt_version(), tokens=fitted.tokens, shortened=fitted.shortened)


def as_messages(*, budget_tokens: int, count: Count) -> Callable[[Attempt], tuple[Message, ...]]:
    """For rows to train on: what a model would have been shown, and have said; nothing where that is too long."""
    remembered = RememberedCount(count)

    def messages(attempt: Attempt) -> tuple[Message, ...]:
        answer = Message(role="assistant", content=without_notes(attempt.completion.text))
        try:
            return (*render(attempt.observation, budget_tokens=budget_tokens, count=remembered).messages, answer)
        except PromptTooLong:
            return ()

    return messages
