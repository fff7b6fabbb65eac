"""Every error triton-agent raises, as one tree.

    TritonAgentError
    ├── UsageError                the request cannot be carried out as written      (exit 2)
    │   └── ProblemError          the problem file is broken or unusable
    └── InstrumentError           we could not measure; says nothing of the kernel   (exit 3)
        ├── NotJudgeableHere      this machine cannot judge this kernel (say, no GPU)
        └── WorkerLost            one of our own processes died or stopped answering
            └── WorkerNeverReady  a candidate's worker, before it saw the candidate

A candidate's failure is *not* here: it is data, an `Evaluation` with a status. Whatever else escapes is a bug of ours
(exit 70). Errors are picklable and carry what was wrong, where, and what to do about it.
"""

from __future__ import annotations


class TritonAgentError(Exception):
    """Base of the tree: `what` went wrong, `where` (may be empty), and the `remedy` (may be empty)."""

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
    """The request cannot be carried out as written: a wrong option, a missing file."""


class ProblemError(UsageError):
    """The problem cannot serve: it does not load, does not run, or is not a problem."""


class InstrumentError(TritonAgentError):
    """We could not measure. Never a status of the candidate, never a reward of 0."""


class NotJudgeableHere(InstrumentError):
    """This machine lacks what a verdict on this kernel needs, and guessing is not an option."""


class WorkerLost(InstrumentError):
    """A process of ours died before it was ready, or does not answer."""


class WorkerNeverReady(WorkerLost):
    """A candidate's worker ended before it was ready, so before the candidate could have any part in it."""


KINDS: dict[str, type[TritonAgentError]] = {
    kind.__name__: kind
    for kind in (UsageError, ProblemError, InstrumentError, NotJudgeableHere, WorkerLost, WorkerNeverReady)
}
"""Names of the errors that may cross a process boundary; see `tools/isolate/wire.py`."""
