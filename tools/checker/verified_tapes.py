"""The tapes of a candidate as plain data, for whoever writes a file of them.

They are traced at the sizes at which the problem is checked. Where those were scaled down, the candidate is traced once
more at the sizes as given, at which nothing runs. An autotuned launch comes with the configuration that the executor
finds best here; where nothing runs, with the first one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from triton_agent.tools.checker.job import Job
from triton_agent.tools.checker.pipeline import Stage, screen_text
from triton_agent.tools.checker.questions import call
from triton_agent.tools.checker.session import Failed
from triton_agent.tools.checker.tracing import Program, TracedForm, constructor_of, outline_of
from triton_agent.tools.errors import ProblemError
from triton_agent.tools.machine.lease import Mode
from triton_agent.tools.problem.problem import ProblemSpec
from triton_agent.tools.processes.payloads import pack
from triton_agent.tools.processes.tensors import NAMES
from triton_agent.tools.reference.reference import load
from triton_agent.tools.results import Finding
from triton_agent.tools.tape.outline import Outline, outline, to_json
from triton_agent.tools.tape.tape import Launch
from triton_agent.tools.truth.plan import Case, Trial


def trace_main(job: Job) -> None:
    """Trace every form of call at the sizes at which the problem is checked."""
    trial = job.plan.trials[job.plan.main]
    for case in trial.cases:
        job.programs.of(trial, case)


STAGES: tuple[Stage, ...] = (("screen", screen_text), ("trace", trace_main))


def tapes_of(job: Job, spec: ProblemSpec) -> list[dict[str, Any]]:
    """Return the module at the sizes as given, then as scaled down if it was, each with its calls; raise `Failed`."""
    trial = job.plan.trials[job.plan.main]
    as_given = [_as_given(job, spec, trial)] if job.plan.facts["scaled"] else []
    return [*as_given, _as_checked(job, spec, trial)]


def _as_checked(job: Job, spec: ProblemSpec, trial: Trial) -> dict[str, Any]:
    """The calls that a verdict is about."""
    programs = {job.programs.of(trial, case).name: (job.programs.of(trial, case), case) for case in trial.cases}
    forms = []
    for program, case in programs.values():
        chosen = _chosen(job, trial, program, case)
        forms.append(_form(program.encoded, program.kernels, outline_of(case), case.train, chosen))
    parameters, buffers = _names(spec)
    return _module(trial.states[0].unpack("cpu"), buffers, constructor_of(trial), parameters, forms)


def _as_given(job: Job, spec: ProblemSpec, trial: Trial) -> dict[str, Any]:
    """The same at the sizes as given, without memory behind the tensors."""
    try:
        reference = load(spec)
        constructor = outline(reference.told_arguments())
        with FakeTensorMode():
            model, given = reference.make_model(0), outline(reference.make_inputs(0))
        parameters = reference.forward_parameters()
        reference.close()
    except (ProblemError, RuntimeError, NotImplementedError, TypeError) as reason:
        message = f"the reference cannot be followed at the sizes as given: {reason}"
        raise Failed(Finding.NOT_RECORDED, message) from reason
    buffers = dict(model.named_buffers())
    state = dict(model.named_parameters(remove_duplicate=False)) | buffers
    shapes = {name: tuple(tensor.shape) for name, tensor in state.items()}
    forms = []
    for train in dict.fromkeys(case.train for case in trial.cases):
        form = TracedForm(call=given, constructor=constructor, shapes=shapes, train=train)
        _, _, reply = job.programs.traced(form, [pack(constructor), pack(given)], seed=trial.build_seed)
        forms.append(_form(reply.tape, reply.kernels, given, train, {}))
    return _module(state, frozenset(buffers), constructor, parameters, forms)


def _chosen(job: Job, trial: Trial, program: Program, case: Case) -> dict[str, int]:
    """The configuration of each autotuned launch, found by running the tape once with the GPU held alone."""
    steps = (*program.tape.prologue, *program.tape.steps)
    if not any(isinstance(step, Launch) and len(step.choices) > 1 for step in steps):
        return {}
    job.runner.await_ready()
    with job.gpu(Mode.EXCLUSIVE):
        _, reply = call(job, trial, case)
    return {str(number): choice for number, choice in reply.chosen.items()}


def _form(tape: Any, kernels: Any, given: Outline, train: bool, chosen: dict[str, int]) -> dict[str, Any]:
    return {"tape": tape, "kernels": kernels, "call": to_json(given), "train": train, "chosen": chosen}


def _module(
    state: Mapping[str, torch.Tensor],
    buffers: frozenset[str],
    constructor: Outline,
    parameters: tuple[str, ...],
    forms: list[dict[str, Any]],
) -> dict[str, Any]:
    tensors = [
        {
            "name": name,
            "dtype": NAMES[tensor.dtype],
            "shape": list(map(int, tensor.shape)),
            "strides": list(map(int, tensor.stride())),
            "is_buffer": name in buffers,
        }
        for name, tensor in state.items()
    ]
    return {"constructor": to_json(constructor), "state": tensors, "parameters": list(parameters), "forms": forms}


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
