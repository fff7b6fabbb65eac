"""Times a correct candidate against baselines, each in its own process, while no one else uses the GPU.

The checker times the reference, the executor times the tape, in turns (`race/pairing.py`). No timed call gets the same
inputs as an earlier one, and some outputs of timed calls are judged as any other output (`answers/timed_looks.py`).

A short race comes first. Only a candidate that is ahead in it is measured further.
"""

from __future__ import annotations

import dataclasses
import functools
import secrets
import statistics
from collections.abc import Callable, Sequence
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
from triton_agent.tools.race.readings import Sample, steady_ms
from triton_agent.tools.race.samples import PairedSamples
from triton_agent.tools.results import Finding, Timing

WARM_UP_CALLS = 3
"""Calls after the wait for the GPU. The L2 is flushed anyway, but clock rates and queues should be steady."""
PAIRS_WON = 1 / 3
"""Least share of pairs won by the margin for a race to go on. A candidate that is faster by the margin wins at least
half of the pairs in the long run."""
LONG_MS, QUEUEING_SHARE = 5.0, 0.1
"""Device time from which a call is long, if the host's time for queueing it is at most this share. A long call is timed
once for both figures, and a pair has one sample of each side, so a race takes a quarter of the calls. The share is not
smaller because threads of the checker that judge other candidates may delay the reference's calls."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SpeedSettings:
    """How long races take."""

    short_pairs: int = 8
    full_pairs: int = 30
    precision: tuple[float, float] = (0.02, 0.05)
    """Relative widths of the intervals, for device time and host times, at which a full measurement ends."""
    limit_s: float = 20.0
    enough_s: float = 2.0
    cold_l2: bool = True


class Racer(Protocol):
    """Times a baseline that has been warmed up."""

    def read(self, turns: Sequence[int], series: int = 0, *, one_call: bool = False) -> list[Sample]:
        """Return a sample for each turn; see `Clock.read`."""

    def series(self) -> int:
        """Return how many back-to-back calls are needed to measure the cost of one, for the baseline and its rival."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Here:
    """Times a baseline in this process."""

    clock: Clock
    subject: Subject

    def read(self, turns: Sequence[int], series: int = 0, *, one_call: bool = False) -> list[Sample]:
        return self.clock.read(self.subject, turns, series, one_call=one_call)

    def series(self) -> int:
        return self.clock.series_for(self.subject)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere:
    """Times a baseline in the process that has compiled it."""

    process: CompiledProcess
    name: str

    def read(self, turns: Sequence[int], series: int = 0, *, one_call: bool = False) -> list[Sample]:
        return self.process.read(self.name, turns, series, one_call=one_call)

    def series(self) -> int:
        return self.process.series(self.name)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Opponent:
    """A baseline that candidates race against."""

    name: str
    """Name, with the precision mode."""
    racer: Racer
    conditions: Conditions = DEFAULT
    """Precision settings that apply while it races."""
    namesake: bool = False
    """True if this is the previous opponent under another name. It is not timed again, so no race may begin with it."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Race:
    """Readings of a candidate and one baseline. They are evaluated after the GPU was released."""

    opponent: str
    samples: PairedSamples
    clocks_mhz: tuple[int, ...] = ()

    def original_ms(self) -> float | None:
        """Return the median device time of the opponent; None if the host was late for each of its calls."""
        return steady_ms(self.samples.baseline)

    def candidate_ms(self) -> float:
        """Return the median device time of the candidate."""
        return statistics.median(self.samples.times_ms("device")[1])

    def timings(self) -> list[Timing]:
        """Return a timing for each kind of time that was measured."""
        return [self.samples.timing(self.opponent, kind, self.clocks_mhz) for kind in self.samples.kinds]


class Racetrack:
    """The checker's clock and the opponents, made once per problem under the GPU's exclusive lease."""

    def __init__(self, settings: SpeedSettings, conditions: Conditions = DEFAULT) -> None:
        self.settings = settings
        self.conditions = conditions
        self.clock = Clock("cuda", ClockSettings(cold_l2=settings.cold_l2))
        self.opponents: list[Opponent] = []

    def add(self, name: str, model: Any, sets: list[list[Any]], conditions: Conditions | None = None) -> None:
        """Add an opponent over the given sets of inputs, with its own precision settings if they are given."""
        chosen = conditions or self.conditions
        subject = Subject([functools.partial(_call, model, args, chosen) for args in sets])
        with chosen.settled():
            self.clock.warm_up(subject)
        self.opponents.append(Opponent(name=name, racer=Here(clock=self.clock, subject=subject), conditions=chosen))

    def add_namesake(self, name: str) -> None:
        """Add the last opponent again under another name, because it does exactly the same; it is not timed again."""
        self.opponents.append(dataclasses.replace(self.opponents[-1], name=name, namesake=True))

    def enter(self, session: Session, packed_sets: list[Payload], *, name: str, renewed: bool) -> None:
        """Compile and warm up the candidate. Other processes may use the GPU meanwhile.

        The executor gets this clock's calibration, so that it need not measure its own. `renewed`: the inputs are
        changed before every call; see `race/renewal.py`.
        """
        request = StartClock(name=name, calibration=self.clock.calibration, renewed=renewed)
        session.ask(request, Done, packed_sets)

    def race(self, session: Session, looks: Looks, since: int = 0, *, back_to_back: bool = False) -> list[Race]:
        """Race against each opponent from index `since` on, with the GPU alone. `back_to_back` adds series of calls."""
        session.ask(WarmUp(calls=WARM_UP_CALLS), Done)
        races: list[Race] = []
        for opponent in self.opponents[since:]:
            if not opponent.namesake:  # a namesake shares the previous opponent's samples
                with opponent.conditions.settled():
                    series = opponent.racer.series() if back_to_back else 0
                    samples = self._turns(opponent, session, looks, series)
            races.append(Race(opponent=opponent.name, samples=samples))
        looks.fetch(session)
        return races

    def sketch(self, session: Session) -> Race:
        """Run a short race against the first opponent, without judging outputs, to sort a trusted author's drafts."""
        session.ask(WarmUp(calls=WARM_UP_CALLS), Done)
        first = self.opponents[0]
        calls = _Calls(series=0, are_long=_are_long(first, session))
        samples = self._take_turns(first, session, Looks(), self.settings.short_pairs, calls)
        return Race(opponent=first.name, samples=samples)

    def _turns(self, opponent: Opponent, session: Session, looks: Looks, series: int) -> PairedSamples:
        """Run a short race, and continue it if the candidate seems to be ahead in device time.

        A race that stops here is never a win, so this adds no false wins to those of a full race.
        """
        seed = secrets.randbits(32)
        calls = _Calls(series=series, are_long=_are_long(opponent, session))
        samples = self._take_turns(opponent, session, looks, self.settings.short_pairs, calls, seed)
        if may_win(samples):
            samples = self._take_turns(opponent, session, looks, self.settings.full_pairs, calls, seed, samples)
        return samples

    def _take_turns(
        self,
        opponent: Opponent,
        session: Session,
        looks: Looks,
        pairs: int,
        calls: _Calls,
        seed: int | None = None,
        before: PairedSamples | None = None,
    ) -> PairedSamples:
        taken = len(before.baseline) if before else 0
        looks.begin(calls.samples_of_pair * (min(pairs, LEAST_PAIRS) - taken), one_call=calls.are_long)
        return take_turns(
            functools.partial(opponent.racer.read, series=calls.series, one_call=calls.are_long),
            functools.partial(_ask_samples, session, looks, calls),
            PairingSettings(
                pairs=pairs,
                samples_of_pair=calls.samples_of_pair,
                limit_s=self.settings.limit_s,
                enough_s=self.settings.enough_s,
                precision=self.settings.precision,
                seed=seed,
            ),
            cold_l2=self.settings.cold_l2,
            overheads=self.clock.calibration.overheads,
            method=f"{self.clock.method}{calls.told}; the candidate by the same clock in a process of its own",
            before=before,
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Calls:
    """Which calls make a sample."""

    series: int
    """Number of back-to-back calls."""
    are_long: bool
    """True if one call gives both device time and latency."""

    @property
    def samples_of_pair(self) -> int:
        return 1 if self.are_long else 2

    @property
    def told(self) -> str:
        """Describe this for a record."""
        once = "; both times of one long call, latency less the spin" if self.are_long else ""
        series = f"; back to back: {self.series} calls queued, caches as they leave them" if self.series else ""
        return once + series


def _are_long(opponent: Opponent, session: Session) -> bool:
    """Return True if the calls of both sides are long."""
    once = _Calls(series=0, are_long=True)
    return is_long(functools.partial(opponent.racer.read, one_call=True)) and is_long(
        functools.partial(_ask_samples, session, Looks(), once)
    )


def is_long(read_once: Callable[[Sequence[int]], Sequence[Sample]]) -> bool:
    """Return True if a call is long, by the second of two readings: the first may have to allocate memory."""
    reading = read_once([0, 1])[1]
    return reading.device_ms >= LONG_MS and reading.enqueue_ms <= QUEUEING_SHARE * reading.device_ms


def may_win(samples: PairedSamples) -> bool:
    """Return True unless a short race shows that a win is very unlikely: a larger median, or too few pairs won."""
    original, candidate = samples.times_ms("device")
    won = pairs_won(original, candidate)
    return statistics.median(candidate) < statistics.median(original) and won >= PAIRS_WON * len(original)


def _call(model: Any, args: list[Any], conditions: Conditions) -> Any:
    with torch.no_grad(), conditions.calling("cuda"):
        return model(*args)


def _ask_samples(session: Session, looks: Looks, calls: _Calls, turns: Sequence[int]) -> list[Sample]:
    """Return one sample of the candidate for each turn."""
    samples = looks.ask(session, turns, calls.series, one_call=calls.are_long)
    if len(samples) != len(turns):
        raise Failed(Finding.TAMPERED, f"the worker returned {len(samples)} readings, {len(turns)} were requested")
    return samples


def precision_mode(conditions: Conditions = DEFAULT) -> str:
    """Return the precision of float32 operators, as part of a baseline's name."""
    if conditions.autocast:
        return f"autocast {conditions.autocast}"
    matmul = "tf32" if torch.backends.cuda.matmul.allow_tf32 else "float32"
    convolution = "tf32" if torch.backends.cudnn.allow_tf32 else "float32"
    return f"{matmul} matmul, {convolution} convolution"
