"""Checks some of the outputs of timed calls, at randomly drawn turns.

Fresh memory is not poisoned during timing, so a kernel might recognise a timed call and leave an old answer in place.
Therefore some timed calls get inputs with known answers instead of renewed ones. Their outputs are fetched at once, and
judged like any other after timing. Outputs of gigabytes stay in the executor until then; it records a digest at once,
and reports if a later call changed them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from triton_agent.tools.answers import checks
from triton_agent.tools.cases.plan import Case
from triton_agent.tools.chance import one_of, some_of
from triton_agent.tools.checker.session import Failed, Session
from triton_agent.tools.processes.protocol import Called, Done, Fetch, Fetched, HoldInputs, ReadClock, Readings
from triton_agent.tools.race.readings import Sample
from triton_agent.tools.results import Finding

IN_FIRST_RACE, IN_SECOND_RACE = slice(0, 3), slice(3, 5)
"""Slices of a trial's looks for the two races. No case is used twice: an earlier answer may still be in memory."""
LOOKS: int = IN_SECOND_RACE.stop
"""Number of looks; each costs a few runs of the reference, once."""
KINDS_OF_CALL = (0, 1)
"""A sample has a call for the device time, during which the stream is kept busy, then one for the latency. The sample
of a long call has only one."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """Outputs of one timed call, not yet judged."""

    case: Case
    reply: Readings
    rows: list[torch.Tensor]


class Looks:
    """The looks of one race, each at a case that the candidate has not been given before.

    The first series looks at both kinds of call, so that a candidate cannot behave in one of them only. A later series
    looks at one of them at random.
    """

    def __init__(self, cases: Iterable[Case] = ()) -> None:
        self._given = tuple(cases)
        self._cases = list(self._given)
        self._series = 0
        self._asked = 0
        self._due: dict[int, int] = {}
        """Kind of call to look at, by sample number."""
        self.taken: list[Look] = []
        self._kept: list[tuple[Case, Readings]] = []
        """Looks whose outputs are still in the executor, oldest first."""
        self._held: list[Case] = []
        """Cases whose inputs the executor holds."""

    def afresh(self) -> Looks:
        """Return looks for a repeated race, with the same cases.

        The looks of both races are judged.
        """
        again = Looks(self._given)
        again.taken, again._kept, again._held = self.taken, self._kept, self._held
        return again

    def send_ahead(self, session: Session) -> None:
        """Send the inputs of the first look if they are large. Others may use the GPU meanwhile, unlike in a race."""
        if self._cases and self._cases[-1].is_large:
            session.ask(HoldInputs(), Done, [self._cases[-1].expectation.packed_inputs])
            self._held.append(self._cases[-1])

    def begin(self, samples: int, *, one_call: bool = False) -> None:
        """Choose the samples to look at among the next `samples`; with `one_call`, each of them has a single call."""
        kinds = [one_of(KINDS_OF_CALL)] if self._series else list(KINDS_OF_CALL)
        kinds = kinds[:1] if one_call else kinds
        self._due = dict(zip(some_of(range(samples), min(len(kinds), samples)), kinds))
        self._series += 1
        self._asked = 0

    def ask(self, session: Session, turns: Sequence[int], series: int = 0, *, one_call: bool = False) -> list[Sample]:
        """Return a sample for each turn, each with `series` back-to-back calls, which are not looked at."""
        usual = ReadClock(turns=tuple(turns), series=series, one_call=one_call)
        if not any(self._is_due(self._asked + number) for number in range(len(turns))):
            self._asked += len(turns)
            return list(session.ask(usual, Readings)[0].samples)
        each = [dataclasses.replace(usual, turns=(turn,)) for turn in turns]
        return [sample for request in each for sample in self._ask_one(session, request)]

    def _is_due(self, number: int) -> bool:
        return number in self._due and bool(self._cases)

    def _ask_one(self, session: Session, request: ReadClock) -> list[Sample]:
        due, number = self._is_due(self._asked), self._asked
        self._asked += 1
        if not due:
            return list(session.ask(request, Readings)[0].samples)
        case = self._cases.pop()
        if is_held := case in self._held:
            self._held.remove(case)
        later = 0 if request.one_call else self._due[number]
        reply, rows = session.ask(
            dataclasses.replace(request, later=later, keep=case.is_large, held=is_held),
            Readings,
            () if is_held else [case.expectation.packed_inputs],
            expected_bytes=case.expectation.answer_bytes,
        )
        if case.is_large:
            self._kept.append((case, reply))
        else:
            self.taken.append(Look(case=case, reply=reply, rows=rows))
        return list(reply.samples)

    def fetch(self, session: Session) -> None:
        """Fetch the outputs that the executor has kept, after timing has ended."""
        if self._kept:
            torch.cuda.empty_cache()  # make room; the reference's next call does not need the cached memory at once
        while self._kept:
            case, reply = self._kept.pop(0)
            fetched, rows = session.ask(Fetch(), Fetched, expected_bytes=case.expectation.answer_bytes)
            if not fetched.unchanged:
                raise Failed(Finding.FALSE_CLOCK, "the output of a timed call was changed by a later call")
            self.taken.append(Look(case=case, reply=reply, rows=rows))

    def judge(self, tree: Any, device: str) -> None:
        """Judge every look; raise `Failed` for the first one that differs from the reference.

        An answer that is only less accurate is no sign of a cheat: its inputs were drawn anew.
        """
        for look in self.taken:
            called = Called(outputs=look.reply.outputs, changed=(), inputs=())
            try:
                answer = checks.read_answer(tree, called, look.rows, device)
                checks.check_structure(look.case, answer)
                checks.check_form(look.case, answer)
                failure = checks.measure(look.case, answer)[1]
            except Failed as failed:
                failure = failed
            if failure is not None and failure.finding is Finding.PRECISION:
                raise failure
            if failure is not None:
                what = f"right whenever it is checked, and wrong while the clock runs: {failure.message}"
                raise Failed(Finding.FALSE_CLOCK, what)
