"""The tracer: a one-shot process in which a candidate's Python runs on tensors without values.

It is sandboxed, holds no secret and decides nothing: it sends back a tape, which the checker admits or refuses. It says
READY before it has seen the candidate; if it dies before that the fault is ours, after that the candidate's. Requests
are `load` (the candidate's file) and `trace` (one form of call).
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import os
import sys
import types
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from triton_agent.tools.isolate import sandbox
from triton_agent.tools.isolate.child import own_output, report_of
from triton_agent.tools.isolate.conditions import DEFAULT, Conditions
from triton_agent.tools.isolate.payloads import Payload, received
from triton_agent.tools.isolate.tensors import Foreign, flatten
from triton_agent.tools.isolate.wire import Channel
from triton_agent.tools.tape.fake_gpu import FakeGpu
from triton_agent.tools.tape.kernel_capture import Capture
from triton_agent.tools.tape.kernel_effects import WrittenParameters
from triton_agent.tools.tape.kernel_errors import NotKernelLanguage
from triton_agent.tools.tape.kernels import (
    JitFunction,
    KernelSet,
    function_references,
    value_from_json,
    value_to_json,
)
from triton_agent.tools.tape.launches import record_launches
from triton_agent.tools.tape.outline import Outline, fill
from triton_agent.tools.tape.recorder import OutOfRecord, ReadsValues, Recorder
from triton_agent.tools.tape.slicing import CALLS, Retained, parts_of
from triton_agent.tools.tape.tape import (
    Allocate,
    Constant,
    Constexpr,
    Launch,
    Operate,
    Place,
    Step,
    Tape,
    View,
    buffers_in,
    encode,
)

CANDIDATE_MODULE = "candidate"
ENDINGS: dict[type[BaseException], str] = {
    ReadsValues: "reads_values",
    OutOfRecord: "not_on_tape",
    Retained: "retained",
    Foreign: "foreign",
    NotKernelLanguage: "kernel",
}
"""What keeps a candidate from having a tape, by its name in the reply."""


class CandidateRaised(Exception):
    """Carries what a candidate's code raised, as plain data, to the reply."""

    def __init__(self, report: dict[str, Any]) -> None:
        super().__init__(report)
        self.report = report


def warm_up() -> None:
    """Pay for imports and first uses in the process that tracers are forked from."""
    for name in ("triton", "triton.language", "triton.testing", "torch.nn.functional", "torch.library"):
        importlib.import_module(name)
    importlib.import_module("triton.runtime.jit")
    sandbox.prepare()
    recorder = Recorder("")
    with recorder.during(CALLS[0]):
        some = torch.nn.Linear(4, 4)(torch.ones(4, 4))
        torch.nn.functional.softmax(some.float(), -1).sum().reshape(1).expand(3).contiguous()
        torch.zeros(3).add_(torch.arange(3)).to(torch.float16)
    torch.set_num_threads(1)


def main(channel: Channel, settings: dict[str, Any]) -> None:
    """Confine this process, say READY, then serve until the checker hangs up."""
    scratch = settings["scratch"]
    own_output(os.path.join(scratch, "output.txt"))
    os.chdir(scratch)
    layers = sandbox.enter(sandbox.confinement_from_json(settings["confinement"])) if settings["confinement"] else ()
    tracer = Tracer(scratch, settings["facts"])
    channel.send({"ready": True, "layers": list(layers)})
    while True:
        message, blobs, files = channel.receive_with_fds()
        try:
            reply = tracer.handle(message, received(message, blobs, files))
        except CandidateRaised as error:
            reply = {"raised": error.report}
        channel.send(reply)


class Tracer:
    """Holds the one candidate of this process."""

    def __init__(self, scratch: str, facts: dict[str, Any]) -> None:
        self.path = os.path.join(scratch, f"{CANDIDATE_MODULE}.py")
        self.recorder = Recorder(self.path)
        self.capture = Capture()
        self.facts = facts
        self.conditions = DEFAULT
        self.model_class: type[torch.nn.Module] | None = None
        fake_tensor: Any = importlib.import_module("torch._subclasses.fake_tensor")
        fake_tensor.init_gpu_context = lambda *_: None
        record_launches(
            self.recorder, self.capture.capture, lambda value: value_to_json(self.capture.capture_value(value)), facts
        )

    def handle(self, message: dict[str, Any], payloads: list[Payload]) -> dict[str, Any]:
        if message["op"] == "load":
            return self._load(message)
        init, call = (payload.unpack() for payload in payloads)
        return self._trace(message, init, call)

    def _load(self, message: dict[str, Any]) -> dict[str, Any]:
        with open(self.path, "w", encoding="utf-8") as file:
            file.write(message["source"])
        module = types.ModuleType(CANDIDATE_MODULE)
        module.__file__ = self.path
        sys.modules[CANDIDATE_MODULE] = module
        self.conditions = Conditions(**message["conditions"])
        with self._candidate("import"), self.recorder.during("import"):
            exec(compile(message["source"], self.path, "exec", dont_inherit=True), module.__dict__)
        made = module.__dict__.get("ModelNew")
        if not (isinstance(made, type) and issubclass(made, torch.nn.Module)):
            return {"no_model": True}
        self.model_class = made
        return {"ok": True}

    def _trace(self, message: dict[str, Any], init: Outline, call: Outline) -> dict[str, Any]:
        """Build the module and call it twice; the second call is the tape."""
        recorder, kept = self.recorder, len(self.recorder.entries)
        arguments = self._tensors(init, Place.ARGUMENT)
        inputs = self._tensors(call, Place.INPUT)
        with self._candidate("construct"), recorder.during("construct"):
            torch.manual_seed(int(message["seed"]))
            args, kwargs = fill(init.values, arguments)
            model = self.model_class(*args, **kwargs)  # type: ignore[misc]
            torch.nn.Module.train(model, bool(message["train"]))
        state = self._take_state(model, set(message["given"]))
        buffers = dict(torch.nn.Module.named_buffers(model))
        for phase in CALLS:
            with self._candidate("forward"), recorder.during(phase), torch.no_grad(), self.conditions.calling("cuda"):
                returned = model(*fill(call.values, inputs))
                outputs: list[View] = []

                def keep(tensor: torch.Tensor, outputs: list[View] = outputs) -> int:
                    outputs.append(recorder.view_of(tensor))
                    return len(outputs) - 1

                tree = flatten(returned, keep, (FakeTensor,))
                rebound = self._put_back(model, buffers, {name for name, _ in state})
        with self._candidate("forward"):
            tape = self._cut(inputs, arguments, state, outputs, tree, rebound)
        del recorder.entries[kept:]
        return {"tape": encode(tape), "kernels": reached(self.capture.kernels(), tape).to_json()}

    def _tensors(self, outline: Outline, place: Place) -> list[torch.Tensor]:
        """Tensors as the outline describes them, in memory without values."""
        rows = self.recorder.made_input(outline.storages_bytes, place)
        made = []
        with self.recorder.fake:
            for at in outline.tensors:
                row = rows[at.storage].view(getattr(torch, at.dtype))
                made.append(row.as_strided(at.shape, at.strides, at.offset))
        return made

    def _take_state(self, model: torch.nn.Module, given: set[str]) -> list[tuple[str, View]]:
        """Parameters and buffers that the checker sets: their memory comes from outside from here on."""
        plain = torch.nn.Module
        named = {**dict(plain.named_parameters(model, remove_duplicate=False)), **dict(plain.named_buffers(model))}
        with self._candidate("construct"):
            state = [(name, self.recorder.view_of(tensor)) for name, tensor in named.items() if name in given]
            for name in given & named.keys():
                fake: Any = named[name]
                fake.constant = None  # what the constructor wrote there holds no more
        for _, view in state:
            buffer = self.recorder.buffers[view.buffer]
            self.recorder.buffers[view.buffer] = dataclasses.replace(buffer, place=Place.STATE)
        return state

    def _put_back(
        self, model: torch.nn.Module, before: dict[str, torch.Tensor], given: set[str]
    ) -> list[tuple[str, View]]:
        """Buffers that forward replaced by another tensor are the old ones again, for the next call."""
        now = dict(torch.nn.Module.named_buffers(model))
        rebound = []
        for name in given & before.keys():
            if name in now and now[name] is not before[name]:
                rebound.append((name, self.recorder.view_of(now[name])))
                owner, _, attribute = name.rpartition(".")
                torch.nn.Module.get_submodule(model, owner)._buffers[attribute] = before[name]
        return rebound

    def _cut(
        self,
        inputs: list[torch.Tensor],
        arguments: list[torch.Tensor],
        state: list[tuple[str, View]],
        outputs: list[View],
        tree: Any,
        rebound: list[tuple[str, View]],
    ) -> Tape:
        recorder = self.recorder
        written = WrittenParameters(self.capture.kernels())
        parts = parts_of(recorder.entries, recorder.buffers, outputs, [view for _, view in rebound], written)
        tape = Tape(
            buffers=tuple(recorder.buffers),
            inputs=tuple(recorder.view_of(tensor) for tensor in inputs),
            arguments=tuple(recorder.view_of(tensor) for tensor in arguments),
            state=tuple(state),
            prologue=parts.prologue,
            steps=parts.steps,
            tree=tree,
            outputs=tuple(outputs),
            rebound=tuple(rebound),
        )
        return renumbered(tape)

    @contextlib.contextmanager
    def _candidate(self, phase: str) -> Iterator[None]:
        """The one boundary around the candidate's code."""
        try:
            with warnings.catch_warnings(), FakeGpu(self.facts, self.recorder):
                warnings.simplefilter("ignore")
                yield
        except BaseException as error:  # SystemExit and KeyboardInterrupt are the candidate's here, too
            ending = next((name for kind, name in ENDINGS.items() if isinstance(error, kind)), "")
            cause = error
            while not ending and cause.__cause__ is not None:
                cause = cause.__cause__
                ending = next((name for kind, name in ENDINGS.items() if isinstance(cause, kind)), "")
            report = report_of(cause if ending else error, self.path)
            raise CandidateRaised({"phase": phase, "ending": ending, **report}) from None


def reached(kernels: KernelSet, tape: Tape) -> KernelSet:
    """The functions that a tape needs: what it launches, what it passes to launches, and what these use."""
    wanted = [*tape.kernels(), *functions_in(tape)]
    found: dict[str, JitFunction] = {}
    while wanted:
        identity = wanted.pop()
        if identity not in found:
            found[identity] = kernels.functions[identity]
            wanted += found[identity].references()
    return KernelSet(functions=found)


def functions_in(tape: Tape) -> Iterator[str]:
    """Identities of the functions among the compile-time arguments of launches."""
    for step in (*tape.prologue, *tape.steps):
        for choice in step.choices if isinstance(step, Launch) else ():
            for _, value in choice.arguments:
                if isinstance(value, Constexpr):
                    yield from function_references(value_from_json(value.value))


def renumbered(tape: Tape) -> Tape:
    """The tape with only the buffers it mentions, numbered in order."""
    mentioned: dict[int, int] = {}

    def note(value: Any) -> None:
        for number in buffers_in(value):
            mentioned.setdefault(number, len(mentioned))

    for view in (*tape.inputs, *tape.arguments, *(view for _, view in tape.state)):
        note(view)
    for step in (*tape.prologue, *tape.steps):
        for number in _numbers(step):
            mentioned.setdefault(number, len(mentioned))
    for view in (*tape.outputs, *(view for _, view in tape.rebound)):
        note(view)
    buffers = [tape.buffers[number] for number in mentioned]
    return _mapped(dataclasses.replace(tape, buffers=()), mentioned, tuple(buffers))


def _numbers(step: Step) -> Iterator[int]:
    if isinstance(step, (Allocate, Constant)):
        yield step.buffer
        yield from (address.buffer for _, address in getattr(step, "relocations", ()))
    elif isinstance(step, Operate):
        for value in (*step.args, *(value for _, value in step.kwargs), *step.results):
            yield from buffers_in(value)
    elif isinstance(step, Launch):
        for choice in step.choices:
            for _, value in choice.arguments:
                yield from buffers_in(value)


def _mapped(tape: Tape, numbers: dict[int, int], buffers: tuple[Any, ...]) -> Tape:
    def mapped(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(mapped(item) for item in value)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            changes = {
                field.name: numbers[getattr(value, field.name)]
                if field.name == "buffer"
                else mapped(getattr(value, field.name))
                for field in dataclasses.fields(value)
                if field.name not in ("tree", "value", "data")
            }
            return dataclasses.replace(value, **changes)
        return value

    renamed: Tape = mapped(tape)
    return dataclasses.replace(renamed, buffers=buffers)
