"""Finds how a problem's model is constructed and called, by doing both in a separate process.

    find(spec) -> CallForm
    find_all(spec) -> {name of a set of inputs: CallForm}

The problem's file runs there as in the checker: with the user's rights, or in the sandbox without `trust`. No candidate
runs there. Tensors are fake if the reference runs on fake tensors, so that large problems cost nothing; otherwise they
are real.
"""

from __future__ import annotations

import ast
import concurrent.futures
import contextlib
import dataclasses
import json
import sys
import tempfile
import types
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from triton_agent.runs.cli.own_process import ask, reply
from triton_agent.runs.ship.facts import Call, CallForm, TensorForm
from triton_agent.tools.machine.hardware import visible_gpus
from triton_agent.tools.problem.confinement import confinement_for, require_layers
from triton_agent.tools.problem.problem import ProblemSpec
from triton_agent.tools.problem.size_range import Lengths
from triton_agent.tools.sandbox import sandbox

PROCESS = "triton_agent.runs.ship.call_form"
TIMEOUT_S = 300.0
"""The evaluator waits as long for the reference."""
AT_ONCE = 4
"""Processes at a time; each imports torch and builds the model."""


def find(spec: ProblemSpec, *, trust: bool = True) -> CallForm:
    """Return the form of the problem's own call; raise `ProblemError` if the problem does not run."""
    if not trust:
        require_layers()
    with tempfile.TemporaryDirectory(prefix="triton-agent-") as folder:
        scratch = () if trust else (str(Path(folder) / "problem"),)
        purpose = "finding out how its model is called"
        return _from_json(ask(PROCESS, spec, *scratch, purpose=purpose, limit_s=TIMEOUT_S))


def find_all(spec: ProblemSpec, *, trust: bool = True) -> dict[str, CallForm]:
    """Return the forms by the names of the sets of inputs; a problem with one call has an empty name."""
    if not spec.sets:
        return {"": find(spec, trust=trust)}
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as threads:
        found = threads.map(lambda item: find(spec.at(item), trust=trust), spec.sets)
        return {item.name: form for item, form in zip(spec.sets, found)}


def given_lengths(spec: ProblemSpec, form: CallForm) -> Lengths:
    """Return the lengths of the problem's inputs; raise `UsageError` if no input has the dimension of a range."""
    shapes = [item.shape if isinstance(item, TensorForm) else None for item in form.calls[0].arguments]
    first = [one.found_in(shapes, form.parameters)[0] for one in spec.ranges]
    return tuple((shapes[argument] or ())[dimension] for argument, dimension in first)


def measured_over_ranges(spec: ProblemSpec, device: str, *, trust: bool = True) -> ProblemSpec:
    """Return the problem as it is measured on a GPU: a problem with ranges gets a set of inputs for each measured
    length.
    """
    if not spec.ranges or device != "cuda":
        return spec
    return spec.measured_over_ranges(given_lengths(spec, find(spec, trust=trust)))


def joined(forms: Sequence[CallForm]) -> CallForm:
    """Return the form of one model that is called in all of these forms."""
    return dataclasses.replace(forms[0], calls=tuple(call for form in forms for call in form.calls))


def _from_json(data: Mapping[str, Any]) -> CallForm:
    return CallForm(
        constructed=data["constructed"],
        parameters=tuple(data["parameters"]),
        keyword_only=data["keyword_only"],
        defaults=ast.literal_eval(data["defaults"]),
        default_dtype=data["default_dtype"],
        is_bare=data["is_bare"],
        holds_objects=data["holds_objects"],
        state=tuple((name, _form_from(form)) for name, form in data["state"]),
        calls=tuple(
            Call(
                train=call["train"],
                arguments=tuple(_argument_from(item) for item in call["arguments"]),
                own_class=call["own_class"],
            )
            for call in data["calls"]
        ),
    )


def _form_from(data: list[Any]) -> TensorForm:
    return TensorForm(shape=tuple(data[0]), dtype=data[1], strides=tuple(data[2]))


def _argument_from(data: Any) -> Any:
    if "tensor" in data:
        return _form_from(data["tensor"])
    if "nest" in data:
        items = [_argument_from(item) for item in data["items"]]
        if data["nest"] == "dict":
            return dict(zip(data["keys"], items))
        return items if data["nest"] == "list" else tuple(items)
    return ast.literal_eval(data["value"])


# -- in the process of its own -----------------------------------------------------------------------------------------


def main(text: str, scratch: str = "") -> None:
    """Print the form as one line of JSON. With a scratch folder the process enters the sandbox first."""
    spec = ProblemSpec.from_json(json.loads(text))
    if scratch:
        sandbox.enter(confinement_for(spec, Path(scratch), gpu=bool(visible_gpus())))  # before torch starts threads
    reply(lambda: _examine(spec))


def _examine(spec: ProblemSpec) -> dict[str, Any]:
    import torch

    from triton_agent.tools.reference import calling
    from triton_agent.tools.reference.reference import load

    reference = load(spec)
    positional, keywords = reference.told_arguments()
    given = [*map(_written, positional), *(_written(value, f"{name}=") for name, value in keywords.items())]
    with _fake_where_possible(reference) as (model, inputs):
        taken = calling.parameters_of(type(model).forward)
        state = dict(model.named_parameters(remove_duplicate=False))
        state |= model.named_buffers(remove_duplicate=False)
        calls = [_call(reference, model.train(train), inputs) for train in (False, True)]
        is_bare = not (model._parameters or model._buffers or model._modules)
        written = [[name, _form(tensor)] for name, tensor in state.items() if isinstance(tensor, torch.Tensor)]
    return {
        "constructed": None if None in given else ", ".join(map(str, given)),
        "parameters": [item.name for item in taken],
        "keyword_only": len(reference.keyword_only()),
        "defaults": repr({item.name: item.default for item in taken if _literal(item.default) is not None}),
        "state": written,
        "default_dtype": str(torch.get_default_dtype()).removeprefix("torch."),
        "is_bare": is_bare,
        "holds_objects": any(not _is_plain(value) for value in _attributes(model)),
        "calls": calls,
    }


def _attributes(model: Any) -> Iterator[Any]:
    """Yield what a forward may read of the modules beside parameters, buffers and submodules."""
    import torch

    of_any = vars(torch.nn.Module())
    for module in model.modules():
        of_torch = type(module).__module__.startswith("torch.")
        for name, value in vars(module).items():
            if name not in of_any and not (of_torch and name.startswith("_")):
                yield value


def _is_plain(value: Any) -> bool:
    """Return True for what does not change without being replaced: numbers, names, functions, and tuples of them."""
    import torch

    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    fixed = (int, float, complex, str, bytes, type(None), torch.dtype, torch.device, type)
    return isinstance(value, (*fixed, types.FunctionType, types.BuiltinFunctionType))


@contextlib.contextmanager
def _fake_where_possible(reference: Any) -> Iterator[tuple[Any, list[Any]]]:
    """Yield the model and its inputs, fake if the reference runs on fake tensors."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    try:
        with FakeTensorMode():
            reference.call(reference.make_model(0), reference.make_inputs(0))
            is_real = False
    except Exception:  # fake tensors do not support everything; real ones show the cause
        is_real = True
    with contextlib.nullcontext() if is_real else FakeTensorMode():
        yield reference.make_model(0), reference.make_inputs(0)


def _call(reference: Any, model: Any, inputs: list[Any]) -> dict[str, Any]:
    import torch

    arguments = [_argument(value) for value in inputs]
    with torch.no_grad():
        own_class = _own_class(reference.call(model, inputs))
    return {"train": model.training, "arguments": arguments, "own_class": own_class}


def _own_class(value: Any) -> str:
    """Return the first class among nested results that is neither a tensor nor plain data; empty if there is none."""
    import torch

    if type(value) in (list, tuple):
        return next(filter(None, map(_own_class, value)), "")
    if type(value) is dict:
        odd = next((type(key).__name__ for key in value if type(key) is not str), "")
        if odd:
            return f"dictionary with keys of {odd}"
        return next(filter(None, map(_own_class, value.values())), "")
    plain = value is None or type(value) in (bool, int, float, str)
    return "" if plain or isinstance(value, torch.Tensor) else type(value).__name__


def _form(tensor: Any) -> list[Any]:
    return [list(map(int, tensor.shape)), str(tensor.dtype).removeprefix("torch."), list(map(int, tensor.stride()))]


def _argument(value: Any) -> dict[str, Any]:
    import torch

    if isinstance(value, torch.Tensor):
        return {"tensor": _form(value)}
    if type(value) in (list, tuple) or hasattr(value, "_fields"):
        return {"nest": "list" if type(value) is list else "tuple", "items": [_argument(item) for item in value]}
    if type(value) is dict and all(type(key) is str for key in value):
        return {"nest": "dict", "keys": list(value), "items": [_argument(item) for item in value.values()]}
    return {"value": _hashable_literal(value) or repr(repr(value))}


def _hashable_literal(value: Any) -> str | None:
    """Return the value's text if the value can be hashed, because the guard looks calls up by hash."""
    try:
        hash(value)
    except TypeError:
        return None
    return _literal(value)


def _written(value: Any, lead: str = "") -> str | None:
    """Return Python text that makes an argument of the constructor again, after `lead`; None if there is none."""
    import torch

    items: list[str | None]
    if type(value) in (list, tuple):
        items = [_written(item) for item in value]
        left, right = "[]" if type(value) is list else ("(", ",)" if len(items) == 1 else ")")
    elif type(value) is dict:
        items = [_written(item, f"{key!r}: ") if _literal(key) else None for key, item in value.items()]
        left, right = "{}"
    elif type(value) is types.SimpleNamespace:
        items = [_written(item, f"{name}=") for name, item in vars(value).items()]
        left, right = "SimpleNamespace(", ")"
    else:
        text = str(value) if isinstance(value, torch.dtype) else _literal(value)
        return None if text is None else f"{lead}{text}"
    return None if None in items else f"{lead}{left}{', '.join(map(str, items))}{right}"


def _literal(value: Any) -> str | None:
    """Return Python text that makes the value again; None if there is none."""
    text = repr(value)
    try:
        return text if repr(ast.literal_eval(text)) == text else None
    except (ValueError, SyntaxError):
        return None


if __name__ == "__main__":
    main(*sys.argv[1:])
