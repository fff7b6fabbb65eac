"""The executor: a process that replays tapes on inputs of its own and hands back what came out.

No Python of a candidate runs here: kernel texts were checked (`tape/kernel_language.py`), everything else is data, but
for shipped files, which we wrote ourselves (`file_program.py`). It
knows no expected value. On a GPU it is used for one candidate after another, unless something went wrong in it; without
one it is used once. Requests are `program`, `file`, `parameters`, `call`, `state`, `time`, `profile` and `forget`.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

from triton_agent.tools.errors import InstrumentError
from triton_agent.tools.executor.file_program import FileProgram
from triton_agent.tools.executor.kernels import Kernels
from triton_agent.tools.executor.memory import Fresh
from triton_agent.tools.executor.program import OutOfPlace, Program, Run
from triton_agent.tools.isolate import sandbox
from triton_agent.tools.isolate.answers import hand_over
from triton_agent.tools.isolate.conditions import Conditions
from triton_agent.tools.isolate.output import own_output
from triton_agent.tools.isolate.payloads import Payload, received
from triton_agent.tools.isolate.reports import report_of
from triton_agent.tools.isolate.tensors import describe, row
from triton_agent.tools.isolate.wire import Channel
from triton_agent.tools.tape.outline import tensors_in
from triton_agent.tools.tape.tape import decode
from triton_agent.tools.timing.lease import SharedDoor

Reply = tuple[dict[str, Any], list[list[torch.Tensor]]]
"""What is said, and the tensors that go with it, as rows of bytes; see `answers.py` for how they are grouped."""
KEPT_BYTES = 4 << 30
"""What torch may keep of freed memory when the clock starts; the checker's reference needs the rest."""
DIGEST_CHUNK = 1 << 22
"""Words of eight bytes that are weighed at once."""


class ReplayFailed(Exception):
    """Carries what went wrong in a replay, as plain data, to the reply."""

    def __init__(self, report: dict[str, Any]) -> None:
        super().__init__(report)
        self.report = report


def warm_up(mode: str, target: str) -> None:
    """Pay for imports in the process that executors are forked from. Never touches CUDA."""
    if mode == "interpreter":
        importlib.import_module("triton_agent.tools.emulate.interpreter").install(target)
        importlib.import_module("triton_agent.tools.executor.interpreted")
    else:
        importlib.import_module("triton_agent.tools.executor.stopwatch")
        importlib.import_module("triton_agent.tools.executor.gpu")
        importlib.import_module("triton_agent.tools.emulate.aot").warm_up()
        _build_driver_once()
    sandbox.prepare()
    some = torch.zeros(2).add_(1)
    some.sum().item()  # operator tables are built at first use
    torch.set_num_threads(1)


def _build_driver_once() -> None:
    """Triton's own C module, compiled and loaded here so that no executor runs a C compiler; no CUDA call is made.

    Its constructor builds it again at every mention, though there is only ever one object; afterwards it does nothing.
    """
    utilities = importlib.import_module("triton.backends.nvidia.driver").CudaUtils
    utilities()
    utilities.__init__ = lambda this: None


def main(channel: Channel, settings: dict[str, Any]) -> None:
    """Confine this process, say READY, then serve until the checker hangs up."""
    scratch = settings["scratch"]
    own_output(os.path.join(scratch, "output.txt"))
    os.chdir(scratch)
    door = SharedDoor(settings["gpu"]) if settings.get("gpu") else None  # out of sight once confined
    layers = sandbox.enter(sandbox.confinement_from_json(settings["confinement"])) if settings["confinement"] else ()
    if settings.get("cache"):
        os.environ["TRITON_CACHE_DIR"] = settings["cache"]
    with door.inside() if door else contextlib.nullcontext():
        executor = Executor(scratch=scratch, mode=settings["mode"], target=settings["target"])
    channel.send({"ready": True, "layers": list(layers)})
    while True:
        message, blobs, files = channel.receive_with_fds()
        try:
            reply, tensors = executor.handle(message, received(message, blobs, files))
        except ReplayFailed as failure:
            reply, tensors = {"raised": failure.report}, []
        hand_over(channel, reply, tensors)


class Executor:
    """Holds the programs of one candidate at a time."""

    def __init__(self, *, scratch: str, mode: str, target: str) -> None:
        self._scratch = scratch
        self._mode = mode
        self._target = target
        self.device = "cuda" if mode == "gpu" else "cpu"
        self._programs: dict[str, Program | FileProgram] = {}
        self._kernels: Kernels | None = None
        self._weights = torch.empty(0, dtype=torch.int64, device=self.device)
        self._stopwatch: Any = None
        if mode == "gpu":
            self._pay_first_use()

    def _pay_first_use(self) -> None:
        """Context, allocator and what torch loads with its first kernels."""
        torch.cuda.set_per_process_memory_fraction(sandbox.MOST_OF_A_CARD)
        some = torch.zeros(1024, device="cuda").add_(1)
        some.bfloat16().float().sum().item()
        torch.cuda._sleep(1)  # type: ignore[no-untyped-call]
        importlib.import_module("triton.runtime.driver").driver.active.get_current_device()
        self._stopwatch = importlib.import_module("triton_agent.tools.executor.stopwatch").Stopwatch()

    def handle(self, message: dict[str, Any], payloads: list[Payload]) -> Reply:
        requests: dict[str, Callable[[dict[str, Any], list[Payload]], Reply]] = {
            "program": self._program,
            "file": self._file,
            "parameters": self._parameters,
            "call": self._call,
            "state": self._state,
            "time": self._time,
            "profile": self._profile,
            "forget": self._forget,
        }
        return requests[message["op"]](message, payloads)

    # -- programs --------------------------------------------------------------------------------------------------

    def _program(self, message: dict[str, Any], payloads: list[Payload]) -> Reply:
        """Make a tape ready to run under a name."""
        Conditions(**message["conditions"]).settle()
        kernels = Kernels.load(message["kernels"], tempfile.mkdtemp(dir=self._scratch))
        self._kernels = kernels
        arguments = tensors_in(payloads[0].unpack(self.device))
        with self._candidate("construct"):
            self._programs[message["name"]] = Program(
                decode(message["tape"]),
                self._launcher(kernels),
                device=self.device,
                arguments=arguments,
                seed=int(message["seed"]),
            )
        return {"ok": True}, []

    def _file(self, message: dict[str, Any], payloads: list[Payload]) -> Reply:
        """A shipped file in place of a tape; see `file_program.py`. Only who ships files sends one."""
        conditions = Conditions(**message["conditions"])
        conditions.settle()
        with self._candidate("construct"):
            self._programs[message["name"]] = FileProgram(
                message["text"],
                tempfile.mkdtemp(dir=self._scratch),
                constructor=payloads[0].unpack(self.device),
                call=payloads[1].unpack(),
                train=bool(message["train"]),
                conditions=conditions,
                device=self.device,
                seed=int(message["seed"]),
            )
        return {"ok": True}, []

    def _launcher(self, kernels: Kernels) -> Any:
        if self._mode == "gpu":
            return importlib.import_module("triton_agent.tools.executor.gpu").GpuLauncher(kernels)
        interpreter = importlib.import_module("triton_agent.tools.emulate.interpreter").install(self._target)
        launcher = importlib.import_module("triton_agent.tools.executor.interpreted").InterpretedLauncher
        return launcher(interpreter, kernels)

    def _forget(self, message: dict[str, Any], payloads: list[Payload]) -> Reply:
        """Make room for another candidate."""
        self._programs.clear()
        self._stopwatch = type(self._stopwatch)() if self._stopwatch else None
        if self.device == "cuda":
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
        return {"ok": True}, []

    def _parameters(self, message: dict[str, Any], payloads: list[Payload]) -> Reply:
        self._programs[message["name"]].set_state(payloads[0].unpack(self.device))
        return {"ok": True}, []

    def _state(self, message: dict[str, Any], payloads: list[Payload]) -> Reply:
        """Parameters and buffers as they are now."""
        state = self._programs[message["name"]].state()
        return {"state": {name: describe(item) for name, item in state.items()}}, [[row(it) for it in state.values()]]

    # -- calls -----------------------------------------------------------------------------------------------------

    def _call(self, message: dict[str, Any], payloads: list[Payload]) -> Reply:
        """Run once on inputs; what came out, and which inputs are no longer what they were."""
        program = self._programs[message["name"]]
        inputs = tensors_in(payloads[0].unpack(self.device))
        payloads[0].close()
        before = [self._digest(tensor) for tensor in inputs]
        run = Run(
            fresh=Fresh(device=self.device, salt=int(message["salt"]), guarded=self.device == "cuda"),
            silenced=bool(message["silenced"]),
            seed=int(message["seed"]),
        )
        held_bytes = self._device_bytes() if message["measure"] else 0
        program.launcher.begin(message["order"])
        began = time.perf_counter()
        with self._candidate("forward", program):
            outputs = program.call(inputs, run)
            if self.device == "cuda":
                torch.cuda.synchronize()
        peak_bytes = torch.cuda.max_memory_allocated() - held_bytes if message["measure"] else 0
        changed = [i for i, tensor in enumerate(inputs) if self._digest(tensor) != before[i]]
        reply = {
            "tensors": [describe(tensor) for tensor in outputs],
            "changed": changed,
            "inputs": [describe(inputs[i]) for i in changed],
            "launches": program.launcher.launches(),
            "peak_bytes": peak_bytes,
            "process_bytes": torch.cuda.max_memory_reserved() if message["measure"] else 0,
            "resources": program.launcher.resources() if message["measure"] else [],
            "chosen": {str(number): choice for number, choice in program.chosen.items()},
            "wall_ms": (time.perf_counter() - began) * 1e3,
        }
        return reply, [[row(tensor) for tensor in group] for group in (outputs, [inputs[i] for i in changed])]

    def _digest(self, tensor: torch.Tensor) -> int:
        """A number that tells whether contents changed, without a copy of them."""
        storage = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage())
        whole = storage.numel() - storage.numel() % 8
        words = storage[:whole].view(torch.int64)
        weights = self._weights_for(max(words.numel(), 8))
        total = (storage[whole:].to(torch.int64) * weights[: storage.numel() - whole]).sum()
        for start in range(0, words.numel(), DIGEST_CHUNK):
            chunk = words[start : start + DIGEST_CHUNK]
            total = total + (chunk * weights[: chunk.numel()]).sum() * (2 * start + 1)
        return int(total)

    def _weights_for(self, words: int) -> torch.Tensor:
        """Odd numbers that no kernel knows, drawn once."""
        wanted = min(words, DIGEST_CHUNK)
        if self._weights.numel() < wanted:
            generator = torch.Generator(self.device).manual_seed(secrets.randbits(63))
            drawn = torch.empty(wanted, dtype=torch.int64, device=self.device)
            self._weights = drawn.random_(-(1 << 62), 1 << 62, generator=generator) | 1
        return self._weights

    def _device_bytes(self) -> int:
        """What is held before a call; from here on the peak is the call's."""
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        return torch.cuda.memory_allocated()

    @contextlib.contextmanager
    def _candidate(self, phase: str, program: Program | FileProgram | None = None) -> Iterator[None]:
        """What fails in here fails by the candidate's tape."""
        try:
            yield
        except InstrumentError:
            raise
        except OutOfPlace as error:
            raise ReplayFailed({**self._report(error), "phase": phase, "kinds": ["OutOfBounds"]}) from None
        except Exception as error:  # the tape's doing: nothing of ours runs here but the replay
            unsupported = program is not None and program.launcher.is_unsupported()
            raise ReplayFailed({"phase": phase, "unsupported": unsupported, **self._report(error)}) from None

    def _report(self, error: BaseException) -> dict[str, Any]:
        return self._kernels.report(error) if self._kernels else report_of(error, "")

    # -- timing ----------------------------------------------------------------------------------------------------

    def _time(self, message: dict[str, Any], payloads: list[Payload]) -> Reply:
        """What the stopwatch is asked for; see `stopwatch.py`."""
        if "sets" in message and torch.cuda.memory_reserved() > KEPT_BYTES:
            torch.cuda.empty_cache()
        with self._candidate("forward"):
            inputs = [tensors_in(payload.unpack(self.device)) for payload in payloads]
            if "sets" in message:
                program = self._programs[message["name"]]
                self._stopwatch.set_up(program, inputs, message["calibration"], renewed=bool(message["renewed"]))
                return {"ok": True}, []
            reply: Reply = self._stopwatch.answer(message, inputs)
            return reply

    def _profile(self, message: dict[str, Any], payloads: list[Payload]) -> Reply:
        """Where the device time of a call goes."""
        profiling = importlib.import_module("triton_agent.tools.executor.profiling")
        program = self._programs[message["name"]]
        inputs = tensors_in(payloads[0].unpack(self.device))
        with self._candidate("forward"):
            run = Run(fresh=Fresh(device=self.device))
            return {"rows": profiling.profile(lambda: program.call(inputs, run), int(message["calls"]))}, []
