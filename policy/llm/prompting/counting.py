"""Counts tokens: a cache over a model's tokenizer, and an estimate without one."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable

Count = Callable[[str], int]


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
