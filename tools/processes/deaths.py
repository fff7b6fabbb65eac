"""Why a worker of a candidate ended or fell silent, and whose fault that is: the one place where this is decided.

The checker sees no more than the end of a channel. The driver reaps the process, so it knows the exit status and
whether the process held too much memory; where a process ended, the driver decides again with these.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import signal
from collections.abc import Sequence

from triton_agent.tools.results import Finding


class Sign(enum.StrEnum):
    """What the checker noticed of a worker."""

    ENDED = "ended"
    """Its end of the channel was closed."""
    SILENT = "silent"
    """It did not answer in time."""
    GARBLED = "garbled"
    """It sent something that is no message, or not the answer to the request."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """A worker that gave no answer, as the checker saw it."""

    sign: Sign
    doing: str = ""
    """The request that it did not answer; empty if it never reported that it was ready."""
    limit_s: float = 0.0
    """Time that it had."""
    detail: str = ""
    """The channel's error."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """The end of a process, as the driver saw it."""

    status: int | None
    """Exit status, or the negative number of a signal; None if it was reaped by another."""
    out_of_memory: bool = False
    """True if it was killed because it held more memory than it may."""
    last_words: str = ""
    """The end of its output."""


ENDLESS = "a loop that never ends, or far more work than the reference does"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """Why a worker gave no answer."""

    finding: Finding | None
    """None if the candidate cannot have caused it."""
    message: str


def cause_of(ending: Ending, exits: Sequence[Exit] = ()) -> Cause:
    """Return why a worker gave no answer; `exits` are those of the candidate's processes that were not sound."""
    if not ending.doing:  # it had not seen the candidate, so the machine or the sandbox is to blame
        return Cause(finding=None, message=f"a candidate worker ended before it was ready ({ending.detail})")
    if ending.sign is Sign.SILENT:
        slow = f"{ending.doing} took longer than {ending.limit_s:.0f} s\nlikely cause: {ENDLESS}"
        return Cause(finding=Finding.TOO_SLOW, message=slow)
    if ending.sign is Sign.GARBLED:
        return Cause(finding=Finding.TAMPERED, message=f"the verdict channel was written to ({ending.detail})")
    message = f"the process ended during {ending.doing}"
    if any(end.out_of_memory for end in exits):
        return Cause(finding=Finding.MEMORY, message=f"{message}: it used more memory than it may")
    # A process that did not end by itself was killed by the driver: it says nothing.
    status = next((end.status for end in exits if end.status not in (None, -signal.SIGKILL)), -signal.SIGKILL)
    if status == -signal.SIGXCPU:
        return Cause(finding=Finding.TOO_SLOW, message=f"{message}: its processor time was used up")
    message += f", {_in_words(status)}, without a verdict"
    words = "\n".join(exits[0].last_words.splitlines()[-4:])[:300] if exits else ""
    return Cause(finding=Finding.CRASHED, message=f"{message}\nits last words: {words}" if words else message)


def _in_words(status: int | None) -> str:
    if not status or status > 0:
        return f"with exit status {status}"
    with contextlib.suppress(ValueError):  # only the first and last of the real-time signals have a name
        return f"by signal {signal.Signals(-status).name}"
    return f"by signal {-status}"
