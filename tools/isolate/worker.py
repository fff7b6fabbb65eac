"""The candidate worker: a one-shot process that runs one candidate and answers the checker's requests.

It decides nothing and knows nothing worth stealing: it gets inputs of its own and hands back bytes. It says READY
before it has seen the candidate; if it dies before that the fault is ours, after that the candidate's. Requests are
`load`, `build`, `parameters`, `call`, `read`, `spoil`, `state`, in a compiler worker `compile`, on a GPU `profile` and
those of the stopwatch.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import gc
import importlib
import os
import sys
import time
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch

from triton_agent.tools.idle_code import without_idle_code
from triton_agent.tools.isolate import fences, pieces, sandbox
from triton_agent.tools.isolate.answers import hand_over
from triton_agent.tools.isolate.conditions import DEFAULT, Conditions
from triton_agent.tools.isolate.cores import leave_cores_to_the_clock
from triton_agent.tools.isolate.guard import Guard
from triton_agent.tools.isolate.keepsakes import Keepsakes
from triton_agent.tools.isolate.launches import launches_for
from triton_agent.tools.isolate.payloads import Payload, received
from triton_agent.tools.isolate.reports import report_of
from triton_agent.tools.isolate.tensors import (
    UNREADABLE,
    aliases,
    describe,
    flatten,
    nested_tensors,
    own_view,
    refill,
    row,
)
from triton_agent.tools.isolate.watch import OperatorWatch, memory_of
from triton_agent.tools.isolate.wire import Channel
from triton_agent.tools.isolate.witness import NO_TESTIMONY, Witness
from triton_agent.tools.screen import ALLOWED_MODULES
from triton_agent.tools.timing.lease import SharedDoor

CANDIDATE_MODULE = "candidate"

HOLD_UP_CYCLES = 100_000_000
"""Some 50 ms: longer than the host needs to come back, whatever it does."""

Reply = tuple[dict[str, Any], list[list[torch.Tensor]]]
"""What is said, and the tensors that go with it, as rows of bytes; see `answers.py` for how they are grouped."""


class CandidateRaised(Exception):
    """Carries what a candidate's code raised, as plain data, to the reply."""

    def __init__(self, report: dict[str, Any]) -> None:
        super().__init__(report)
        self.report = report


@dataclasses.dataclass(slots=True)
class Slot:
    """One call's inputs and outputs, kept so that they can be looked at or written over later."""

    args: list[Any]
    outputs: list[torch.Tensor] = dataclasses.field(default_factory=list)
    inputs: list[torch.Tensor] = dataclasses.field(default_factory=list)
    """The tensors among the arguments as the call left them."""

    def keep(self, output: torch.Tensor) -> int:
        self.outputs.append(own_view(output))
        return len(self.outputs) - 1


def warm_up(mode: str, target: str) -> None:
    """Pay for imports in the mode zygote, so that no worker has to. Never touches CUDA."""
    if mode == "interpreter":
        importlib.import_module("triton_agent.tools.emulate.interpreter").install(target)
    elif mode == "compiler":
        importlib.import_module("triton_agent.tools.emulate.aot").warm_up(target)
        importlib.import_module("triton_agent.tools.emulate.uncomputed")
    else:
        importlib.import_module("triton_agent.tools.isolate.stopwatch")
        importlib.import_module("triton_agent.tools.emulate.aot").warm_up()
        _build_driver_once()
    for name in ("triton", "triton.language", "torch.nn.functional", "triton_agent.tools.emulate.cuda_stand_in"):
        importlib.import_module(name)
    fences.learn()
    sandbox.prepare()
    some = torch.zeros(2).add_(1)
    some.sum().item()  # operator tables are built at first use
    importlib.import_module("triton.runtime.jit").mangle_type(some)  # at first use it imports Gluon: 60 ms
    torch.set_num_threads(1)


def _build_driver_once() -> None:
    """Triton's own C module, compiled and loaded here so that no worker runs a C compiler; no CUDA call is made.

    Its constructor builds it again at every mention, though there is only ever one object; afterwards it does nothing.
    """
    utilities = importlib.import_module("triton.backends.nvidia.driver").CudaUtils
    utilities()
    utilities.__init__ = lambda this: None


def main(channel: Channel, settings: dict[str, Any]) -> None:
    """Confine this process, say READY, then serve until the checker hangs up."""
    scratch = settings["scratch"]
    _own_output(os.path.join(scratch, "output.txt"))
    os.chdir(scratch)
    if settings["mode"] == "compiler":
        leave_cores_to_the_clock()
    door = SharedDoor(settings["gpu"]) if settings.get("gpu") else None  # out of sight once confined
    layers = sandbox.enter(sandbox.confinement_from_json(settings["confinement"])) if settings["confinement"] else ()
    with door.inside() if door else contextlib.nullcontext():
        worker = Worker(scratch=scratch, mode=settings["mode"], target=settings["target"])
    channel.send({"ready": True, "layers": list(layers)})
    while True:
        message, blobs, files = channel.receive_with_fds()
        try:
            reply, tensors = worker.handle(message, received(message, blobs, files))
        except CandidateRaised as error:
            reply, tensors = {"raised": error.report}, []
        hand_over(channel, {**reply, **worker.misdeeds()}, tensors)
        worker.catch_up()
        gc.enable()


def _own_output(path: str) -> None:
    """Point stdout and stderr at a file in scratch; what a candidate prints is text, never a verdict."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(fd, 1)
    os.dup2(fd, 2)
    os.close(fd)
    devnull = os.open(os.devnull, os.O_RDONLY)
    os.dup2(devnull, 0)
    os.close(devnull)


class Worker:
    """Holds the one candidate of this process."""

    def __init__(self, *, scratch: str, mode: str, target: str) -> None:
        self.path = os.path.join(scratch, f"{CANDIDATE_MODULE}.py")
        self.mode = mode
        self.device = "cuda" if mode == "gpu" else "cpu"
        self.models: dict[str, torch.nn.Module] = {}
        self.slots: dict[int, Slot] = {}
        self.keepsakes = Keepsakes()
        self._names_given: dict[str, set[str]] = {}
        self.watch = OperatorWatch()
        self.witness = Witness()
        self.launches = launches_for(mode, target, self.path)
        self.guard: Guard | None = None
        self._broken_seal = ""
        self._look_later = False
        self.model_class: type[torch.nn.Module] | None = None
        self.stand_in: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext
        self.aot: Any = None
        self.stopwatch: Any = None
        self.conditions = DEFAULT
        self.uncomputed: Any = None
        if mode == "compiler":
            self.aot = importlib.import_module("triton_agent.tools.emulate.aot")
            self.uncomputed = importlib.import_module("triton_agent.tools.emulate.uncomputed")
            self.compilation = self.aot.install(target)
        if mode == "gpu":
            self._pay_first_use()
        else:
            stand_in = importlib.import_module("triton_agent.tools.emulate.cuda_stand_in").CudaStandIn
            self.stand_in = lambda: stand_in(target)

    def _pay_first_use(self) -> None:
        """Context, allocator and what torch loads with its first kernels, before the candidate is there to wait."""
        torch._C._jit_override_can_fuse_on_gpu(False)  # a fused group would run as an operator that no log knows
        torch._C._jit_set_texpr_fuser_enabled(False)
        torch.cuda.set_per_process_memory_fraction(sandbox.MOST_OF_A_CARD)
        some = torch.zeros(1024, device="cuda").add_(1)
        some.bfloat16().float().sum().item()
        torch.cuda._sleep(1)  # type: ignore[no-untyped-call]
        importlib.import_module("triton.runtime.driver").driver.active.get_current_device()
        self.stopwatch = importlib.import_module("triton_agent.tools.isolate.stopwatch").Stopwatch()

    def handle(self, message: dict[str, Any], payloads: list[Payload]) -> Reply:
        requests: dict[str, Callable[[dict[str, Any], list[Payload]], Reply]] = {
            "load": self._load,
            "build": self._build,
            "parameters": self._parameters,
            "call": self._call,
            "read": self._read,
            "spoil": self._spoil,
            "state": self._state,
            "compile": self._compile,
            "time": self._time,
            "profile": self._profile,
        }
        return requests[message["op"]](message, payloads)

    def misdeeds(self) -> dict[str, Any]:
        """What the guard saw so far. Ahead-of-time compilation replaces functions itself, so has no seal."""
        if self.guard is None:
            return {}
        return {"violations": list(self.guard.violations), "broken_seal": self._broken_seal}

    def catch_up(self) -> None:
        """What may wait until a reply is out: the next one tells of it."""
        if self._look_later:
            self._look_later = False
            self._look_at_seals()

    # -- the candidate's file and its class ------------------------------------------------------------------------

    def _load(self, message: dict[str, Any], payloads: list[Payload]) -> Reply:
        with open(self.path, "w", encoding="utf-8") as file:
            file.write(message["source"])
        module = types.ModuleType(CANDIDATE_MODULE)
        module.__file__ = self.path
        sys.modules[CANDIDATE_MODULE] = module
        self.conditions = Conditions(**message["conditions"])
        if self.mode == "gpu":
            self.conditions.settle()
        if self.guard is None:
            with self.stand_in():
                self.guard = Guard(self.path, CANDIDATE_MODULE)
        module.__dict__["__builtins__"] = self.guard.candidate_builtins()
        with self._candidate("import"):
            tree = without_idle_code(ast.parse(message["source"], self.path), ALLOWED_MODULES)
            code = compile(tree, self.path, "exec", dont_inherit=True)
            self.guard.vet(code)
            self.guard.arm()
            exec(code, module.__dict__)
        made = module.__dict__.get("ModelNew")
        if not (isinstance(made, type) and issubclass(made, torch.nn.Module)):
            return {"no_model": True}, []
        self.model_class = made
        self.guard.refuse_overrides(made)
        return {"ok": True}, []

    def _build(self, message: dict[str, Any], payloads: list[Payload]) -> Reply:
        """Make ModelNew for one variant under the name the checker will call it by."""
        assert self.model_class is not None
        args, kwargs = self._from_checker(payloads[0])
        self.launches.begin(silenced=bool(message["silenced"]))
        with self._candidate("construct"):
            torch.manual_seed(int(message["seed"]))  # the original was made under this seed: equal defaults are fair
            with self._reckoning(message):
                self.models[message["model"]] = torch.nn.Module.to(self.model_class(*args, **kwargs), self.device)
        return {"ok": True}, []

    def _parameters(self, message: dict[str, Any], payloads: list[Payload]) -> Reply:
        """Write new values into parameters and buffers, in place, as a training step or load_state_dict would."""
        wanted: dict[str, torch.Tensor] = self._from_checker(payloads[0])
        self._names_given[message["model"]] = set(wanted)
        with self._candidate("construct"):
            own = self._state_of(message["model"])
            misfits = [name for name in wanted if name in own and own[name].shape != wanted[name].shape]
            with torch.no_grad():
                for name in wanted.keys() & own.keys() - set(misfits):
                    torch.Tensor.copy_(own[name], wanted[name])
        missing = sorted(wanted.keys() - own.keys())
        return {"missing": missing, "unexpected": sorted(own.keys() - wanted.keys()), "misfits": sorted(misfits)}, []

    def _state_of(self, name: str) -> dict[str, torch.Tensor]:
        """By torch's own methods: a candidate's overrides are not asked."""
        model, plain = self.models[name], torch.nn.Module
        return {**dict(plain.named_parameters(model, remove_duplicate=False)), **dict(plain.named_buffers(model))}

    # -- calls -----------------------------------------------------------------------------------------------------

    def _call(self, message: dict[str, Any], payloads: list[Payload]) -> Reply:
        """Run forward once; inputs are fresh tensors, or overwrite in place those of an earlier slot."""
        model = self.models[message["model"]]
        slot = self._slot(self._from_checker(payloads[0]), message["overwrite"])
        self.slots[message["slot"]] = slot
        began = time.perf_counter()
        self.launches.begin(silenced=bool(message["silenced"]))
        held_bytes = self._device_bytes() if message["measure"] else 0
        with self._candidate("forward"):
            if message["noted"]:
                self.keepsakes.note(self._given())
            answer = self._forward(model, slot, message)
            if message["noted"]:
                self.keepsakes.compare(self._given())
        reply = {
            **answer,
            "peak_bytes": torch.cuda.max_memory_allocated() - held_bytes if message["measure"] else 0,
            "resources": self.launches.resources() if message["measure"] else [],
            "unjoined": self._unjoined(model, slot) if message["prove"] else "",
            "launches": self.launches.seen(),
            "others": self.launches.others(),
            "faults": [report_of(fault, self.path) for fault in self.launches.faults()],
            "wall_ms": (time.perf_counter() - began) * 1e3,
        }
        if "foreign" in reply:
            return reply, []
        try:
            return self._hand_back(reply, slot, apart=bool(message["apart"]))
        except UNREADABLE as error:
            return {**reply, "foreign": str(error)[:300]}, []

    def _device_bytes(self) -> int:
        """What is held before a call; from here on the peak is the call's."""
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        return torch.cuda.memory_allocated()

    def _slot(self, args: list[Any], overwrite: int | None) -> Slot:
        """The inputs; where they overwrite, the same tensor objects with new contents."""
        if overwrite is None or overwrite not in self.slots:
            return Slot(args)
        with torch.no_grad():
            return Slot([refill(old, new) for old, new in zip(self.slots[overwrite].args, args)])

    def _forward(self, model: torch.nn.Module, slot: Slot, message: dict[str, Any]) -> dict[str, Any]:
        """One call on the record, and its outputs taken apart there: looking at them, or for what shares memory with
        them, may run the candidate's code."""
        self.watch.take()
        self.watch.salt = int(message["salt"])
        with self._on_record() as record, torch.no_grad(), self.conditions.calling(self.device):
            outputs = torch.nn.Module.train(model, bool(message["train"]))(*slot.args)
            slot.outputs = []
            slot.inputs = [own_view(tensor) for tensor in nested_tensors(slot.args)]
            try:
                taken: dict[str, Any] = {"tree": flatten(outputs, slot.keep)}
                taken["aliases"] = aliases(slot.outputs, slot.inputs, model)
            except UNREADABLE as error:
                taken = {"foreign": str(error)[:300]}
            taken["kept"] = [i for i, tensor in enumerate(slot.outputs) if self._was_there(tensor)]
            del outputs  # whatever happens as it goes
        if self.device == "cuda":
            torch.cuda.synchronize()  # a fault in a kernel belongs to this call
        return {**taken, **record}

    def _was_there(self, output: torch.Tensor) -> bool:
        """Whether its memory is older than the call."""
        return output.numel() > 0 and memory_of(output) not in self.watch.made

    @contextlib.contextmanager
    def _on_record(self) -> Iterator[dict[str, Any]]:
        """The watch and the witness side by side; what they saw is in the record afterwards.

        Python's collector rests from then until the answer is sent, lest destructors write into it unseen.
        """
        record: dict[str, Any] = {}
        self.witness.begin()
        try:
            with self.watch:
                yield record
        finally:
            try:
                seen = self.witness.end()
            except RuntimeError:
                seen = NO_TESTIMONY
            gc.disable()
            for captured in self.launches.captured_operators():
                self.watch.add(captured)
            record |= {"operators": self.watch.take(), **dataclasses.asdict(seen)}

    def _unjoined(self, model: torch.nn.Module, slot: Slot) -> str:
        """Whether forward returns before its work on another stream is done; answered by holding that stream up."""
        for stream in self.launches.foreign_streams():
            side = torch.cuda.ExternalStream(stream)  # type: ignore[no-untyped-call]
            with torch.cuda.stream(side):
                torch.cuda._sleep(HOLD_UP_CYCLES)  # type: ignore[no-untyped-call]
            with self._candidate("forward"), torch.no_grad(), self.conditions.calling(self.device):
                model(*slot.args)
            torch.cuda.current_stream().synchronize()
            waited = side.query()
            torch.cuda.synchronize()
            if not waited:
                return "the caller's stream does not wait for the stream that the kernels ran on"
        return ""

    def _hand_back(self, reply: dict[str, Any], slot: Slot, *, apart: bool) -> Reply:
        """`apart`: the inputs are asked for afterwards."""
        reply["tensors"] = [describe(tensor) for tensor in slot.outputs]
        strayed = [str(tensor.device) for tensor in slot.outputs if tensor.device.type != self.device]
        if strayed:
            return {**reply, "strayed": strayed[0]}, []
        inputs = [] if apart else slot.inputs
        reply["inputs"] = [describe(tensor) for tensor in inputs]
        return reply, [[row(tensor) for tensor in group] for group in (slot.outputs, inputs)]

    def _read(self, message: dict[str, Any], payloads: list[Payload]) -> Reply:
        """The outputs or the inputs of an earlier call as they are now, in pieces."""
        slot = self.slots[message["slot"]]
        tensors = slot.inputs if message["of"] == "inputs" else slot.outputs
        try:
            asked = zip(tensors, message["pieces"], strict=True)
            rows = [pieces.of(row(tensor), numbers) for tensor, numbers in asked]
            return {"tensors": [describe(tensor) for tensor in tensors]}, [rows]
        except torch.OutOfMemoryError as error:
            raise CandidateRaised({"phase": "read", "unsupported": False, **report_of(error, self.path)}) from None
        except (*UNREADABLE, IndexError, ValueError):  # no longer what it was
            return {"tensors": []}, []

    def _spoil(self, message: dict[str, Any], payloads: list[Payload]) -> Reply:
        """Wherever the call that was noted left the answer of this slot, it is another one now."""
        with self._candidate("forward"):
            return {"places": self.keepsakes.spoil(self.slots[message["slot"]].outputs)}, []

    def _given(self) -> Iterator[torch.Tensor]:
        """Tensors that are the checker's: arguments, answers, and the parameters it knows by name."""
        for slot in self.slots.values():
            yield from (*nested_tensors(slot.args), *slot.inputs, *slot.outputs)
        for name, given in self._names_given.items():
            if name in self.models:
                yield from (tensor for key, tensor in self._state_of(name).items() if key in given)

    def _state(self, message: dict[str, Any], payloads: list[Payload]) -> Reply:
        """Parameters and buffers as they are now."""
        own = self._state_of(message["model"])
        return {"state": {name: describe(item) for name, item in own.items()}}, [[row(item) for item in own.values()]]

    # -- compiling and timing --------------------------------------------------------------------------------------

    def _compile(self, message: dict[str, Any], payloads: list[Payload]) -> Reply:
        """Trace the candidate's host code so that every launch compiles; report resources or why one does not."""
        args = self._from_checker(payloads[0])
        if message.get("uncomputed"):
            args = self.uncomputed.made_up(args)
            self.aot.build_launchers()
        failure: dict[str, Any] | None = None
        raised: dict[str, Any] | None = None
        try:
            with self.stand_in(), torch.no_grad(), self._reckoning(message), self.conditions.calling(self.device):
                self.models[message["model"]].train(bool(message["train"]))(*args)
        except Exception as error:
            explained = self.aot.explain(error, self.path)
            if explained is None:
                raised = report_of(error, self.path)
            else:
                failure = {"kernel": explained.kernel, "line": explained.line, "cause": explained.cause}
        found = zip(self.compilation.kernels, self.compilation.constants)
        kernels = [{**dataclasses.asdict(kernel), "constants": constants} for kernel, constants in found]
        return {"kernels": kernels, "failure": failure, "raised_in_host_code": raised}, []

    def _time(self, message: dict[str, Any], payloads: list[Payload]) -> Reply:
        """What the stopwatch is asked for; see `stopwatch.py`."""
        if "sets" in message:
            model = self.models[message["model"]].train(bool(message["train"]))
            with self._candidate("forward"):
                sets = [self._from_checker(payload) for payload in payloads]
                renewed, calibration = bool(message["renewed"]), message["calibration"]
                self.stopwatch.set_up(model, sets, self.conditions, calibration, renewed=renewed)
            return {"ok": True}, []
        self._look_later = "turns" in message  # the original takes its turn meanwhile
        self.launches.begin(silenced=bool(message.get("silenced")))
        with self._candidate("forward"):
            reply, rows = self.stopwatch.answer(message, [self._from_checker(payload) for payload in payloads])
        seen = {"launches": self.launches.seen()} if payloads else {}
        self.launches.begin(silenced=False)
        return {**reply, **seen}, rows

    def _profile(self, message: dict[str, Any], payloads: list[Payload]) -> Reply:
        """Where the device time of a call goes."""
        profiling = importlib.import_module("triton_agent.tools.isolate.profiling")
        model = self.models[message["model"]].train(bool(message["train"]))
        args = self._from_checker(payloads[0])

        def call() -> object:
            with torch.no_grad(), self.conditions.calling(self.device):
                return model(*args)

        with self._candidate("forward"):
            return {"rows": profiling.profile(call, int(message["calls"]))}, []

    def _reckoning(self, message: dict[str, Any]) -> contextlib.AbstractContextManager[Any]:
        """Where only the launches are wanted, heavy operators are left out."""
        return self.uncomputed.Uncomputed() if message.get("uncomputed") else contextlib.nullcontext()

    # -- the one boundary around the candidate's code --------------------------------------------------------------

    @contextlib.contextmanager
    def _candidate(self, phase: str) -> Iterator[None]:
        try:
            with self.stand_in():
                try:
                    yield
                finally:
                    if not self._look_later:
                        self._look_at_seals()
        except BaseException as error:  # SystemExit and KeyboardInterrupt are the candidate's here, too
            report = report_of(error, self.path)
            compile_failure = self.aot.explain(error, self.path) if self.aot and isinstance(error, Exception) else None
            if compile_failure is not None:
                report = {**report, "kinds": ["CompileFailure"], "text": str(compile_failure)}
            raise CandidateRaised({"phase": phase, "unsupported": self.launches.unsupported(), **report}) from None

    def _look_at_seals(self) -> None:
        """While the stand-in is still in place: leaving it puts its own functions back, and others' with them."""
        if self.guard is not None and self.mode != "compiler" and not self._broken_seal:
            self._broken_seal = self.guard.seals.broken()

    def _from_checker(self, payload: Payload) -> Any:
        """What the trusted side packed; the descriptor is gone before the candidate has its turn."""
        values = payload.unpack(self.device)
        payload.close()
        return values
