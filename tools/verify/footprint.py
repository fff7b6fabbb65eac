"""How large a problem is: elements, arithmetic and shapes of one call of the original.

`estimate` does it without memory, on fake tensors; `prove` runs the original for real, within limits. Bytes moved and
the floor in time are another matter and not found here.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import math
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import torch
from torch import nn
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
)
from torch.overrides import TorchFunctionMode

from triton_agent.tools.dispatch_modes import UncompiledMode
from triton_agent.tools.errors import ProblemError
from triton_agent.tools.verify.allowance import asked_elements
from triton_agent.tools.verify.flop_meter import FlopMeter
from triton_agent.tools.verify.index_bounds import refusing
from triton_agent.tools.verify.input_tensors import map_tensors, tensors_in
from triton_agent.tools.verify.reference import Reference

_Made = TypeVar("_Made")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a run of the original may take."""

    elements_at_most: int
    """Of inputs, parameters and outputs together, and of every intermediate by itself."""
    flops_at_most: int
    """Of matrix products and convolutions, a multiply-add counted as two."""
    seconds_at_most: float
    """For a whole search, not for one call."""


INTERPRETER = Limits(elements_at_most=1 << 18, flops_at_most=200_000_000, seconds_at_most=30.0)
"""Triton's interpreter takes about 1 ms for each program: a quarter of a million elements, or a matrix product of this
much arithmetic, is about a second."""

FULL_SIZE = Limits(elements_at_most=1 << 24, flops_at_most=20_000_000_000, seconds_at_most=60.0)
"""For variants checked on a GPU: the original still proves each of them on a CPU in about a second."""

RUN_ON_GPU = Limits(elements_at_most=1 << 29, flops_at_most=sys.maxsize, seconds_at_most=60.0)
"""What is run there only to see how large it is: 2 GiB of float32 in one tensor, in milliseconds."""

MOST_UNCUT_ELEMENTS = 1 << 28
"""No tensor larger than this (1 GiB of float32) is made only to be cut, or to find out the size of the rest."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """One call of the original, measured."""

    input_shapes: tuple[tuple[int, ...], ...]
    output_shapes: tuple[tuple[int, ...], ...]
    parameter_elements: int
    elements: int
    """Inputs, parameters and outputs together."""
    largest: int
    """The largest tensor that any operator wrote."""
    flops: int
    finite: tuple[bool, ...] | None
    """For each output whether it is free of NaN and infinity; None where nothing was computed."""
    calls: tuple[str, ...]
    """What it called of torch, in order, by the names it used: a module that loops over a size is another program at
    another size. Which operators a device then chooses for a call of a size is not the module's doing."""

    def load(self, limits: Limits) -> float:
        """How many times the limits it takes; at most 1 fits."""
        elements = max(self.elements, self.largest) / limits.elements_at_most
        return max(elements, self.flops / limits.flops_at_most)

    def work(self, limits: Limits) -> float:
        """The same added up: it falls with anything that gets smaller."""
        elements = self.elements + self.largest + self.parameter_elements
        return elements / limits.elements_at_most + self.flops / limits.flops_at_most


class TooLarge(ProblemError):
    """A run of the original went past its limits and was stopped."""


class _Meter(UncompiledMode):  # type: ignore[no-untyped-call]
    """Notes the largest result of any operator; stops the run past a size or a time."""

    def __init__(self, elements_at_most: float = math.inf, deadline: float = math.inf) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.elements_at_most = elements_at_most
        self.deadline = deadline
        self.largest = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self._refuse(asked_elements(args))  # before the memory is taken
        result = func(*args, **(kwargs or {}))
        for tensor in tensors_in(result):
            self.largest = max(self.largest, _written_elements(tensor))
        self._refuse(self.largest)
        return result

    def _refuse(self, elements: int) -> None:
        if elements > self.elements_at_most:
            raise TooLarge(f"the original makes a tensor of {elements} elements")
        if time.monotonic() > self.deadline:
            raise TooLarge("the original takes too long")


class _Calls(TorchFunctionMode):
    """Notes what is called of torch; what that calls in turn is not seen, and neither is a look at a shape."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if name != "__get__":
            self.names.append(name)
        return func(*args, **(kwargs or {}))


def _written_elements(tensor: torch.Tensor) -> int:
    """Elements without the repeats of an expanded tensor."""
    if tensor.layout is not torch.strided:
        return tensor.numel()
    return math.prod(size for size, stride in zip(tensor.shape, tensor.stride()) if stride != 0 or size == 0)


class NotFollowed(ProblemError):
    """On fake tensors the original could not be run to its end; `footprint` is what was seen until then."""

    def __init__(self, error: ProblemError, footprint: Footprint) -> None:
        super().__init__(error.what, where=error.where, remedy=error.remedy)
        self.footprint = footprint
        self.looks_at_values = isinstance(error.__cause__, (DataDependentOutputException, DynamicOutputShapeException))
        """Whether that is only because it branches on values, or has shapes that depend on them."""


def estimate(reference: Reference, seed: int, *, deadline: float = math.inf) -> Footprint:
    """Measured on fake tensors, which hold no data; inputs and parameters that come from values are made for real.

    Raises `ProblemError` where the original does not run, `NotFollowed` where that may be the fake tensors' fault.
    """
    counter, meter, calls = FlopMeter(), _Meter(deadline=deadline), _Calls()
    fake = FakeTensorMode(allow_non_fake_inputs=True)
    inputs = _fake_if_possible(lambda: reference.make_inputs(seed), fake, deadline)
    model = _fake_if_possible(lambda: _model(reference, seed), fake, deadline)
    inputs = [map_tensors(value, lambda tensor: _faked(fake, tensor)) for value in inputs]
    try:
        with _silent(), torch.no_grad(), fake, meter, counter, calls:
            outputs = reference.call(model, inputs)
    except TooLarge:
        raise
    except ProblemError as error:
        raise NotFollowed(error, _footprint(model, inputs, None, meter, counter, calls, finite=None)) from error
    return _footprint(model, inputs, outputs, meter, counter, calls, finite=None)


def _fake_if_possible(make: Callable[[], _Made], fake: FakeTensorMode, deadline: float) -> _Made:
    try:
        with _silent(), fake:
            return make()
    except ProblemError:
        with _Meter(MOST_UNCUT_ELEMENTS, deadline):
            return make()


def _model(reference: Reference, seed: int) -> nn.Module:
    return reference.make_model(seed) if reference.has_reference else _Nothing()


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """torch logs what fails on fake tensors as an error; here it is a question with the answer no."""
    log = logging.getLogger("torch._subclasses.fake_tensor")
    before, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = before


def _faked(fake: FakeTensorMode, tensor: torch.Tensor) -> torch.Tensor:
    return tensor if isinstance(tensor, FakeTensor) else fake.from_tensor(tensor)


class _Nothing(nn.Module):
    """Stands where a problem has no reference."""

    def forward(self, *inputs: Any) -> None:
        return None


def prove(
    reference: Reference, seed: int, *, limits: Limits, deadline: float = math.inf, device: str = "cpu"
) -> Footprint:
    """Measured by running the original; raises `ProblemError` where it fails, `TooLarge` past the limits."""
    counter, meter, calls = FlopMeter(), _Meter(limits.elements_at_most, deadline), _Calls()
    uncut = limits.elements_at_most if reference.batch is None else MOST_UNCUT_ELEMENTS
    with _quiet_generators(), torch.no_grad():
        with _Meter(uncut, deadline):
            made = reference.make_inputs_on(device, seed)
            inputs = [map_tensors(value, lambda tensor: tensor.to(device)) for value in made]
        with _Meter(limits.elements_at_most, deadline):
            model = _model(reference, seed).to(device)
        with refusing(on_gpu=device != "cpu"), meter, counter, calls:
            outputs = reference.call(model, inputs)
        finite = tuple(bool(torch.isfinite(tensor).all()) for tensor in tensors_in(outputs))
    return _footprint(model, inputs, outputs, meter, counter, calls, finite=finite)


@contextlib.contextmanager
def _quiet_generators() -> Iterator[None]:
    """A forward with dropout draws numbers; nobody else's are to change by that."""
    with torch.random.fork_rng(devices=range(torch.cuda.device_count()) if torch.cuda.is_initialized() else []):  # type: ignore[no-untyped-call]
        yield


def _footprint(
    model: nn.Module,
    inputs: list[Any],
    outputs: Any,
    meter: _Meter,
    counter: FlopMeter,
    calls: _Calls,
    *,
    finite: tuple[bool, ...] | None,
) -> Footprint:
    given, made = list(tensors_in(inputs)), list(tensors_in(outputs))
    parameters = sum(tensor.numel() for tensor in (*model.parameters(), *model.buffers()))
    return Footprint(
        input_shapes=tuple(tuple(tensor.shape) for tensor in given),
        output_shapes=tuple(tuple(tensor.shape) for tensor in made),
        parameter_elements=parameters,
        elements=parameters + sum(tensor.numel() for tensor in (*given, *made)),
        largest=meter.largest,
        flops=counter.flops,
        finite=finite,
        calls=tuple(calls.names),
    )
