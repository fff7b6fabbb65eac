"""Decides whether a tape may be run, by checking every number on it against the others and against the call.

A tape comes from the process in which the candidate's Python ran, so all of it may be forged. An admitted tape runs
only torch's own operators that compute on tensors, its views lie inside their buffers, and its compiler options have
the right types. `kernels/language.py` checks the kernels; the executor checks their memory accesses at run time.
Admission does not check whether the tape computes the right answer.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping

import torch

from triton_agent.tools.compile.targets import LARGEST_GRID
from triton_agent.tools.graph.operators import kind_of
from triton_agent.tools.processes.tensors import DTYPES, Malformed, leaves, shape_of
from triton_agent.tools.tape.outline import Outline
from triton_agent.tools.tape.slicing import operator_of
from triton_agent.tools.tape.tape import (
    BUFFER_BYTES_AT_MOST,
    Address,
    Allocate,
    Choice,
    Constant,
    Constexpr,
    Descriptor,
    Named,
    Operate,
    Place,
    Step,
    Tape,
    View,
    buffers_in,
    views_in,
)

FORBIDDEN = frozenset(
    {"from_file", "set", "set_", "resize", "resize_", "resize_as_", "record_stream", "_print", "set_data", "_backward"}
    | {"requires_grad_", "_local_scalar_dense", "item", "equal", "is_nonzero", "_cufft_clear_plan_cache"}
    | {"_cufft_set_plan_cache_max_size", "_assert_async", "_assert_scalar", "_assert_tensor_metadata", "_pin_memory"}
)
"""Operators with effects beyond computing on tensors."""
UNFILLED = frozenset(
    {"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"}
    | {"empty_quantized", "_empty_affine_quantized", "_empty_per_channel_affine_quantized"}
)
"""Operators that return unwritten memory. A tape uses `Allocate` instead, which the executor fills."""
SAFE_KINDS = frozenset({"heavy", "arithmetic", "reduction", "movement", "view", "allocation", "random", "index"})
OPTIONS: Mapping[str, type] = {
    "num_warps": int,
    "num_stages": int,
    "num_ctas": int,
    "maxnreg": int,
    "enable_fp_fusion": bool,
    "launch_cooperative_grid": bool,
    "launch_pdl": bool,
    "debug": bool,
    "sanitize_overflow": bool,
    "max_num_imprecise_acc_default": int,
    "waves_per_eu": int,
    "matrix_instr_nonkdim": int,
    "kpack": int,
}
"""Compiler options that a launch may set, with their types."""
_OPERATOR = re.compile(r"(aten|prims)\.\w+\.\w+", re.ASCII)
"""One of torch's own operators, with its overload."""
WARPS = (1, 2, 4, 8, 16, 32)


class NotAdmitted(Malformed):
    """The tape contradicts itself, or the call it was made for."""


class UnknownOption(Exception):
    """A launch sets a compiler option that does not exist or is not allowed."""


def admit(tape: Tape, call: Outline, constructor: Outline, state: Mapping[str, tuple[int, ...]]) -> None:
    """Raise unless the tape may be run for this form of call. `state` holds the shapes of the reference's tensors."""
    for buffer in tape.buffers:
        _require(buffer.size_bytes <= BUFFER_BYTES_AT_MOST, "a buffer is too large")
    _admit_outside(tape, tape.inputs, call, Place.INPUT)
    _admit_outside(tape, tape.arguments, constructor, Place.ARGUMENT)
    for name, view in tape.state:
        _require(name in state, f"{name} is no parameter or buffer of the reference")
        _within(tape, view)
        _require(tape.buffers[view.buffer].place is Place.STATE, f"{name} is not in memory for state")
    outside = {view.buffer for view in (*tape.inputs, *tape.arguments, *(view for _, view in tape.state))}
    made = {number for number in outside if tape.buffers[number].place is not Place.FRESH}
    _admit_steps(tape, tape.prologue, made, may_touch=(Place.ARGUMENT, Place.STATE, Place.FRESH))
    _admit_steps(tape, tape.steps, made, may_touch=tuple(Place))
    for view in (*tape.outputs, *(view for _, view in tape.rebound)):
        _within(tape, view)
        _require(view.buffer in made, "an output lies in memory that nothing made")
    names = {name for name, _ in tape.state}
    _require(all(name in names for name, _ in tape.rebound), "a name that is no buffer was bound to another tensor")
    try:
        listed = [leaf["tensor"] for _, leaf in leaves(tape.tree) if "tensor" in leaf]
        shape_of(tape.tree)  # can be compared with another nesting
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise NotAdmitted("the outputs have no nesting") from error
    _require(listed == list(range(len(tape.outputs))), "the nesting of the outputs does not match their list")


def _require(condition: bool, why: str) -> None:
    if not condition:
        raise NotAdmitted(why)


def _admit_outside(tape: Tape, views: Iterable[View], outline: Outline, place: Place) -> None:
    """Require inputs and arguments to have the layout that was described to the tracer."""
    views = tuple(views)
    _require(len(views) == len(outline.tensors), "there are other arguments than were given")
    buffers: dict[int, int] = {}
    for view, tensor in zip(views, outline.tensors):
        _within(tape, view)
        said = (view.dtype, view.shape, view.strides, view.offset)
        _require(said == (tensor.dtype, tensor.shape, tensor.strides, tensor.offset), "an argument has another layout")
        buffer = tape.buffers[view.buffer]
        _require(buffer.place is place, "an argument is in memory for another purpose")
        _require(buffer.size_bytes == outline.storages_bytes[tensor.storage], "an argument's memory has another size")
        _require(buffers.setdefault(tensor.storage, view.buffer) == view.buffer, "arguments no longer share memory")
    _require(len(set(buffers.values())) == len(buffers), "separate arguments share memory")


def _within(tape: Tape, view: View) -> None:
    """Require that the view lies inside its buffer."""
    _require(view.buffer < len(tape.buffers), "a buffer that does not exist")
    _require(view.dtype in DTYPES, f"a dtype {view.dtype!r}")
    _require(len(view.shape) == len(view.strides), "shape and strides of different length")
    _require(view.elements == 0 or view.end_bytes <= tape.buffers[view.buffer].size_bytes, "a view beyond its buffer")


def _admit_steps(tape: Tape, steps: Iterable[Step], made: set[int], may_touch: tuple[Place, ...]) -> None:
    for step in steps:
        if isinstance(step, (Allocate, Constant)):
            _require(step.buffer < len(tape.buffers), "a buffer that does not exist")
            buffer = tape.buffers[step.buffer]
            _require(buffer.place is Place.FRESH, "memory from outside is allocated again")
            if isinstance(step, Constant):
                _require(len(step.data) <= buffer.size_bytes, "a constant is larger than its buffer")
                for at, address in step.relocations:
                    _require(at + 8 <= len(step.data) and address.buffer in made, "an invalid address")
            made.add(step.buffer)
            continue
        if isinstance(step, Operate):
            arguments = [*step.args, *(value for _, value in step.kwargs)]
        else:
            arguments = [value for choice in step.choices for _, value in choice.arguments]
        for value in arguments:
            for view in views_in(value):
                _within(tape, view)
            for number in buffers_in(value):
                _require(number < len(tape.buffers) and number in made, "memory is used that nothing made")
                _require(tape.buffers[number].place in may_touch, "the prologue touches an input")
        if isinstance(step, Operate):
            _admit_operator(tape, step, made)
        else:
            for choice in step.choices:
                _admit_choice(choice)


def _admit_operator(tape: Tape, step: Operate, made: set[int]) -> None:
    """Require one of torch's own operators that computes on tensors; from here on its results count as made."""
    _require(_OPERATOR.fullmatch(step.operator) is not None, f"an operator {step.operator!r:.80}")
    try:
        has_kernel = torch._C._dispatch_has_kernel(operator_of(step.operator).name())  # type: ignore[no-untyped-call]
    except (AssertionError, AttributeError, RuntimeError):
        has_kernel = False
    _require(has_kernel, f"no operator {step.operator}")
    name = step.operator.split(".")[1]
    _require(name not in FORBIDDEN and kind_of(step.operator) in SAFE_KINDS, f"the operator {step.operator}")
    _require(name not in UNFILLED, f"{step.operator}, where memory is made by an allocation")
    named = {argument.name for argument in operator_of(step.operator)._schema.arguments}
    _require(all(key in named for key, _ in step.kwargs), f"{step.operator} has no such argument")
    for value in (*step.args, *(value for _, value in step.kwargs)):
        _admit_names(value)
        _require(not _holds(value, (Address, Descriptor, Constexpr)), "an operator gets an argument of launches only")
    for view in step.results:
        if view is not None:
            _within(tape, view)
            _require(view.buffer in made or tape.buffers[view.buffer].place is Place.FRESH, "a result lies outside")
            made.add(view.buffer)


def _admit_names(value: object) -> None:
    """Require names that torch itself has, since they are written into the text of a shipped file."""
    if isinstance(value, tuple):
        for item in value:
            _admit_names(item)
    elif isinstance(value, Named):
        kind = {"dtype": torch.dtype, "layout": torch.layout, "memory_format": torch.memory_format}.get(value.kind)
        known = value.kind == "device" if kind is None else isinstance(getattr(torch, value.name, None), kind)
        _require(known and value.name.isidentifier(), f"torch has no {value.kind} {value.name[:40]!r}")


def _holds(value: object, kinds: tuple[type, ...]) -> bool:
    if isinstance(value, tuple):
        return any(_holds(item, kinds) for item in value)
    return isinstance(value, kinds)


def _admit_choice(choice: Choice) -> None:
    _require(all(1 <= size <= most for size, most in zip(choice.grid, LARGEST_GRID)), "a grid that no GPU takes")
    _require(math.prod(choice.grid) < 1 << 40, "a grid is too large")
    names = [name for name, _ in choice.arguments]
    _require(len(set(names)) == len(names), "an argument is given twice")
    _require(all(name.isidentifier() for name in names), "an argument has a name that no parameter can have")
    for _, value in (*choice.arguments, *choice.options):
        _admit_names(value)
    for name, value in choice.options:
        if name not in OPTIONS or (value is not None and not isinstance(value, OPTIONS[name])):
            raise UnknownOption(f"Keyword argument {name} was specified but unrecognised")
        if name == "num_warps" and value not in WARPS:
            raise UnknownOption(f"num_warps must be a power of two up to 32, not {value}")
        if name == "launch_pdl" and value:
            raise UnknownOption(
                "launch_pdl lets a launch overlap with the one before, for which no kernel can wait here"
            )
