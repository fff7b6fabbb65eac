"""Runs a shipped file instead of a tape: imported, built and called as its user does it, guard included.

This is the only text that an executor imports. The driver assembled it from parts that may be run: the user's own
reference, checked kernels, plans written from admitted tapes, and our guard. It contains no text of a candidate.
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
from triton_agent.tools.processes.protocol import Predicate, SeenLaunch
from triton_agent.tools.processes.tensors import flatten
from triton_agent.tools.processes.torch_switches import Conditions
from triton_agent.tools.results import KernelResources
from triton_agent.tools.tape.outline import Outline, fill, passed

_SERIAL = itertools.count()
"""Numbers for unique module names, under which the files register operators for torch.compile."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class BoundCall:
    """The arguments of a call, with tensors in their places."""

    values: Any


class Unlisted:
    """A launcher for files that launch by themselves, about whose launches nothing is known."""

    def begin(self, order: int | None = None, only: Sequence[int] | None = None) -> None: ...

    def limit(self, only: Sequence[int] | None) -> None: ...

    def note_numbers(self, *, forced: str | None = None) -> None: ...

    def computed(self, tensor: torch.Tensor, sources: Sequence[torch.Tensor] | None) -> None: ...

    def predicates(self) -> tuple[Predicate, ...]:
        return ()

    def numbers(self) -> tuple[float, ...]:
        return ()

    def counterparts(self, *, of_sums: bool) -> tuple[Any, Any]:
        return (), ()

    def reveal(self, block: Block) -> None: ...

    def launches(self) -> tuple[SeenLaunch, ...]:
        return ()

    def written(self) -> list[tuple[int, int]]:
        return []

    def is_unsupported(self) -> bool:
        return False

    def resources(self) -> tuple[KernelResources, ...]:
        return ()


class FileProgram:
    """Has those methods of `program.Program` that the worker and the stopwatch use."""

    def __init__(
        self,
        text: str,
        folder: str,
        *,
        constructor: Any,
        call: Outline,
        train: bool,
        by_keyword: tuple[str, ...],
        conditions: Conditions,
        device: str,
        seed: int,
    ) -> None:
        self.launcher = Unlisted()
        self.chosen: dict[int, int] = {}
        self._call, self._by_keyword = call, by_keyword
        self._surroundings = conditions.calling(device) if conditions.autocast else contextlib.nullcontext()
        name = f"shipped_{next(_SERIAL)}"
        path = Path(folder) / f"{name}.py"
        path.write_text(text, encoding="utf-8")  # Triton reads the text of kernels from the disk
        module = types.ModuleType(name)
        module.__file__ = str(path)
        sys.modules[name] = module
        exec(compile(text, str(path), "exec", dont_inherit=True), module.__dict__)
        torch.manual_seed(seed)
        args, kwargs = constructor
        self._model: torch.nn.Module = module.ModelNew(*args, **kwargs).to(device).train(train)
        self._named = {
            **dict(self._model.named_parameters(remove_duplicate=False)),
            **dict(self._model.named_buffers()),
        }

    def set_state(self, values: Mapping[str, torch.Tensor]) -> None:
        """Set the values of parameters and buffers."""
        with torch.no_grad():
            for name, tensor in self._named.items():
                if name in values:
                    tensor.copy_(values[name])

    def state(self) -> dict[str, torch.Tensor]:
        """Return the current parameters and buffers."""
        return {name: tensor.detach() for name, tensor in self._named.items()}

    def bound(self, inputs: Sequence[torch.Tensor]) -> BoundCall:
        """Return the arguments for several calls."""
        return BoundCall(fill(self._call.values, inputs))

    def call(self, inputs: Sequence[torch.Tensor] | BoundCall, run: Any) -> list[torch.Tensor]:
        """Return the outputs of one call. The file allocates memory itself, without fill values or guards."""
        values = (inputs if isinstance(inputs, BoundCall) else self.bound(inputs)).values
        with torch.no_grad(), self._surroundings:
            positional, named = passed(values, self._by_keyword)
            returned = self._model(*positional, **named)
        if type(returned) is torch.Tensor:
            return [returned]
        outputs: list[torch.Tensor] = []
        flatten(returned, outputs.append)
        return outputs
