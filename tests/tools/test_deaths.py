"""Why a worker gave no answer: a table of observations, and the verdict that follows for the candidate."""

from __future__ import annotations

import signal

import pytest

from triton_agent.tools.processes.deaths import ENDLESS, Ending, Exit, Sign, cause_of
from triton_agent.tools.results import Finding

KILLED = Exit(status=-signal.SIGKILL)
"""Exit of a worker killed by the driver, or together with its zygote."""
IN_CALL = Ending(sign=Sign.ENDED, doing="call", detail="end of stream")


@pytest.mark.parametrize("sign", list(Sign))
@pytest.mark.parametrize("exits", [(), (KILLED,), (Exit(status=1, out_of_memory=True),)])
def test_what_happens_before_a_worker_is_ready_is_never_the_candidates_fault(
    sign: Sign, exits: tuple[Exit, ...]
) -> None:
    cause = cause_of(Ending(sign=sign, detail="end of stream"), exits)
    assert cause.finding is None
    assert cause.message == "a candidate worker ended before it was ready (end of stream)"


@pytest.mark.parametrize(
    ("ending", "exits", "finding", "message"),
    [
        (
            Ending(sign=Sign.SILENT, doing="trace", limit_s=20.4, detail="no answer in time"),
            [],
            Finding.TOO_SLOW,
            f"trace took longer than 20 s\nlikely cause: {ENDLESS}",
        ),
        (
            Ending(sign=Sign.SILENT, doing="call", limit_s=0.2, of_verdict=True, detail="no answer in time"),
            [],
            Finding.TOO_SLOW,
            "call took longer than the time that was left for the verdict\n"
            f"likely cause: {ENDLESS}, or a busy machine: --timeout gives more time",
        ),
        (
            Ending(sign=Sign.GARBLED, doing="trace", detail="not a length"),
            [],
            Finding.TAMPERED,
            "the verdict channel was written to (not a length)",
        ),
        (IN_CALL, [], Finding.CRASHED, "the process ended during call, by signal SIGKILL, without a verdict"),
        (IN_CALL, [KILLED], Finding.CRASHED, "the process ended during call, by signal SIGKILL, without a verdict"),
        (
            IN_CALL,
            [KILLED, Exit(status=-signal.SIGSEGV)],
            Finding.CRASHED,
            "the process ended during call, by signal SIGSEGV, without a verdict",
        ),
        (
            IN_CALL,
            [Exit(status=-signal.SIGSYS)],
            Finding.CRASHED,
            "the process ended during call, by signal SIGSYS, without a verdict",
        ),
        (
            IN_CALL,
            [Exit(status=-40)],
            Finding.CRASHED,
            "the process ended during call, by signal 40, without a verdict",
        ),
        (
            IN_CALL,
            [Exit(status=3)],
            Finding.CRASHED,
            "the process ended during call, with exit status 3, without a verdict",
        ),
        (
            IN_CALL,
            [Exit(status=0)],
            Finding.CRASHED,
            "the process ended during call, with exit status 0, without a verdict",
        ),
        (
            IN_CALL,
            [Exit(status=None, last_words="1\n2\n3\n4\n5")],
            Finding.CRASHED,
            "the process ended during call, by signal SIGKILL, without a verdict\nits last words: 2\n3\n4\n5",
        ),
        (
            IN_CALL,
            [Exit(status=-signal.SIGXCPU)],
            Finding.TOO_SLOW,
            "the process ended during call: its processor time was used up",
        ),
        (
            IN_CALL,
            [Exit(status=-signal.SIGXCPU), Exit(status=-signal.SIGKILL, out_of_memory=True)],
            Finding.MEMORY,
            "the process ended during call: it used more memory than it may",
        ),
    ],
)
def test_why_a_worker_that_had_the_candidate_gave_no_answer(
    ending: Ending, exits: list[Exit], finding: Finding, message: str
) -> None:
    cause = cause_of(ending, exits)
    assert (cause.finding, cause.message) == (finding, message)


@pytest.mark.parametrize(
    ("exits", "finding"),
    [
        ([Exit(status=0)], None),
        ([Exit(status=None)], None),
        ([], Finding.CRASHED),
        ([KILLED], Finding.CRASHED),
        ([Exit(status=-signal.SIGSEGV)], Finding.CRASHED),
        ([Exit(status=1)], Finding.CRASHED),
        ([Exit(status=0, out_of_memory=True)], Finding.MEMORY),
    ],
)
def test_no_kernel_makes_an_executor_end_without_an_error(exits: list[Exit], finding: Finding | None) -> None:
    """A tracer may: the candidate's Python can end it with any status, as the table above has it."""
    ending = Ending(sign=Sign.ENDED, doing="call", worker="gpu", runs_candidate=False)
    assert cause_of(ending, exits).finding is finding


@pytest.mark.parametrize("number", range(1, 65))
def test_every_signal_has_words(number: int) -> None:
    """A candidate may end itself by any of them; 34 to 64 have no names in Python, except the first and last."""
    assert cause_of(IN_CALL, [Exit(status=-number)]).finding is not None
