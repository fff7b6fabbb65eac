"""The tapes of a candidate as plain data, for writing a shipped file.

They are traced at the sizes at which the problem is checked. If those were scaled down, the candidate is traced again
at the given sizes, where nothing runs. An autotuned launch comes with the configuration that the executor found best
here, or with the first one if nothing runs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from triton_agent.tools.cases.plan import Case, Trial
from triton_agent.tools.checker.job import Job
from triton_agent.tools.checker.pipeline import Stage, screen_text
from triton_agent.tools.checker.questions import call
from triton_agent.tools.checker.session import Failed
from triton_agent.tools.checker.tracing import Program, TracedForm, constructor_of, outline_of
from triton_agent.tools.errors import ProblemError
from triton_agent.tools.machine.lease import Mode
from triton_agent.tools.problem.problem import ProblemSpec
from triton_agent.tools.problem.size_range import Lengths
from triton_agent.tools.processes.payloads import pack
from triton_agent.tools.processes.protocol import StateTensor, TapedForm, TapedModule
from triton_agent.tools.processes.tensors import NAMES
from triton_agent.tools.reference.reference import load
from triton_agent.tools.results import Finding
from triton_agent.tools.tape.outline import Outline, apart, outline, to_json
from triton_agent.tools.tape.tape import Launch


def trace_main(job: Job) -> None:
    """Trace every form of call at the checked sizes."""
    trial = job.plan.trials[job.plan.main]
    for case in trial.cases:
        job.programs.of(trial, case)


def stages(lengths: Sequence[Lengths]) -> tuple[Stage, ...]:
    """Return the stages that run before tapes are collected."""
    return (("screen", screen_text),) if lengths else (("screen", screen_text), ("trace", trace_main))


def tapes_of(job: Job, spec: ProblemSpec, lengths: Sequence[Lengths] = ()) -> list[TapedModule]:
    """Return the module at the given sizes, then as scaled down if it was, each with its calls; raise `Failed`.

    With `lengths`, return the module at each of these; one that cannot be traced there has no calls.
    """
    trial = job.plan.trials[job.plan.main]
    if lengths:
        return [_at_length(job, dataclasses.replace(spec, lengths=one), trial) for one in lengths]
    as_given = [_as_given(job, spec, trial)] if job.plan.facts["scaled"] else []
    return [*as_given, _as_checked(job, spec, trial)]


def _as_checked(job: Job, spec: ProblemSpec, trial: Trial) -> TapedModule:
    """Return the module with the calls that the verdict covers."""
    programs = {job.programs.of(trial, case).name: (job.programs.of(trial, case), case) for case in trial.cases}
    forms = []
    for program, case in programs.values():
        chosen, call = _chosen(job, trial, program, case), outline_of(case)
        tape, kernels = program.encoded, program.kernels
        if apart(call) != call:  # a plan for arguments that share memory would be wrong for others that look alike
            call = apart(call)
            _, _, reply = job.programs.traced_in(trial, call, pack(call), train=case.train)
            tape, kernels = reply.tape, reply.kernels
        forms.append(TapedForm(tape=tape, kernels=kernels, call=to_json(call), train=case.train, chosen=chosen))
    parameters, buffers = _names(spec)
    return _module(trial.states[0].unpack("cpu"), buffers, constructor_of(trial), parameters, forms)


def _at_length(job: Job, spec: ProblemSpec, trial: Trial) -> TapedModule:
    try:
        return _as_given(job, spec, trial)
    except Failed as failed:
        if failed.worker_died:
            raise
        return TapedModule(constructor=None, state=(), parameters=(), forms=())


def _as_given(job: Job, spec: ProblemSpec, trial: Trial) -> TapedModule:
    """Return the module traced at the given sizes, without memory for its tensors."""
    try:
        reference = load(spec)
        constructor = outline(reference.told_arguments())
        with FakeTensorMode():
            model = reference.make_model(0)
            given = outline(reference.make_inputs(0)) if spec.inputs_file is None else None
        given = apart(given or outline(reference.make_inputs(0)))  # saved inputs are not fake tensors
        parameters, by_keyword = reference.forward_parameters(), reference.keyword_only()
        reference.close()
    except (ProblemError, RuntimeError, NotImplementedError, TypeError) as reason:
        message = f"the reference cannot be followed at the sizes as given: {reason}"
        raise Failed(Finding.NOT_RECORDED, message) from reason
    buffers = dict(model.named_buffers())
    state = dict(model.named_parameters(remove_duplicate=False)) | buffers
    shapes = {name: tuple(tensor.shape) for name, tensor in state.items()}
    forms = []
    for train in dict.fromkeys(case.train for case in trial.cases):
        form = TracedForm(call=given, constructor=constructor, shapes=shapes, train=train, by_keyword=by_keyword)
        _, _, reply = job.programs.traced(form, [pack(constructor), pack(given)], seed=trial.build_seed)
        taped = TapedForm(tape=reply.tape, kernels=reply.kernels, call=to_json(given), train=train, chosen={})
        forms.append(taped)
    return _module(state, frozenset(buffers), constructor, parameters, forms)


def _chosen(job: Job, trial: Trial, program: Program, case: Case) -> dict[int, int]:
    """Return the configuration of each autotuned launch, found by one call with the GPU held exclusively."""
    steps = (*program.tape.prologue, *program.tape.steps)
    if not any(isinstance(step, Launch) and len(step.choices) > 1 for step in steps):
        return {}
    job.runner.await_ready()
    job.await_room()
    with job.gpu(Mode.EXCLUSIVE):
        _, reply = call(job, trial, case)
    return reply.chosen


def _module(
    state: Mapping[str, torch.Tensor],
    buffers: frozenset[str],
    constructor: Outline,
    parameters: tuple[str, ...],
    forms: list[TapedForm],
) -> TapedModule:
    tensors = (
        StateTensor(
            name=name,
            dtype=NAMES[tensor.dtype],
            shape=tuple(map(int, tensor.shape)),
            strides=tuple(map(int, tensor.stride())),
            is_buffer=name in buffers,
        )
        for name, tensor in state.items()
    )
    return TapedModule(
        constructor=to_json(constructor), state=tuple(tensors), parameters=parameters, forms=tuple(forms)
    )


def _names(spec: ProblemSpec) -> tuple[tuple[str, ...], frozenset[str]]:
    """Return the names of forward's parameters, and of the reference's buffers if it can be built without memory."""
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
