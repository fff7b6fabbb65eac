"""Runs the code of a problem file, and handles its imports, its randomness and its errors.

The file is executed as a module with a unique name. The import path, local modules, torch's defaults and seeds are set
while its code runs and restored afterwards. Without CUDA, code that asks for `cuda` gets the CPU, and `torch.compile`
has no effect: nothing is timed there, and compiling for a CPU takes a minute. Only for the trusted checker process. Not
covered: confinement.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import itertools
import linecache
import random
import sys
import threading
import traceback
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
import torch
from torch.overrides import TorchFunctionMode

from triton_agent.tools.errors import ProblemError, TritonAgentError
from triton_agent.tools.problem import source as problem_source
from triton_agent.tools.problem.source import SourceFile

_SERIAL = itertools.count()
_ONE_AT_A_TIME = threading.RLock()
"""Import path and random generators belong to the whole process, so only one thread may change them at a time."""
_NEVER_REPLACED = frozenset({"torch", "triton", "numpy"}) | sys.stdlib_module_names
"""Modules that this process uses. A user's file with such a name must not replace them."""


class UserModule:
    """One executed problem file."""

    def __init__(self, source: SourceFile, tree: ast.Module) -> None:
        root, package = problem_source.import_root(source.path)
        self.path = source.path
        self._root = root
        self._search = list(dict.fromkeys((str(root), str(source.path.parent))))
        self._locals: dict[str, types.ModuleType] = {}
        self._claimed = {name.split("/")[0].removesuffix(".py") for name in problem_source.local_modules(source)}
        self._dtype = torch.float32  # torch's own default; at this moment another thread may have set float64
        unique = f"_problem_{next(_SERIAL)}_{source.path.stem}"
        self.module = types.ModuleType(f"{package}.{unique}" if package else unique)
        self.module.__file__ = str(source.path)
        self.module.__package__ = package
        sys.modules[self.module.__name__] = self.module  # dataclasses, pickle and inspect look the module up here
        linecache.checkcache(str(self.path))
        importlib.invalidate_caches()  # a local module may have been written just now
        try:
            with self.running("importing the file", remedy="mend the file; it has to be importable by itself"):
                exec(compile(tree, str(self.path), "exec"), self.module.__dict__)
                self._dtype = torch.get_default_dtype()
        except BaseException:
            self.close()
            raise

    def get(self, name: str) -> Any | None:
        return getattr(self.module, name, None)

    def is_own(self, thing: Any) -> bool:
        """Return True if a class or a function comes from the file or a local module."""
        name = getattr(thing, "__module__", None) or ""
        return name == self.module.__name__ or name.split(".")[0] in self._claimed - _NEVER_REPLACED

    def close(self) -> None:
        """Remove the module from `sys.modules`. Its objects keep working, except for pickling."""
        sys.modules.pop(self.module.__name__, None)

    @contextlib.contextmanager
    def running(self, action: str, *, remedy: str = "") -> Iterator[None]:
        """Set up the environment that the user's code needs; turn its errors into a `ProblemError` with the line."""
        try:
            with _ONE_AT_A_TIME, self._importable(), _torch_defaults(self._dtype), _cuda_as_cpu():
                yield
        except TritonAgentError:
            raise
        except (Exception, SystemExit) as error:
            lines = str(error).strip().splitlines()
            said = lines[0][:300] if lines else "(no message)"
            what = f"{action} raised {type(error).__name__}: {said}"
            raise ProblemError(what, where=self._blame(error), remedy=_remedy(error) or remedy) from error

    @contextlib.contextmanager
    def _importable(self) -> Iterator[None]:
        path, writes = sys.path, sys.dont_write_bytecode
        displaced = {name: sys.modules.pop(name) for name in self._loaded_under_its_names()}
        sys.modules.update(self._locals)
        sys.path = [*self._search, *path]  # a new list, since another thread may be iterating over the old one
        sys.dont_write_bytecode = True  # nothing is written into the user's folder
        try:
            yield
        finally:
            added = [entry for entry in sys.path if entry not in path and entry not in self._search]
            self._search.extend(added)  # the file extended its own path; imports in forward rely on it
            for name in self._loaded_under_its_names():
                if sys.modules[name] is not self.module:
                    self._locals[name] = sys.modules.pop(name)  # put back when the user's code runs again
            sys.modules.update(displaced)
            sys.path = path
            sys.dont_write_bytecode = writes

    def _loaded_under_its_names(self) -> list[str]:
        names = self._claimed - _NEVER_REPLACED
        return [name for name in list(sys.modules) if name.split(".")[0] in names] if names else []

    def _blame(self, error: BaseException) -> str:
        """Return the innermost line that belongs to the user's own files."""
        if isinstance(error, SyntaxError) and error.filename:
            return f"{error.filename}:{error.lineno or 1}"
        found = str(self.path)
        for frame in traceback.extract_tb(error.__traceback__):
            path = Path(frame.filename)
            beside = path.relative_to(self._root).parts[0] if path.is_relative_to(self._root) else ""
            if path == self.path or beside.removesuffix(".py") in self._claimed:
                found = f"{frame.filename}:{frame.lineno}"
        return found


def _remedy(error: BaseException) -> str:
    text = str(error)
    if isinstance(error, ModuleNotFoundError) and error.name:
        return f"install {error.name.split('.')[0]} in this environment, or put it beside the file"
    if isinstance(error, ImportError) and "relative import" in text:
        return "the folder is not a package: write `import name` instead of `from . import name`"
    if "CUDA" in text and not torch.cuda.is_available():
        return "this machine has no CUDA device: let the file make its tensors without naming a device"
    if isinstance(error, SystemExit):
        return 'put the code of a script under `if __name__ == "__main__":`'
    if isinstance(error, IndexError):
        return 'integer inputs are drawn from 0 to 9 unless limited: --input "i64[8]<4" keeps them below 4'
    return ""


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed every global random generator, and restore its state afterwards.

    CUDA's generators are restored only if CUDA was initialised before, since reading their state creates a context.
    """
    python, array, cpu = random.getstate(), numpy.random.get_state(), torch.random.get_rng_state()
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None  # type: ignore[no-untyped-call]
    random.seed(seed)
    numpy.random.seed(seed % 2**32)
    seed_torch(seed)
    try:
        yield
    finally:
        random.setstate(python)
        numpy.random.set_state(array)
        torch.random.set_rng_state(cpu)
        if cuda is not None:
            torch.cuda.set_rng_state_all(cuda)


def seed_torch(seed: int) -> None:
    """Seed CPU and GPUs. Unlike `torch.manual_seed` it records no stack trace for every other kind of device."""
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_available():
        torch.cuda.manual_seed_all(seed)


@contextlib.contextmanager
def _torch_defaults(dtype: torch.dtype) -> Iterator[None]:
    """Set the file's default dtype, and undo changes that its code makes to torch's defaults."""
    before, gradients = torch.get_default_dtype(), torch.is_grad_enabled()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
        torch.set_grad_enabled(gradients)


@contextlib.contextmanager
def _cuda_as_cpu() -> Iterator[None]:
    if torch.cuda.is_available():
        yield
        return
    with contextlib.ExitStack() as stack:
        resets = ("reset_peak_memory_stats", "reset_max_memory_allocated")
        for name in ("synchronize", "empty_cache", "set_device", *resets):
            stack.enter_context(_replaced(torch.cuda, name, lambda *args, **kwargs: None))
        stack.enter_context(_replaced(torch.cuda, "current_device", lambda: 0))
        stack.enter_context(_replaced(torch, "set_default_device", lambda device: None))
        if "torch._dynamo" in sys.modules:  # otherwise nothing can have been marked for compilation
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        stack.enter_context(CudaAsCpu())
        yield


@contextlib.contextmanager
def _replaced(owner: Any, name: str, stand_in: Any) -> Iterator[None]:
    before = getattr(owner, name)
    setattr(owner, name, stand_in)
    try:
        yield
    finally:
        setattr(owner, name, before)


class CudaAsCpu(TorchFunctionMode):
    """Replaces CUDA by the CPU in calls such as `device="cuda"`, `.to("cuda")`, `.cuda()` and pinned memory."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = {name: _on_cpu(value) if name == "device" else value for name, value in (kwargs or {}).items()}
        if func in (torch.Tensor.cuda, torch.Tensor.pin_memory):
            return args[0]
        if func is torch.Tensor.to:
            args = (args[0], *(_on_cpu(value) for value in args[1:]))
        kwargs.pop("pin_memory", None)
        return func(*args, **kwargs)


def _on_cpu(device: Any) -> Any:
    named = isinstance(device, (str, torch.device)) and str(device).split(":")[0] == "cuda"
    return torch.device("cpu") if named or type(device) is int else device
