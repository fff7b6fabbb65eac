"""How many tokens a text may have, where the model's tokenizer is out of reach: rather too high than too low.

Words cost one token and one more for every four letters after the first four; digits, signs, line ends and indents one
each; other scripts one for each byte; a single space belongs to the word behind it. It is no strict bound, since a
vocabulary may lack any word: where a server finds a prompt too long, it is asked again with a shorter one.
"""

from __future__ import annotations

import re

WORD = re.compile(r"[A-Za-z]+")
SINGLE = re.compile(r"[!-/:-@\[-`{-~]|[0-9]|\n+|[ \t\r\f\v]{2,}")
"""Punctuation of ASCII, a digit, line ends in a row, an indent."""
FOREIGN = re.compile(r"[^\x00-\x7f]+")
LETTERS_A_TOKEN = 4


def token_bound(text: str) -> int:
    """Tokens of a text, estimated from above."""
    words = sum(1 + (len(word) - 1) // LETTERS_A_TOKEN for word in WORD.findall(text))
    foreign = sum(len(part.encode("utf-8", "surrogatepass")) for part in FOREIGN.findall(text))
    return words + len(SINGLE.findall(text)) + foreign
