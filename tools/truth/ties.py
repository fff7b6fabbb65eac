"""Accepts every order of equal elements, where an operator leaves the order open.

Stable sorts do not, and neither does `argmax`, which promises the first of equal elements. The reference runs several
times with equal elements in another order, once in float64 and once in its own precision, since elements may be equal
in only one of them. Any value is accepted in the elements of the output that differ between these runs.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from triton_agent.tools.dispatch_modes import UncompiledMode
from triton_agent.tools.graph.operators import ORDERING
from triton_agent.tools.processes.payloads import Payload
from triton_agent.tools.processes.tensors import nested_tensors
from triton_agent.tools.reference.tensor_cores import Around
from triton_agent.tools.truth.expectation import Expectation, Given, OriginalFailed, Output, behaviour
from triton_agent.tools.truth.jumps import Span, anything_where, argument_of, joined
from triton_agent.tools.truth.truth import run_lifted
from triton_agent.tools.truth.yardstick import RARE_FLIPS, SAME_SIZE, Places, near

FEW_PLACES = 8
"""Ties count as accidents if at most this many elements of an output depend on them, or at most a hundredth."""
AT_FIRST = 4
"""Number of runs at first. More follow only if the outputs of these differ."""
ORDERS = 33
"""Number of orders in which equal elements are tried. If they are at most 33, each of them comes last in one order."""


def hinges_on_ties(model: torch.nn.Module, expectation: Expectation) -> bool:
    """Return True if a few integer outputs depend on which of two equal elements comes first."""
    return any(
        0
        < int((other.to(output.yard.truth.device) != output.yard.truth).sum())
        <= max(FEW_PLACES, RARE_FLIPS * other.numel())
        for run in _in_other_orders(lambda: _lifted(model, expectation))
        for output, other in zip(expectation.outputs, run)
        if not output.yard.truth.is_floating_point() and other.shape == output.yard.truth.shape
    )


def with_free_places(
    model: torch.nn.Module,
    expectation: Expectation,
    others: Sequence[list[Any] | Payload] = (),
    *,
    around: Around = contextlib.nullcontext,
) -> Expectation:
    """Accept any value in elements that depend on which of two equal elements comes first.

    With other inputs, integers that differ for those are accepted as well. `around` enters the user's precision.
    """
    exact = _in_other_orders(lambda: _lifted(model, expectation))
    as_it_is = _in_other_orders(lambda: behaviour(model, expectation.packed_inputs, around).outputs)
    with Ordered() as ordered:
        run_lifted(model, Given(expectation.packed_inputs).values)
    beside = [run_lifted(model, Given(inputs).values) for inputs in others]
    elsewhere = [nested_tensors(run[0]) for run in beside if run is not None]

    def opened(i: int, output: Output) -> Output:
        yard = output.yard
        truth, apart = yard.truth, torch.zeros_like(yard.truth, dtype=torch.bool)
        if truth.is_complex():
            return output
        for runs, usual in ((exact, truth), (as_it_is, yard.original)):
            for other in [run[i] for run in runs if len(run) > i and run[i].shape == truth.shape]:
                apart |= _are_apart(near(other), usual)
        for found in elsewhere if not truth.is_floating_point() else ():
            if len(found) > i and found[i].shape == truth.shape:
                apart |= near(found[i]) != truth
        span: Span | None = joined(yard.span, anything_where(apart, truth))
        places = ordered.places(truth) if span is not None and not others else None
        return dataclasses.replace(output, yard=dataclasses.replace(yard, span=span, places=places))

    outputs = tuple(opened(i, output) for i, output in enumerate(expectation.outputs))
    return dataclasses.replace(expectation, outputs=outputs)


def with_open_order(run: Callable[[], Sequence[torch.Tensor]], outputs: Sequence[Output]) -> tuple[Output, ...]:
    """Accept any value in elements that depend on which of two equal elements comes first; `run` calls the reference.

    Elements that are equal in float64 only are not known here.
    """
    runs = [list(map(near, found)) for found in _in_other_orders(run)]

    def opened(i: int, output: Output) -> Output:
        usual = output.yard.original
        apart = torch.zeros_like(usual, dtype=torch.bool)
        for found in runs:
            if not usual.is_complex() and len(found) > i and found[i].shape == usual.shape:
                apart |= _are_apart(found[i], usual)
        return dataclasses.replace(output, yard=dataclasses.replace(output.yard, span=anything_where(apart, usual)))

    return tuple(opened(i, output) for i, output in enumerate(outputs))


class NotesOrdering(UncompiledMode):  # type: ignore[no-untyped-call]
    """Notes whether an operator that leaves the order of equal elements open runs inside."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.met = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.met = self.met or func._schema.name.removeprefix("aten::") in ORDERING
        return func(*args, **(kwargs or {}))


class _InAnotherOrder(UncompiledMode):  # type: ignore[no-untyped-call]
    """Changes the order of equal elements in every operator that sorts, while the block runs."""

    def __init__(self, share: float) -> None:
        """Rotate equal elements by this share of their number, from 0 for not at all to 1 for the last one first."""
        super().__init__()  # type: ignore[no-untyped-call]
        self._share = share

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        found = func(*args, **kwargs)
        if func._schema.name.removeprefix("aten::") not in ORDERING or not isinstance(found, (list, tuple)):
            return found
        values, places = found
        x = args[0]
        if argument_of(func, "stable", args, kwargs) or not x.dim() or not places.numel():
            return found
        dim = argument_of(func, "dim", args, kwargs)
        ranks = _with_equals_rotated(x, dim, self._share)
        if x.is_floating_point() and "median" in func._schema.name:  # NaN comes before any number, or is left out
            ranks = ranks.masked_fill(x.isnan(), math.nan)
        if func._schema.name == "aten::mode":
            keep = bool(argument_of(func, "keepdim", args, kwargs))
            is_there = x == (values if keep else values.unsqueeze(dim))
            return values, torch.where(is_there, ranks, -1.0).argmax(dim, keepdim=keep)
        return values, func(ranks, *args[1:], **kwargs)[1]


def _with_equals_rotated(x: torch.Tensor, dim: int, share: float) -> torch.Tensor:
    """Return different numbers that are in the order of these, and equal ones in the order of their places, rotated.

    NaN counts as the largest number, and all NaN as equal. Numbers that differ by next to nothing in their row count as
    equal, too, such as probabilities of 1e-40 and 1e-44, which another exponential takes for zero.
    """
    values = x.nan_to_num(0.0, math.inf, -math.inf) if x.is_floating_point() else x
    ranks: torch.Tensor = torch.unique(values, return_inverse=True)[1].double()
    if x.is_floating_point():
        ranks = ranks.masked_fill(x.isnan(), float(x.numel()))
    ranks, order = ranks.movedim(dim, -1).sort(stable=True)
    ordered = x.movedim(dim, -1).gather(-1, order).double()
    spread = x.movedim(dim, -1).double().nan_to_num(0.0, 0.0, 0.0).square().mean(-1, keepdim=True).sqrt()
    at = torch.arange(ranks.shape[-1], device=x.device).expand(ranks.shape)
    begins = torch.ones_like(ranks, dtype=torch.bool)
    begins[..., 1:] = (ranks.diff() != 0) & ~(ordered.diff() <= SAME_SIZE * spread)
    ends = begins.roll(-1, -1)
    first = torch.where(begins, at, 0).cummax(-1).values
    count = torch.where(ends, at, ranks.shape[-1]).flip(-1).cummin(-1).values.flip(-1) + 1 - first
    rotated = (at - first + (share * (count - 1)).round().long()) % count
    moved = torch.empty_like(ranks).scatter_(-1, order, ranks.gather(-1, first) + 0.5 * rotated / count)
    return moved.movedim(-1, dim).contiguous()


def _in_other_orders(run: Callable[[], Sequence[torch.Tensor] | None]) -> list[Sequence[torch.Tensor]]:
    """Return the outputs of several runs with equal elements in other orders, without those that failed."""
    found: list[Sequence[torch.Tensor]] = []
    for number in range(ORDERS):
        if number == AT_FIRST and all(_are_alike(found[0], other) for other in found[1:]):
            break
        share = number // 2 / (ORDERS - 1)
        with _InAnotherOrder(1.0 - share if number % 2 else share), contextlib.suppress(OriginalFailed):
            outputs = run()
            found += [] if outputs is None else [outputs]
    return found


def _are_alike(some: Sequence[torch.Tensor], others: Sequence[torch.Tensor]) -> bool:
    return len(some) == len(others) and not any(
        a.shape != b.shape or a.is_complex() or bool(_are_apart(a, b).any()) for a, b in zip(some, others)
    )


def _lifted(model: torch.nn.Module, expectation: Expectation) -> list[torch.Tensor] | None:
    run = run_lifted(model, Given(expectation.packed_inputs).values)
    return None if run is None else nested_tensors(run[0])


def _are_apart(other: torch.Tensor, usual: torch.Tensor) -> torch.Tensor:
    """Return the elements in which two outputs differ by more than a negligible amount."""
    if not usual.is_floating_point():
        return other != usual
    rms = usual.nan_to_num(0.0, 0.0, 0.0).square().mean().sqrt()
    differ = (other - usual).abs() > 1e-6 * (usual.abs() + rms)
    finite = torch.isfinite(other) & torch.isfinite(usual)
    return torch.where(finite, differ, (other != usual) & ~(other.isnan() & usual.isnan()))


class Ordered(UncompiledMode):  # type: ignore[no-untyped-call]
    """Records the sorting operators that run inside, with their operands and the positions they return."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._seen: list[tuple[torch.Tensor, int, torch.Tensor]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if func._schema.name in ("aten::sort", "aten::topk") and isinstance(result, (list, tuple)) and args[0].dim():
            dim = argument_of(func, "dim", args, kwargs)
            if isinstance(dim, int):
                self._seen.append((args[0].clone(), dim % args[0].dim(), result[1].clone()))
        return result

    def places(self, truth: torch.Tensor) -> Places | None:
        """Return the sorted operand if one of the recorded operators returned these positions, else None."""
        for operand, dim, positions in self._seen:
            if not truth.is_floating_point() and positions.shape == truth.shape and torch.equal(near(positions), truth):
                return Places(operand=near(operand), dim=dim)
        return None
