"""Renders an observation as two messages for a language model, within a token budget.

The system message holds the role, the rules and the form of an answer. One user message holds the rest. Earlier turns
are not replayed as turns of a chat: a search goes back, forks and starts afresh, so an attempt may build on any other.
The prompt shows the files, short plans and verdicts of earlier answers instead. A prompt is therefore a function of the
observation alone, equal in inference, in training and in a resumed run.

Lengths and priorities are in `forms.py`, texts in `templates/`, quoting in `quoting.py`. Not covered: the tokens that a
chat template puts around messages, for which the caller leaves room.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from triton_agent.memory.observation import Observation
from triton_agent.memory.records import Attempt, Message
from triton_agent.policy.answer import without_notes
from triton_agent.policy.llm.prompting.counting import Count, RememberedCount, token_bound
from triton_agent.policy.llm.prompting.fitting import JOINT, PromptTooLong, fit
from triton_agent.policy.llm.prompting.sections import system_part, user_parts
from triton_agent.policy.llm.prompting.wording import prompt_version

__all__ = ["Prompt", "PromptTooLong", "RememberedCount", "as_messages", "prompt_version", "render", "render_within"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A rendered prompt."""

    messages: tuple[Message, ...]
    version: str
    """Version of the templates, stored with every answer."""
    tokens: int
    """Tokens by the given count; an upper bound."""
    shortened: tuple[str, ...] = ()
    """Names of parts that are shortened or left out."""


def render(observation: Observation, *, budget_tokens: int, count: Count) -> Prompt:
    """Render an observation in at most `budget_tokens`; raise PromptTooLong if even the shortest form needs more.

    Pass the same `RememberedCount` at every turn, so that no text is counted twice.
    """
    remembered = count if isinstance(count, RememberedCount) else RememberedCount(count)
    fitted = fit([system_part(observation), *user_parts(observation)], budget_tokens, remembered)
    system, *user = fitted.texts
    messages = (Message(role="system", content=system), Message(role="user", content=JOINT.join(user)))
    return Prompt(messages=messages, version=prompt_version(), tokens=fitted.tokens, shortened=fitted.shortened)


def render_within(tokens: int) -> Callable[..., Prompt]:
    """Return a renderer that makes the prompts of `data make --prompt-tokens`: their length is bounded for any
    vocabulary.

    Use it for a model that was fine-tuned on such prompts. A prompt that exceeds the model's own budget is rendered
    again within that budget.
    """

    def render_twice(observation: Observation, *, budget_tokens: int, count: Count) -> Prompt:
        remembered = count if isinstance(count, RememberedCount) else RememberedCount(count)
        try:
            found = render(observation, budget_tokens=tokens, count=bound)
        except PromptTooLong:
            return render(observation, budget_tokens=budget_tokens, count=remembered)
        fits = sum(remembered(message.content) for message in found.messages) <= budget_tokens
        return found if fits else render(observation, budget_tokens=budget_tokens, count=remembered)

    bound = RememberedCount(token_bound)
    return render_twice


def as_messages(*, budget_tokens: int, count: Count) -> Callable[[Attempt], tuple[Message, ...]]:
    """Return a function that makes training conversations from attempts; an empty one if the prompt would be too
    long.
    """
    remembered = RememberedCount(count)

    def messages(attempt: Attempt) -> tuple[Message, ...]:
        answer = Message(role="assistant", content=without_notes(attempt.completion.text))
        try:
            return (*render(attempt.observation, budget_tokens=budget_tokens, count=remembered).messages, answer)
        except PromptTooLong:
            return ()

    return messages
