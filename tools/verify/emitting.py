"""A candidate's tapes as a Python file: traced at the problem's own sizes, written by the checker (`tape/emission.py`).

Autotuned launches are frozen in the configuration that the executor finds best here. Forms of other sets of inputs,
which have checkers of their own, come along as plain data.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from triton_agent.tools.errors import ProblemError
from triton_agent.tools.isolate.payloads import pack
from triton_agent.tools.isolate.tensors import NAMES
from triton_agent.tools.problem import ProblemSpec
from triton_agent.tools.results import Finding
from triton_agent.tools.tape.emission import Form, ModelOutline, NotEmitted, StateTensor, emit
from triton_agent.tools.tape.kernels import KernelSet
from triton_agent.tools.tape.outline import Outline, outline
from triton_agent.tools.tape.tape import Launch, Tape, decode
from triton_agent.tools.timing.lease import Mode
from triton_agent.tools.verify.job import Job
from triton_agent.tools.verify.pipeline import Stage, screen_text
from triton_agent.tools.verify.plan import Case, Trial
from triton_agent.tools.verify.questions import call
from triton_agent.tools.verify.reference import load
from triton_agent.tools.verify.session import Failed
from triton_agent.tools.verify.tracing import Program, TracedForm, constructor_of, outline_of


def trace_main(job: Job) -> None:
    """A tape for every form of call at the problem's own sizes."""
    trial = job.plan.trials[job.plan.main]
    for case in trial.cases:
        job.programs.of(trial, case)


STAGES: tuple[Stage, ...] = (("screen", screen_text), ("trace", trace_main))


def emitted(job: Job, spec: ProblemSpec, earlier: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The text, and the forms it has plans for; raises `Failed`."""
    trial = job.plan.trials[job.plan.main]
    if job.plan.facts["scaled"]:
        return _emitted_as_given(job, spec, trial, earlier)
    programs = {job.programs.of(trial, case).name: (job.programs.of(trial, case), case) for case in trial.cases}
    forms = [
        _form_as_data(
            program.encoded, program.kernels, outline_of(case), case.train, _chosen(job, trial, program, case)
        )
        for program, case in programs.values()
    ]
    return _written([*earlier, *forms], _model(spec, trial))


def _written(forms: Sequence[Mapping[str, Any]], model: ModelOutline) -> dict[str, Any]:
    kernels = KernelSet()
    for form in forms:
        kernels = kernels.merged(KernelSet.from_json(form["kernels"]))
    try:
        text = emit([_form(data) for data in forms], kernels, model)
    except NotEmitted as reason:
        raise Failed(Finding.NOT_RECORDED, f"no file can be written of what it does: {reason}") from reason
    return {"text": text, "forms": list(forms)}


def _emitted_as_given(
    job: Job, spec: ProblemSpec, trial: Trial, earlier: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """The same for a problem that was scaled down to be checked: traced once more at the sizes as given.

    Nothing runs at these sizes, so of an autotuned launch the first configuration is taken.
    """
    try:
        model, call = _as_given(spec)
    except (ProblemError, RuntimeError, NotImplementedError, TypeError) as reason:
        what = f"the original cannot be followed at the sizes as given: {reason}"
        raise Failed(Finding.NOT_RECORDED, what) from reason
    shapes = {tensor.name: tensor.shape for tensor in model.state}
    forms = []
    for train in dict.fromkeys(case.train for case in trial.cases):
        form = TracedForm(call=call, constructor=model.constructor, shapes=shapes, train=train)
        _, _, reply = job.programs.traced(form, [pack(model.constructor), pack(call)], seed=trial.build_seed)
        forms.append(_form_as_data(reply["tape"], reply["kernels"], call, train, {}))
    return _written([*earlier, *forms], model)


def _as_given(spec: ProblemSpec) -> tuple[ModelOutline, Outline]:
    """The reference and its inputs at the sizes as given, without memory behind them."""
    reference = load(spec)
    constructor = outline(reference.told_arguments())
    with FakeTensorMode():
        model, call = reference.make_model(0), outline(reference.make_inputs(0))
    parameters = dict(model.named_parameters(remove_duplicate=False))
    buffers = dict(model.named_buffers())
    state = tuple(_state_tensor(name, tensor, name in buffers) for name, tensor in (parameters | buffers).items())
    found = ModelOutline(state=state, constructor=constructor, parameters=reference.forward_parameters())
    reference.close()
    return found, call


def _chosen(job: Job, trial: Trial, program: Program, case: Case) -> dict[str, int]:
    """The configuration of each autotuned launch, found by running the tape once with the GPU alone."""
    steps = (*program.tape.prologue, *program.tape.steps)
    if not any(isinstance(step, Launch) and len(step.choices) > 1 for step in steps):
        return {}
    job.runner.await_ready()
    with job.gpu(Mode.EXCLUSIVE):
        _, reply = call(job, trial, case)
    return {str(number): int(choice) for number, choice in reply["chosen"].items()}


def _form_as_data(tape: Any, kernels: Any, call: Outline, train: bool, chosen: dict[str, int]) -> dict[str, Any]:
    buffer = io.BytesIO()
    torch.save(call, buffer)
    return {
        "tape": tape,
        "kernels": kernels,
        "call": base64.b64encode(buffer.getvalue()).decode(),
        "train": train,
        "chosen": chosen,
    }


def _form(data: Mapping[str, Any]) -> Form:
    tape = decode(data["tape"])
    assert isinstance(tape, Tape)  # admitted by the checker that sent it
    return Form(
        tape=tape,
        call=torch.load(io.BytesIO(base64.b64decode(data["call"])), weights_only=False),
        train=bool(data["train"]),
        chosen={int(number): choice for number, choice in data["chosen"].items()},
    )


def _model(spec: ProblemSpec, trial: Trial) -> ModelOutline:
    parameters, buffers = _names(spec)
    state = trial.states[0].unpack("cpu")
    return ModelOutline(
        state=tuple(_state_tensor(name, tensor, name in buffers) for name, tensor in state.items()),
        constructor=constructor_of(trial),
        parameters=parameters,
    )


def _state_tensor(name: str, tensor: torch.Tensor, is_buffer: bool) -> StateTensor:
    shape, strides = tuple(map(int, tensor.shape)), tuple(map(int, tensor.stride()))
    return StateTensor(name=name, dtype=NAMES[tensor.dtype], shape=shape, strides=strides, is_buffer=is_buffer)


def _names(spec: ProblemSpec) -> tuple[tuple[str, ...], frozenset[str]]:
    """Names of forward's parameters, and of the reference's buffers where that can be told without making it."""
    try:
        reference = load(spec)
    except ProblemError:
        return (), frozenset()
    try:
        with torch.device("meta"):
            buffers = frozenset(dict(reference.make_model(0).named_buffers()))
    except (ProblemError, RuntimeError, NotImplementedError):
        buffers = frozenset()
    parameters = reference.forward_parameters()
    reference.close()
    return parameters, buffers
