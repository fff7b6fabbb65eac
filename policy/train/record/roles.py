"""Labels the tokens of an answer: plan, code, or not sampled by the policy."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable, Sequence

from triton_agent.policy.train.prepare.credit import TokenRole

Decode = Callable[[Sequence[int]], str]
"""Decodes tokens to text, including special tokens."""


class Spelling:
    """Finds the token at a position of the text; caches the text of each token."""

    def __init__(self, decode: Decode) -> None:
        self.decode = decode
        self._pieces: dict[int, str] = {}

    def pieces(self, tokens: Sequence[int]) -> list[str]:
        """Return the text of each token on its own. Joined, these are not always the text of all tokens."""
        known = self._pieces
        try:
            return list(map(known.__getitem__, tokens))
        except KeyError:
            for token in set(tokens) - known.keys():
                known[token] = self.decode([token])
        return list(map(known.__getitem__, tokens))


def token_roles(
    tokens: Sequence[int], mask: Sequence[bool] | None, source: str | None, spelling: Spelling | None
) -> bytes:
    """Label tokens: code from where the source begins, plan before it, feedback where the policy did not sample.

    An answer without code is all plan; without a decoder, all is code.
    """
    begin = _code_begins(tokens, source, spelling)
    roles = bytes((TokenRole.PLAN,)) * begin + bytes((TokenRole.CODE,)) * (len(tokens) - begin)
    if mask is None:
        return roles
    return bytes(role if own else TokenRole.FEEDBACK for role, own in zip(roles, mask))


def _code_begins(tokens: Sequence[int], source: str | None, spelling: Spelling | None) -> int:
    """Return the index of the first token that contains part of the source."""
    if spelling is None:
        return 0
    if not source or not source.strip():
        return len(tokens)
    pieces = spelling.pieces(tokens)
    at = "".join(pieces).rfind(source.strip())
    if at >= 0:  # works for most tokenizers; decoding all prefixes of a long answer takes a hundred times as long
        ends = itertools.accumulate(map(len, pieces))
        return next((number for number, end in enumerate(ends) if end > at), len(tokens))
    said = spelling.decode(tokens)
    at = said.rfind(source.strip())
    if at < 0:  # the source was reformatted: use the last fence before the class
        model = said.rfind("class ModelNew")
        at = said.rfind("```", 0, model) if model >= 0 else -1
    if at < 0:
        return 0
    places = range(len(tokens))
    return bisect.bisect_left(places, True, key=lambda place: len(spelling.decode(tokens[: place + 1])) > at)
