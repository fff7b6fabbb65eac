"""What can go wrong with the store, as a branch of the tree in `tools/errors.py`.

    StoreError                 what is remembered cannot be read or written now     (exit 3)
    ├── StoreUnreachable       no server, no rights, or others held it for too long
    ├── StoreFull              no room left where it lies
    ├── StoreReadOnly          it may be read, not written
    ├── StoreDamaged           what is there is not what was written
    ├── StoreTooNew            a newer triton-agent wrote it
    ├── RecordConflict         another record stands under the same key
    └── NotInStore             there is no such run or attempt; also a UsageError       (exit 2)

An error means that what was asked for did not happen. Whatever was acknowledged before is there still.
"""

from __future__ import annotations

from triton_agent.tools.errors import TritonAgentError, UsageError


class StoreError(TritonAgentError):
    """The store cannot do what was asked, through no fault of the request."""


class StoreUnreachable(StoreError):
    """Its server does not answer, its folder may not be entered, or others held it for too long."""


class StoreFull(StoreError):
    """There is no room left where it lies."""


class StoreReadOnly(StoreError):
    """It may be read, not written."""


class StoreDamaged(StoreError):
    """What is there is not what was written; `triton_agent.memory.repair` saves what can be read."""


class StoreTooNew(StoreError):
    """A newer version of this program wrote it, and this one would misread it."""


class RecordConflict(StoreError):
    """Another record stands under the same key; records are never changed."""


class NotInStore(StoreError, UsageError):
    """There is no such run, attempt or store."""
