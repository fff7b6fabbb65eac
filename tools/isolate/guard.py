"""The guard: what a candidate may not reach for, refused when it happens rather than by how it is written.

Three parts. Builtins of the candidate's module are its own: `__import__` knows the allowed modules only, `open` and its
kin are not there. An audit hook, which Python offers no way to remove, sees files, processes, sockets, ctypes, frames
and the garbage collector being touched; what a candidate's own code touches is refused, what Triton or torch need to
compile and launch is not. And a seal over the functions that the harness, torch and triton work with shows afterwards
whether any was replaced.

It raises `ForbiddenAccess` in the candidate's face, and remembers it for the verdict, for a candidate may catch it.
Native code could get past all this; there is no way to it through the doors that are watched.
"""

from __future__ import annotations

import builtins
import importlib
import os
import sys
import types
from collections.abc import Callable
from typing import Any

from triton_agent.tools.screen import ALLOWED_MODULES, FORBIDDEN_PREFIXES

FORBIDDEN_BUILTINS = (
    "open",
    "eval",
    "exec",
    "compile",
    "input",
    "breakpoint",
    "memoryview",
    "globals",
    "locals",
    "exit",
    "quit",
)

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

SEALED: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("torch", ("allclose", "equal", "empty", "empty_like", "zeros", "no_grad", "load", "save", "manual_seed")),
    ("torch.Tensor", ("__eq__", "data_ptr", "contiguous", "cpu", "numpy", "detach", "view", "copy_", "is_contiguous")),
    ("torch.nn.Module", ("__call__", "_call_impl", "_wrapped_call_impl", "named_parameters", "named_buffers", "train")),
    ("torch.utils._python_dispatch.TorchDispatchMode", ("__enter__", "__exit__")),
    ("torch.cuda", ("synchronize", "Event", "current_stream")),
    ("triton.runtime.jit.JITFunction", ("run", "__getitem__")),
    ("triton.runtime.interpreter.GridExecutor", ("__call__",)),
    ("triton.runtime.interpreter.InterpretedFunction", ("__getitem__", "run")),
    ("json", ("dumps", "loads")),
    ("struct", ("pack", "unpack")),
    ("time", ("perf_counter", "monotonic", "time", "sleep")),
    ("socket.socket", ("sendmsg", "sendall", "recv_into")),
)
"""Where a lie would have to be planted: owner and attributes, compared by identity before and after."""


MACHINERY = ("triton", "torch", "triton_agent.tools")


class ForbiddenAccess(Exception):
    """A candidate reached for what is not a kernel file's to touch."""


class Guard:
    """Watches one candidate's file from the moment it is loaded."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._machinery = tuple(folder for name in MACHINERY for folder in _package_folders(name))
        self._violations: list[str] = []
        self._active = False
        self._busy = False
        self._seal = _sealed_objects()

    @property
    def violations(self) -> tuple[str, ...]:
        return tuple(self._violations)

    def arm(self) -> None:
        """Install the hook; from now on candidate frames are watched."""
        self._active = True
        sys.addaudithook(self._on_event)

    def candidate_builtins(self) -> dict[str, Any]:
        """Builtins for the candidate's module."""
        own = {name: getattr(builtins, name) for name in dir(builtins)}
        for name in FORBIDDEN_BUILTINS:
            own[name] = self._refuser(f"builtin {name}()")
        own["__import__"] = self._import
        return own

    def broken_seal(self) -> str:
        """Name of the first function that is no longer what it was; empty if all are."""
        now = _sealed_objects()
        return next((name for name, item in self._seal.items() if now.get(name) is not item), "")

    def _refuser(self, what: str) -> Callable[..., Any]:
        def refuse(*args: Any, **kwargs: Any) -> Any:
            self._refuse(what)

        return refuse

    def _refuse(self, what: str) -> None:
        if len(self._violations) < 20:
            self._violations.append(what)
        raise ForbiddenAccess(f"{what} has no place in a kernel file")

    def _import(self, name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        paths = [f"{name}.{item}" for item in fromlist or ()] or [name]
        if level or name.split(".")[0] not in ALLOWED_MODULES:
            self._refuse(f"import of {name or '.'}")
        for path in paths:
            if any(path == prefix or path.startswith(prefix + ".") for prefix in FORBIDDEN_PREFIXES):
                self._refuse(f"import of {path}")
        self._busy = True  # what a permitted module does while it loads is its own affair
        try:
            return importlib.__import__(name, globals, locals, fromlist or (), level)
        finally:
            self._busy = False

    def _on_event(self, event: str, args: tuple[Any, ...]) -> None:
        if not self._active or self._busy or not event.startswith(FORBIDDEN_EVENTS) or event in HARMLESS_EVENTS:
            return
        self._busy = True
        try:
            guilty = self._candidate_did_it(event, args)
        finally:
            self._busy = False
        if guilty:
            self._refuse(_said(event, args))

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
            if file.startswith(self._machinery) and not any(door in file for door in PUBLIC_DOORS):
                return False
            frame = frame.f_back
        return False


OBJECT_EVENTS = ("object.__getattr__", "object.__setattr__", "object.__delattr__")
DIRECT_EVENTS = frozenset({"exec", "compile", "code.__new__", "function.__new__", "sys._getframe", *OBJECT_EVENTS})
"""Events that dataclasses, namedtuple, enum and typing raise for honest callers: refused only first-hand."""

PUBLIC_DOORS = (
    "cpp_extension.py",
    "serialization.py",
    "hub.py",
    "_jit_internal.py",
    "multiprocessing",
    "package_importer.py",
)
"""Files of torch that act on whatever the caller names."""


def _said(event: str, args: tuple[Any, ...]) -> str:
    detail = next((arg for arg in args if isinstance(arg, (str, bytes, os.PathLike))), "")
    return f"{event}({str(detail)[:80]})" if detail else event


def _package_folders(name: str) -> set[str]:
    """Where its code says it comes from; links may lead there under two names."""
    file = getattr(sys.modules.get(name), "__file__", None)
    return {os.path.dirname(path) + os.sep for path in (file, os.path.realpath(file))} if file else set()


def _sealed_objects() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for owner_path, names in SEALED:
        owner = _resolve(owner_path)
        if owner is None:
            continue
        space = owner.__dict__
        found.update({f"{owner_path}.{name}": space.get(name) for name in names if name in space})
    return found


def _resolve(path: str) -> Any:
    """A module or class that is already imported."""
    parts = path.split(".")
    for cut in range(len(parts), 0, -1):
        module = sys.modules.get(".".join(parts[:cut]))
        if module is not None:
            value: Any = module
            for name in parts[cut:]:
                value = getattr(value, name, None)
            return value
    return None
