"""Every error that triton-agent raises, as one tree.

    TritonAgentError
    ├── UsageError                the request cannot be carried out as written         (exit 2)
    │   └── ProblemError          the problem does not load, does not run, or is not a problem
    └── InstrumentError           we could not measure; says nothing about the kernel  (exit 3)
        ├── NotJudgeableHere      this machine cannot judge this kernel, for example without a GPU
        ├── MemoryTaken           other processes held the GPU memory that a verdict needed
        └── WorkerLost            one of our own processes died or does not answer
            ├── WorkerNeverReady  a candidate's process ended before it received the candidate
            └── WorkerHungUp      an executor or a compile worker ended without an error, which no candidate can cause

A candidate that fails is not an error but data: an `Evaluation` with a status. Any other exception is a bug of
triton-agent (exit 70). Errors are picklable; each message says what is wrong, where, and what to do about it.
"""

from __future__ import annotations


class TritonAgentError(Exception):
    """Base of the tree: `what` went wrong, `where`, and the `remedy`. `where` and `remedy` may be empty."""

    def __init__(self, what: str, *, where: str = "", remedy: str = "") -> None:
        super().__init__(what, where, remedy)
        self.what = what
        self.where = where
        self.remedy = remedy

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.what, self.where, self.remedy)

    def __str__(self) -> str:
        text = f"{self.where}: {self.what}" if self.where else self.what
        return f"{text}\n  {self.remedy}" if self.remedy else text


def _rebuild(kind: type[TritonAgentError], what: str, where: str, remedy: str) -> TritonAgentError:
    return kind(what, where=where, remedy=remedy)


class UsageError(TritonAgentError):
    """The request cannot be carried out as written, for example a wrong option or a missing file."""


class ProblemError(UsageError):
    """The problem does not load, does not run, or is not a problem."""


class InstrumentError(TritonAgentError):
    """We could not measure. It is neither a status of the candidate nor a reward of 0."""


class NotJudgeableHere(InstrumentError):
    """This machine lacks something that a verdict on this kernel needs."""


class MemoryTaken(InstrumentError):
    """Other processes held the GPU memory that a verdict needed."""


class WorkerLost(InstrumentError):
    """One of our own processes died or does not answer."""


class WorkerNeverReady(WorkerLost):
    """A candidate's process ended before it received the candidate, so the candidate did not cause it."""


class WorkerHungUp(WorkerLost):
    """A process that runs no Python of the candidate ended without an error during a request."""


KINDS: dict[str, type[TritonAgentError]] = {
    kind.__name__: kind
    for kind in (
        *(UsageError, ProblemError, InstrumentError, NotJudgeableHere, MemoryTaken),
        *(WorkerLost, WorkerNeverReady, WorkerHungUp),
    )
}
"""Errors that one process may send to another, by name; see `tools/processes/wire.py`."""
