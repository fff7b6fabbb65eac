"""One answer and the conversation that led to it: tool calls, and a second request after an answer that was cut off.

Without tools and second requests, the conversation is the prompt. The tokens of several requests are joined into one
sequence if each prompt continues the previous one, so that training uses the sampled tokens and masks all others. Not
covered: the tools themselves; see `toolbox.py`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from triton_agent.memory.records import Message, Usage
from triton_agent.policy.answer import thoughts_apart
from triton_agent.policy.llm.engine import Sampled
from triton_agent.policy.llm.prompting.wording import worded

CUT_SHOWN = 1200
"""Most characters of a cut-off answer that are shown to the model again: its plan and the beginning of its file."""
CUT_OFF = "\n[cut off here]"
BROKEN = "its template does not continue the conversation: only the tokens of the last answer are kept"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """Messages up to an answer, the answer, and its tokens joined with those of earlier requests."""

    messages: tuple[Message, ...]
    sampled: Sampled
    mask: tuple[bool, ...] | None = None
    """True for tokens that the model sampled; None if it sampled all of them."""

    def and_then(self, messages: Sequence[Message], sampled: Sampled) -> Conversation:
        """Return the conversation continued by these messages and the next answer, with the usage of both added up.

        Thoughts are not repeated.
        """
        joined, mask = _joined(self.sampled, self.mask, sampled)
        return Conversation(
            messages=(*self.messages, *messages),
            sampled=dataclasses.replace(joined, usage=total(self.sampled.usage, sampled.usage)),
            mask=mask,
        )


def asked_to_be_shorter(sampled: Sampled) -> tuple[Message, ...]:
    """Return the messages that tell a model that its answer was cut off."""
    _, text = thoughts_apart(sampled.text)
    shown = text[:CUT_SHOWN] + CUT_OFF if text.strip() else CUT_OFF.strip()
    template = "cut_off" if text.strip() else "cut_off_thinking"
    limit = str(sampled.sampling.tokens_at_most or sampled.usage.completion_tokens)
    return (
        Message(role="assistant", content=shown),
        Message(role="user", content=worded(template, tokens=limit)),
    )


def total(one: Usage, other: Usage) -> Usage:
    """Add up the usage of two requests."""
    names = [field.name for field in dataclasses.fields(Usage)]
    return Usage(**{name: getattr(one, name) + getattr(other, name) for name in names})


def _joined(before: Sampled, mask: tuple[bool, ...] | None, now: Sampled) -> tuple[Sampled, tuple[bool, ...] | None]:
    """Return the later answer with the tokens of both requests, if its prompt begins with the earlier prompt and
    answer.
    """
    if before.token_ids is None or before.prompt_ids is None or now.token_ids is None or now.prompt_ids is None:
        return now, None
    known = (*before.prompt_ids, *before.token_ids)
    if now.prompt_ids[: len(known)] != known or before.log_probabilities is None or now.log_probabilities is None:
        return dataclasses.replace(now, missing="; ".join(filter(None, (now.missing, BROKEN)))), None
    between = now.prompt_ids[len(known) :]
    chosen = mask if mask is not None else (True,) * len(before.token_ids)
    joined = dataclasses.replace(
        now,
        prompt_ids=before.prompt_ids,
        token_ids=(*before.token_ids, *between, *now.token_ids),
        log_probabilities=(*before.log_probabilities, *(0.0,) * len(between), *now.log_probabilities),
    )
    return joined, (*chosen, *(False,) * len(between), *(True,) * len(now.token_ids))
