"""Reads blobs by their hash, many at once, and checks that their bytes still have that hash.

A bounded cache keeps those that are read often: problem views, sources of parents.
"""

from __future__ import annotations

import collections
import hashlib
import threading
from collections.abc import Iterable, Sequence

from sqlalchemy import Connection, select

from triton_agent.memory.errors import StoreDamaged
from triton_agent.memory.observation import ProblemView
from triton_agent.memory.sql import packing
from triton_agent.memory.sql.pieces import get_view, references_in
from triton_agent.memory.sql.tables import Blob

KEPT_BYTES = 32 << 20
KEPT_VIEWS = 64
CHUNK = 400


class Library:
    """A bounded cache of blobs; threads may share one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: collections.OrderedDict[bytes, bytes] = collections.OrderedDict()
        self._kept_bytes = 0
        self._views: collections.OrderedDict[bytes, ProblemView] = collections.OrderedDict()

    def fetch(self, connection: Connection, shas: Iterable[bytes | None]) -> dict[bytes, bytes]:
        """Return the bytes of each hash; hashes that are not in the store are left out."""
        found, missing = self._look_up({sha for sha in shas if sha is not None})
        for start in range(0, len(missing), CHUNK):
            some = missing[start : start + CHUNK]
            for sha, stored in connection.execute(select(Blob.sha, Blob.data).where(Blob.sha.in_(some))):
                found[sha] = _checked(sha, stored)
                self._keep(sha, found[sha])
        return found

    def fetch_with_parts(self, connection: Connection, shas: Iterable[bytes | None]) -> dict[bytes, bytes]:
        """Fetch blobs and, recursively, all blobs that they refer to."""
        found: dict[bytes, bytes] = {}
        wanted = {sha for sha in shas if sha is not None}
        while wanted:
            new = self.fetch(connection, wanted)
            found |= new
            wanted = {sha for data in new.values() for sha in references_in(data)} - found.keys() - wanted
        return found

    def view(self, connection: Connection, sha: bytes) -> ProblemView:
        with self._lock:
            if sha in self._views:
                self._views.move_to_end(sha)
                return self._views[sha]
        parts = Opened(self.fetch_with_parts(connection, (sha,)))
        view = get_view(parts.get(sha), parts.get)
        with self._lock:
            self._views[sha] = view
            while len(self._views) > KEPT_VIEWS:
                self._views.popitem(last=False)
        return view

    def _look_up(self, shas: set[bytes]) -> tuple[dict[bytes, bytes], Sequence[bytes]]:
        with self._lock:
            found = {sha: self._kept[sha] for sha in shas if sha in self._kept}
            for sha in found:
                self._kept.move_to_end(sha)
        return found, sorted(shas - found.keys())

    def _keep(self, sha: bytes, data: bytes) -> None:
        if len(data) > KEPT_BYTES // 8:
            return
        with self._lock:
            if sha not in self._kept:
                self._kept[sha] = data
                self._kept_bytes += len(data)
            while self._kept_bytes > KEPT_BYTES:
                self._kept_bytes -= len(self._kept.popitem(last=False)[1])


class Opened:
    """Fetched blobs; a missing one raises StoreDamaged."""

    def __init__(self, blobs: dict[bytes, bytes]) -> None:
        self._blobs = blobs

    def get(self, sha: bytes) -> bytes:
        data = self._blobs.get(sha)
        if data is None:
            raise StoreDamaged(f"a text is missing ({sha.hex()[:12]})", remedy="repair it, or go back to a backup")
        return data


def _checked(sha: bytes, stored: bytes) -> bytes:
    data = packing.unsqueeze(stored)
    if hashlib.sha256(data).digest() != sha:
        raise StoreDamaged(f"a text changed since it was written ({sha.hex()[:12]})", remedy="repair it")
    return data
