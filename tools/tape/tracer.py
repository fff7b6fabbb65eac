"""The tracer: a one-shot process that runs a candidate's Python on tensors without values.

It is sandboxed, holds no secret and decides nothing: it returns a tape, which the checker admits or refuses. It says
READY before it receives the candidate. If it dies before that, the fault is ours; after that, the candidate's. Requests
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

from triton_agent.tools.kernels.capture import Capture
from triton_agent.tools.kernels.effects import WrittenParameters
from triton_agent.tools.kernels.kernel import (
    JitFunction,
    KernelSet,
    NotKernelLanguage,
    function_references,
    value_from_json,
)
from triton_agent.tools.processes import cuda_autocast
from triton_agent.tools.processes.child import begin, confine, report_of
from triton_agent.tools.processes.codec import to_plain
from triton_agent.tools.processes.payloads import Payload, receive_request
from triton_agent.tools.processes.protocol import Load, Loaded, Raised, Trace, Traced
from triton_agent.tools.processes.tensors import Foreign, flatten
from triton_agent.tools.processes.torch_switches import DEFAULT
from triton_agent.tools.processes.wire import Channel
from triton_agent.tools.sandbox import sandbox
from triton_agent.tools.tape.fake_gpu import FakeGpu
from triton_agent.tools.tape.launches import record_launches
from triton_agent.tools.tape.outline import Outline, fill, passed
from triton_agent.tools.tape.recorder import OutOfRecord, ReadsValues, Recorder
from triton_agent.tools.tape.slicing import CALLS, Retained, lasting, parts_of
from triton_agent.tools.tape.tape import Constexpr, Launch, Place, Tape, View, encode, mentioned

CANDIDATE_MODULE = "candidate"
ENDINGS: dict[type[BaseException], str] = {
    ReadsValues: "reads_values",
    OutOfRecord: "not_on_tape",
    Retained: "retained",
    Foreign: "foreign",
    NotKernelLanguage: "kernel",
}
"""Exceptions for which a candidate has no tape, with their names in replies."""


class CandidateRaised(Exception):
    """The candidate's code raised; `report` is the reply that describes it."""

    def __init__(self, report: Raised) -> None:
        super().__init__(report)
        self.report = report


def warm_up() -> None:
    """Do imports and first uses in the process from which tracers are forked."""
    for name in ("triton", "triton.language", "triton.testing", "torch.nn.functional", "torch.library"):
        importlib.import_module(name)
    importlib.import_module("triton.runtime.jit")
    sandbox.prepare()
    cuda_autocast.install(computes=False)
    recorder = Recorder("")
    with recorder.during(CALLS[0]):
        some = torch.nn.Linear(4, 4)(torch.ones(4, 4))
        torch.nn.functional.softmax(some.float(), -1).sum().reshape(1).expand(3).contiguous()
        torch.zeros(3).add_(torch.arange(3)).to(torch.float16)
    torch.set_num_threads(1)


def main(channel: Channel, plain: dict[str, Any]) -> None:
    """Confine this process, send READY, then serve requests until the checker hangs up."""
    settings = begin(plain)
    ready = confine(settings)
    tracer = Tracer(settings.scratch, settings.card)
    channel.send(to_plain(ready))
    while True:
        request, payloads = receive_request(channel, Load | Trace)
        try:
            reply: Loaded | Traced | Raised = tracer.handle(request, payloads)
        except CandidateRaised as error:
            reply = error.report
        channel.send(to_plain(reply))


class Tracer:
    """Holds this process's one candidate."""

    def __init__(self, scratch: str, facts: dict[str, Any]) -> None:
        self.path = os.path.join(scratch, f"{CANDIDATE_MODULE}.py")
        self.recorder = Recorder(self.path)
        self.capture = Capture()
        self.written = WrittenParameters(self.capture.kernels())
        self.gpu = FakeGpu(facts, self.recorder)
        self.conditions = DEFAULT
        self.model_class: type[torch.nn.Module] | None = None
        self.foreign: set[int] = set()
        """Buffers whose contents come from earlier traces, by steps that were not kept."""
        # mkldnn's operators exist only on the CPU; without them torch decomposes its layers.
        torch.backends.mkldnn.set_flags(False)  # type: ignore[no-untyped-call]
        fake_tensor: Any = importlib.import_module("torch._subclasses.fake_tensor")
        fake_tensor.init_gpu_context = lambda *_: None
        record_launches(self.recorder, self.capture, facts)

    def handle(self, request: Load | Trace, payloads: list[Payload]) -> Loaded | Traced:
        if isinstance(request, Load):
            return self._load(request)
        init, call = (payload.unpack() for payload in payloads)
        return self._trace(request, init, call)

    def _load(self, request: Load) -> Loaded:
        with open(self.path, "w", encoding="utf-8") as file:
            file.write(request.source)
        module = types.ModuleType(CANDIDATE_MODULE)
        module.__file__ = self.path
        sys.modules[CANDIDATE_MODULE] = module
        self.conditions = request.conditions
        with self._candidate("import"), self.recorder.during("import"):
            exec(compile(request.source, self.path, "exec", dont_inherit=True), module.__dict__)
        made = module.__dict__.get("ModelNew")
        if not (isinstance(made, type) and issubclass(made, torch.nn.Module)):
            return Loaded(has_model=False)
        self.model_class = made
        return Loaded(has_model=True)

    def _trace(self, request: Trace, init: Outline, call: Outline) -> Traced:
        """Build the module and call it twice; the second call becomes the tape."""
        recorder, kept = self.recorder, len(self.recorder.entries)
        arguments = self._tensors(init, Place.ARGUMENT)
        inputs = self._tensors(call, Place.INPUT)
        with self._candidate("construct"), recorder.during("construct"):
            torch.default_generator.manual_seed(request.seed)
            args, kwargs = fill(init.values, arguments)
            model = self.model_class(*args, **kwargs)  # type: ignore[misc]
            torch.nn.Module.train(model, request.train)
        state = self._take_state(model, set(request.given))
        buffers = dict(torch.nn.Module.named_buffers(model))
        for phase in CALLS:
            with self._candidate("forward"), recorder.during(phase), torch.no_grad(), self.conditions.calling("cuda"):
                positional, named = passed(fill(call.values, inputs), request.by_keyword)
                returned = model(*positional, **named)
                outputs: list[View] = []

                def keep(tensor: torch.Tensor, outputs: list[View] = outputs) -> int:
                    outputs.append(recorder.view_of(tensor))
                    return len(outputs) - 1

                tree = flatten(returned, keep, (FakeTensor,))
                rebound = self._put_back(model, buffers, {name for name, _ in state})
        with self._candidate("forward"):
            self.written.kernels = self.capture.kernels()
            results = [*outputs, *(view for _, view in rebound)]
            prologue, steps = parts_of(recorder.entries, recorder.buffers, results, self.written, self.foreign)
            tape = Tape(
                buffers=tuple(recorder.buffers),
                inputs=tuple(map(recorder.view_of, inputs)),
                arguments=tuple(map(recorder.view_of, arguments)),
                state=tuple(state),
                prologue=prologue,
                steps=steps,
                tree=tree,
                outputs=tuple(outputs),
                rebound=tuple(rebound),
            )
            tape = renumbered(tape)
        recorder.entries[kept:], self.foreign = lasting(
            recorder.entries[kept:], recorder.buffers, self.written, self.foreign
        )
        return Traced(tape=encode(tape), kernels=reached(self.capture.kernels(), tape).to_json())

    def _tensors(self, outline: Outline, place: Place) -> list[torch.Tensor]:
        """Return tensors without values that match the outline."""
        rows = self.recorder.made_input(outline.storages_bytes, place)
        made = []
        with self.recorder.fake:
            for at in outline.tensors:
                row = rows[at.storage].view(getattr(torch, at.dtype))
                made.append(row.as_strided(at.shape, at.strides, at.offset))
        return made

    def _take_state(self, model: torch.nn.Module, given: set[str]) -> list[tuple[str, View]]:
        """Return the parameters and buffers that the checker sets, and mark their memory as coming from outside."""
        plain = torch.nn.Module
        named = {**dict(plain.named_parameters(model, remove_duplicate=False)), **dict(plain.named_buffers(model))}
        with self._candidate("construct"):
            state = [(name, self.recorder.view_of(tensor)) for name, tensor in named.items() if name in given]
            for name in given & named.keys():
                fake: Any = named[name]
                fake.constant = None  # the checker replaces the value that the constructor wrote
        for _, view in state:
            buffer = self.recorder.buffers[view.buffer]
            self.recorder.buffers[view.buffer] = dataclasses.replace(buffer, place=Place.STATE)
        return state

    def _put_back(
        self, model: torch.nn.Module, before: dict[str, torch.Tensor], given: set[str]
    ) -> list[tuple[str, View]]:
        """Restore buffers that forward bound to another tensor, for the next call; return those tensors by name."""
        now = dict(torch.nn.Module.named_buffers(model))
        rebound = []
        for name in given & before.keys():
            if name in now and now[name] is not before[name]:
                rebound.append((name, self.recorder.view_of(now[name])))
                owner, _, attribute = name.rpartition(".")
                torch.nn.Module.get_submodule(model, owner)._buffers[attribute] = before[name]
        return rebound

    @contextlib.contextmanager
    def _candidate(self, phase: str) -> Iterator[None]:
        """Report every exception of the candidate's code, which runs only inside this context."""
        try:
            with warnings.catch_warnings(), self.gpu:
                warnings.simplefilter("ignore")
                yield
                if self.recorder.missed:
                    raise self.recorder.missed
        except BaseException as raised:  # SystemExit and KeyboardInterrupt come from the candidate here, too
            error = self.recorder.missed or raised
            ending = next((name for kind, name in ENDINGS.items() if isinstance(error, kind)), "")
            cause = error
            while not ending and cause.__cause__ is not None:
                cause = cause.__cause__
                ending = next((name for kind, name in ENDINGS.items() if isinstance(cause, kind)), "")
            report = report_of(cause if ending else error, self.path)
            raise CandidateRaised(dataclasses.replace(report, phase=phase, ending=ending)) from None


def reached(kernels: KernelSet, tape: Tape) -> KernelSet:
    """Return the functions that a tape needs: those it launches or passes to launches, and those they use."""
    wanted = list(tape.kernels())
    for launch in (step for step in (*tape.prologue, *tape.steps) if isinstance(step, Launch)):
        for _, value in (argument for choice in launch.choices for argument in choice.arguments):
            wanted += function_references(value_from_json(value.value)) if isinstance(value, Constexpr) else []
    found: dict[str, JitFunction] = {}
    while wanted:
        identity = wanted.pop()
        if identity not in found:
            found[identity] = kernels.functions[identity]
            wanted += found[identity].references()
    return KernelSet(functions=found)


def renumbered(tape: Tape) -> Tape:
    """Return the tape with only the buffers it uses, numbered in order."""
    numbers: dict[int, int] = {}
    outside = (*tape.inputs, *tape.arguments, *(view for _, view in tape.state))
    inside = (number for step in (*tape.prologue, *tape.steps) for number in mentioned(step))
    left = (*tape.outputs, *(view for _, view in tape.rebound))
    for number in (*(view.buffer for view in outside), *inside, *(view.buffer for view in left)):
        numbers.setdefault(number, len(numbers))

    def renamed(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(renamed(item) for item in value)
        if not dataclasses.is_dataclass(value) or isinstance(value, type):
            return value
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        plain = ("tree", "value", "data", "buffers")
        changes = {name: renamed(field) for name, field in fields.items() if name not in (*plain, "buffer")}
        if "buffer" in fields:
            changes["buffer"] = numbers[fields["buffer"]]
        return dataclasses.replace(value, **changes)

    found: Tape = renamed(tape)
    return dataclasses.replace(found, buffers=tuple(tape.buffers[number] for number in numbers))
