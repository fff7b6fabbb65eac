"""Decides why a worker of a candidate ended or did not answer, and who caused it. This is decided only here.

The checker only sees that a channel ended. The driver reaps the process, so it knows the exit status and whether the
process exceeded its memory limit; if a process ended, the driver decides again with that information.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import signal
from collections.abc import Sequence

from triton_agent.tools.results import Finding


class Sign(enum.StrEnum):
    """What the checker observed of a worker."""

    ENDED = "ended"
    """The worker's end of the channel was closed."""
    SILENT = "silent"
    """The worker did not answer in time."""
    GARBLED = "garbled"
    """The worker sent something that is not a message, or not the answer to the request."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """A worker that gave no answer, as observed by the checker."""

    sign: Sign
    doing: str = ""
    """The request that it did not answer; empty if it never reported that it was ready."""
    limit_s: float = 0.0
    """Time limit of the request."""
    worker: str = ""
    """Kind of the worker, as in `worker_pool.py`."""
    runs_candidate: bool = True
    """True if the candidate's Python runs in it, and may end it as it likes."""
    of_verdict: bool = False
    """True if the time limit is what was left for the whole verdict."""
    detail: str = ""
    """The channel's error."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """The end of a process, as observed by the driver."""

    status: int | None
    """Exit status, or the negative number of a signal; None if it ended together with its zygote."""
    out_of_memory: bool = False
    """True if it was killed for exceeding its memory limit."""
    last_words: str = ""
    """The end of its output."""


ENDLESS = "a loop that never ends, or far more work than the reference does"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """The reason why a worker gave no answer."""

    finding: Finding | None
    """None if the candidate cannot have caused it."""
    message: str


def cause_of(ending: Ending, exits: Sequence[Exit] = ()) -> Cause:
    """Return why a worker gave no answer; `exits` are those of its kind that ended, and empty if not known yet."""
    if not ending.doing:  # the worker had not received the candidate, so machine or sandbox is the cause
        return Cause(finding=None, message=f"a candidate worker ended before it was ready ({ending.detail})")
    if ending.sign is Sign.SILENT:
        limit = "the time that was left for the verdict" if ending.of_verdict else f"{ending.limit_s:.0f} s"
        busy = ", or a busy machine: --timeout gives more time" if ending.of_verdict else ""
        slow = f"{ending.doing} took longer than {limit}\nlikely cause: {ENDLESS}{busy}"
        return Cause(finding=Finding.TOO_SLOW, message=slow)
    if ending.sign is Sign.GARBLED:
        return Cause(finding=Finding.TAMPERED, message=f"the verdict channel was written to ({ending.detail})")
    message = f"the process ended during {ending.doing}"
    if any(end.out_of_memory for end in exits):
        return Cause(finding=Finding.MEMORY, message=f"{message}: it used more memory than it may")
    # SIGKILL comes from the driver when it ends a process, so it is no information.
    status = next((end.status for end in exits if end.status not in (None, -signal.SIGKILL)), -signal.SIGKILL)
    if exits and not ending.runs_candidate and all(end.status in (0, None) for end in exits):
        # A kernel can end such a process by a signal or an error, but not in this way.
        return Cause(finding=None, message=f"{message}, because its channel was closed or its zygote ended")
    if status == -signal.SIGXCPU:
        return Cause(finding=Finding.TOO_SLOW, message=f"{message}: its processor time was used up")
    message += f", {_in_words(status)}, without a verdict"
    words = "\n".join(exits[0].last_words.splitlines()[-4:])[:300] if exits else ""
    return Cause(finding=Finding.CRASHED, message=f"{message}\nits last words: {words}" if words else message)


def _in_words(status: int | None) -> str:
    if not status or status > 0:
        return f"with exit status {status}"
    with contextlib.suppress(ValueError):  # most real-time signals have no name
        return f"by signal {signal.Signals(-status).name}"
    return f"by signal {-status}"
