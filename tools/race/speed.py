"""How fast a candidate is that is right: paired with the reference, each in its own process, the GPU held alone.

The checker times the reference, the executor times the tape, turn by turn (`race/pairing.py`). No timed call is given
what an earlier one was given, and outputs made while the clock ran are read and judged like any other (`looks.py`).

A short measurement sorts; only what it finds ahead is measured further.
"""

from __future__ import annotations

import dataclasses
import functools
import secrets
import statistics
from collections.abc import Sequence
from typing import Any, Protocol

import torch

from triton_agent.tools.answers.timed_looks import Looks
from triton_agent.tools.checker.session import Failed, Session
from triton_agent.tools.processes.payloads import Payload
from triton_agent.tools.processes.protocol import Done, StartClock, WarmUp
from triton_agent.tools.processes.torch_switches import DEFAULT, Conditions
from triton_agent.tools.race.clock import Clock, ClockSettings, Subject
from triton_agent.tools.race.compiled_process import CompiledProcess
from triton_agent.tools.race.intervals import pairs_won
from triton_agent.tools.race.pairing import LEAST_PAIRS, PairingSettings, take_turns
from triton_agent.tools.race.readings import Sample
from triton_agent.tools.race.samples import PairedSamples
from triton_agent.tools.results import Finding, Timing

WARM_UP_CALLS = 3
"""Calls after the wait for the GPU: caches are cold by design, but clocks and queues should not be."""
PAIRS_WON = 1 / 3
"""A candidate that is faster by the margin wins at least every other pair by it, in the long run."""
SAMPLES_OF_A_PAIR = 2
"""Samples of each side of a pair."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SpeedSettings:
    """How long the clock may run."""

    short_pairs: int = 8
    full_pairs: int = 30
    precision: tuple[float, float] = (0.02, 0.05)
    """Relative widths of the intervals, of device time and by the host's clock, at which a full measurement ends."""
    limit_s: float = 20.0
    cold_l2: bool = True


class Racer(Protocol):
    """A baseline that is ready to be timed."""

    def read(self, turns: Sequence[int], series: int = 0) -> list[Sample]:
        """Return a sample for each turn, with so many calls back to back."""

    def series(self) -> int:
        """Return how many calls back to back show what one of them costs, for this baseline and what races it."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Here:
    """Called in this process."""

    clock: Clock
    subject: Subject

    def read(self, turns: Sequence[int], series: int = 0) -> list[Sample]:
        return self.clock.read(self.subject, turns, series)

    def series(self) -> int:
        return self.clock.series_for(self.subject)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere:
    """Called in the process that has compiled it."""

    process: CompiledProcess
    name: str

    def read(self, turns: Sequence[int], series: int = 0) -> list[Sample]:
        return self.process.read(self.name, turns, series)

    def series(self) -> int:
        return self.process.series(self.name)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Opponent:
    """A baseline in a race."""

    name: str
    """Name with the precision mode."""
    racer: Racer
    conditions: Conditions = DEFAULT
    """Settled while it races."""
    namesake: bool = False
    """The one before it under another name; added with it, so no race begins here."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Race:
    """Readings of a candidate and one baseline; evaluated when the GPU is free again."""

    opponent: str
    samples: PairedSamples
    clocks_mhz: tuple[int, ...] = ()

    def original_ms(self) -> float:
        """Device time of the opponent."""
        return statistics.median(self.samples.times_ms("device")[0])

    def candidate_ms(self) -> float:
        """Device time of the candidate."""
        return statistics.median(self.samples.times_ms("device")[1])

    def timings(self) -> list[Timing]:
        """Return the timings by each clock that was read."""
        return [self.samples.timing(self.opponent, kind, self.clocks_mhz) for kind in self.samples.kinds]


class Racetrack:
    """The checker's clock and the opponents, made once per problem under the GPU's exclusive lease."""

    def __init__(self, settings: SpeedSettings, conditions: Conditions = DEFAULT) -> None:
        self.settings = settings
        self.conditions = conditions
        self.clock = Clock("cuda", ClockSettings(cold_l2=settings.cold_l2))
        self.opponents: list[Opponent] = []

    def add(self, name: str, model: Any, sets: list[list[Any]], conditions: Conditions | None = None) -> None:
        """An opponent over the given sets of inputs; under conditions of its own, where they are given."""
        chosen = conditions or self.conditions
        subject = Subject([functools.partial(_call, model, args, chosen) for args in sets])
        with chosen.settled():
            self.clock.warm_up(subject)
        self.opponents.append(Opponent(name=name, racer=Here(clock=self.clock, subject=subject), conditions=chosen))

    def add_namesake(self, name: str) -> None:
        """The opponent before once more under another name: it does exactly the same, and is not measured again."""
        self.opponents.append(dataclasses.replace(self.opponents[-1], name=name, namesake=True))

    def enter(self, session: Session, packed_sets: list[Payload], *, name: str, renewed: bool) -> None:
        """Bring the candidate to the start: compiled and warm. Others may use the GPU meanwhile.

        Its clock is calibrated as this one is, whose word on that can be taken. `renewed`: inputs are changed before
        every call; see `race/renewal.py`.
        """
        request = StartClock(name=name, calibration=self.clock.calibration, renewed=renewed)
        session.ask(request, Done, packed_sets)

    def race(self, session: Session, looks: Looks, since: int = 0, *, back_to_back: bool = False) -> list[Race]:
        """Against each opponent from that one on, with the GPU alone; `back_to_back`: by the third clock, too."""
        session.ask(WarmUp(calls=WARM_UP_CALLS), Done)
        races: list[Race] = []
        for opponent in self.opponents[since:]:
            if not opponent.namesake:  # else what was measured of the one before holds
                with opponent.conditions.settled():
                    series = opponent.racer.series() if back_to_back else 0
                    samples = self._turns(opponent, session, looks, series)
            races.append(Race(opponent=opponent.name, samples=samples))
        looks.fetch(session)
        return races

    def sketch(self, session: Session) -> Race:
        """A short race against the first opponent, unbounded: for sorting what a trusted author wrote."""
        session.ask(WarmUp(calls=WARM_UP_CALLS), Done)
        samples = self._take_turns(self.opponents[0], session, Looks(), self.settings.short_pairs, 0)
        return Race(opponent=self.opponents[0].name, samples=samples)

    def _turns(self, opponent: Opponent, session: Session, looks: Looks, series: int) -> PairedSamples:
        """Short, and longer where the candidate seems ahead in device time.

        To stop early is never to win; so this wins no more often by chance than if all pairs were taken always.
        """
        seed = secrets.randbits(32)
        samples = self._take_turns(opponent, session, looks, self.settings.short_pairs, series, seed)
        if may_win(samples):
            samples = self._take_turns(opponent, session, looks, self.settings.full_pairs, series, seed, samples)
        return samples

    def _take_turns(
        self,
        opponent: Opponent,
        session: Session,
        looks: Looks,
        pairs: int,
        series: int,
        seed: int | None = None,
        before: PairedSamples | None = None,
    ) -> PairedSamples:
        taken = len(before.baseline) if before else 0
        told = f"; back to back: {series} calls queued, caches as they leave them" if series else ""
        looks.begin(SAMPLES_OF_A_PAIR * (min(pairs, LEAST_PAIRS) - taken))
        return take_turns(
            functools.partial(opponent.racer.read, series=series),
            functools.partial(_ask_samples, session, looks, series),
            PairingSettings(pairs=pairs, limit_s=self.settings.limit_s, precision=self.settings.precision, seed=seed),
            cold_l2=self.settings.cold_l2,
            overheads=self.clock.calibration.overheads,
            method=f"{self.clock.method}{told}; the candidate by the same clock in a process of its own",
            before=before,
        )


def may_win(samples: PairedSamples) -> bool:
    """Return True if a win by the margin is still possible after a short race: not if few pairs were won by it."""
    original, candidate = samples.times_ms("device")
    won = pairs_won(original, candidate)
    return statistics.median(candidate) < statistics.median(original) and won >= PAIRS_WON * len(original)


def _call(model: Any, args: list[Any], conditions: Conditions) -> Any:
    with torch.no_grad(), conditions.calling("cuda"):
        return model(*args)


def _ask_samples(session: Session, looks: Looks, series: int, turns: Sequence[int]) -> list[Sample]:
    """Return one sample for each turn."""
    samples = looks.ask(session, turns, series)
    if len(samples) != len(turns):
        raise Failed(Finding.TAMPERED, f"the worker gives {len(samples)} readings where {len(turns)} were asked for")
    return samples


def precision_mode(conditions: Conditions = DEFAULT) -> str:
    """The precision float32 operators run in, for a baseline's name."""
    if conditions.autocast:
        return f"autocast {conditions.autocast}"
    matmul = "tf32" if torch.backends.cuda.matmul.allow_tf32 else "float32"
    convolution = "tf32" if torch.backends.cudnn.allow_tf32 else "float32"
    return f"{matmul} matmul, {convolution} convolution"
