"""From a candidate's text to admitted tapes, one for every form of call.

Calls share a tape if the same module gets tensors of the same shapes, strides and dtypes, and the same plain values.
The tracer is asked once for each such form; its reply is decoded, admitted and cached.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from typing import Any

from triton_agent.tools.cases.plan import Case, Trial, once_for_each
from triton_agent.tools.checker.session import Failed, Session
from triton_agent.tools.errors import InstrumentError
from triton_agent.tools.kernels.effects import WrittenParameters
from triton_agent.tools.kernels.kernel import KernelSet, NotKernelLanguage
from triton_agent.tools.kernels.language import check
from triton_agent.tools.processes.payloads import Payload, pack
from triton_agent.tools.processes.protocol import Load, Loaded, Trace, Traced
from triton_agent.tools.processes.tensors import Malformed
from triton_agent.tools.processes.torch_switches import Conditions
from triton_agent.tools.results import Finding
from triton_agent.tools.tape.admission import UnknownOption, admit
from triton_agent.tools.tape.outline import Outline, outline
from triton_agent.tools.tape.slicing import retained_by, writes_state
from triton_agent.tools.tape.tape import Allocate, Constant, Operate, Place, Tape, decode

Checked = tuple[KernelSet, WrittenParameters]
"""The kernels of a tape, and the parameters that each of them writes through."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Program:
    """A tape in the form in which it is sent to the executor."""

    name: str
    tape: Tape
    encoded: Any
    """The tape as JSON data."""
    kernels: Any
    """Its kernels as JSON data."""
    kernel_set: KernelSet
    init: Payload
    seed: int
    writes_state: bool
    """True if a call may write into parameters or buffers, judging by the kernels' texts."""


@once_for_each
def outline_of(case: Case) -> Outline:
    """Return the arguments of a call without tensor values."""
    return outline(case.expectation.packed_inputs.unpack("cpu"))


@once_for_each
def constructor_of(trial: Trial) -> Outline:
    """Return the constructor's arguments without tensor values."""
    return outline(trial.packed_init.unpack("cpu"))


@once_for_each
def packed(value: Case | Trial) -> Payload:
    """Return the outline of a case's inputs, or of a trial's constructor arguments, ready to be sent."""
    return pack(outline_of(value) if isinstance(value, Case) else constructor_of(value))


@once_for_each
def form_of(case: Case) -> str:
    """Return a key that is equal for two cases exactly if a candidate's calls have the same form."""
    call = outline_of(case)
    return repr((case.train, call.values, call.tensors, call.storages_bytes))


@once_for_each
def state_shapes(trial: Trial) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the reference's parameters and buffers."""
    return {name: tuple(tensor.shape) for name, tensor in trial.states[0].unpack("cpu").items()}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TracedForm:
    """Everything that a tape depends on besides the candidate."""

    call: Outline
    constructor: Outline
    shapes: dict[str, tuple[int, ...]]
    """Shapes of the reference's parameters and buffers."""
    train: bool
    by_keyword: tuple[str, ...] = ()
    """Names of the last arguments of the call, which forward takes by keyword only."""


class Programs:
    """The tapes of one candidate."""

    def __init__(self, source: str, conditions: Conditions, tracer: Session) -> None:
        self._source = source
        self._conditions = conditions
        self._tracer = tracer
        self._known: dict[tuple[str, str], Program] = {}
        self._kernels: dict[str, Checked] = {}
        self._is_loaded = False
        self.misfit = ""
        """Names the parameters of the reference that the candidate lacks, to explain wrong values."""

    def of(self, trial: Trial, case: Case) -> Program:
        """Return the tape of this call; raise `Failed` if it has none."""
        key = trial.variant, form_of(case)
        if key not in self._known:
            tape, kernels, reply = self.traced_in(trial, outline_of(case), packed(case), train=case.train)
            self._known[key] = Program(
                name=f"{trial.variant} {len(self._known)}",
                tape=tape,
                encoded=reply.tape,
                kernels=reply.kernels,
                kernel_set=kernels,
                init=trial.packed_init,
                seed=trial.build_seed,
                writes_state=writes_state(tape, self._checked(reply.kernels)[1]),
            )
        return self._known[key]

    def all(self) -> list[Program]:
        return list(self._known.values())

    def traced_in(
        self, trial: Trial, call: Outline, payload: Payload, *, train: bool
    ) -> tuple[Tape, KernelSet, Traced]:
        """Trace a call of a trial's module; `payload` holds the outline of the call."""
        form = TracedForm(
            call=call,
            constructor=constructor_of(trial),
            shapes=state_shapes(trial),
            train=train,
            by_keyword=trial.by_keyword,
        )
        return self.traced(form, [packed(trial), payload], seed=trial.build_seed)

    def traced(self, form: TracedForm, payloads: Sequence[Payload], *, seed: int) -> tuple[Tape, KernelSet, Traced]:
        """Return a form's tape, its kernels and the tracer's reply; `payloads` hold the constructor and the call."""
        if not self._is_loaded:
            self._tracer.await_ready()
            loaded, _ = self._tracer.ask(Load(source=self._source, conditions=self._conditions), Loaded)
            if not loaded.has_model:
                raise Failed(Finding.NO_MODEL, "ModelNew is not a subclass of torch.nn.Module")
            self._is_loaded = True
        request = Trace(seed=seed, train=form.train, given=tuple(sorted(form.shapes)), by_keyword=form.by_keyword)
        reply, _ = self._tracer.ask(request, Traced, payloads)
        tape, kernels = admitted(reply.tape, reply.kernels, form, self._checked)
        own = dict(tape.state)
        misfits = sorted(name for name, view in own.items() if view.shape != form.shapes[name])
        if misfits:
            raise Failed(Finding.CONSTRUCT, f"parameters have other shapes than the reference's: {', '.join(misfits)}")
        missing = sorted(form.shapes.keys() - own.keys())
        if missing:
            self.misfit = f"ModelNew has no parameter or buffer named {', '.join(missing[:6])}"
        return tape, kernels, reply

    def _checked(self, data: Any) -> Checked:
        """Return `checked(data)`, cached: most tapes of a candidate have the same kernels."""
        text = json.dumps(data)
        if text not in self._kernels:
            self._kernels[text] = checked(data)
        return self._kernels[text]


def checked(data: Any) -> Checked:
    """Decode and check the kernels of a tape; return them with their written parameters."""
    kernels = KernelSet.from_json(data)
    check(kernels)
    return kernels, WrittenParameters(kernels)


def admitted(
    encoded: Any, kernel_data: Any, form: TracedForm, read: Callable[[Any], Checked] = checked
) -> tuple[Tape, KernelSet]:
    """Return a tape that may be run; raise `Failed` if it may not, or if it keeps values between calls.

    A forged tape raises `Malformed` in one of the checks. Any other exception is a bug in the checks and says nothing
    about the candidate.
    """
    try:
        tape = decode(encoded)
        if not isinstance(tape, Tape):
            raise Malformed("no tape")
        admit(tape, form.call, form.constructor, form.shapes)
        kernels, written = read(kernel_data)
        if set(tape.kernels()) - kernels.functions.keys():
            raise Malformed("a kernel without a text")
        retained = retained_by(tape, written)
        is_shared = bool({view.buffer for view in tape.outputs} & _made_before(tape))
    except NotKernelLanguage as error:
        raise Failed(Finding.KERNEL_LANGUAGE, str(error)) from error
    except UnknownOption as error:
        raise Failed(Finding.RAISED, str(error)) from error
    except (Malformed, RecursionError, OverflowError) as error:  # excessive nesting and numbers are forged, too
        raise Failed(Finding.TAMPERED, f"the tape contradicts itself ({error})") from error
    except Exception as error:
        raise InstrumentError(
            f"a bug of ours: the tape could not be read ({type(error).__name__}: {error})",
            remedy="report it with the candidate",
        ) from error
    if retained:
        raise Failed(
            Finding.RETAINED_INPUT, f"{retained}, so the next call would find what this one left; use fresh memory"
        )
    if is_shared:
        raise Failed(
            Finding.SHARED_OUTPUT,
            "an output lies in memory that was there before the call, and that other calls return as well; "
            "allocate outputs anew per call",
        )
    return tape, kernels


def _made_before(tape: Tape) -> set[int]:
    """Return the buffers made by the prologue, or passed with the constructor's arguments."""
    made_in_call: set[int] = set()
    for step in tape.steps:
        if isinstance(step, (Allocate, Constant)):
            made_in_call.add(step.buffer)
        elif isinstance(step, Operate):
            made_in_call |= {view.buffer for view in step.results if view is not None}
    return {
        number
        for number, buffer in enumerate(tape.buffers)
        if buffer.place is Place.ARGUMENT or (buffer.place is Place.FRESH and number not in made_in_call)
    }
