"""Chooses a form for each part of a prompt, so that the whole stays within a token budget.

A part has forms, the shortest first. Each form has a rank, and forms are considered by rank over all parts: a short
form of a less important part can come before the long form of a more important one. If all longest forms fit, they are
shown. Equal parts and counts give equal prompts.

Tokens are counted part by part, because most parts repeat from turn to turn. Each part costs `JOINT_TOKENS` more: for
the blank line after it, and because a tokenizer may need more tokens for a text than for its pieces.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from triton_agent.policy.llm.prompting.counting import Count
from triton_agent.tools.errors import UsageError

JOINT = "\n\n"
JOINT_TOKENS = 4
"""The blank line takes one or two tokens; the rest is for tokenizers that split the joined text differently."""


class PromptTooLong(UsageError):
    """Even the shortest form of the prompt has too many tokens."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PartForm:
    """One form of a part, with its length."""

    rank: int
    """Forms with lower ranks are considered first."""
    write: Callable[[], str]
    """Called only if this form is considered."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PromptPart:
    """A part of a prompt in several forms."""

    name: str
    forms: tuple[PartForm, ...]
    """Forms, the shortest first."""
    needed: bool = False
    """True if at least the shortest form must be shown; other parts may be left out."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """The chosen form of each part."""

    texts: tuple[str, ...]
    """Texts of the parts shown, in order."""
    tokens: int
    shortened: tuple[str, ...]
    """Names of the parts that are shortened or left out."""


def fit(parts: Sequence[PromptPart], budget_tokens: int, count: Count) -> Fitted:
    """Choose the longest form of each part if all of them fit; otherwise take forms by rank, each only if it still
    fits.
    """
    meter = _TokenMeter(count)
    whole = [part.forms[-1].write() for part in parts]
    total = meter.total(whole, budget_tokens)
    if total is not None:
        return Fitted(texts=tuple(filter(None, whole)), tokens=total, shortened=())
    shown = [part.forms[0].write() if part.needed else "" for part in parts]
    costs = [meter.cost(text) for text in shown]
    total = sum(costs)
    if total > budget_tokens:
        raise PromptTooLong(
            f"the shortest prompt takes {total} tokens, more than the {budget_tokens} allowed",
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


def _by_rank(parts: Sequence[PromptPart]) -> list[tuple[PartForm, int]]:
    forms = [(form, place) for place, part in enumerate(parts) for form in part.forms]
    return sorted(forms, key=lambda pair: (pair[0].rank, pair[1]))


class _TokenMeter:
    """Counts tokens and skips texts that cannot fit by the ratio of characters to tokens seen so far."""

    def __init__(self, count: Count) -> None:
        self._count = count
        self._characters = self._tokens = 0

    def cost(self, text: str) -> int:
        """Return the number of tokens of a text and its joint; 0 for an empty text."""
        if not text:
            return 0
        tokens = self._count(text)
        self._characters += len(text)
        self._tokens += tokens
        return tokens + JOINT_TOKENS

    def may_fit(self, characters: int, room: int) -> bool:
        """Return False if a text would not fit even with twice as many characters per token as seen so far."""
        return characters * self._tokens <= 2 * self._characters * room

    def total(self, texts: Sequence[str], most: int) -> int | None:
        """Return the number of tokens of all texts; None if it exceeds `most`. Short texts are counted first."""
        total, left = 0, sum(map(len, texts))
        for text in sorted(texts, key=len):
            if not self.may_fit(left, most - total):
                return None
            total += self.cost(text)
            left -= len(text)
        return total if total <= most else None
