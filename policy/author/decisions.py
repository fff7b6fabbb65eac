"""The first choice for a problem, and the choices next to a given one according to its feedback.

Pure functions. A kernel that spills gets a smaller tile or more warps. A kernel that is slow for its memory traffic
gets another tile or another partition. After wrong values or a compile error the part is written in another way, and in
the end it is left to torch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence

from triton_agent.policy.author.brief import BeyondAuthor, Brief
from triton_agent.policy.author.choice import Choice, Tiles
from triton_agent.policy.author.emit.kernel_text import KernelText
from triton_agent.policy.author.ir.points import SHORT
from triton_agent.policy.author.ir.program import HALF, ITEM_BYTES, MIDDLE, Program
from triton_agent.policy.author.ir.sizes import product
from triton_agent.policy.author.writer import Draft, drafts_of

MOST_NEIGHBOURS = 96
"""Most choices generated in one turn. Three turns judge fewer; the limit also counts choices that were tried before,
because they are generated again.
"""
MOST_TOGETHER = 6
"""Alternative tiles that all products of a file try together."""
MOST_LEFT = 4
"""Maximum number of operators of a file's only kernel that are left to torch one at a time after a failure."""
MOST_SINGLY = 3
"""Most products for which leaving only this product to the library is tried."""
IDEAS_AT_ONCE, MOST_IDEAS = 4, 12
"""Alternative tiles of one kernel that are tried before the next kernel has its turn, and in total."""

BYTES_PER_US, HALF_PER_US, SINGLE_PER_US = 3.5e6, 5e8, 1e8
"""Rough throughput of a large GPU per microsecond: bytes moved, and floating-point operations of products in half
precision and in float32.
"""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class KernelFeedback:
    """Measurements of one kernel, by its name in the file."""

    name: str
    spill_bytes: int = 0
    registers: int = 0
    shared_bytes: int = 0
    device_ms: float | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Feedback:
    """The result of evaluating a choice, as plain values."""

    status: str = "passed"
    """Status as in `tools/results.py`: passed, compile_error, wrong_values, out_of_memory, ..."""
    message: str = ""
    kernels: tuple[KernelFeedback, ...] = ()
    device_ms: float | None = None
    floor_ms: float | None = None
    launches: int = 0


def first_choice(brief: Brief) -> Choice:
    """Return the choice that is written before there is any feedback."""
    return Choice()


def neighbours(brief: Brief, choice: Choice, feedback: Feedback) -> list[Choice]:
    """Return choices worth trying next, the most promising first, without the given one."""
    try:
        drafts = drafts_of(brief, choice)
    except BeyondAuthor:
        return [Choice()] if choice != Choice() else []
    steps = _repairs if feedback.status not in ("passed", "timeout") else _improvements
    found: dict[Choice, None] = {}
    for candidate in steps(brief, choice, drafts, feedback):
        if candidate != choice:
            found[candidate] = None
        if len(found) == MOST_NEIGHBOURS:
            break
    return list(found)


# -- after a failure -----------------------------------------------------------------------------------------------


def _repairs(brief: Brief, choice: Choice, drafts: Sequence[Draft], feedback: Feedback) -> Iterator[Choice]:
    """Yield other ways of writing a failed file. Kernels that the message names come first."""
    kernels = sorted(_kernels(drafts), key=lambda kernel: kernel.name not in feedback.message)
    if not choice.exact and any(kernel.kernel.multiplies or SHORT & set(kernel.functions) for kernel in kernels):
        yield dataclasses.replace(choice, exact=True)
    if choice.online and any(kernel.kernel.kind == "attention" for kernel in kernels):
        yield dataclasses.replace(choice, online=False)
    if any(kernel.kernel.kind == "chain" for kernel in kernels):
        yield dataclasses.replace(choice, chained=False)
    if choice.merge:
        yield dataclasses.replace(choice, merge=False)
    leaving = (other for kernel in kernels if brief.allow_library for other in _left(brief, choice, drafts, kernel))
    if feedback.status == "wrong_values":  # other tiles compute the same
        yield from leaving
    for kernel in kernels:
        if kernel.tiles.described:
            yield choice.with_tiles(kernel.key, dataclasses.replace(kernel.tiles, described=False))
    for kernel in kernels:
        yield from _with(choice, kernel, _smaller(kernel))
    for kernel in kernels:
        yield from _cut_in_two(choice, drafts, kernel)
    yield from leaving  # nothing more if they came first


def _left(brief: Brief, choice: Choice, drafts: Sequence[Draft], kernel: KernelText) -> list[Choice]:
    """Return the choice that leaves all operators of the kernel to torch.

    If it is the file's only kernel, return choices that leave one of its operators each.
    """
    program = _program_of(drafts, kernel)
    places = sorted({program.origins[name][0] for name in kernel.kernel.covers if name in program.origins})
    every = _also_left_to_torch(choice, places)
    if _has_kernels(brief, every):
        return [every]
    singly = (_also_left_to_torch(choice, [place]) for place in places[:MOST_LEFT])
    return [other for other in singly if _has_kernels(brief, other)]


def _has_kernels(brief: Brief, choice: Choice) -> bool:
    """Return True if a file by this choice has a kernel; without any there is nothing to judge."""
    try:
        return any(True for _ in _kernels(drafts_of(brief, choice)))
    except BeyondAuthor:
        return False


def _also_left_to_torch(choice: Choice, places: Iterable[int]) -> Choice:
    """Return the choice with these operators left to torch as well."""
    return dataclasses.replace(choice, left_to_torch=tuple(sorted({*choice.left_to_torch, *places})))


# -- after a success -----------------------------------------------------------------------------------------------


def _improvements(brief: Brief, choice: Choice, drafts: Sequence[Draft], feedback: Feedback) -> Iterator[Choice]:
    """Yield remedies for spills first, then tiles of the slowest kernels, then other partitions."""
    told = {kernel.name: kernel for kernel in feedback.kernels}
    kernels = list(_kernels(drafts))
    for kernel in kernels:
        if kernel.name in told and told[kernel.name].spill_bytes > 0:
            yield from _with(choice, kernel, [*_more_warps(kernel), *_smaller(kernel)])
    yield from _library_products(brief, choice, drafts)
    if not choice.chained or any(kernel.kernel.kind == "chain" for kernel in kernels):
        yield dataclasses.replace(choice, chained=not choice.chained)
    if not told:
        yield from _joined_otherwise(brief, choice, kernels)
        yield from _all_alike(choice, kernels)
    yield from _library_products(brief, choice, drafts, singly=True)
    slowest = sorted(kernels, key=lambda kernel: -_time(told.get(kernel.name)))
    if not told:
        slowest = sorted(kernels, key=lambda kernel: -_estimated_us(_program_of(drafts, kernel), kernel))
    # Try a few tiles for each kernel, the slowest first, before more for any of them.
    for start in range(0, MOST_IDEAS, IDEAS_AT_ONCE):
        for kernel in slowest:
            yield from _with(choice, kernel, _other_tiles(kernel)[start : start + IDEAS_AT_ONCE])
    for kernel in slowest:
        yield from _cut_in_two(choice, drafts, kernel)
    if choice.stored:
        for name in choice.stored:
            yield dataclasses.replace(choice, stored=tuple(other for other in choice.stored if other != name))
    yield dataclasses.replace(choice, merge=not choice.merge)
    if told:  # without timings it was yielded above
        yield from _joined_otherwise(brief, choice, kernels)


def _library_products(
    brief: Brief, choice: Choice, drafts: Sequence[Draft], *, singly: bool = False
) -> Iterator[Choice]:
    """Yield choices that leave products to the library, where the rules allow it, and write kernels around them.

    Yield a choice for all products together, or for none if some already are. With `singly`, yield one for each
    product.
    """
    if not brief.allow_library:
        return
    if choice.left_to_torch and not singly:
        yield dataclasses.replace(choice, left_to_torch=())
    places = tuple(dict.fromkeys(place for kernel in _kernels(drafts) for place in _products_in(drafts, kernel)))
    for left in [(place,) for place in places if len(places) > 1][:MOST_SINGLY] if singly else [places]:
        other = _also_left_to_torch(choice, left)
        if left and _has_kernels(brief, other):
            yield other


def _products_in(drafts: Sequence[Draft], kernel: KernelText) -> Iterator[int]:
    """Return the graph nodes of the products that a kernel computes."""
    program = _program_of(drafts, kernel)
    for name in kernel.kernel.covers:
        if program.values[name].operation in ("dot", "attention") and name in program.origins:
            yield program.origins[name][0]


def _joined_otherwise(brief: Brief, choice: Choice, kernels: Sequence[KernelText]) -> Iterator[Choice]:
    """Yield the choice with `joined` flipped if that changes the number of kernels."""
    if any(kernel.kernel.kind == "product" for kernel in kernels):
        other = dataclasses.replace(choice, joined=not choice.joined)
        if len(list(_kernels(drafts_of(brief, other)))) != len(kernels):
            yield other


def _all_alike(choice: Choice, kernels: Sequence[KernelText]) -> Iterator[Choice]:
    """Yield choices in which all products take the alternative tiles of equal rank, before anything is measured."""
    products = [kernel for kernel in kernels if kernel.kernel.kind == "product"]
    if len(products) < 2:
        return
    for place in range(1, min(MOST_TOGETHER, max(len(kernel.alternatives) for kernel in products))):
        other = choice
        for kernel in products:
            if place < len(kernel.alternatives):
                other = other.with_tiles(kernel.key, kernel.alternatives[place])
        yield other


def _time(seen: KernelFeedback | None) -> float:
    return seen.device_ms if seen is not None and seen.device_ms is not None else 0.0


def _estimated_us(program: Program, kernel: KernelText) -> float:
    """Estimate a kernel's time on a GPU, for ordering, from the bytes that it moves and the operations of its
    products.
    """
    plan, width = kernel.kernel, program.width
    tensors = {*plan.loads, *(root.value for root in plan.roots)}
    moved = sum(program.values[name].elements() * ITEM_BYTES[program.stored_dtype(name)] for name in tensors)
    if not plan.multiplies:
        return moved / BYTES_PER_US
    steps = product((axis.size for axis in (*plan.kept, *plan.reduced)), width)[0]
    steps *= 2 if plan.kind == "attention" else 1  # the scores, and the values weighted by them
    is_half = all(program.stored_dtype(name) in HALF for name in plan.loads)
    return max(moved / BYTES_PER_US, 2 * steps / (HALF_PER_US if is_half else SINGLE_PER_US))


def _kernels(drafts: Sequence[Draft]) -> Iterator[KernelText]:
    for one in drafts:
        yield from one.kernels


def _program_of(drafts: Sequence[Draft], kernel: KernelText) -> Program:
    return next(one.program for one in drafts if kernel in one.kernels)


def _with(choice: Choice, kernel: KernelText, tiles: Sequence[Tiles]) -> Iterator[Choice]:
    for one in tiles:
        yield choice.with_tiles(kernel.key, one)


def _cut_in_two(choice: Choice, drafts: Sequence[Draft], kernel: KernelText) -> Iterator[Choice]:
    """Yield choices that store an intermediate value of the kernel, which splits the kernel in two."""
    program = _program_of(drafts, kernel)
    order = {name: i for i, name in enumerate(program.values)}
    for name in sorted(kernel.kernel.covers, key=order.__getitem__, reverse=True):
        value = program.values[name]
        is_middle = value.operation in MIDDLE and name not in {r.value for r in kernel.kernel.roots}
        if is_middle and name not in choice.stored:
            yield dataclasses.replace(choice, stored=tuple(sorted({*choice.stored, name})))


# -- tiles ---------------------------------------------------------------------------------------------------------


def _more_warps(kernel: KernelText) -> list[Tiles]:
    tiles = kernel.tiles
    return [dataclasses.replace(tiles, warps=tiles.warps * 2)] if tiles.warps < 16 else []


def _smaller(kernel: KernelText) -> list[Tiles]:
    tiles, found = kernel.tiles, []
    if kernel.kernel.kind == "rows" and not tiles.looped and tiles.rows <= 1:
        found.append(dataclasses.replace(tiles, looped=True, columns=2048))
    if tiles.rows > 1:
        found.append(dataclasses.replace(tiles, rows=_floor(kernel, tiles.rows // 2)))
    if tiles.columns > 64:
        found.append(dataclasses.replace(tiles, columns=_floor(kernel, tiles.columns // 2)))
    if tiles.inner > 16:
        found.append(dataclasses.replace(tiles, inner=tiles.inner // 2))
    if tiles.stages > 2:
        found.append(dataclasses.replace(tiles, stages=tiles.stages - 1))
    return found


def _floor(kernel: KernelText, size: int) -> int:
    return max(16, size) if kernel.kernel.multiplies else max(1, size)


def _other_tiles(kernel: KernelText) -> list[Tiles]:
    return [other for other in kernel.alternatives if other != kernel.tiles]
