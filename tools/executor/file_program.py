"""A shipped file in place of a tape: imported, built and called as its user does it, guard included.

The one text that an executor imports. It was put together by the driver from parts that may be run: the user's own
reference, checked kernels, plans written from admitted tapes, and our guard. A candidate's text never comes here.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import sys
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from triton_agent.tools.executor.memory import Block
from triton_agent.tools.isolate.conditions import Conditions
from triton_agent.tools.isolate.tensors import flatten
from triton_agent.tools.tape.outline import Outline, fill

_SERIAL = itertools.count()
"""Operators that files register for torch.compile are told apart by the names of their modules."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class BoundCall:
    """The arguments of a call with tensors in their places."""

    values: Any


class FileProgram:
    """Has the methods of `program.Program` that the worker and the stopwatch use."""

    def __init__(
        self,
        text: str,
        folder: str,
        *,
        constructor: Any,
        call: Outline,
        train: bool,
        conditions: Conditions,
        device: str,
        seed: int,
    ) -> None:
        self.launcher = Unlisted()
        self.chosen: dict[int, int] = {}
        self._call = call
        self._surroundings = conditions.calling(device) if conditions.autocast else contextlib.nullcontext()
        module = _imported(text, Path(folder))
        torch.manual_seed(seed)
        args, kwargs = constructor
        self._model: torch.nn.Module = module.ModelNew(*args, **kwargs).to(device).train(train)
        self._named = {
            **dict(self._model.named_parameters(remove_duplicate=False)),
            **dict(self._model.named_buffers()),
        }

    def set_state(self, values: Mapping[str, torch.Tensor]) -> None:
        """New values of parameters and buffers."""
        with torch.no_grad():
            for name, tensor in self._named.items():
                if name in values:
                    tensor.copy_(values[name])

    def state(self) -> dict[str, torch.Tensor]:
        """Parameters and buffers as they are now."""
        return {name: tensor.detach() for name, tensor in self._named.items()}

    def bound(self, inputs: Sequence[torch.Tensor]) -> BoundCall:
        """Inputs for several calls."""
        return BoundCall(fill(self._call.values, inputs))

    def call(self, inputs: Sequence[torch.Tensor] | BoundCall, run: Any) -> list[torch.Tensor]:
        """The outputs of one call. Memory is as the file makes it: nothing is filled or guarded."""
        values = (inputs if isinstance(inputs, BoundCall) else self.bound(inputs)).values
        with torch.no_grad(), self._surroundings:
            returned = self._model(*values)
        if type(returned) is torch.Tensor:
            return [returned]
        outputs: list[torch.Tensor] = []
        flatten(returned, outputs.append)
        return outputs


class Unlisted:
    """A launcher's answers where the file launches by itself: nothing is known of its launches."""

    def begin(self, order: int | None = None, only: Sequence[int] | None = None) -> None:
        """There is nothing to forget."""

    def reveal(self, block: Block) -> None:
        """An address is enough."""

    def launches(self) -> list[dict[str, Any]]:
        return []

    def is_unsupported(self) -> bool:
        return False

    def resources(self) -> list[dict[str, Any]]:
        return []


def _imported(text: str, folder: Path) -> types.ModuleType:
    """The file as a module; Triton reads its kernels' text from the disk."""
    name = f"shipped_{next(_SERIAL)}"
    path = folder / f"{name}.py"
    path.write_text(text, encoding="utf-8")
    module = types.ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module
    exec(compile(text, str(path), "exec", dont_inherit=True), module.__dict__)
    return module
