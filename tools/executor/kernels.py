"""The kernels of tapes as Triton functions, their arguments, and their lines in the candidate's file."""

from __future__ import annotations

import dataclasses
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from triton_agent.tools.kernels import modules as kernel_modules
from triton_agent.tools.kernels.kernel import (
    Constexpr,
    DType,
    FunctionReference,
    KernelSet,
    LanguageName,
    pointee,
    value_from_json,
)
from triton_agent.tools.kernels.language import check_value
from triton_agent.tools.kernels.language_names import dtype_paths, table
from triton_agent.tools.processes.child import report_of
from triton_agent.tools.processes.protocol import Raised
from triton_agent.tools.tape.tape import Constexpr as PassedConstexpr
from triton_agent.tools.tape.tape import Descriptor

SETS_KEPT = 32
"""A candidate has one set of kernels, or a few if its tapes launch different ones."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Kernels:
    """Functions of this process's Triton, by identity."""

    functions: Mapping[str, Any]
    kernels: KernelSet
    path: str
    """File that holds the functions."""
    lines: tuple[tuple[int, int], ...]
    """First line of each function in the module and in the candidate's file, sorted."""

    @classmethod
    def load(cls, data: Any, folder: str) -> Kernels:
        """Check the kernels again and load them as a module in `folder`, which must be empty."""
        kernels = KernelSet.from_json(data)
        module = kernel_modules.build(kernels, apart=True)
        functions = kernel_modules.execute(module, Path(folder))
        path = next(iter(Path(folder).glob("*.py")))
        return cls(
            functions=functions, kernels=kernels, path=str(path), lines=tuple(sorted(module.first_lines.values()))
        )

    def argument(self, data: Any) -> Any:
        """Return a compile-time argument of a launch."""
        value = value_from_json(data)
        check_value(value, self.kernels)
        return self._python(value)

    def _python(self, value: Any) -> Any:
        if isinstance(value, Constexpr):
            return tl.constexpr(self._python(value.value))
        if isinstance(value, FunctionReference):
            return self.functions[value.identity]
        if isinstance(value, LanguageName):
            return table()[value.path].object
        if isinstance(value, DType):
            element, pointers = pointee(value.name)
            kind = table()[f"triton.language.{dtype_paths()[element]}"].object
            for is_constant in reversed(pointers):
                kind = tl.pointer_type(kind, const=is_constant)
            return kind
        if isinstance(value, tuple):
            return tuple(map(self._python, value))
        return value

    def line_of(self, line: int) -> int:
        """Return the line of the candidate's file for a line of the module; 0 if there is none."""
        here, there = max(((h, t) for h, t in self.lines if h <= line), default=(0, 0))
        return line - here + there if here else 0

    def report(self, error: BaseException) -> Raised:
        """Return an error as a message, with the lines of the candidate's file."""
        passed = report_of(error, self.path).lines  # lines of the module, with their code
        found = [dataclasses.replace(at, line=self.line_of(at.line or 0)) for at in passed if at.code]
        if isinstance(getattr(error, "line", None), int):
            error.line = self.line_of(error.line)  # type: ignore[attr-defined]  # used in the error's text
        return dataclasses.replace(report_of(error, self.path), lines=tuple(found))


@dataclasses.dataclass(frozen=True, slots=True)
class Described:
    """A tensor that is passed to a kernel as a descriptor."""

    tensor: torch.Tensor
    descriptor: Descriptor


def as_passed(value: Any, kernels: Kernels) -> Any:
    """Return a launch's argument in the form that Triton accepts."""
    if isinstance(value, PassedConstexpr):
        return kernels.argument(value.value)
    if isinstance(value, Described):
        return descriptor_over(value.tensor, value.descriptor)
    if isinstance(value, list | tuple):
        return tuple(as_passed(item, kernels) for item in value)
    return value


def descriptor_over(base: Any, descriptor: Descriptor) -> TensorDescriptor:
    """Return Triton's own descriptor over a tensor, or over a replacement for one."""
    more = {"round_f32_to_tf32": True} if descriptor.round_f32_to_tf32 else {}  # not in Triton 3.6
    view = descriptor.view
    shape, strides, block = list(view.shape), list(view.strides), list(descriptor.block_shape)
    return TensorDescriptor(base, shape, strides, block, padding=descriptor.padding, **more)


class Loader:
    """Loads kernels for several tapes, each set only once."""

    def __init__(self, scratch: str) -> None:
        self._scratch = scratch
        self._loaded: dict[str, Kernels] = {}

    def load(self, data: Any) -> Kernels:
        """Return the functions of a set of kernels given as JSON data."""
        text = json.dumps(data)
        if text not in self._loaded:
            if len(self._loaded) == SETS_KEPT:
                self.forget()
            self._loaded[text] = Kernels.load(data, tempfile.mkdtemp(dir=self._scratch))
        return self._loaded[text]

    def forget(self) -> None:
        """Drop the kernels, to make room for those of another candidate."""
        self._loaded.clear()
