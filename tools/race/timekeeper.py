"""The checker's clock thread: it owns the clock, calls the reference, and requests readings of compiled baselines.

To have a candidate timed, submit the work to this thread. Each race is watched (`race/disturbances.py`); if it is
disturbed twice, it ends as an `InstrumentError`. Use this under the GPU's exclusive lease.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import threading
import time
from collections.abc import Callable
from typing import Any

import torch

from triton_agent.tools.answers.timed_looks import Looks
from triton_agent.tools.cases.plan import Plan
from triton_agent.tools.checker.profiling import least_time, original_on_gpu
from triton_agent.tools.checker.session import Session
from triton_agent.tools.kernel_profile import Roofline
from triton_agent.tools.processes.payloads import Payload
from triton_agent.tools.processes.tensors import nested_tensors
from triton_agent.tools.processes.torch_switches import Conditions
from triton_agent.tools.race.baseline_names import COMPILED, EAGER_TF32
from triton_agent.tools.race.baselines import tf32_may_matter
from triton_agent.tools.race.compiled_process import CompiledLost, CompiledProcess
from triton_agent.tools.race.disturbances import GpuWatch, undisturbed
from triton_agent.tools.race.late_value import TELL_EVERY_S
from triton_agent.tools.race.readings import steady_ms
from triton_agent.tools.race.speed import Elsewhere, Opponent, Race, Racetrack, SpeedSettings, precision_mode
from triton_agent.tools.reference.reference import Reference

PROBE_READINGS = 5
"""Readings of the reference alone, whose median shows whether something else is using the card."""

PEAK_READINGS = 5
"""Number of calls of the reference whose peak memory is measured; the smallest counts."""


class Timekeeper:
    """Times candidates of one problem. Created under a shared lease; `begin` needs the exclusive one.

    Compiled baselines are added later: `await_compiler` waits for them, `bring_in` adds them.
    """

    def __init__(
        self,
        reference: Reference,
        plan: Plan,
        gpu: str,
        *,
        conditions: Conditions,
        baselines: tuple[str, ...] = (),
        compiled: CompiledProcess | None = None,
    ) -> None:
        """`compiled`: the process that compiles and times the compiled baselines."""
        self._watch = GpuWatch(gpu)
        self._conditions = conditions
        self._thread = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="clock")
        self._notes: list[str] = []
        self._reference = reference
        self._plan = plan
        self._roofline: Roofline | None = None
        self._first_asking = threading.Lock()
        self.original_peak_bytes = 0
        """Peak device memory of one call of the reference, beyond its inputs and parameters."""
        self._awaited = [name for name in baselines if name in COMPILED]
        self._compiled = compiled
        self._baselines = baselines
        self._track: Racetrack
        self._original, self._sets = self._thread.submit(self._load, reference, plan).result()

    def begin(self) -> None:
        """Calibrate the clock, and time the reference for later comparison. Needs the exclusive lease."""
        self._track = self._thread.submit(self._make_track).result()
        self._thread.submit(self._probe).result()

    @property
    def opponents(self) -> int:
        """Number of baselines that were added so far."""
        return len(self._track.opponents)

    @property
    def is_complete(self) -> bool:
        """True if no more baselines will be added."""
        return not self._awaited

    def await_compiler(self, tell: Callable[[], None]) -> None:
        """Wait for the compiling process. Hold no lease of the GPU meanwhile. `tell` is called periodically."""
        if self._compiled is not None and not self._compiled.wait(tell):
            why = f"torch.compile was not measured: it took longer than {self._compiled.limit_s:g} s"
            self._thread.submit(self._give_up_compiled, why).result()

    def bring_in(self, tell: Callable[[], None]) -> None:
        """Add the compiled baselines, if that has not been done. A shared lease is enough."""
        begun = self._thread.submit(self._bring_in)
        while concurrent.futures.wait([begun], timeout=TELL_EVERY_S).not_done:
            tell()
        begun.result()

    @property
    def notes(self) -> list[str]:
        """Notes for readers of the timings."""
        blind = f"other load on the GPU could not be detected: {self._watch.blind}" if self._watch.blind else ""
        return [*self._notes, *filter(None, [blind])]

    def roofline(self) -> Roofline:
        """Return the least time of a call on this GPU; computed once."""
        with self._first_asking:
            if self._roofline is None:
                self._roofline = least_time(self._reference, self._plan, self._conditions)
            return self._roofline

    def enter(self, session: Session, packed_sets: list[Payload], *, name: str, renewed: bool) -> None:
        """Prepare a candidate, and the compiled baselines if they are known; a shared lease is enough."""
        self._track.enter(session, packed_sets, name=name, renewed=renewed)
        self._thread.submit(self._enter_compiled).result()

    def race(self, session: Session, looks: Looks, since: int = 0, *, back_to_back: bool = False) -> list[Race]:
        """Race against each opponent from index `since` on; repeat if the race was disturbed."""
        return self._thread.submit(self._race, session, looks, since, back_to_back).result()

    def sketch(self, session: Session) -> Race:
        """Run a short race without watching for disturbances, since a sketch only sorts candidates."""
        return self._thread.submit(self._track.sketch, session).result()

    def _race(self, session: Session, looks: Looks, since: int, back_to_back: bool) -> list[Race]:
        races = undisturbed(
            lambda: self._raced(session, looks.afresh(), since, back_to_back),
            self._watch,
            after=lambda run: self._watch.slower_than_usual({race.opponent: race.original_ms() for race in run}),
            probe=self._probe,
        )
        if compiled := self._compiled_among(since):
            with contextlib.suppress(CompiledLost):  # the next race will notice it, too
                compiled.leave()
        return [dataclasses.replace(race, clocks_mhz=self._watch.clocks_mhz) for race in races]

    def _raced(self, session: Session, looks: Looks, since: int, back_to_back: bool) -> list[Race]:
        """Run a race. If a compiled baseline is lost, race again without it; the lost time does not count."""
        began = time.monotonic()
        try:
            if compiled := self._compiled_among(since):
                compiled.enter(self._track.clock.calibration)  # does nothing if it was done under the shared lease
            return self._track.race(session, looks, since, back_to_back=back_to_back)
        except CompiledLost as lost:
            session.deadline += time.monotonic() - began
            self._give_up_compiled(f"torch.compile was not measured any more: {lost.what}")
            return self._raced(session, looks.afresh(), since, back_to_back)

    def _enter_compiled(self) -> None:
        """Have the compiled baselines draw large inputs again, which were freed after the last race."""
        if compiled := self._compiled_among(0):
            with contextlib.suppress(CompiledLost):  # the race will notice it, too
                compiled.enter(self._track.clock.calibration)

    def _compiled_among(self, since: int) -> CompiledProcess | None:
        """Return the process of the compiled baselines, if one of them is among the opponents from `since` on."""
        racers = (opponent.racer for opponent in self._track.opponents[since:])
        return next((racer.process for racer in racers if isinstance(racer, Elsewhere)), None)

    def _probe(self) -> str:
        """Time the reference alone and describe whether it has become slower. The first call sets the standard."""
        first = self._track.opponents[0]
        readings = [first.racer.read([turn])[0] for turn in range(PROBE_READINGS)]
        return self._watch.compare(first.name, steady_ms(readings))

    def _load(self, reference: Reference, plan: Plan) -> tuple[torch.nn.Module, list[list[Any]]]:
        """Load the reference and its timing inputs to the GPU, and call it so that the libraries allocate first."""
        sets = [packed.unpack("cuda") for packed in plan.timing_sets]
        original = original_on_gpu(reference, plan)
        with reference.running("forward"):
            self.original_peak_bytes = self._peak_bytes(original, sets[0])
        return original, sets

    def _make_track(self) -> Racetrack:
        """Make the clock and the opponents that need no compiler: the eager reference, and with TF32 if asked for."""
        track = Racetrack(SpeedSettings(), self._conditions)
        mode = precision_mode(self._conditions)
        with self._reference.running("forward"):
            track.add(f"eager ({mode})", self._original, self._sets)
            if EAGER_TF32 in self._baselines:
                allowed = dataclasses.replace(self._conditions, precision="tf32")
                with allowed.settled():
                    name = f"{EAGER_TF32} ({precision_mode(allowed)})"
                if self._conditions.precision != "tf32" and tf32_may_matter(self._plan.facts):
                    track.add(name, self._original, self._sets, allowed)
                else:
                    track.add_namesake(name)
        return track

    def _give_up_compiled(self, why: str) -> None:
        """Remove the compiled baselines and go on without them."""
        here = [opponent for opponent in self._track.opponents if not isinstance(opponent.racer, Elsewhere)]
        if self._awaited or here != self._track.opponents:
            self._notes.append(why)
        self._awaited, self._track.opponents = [], here

    def _bring_in(self) -> None:
        if not self._awaited or self._compiled is None:
            return
        try:
            troubles = self._compiled.enter(self._track.clock.calibration)
        except CompiledLost as lost:
            self._give_up_compiled(f"torch.compile was not measured: {lost.what}")
            return
        for name in self._awaited:
            if trouble := troubles[name]:
                self._notes.append(trouble)
            else:
                self._track.opponents.append(
                    Opponent(
                        name=f"{name} ({precision_mode(self._conditions)})",
                        racer=Elsewhere(process=self._compiled, name=name),
                        conditions=self._conditions,
                    )
                )
        self._awaited = []

    def _call(self, module: Any, args: list[Any]) -> Any:
        with torch.no_grad(), self._conditions.calling("cuda"):
            return module(*args)

    def _peak_bytes(self, original: torch.nn.Module, args: list[Any]) -> int:
        """Return the smallest peak memory of a few calls. The first calls include what libraries allocate for good.

        A reading counts last if memory differs afterwards: another thread may have freed a candidate's outputs.
        """
        peaks: list[tuple[bool, int]] = []
        for _ in range(PEAK_READINGS):
            torch.cuda.synchronize()
            before = torch.cuda.memory_allocated()
            torch.cuda.reset_peak_memory_stats()
            outputs = nested_tensors(self._call(original, args))
            torch.cuda.synchronize()
            peak = torch.cuda.max_memory_allocated() - before
            del outputs
            peaks.append((torch.cuda.memory_allocated() != before, peak))
        return min(peaks)[1]
