"""From a candidate's text to tapes that may be run: one for every form that a call takes.

Calls have the same tape where the same module gets tensors of the same shapes, strides and dtypes, and the same plain
values. The tracer is asked once for each such form; what it answers is decoded, admitted and kept.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Sequence
from typing import Any

from triton_agent.tools.isolate.payloads import Payload, pack
from triton_agent.tools.isolate.tensors import Malformed
from triton_agent.tools.results import Finding
from triton_agent.tools.tape.admission import UnknownOption, admit
from triton_agent.tools.tape.kernel_effects import WrittenParameters
from triton_agent.tools.tape.kernel_errors import NotKernelLanguage
from triton_agent.tools.tape.kernel_language import check
from triton_agent.tools.tape.kernels import KernelSet
from triton_agent.tools.tape.outline import Outline, outline
from triton_agent.tools.tape.slicing import retained_by, writes_state
from triton_agent.tools.tape.tape import Place, Tape, decode
from triton_agent.tools.verify.plan import Case, Trial
from triton_agent.tools.verify.session import Failed, Session

MADE_BY_FORGERY = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError)
"""What looking at a forged tape may raise where no check was thought of. Passed on, it would end as the evaluator's own
failure, and the attempt would count for nothing."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Program:
    """A tape as the executor is sent it."""

    name: str
    tape: Tape
    encoded: Any
    """The tape as JSON."""
    kernels: Any
    """The kernels it launches as JSON."""
    kernel_set: KernelSet
    init: Payload
    seed: int
    writes_state: bool
    """Whether a call may write into parameters or buffers, as far as can be told from the kernels' texts."""


@functools.lru_cache(maxsize=512)
def outline_of(case: Case) -> Outline:
    """What this call looks like without values."""
    return outline(case.expectation.packed_inputs.unpack("cpu"))


@functools.lru_cache(maxsize=512)
def packed(value: Case | Trial) -> Payload:
    """The outline of a case's inputs, or of a trial's constructor arguments, ready to be sent."""
    return pack(outline_of(value) if isinstance(value, Case) else constructor_of(value))


@functools.lru_cache(maxsize=64)
def constructor_of(trial: Trial) -> Outline:
    """What the constructor is given, without values."""
    return outline(trial.packed_init.unpack("cpu"))


@functools.lru_cache(maxsize=64)
def state_shapes(trial: Trial) -> dict[str, tuple[int, ...]]:
    """Shapes of the reference's parameters and buffers."""
    return {name: tuple(tensor.shape) for name, tensor in trial.states[0].unpack("cpu").items()}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TracedForm:
    """All that a tape depends on, but for the candidate."""

    call: Outline
    constructor: Outline
    shapes: dict[str, tuple[int, ...]]
    """Of the reference's parameters and buffers."""
    train: bool


class Programs:
    """The tapes of one candidate."""

    def __init__(self, source: str, conditions: dict[str, Any], tracer: Session) -> None:
        self._source = source
        self._conditions = conditions
        self._tracer = tracer
        self._known: dict[tuple[Any, ...], Program] = {}
        self._kernels: dict[str, tuple[KernelSet, WrittenParameters]] = {}
        self._is_loaded = False
        self.misfit = ""
        """Parameters that did not find their namesake; explains wrong values."""

    def of(self, trial: Trial, case: Case) -> Program:
        """The tape of this call."""
        call = outline_of(case)
        key = (trial.variant, case.train, repr(call.values), call.tensors, call.storages_bytes)
        if key not in self._known:
            self._known[key] = self._trace(trial, case, f"{trial.variant} {len(self._known)}")
        return self._known[key]

    def all(self) -> list[Program]:
        return list(self._known.values())

    def _load(self) -> None:
        self._tracer.await_ready()
        reply, _ = self._tracer.ask("load", source=self._source, conditions=self._conditions)
        if "no_model" in reply:
            raise Failed(Finding.NO_MODEL, "ModelNew is not a subclass of torch.nn.Module")
        self._is_loaded = True

    def _trace(self, trial: Trial, case: Case, name: str) -> Program:
        form = TracedForm(
            call=outline_of(case), constructor=constructor_of(trial), shapes=state_shapes(trial), train=case.train
        )
        tape, kernels, reply = self.traced(form, [packed(trial), packed(case)], seed=trial.build_seed)
        return Program(
            name=name,
            tape=tape,
            encoded=reply["tape"],
            kernels=reply["kernels"],
            kernel_set=kernels,
            init=trial.packed_init,
            seed=trial.build_seed,
            writes_state=writes_state(tape, self._checked(reply["kernels"])[1]),
        )

    def traced(
        self, form: TracedForm, payloads: Sequence[Payload], *, seed: int
    ) -> tuple[Tape, KernelSet, dict[str, Any]]:
        """The tape of a form, its kernels, and what the tracer said; `payloads` are outlines, the constructor first."""
        if not self._is_loaded:
            self._load()
        given = sorted(form.shapes)
        reply, _ = self._tracer.ask("trace", payloads, seed=seed, train=form.train, given=given)
        tape, kernels = self._admitted(reply, form)
        self._refuse_misfits(tape, form.shapes)
        return tape, kernels, reply

    def _admitted(self, reply: dict[str, Any], form: TracedForm) -> tuple[Tape, KernelSet]:
        try:
            tape = decode(reply["tape"])
            if not isinstance(tape, Tape):
                raise Malformed("no tape")
            admit(tape, form.call, form.constructor, form.shapes)
            kernels, written = self._checked(reply["kernels"])
            if set(tape.kernels()) - kernels.functions.keys():
                raise Malformed("a kernel without a text")
            retained = retained_by(tape, written)
        except NotKernelLanguage as error:
            raise Failed(Finding.KERNEL_LANGUAGE, str(error)) from error
        except UnknownOption as error:
            raise Failed(Finding.RAISED, str(error)) from error
        except (Malformed, *MADE_BY_FORGERY) as error:
            raise Failed(Finding.TAMPERED, f"the record of the call contradicts itself ({error})") from error
        if retained:
            raise Failed(
                Finding.RETAINED_INPUT, f"{retained}, so the next call would find what this one left; use fresh memory"
            )
        kept = {view.buffer for view in tape.outputs} & _made_before(tape)
        if kept:
            raise Failed(
                Finding.SHARED_OUTPUT,
                "an output lies in memory that was there before the call, and that other calls return as well; "
                "allocate outputs anew per call",
            )
        return tape, kernels

    def _checked(self, data: Any) -> tuple[KernelSet, WrittenParameters]:
        """Return the kernels and what they write. Most tapes of a candidate have the same ones: these are read once."""
        text = json.dumps(data)
        if text not in self._kernels:
            kernels = KernelSet.from_json(data)
            check(kernels)
            self._kernels[text] = kernels, WrittenParameters(kernels)
        return self._kernels[text]

    def _refuse_misfits(self, tape: Tape, shapes: dict[str, tuple[int, ...]]) -> None:
        """Parameters under the reference's names have the reference's shapes."""
        own = dict(tape.state)
        misfits = sorted(name for name, view in own.items() if view.shape != shapes[name])
        if misfits:
            raise Failed(Finding.CONSTRUCT, f"parameters have other shapes than the reference's: {', '.join(misfits)}")
        missing = sorted(shapes.keys() - own.keys())
        if missing:
            self.misfit = f"ModelNew has no parameter or buffer named {', '.join(missing[:6])}"


def _made_before(tape: Tape) -> set[int]:
    """Buffers that the prologue makes, or that come with the constructor's arguments."""
    made_in_call = _made_in(tape)  # once: a tape may have a hundred thousand buffers
    return {
        number
        for number, buffer in enumerate(tape.buffers)
        if buffer.place is Place.ARGUMENT or (buffer.place is Place.FRESH and number not in made_in_call)
    }


def _made_in(tape: Tape) -> set[int]:
    """Buffers that are made in the call itself."""
    made: set[int] = set()
    for step in tape.steps:
        if hasattr(step, "buffer"):
            made.add(step.buffer)
        elif hasattr(step, "results"):
            made |= {view.buffer for view in step.results if view is not None}
    return made
