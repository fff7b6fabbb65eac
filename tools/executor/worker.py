"""The executor: a process that replays tapes on inputs it is sent, and returns the outputs.

No Python of a candidate runs here: kernel texts were checked (`kernels/language.py`), everything else is data. Shipped
files do run (`file_program.py`), but we wrote those. The executor holds no expected value. On a GPU it serves one
candidate after another, until something goes wrong in it; without a GPU it serves one candidate.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from triton.runtime.jit import mangle_type

from triton_agent.tools.errors import InstrumentError
from triton_agent.tools.executor.file_program import FileProgram, Unlisted
from triton_agent.tools.executor.kernels import Kernels, Loader
from triton_agent.tools.executor.memory import Fresh
from triton_agent.tools.executor.program import Launcher, OutOfPlace, Program, Run
from triton_agent.tools.executor.refusals import Refusals
from triton_agent.tools.machine.lease import SharedDoor
from triton_agent.tools.processes.answers import hand_over
from triton_agent.tools.processes.child import begin, confine, report_of
from triton_agent.tools.processes.codec import to_plain
from triton_agent.tools.processes.digests import Digests
from triton_agent.tools.processes.payloads import Payload, receive_request
from triton_agent.tools.processes.protocol import (
    Broken,
    Call,
    Called,
    Done,
    ExecutorRequest,
    Fetch,
    Fetched,
    Forget,
    GetState,
    HoldInputs,
    MetNumbers,
    Prepare,
    Profiled,
    Raised,
    ReadClock,
    StartClock,
    State,
    TakeProfile,
    UseFile,
    WarmUp,
)
from triton_agent.tools.processes.tensors import describe, real_parts, row
from triton_agent.tools.processes.wire import Channel
from triton_agent.tools.sandbox import sandbox
from triton_agent.tools.tape.outline import tensors_in
from triton_agent.tools.tape.tape import decode

Reply = tuple[object, list[list[torch.Tensor]]]
"""A message of `protocol.py`, and its tensors as rows of bytes, grouped as described in `answers.py`."""
COUNTERPARTS_AT_MOST = 1 << 10
"""Maximum number of elements of an input that are reported with a number that kernels combine them with."""
KEPT_BYTES = 4 << 30
"""Maximum freed memory that torch may keep when timing starts; the checker's reference needs the rest."""


class ReplayFailed(Exception):
    """A replay failed; `report` is the reply that describes it."""

    def __init__(self, report: Raised) -> None:
        super().__init__(report)
        self.report = report


def warm_up(mode: str, target: str) -> None:
    """Do slow imports in the process from which executors are forked. Never touches CUDA."""
    if mode == "interpreter":
        importlib.import_module("triton_agent.tools.emulate.interpreter").install(target)
        importlib.import_module("triton_agent.tools.executor.interpreted")
        mangle_type(torch.zeros(1))  # imports Gluon at its first use
        np.unique(np.random.default_rng(0).random(2))  # numpy imports parts at their first use, too
    else:
        importlib.import_module("triton_agent.tools.executor.stopwatch")
        importlib.import_module("triton_agent.tools.executor.gpu")
        importlib.import_module("triton_agent.tools.compile.aot").warm_up()
        _build_driver_once()
    sandbox.prepare()
    some = torch.zeros(2).add_(1)
    some.sum().item()  # operator tables are built at first use
    torch.set_num_threads(1)


def _build_driver_once() -> None:
    """Compile and load Triton's own C module, so that no executor runs a C compiler; makes no CUDA call.

    The singleton's constructor would build the module again at every use, so it is replaced by an empty one.
    """
    utilities = importlib.import_module("triton.backends.nvidia.driver").CudaUtils
    utilities()
    utilities.__init__ = lambda this: None


def main(channel: Channel, plain: dict[str, Any]) -> None:
    """Confine this process, send READY, then serve requests until the checker hangs up."""
    settings = begin(plain)
    door = SharedDoor(settings.gpu) if settings.gpu else None  # opened now, since the folder is hidden once confined
    ready = confine(settings)
    with door.inside() if door else contextlib.nullcontext():
        executor = Executor(scratch=settings.scratch, mode=settings.kind, target=settings.target)
    channel.send(to_plain(ready))
    while True:
        request, payloads = receive_request(channel, ExecutorRequest)
        try:
            reply, tensors = executor.handle(request, payloads)
        except ReplayFailed as failure:
            reply, tensors = failure.report, []
        except InstrumentError as error:
            reply, tensors = Broken(error=error), []
        hand_over(channel, reply, tensors)


class Executor:
    """Holds the programs of one candidate at a time."""

    def __init__(self, *, scratch: str, mode: str, target: str) -> None:
        self._scratch = scratch
        self._mode = mode
        self._target = target
        self.device = "cuda" if mode == "gpu" else "cpu"
        self._programs: dict[str, Program | FileProgram] = {}
        self._loader = Loader(scratch)
        self._kernels: Kernels | None = None
        self._digests = Digests(self.device)
        self._inputs: list[torch.Tensor] = []
        """Inputs of the last call, if the next one may use them again."""
        self._held: list[list[torch.Tensor]] = []
        """Inputs for a call that will be timed."""
        self._kept: list[tuple[list[torch.Tensor], torch.Tensor]] = []
        """Outputs of timed calls that were not fetched yet, with their digests."""
        self._stopwatch: Any = None
        self._refusals = Refusals()
        if mode == "gpu":
            self._use_torch_once()

    def _use_torch_once(self) -> None:
        """Create the context and the allocator, and load what torch loads with its first kernels."""
        torch.cuda.set_per_process_memory_fraction(sandbox.MOST_OF_A_CARD)
        self._refusals.observe()
        some = torch.zeros(1024, device="cuda").add_(1)
        some.bfloat16().float().sum().item()
        torch.cuda._sleep(1)  # type: ignore[no-untyped-call]
        importlib.import_module("triton.runtime.driver").driver.active.get_current_device()
        self._stopwatch = importlib.import_module("triton_agent.tools.executor.stopwatch").Stopwatch()

    def handle(self, request: ExecutorRequest, payloads: list[Payload]) -> Reply:
        """Handle a request and return the reply."""
        handlers: dict[type, Callable[[Any, list[Payload]], Reply]] = {
            Prepare: self._prepare,
            UseFile: self._use_file,
            Call: self._call,
            GetState: self._state,
            StartClock: self._start_clock,
            WarmUp: self._warm_up,
            HoldInputs: self._hold_inputs,
            ReadClock: self._read_clock,
            Fetch: self._fetch,
            TakeProfile: self._profile,
            Forget: self._forget,
        }
        self._refusals.forget()
        try:
            return handlers[type(request)](request, payloads)
        except Exception as error:  # inputs and copies of ours take memory, too
            if self._refusals.behind(error) is None:
                raise
            raise ReplayFailed(dataclasses.replace(self._report(error), phase="forward")) from None

    # -- programs --------------------------------------------------------------------------------------------------

    def _prepare(self, request: Prepare, payloads: list[Payload]) -> Reply:
        left = iter(payloads)
        if request.tape is not None:
            request.tape.conditions.settle()
            self._kernels = kernels = self._loader.load(request.tape.kernels)
            arguments = tensors_in(next(left).unpack(self.device))
            with self._candidate("construct"):
                self._programs[request.name] = Program(
                    decode(request.tape.tape),
                    self._launcher(kernels),
                    device=self.device,
                    arguments=arguments,
                    seed=request.tape.seed,
                )
        if request.parameters:
            self._programs[request.name].set_state(next(left).unpack(self.device))
        return Done(), []

    def _use_file(self, request: UseFile, payloads: list[Payload]) -> Reply:
        """Import a shipped file; see `file_program.py`. Only the code that ships files sends this request."""
        request.conditions.settle()
        with self._candidate("construct"):
            self._programs[request.name] = FileProgram(
                request.text,
                tempfile.mkdtemp(dir=self._scratch),
                constructor=payloads[0].unpack(self.device),
                call=payloads[1].unpack(),
                train=request.train,
                by_keyword=request.by_keyword,
                conditions=request.conditions,
                device=self.device,
                seed=request.seed,
            )
        return Done(), []

    def _launcher(self, kernels: Kernels) -> Any:
        if self._mode == "gpu":
            return importlib.import_module("triton_agent.tools.executor.gpu").GpuLauncher(kernels)
        interpreter = importlib.import_module("triton_agent.tools.emulate.interpreter").install(self._target)
        launcher = importlib.import_module("triton_agent.tools.executor.interpreted").InterpretedLauncher
        return launcher(interpreter, kernels, turn=len(self._programs))

    def _forget(self, request: Forget, payloads: list[Payload]) -> Reply:
        self._programs.clear()
        self._held.clear()
        self._kept.clear()
        self._inputs = []
        self._loader.forget()
        self._stopwatch = type(self._stopwatch)() if self._stopwatch else None
        if self.device == "cuda":
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
        return Done(), []

    def _state(self, request: GetState, payloads: list[Payload]) -> Reply:
        state = self._programs[request.name].state()
        described = {name: describe(tensor) for name, tensor in state.items()}
        return State(tensors=described), [[row(tensor) for tensor in state.values()]]

    # -- calls -----------------------------------------------------------------------------------------------------

    def _call(self, request: Call, payloads: list[Payload]) -> Reply:
        """Run one call on inputs; return the outputs, and the inputs that changed."""
        program_payloads, given = (payloads, []) if request.again else (payloads[:-1], payloads[-1:])
        self._prepare(request.prepare, program_payloads)
        program = self._programs[request.prepare.name]
        inputs, self._inputs = self._inputs, []
        if request.again and not inputs:
            raise InstrumentError("a call was to use inputs again that the executor does not hold")
        for payload in given:
            inputs = tensors_in(payload.unpack(self.device))
            payload.close()
        before = self._digests.of(inputs)
        run = Run(
            fresh=Fresh(device=self.device, salt=request.salt, guarded=self.device == "cuda"),
            silenced=request.silenced,
            seed=request.seed,
            around=functools.partial(_whole_if_asked, program.launcher, request) if request.whole else None,
        )
        held_bytes = self._device_bytes() if request.measure else 0
        if request.only is not None and isinstance(program, Program):
            program.launcher.begin(request.order)
            with self._candidate("forward", program):
                program.prepare()  # before `only` takes effect: all programs of the prologue run
        program.launcher.begin(request.order, request.only)
        if request.note_numbers or request.forced:
            program.launcher.note_numbers(forced=request.forced or None)
        with self._candidate("forward", program):
            outputs = program.call(inputs, run)
            if self.device == "cuda":
                torch.cuda.synchronize()
        peak_bytes = torch.cuda.max_memory_allocated() - held_bytes if request.measure else 0
        changed = (self._digests.of(inputs) != before).nonzero().flatten().tolist()
        if request.keep and not changed:
            self._inputs = inputs
        written = program.launcher.written()
        state = program.state() if written else {}
        reply = Called(
            outputs=tuple(describe(tensor) for tensor in outputs),
            changed=tuple(changed),
            inputs=tuple(describe(inputs[i]) for i in changed),
            stored=tuple(i for i, tensor in enumerate(inputs) if _lies_in(tensor, written)),
            stored_state=tuple(name for name, tensor in state.items() if _lies_in(tensor, written)),
            launches=program.launcher.launches(),
            peak_bytes=peak_bytes,
            process_bytes=torch.cuda.max_memory_reserved() if request.measure else 0,
            resources=program.launcher.resources() if request.measure else (),
            chosen=program.chosen,
            numbers=program.launcher.numbers(),
            counterparts=_placed(inputs, *program.launcher.counterparts(of_sums=False)),
            counterparts_of_sums=_placed(inputs, *program.launcher.counterparts(of_sums=True)),
            predicates=program.launcher.predicates() if request.note_numbers else (),
        )
        return reply, [[row(tensor) for tensor in group] for group in (outputs, [inputs[i] for i in changed])]

    def _device_bytes(self) -> int:
        """Return the bytes allocated now, and reset the peak for the next call."""
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        return torch.cuda.memory_allocated()

    @contextlib.contextmanager
    def _candidate(self, phase: str, program: Program | FileProgram | None = None) -> Iterator[None]:
        """Report an exception in this block as the candidate's failure."""
        try:
            yield
        except InstrumentError:
            raise
        except OutOfPlace as error:
            report = dataclasses.replace(self._report(error), phase=phase, kinds=("OutOfBounds",))
            raise ReplayFailed(report) from None
        except Exception as error:  # only the replay runs here, so the tape is the cause
            unsupported = program is not None and program.launcher.is_unsupported()
            report = dataclasses.replace(self._report(error), phase=phase, unsupported=unsupported)
            raise ReplayFailed(report) from None

    def _report(self, error: BaseException) -> Raised:
        report = self._kernels.report(error) if self._kernels else report_of(error, "")
        return dataclasses.replace(report, refusal=self._refusals.behind(error))

    # -- timing ----------------------------------------------------------------------------------------------------

    def _start_clock(self, request: StartClock, payloads: list[Payload]) -> Reply:
        self._inputs, self._held = [], []
        if torch.cuda.memory_reserved() > KEPT_BYTES:
            torch.cuda.empty_cache()
        with self._candidate("forward"):
            inputs = self._inputs_in(payloads)
            program = self._programs[request.name]
            self._stopwatch.set_up(program, inputs, request.calibration, renewed=request.renewed)
        return Done(), []

    def _warm_up(self, request: WarmUp, payloads: list[Payload]) -> Reply:
        with self._candidate("forward"):
            self._stopwatch.warm_up(request.calls)
        return Done(), []

    def _hold_inputs(self, request: HoldInputs, payloads: list[Payload]) -> Reply:
        self._held = self._inputs_in(payloads)
        return Done(), []

    def _read_clock(self, request: ReadClock, payloads: list[Payload]) -> Reply:
        inputs = self._inputs_in(payloads)
        if request.held:
            inputs, self._held = self._held, []
        with self._candidate("forward"):
            readings, groups = self._stopwatch.read(request, inputs)
        if request.keep:
            rows = [row for group in groups for row in group]
            self._kept.append((rows, self._digests.of(rows)))
            groups = []
        return readings, groups

    def _fetch(self, request: Fetch, payloads: list[Payload]) -> Reply:
        """Return the oldest kept outputs."""
        rows, digests = self._kept.pop(0)
        return Fetched(unchanged=torch.equal(self._digests.of(rows), digests)), [rows]

    def _inputs_in(self, payloads: list[Payload]) -> list[list[torch.Tensor]]:
        return [tensors_in(payload.unpack(self.device)) for payload in payloads]

    def _profile(self, request: TakeProfile, payloads: list[Payload]) -> Reply:
        """Return the device time of each step of a call."""
        with self._candidate("forward"):
            return Profiled(steps=self._stopwatch.step_times(request.calls)), []


def _placed(inputs: list[torch.Tensor], addresses: Any, values: Any) -> tuple[MetNumbers, ...]:
    """Return some of these pairs of an address and a number, by input and index, where an input is dense."""
    found = []
    for number, tensor in enumerate(real_parts(inputs) if len(addresses) else ()):
        offsets = addresses.astype(np.int64) - tensor.data_ptr()
        inside = (offsets >= 0) & (offsets < tensor.nbytes) & (offsets % tensor.element_size() == 0)
        if tensor.is_contiguous() and inside.any():
            chosen = np.random.default_rng().permutation(np.flatnonzero(inside))[:COUNTERPARTS_AT_MOST]
            chosen = chosen[np.isfinite(values[chosen])]
            indices, numbers = offsets[chosen] // tensor.element_size(), values[chosen].astype(np.float64)
            found.append(MetNumbers(input=number, at=tuple(indices.tolist()), numbers=tuple(numbers.tolist())))
    return tuple(found)


def _whole_if_asked(
    launcher: Launcher | Unlisted, request: Call, number: int, step: Callable[[Any], None], frame: Any
) -> None:
    """Run a step of a call of which only some programs run, or all of them in the steps that the request names."""
    launcher.limit(None if number in request.whole else request.only)
    step(frame)


def _lies_in(tensor: torch.Tensor, written: list[tuple[int, int]]) -> bool:
    """Return True if a launch stored into this tensor's storage; `written` holds ranges of addresses."""
    start, size_bytes = tensor.untyped_storage().data_ptr(), tensor.untyped_storage().nbytes()
    return any(low < start + size_bytes and start < high for low, high in written)
