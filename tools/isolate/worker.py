"""The candidate worker: a one-shot process that runs one candidate and answers the checker's requests.

It decides nothing and knows nothing worth stealing: it gets copies of inputs and hands back bytes. It says READY
before it has seen the candidate; if it dies before that the fault is ours, after that the candidate's. Requests are
`load`, `parameters`, `call`, `read`, `overwrite`, `state` and, in a compiler worker, `compile`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import io
import linecache
import os
import sys
import time
import traceback
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch

from triton_agent.tools.isolate import sandbox
from triton_agent.tools.isolate.guard import Guard
from triton_agent.tools.isolate.tensors import Foreign, describe, flatten, raw
from triton_agent.tools.isolate.watch import OperatorWatch
from triton_agent.tools.isolate.wire import Channel

CANDIDATE_MODULE = "candidate"
TEXT_LIMIT = 4000
"""Characters of an exception's text that are passed on; a candidate decides how long it is."""

Reply = tuple[dict[str, Any], list[bytes | memoryview]]


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


def warm_up(mode: str, target: str) -> None:
    """Pay for imports in the mode zygote, so that no worker has to."""
    if mode == "interpreter":
        importlib.import_module("triton_agent.tools.emulate.interpreter").install(target)
    else:
        importlib.import_module("triton_agent.tools.emulate.aot").warm_up()
    for name in ("triton", "triton.language", "torch.nn.functional", "triton_agent.tools.emulate.cuda_stand_in"):
        importlib.import_module(name)
    sandbox.prepare()
    torch.zeros(2).add_(1).sum().item()  # operator tables are built at first use
    torch.set_num_threads(1)


def main(channel: Channel, settings: dict[str, Any]) -> None:
    """Confine this process, say READY, then serve until the checker hangs up."""
    scratch = settings["scratch"]
    _own_output(os.path.join(scratch, "output.txt"))
    os.chdir(scratch)
    layers = sandbox.enter(sandbox.confinement_from_json(settings["confinement"])) if settings["confinement"] else ()
    worker = Worker(scratch=scratch, mode=settings["mode"], target=settings["target"])
    channel.send({"ready": True, "layers": list(layers)})
    while True:
        message, blobs = channel.receive()
        try:
            reply, data = worker.handle(message, blobs)
        except CandidateRaised as error:
            reply, data = {"raised": error.report}, []
        channel.send(reply, data)


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
        self.target = target
        self.models: dict[str, torch.nn.Module] = {}
        self.slots: dict[int, Slot] = {}
        self.watch = OperatorWatch()
        self.interpreter: Any = None
        self.stand_in: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext
        self.model_class: type[torch.nn.Module] | None = None
        self.guard: Guard | None = None
        if mode == "interpreter":
            self._prepare_interpreter()
        if mode != "gpu":
            stand_in = importlib.import_module("triton_agent.tools.emulate.cuda_stand_in").CudaStandIn
            self.stand_in = lambda: stand_in(target)

    def _prepare_interpreter(self) -> None:
        """Operators that the interpreter itself uses inside a launch are not the candidate's."""
        self.interpreter = importlib.import_module("triton_agent.tools.emulate.interpreter").install(self.target)
        launch, watch = self.interpreter.launch, self.watch

        def watched(*args: Any, **kwargs: Any) -> Any:
            with watch.paused():
                return launch(*args, **kwargs)

        self.interpreter.launch = watched

    def handle(self, message: dict[str, Any], blobs: list[bytes]) -> Reply:
        requests: dict[str, Callable[..., Reply]] = {
            "load": self._load,
            "build": self._build,
            "parameters": self._parameters,
            "call": self._call,
            "read": self._read,
            "state": self._state,
            "compile": self._compile,
        }
        reply, data = requests[message["op"]](message, blobs)
        if self.guard is not None:
            reply = {**reply, "violations": list(self.guard.violations), "broken_seal": self._broken_seal()}
        return reply, data

    def _broken_seal(self) -> str:
        """Ahead-of-time compilation puts its own functions in place, so there is no seal to speak of there."""
        return self.guard.broken_seal() if self.guard is not None and self.mode != "compiler" else ""

    # -- the candidate's file and its class ------------------------------------------------------------------------

    def _load(self, message: dict[str, Any], blobs: list[bytes]) -> Reply:
        with open(self.path, "w", encoding="utf-8") as file:
            file.write(message["source"])
        linecache.checkcache(self.path)
        module = types.ModuleType(CANDIDATE_MODULE)
        module.__file__ = self.path
        sys.modules[CANDIDATE_MODULE] = module
        self.guard = Guard(self.path)
        module.__dict__["__builtins__"] = self.guard.candidate_builtins()
        with self._candidate("import"):
            code = compile(message["source"], self.path, "exec")
            self.guard.arm()
            exec(code, module.__dict__)
        made = getattr(module, "ModelNew", None)
        if not (isinstance(made, type) and issubclass(made, torch.nn.Module)):
            return {"no_model": True}, []
        self.model_class = made
        return {"ok": True}, []

    def _build(self, message: dict[str, Any], blobs: list[bytes]) -> Reply:
        """Make ModelNew for one variant under the name the checker will call it by."""
        assert self.model_class is not None
        args, kwargs = _from_checker(blobs[0])
        with self._candidate("construct"):
            torch.manual_seed(int(message["seed"]))  # the original was made under this seed: equal defaults are fair
            model = self.model_class(*args, **kwargs)
        self.models[message["model"]] = model
        return {"ok": True}, []

    def _parameters(self, message: dict[str, Any], blobs: list[bytes]) -> Reply:
        """Write new values into parameters and buffers, in place, as a training step or load_state_dict would."""
        model = self.models[message["model"]]
        wanted: dict[str, torch.Tensor] = _from_checker(blobs[0])
        with self._candidate("construct"):
            own = {**dict(model.named_parameters(remove_duplicate=False)), **dict(model.named_buffers())}
            misfits = [name for name in wanted if name in own and own[name].shape != wanted[name].shape]
            with torch.no_grad():
                for name in wanted.keys() & own.keys() - set(misfits):
                    own[name].copy_(wanted[name])
        missing = sorted(wanted.keys() - own.keys())
        return {"missing": missing, "unexpected": sorted(own.keys() - wanted.keys()), "misfits": sorted(misfits)}, []

    # -- calls -----------------------------------------------------------------------------------------------------

    def _call(self, message: dict[str, Any], blobs: list[bytes]) -> Reply:
        """Run forward once; inputs are fresh tensors, or overwrite in place those of an earlier slot."""
        model = self.models[message["model"]]
        args = _from_checker(blobs[0])
        reuse = self.slots.get(message["overwrite"]) if message.get("overwrite") is not None else None
        slot = self._overwritten(reuse, args) if reuse else Slot(args)
        self.slots[message["slot"]] = slot
        with self._candidate("forward"):
            model.train(bool(message["train"]))
        began = time.perf_counter()
        outputs, launches, operators = self._forward(model, slot, silenced=bool(message.get("silenced")))
        wall_ms = (time.perf_counter() - began) * 1e3
        reply = {"launches": launches, "operators": operators, "wall_ms": wall_ms}
        try:
            return self._hand_back(reply, slot, outputs, model)
        except Foreign as error:
            return {**reply, "foreign": str(error)}, []

    def _overwritten(self, slot: Slot, args: list[Any]) -> Slot:
        """The same tensor objects with new contents."""
        with torch.no_grad():
            return Slot([_refill(old, new) for old, new in zip(slot.args, args)])

    def _forward(self, model: torch.nn.Module, slot: Slot, *, silenced: bool) -> tuple[Any, list[Any], dict[str, Any]]:
        if self.interpreter is not None:
            self.interpreter.launches.clear()
            self.interpreter.silenced = silenced
        self.watch.take()
        with self._candidate("forward"), self.stand_in(), self.watch, torch.no_grad():
            outputs = model(*slot.args)
        launches = [] if self.interpreter is None else [_launch(item) for item in self.interpreter.launches]
        return outputs, launches, self.watch.take()

    def _hand_back(self, reply: dict[str, Any], slot: Slot, outputs: Any, model: torch.nn.Module) -> Reply:
        slot.outputs = []

        def keep(tensor: torch.Tensor) -> int:
            slot.outputs.append(tensor)
            return len(slot.outputs) - 1

        reply["tree"] = flatten(outputs, keep)
        reply["tensors"] = [describe(tensor) for tensor in slot.outputs]
        reply["aliases"] = _aliases(slot, model)
        kept_inputs = list(_nested_tensors(slot.args))
        reply["inputs"] = [describe(tensor) for tensor in kept_inputs]
        blobs: list[bytes | memoryview] = [raw(tensor) for tensor in (*slot.outputs, *kept_inputs)]
        return reply, blobs

    def _read(self, message: dict[str, Any], blobs: list[bytes]) -> Reply:
        """The outputs of an earlier call as they are now."""
        outputs = self.slots[message["slot"]].outputs
        return {"tensors": [describe(tensor) for tensor in outputs]}, [raw(tensor) for tensor in outputs]

    def _state(self, message: dict[str, Any], blobs: list[bytes]) -> Reply:
        """Parameters and buffers as they are now."""
        model = self.models[message["model"]]
        own = {**dict(model.named_parameters(remove_duplicate=False)), **dict(model.named_buffers())}
        return {"state": {name: describe(item) for name, item in own.items()}}, [raw(item) for item in own.values()]

    # -- ahead-of-time compilation ---------------------------------------------------------------------------------

    def _compile(self, message: dict[str, Any], blobs: list[bytes]) -> Reply:
        """Trace the candidate's host code so that every launch compiles; report resources or why one does not."""
        aot = importlib.import_module("triton_agent.tools.emulate.aot")
        compilation = aot.install(self.target)
        model = self.models[message["model"]]
        args = _from_checker(blobs[0])
        failure: dict[str, Any] | None = None
        raised: dict[str, Any] | None = None
        try:
            with self.stand_in(), torch.no_grad():
                model.train(bool(message["train"]))(*args)
        except Exception as error:
            explained = aot.explain(error, self.path)
            if explained is None:
                raised = report_of(error, self.path)
            else:
                failure = {"kernel": explained.kernel, "line": explained.line, "cause": explained.cause}
        kernels = [
            {**dataclasses.asdict(kernel), "constants": constants}
            for kernel, constants in zip(compilation.kernels, compilation.constants)
        ]
        return {"kernels": kernels, "failure": failure, "raised": raised}, []

    # -- the one boundary around the candidate's code --------------------------------------------------------------

    @contextlib.contextmanager
    def _candidate(self, phase: str) -> Iterator[None]:
        try:
            yield
        except BaseException as error:  # SystemExit and KeyboardInterrupt are the candidate's here, too
            raise CandidateRaised({"phase": phase, **report_of(error, self.path)}) from None


def report_of(error: BaseException, path: str) -> dict[str, Any]:
    """An exception as plain data: its type, its text, and where in the candidate's file it passed."""
    lines = [
        {"line": frame.lineno, "function": frame.name, "code": (frame.line or "").strip()[:200]}
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == path
    ]
    line = getattr(error, "line", None)
    if isinstance(error, SyntaxError) and error.lineno:
        lines.append({"line": error.lineno, "function": "", "code": (error.text or "").strip()[:200]})
    elif isinstance(line, int):
        lines.append({"line": line, "function": "", "code": linecache.getline(path, line).strip()[:200]})
    kinds = [kind.__name__ for kind in type(error).__mro__]
    return {"kind": kinds[0], "kinds": kinds, "text": _text(error), "lines": lines[-4:]}


def _text(error: BaseException) -> str:
    try:
        return str(error)[:TEXT_LIMIT]
    except BaseException:  # a hostile __str__
        return "<no text>"


def _from_checker(blob: bytes) -> Any:
    """What the trusted side packed with torch.save."""
    return torch.load(io.BytesIO(blob), map_location="cpu", weights_only=False)


def _refill(old: Any, new: Any) -> Any:
    if isinstance(old, torch.Tensor) and isinstance(new, torch.Tensor) and old.shape == new.shape:
        old.copy_(new)
        return old
    if isinstance(old, (list, tuple)) and isinstance(new, (list, tuple)):
        return type(old)(_refill(a, b) for a, b in zip(old, new))
    if isinstance(old, dict) and isinstance(new, dict):
        return {key: _refill(old[key], new[key]) for key in new}
    return new


def _launch(launch: Any) -> dict[str, Any]:
    return {
        "kernel": launch.kernel,
        "programs": launch.programs,
        "bytes_loaded": launch.bytes_loaded,
        "bytes_stored": launch.bytes_stored,
    }


def _nested_tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _nested_tensors(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _nested_tensors(item)


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    start = tensor.untyped_storage().data_ptr()
    return start, start + tensor.untyped_storage().nbytes()


def _aliases(slot: Slot, model: torch.nn.Module) -> list[list[Any]]:
    """Pairs (output index, what it shares memory with)."""
    others = [(f"input {i}", tensor) for i, tensor in enumerate(_nested_tensors(slot.args))]
    others += [(f"parameter {name}", tensor) for name, tensor in model.named_parameters()]
    others += [(f"buffer {name}", tensor) for name, tensor in model.named_buffers()]
    spans = [(name, _span(tensor)) for name, tensor in others if tensor.numel()]
    found: list[list[Any]] = []
    for i, output in enumerate(slot.outputs):
        if output.numel():
            low, high = _span(output)
            found += [[i, name] for name, (start, end) in spans if start < high and low < end]
        found += [[i, f"output {j}"] for j, other in enumerate(slot.outputs[:i]) if _same_memory(output, other)]
    return found


def _same_memory(a: torch.Tensor, b: torch.Tensor) -> bool:
    return bool(a.numel() and b.numel()) and _span(a) == _span(b) and a.data_ptr() == b.data_ptr()
