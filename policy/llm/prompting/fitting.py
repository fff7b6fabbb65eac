"""Chooses how much of each part of a prompt is shown, so that all of it stays within a number of tokens.

A part has forms, the shortest first; each form has a rank, and ranks are served in order, over all parts: so a short
form of what matters less may come before the long form of what matters more. What fits at full length is shown at full
length. The same parts and the same count give the same prompt.

Tokens are counted part by part, since most parts are those of the turn before. A joint between two parts is given
`JOINT_TOKENS`: the blank line, and what a tokenizer may need more for a text than for its pieces.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from triton_agent.policy.llm.prompting.counting import Count
from triton_agent.tools.errors import UsageError

JOINT = "\n\n"
JOINT_TOKENS = 4
"""The blank line takes one or two. The others are for tokenizers that cut a text at other places than its pieces."""


class PromptTooLong(UsageError):
    """Even the shortest form of the prompt has more tokens than it may have."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """One length at which a part can be shown."""

    rank: int
    """Lower ranks are served first."""
    write: Callable[[], str]
    """Called only when it is this form's turn."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A piece of the prompt."""

    name: str
    forms: tuple[Form, ...]
    """The shortest first."""
    needed: bool = False
    """True if its shortest form is always there; other parts may be left out."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """The parts as they are shown."""

    texts: tuple[str, ...]
    """Of the parts that are shown, in the order of the parts."""
    tokens: int
    shortened: tuple[str, ...]
    """Names of the parts that are not at full length."""


def fit(parts: Sequence[Part], budget_tokens: int, count: Count) -> Fitted:
    """All at full length where that fits; else one form after the other by rank, each if it still fits."""
    meter = _Meter(count)
    whole = [part.forms[-1].write() for part in parts]
    total = meter.total(whole, budget_tokens)
    if total is not None:
        return Fitted(texts=tuple(filter(None, whole)), tokens=total, shortened=())
    shown = [part.forms[0].write() if part.needed else "" for part in parts]
    costs = [meter.cost(text) for text in shown]
    total = sum(costs)
    if total > budget_tokens:
        raise PromptTooLong(
            f"the shortest prompt takes {total} tokens, and {budget_tokens} are allowed",
            remedy="use a model with a longer context, or leave less of it to the answer",
        )
    for form, place in _by_rank(parts):
        text = whole[place] if form is parts[place].forms[-1] else form.write()
        room = budget_tokens - total + costs[place]
        if len(text) > len(shown[place]) and meter.may_fit(len(text), room) and (cost := meter.cost(text)) <= room:
            total += cost - costs[place]
            shown[place], costs[place] = text, cost
    shortened = tuple(part.name for part, text, all_of_it in zip(parts, shown, whole) if text != all_of_it)
    return Fitted(texts=tuple(filter(None, shown)), tokens=total, shortened=shortened)


def _by_rank(parts: Sequence[Part]) -> list[tuple[Form, int]]:
    forms = [(form, place) for place, part in enumerate(parts) for form in part.forms]
    return sorted(forms, key=lambda pair: (pair[0].rank, pair[1]))


class _Meter:
    """Counts, and tells from what it counted which texts are not worth counting."""

    def __init__(self, count: Count) -> None:
        self._count = count
        self._characters = self._tokens = 0

    def cost(self, text: str) -> int:
        """Tokens with the joint; nothing for nothing."""
        if not text:
            return 0
        tokens = self._count(text)
        self._characters += len(text)
        self._tokens += tokens
        return tokens + JOINT_TOKENS

    def may_fit(self, characters: int, room: int) -> bool:
        """False where it would not fit even with twice as many characters a token as were met so far."""
        return characters * self._tokens <= 2 * self._characters * room

    def total(self, texts: Sequence[str], most: int) -> int | None:
        """The tokens of all; None where there are more than `most`. Short texts are counted first."""
        total, left = 0, sum(map(len, texts))
        for text in sorted(texts, key=len):
            if not self.may_fit(left, most - total):
                return None
            total += self.cost(text)
            left -= len(text)
        return total if total <= most else None
