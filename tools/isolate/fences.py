"""Modules that torch and triton have imported for themselves, and that answer nobody but them.

`torch.testing._comparison.np` is NumPy, and there are more such names than anyone could list. So it is the module
itself that asks who looks for something in it: the candidate's file, or code that was made of text on its behalf, gets
a refusal, however it came by the module. Only such modules are fenced as are seldom looked into while kernels run, and
into which C code does not look in the name of whoever called it, as it does into `warnings`.
"""

from __future__ import annotations

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

INTERPRETERS = ("triton.runtime.interpreter", "triton_agent.tools.emulate.")
"""These look into NumPy with every operation, and in a candidate's name: they get a twin without a fence."""


def fence(path: str, refuse: Callable[[str], None]) -> None:
    """For good, and for the modules that are loaded by now."""

    class Fenced(types.ModuleType):
        def __getattribute__(self, name: str) -> object:
            file = sys._getframe(1).f_code.co_filename
            if file == path or (file.startswith(MADE_OF_TEXT) and not file.startswith(PART_OF_PYTHON)):
                refuse(f"`{name}` of the module {super().__getattribute__('__name__')}")
            return super().__getattribute__(name)

    _give_twins_of_numpy()
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] not in FENCED or name.startswith(OF_IMPORT_STATEMENTS):
            continue
        if type(module) is types.ModuleType:
            module.__class__ = Fenced


def _give_twins_of_numpy() -> None:
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return
    twin = types.ModuleType("numpy")
    twin.__dict__.update(numpy.__dict__)
    for name, module in list(sys.modules.items()):
        if name.startswith(INTERPRETERS) and module.__dict__.get("np") is numpy:
            module.__dict__["np"] = twin
