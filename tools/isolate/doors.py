"""Functions that reach in somebody else's name: an attribute given as text, numbers handed out of torch, an operator
of torch given a new meaning. Here they ask first who wants it.

What a candidate may not name it could have named for it, by `operator.attrgetter` or `functools.update_wrapper`; so it
gets versions of these that look at the names. The few functions by which a tensor's numbers leave torch, where no log
of operators could follow, and the one that redefines operators, are wrapped for the whole process: for a candidate
they are shut, for torch itself open.
"""

from __future__ import annotations

import functools
import operator
import sys
import types
from collections.abc import Callable
from typing import Any

import torch

NUMBERS_LEAVE = ("numpy", "__array__", "__dlpack__", "apply_", "map_", "map2_")
"""Methods of a tensor; the last three call a Python function with every number."""

A_LIST = 4096
"""Numbers that may go over to Python as a list, each of which is counted: lengths, offsets, a few sizes."""

REGISTRATION = ("library.py", "_library")
"""Parts of torch that register operators for whoever asks."""


EVERY = "_"
"""Torch's name for all its operators, where none of its own is found."""


def by_name(check: Callable[[str], None]) -> dict[str, dict[str, Any]]:
    """By module: functions of the standard library that take names as text, checking each. None: not to be had."""

    def attrgetter(*names: str) -> Any:
        for name in names:
            _check_all(str.split(name, "."))
        return operator.attrgetter(*names)

    def methodcaller(name: str, /, *args: Any, **kwargs: Any) -> Any:
        check(name)
        return operator.methodcaller(name, *args, **kwargs)

    def update_wrapper(wrapper: Any, wrapped: Any, assigned: Any = ASSIGNED, updated: Any = UPDATED) -> Any:
        assigned, updated = tuple(assigned), tuple(updated)
        _check_all([name for name in (*assigned, *updated) if name != "__dict__"])
        if isinstance(wrapped, types.ModuleType):
            check("__dict__")
        return functools.update_wrapper(wrapper, wrapped, assigned, updated)

    def wraps(wrapped: Any, assigned: Any = ASSIGNED, updated: Any = UPDATED) -> Any:
        return functools.partial(update_wrapper, wrapped=wrapped, assigned=assigned, updated=updated)

    def _check_all(names: list[str]) -> None:
        for name in names:
            check(name)

    return {
        "operator": {"attrgetter": attrgetter, "methodcaller": methodcaller},
        "functools": {"update_wrapper": update_wrapper, "wraps": wraps},
        "string": {"Formatter": None},
    }


ASSIGNED, UPDATED = functools.WRAPPER_ASSIGNMENTS, functools.WRAPPER_UPDATES


def shut(candidate_reaches: Callable[[], bool], refuse: Callable[[str], Any], path: str) -> None:
    """Wrap what is shared with the whole process; for good."""

    def door(function: Callable[..., Any], what: str) -> Callable[..., Any]:
        @functools.wraps(function)
        def asked(*args: Any, **kwargs: Any) -> Any:
            if candidate_reaches():
                refuse(what)
            return function(*args, **kwargs)

        del asked.__wrapped__  # the way past this one
        return asked

    for name in NUMBERS_LEAVE:
        setattr(torch.Tensor, name, door(getattr(torch.Tensor, name), f"Tensor.{name}"))
    torch.Tensor.tolist = _counted(torch.Tensor.tolist, candidate_reaches, refuse)  # type: ignore[method-assign]
    torch.save = torch.serialization.save = door(torch.save, "torch.save")
    torch._tensor_str._str = _written_in_sight
    torch._C._dispatch_library = _registering(torch._C._dispatch_library, refuse, path)


def _counted(tolist: Callable[..., Any], candidate_reaches: Callable[[], bool], refuse: Callable[[str], Any]) -> Any:
    """For a candidate the numbers go one by one, in sight of the log of operators."""

    def numbers(tensor: torch.Tensor) -> Any:
        return [numbers(part) for part in tensor.unbind()] if tensor.dim() else tensor.item()

    def asked(tensor: torch.Tensor) -> Any:
        if not candidate_reaches():
            return tolist(tensor)
        if tensor.numel() > A_LIST:
            refuse(f"Tensor.tolist of {tensor.numel()} numbers")
        return numbers(tensor)

    return asked


def _written_in_sight(tensor: torch.Tensor, *, tensor_contents: str | None = None) -> Any:
    """A tensor as text. Torch's own switches the log of operators off for this, though numbers leave by it."""
    with torch.no_grad():
        return torch._tensor_str._str_intern(tensor, tensor_contents=tensor_contents)  # type: ignore[no-untyped-call]


def _registering(library: Callable[..., Any], refuse: Callable[[str], Any], path: str) -> Callable[..., Any]:
    native = {name.partition("::")[0] for name in torch._C._dispatch_get_all_op_names()}

    def opened(kind: str, namespace: str, *rest: Any) -> Any:
        if namespace in native and _registrant() == path:
            refuse(f"operators under the name `{namespace}`, which is torch's,")
        if namespace == EVERY and _registrant() == path:
            refuse("what stands in for all operators of torch")
        return library(kind, namespace, *rest)

    return opened


def _registrant() -> str:
    """The file that asked torch to register an operator."""
    frame: types.FrameType | None = sys._getframe(2)
    while frame is not None and any(part in frame.f_code.co_filename.split("/") for part in REGISTRATION):
        frame = frame.f_back
    return frame.f_code.co_filename if frame is not None else ""
