"""Decides from the tape whether the candidate's own Triton kernels do the work.

In `own-kernels` mode the tape may not hold heavy torch operators (matmul, convolution, attention, ...). The work of
other operators is measured twice: in bytes, relative to the bytes that the candidate's kernels move, and in elements,
relative to those that the reference's operators touch. With `--allow-library`, one kernel that the result depends on is
enough. The tape holds no kernels with unused results (`tape/slicing.py`).
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import torch

from triton_agent.tools.checker.session import Failed
from triton_agent.tools.dispatch_modes import UncompiledMode
from triton_agent.tools.graph.operators import (
    SORTING,
    SORTING_PASSES,
    bare_name,
    functional_name,
    kind_of,
    passes_of,
)
from triton_agent.tools.kernels.kernel import KernelSet
from triton_agent.tools.processes.tensors import DTYPES
from triton_agent.tools.reference.flop_meter import FlopMeter
from triton_agent.tools.reference.input_tensors import tensors_in
from triton_agent.tools.results import Finding
from triton_agent.tools.tape.tape import Launch, Operate, Place, Step, Tape, View, buffers_in, views_in

Result = TypeVar("Result")

COPIES = {"aten._to_copy": 0, "aten.copy_": 1}
"""Copy operators, with the position of the argument they copy from."""

UNCOUNTED_HEAVY = 64
"""Multiply-adds per element assumed for heavy operators without a flop formula."""
ARITHMETIC = frozenset({"arithmetic", "reduction", "random", "index"})
ARITHMETIC_SHARE = 0.5
"""Maximum number of bytes that torch's arithmetic may move, as a multiple of the bytes that the kernels move."""
MOVEMENT_SHARE = 4.0
"""Maximum number of bytes that torch's copies may move, as such a multiple. Copies may be needed to give a kernel its
operands in another order, and a copy reads and writes each byte, while the kernel may only read it."""
ELEMENTS_SHARE = 0.5
"""Largest number of elements that torch's arithmetic may touch, relative to the reference's operators."""
COMPLEX_PRODUCTS = frozenset({"mul", "div", "square", "reciprocal", "addcmul", "addcdiv"})
COMPLEX_PASSES = 3
"""Real operators for each real number in a product of complex ones: four products and two sums for two numbers."""
FILLS = frozenset({"fill", "zero"})
"""Movement operators without a source. They prepare memory for a kernel, unless their value comes from a tensor."""
BETWEEN_BOUNDS = frozenset({"linspace", "logspace"})
"""Allocations that compute values if their bounds are tensors."""
SUSPECT = ("aten._embedding_bag", "aten.embedding_bag")
"""Lookups that can be used to compute a matrix product."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Work that torch does on a tape."""

    heavy: tuple[str, ...]
    light: tuple[str, ...]
    """Operators that do arithmetic."""
    light_elements: int
    light_bytes: int
    moved_elements: int
    moved_bytes: int
    rounded_elements: int
    """Elements that copies converted to integers or narrowed, see `makes_whole`."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class OriginalWork:
    """Work of the reference in one call, in elements."""

    arithmetic: int
    """A multiply-add counts as one."""
    moved: int
    """Elements copied from one place to another."""
    rounded: int = 0
    """Elements that copies converted to integers or narrowed."""
    narrowed: frozenset[torch.dtype] = frozenset()
    """The dtypes of copies that hold fewer numbers than what they were made from."""
    without_inputs: bool = False
    """True if an output depends only on parameters, so that the prologue does the work."""


class OperatorCount(UncompiledMode):  # type: ignore[no-untyped-call]
    """Counts the elements of the largest tensor of each torch operator, by name."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.elements: Counter[str] = Counter()
        self.rounded = 0
        """Elements that copies converted to integers or narrowed; they count as copied as well."""
        self.narrowed: set[torch.dtype] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = f"{func.namespace}.{func._schema.name.split('::')[-1]}"
        result = func(*args, **(kwargs or {}))
        # a list of tensors counts as one tensor in several parts
        self.elements[name] += max(
            (sum(it.numel() for it in tensors_in(value)) for value in (*args, result)), default=0
        )
        if name in COPIES and makes_whole(args[COPIES[name]].dtype, result.dtype):
            self.rounded += result.numel()
        if name in COPIES and is_narrower(args[COPIES[name]].dtype, result.dtype):
            self.narrowed.add(result.dtype)
        return result


def work_during(call: Callable[[], Result]) -> tuple[Result, OriginalWork]:
    """Run a call of the reference; return its result and its work."""
    counted, counter = OperatorCount(), FlopMeter()
    with torch.no_grad(), counter, counted:
        result = call()
    seen = {name: (kind_of(name), elements) for name, elements in counted.elements.items()}
    light = sum(elements for kind, elements in seen.values() if kind in ARITHMETIC)
    heavy = sum(elements for kind, elements in seen.values() if kind == "heavy")
    return result, OriginalWork(
        arithmetic=light + (counter.flops // 2 or UNCOUNTED_HEAVY * heavy),
        moved=sum(elements for name, (kind, elements) in seen.items() if moves(name, kind)),
        rounded=counted.rounded,
        narrowed=frozenset(counted.narrowed),
    )


def is_narrower(source: torch.dtype, result: torch.dtype) -> bool:
    """Return True if a copy rounds or wraps some numbers of the first dtype. Integers may become floats."""
    if source is result or source is torch.bool or source.is_complex or result.is_complex:
        return False
    if result.is_floating_point:
        one, other = (torch.finfo(dtype) for dtype in (source if source.is_floating_point else result, result))
        return other.eps > one.eps or other.max < one.max
    if source.is_floating_point or result is torch.bool:
        return True
    inner, outer = torch.iinfo(source), torch.iinfo(result)
    return outer.min > inner.min or outer.max < inner.max


def makes_whole(source: torch.dtype, result: torch.dtype) -> bool:
    """Return True if a copy computes: it rounds floats, truncates integers, or tests numbers for zero.

    Narrowing indices from eight to four bytes is common, and does not count.
    """
    if result.is_floating_point or result.is_complex or source is torch.bool:
        return False
    return source.is_floating_point or result.itemsize < min(source.itemsize, 4) or result is torch.bool


def work_of(tape: Tape, *, with_prologue: bool = False) -> Work:
    """Return torch's work in a call, including the prologue if the results depend on nothing else."""
    prepared_only = with_prologue or not any(
        tape.buffers[number].place is Place.INPUT for step in tape.steps for number in touched(step)
    )
    steps: Sequence[Step] = (*tape.prologue, *tape.steps) if prepared_only else tape.steps
    operators = [step for step in steps if isinstance(step, Operate)]
    prepared = [step for step in tape.prologue if isinstance(step, Operate)]
    kinds = [(step, kind_of(step.operator)) for step in operators]
    light = [step for step in operators if is_arithmetic(step)]
    moving = [
        step
        for step, kind in kinds
        if moves(step.operator, kind) or (kind == "movement" and _takes(step, FILLS, slice(1, None)))
    ]
    narrowest = _narrowest(tape)
    called = [step.operator for step in (*operators, *prepared)]
    heavy = [name for name in called if kind_of(name) == "heavy" or name.startswith(SUSPECT)]
    return Work(
        heavy=tuple(dict.fromkeys(map(_plain_name, heavy))),
        light=tuple(dict.fromkeys(_plain_name(step.operator) for step in light)),
        light_elements=sum(_passes(step) * _largest(step, narrowest) for step in light),
        light_bytes=sum(_passes_over_memory(step) * _bytes_of(step) for step in light),
        moved_elements=sum(_largest(step, narrowest) for step in moving),
        moved_bytes=sum(map(_bytes_of, moving)),
        rounded_elements=sum(map(_rounded, moving)),
    )


def _passes(step: Operate) -> int:
    is_sort = functional_name(bare_name(step.operator)) in SORTING
    return SORTING_PASSES if is_sort else _passes_over_memory(step)


def _passes_over_memory(step: Operate) -> int:
    is_product = functional_name(bare_name(step.operator)) in COMPLEX_PRODUCTS
    is_complex = is_product and any(DTYPES[view.dtype].is_complex for view in _views(step))
    return passes_of(_plain_name(step.operator)) * (COMPLEX_PASSES if is_complex else 1)


def is_arithmetic(step: Operate) -> bool:
    kind = kind_of(step.operator)
    return kind in ARITHMETIC or (kind == "allocation" and _takes(step, BETWEEN_BOUNDS, slice(2)))


def touched(step: Step) -> set[int]:
    """Return the buffers among the arguments of a step."""
    if isinstance(step, Operate):
        values: Iterable[Any] = (*step.args, *(value for _, value in step.kwargs))
    elif isinstance(step, Launch):
        values = [value for choice in step.choices for _, value in choice.arguments]
    else:
        values = ()
    return {number for value in values for number in buffers_in(value)}


def moves(name: str, kind: str) -> bool:
    return kind == "movement" and functional_name(bare_name(name)) not in FILLS


def _plain_name(operator: str) -> str:
    return operator.rpartition(".")[0]


def _views(step: Operate) -> list[View]:
    given = [view for value in (*step.args, *(value for _, value in step.kwargs)) for view in views_in(value)]
    return [*given, *(view for view in step.results if view is not None)]


def _largest(step: Operate, narrowest: Mapping[int, int]) -> int:
    return max(
        (view.elements * (DTYPES[view.dtype].itemsize // narrowest[view.buffer]) for view in _views(step)), default=0
    )


def _narrowest(tape: Tape) -> dict[int, int]:
    """Return the element size of each buffer in bytes; the smallest one if steps use several."""
    found: dict[int, int] = {}
    steps = (*tape.prologue, *tape.steps)
    launched = [value for step in steps if isinstance(step, Launch) for _, value in step.choices[0].arguments]
    operated = [view for step in steps if isinstance(step, Operate) for view in _views(step)]
    for view in (*tape.inputs, *tape.outputs, *operated, *(view for value in launched for view in views_in(value))):
        item_bytes = DTYPES[view.dtype].itemsize
        found[view.buffer] = min(found.get(view.buffer, item_bytes), item_bytes)
    return found


def _takes(step: Operate, names: frozenset[str], arguments: slice) -> bool:
    """Return True if the step is one of these operators and takes a tensor in these arguments or by keyword."""
    values = (*step.args[arguments], *(value for _, value in step.kwargs))
    named = functional_name(bare_name(step.operator)) in names
    return named and any(True for value in values for _ in views_in(value))


def _bytes_of(step: Operate) -> int:
    return sum(view.elements * DTYPES[view.dtype].itemsize for view in _views(step))


def _rounded(step: Operate) -> int:
    """Return the number of elements that a copy converts to integers or narrows."""
    given = [view for value in step.args for view in views_in(value)]
    results = [view for view in step.results if view is not None]
    if not given or not results:
        return 0
    source = given[-1] if step.operator.startswith("aten.copy_") else given[0]
    return results[0].elements if makes_whole(DTYPES[source.dtype], DTYPES[results[0].dtype]) else 0


def foreign_kernels(kernels: KernelSet, source: str) -> list[str]:
    """Return the names of functions whose text is not in the candidate's file: a library's, or generated ones."""
    lines = "\n".join(line.strip() for line in source.splitlines())
    return [
        function.name
        for function in kernels.functions.values()
        if "\n".join(line.strip() for line in function.source.strip().splitlines()) not in lines
    ]


def check_kernels(kernels: KernelSet, source: str, *, allow_library: bool) -> None:
    """In own-kernels mode, refuse kernels that are not written in the candidate's file."""
    names = [] if allow_library else foreign_kernels(kernels, source)
    if names:
        raise Failed(
            Finding.LIBRARY_WORK,
            f"kernels whose text is not in this file were launched: {', '.join(names[:4])}; write them there, "
            "or allow libraries",
        )


def check_launches(tape: Tape, *, empty_outputs: bool) -> None:
    """Require at least one kernel launch, unless all outputs are empty."""
    if not any(tape.launches()) and not empty_outputs:
        dead = "no Triton kernel runs whose results forward returns"
        raise Failed(Finding.NO_LAUNCH, dead)


def check_library(work: Work, original: OriginalWork, *, allow_library: bool) -> None:
    """In own-kernels mode, refuse torch operators that do a large part of the reference's work, by elements."""
    if allow_library:
        return
    if work.heavy:
        raise Failed(
            Finding.LIBRARY_WORK,
            f"torch does the heavy work: {', '.join(work.heavy[:4])}; write it as a kernel, or allow libraries",
        )
    if original.arithmetic:
        rounded = max(0, work.rounded_elements - original.rounded)
        share = (work.light_elements + rounded) / original.arithmetic
        names = [*(["copies to whole numbers"] if rounded else ()), *work.light]
        what = f"arithmetic ({', '.join(names[:6])})"
    else:
        moved = work.moved_elements + work.light_elements  # gathered elements are moved too
        share, what = moved / max(1, original.moved), "copying, and the reference does nothing else"
    if share >= ELEMENTS_SHARE and (original.arithmetic or original.moved):
        done = f"{100 * share:.0f}%" if share < 1 else "all"
        raise Failed(
            Finding.LIBRARY_WORK,
            f"torch operators do {done} of the {what}; own kernels must do the larger part",
        )


def least_kernel_bytes(work: Work, original: OriginalWork) -> float:
    """Return the fewest bytes that kernels have to move for this work of torch to be acceptable."""
    rounding = max(0, work.rounded_elements - original.rounded)
    return max((work.light_bytes + 4 * rounding) / ARITHMETIC_SHARE, work.moved_bytes / MOVEMENT_SHARE)


def check_bytes(work: Work, kernel_bytes: int, original: OriginalWork) -> None:
    """Refuse torch operators that move too many bytes relative to the kernels."""
    if kernel_bytes >= least_kernel_bytes(work, original):
        return
    rounding = max(0, work.rounded_elements - original.rounded)
    if work.light_bytes + 4 * rounding > ARITHMETIC_SHARE * kernel_bytes:
        names = ", ".join(work.light[:6]) or "copies to whole numbers"
        raise Failed(
            Finding.LIBRARY_WORK,
            f"torch's arithmetic ({names}) counts as {work.light_bytes:,} bytes moved, a pass over memory for each "
            f"elementary step; the kernels move {kernel_bytes:,}; own kernels must do the larger part",
        )
    raise Failed(
        Finding.LIBRARY_WORK,
        f"torch copies {work.moved_bytes:,} bytes, the kernels move {kernel_bytes:,}; own kernels must do the larger "
        "part",
    )


def bytes_of_arguments(tape: Tape, without: Collection[int] = ()) -> int:
    """Return the bytes of all tensors passed to launches, except some buffers: an estimate of what kernels move."""
    total = 0
    for launch in tape.launches():
        views = {view for _, value in launch.choices[0].arguments for view in views_in(value)}
        views = {view for view in views if view.buffer not in without}
        total += sum(view.elements * DTYPES[view.dtype].itemsize for view in views)
    return total


def check_alive(still_right: Sequence[str], outputs: int, *, allow_library: bool) -> None:
    """Refuse outputs that are correct without any launch; with libraries allowed, only if all outputs are."""
    if still_right and (not allow_library or len(still_right) == outputs):
        raise Failed(
            Finding.DEAD_KERNEL,
            f"{', '.join(still_right)} came out right with every kernel left out: the kernels launched do not make it",
        )
