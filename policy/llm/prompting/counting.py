"""Counts tokens: a cache over a model's tokenizer, and an estimate without one."""

from __future__ import annotations

import hashlib
import re
import threading
from collections import OrderedDict
from collections.abc import Callable

Count = Callable[[str], int]
WORD = re.compile(r"[A-Za-z]+")
SINGLE = re.compile(r"[!-/:-@\[-`{-~]|[0-9]|\n+|[ \t\r\f\v]{2,}")
"""Punctuation of ASCII, a digit, line ends in a row, an indent."""
FOREIGN = re.compile(r"[^\x00-\x7f]+")
LETTERS_A_TOKEN = 4


class RememberedCount:
    """Count tokens, once for each text; the least recently used are forgotten. Keep one for each tokenizer.

    Texts are remembered by a digest, so that the cache stays small.
    """

    def __init__(self, count: Count, *, most: int = 16_384) -> None:
        self._count = count
        self._most = most
        self._known: OrderedDict[bytes, int] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, text: str) -> int:
        key = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
                return self._known[key]
        found = self._count(text)
        with self._lock:
            self._known[key] = found
            while len(self._known) > self._most:
                self._known.popitem(last=False)
        return found

    def __len__(self) -> int:
        return len(self._known)


def token_bound(text: str) -> int:
    """Estimate the tokens of a text from above, for models whose tokenizer is out of reach.

    A word costs one token, and one more for every four letters after the first four; digits, signs, line ends and
    indents one each; other scripts one for each byte; a single space belongs to the word behind it. It is no strict
    bound, since a vocabulary may lack any word: if a server finds a prompt too long, a shorter one is sent.
    """
    words = sum(1 + (len(word) - 1) // LETTERS_A_TOKEN for word in WORD.findall(text))
    foreign = sum(len(part.encode("utf-8", "surrogatepass")) for part in FOREIGN.findall(text))
    return words + len(SINGLE.findall(text)) + foreign
