"""A second record of what torch ran during a call, taken by torch's own profiler below every mode.

The operator watch (`watch.py`) is a dispatch mode, and a mode can be switched off around a few lines. The profiler's
callbacks see each operator all the same, and a mark wherever one came past a mode. What has no mark ran out of the
watch's sight; what has one, the watch has to have counted, unless somebody emptied its record; and where an operator
calls others inside itself, it shows which. It sees the calling thread only, and
no arithmetic that is done without torch; threads and numbers that leave torch are the guard's to refuse.
"""

from __future__ import annotations

import dataclasses
import functools
import secrets
from typing import Any

import torch
from torch._C._autograd import _disable_profiler_legacy, _enable_profiler_legacy
from torch._C._profiler import ProfilerConfig, ProfilerState, _ExperimentalConfig
from torch.autograd.profiler import record_function

from triton_agent.tools.isolate.watch import native_operators

PAST_THE_WATCH = "PythonDispatchMode"
"""The profiler's name for a dispatch mode at work."""
READ_BY_PYTHON = "aten::_local_scalar_dense"


@dataclasses.dataclass(slots=True)
class _Frame:
    """An operator that has begun and not ended."""

    name: str
    inside: bool
    """Whether it runs within one that the watch was shown."""
    watched: bool = False
    """Whether it, or anything that it called, was shown to the watch."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Testimony:
    """What the profiler saw of one call."""

    unseen: tuple[str, ...]
    """Operators that did work without the watch being shown."""
    inside: tuple[str, ...]
    """Those that ran within operators that it was shown."""
    shown: dict[str, int]
    """How many times each operator that came with torch was shown to the watch."""
    numbers: int
    """Single values that went over to Python without the watch being shown, as they do when a tensor is printed."""
    complete: bool
    """Whether the record holds what it began with."""


NO_TESTIMONY = Testimony(unseen=(), inside=(), shown={}, numbers=0, complete=False)


class Witness:
    """Between `begin` and `end` everything is recorded; the watch counts beside it."""

    def __init__(self) -> None:
        self._password = ""
        self._native = frozenset(name.partition(".")[0] for name in native_operators())

    def begin(self) -> None:
        nothing_else = (False,) * 5
        _enable_profiler_legacy(ProfilerConfig(ProfilerState.CPU, *nothing_else, _ExperimentalConfig()))
        self._password = secrets.token_hex(8)
        with record_function(self._password):
            pass

    def end(self) -> Testimony:
        """RuntimeError where somebody has ended the record before."""
        return testimony(_disable_profiler_legacy(), self._password, self._native)


def testimony(records: list[list[Any]], password: str, native: frozenset[str]) -> Testimony:
    unseen: dict[str, int] = {}
    inside: dict[str, None] = {}
    shown: dict[str, int] = {}
    names: set[str] = set()
    for thread in records:
        stack: list[_Frame] = []
        for event in thread:
            kind = event.kind()
            if kind == "push":
                name = event.name()
                names.add(name)
                within = bool(stack) and (stack[-1].inside or stack[-1].name == PAST_THE_WATCH)
                if name == PAST_THE_WATCH:
                    for frame in stack:
                        frame.watched = True
                    if stack and not within and stack[-1].name in native:
                        shown[stack[-1].name] = shown.get(stack[-1].name, 0) + 1
                elif within:
                    inside[name] = None
                stack.append(_Frame(name, within))
            elif kind == "pop" and stack:
                frame = stack.pop()
                if not (frame.inside or frame.watched or frame.name == PAST_THE_WATCH) and works(frame.name):
                    unseen[frame.name] = unseen.get(frame.name, 0) + 1
    return Testimony(
        unseen=tuple(unseen),
        inside=tuple(filter(_is_operator, inside)),
        shown=shown,
        numbers=unseen.get(READ_BY_PYTHON, 0),
        complete=password in names,
    )


def _is_operator(name: str) -> bool:
    return name.count("::") == 1 and " " not in name


@functools.cache
def works(name: str) -> bool:
    """Whether an operator has code of its own; one that only calls others may find that it need not call any."""
    if not _is_operator(name):
        return False
    namespace, _, bare = name.partition("::")
    packet = getattr(getattr(torch.ops, namespace), bare, None)
    overloads = [] if packet is None else [getattr(packet, overload).name() for overload in packet.overloads()]
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    return any(_is_dispatched(each) and not has(each, "CompositeImplicitAutograd") for each in overloads)


def _is_dispatched(overload: str) -> bool:
    """TorchScript has overloads of its own, of which the dispatcher knows nothing."""
    return torch._C._dispatch_has_kernel(overload)
