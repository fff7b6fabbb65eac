"""Modules of others: what torch and triton have imported for themselves answers nobody but them, and nobody but them
puts anything new into their own.

`torch.testing._comparison.np` is NumPy, and there are more such names than anyone could list. So it is the module
itself that asks who looks for something in it: the candidate's file, or code that was made of text on its behalf, gets
a refusal, however it came by the module. Only such modules are fenced as are seldom looked into while kernels run, and
into which C code does not look in the name of whoever called it, as it does into `warnings`. A function put in the
place of one of torch's would run where no call is watched: while inputs arrive, say.
"""

from __future__ import annotations

import builtins
import functools
import re
import sys
import types
from collections.abc import Callable

FENCED = frozenset(
    {
        *("builtins", "ctypes", "functools", "gc", "importlib", "inspect", "multiprocessing", "numpy", "operator"),
        *("pickle", "struct", "subprocess", "threading"),
    }
)
"""Outermost packages; what is in them is fenced as well."""
OF_IMPORT_STATEMENTS = "importlib._bootstrap"
"""Python looks into these in the name of whoever imports something."""

MADE_OF_TEXT = "<"
"""How the file names of such code begin."""
PART_OF_PYTHON = "<frozen "

HELD = frozenset({"torch", "triton"})
"""Packages whose modules nobody may write to."""
MUCH_USED = ("torch._C", "triton.language", "triton.runtime", "triton.knobs", "torch.cuda", "torch.nn.functional")
"""Looked into with every call, which a class of their own would slow down; seals are over these instead."""

INTERPRETERS = ("triton.runtime.interpreter", "triton_agent.tools.emulate.")
"""These look into NumPy with every operation, and in a candidate's name: they get a twin without a fence."""
OFTEN_PASSED = ("numpy._core.numeric", "numpy.lib._stride_tricks_impl")
"""NumPy's own, through which such operations come (`full`, `broadcast_to`): they get twins of what they look into."""

LANGUAGE = ("triton.language.", "triton.runtime.")
"""These look into Python's builtins with every operation that is compiled or interpreted, for a few that are here."""
PLAIN = {
    found.__name__: found for found in (abs, bool, dict, float, int, len, list, max, min, range, slice, str, sum, tuple)
}
"""Builtins that lead nowhere."""


def fence(path: str, refuse: Callable[[str], None]) -> None:
    """For good, and for the modules that are loaded by now."""

    def ask(module: types.ModuleType, name: str) -> None:
        asking = _caller_of_my_caller()
        if asking is None:  # C code, in a thread where no Python runs
            return
        file = asking.f_code.co_filename
        if file == path or (file.startswith(MADE_OF_TEXT) and not file.startswith(PART_OF_PYTHON)):
            refuse(f"`{name}` of the module {types.ModuleType.__getattribute__(module, '__name__')}")

    class Fenced(types.ModuleType):
        def __getattribute__(self, name: str) -> object:
            ask(self, name)
            return super().__getattribute__(name)

    class Plain(types.ModuleType):
        def __getattr__(self, name: str) -> object:
            ask(self, name)
            raise AttributeError(f"not among the plain builtins: {name}")

    class Held(types.ModuleType):
        def __setattr__(self, name: str, value: object) -> None:
            ask(self, name)
            super().__setattr__(name, value)

        def __delattr__(self, name: str) -> None:
            ask(self, name)
            super().__delattr__(name)

    _give_twins_of_numpy()
    _give_twins_of_builtins(Plain)
    for name, module in list(sys.modules.items()):
        if type(module) is not types.ModuleType or name.startswith(OF_IMPORT_STATEMENTS):
            continue
        if name.split(".")[0] in FENCED:
            module.__class__ = Fenced
        elif name.split(".")[0] in HELD and name not in HELD and not name.startswith(MUCH_USED):
            module.__class__ = Held


def _caller_of_my_caller() -> types.FrameType | None:
    """Of the one whose frame asks for a module's name, that is. Python's own way to a frame raises an audit event, over
    which the guard looks through the whole stack.
    """
    try:
        raise LookupError
    except LookupError as here:
        assert here.__traceback__ is not None
        frame: types.FrameType | None = here.__traceback__.tb_frame
    for _ in range(3):  # this function, `ask`, and the module's own method
        frame = frame.f_back if frame is not None else None
    return frame


def _give_twins_of_numpy() -> None:
    twins: dict[types.ModuleType, types.ModuleType] = {}
    for name, module in list(sys.modules.items()):
        if name.startswith(INTERPRETERS) or name in OFTEN_PASSED:
            inside = {key: value for key, value in module.__dict__.items() if _is_numpys(value)}
            module.__dict__.update({key: _twin_of(value, twins) for key, value in inside.items()})


def _is_numpys(value: object) -> bool:
    return isinstance(value, types.ModuleType) and value.__name__.split(".")[0] == "numpy"


def _twin_of(module: types.ModuleType, twins: dict[types.ModuleType, types.ModuleType]) -> types.ModuleType:
    """As it is now, without a fence."""
    if module not in twins:
        twins[module] = types.ModuleType(module.__name__)
        twins[module].__dict__.update(module.__dict__)
    return twins[module]


def _give_twins_of_builtins(kind: type[types.ModuleType]) -> None:
    """Of nothing but what they use, where that is plain: half of an interpreted kernel's time went into the fence."""
    for module in _looking_into_builtins():
        used = names_of_builtins(str(module.__file__))
        if used <= PLAIN.keys():
            twin = kind("builtins")
            twin.__dict__.update({name: PLAIN[name] for name in used})
            module.__dict__["builtins"] = twin


def learn() -> None:
    """What fences will ask of files, found out in the process that others are forked from."""
    for module in _looking_into_builtins():
        names_of_builtins(str(module.__file__))


def _looking_into_builtins() -> list[types.ModuleType]:
    loaded = list(sys.modules.items())
    return [one for name, one in loaded if name.startswith(LANGUAGE) and one.__dict__.get("builtins") is builtins]


@functools.cache
def names_of_builtins(path: str) -> frozenset[str]:
    """What a source file takes from the module `builtins`; an empty name among them where it does more with it."""
    with open(path, encoding="utf-8") as file:
        return frozenset(re.findall(r"(?<!import )\bbuiltins\b\.?(\w*)", file.read()))
