"""Errors of the store, a branch of the tree in `tools/errors.py`.

    StoreError                 the store cannot be read or written now              (exit 3)
    ├── StoreUnreachable       no server, no rights, or locked by others for too long
    ├── StoreFull              no room left on its disk
    ├── StoreReadOnly          it may be read, not written
    ├── StoreDamaged           the stored bytes are not what was written
    ├── StoreTooNew            written by a newer triton-agent
    ├── RecordConflict         another record has the same key
    └── NotInStore             there is no such run or attempt; also a UsageError       (exit 2)

An error means that the request had no effect. Records acknowledged earlier are still there.
"""

from __future__ import annotations

from triton_agent.tools.errors import TritonAgentError, UsageError


class StoreError(TritonAgentError):
    """The store cannot carry out a request, through no fault of the request."""


class StoreUnreachable(StoreError):
    """The server does not answer, the folder may not be entered, or others held the lock for too long."""


class StoreFull(StoreError):
    pass


class StoreReadOnly(StoreError):
    pass


class StoreDamaged(StoreError):
    """The stored bytes are not what was written; `triton_agent.memory.repair` saves what can be read."""


class StoreTooNew(StoreError):
    """A newer version of this program wrote the store, and this one would misread it."""


class RecordConflict(StoreError):
    """Another record has the same key; records are never changed."""


class NotInStore(StoreError, UsageError):
    """There is no such run, attempt or store."""
