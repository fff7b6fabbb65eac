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
"""One ASCII punctuation character, one digit, several line ends, or an indent."""
FOREIGN = re.compile(r"[^\x00-\x7f]+")
LETTERS_A_TOKEN = 4


class RememberedCount:
    """A cache of token counts by text, which forgets the least recently used ones. Each tokenizer needs one of its own.

    Keys are digests of the texts, so that the cache stays small.
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
    """Estimate an upper bound on the tokens of a text, for models without a tokenizer at hand.

    A word costs one token, and one more for every four letters after the first four. Each digit, punctuation character,
    group of line ends and indent costs one. Other scripts cost one for each byte. A single space belongs to the word
    after it. This is no strict bound, because a vocabulary may lack any word. If a server finds a prompt too long, a
    shorter one is sent.
    """
    words = sum(1 + (len(word) - 1) // LETTERS_A_TOKEN for word in WORD.findall(text))
    foreign = sum(len(part.encode("utf-8", "surrogatepass")) for part in FOREIGN.findall(text))
    return words + len(SINGLE.findall(text)) + foreign
