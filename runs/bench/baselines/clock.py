"""Times one problem's baselines on a GPU, each in turns with the reference as written.

Clock, input sets and cold caches are those of candidates. The switches for TF32 are set outside the timed part, so
both sides of a pair call the same module. Runs in a child of `process.py`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import torch

from triton_agent.runs.bench.rows import ONE, Against, BaselineTime, Kind
from triton_agent.tools.cases.distributions import randomise
from triton_agent.tools.dispatch_modes import UncompiledMode
from triton_agent.tools.graph.operators import kind_of
from triton_agent.tools.machine.lease import Mode, lease
from triton_agent.tools.problem.problem import ProblemSpec
from triton_agent.tools.race.baselines import TF32_DTYPES
from triton_agent.tools.race.clock import Clock, Subject, timing_sets
from triton_agent.tools.race.compiled_process import CompiledLost, CompiledProcess
from triton_agent.tools.race.disturbances import GpuWatch, undisturbed
from triton_agent.tools.race.intervals import median_interval
from triton_agent.tools.race.pairing import PairingSettings, take_turns
from triton_agent.tools.race.samples import milliseconds
from triton_agent.tools.race.speed import Elsewhere, Here, Racer, is_long
from triton_agent.tools.reference.input_tensors import map_tensors, tensors_in
from triton_agent.tools.reference.reference import load
from triton_agent.tools.results import to_json

READINGS = 24
"""Readings of the reference by itself."""
PAIRS = 24
FEW = 12
"""Readings and pairs of long calls, which vary little."""
LIMIT_S = 10.0
"""Time limit for one baseline; a slow problem gets fewer pairs."""
SEED = 0

Switches = tuple[bool, bool]
"""Two flags: float32 matrix products may run in TF32, float32 convolutions may."""


class Contest:
    """The reference and the compiled reference, ready to be timed."""

    def __init__(
        self, spec: ProblemSpec, gpu: str, compiled: CompiledProcess | None, *, without_compile: str = ""
    ) -> None:
        """`gpu` is its UUID, `compiled` the process that compiled the reference, `without_compile` why there is
        none.
        """
        self.spec = spec
        self.notes = [without_compile] if without_compile else []
        self._gpu = gpu
        with lease(self._gpu, what=f"triton-agent: compiling {spec.name}", mode=Mode.SHARED):
            self._reference = load(spec)
            self._as_written: Switches = (
                torch.backends.cuda.matmul.allow_tf32,
                torch.backends.cudnn.allow_tf32,
            )
            self._sets = list(timing_sets(lambda number: self._inputs(SEED + number)))
            self._original = self._model()
            with self._reference.running("forward"):
                self._tf32_may_matter = multiplies_float32(lambda: _call(self._original, self._sets[0]))
            self._compiled = compiled
            torch.cuda.synchronize()

    def measure(self) -> dict[str, Any]:
        """Return every baseline as plain data, measured while nothing disturbed the GPU."""
        alone = lease(self._gpu, what=f"triton-agent: baselines of {self.spec.name}", mode=Mode.EXCLUSIVE)
        with alone, self._reference.running("forward"):
            times = undisturbed(self._times, GpuWatch(self._gpu), after=lambda found: ())
        return {"times": to_json(times), "notes": self.notes, "failure": ""}

    def _times(self) -> list[BaselineTime]:
        clock = Clock("cuda")
        eager = self._subject(self._original, self._as_written)
        clock.warm_up(eager)
        once = is_long(functools.partial(clock.read, eager, one_call=True))
        alone = clock.read(eager, range(FEW if once else READINGS), one_call=once)
        found = [
            BaselineTime(
                against=Against.EAGER,
                kind=kind,
                ms=median_interval(milliseconds(tuple(alone), kind.value)),
                over_eager=ONE,
            )
            for kind in Kind
        ]
        if self._tf32_may_matter:
            subject = self._subject(self._original, (True, True))
            clock.warm_up(subject)
            found += _raced(clock, eager, Against.EAGER_TF32, Here(clock=clock, subject=subject))
        else:
            found += [dataclasses.replace(time, against=Against.EAGER_TF32) for time in found]
        if self._compiled is not None:
            try:
                if trouble := self._compiled.enter(clock.calibration)["compile"]:
                    self.notes.append(trouble)
                else:
                    found += _raced(clock, eager, Against.COMPILE, Elsewhere(process=self._compiled, name="compile"))
            except CompiledLost as lost:
                self.notes.append(f"baseline compile was not measured: {lost.what}")
        return found

    def _model(self) -> torch.nn.Module:
        """Return the reference on the GPU, with parameters changed from their defaults; equal at each call."""
        model = self._reference.make_model(SEED)
        randomise(model, SEED)
        return model.to("cuda").eval()

    def _inputs(self, seed: int) -> list[Any]:
        drawn = self._reference.make_inputs_on("cuda", seed)
        return [map_tensors(value, lambda tensor: tensor.to("cuda")) for value in drawn]

    def _subject(self, model: Any, switches: Switches) -> Subject:
        def settle(turn: int) -> None:
            torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = switches

        return Subject([functools.partial(_call, model, args) for args in self._sets], refresh=settle)


def multiplies_float32(call: Callable[[], object]) -> bool:
    """Make a call, and return True if an operator in it multiplies float32 matrices, which TF32 makes faster."""
    seen = _Float32Products()
    with seen:
        call()
    return seen.found


class _Float32Products(UncompiledMode):  # type: ignore[no-untyped-call]
    """Notes whether operators that multiply matrices get float32 tensors."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.found = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if kind_of(func.name()) == "heavy":
            self.found |= any(str(tensor.dtype).removeprefix("torch.") in TF32_DTYPES for tensor in tensors_in(args))
        return func(*args, **(kwargs or {}))


def _raced(clock: Clock, eager: Subject, against: Against, racer: Racer) -> list[BaselineTime]:
    read_eager = functools.partial(clock.read, eager)
    once = all(is_long(functools.partial(read, one_call=True)) for read in (read_eager, racer.read))
    pairs = take_turns(
        functools.partial(read_eager, one_call=once),
        functools.partial(racer.read, one_call=once),
        PairingSettings(pairs=FEW if once else PAIRS, samples_of_pair=1 if once else 2, limit_s=LIMIT_S),
        cold_l2=clock.settings.cold_l2,
        overheads=clock.overheads,
        method=clock.method,
    )
    timings = [(kind, pairs.timing(Against.EAGER, kind.value)) for kind in Kind]
    return [
        BaselineTime(against=against, kind=kind, ms=timing.candidate_ms, over_eager=timing.speedup)
        for kind, timing in timings
    ]


def _call(model: Any, args: list[Any]) -> Any:
    with torch.no_grad():
        return model(*args)
