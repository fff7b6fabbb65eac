"""Tells whether two files leave the same tapes. Their kernels may differ in layout, comments and place only.

A verdict depends on nothing but tapes, so it holds for both files. Calls with inputs in another layout in memory are
not compared: a shipped file copies such inputs to the layout of its plan, and a candidate may read them as they are.
"""

from __future__ import annotations

import ast
import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from triton_agent.tools.kernels.kernel import JitFunction, KernelSet, function_to_json
from triton_agent.tools.processes.protocol import TapedForm, TapedModule


def are_equal(ours: Sequence[TapedModule], theirs: Sequence[TapedModule]) -> bool:
    """Return True if both lists of modules hold the same calls with the same steps, inputs lying as given."""
    return len(ours) == len(theirs) and all(_plain(a) == _plain(b) for a, b in zip(ours, theirs))


def _plain(module: TapedModule) -> dict[str, Any]:
    return {
        "constructor": module.constructor,
        "state": module.state,
        "parameters": module.parameters,
        "forms": [
            (_steps(form), form.call, form.train, form.chosen)
            for form in module.forms
            if form.call == module.forms[0].call
        ],
    }


def _steps(form: TapedForm) -> str:
    """Return the tape as text, without lines of the file, and with the kernels named by what they do."""
    text = json.dumps(_without_lines(form.tape), sort_keys=True)
    functions = KernelSet.from_json(form.kernels).functions
    for identity in functions:
        text = text.replace(identity, _named(functions, identity, ()))
    return text


def _without_lines(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_lines(item) for key, item in value.items() if key != "line"}
    return [_without_lines(item) for item in value] if isinstance(value, list | tuple) else value


def _named(functions: Mapping[str, JitFunction], identity: str, callers: tuple[str, ...]) -> str:
    """Return a hash of a function without the layout of its text, and of the functions that it calls."""
    function = functions[identity]
    bare = dataclasses.replace(function, source=ast.unparse(ast.parse(function.source)), first_line=1)
    text = json.dumps(function_to_json(bare), sort_keys=True)
    for called in function.references():
        if called in functions and called not in (*callers, identity):
            text = text.replace(called, _named(functions, called, (*callers, identity)))
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
