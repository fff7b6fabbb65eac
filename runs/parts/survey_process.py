"""The process that surveys a model: makes it twice, runs it, and prints the survey as one line of JSON.

For a large model without a GPU, tensors are fake, so that it costs nothing.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import inspect
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from triton_agent.runs.cli.own_process import reply
from triton_agent.runs.parts.construction import ConstructorArguments, Made, difference, literal, state_form, watched
from triton_agent.runs.parts.drawing import Indescribable, case, expression
from triton_agent.runs.parts.recording import Calls, Cost, Costs, FirstCall, device_times
from triton_agent.runs.parts.survey import ModelSurvey, Submodule
from triton_agent.tools.machine.hardware import uuid_of
from triton_agent.tools.machine.lease import Mode, lease
from triton_agent.tools.problem import source as problem_source
from triton_agent.tools.problem.problem import ProblemSpec
from triton_agent.tools.reference.input_tensors import map_tensors, tensors_in
from triton_agent.tools.reference.reference import Reference, load

SMALL_ELEMENTS = 1 << 24
"""Up to this number of elements of inputs and parameters the model is run with real tensors: seconds on one core."""
REPEATS = 5
SEED = 0


def main(text: str, device: str) -> None:
    reply(lambda: _survey(ProblemSpec.from_json(json.loads(text)), device).to_json())


def _survey(spec: ProblemSpec, device: str) -> ModelSurvey:
    reference = load(spec)
    with _alone_with_the_gpu(spec, device), _memory(reference, device):
        classes = {type(module) for module in reference.make_model(SEED).modules()}
        with watched(classes) as made:
            model = reference.make_model(SEED).eval()
        inputs = reference.make_inputs(SEED)
        unlike = {id(module): _unlike(reference, module, arguments) for module, arguments in made.values()}
        if device == "cuda":
            model = model.to("cuda")
            inputs = [map_tensors(value, lambda tensor: tensor.cuda()) for value in inputs]
        calls = Calls(model)
        costs = Costs(calls)
        with torch.no_grad(), reference.running("forward"):
            with calls.watching(), costs:
                model(*inputs)
            times = device_times(model, lambda: model(*inputs), REPEATS) if device == "cuda" else None
        root, _ = problem_source.import_root(Path(spec.path))
        found = [
            _described(path, module, calls, costs, times, made, unlike, root) for module, path in calls.names.items()
        ]
    return ModelSurvey(measured=times is not None, submodules=tuple(found))


def _alone_with_the_gpu(spec: ProblemSpec, device: str) -> contextlib.AbstractContextManager[None]:
    if device != "cuda":
        return contextlib.nullcontext()
    return lease(uuid_of(0), what=f"triton-agent: submodules of {spec.name}", mode=Mode.EXCLUSIVE)


@contextlib.contextmanager
def _memory(reference: Reference, device: str) -> Iterator[None]:
    """Use real tensors, or fake ones for a large model on the CPU that can run on them."""
    if device == "cuda" or not _large_and_fakeable(reference):
        yield
    else:
        with FakeTensorMode():
            yield


def _large_and_fakeable(reference: Reference) -> bool:
    try:
        with FakeTensorMode(), torch.no_grad():
            model, inputs = reference.make_model(SEED), reference.make_inputs(SEED)
            reference.call(model, inputs)
            return sum(tensor.numel() for tensor in [*tensors_in(inputs), *model.parameters()]) > SMALL_ELEMENTS
    except Exception:  # whatever a fake tensor is not good for
        return False


def _unlike(reference: Reference, module: nn.Module, arguments: ConstructorArguments | None) -> str:
    if arguments is None:
        return "its constructor's arguments cannot be written down"
    with reference.running("a submodule's constructor"):
        return difference(module, arguments)


def _described(
    path: str,
    module: nn.Module,
    calls: Calls,
    costs: Costs,
    times: dict[str, float] | None,
    made: Made,
    unlike: dict[int, str],
    root: Path,
) -> Submodule:
    called, cost = calls.first.get(path), costs.of[path]
    file = _file_of(type(module), root)
    plain = Submodule(
        path=path,
        class_name=type(module).__name__,
        file=file,
        calls=calls.counts[path],
        operators=cost.operators // max(1, calls.counts[path]),
        cost_ms=1000 * (times.get(path, 0.0) if times is not None else cost.seconds),
        moved_bytes=cost.moved_bytes,
        floor_bytes=_floor_bytes(module, called) * calls.counts[path],
    )
    try:
        return _as_problem(plain, module, called, cost, made.get(id(module), (module, None))[1], unlike)
    except Indescribable as reason:
        return dataclasses.replace(plain, why_not=str(reason))


def _as_problem(
    plain: Submodule,
    module: nn.Module,
    called: FirstCall | None,
    cost: Cost,
    init: ConstructorArguments | None,
    unlike: dict[int, str],
) -> Submodule:
    """Add what a problem of its own needs; raise Indescribable with the reason if that is impossible."""
    if called is None:
        raise Indescribable("it is not called")
    if not plain.file:
        raise Indescribable(f"{plain.class_name} is not a class at the top level of a file of the project")
    if id(module) not in unlike:
        raise Indescribable("it was copied, not constructed")
    if unlike[id(module)]:
        raise Indescribable(unlike[id(module)])
    if not _gives_tensors(called.output):
        raise Indescribable("it gives something other than tensors")
    values, parameters = _in_order(module, called)
    inputs = tuple(_argument(value) for value in values)
    cases = tuple(case(v) if isinstance(v, torch.Tensor) else f"({_kind(v)}, {v!r})" for v in values)
    forms = [[list(t.shape), str(t.dtype), list(t.stride())] for t in tensors_in(values)]
    alike = json.dumps([plain.file, plain.class_name, state_form(module), forms, cost.names], default=str)
    return dataclasses.replace(
        plain,
        alike=hashlib.sha256(alike.encode()).hexdigest()[:16],
        init=str(init),
        inputs=inputs,
        cases=cases,
        parameters=parameters,
    )


def _in_order(module: nn.Module, called: FirstCall) -> tuple[list[Any], tuple[tuple[str, str], ...]]:
    """Return the arguments in the order of forward's parameters, up to the last given one; and these parameters."""
    signature = inspect.signature(type(module).forward)
    bound = signature.bind(module, *called.args, **called.kwargs)
    kinds = {parameter.kind for parameter in signature.parameters.values()}
    if inspect.Parameter.VAR_POSITIONAL in kinds or inspect.Parameter.VAR_KEYWORD in kinds:
        raise Indescribable("its forward takes any number of arguments")
    last = max((place for place, name in enumerate(signature.parameters) if name in bound.arguments), default=0)
    bound.apply_defaults()
    if bound.kwargs:
        raise Indescribable("its forward takes arguments by keyword only")
    given = list(signature.parameters.values())[1 : last + 1]
    return list(bound.args[1 : last + 1]), tuple((item.name, literal(item.default) or "None") for item in given)


def _argument(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return expression(value)
    text = literal(value)
    if not text or isinstance(value, (list, tuple, dict)):
        raise Indescribable(f"it is called with a {type(value).__name__}")
    return text


def _kind(value: Any) -> str:
    return "type(None)" if value is None else type(value).__name__


def _gives_tensors(output: Any) -> bool:
    if isinstance(output, torch.Tensor):
        return True
    plain = type(output) in (tuple, list) and bool(output)
    return plain and all(isinstance(item, torch.Tensor) for item in output)


def _floor_bytes(module: nn.Module, called: FirstCall | None) -> int:
    state = [*module.parameters(), *module.buffers()]
    moved = [*state, *tensors_in([called.args, called.kwargs, called.output])] if called else []
    return sum(tensor.numel() * tensor.element_size() for tensor in moved)


def _file_of(kind: type, root: Path) -> str:
    """Return the file of a class at the top level of the project; empty for all others."""
    file = getattr(sys.modules.get(kind.__module__), "__file__", None) or _source_file(kind)
    if file is None or "." in kind.__qualname__:
        return ""
    path = Path(os.path.realpath(file))
    return str(path) if path.is_relative_to(root.resolve()) else ""


def _source_file(kind: type) -> str | None:
    """Find the file by the code of `forward`: local modules are not in `sys.modules` while their code does not run."""
    forward = getattr(kind, "forward", None)
    return getattr(getattr(forward, "__code__", None), "co_filename", None)


if __name__ == "__main__":
    main(*sys.argv[1:])
