"""The size of a problem: elements, arithmetic and shapes of one call of the reference.

`estimate` measures on fake tensors, which take no memory; `prove` runs the reference within limits. Not covered: the
floor of a call and its time.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import math
import sys
import warnings
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
from triton_agent.tools.reference.allowance import TimeLimit, TooLarge, elements_made
from triton_agent.tools.reference.flop_meter import FlopMeter
from triton_agent.tools.reference.index_bounds import refusing
from triton_agent.tools.reference.input_tensors import map_tensors, tensors_in
from triton_agent.tools.reference.reference import Reference

_Made = TypeVar("_Made")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits for a run of the reference."""

    elements_at_most: int
    """For inputs, parameters and outputs together, and for each intermediate tensor on its own."""
    flops_at_most: int
    """For matrix products and convolutions; a multiply-add counts as two."""
    seconds_at_most: float
    """For a whole search, not for one call."""
    operators_at_most: int = sys.maxsize
    """Calls of torch's operators from which on steps are left out, as far as sizes decide how many there are."""


INTERPRETER = Limits(elements_at_most=1 << 18, flops_at_most=200_000_000, seconds_at_most=30.0, operators_at_most=1000)
"""Triton's interpreter takes about 1 ms per program, and about a second for this many elements or flops. A step
of a recurrent layer takes it 5 to 10 ms."""

FULL_SIZE = Limits(elements_at_most=1 << 24, flops_at_most=20_000_000_000, seconds_at_most=60.0)
"""For variants checked on a GPU. A CPU still runs the reference on each of them in about a second."""

RUN_ON_GPU = Limits(elements_at_most=1 << 29, flops_at_most=sys.maxsize, seconds_at_most=60.0)
"""For runs on a GPU that only measure sizes: a tensor of 2 GiB of float32 takes milliseconds there."""

MOST_UNCUT_ELEMENTS = 1 << 28
"""A larger tensor (1 GiB of float32) is not created just to be cut, or just to measure a size."""


Offsets = tuple[int, int, int]
"""Number of an input that rises from 0 to a size, and the input and dimension that have this size."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """Size of one call of the reference."""

    input_shapes: tuple[tuple[int, ...], ...]
    output_shapes: tuple[tuple[int, ...], ...]
    parameter_elements: int
    elements: int
    """Inputs, parameters and outputs together."""
    largest: int
    """Elements of the largest tensor that any operator wrote."""
    makes_empty: bool
    """True if an operator's result had no elements."""
    flops: int
    operators: int
    """Calls of torch's operators, or those in all steps of recurrent layers if these are more."""
    finite: tuple[bool, ...] | None
    """For each output, True if it has no NaN or infinity; None if no values were computed."""
    calls: tuple[str, ...]
    """Names of the torch functions that the module called, in order, each with the number of tensors passed. They
    change with a size that the module loops over, and with the number of layers of a recurrent module. Operators below
    them, which torch chooses by device or size, are not listed."""
    offsets: frozenset[Offsets] = frozenset()
    """Inputs that look like offsets; empty if no values were computed."""

    def load(self, limits: Limits) -> float:
        """Return the size as a multiple of the limits; the call fits if this is at most 1."""
        elements = max(self.elements, self.largest) / limits.elements_at_most
        return max(elements, self.flops / limits.flops_at_most)

    def work(self, limits: Limits) -> float:
        """Return the sum of the sizes relative to the limits. It falls whenever any of them falls."""
        elements = self.elements + self.largest + self.parameter_elements
        return elements / limits.elements_at_most + self.flops / limits.flops_at_most


class _Meter(UncompiledMode):  # type: ignore[no-untyped-call]
    """Records the largest result of any operator, and if any had no elements; stops the run at a size or time limit."""

    def __init__(self, elements_at_most: float = math.inf, limit: TimeLimit | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.elements_at_most = elements_at_most
        self.limit = limit
        self.largest = 0
        self.makes_empty = False
        self.operators = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        self.operators += 1
        if self.elements_at_most < math.inf:
            self._refuse(elements_made(func, args, kwargs, int(self.elements_at_most)))  # before the memory is taken
        result = func(*args, **kwargs)
        for tensor in tensors_in(result):
            elements = tensor.numel()
            if tensor.layout is torch.strided:  # without the repeats of an expanded tensor
                elements = math.prod(n for n, stride in zip(tensor.shape, tensor.stride()) if stride != 0 or n == 0)
            self.largest = max(self.largest, elements)
            self.makes_empty |= elements == 0
        self._refuse(self.largest)
        return result

    def _refuse(self, elements: int) -> None:
        if elements > self.elements_at_most:
            raise TooLarge(f"the reference makes a tensor of {elements} elements")
        if self.limit is not None and self.limit.is_over:
            raise TooLarge("the reference takes too long")


_RECURRENT, _RECURRENT_ARGUMENTS = frozenset({"lstm", "gru", "rnn_tanh", "rnn_relu"}), 9
"""Functions of recurrent layers and the number of their arguments, the inputs being no packed sequence."""
STEP_OPERATORS = 14
"""Operators of a step of an LSTM."""


class _Calls(TorchFunctionMode):
    """Records calls of torch functions, but not the functions these call, nor reads of attributes such as a shape."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.steps = 0
        """Steps of recurrent layers, which torch may compute in a single operator."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if name in _RECURRENT and len(args) == _RECURRENT_ARGUMENTS and isinstance(args[3], bool):
            x, _, _, _, layers, _, _, both_ways, batch_first = args
            self.steps += x.shape[int(batch_first and x.dim() == 3)] * layers * (2 if both_ways else 1)
        if name != "__get__":
            self.names.append(f"{name} of {sum(1 for _ in tensors_in([args, kwargs]))}")
        return func(*args, **(kwargs or {}))


class NotFollowed(ProblemError):
    """The reference failed on fake tensors, perhaps because of them; `footprint` holds what was measured until then."""

    def __init__(self, error: ProblemError, footprint: Footprint) -> None:
        super().__init__(error.what, where=error.where, remedy=error.remedy)
        self.footprint = footprint
        self.looks_at_values = isinstance(error.__cause__, (DataDependentOutputException, DynamicOutputShapeException))
        """True if the only reason is that it branches on values, or has shapes that depend on them."""


def estimate(reference: Reference, seed: int, *, limit: TimeLimit | None = None) -> Footprint:
    """Measure on fake tensors, which hold no data. Inputs and parameters computed from values are made for real.

    Raise `ProblemError` if the reference does not run, `NotFollowed` if fake tensors may be the reason.
    """
    measured = counter, meter, calls = FlopMeter(), _Meter(limit=limit), _Calls()
    fake = FakeTensorMode(allow_non_fake_inputs=True)
    inputs = _fake_if_possible(lambda: reference.make_inputs(seed), fake, limit)
    model = fake_model(lambda: _model(reference, seed), fake, limit)
    inputs = [map_tensors(value, lambda t: t if isinstance(t, FakeTensor) else fake.from_tensor(t)) for value in inputs]
    try:
        with silent_fakes(), torch.no_grad(), fake, meter, counter, calls:
            outputs = reference.call(model, inputs)
    except TooLarge:
        raise
    except ProblemError as error:
        raise NotFollowed(error, _footprint(model, inputs, None, *measured)) from error
    return _footprint(model, inputs, outputs, *measured)


def fake_model(make: Callable[[], nn.Module], fake: FakeTensorMode, limit: TimeLimit | None = None) -> nn.Module:
    """Make a model with fake parameters. A constructor that casts its parameters fails on them and runs for real."""
    return _with_fake_parameters(_fake_if_possible(make, fake, limit), fake)


def _fake_if_possible(make: Callable[[], _Made], fake: FakeTensorMode, limit: TimeLimit | None) -> _Made:
    try:
        with silent_fakes(), fake:
            return make()
    except ProblemError:
        with _Meter(MOST_UNCUT_ELEMENTS, limit):
            return make()


def _with_fake_parameters(model: nn.Module, fake: FakeTensorMode) -> nn.Module:
    """Replace the parameters and buffers of a module by fake ones, in place; shared ones stay shared."""
    made: dict[int, torch.Tensor] = {}
    for module in model.modules():
        for held in (module._parameters, module._buffers):
            for name, tensor in held.items():
                if tensor is None or isinstance(tensor, FakeTensor):
                    continue
                if id(tensor) not in made:
                    made[id(tensor)] = fake.from_tensor(tensor)
                held[name] = made[id(tensor)]  # type: ignore[assignment]
    return model


def _model(reference: Reference, seed: int) -> nn.Module:
    return reference.make_model(seed) if reference.has_reference else _Nothing()


@contextlib.contextmanager
def silent_fakes() -> Iterator[None]:
    """Silence torch's log and warnings about fake tensors; failures on them are expected here."""
    log = logging.getLogger("torch._subclasses.fake_tensor")
    before, log.disabled = log.disabled, True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.disabled = before


class _Nothing(nn.Module):
    """A stand-in for the reference of a problem that has only a verifier."""

    def forward(self, *inputs: Any) -> None:
        return None


def prove(
    reference: Reference, seed: int, *, limits: Limits, limit: TimeLimit | None = None, device: str = "cpu"
) -> Footprint:
    """Measure by running the reference. Raise `ProblemError` if it fails, `TooLarge` if it exceeds the limits."""
    measured = counter, meter, calls = FlopMeter(), _Meter(limits.elements_at_most, limit), _Calls()
    uncut = limits.elements_at_most if reference.batch is None else MOST_UNCUT_ELEMENTS
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else []  # type: ignore[no-untyped-call]
    with torch.random.fork_rng(devices=devices), torch.no_grad():  # a forward with dropout draws numbers
        with _Meter(uncut, limit):
            made = reference.make_inputs_on(device, seed)
            inputs = [map_tensors(value, lambda tensor: tensor.to(device)) for value in made]
        with _Meter(limits.elements_at_most, limit):
            model = _model(reference, seed).to(device)
        offsets = offsets_in(inputs)
        with refusing(on_gpu=device != "cpu"), meter, counter, calls:
            outputs = reference.call(model, inputs)
        if any(tensor.is_floating_point() and tensor.itemsize == 1 for tensor in tensors_in(outputs)):
            raise ProblemError("an output is float8, which cannot be judged", remedy="return another dtype")
        finite = tuple(bool(torch.isfinite(tensor).all()) for tensor in tensors_in(outputs))
    return dataclasses.replace(_footprint(model, inputs, outputs, *measured), finite=finite, offsets=offsets)


def offsets_in(inputs: list[Any]) -> frozenset[Offsets]:
    """Return the inputs in rising order from 0 to a size of another input. Steps of one are positions, no offsets."""
    tensors, found = list(tensors_in(inputs)), set[Offsets]()
    for number, tensor in enumerate(tensors):
        if tensor.dtype not in (torch.int32, torch.int64) or tensor.dim() != 1 or tensor.numel() < 2:
            continue
        steps, last = tensor.diff(), int(tensor[-1])
        if int(tensor[0]) == 0 and last > 1 and bool((steps >= 0).all()) and not bool((steps == 1).all()):
            sizes = ((at, dim, size) for at, it in enumerate(tensors) for dim, size in enumerate(it.shape))
            found |= {(number, at, dim) for at, dim, size in sizes if at != number and size == last}
    return frozenset(found)


def _footprint(
    model: nn.Module, inputs: list[Any], outputs: Any, counter: FlopMeter, meter: _Meter, calls: _Calls
) -> Footprint:
    given, made = list(tensors_in(inputs)), list(tensors_in(outputs))
    parameters = sum(tensor.numel() for tensor in (*model.parameters(), *model.buffers()))
    return Footprint(
        input_shapes=tuple(tuple(tensor.shape) for tensor in given),
        output_shapes=tuple(tuple(tensor.shape) for tensor in made),
        parameter_elements=parameters,
        elements=parameters + sum(tensor.numel() for tensor in (*given, *made)),
        largest=meter.largest,
        makes_empty=meter.makes_empty,
        flops=counter.flops,
        operators=max(meter.operators, STEP_OPERATORS * calls.steps),
        finite=None,
        calls=tuple(calls.names),
    )
