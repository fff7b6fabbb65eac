"""The guard: what a candidate may not reach for, refused by what happens rather than by how it is written.

A kernel file needs a small language: torch, triton, math, classes, functions. Four parts hold it to that.
*Names*: the compiled code may not use attributes that lead out of it (`os`, `__globals__`, `f_back`), and `getattr` and
its kin, the only other way to an attribute, check the same. *Modules*: `__import__` knows the allowed ones, those of
the standard library as copies of their public names. *Events*: an audit hook, which Python offers no way to remove,
sees files, processes, sockets, ctypes and frames being touched; what Triton or torch touch to compile and launch is
theirs. *Seals*: what torch, triton and the harness work with is the same object after the candidate ran as before.

It raises `ForbiddenAccess` in the candidate's face and remembers it, for a candidate may catch it. Native code could
get past all this; there is no way to it through the doors that are watched.
"""

from __future__ import annotations

import builtins
import dis
import importlib
import os
import sys
import types
from collections.abc import Callable, Iterator, Set
from typing import Any

from triton_agent.tools.isolate import doors, fences
from triton_agent.tools.isolate.seals import Seals
from triton_agent.tools.screen import ALLOWED_MODULES, FORBIDDEN_ATTRIBUTES, FORBIDDEN_PREFIXES

FORBIDDEN_BUILTINS = (
    *("open", "eval", "exec", "compile", "input", "breakpoint", "memoryview", "globals", "locals", "exit", "quit"),
)

FORBIDDEN_NAMES = FORBIDDEN_ATTRIBUTES | {
    *("os", "sys", "gc", "ctypes", "importlib", "builtins", "subprocess", "socket", "inspect", "threading", "signal"),
    *("environ", "_getframe", "_current_frames", "__dict__", "__getattribute__", "__import__", "_C", "_dynamo"),
    *("_inductor", "_python_dispatch", "_ops", "cpp_extension", "_VariableFunctions", "_jit_internal", "load_library"),
    *("numpy", "from_numpy", "frombuffer", "from_dlpack", "to_dlpack", "__array__", "untyped_storage"),
    *("storage", "_typed_storage", "set_num_threads", "set_default_dtype", "set_default_device", "from_file"),
    *("__self__", "__wrapped__", "__base__", "_import_dotted_name", "interpreter", "handle"),
    *("apply_", "map_", "map2_", "set_per_process_memory_fraction"),
}
"""Attributes a kernel file has no use for: ways to the interpreter and the harness, ways to take numbers out of torch's
sight, and switches that hold for the whole process."""

FORBIDDEN_EVENTS = (
    *("open", "os.", "shutil.", "subprocess.", "socket.", "ctypes.", "mmap.", "pty.", "fcntl.", "resource.", "signal."),
    *("sys._getframe", "sys._current_frames", "sys._current_exceptions", "sys.settrace", "sys.setprofile"),
    *("sys.addaudithook", "sys.monitoring", "gc.", "code.__new__", "compile", "exec", "marshal.", "pickle.find_class"),
    *("object.__getattr__", "object.__setattr__", "object.__delattr__", "_thread.start_new_thread", "function.__new__"),
    *("import", "builtins.input", "tempfile.", "glob.", "webbrowser.", "urllib.", "http.", "sqlite3.", "ensurepip."),
    *("array.__new__", "cpython.", "_posixsubprocess", "faulthandler."),
)
"""Prefixes of audit events that a kernel file has no business raising."""

HARMLESS_EVENTS = frozenset({"os.putenv", "os.listdir", "os.scandir", "cpython._PySys_ClearAuditHooks"})
"""Raised by imports that Python itself defers; no secret is behind them in the sandbox."""

DIRECT_EVENTS = frozenset(
    {
        *("exec", "compile", "code.__new__", "function.__new__", "sys._getframe", "sys._getframemodulename"),
        *("object.__getattr__", "object.__setattr__", "object.__delattr__"),
    }
)
"""Events that dataclasses, namedtuple, enum and typing raise for honest callers: refused only first-hand."""

NOT_IN_MADE_CODE = FORBIDDEN_NAMES | {
    *("getattr", "setattr", "delattr", "hasattr", "eval", "exec", "compile", "open", "vars", "globals", "locals"),
}
"""Code that others make of text on a candidate's behalf runs with the real builtins, which lead to anything."""

MACHINERY = ("triton", "torch", "triton_agent.tools")

PUBLIC_DOORS = (
    *("cpp_extension.py", "serialization.py", "hub.py", "_jit_internal.py", "multiprocessing", "package_importer.py"),
    *("runtime/build.py", "runtime\\build.py"),
)
"""Files of torch and triton that act on whatever the caller names: through them it is the caller who reaches."""

OWN_OF_MODULES = frozenset(
    {
        *("named_parameters", "parameters", "named_buffers", "buffers", "named_modules", "modules", "children"),
        *("named_children", "state_dict", "load_state_dict", "_apply", "__call__", "_call_impl", "_wrapped_call_impl"),
    }
)
"""Methods by which others look into a module, and by which it is called."""

MAY_IMPORT_FOR_ITSELF = ("torch", "triton")
"""Compiled code imports by the `__import__` of whoever called it, as `torch.tensor` does at its first call, with an
empty list where Python's own statements have None or a tuple. It gets the outermost package; the candidate has that."""

VIOLATIONS_AT_MOST = 20


class ForbiddenAccess(Exception):
    """A candidate reached for what is not a kernel file's to touch."""


class Guard:
    """Watches one candidate's file from the moment it is loaded."""

    def __init__(self, path: str, module_name: str) -> None:
        self._path = path
        self._module_name = module_name
        self._machinery = tuple(folder for name in MACHINERY for folder in _package_folders(name))
        self._violations: list[str] = []
        self._active = False
        self._busy = False
        self._copies: dict[str, types.ModuleType] = {}
        self._by_name = doors.by_name(self._check_name)
        self.seals = Seals()

    @property
    def violations(self) -> tuple[str, ...]:
        return tuple(self._violations)

    def arm(self) -> None:
        """Install the hook; from now on candidate frames are watched. Once is enough."""
        if not self._active:
            self._active = True
            doors.shut(lambda: self._candidate_did_it("", ()), self._refuse, self._path)
            fences.fence(self._path, self._refuse)
            self.seals = Seals()
            sys.addaudithook(self._on_event)

    def vet(self, code: types.CodeType) -> None:
        """Refuse compiled code that names what leads out of a kernel file."""
        self._vet_names(code, FORBIDDEN_NAMES)
        self._vet_patterns(code)

    def _vet_names(self, code: types.CodeType, forbidden: Set[str]) -> None:
        for part in _parts(code):
            for name in part.co_names:
                if name in forbidden:
                    self._refuse(f"the name `{name}`")

    def _vet_patterns(self, code: types.CodeType) -> None:
        for part in _parts(code):
            self._vet_pattern(part)

    def _vet_pattern(self, code: types.CodeType) -> None:
        if any(step.opname == "MATCH_CLASS" for step in dis.get_instructions(code)):  # its names are constants
            for names in (constant for constant in code.co_consts if isinstance(constant, tuple)):
                for name in names:
                    self._check_name(str(name))

    def refuse_overrides(self, model_class: type) -> None:
        """A module that answers for its parameters itself could show others than it uses."""
        for owner in model_class.__mro__:
            if owner.__module__ == self._module_name:
                for name in OWN_OF_MODULES & owner.__dict__.keys():
                    self._violations.append(f"override of nn.Module.{name}")

    def candidate_builtins(self) -> dict[str, Any]:
        """Builtins for the candidate's module."""
        own = {name: getattr(builtins, name) for name in dir(builtins)}
        for name in FORBIDDEN_BUILTINS:
            own[name] = self._refuser(f"builtin {name}()")
        own["__import__"] = lambda *args, **kwargs: self._import(*args, **kwargs)  # a method would lead to this object
        own["getattr"] = lambda owner, name, *default: self._getattr(owner, name, *default)
        own["hasattr"] = lambda owner, name: self._hasattr(owner, name)
        own["setattr"] = lambda owner, name, value: self._setattr(owner, name, value)
        own["delattr"], own["vars"] = lambda owner, name: self._delattr(owner, name), lambda *owner: self._vars(*owner)
        return own

    # -- builtins of the candidate ---------------------------------------------------------------------------------

    def _getattr(self, owner: Any, name: str, *default: Any) -> Any:
        self._check_name(name)
        value = getattr(owner, name, *default)
        if isinstance(value, types.ModuleType) and not self._may_hold(value):
            self._refuse(f"module {value.__name__}")
        return value

    def _hasattr(self, owner: Any, name: str) -> bool:
        self._check_name(name)
        return hasattr(owner, name)

    def _setattr(self, owner: Any, name: str, value: Any) -> None:
        self._check_owner(owner, name)
        setattr(owner, name, value)

    def _delattr(self, owner: Any, name: str) -> None:
        self._check_owner(owner, name)
        delattr(owner, name)

    def _vars(self, *owner: Any) -> Any:
        if not owner or isinstance(owner[0], (types.ModuleType, type)) or not self._is_own(type(owner[0])):
            self._refuse("builtin vars()")
        return vars(*owner)

    def _check_name(self, name: str) -> None:
        if type(name) is not str or name in FORBIDDEN_NAMES:  # a subclass may be equal to what it likes
            self._refuse(f"the name `{name}`")

    def _check_owner(self, owner: Any, name: str) -> None:
        """Attributes may be set on what is the candidate's own, and on tensors."""
        self._check_name(name)
        if isinstance(owner, (types.ModuleType, type, types.FunctionType)) and not self._is_own(owner):
            self._refuse(f"changing `{name}` of {getattr(owner, '__name__', owner)!r}")

    def _is_own(self, thing: Any) -> bool:
        return self._module_name in (getattr(thing, "__module__", None), getattr(thing, "__name__", None))

    def _may_hold(self, module: types.ModuleType) -> bool:
        return module.__name__.split(".")[0] in ("torch", "triton", "math", self._module_name)

    def _refuser(self, what: str) -> Callable[..., Any]:
        def refuse(*args: Any, **kwargs: Any) -> Any:
            self._refuse(what)

        return refuse

    def _refuse(self, what: str) -> None:
        if len(self._violations) < VIOLATIONS_AT_MOST:
            self._violations.append(what)
        raise ForbiddenAccess(f"{what} has no place in a kernel file")

    # -- imports ---------------------------------------------------------------------------------------------------

    def _import(self, name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        if type(name) is not str:
            self._refuse("an import by something else than a name")
        root = name.split(".")[0]
        if type(fromlist) is list and not fromlist and root in MAY_IMPORT_FOR_ITSELF:
            return self._unwatched_import(name, globals, locals)
        if level or root not in ALLOWED_MODULES:
            self._refuse(f"import of {name or '.'}")
        for item in (*name.split("."), *(fromlist or ())):
            self._check_name(item)
        for path in [f"{name}.{item}" for item in fromlist or ()] or [name]:
            if any(path == prefix or path.startswith(prefix + ".") for prefix in FORBIDDEN_PREFIXES):
                self._refuse(f"import of {path}")
        module = self._unwatched_import(name, globals, locals, fromlist or ())
        return module if root in ("torch", "triton", "math", "__future__") else self._public_copy(module)

    def _unwatched_import(self, name: str, globals: Any, locals: Any, fromlist: Any = ()) -> types.ModuleType:
        """What a permitted module does while it loads is its own affair."""
        self._busy = True
        try:
            return importlib.__import__(name, globals, locals, fromlist)
        finally:
            self._busy = False

    def _public_copy(self, module: types.ModuleType) -> types.ModuleType:
        """The public names of a standard module; what it imported for itself stays behind."""
        if module.__name__ not in self._copies:
            copy = types.ModuleType(module.__name__)
            names = getattr(module, "__all__", None) or [name for name in module.__dict__ if not name.startswith("_")]
            for name in names:
                value = getattr(module, name, None)
                if isinstance(value, types.ModuleType):
                    continue
                value = self._by_name.get(module.__name__, {}).get(name, value)
                if value is not None:
                    setattr(copy, name, value)
            self._copies[module.__name__] = copy
        return self._copies[module.__name__]

    # -- audit events ----------------------------------------------------------------------------------------------

    def _on_event(self, event: str, args: tuple[Any, ...]) -> None:
        if self._busy or not event.startswith(FORBIDDEN_EVENTS) or event in HARMLESS_EVENTS:
            return
        self._busy = True
        try:
            guilty = self._candidate_did_it(event, args)
            unread = event == "exec" and not guilty and self._made_for_candidate(args[0])
        finally:
            self._busy = False
        if guilty:
            self._refuse(_said(event, args))
        if unread:
            self._vet_names(args[0], NOT_IN_MADE_CODE)

    def _candidate_did_it(self, event: str, args: tuple[Any, ...]) -> bool:
        """Whether candidate code is on the stack nearer than any of Triton's or torch's machinery.

        Torch and triton read files and start compilers by themselves; that is between them and the machine. Through a
        few files of theirs, though, it is the caller who reaches, and the search goes on behind those.
        """
        if event == "open" and args[0] == self._path and args[1] in ("r", "rb", None):
            return False  # a warning or a traceback quotes its line
        frame: types.FrameType | None = sys._getframe(2)
        if event in DIRECT_EVENTS:
            return frame is not None and frame.f_code.co_filename == self._path
        while frame is not None:
            file = frame.f_code.co_filename
            if file == self._path:
                return True
            if file in (__file__, doors.__file__):
                pass
            elif file.startswith(self._machinery) and not self._acts_for_others(event, file):
                return False
            frame = frame.f_back
        return False

    def _made_for_candidate(self, code: Any) -> bool:
        """Whether code about to run was made of text, by whomever, since the candidate called for it.

        What a module runs that is being imported meanwhile is its own affair.
        """
        if not isinstance(code, types.CodeType) or not code.co_filename.startswith(fences.MADE_OF_TEXT):
            return False
        frame: types.FrameType | None = sys._getframe(2)
        while frame is not None:
            if frame.f_code.co_filename == self._path:
                return True
            if frame.f_code.co_name == "<module>" and not frame.f_code.co_filename.startswith(fences.MADE_OF_TEXT):
                return False
            frame = frame.f_back
        return False

    def _acts_for_others(self, event: str, file: str) -> bool:
        return event == "_thread.start_new_thread" or any(door in file for door in PUBLIC_DOORS)


def _parts(code: types.CodeType) -> Iterator[types.CodeType]:
    """A piece of code, and all that is defined in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _parts(constant)


def _said(event: str, args: tuple[Any, ...]) -> str:
    detail = next((arg for arg in args if isinstance(arg, (str, bytes, os.PathLike))), "")
    return f"{event}({str(detail)[:80]})" if detail else event


def _package_folders(name: str) -> set[str]:
    """Where its code says it comes from; links may lead there under two names."""
    file = getattr(sys.modules.get(name), "__file__", None)
    return {os.path.dirname(path) + os.sep for path in (file, os.path.realpath(file))} if file else set()
