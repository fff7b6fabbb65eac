"""Runs the kernels of a tape in Triton's interpreter, and reports launches, bytes moved and races."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from triton_agent.tools.emulate.bounds import reveal
from triton_agent.tools.emulate.faults import KernelError, StaticAssertionFailed, Unsupported
from triton_agent.tools.emulate.interpreter import Interpreter
from triton_agent.tools.executor.kernels import Kernels, as_passed
from triton_agent.tools.executor.memory import Block
from triton_agent.tools.executor.program import Launching
from triton_agent.tools.processes.protocol import Predicate, SeenLaunch
from triton_agent.tools.results import KernelResources
from triton_agent.tools.tape.tape import Choice


class InterpretedLauncher:
    """Launches in this process, on CPU tensors."""

    def __init__(self, interpreter: Interpreter, kernels: Kernels, turn: int = 0) -> None:
        self._interpreter = interpreter
        self._kernels = kernels
        self._turn = turn

    def begin(self, order: int | None = None, only: Sequence[int] | None = None) -> None:
        """Forget earlier launches; from now on run programs in the order of this seed, or only the listed ones."""
        if only is not None:  # their numbers belong to the grid of the first configuration
            self._turn = 0
        self._interpreter.only = only
        self._interpreter.order_seed = order
        self._interpreter.launches.clear()
        self._interpreter.faults.clear()
        self._interpreter.notes.stop()

    def limit(self, only: Sequence[int] | None) -> None:
        self._interpreter.only = only

    def note_numbers(self, *, forced: str | None = None) -> None:
        self._interpreter.notes.start(forced=forced)

    def computed(self, tensor: torch.Tensor, sources: Sequence[torch.Tensor] | None) -> None:
        spans = None if sources is None else [_span(source) for source in sources]
        self._interpreter.notes.predicates.computed(*_span(tensor), spans)

    def predicates(self) -> tuple[Predicate, ...]:
        line_of = self._kernels.line_of
        return tuple(
            Predicate(
                place=place,
                line=line_of(it.line),
                kind=it.kind,
                only=it.only,
                lanes=it.lanes,
                limit=it.limit,
                between=(it.low, it.high),
                asked=it.asked,
                of_itself=it.of_itself,
            )
            for place, it in self._interpreter.notes.predicates.seen.items()
        )

    def numbers(self) -> tuple[float, ...]:
        """Return the noted numbers."""
        return tuple(sorted(self._interpreter.notes.numbers))

    def counterparts(self, *, of_sums: bool) -> tuple[Any, Any]:
        return self._interpreter.notes.counterparts.found(of_sums=of_sums)

    def constant(self, value: Any) -> Any:
        return as_passed(value, self._kernels)

    def prepare(self, choice: Choice, given: list[Any]) -> Launching:
        kernel = self._kernels.functions[choice.kernel]
        names = [name for name, _ in choice.arguments]
        options = dict(choice.options)

        def launch(given: list[Any]) -> None:
            self._interpreter.launch(kernel, (), choice.grid, {**dict(zip(names, given)), **options})

        return launch

    def choose(self, launches: Sequence[Callable[[], None]], restored: Callable[[], None]) -> int:
        """Return the next configuration without a failing static assertion; each tape starts at another one.

        Speed is unknown here, and any configuration may be the fastest on a GPU.
        """
        first = self._turn % len(launches)
        order: list[int] = [*range(first, len(launches)), *range(first)]
        for number in order:
            try:
                launches[number]()
            except KernelError as error:
                if isinstance(error.__cause__, StaticAssertionFailed) and number != order[-1]:
                    continue
                raise
            finally:
                restored()
                self._interpreter.launches.clear()
                self._interpreter.faults.clear()
            return number
        return 0

    def reveal(self, block: Block) -> None:
        """Let kernels access this memory by its address."""
        reveal(block.tensor(torch.uint8, (block.size_bytes or block.storage.nbytes(),), (1,), 0))

    def launches(self) -> tuple[SeenLaunch, ...]:
        """Return the launches since `begin`."""
        return tuple(
            SeenLaunch(
                kernel=launch.kernel,
                programs=launch.programs,
                bytes_loaded=launch.bytes_loaded,
                bytes_stored=launch.bytes_stored,
                contested=launch.contested,
                read_beside_stores=launch.read_beside_stores,
            )
            for launch in self._interpreter.launches
        )

    def written(self) -> list[tuple[int, int]]:
        """Return the ranges of addresses that launches since `begin` stored into."""
        return [part for launch in self._interpreter.launches for part in launch.written]

    def is_unsupported(self) -> bool:
        """Return True if a launch needed a GPU."""
        return any(isinstance(fault, Unsupported) for fault in self._interpreter.faults)

    def resources(self) -> tuple[KernelResources, ...]:
        return ()


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    """Return the first address of a tensor's storage and the one behind it."""
    storage = tensor.untyped_storage()
    return storage.data_ptr(), storage.data_ptr() + storage.nbytes()
