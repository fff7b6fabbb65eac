"""Judges one call of a candidate against the reference: a function per check, in order.

Each raises `Failed` with the finding, or adds to the record. Values come from the executor, which runs no Python of a
candidate; shared memory is read from the tape.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from triton_agent.tools.answers.accuracy import Judgement, judge
from triton_agent.tools.cases.plan import Case, Verify, once_for_each
from triton_agent.tools.checker.session import Failed
from triton_agent.tools.executor.memory import poisoned
from triton_agent.tools.graph.extents import Part, distinct, touched
from triton_agent.tools.graph.values import TensorMeta, order_in_memory
from triton_agent.tools.processes.protocol import Called, SeenLaunch, State
from triton_agent.tools.processes.tensors import (
    DTYPES,
    Malformed,
    is_expanded,
    leaves,
    nested_tensors,
    row,
    shape_of,
    unflatten,
    unpack,
)
from triton_agent.tools.results import CaseAccuracy, Finding
from triton_agent.tools.tape.tape import Tape, View
from triton_agent.tools.truth.expectation import Expectation
from triton_agent.tools.truth.yardstick import Yardstick, near

NEAR = 100.0
"""Multiple of the limit up to which errors may be usual ones that two randomly rounded runs do not show: where large
terms happen to cancel in one element of a thousand, both runs may round that element well."""
BELOW_NORMAL = 2.0**-116
"""Error of an output up to which a number that is taken as zero, at most 2^-126, may have caused it: a thousandfold."""
WIDE_HINT = (
    "\nlikely cause: a value rounded to half precision on the way, or a float32 tl.dot left at its default, "
    'TF32; keep float32 throughout and give tl.dot input_precision="ieee" or "tf32x3"'
)
NO_HINT = "\nthe errors are small, but too large for rounding in {dtype}; compare each step with the reference's"
NAN_HINT = (
    "\nlikely cause: the kernel drops NaN, which the reference passes on; `tl.maximum`, `tl.max`, comparisons and "
    "skipped zeros do. Use `tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)`, or select with `x != x`"
)
WRITES_HINT = (
    "\nlikely cause: a kernel or an in-place operator writes into the tensor it is given; allocate a new one "
    "for results"
)
ERRORS = {
    "l2": "relative l2 error",
    "max": "largest error relative to the largest value",
    "small": "mean relative error of elements",
}
DISTANCES = {"l2": "RMS distance of a piece", "max": "largest distance"}
NARROW_HINT = (
    "\nlikely cause: an accumulator or intermediate in half precision; accumulate in float32, round once at the end"
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The outputs of one call, and what the call left behind."""

    tree: Any
    tensors: tuple[torch.Tensor, ...]
    data: tuple[torch.Tensor, ...] = ()
    """The raw outputs, each as a row of bytes."""
    changed: Mapping[int, torch.Tensor] = dataclasses.field(default_factory=dict)
    """Inputs that the call changed, by number."""
    stored: frozenset[int] = frozenset()
    """Inputs that kernels stored into, as far as known."""
    stored_state: frozenset[str] = frozenset()
    """Parameters and buffers that kernels stored into, as far as known."""


def read_answer(tree: Any, reply: Called, blobs: list[torch.Tensor], device: str = "cpu") -> Answer:
    """Read outputs and changed inputs from the executor's reply."""
    outputs, inputs = reply.outputs, reply.inputs
    try:
        if len(blobs) != len(outputs) + len(inputs):
            raise Malformed(f"{len(blobs)} rows of bytes for {len(outputs)} outputs and {len(inputs)} inputs")
        tensors = [near(unpack(item, blob), device) for item, blob in zip(outputs, blobs)]
        after = [near(unpack(item, blob), device) for item, blob in zip(inputs, blobs[len(outputs) :])]
    except Malformed as error:
        raise Failed(Finding.TAMPERED, f"the executor's answer contradicts itself ({error})") from error
    return Answer(
        tree=tree,
        tensors=tuple(tensors),
        data=tuple(blobs[: len(tensors)]),
        changed=dict(zip(reply.changed, after)),
        stored=frozenset(reply.stored),
        stored_state=frozenset(reply.stored_state),
    )


def check_structure(case: Case, answer: Answer) -> None:
    """Require the reference's nesting, with tensors in the same places."""
    expected = case.expectation.tree
    if shape_of(expected) != shape_of(answer.tree):
        wanted, got = _outline(expected), _outline(answer.tree)
        raise Failed(Finding.STRUCTURE, f"case {case.name}: forward returned {got}, the reference returns {wanted}")
    for (path, want), (_, have) in zip(leaves(expected), leaves(answer.tree)):
        if "tensor" not in want and want != have:
            raise Failed(Finding.VALUES, f"case {case.name}: {path} is {_plain(have)}, expected {_plain(want)}")


def check_form(case: Case, answer: Answer) -> None:
    for output, got in zip(case.expectation.outputs, answer.tensors):
        want = output.yard.original
        if tuple(want.shape) != tuple(got.shape):
            raise Failed(
                Finding.SHAPE,
                f"case {case.name}: {output.name} has shape {list(got.shape)}, expected {list(want.shape)}",
            )
        if want.dtype != got.dtype:
            raise Failed(Finding.DTYPE, f"case {case.name}: {output.name} is {got.dtype}, expected {want.dtype}")


def measure(
    case: Case, answer: Answer, may_round: Callable[[], bool] = lambda: True
) -> tuple[list[CaseAccuracy], Failed | None]:
    """Return the accuracy of every output, and the first failure.

    `may_round` tells if the candidate uses a narrow dtype or products of blocks, the likely causes of small errors.
    """
    expectation = case.expectation
    rows, failure = _measured(case, expectation, answer, may_round)
    while failure is not None:
        closer = _closer(expectation, [output.yard for output in expectation.outputs], rows)
        if closer is None:
            break
        expectation = closer
        rows, failure = _measured(case, expectation, answer, may_round)
    return rows, failure


def _closer(
    expectation: Expectation, yards: Sequence[Yardstick], judged: Sequence[CaseAccuracy | Judgement]
) -> Expectation | None:
    """Return an expectation with more runs of the reference if these could show that refused errors are usual ones."""
    if expectation.closer is None:
        return None
    is_near = all(
        it.ok or it.error <= NEAR * it.limit or it.error == math.inf or _is_below_normal(yard, it)
        for yard, it in zip(yards, judged)
    )
    return expectation.closer() if expectation.brief or is_near else None


def _is_below_normal(yard: Yardstick, judged: CaseAccuracy | Judgement) -> bool:
    """Return True if the error is so small that a number below the normal ones of float32 may have caused it."""
    is_whole = yard.truth.is_floating_point() and not hasattr(yard, "judge")
    return is_whole and yard.limits is not None and judged.error * yard.limits.peak <= BELOW_NORMAL


def _measured(
    case: Case, expectation: Expectation, answer: Answer, may_round: Callable[[], bool]
) -> tuple[list[CaseAccuracy], Failed | None]:
    rows, failure = [], None
    for output, got in zip(expectation.outputs, answer.tensors):
        judgement = judge(got, output.yard)
        rows.append(
            CaseAccuracy(
                variant=case.variant,
                distribution=case.distribution + (" / train" if case.train else ""),
                output=output.name,
                metric=judgement.metric,
                error=judgement.error,
                original_error=judgement.original_error,
                limit=judgement.limit,
                ok=judgement.ok,
            )
        )
        if failure is None and judgement.ok:
            failure = _unwritten(case, output.name, got, output.yard) if output.yard.holds_nan else None
        elif failure is None:
            failure = _failure(case, output.name, got, output.yard, judgement, may_round)
    return rows, failure


def _failure(
    case: Case, name: str, got: torch.Tensor, yard: Yardstick, judgement: Judgement, may_round: Callable[[], bool]
) -> Failed:
    assert judgement.finding is not None
    unwritten = _unwritten(case, name, got, yard)
    if unwritten is not None:
        return unwritten
    what = {
        Finding.PRECISION: "is less accurate than the reference",
        Finding.NON_FINITE: "is not finite where it should be, or the reverse",
    }.get(judgement.finding, "is wrong")
    message = f"case {case.name}: {name} {what}: {judgement.detail}{_sizes(judgement)}"
    if judgement.finding is Finding.PRECISION:
        if judgement.everywhere and may_round():
            message += WIDE_HINT if got.dtype is torch.float32 else NARROW_HINT
        else:
            message += NO_HINT.format(dtype=str(got.dtype).removeprefix("torch."))
    if judgement.finding is Finding.NON_FINITE and not yard.original.is_meta:
        nan = torch.isnan(yard.original) & torch.isnan(yard.truth)
        message += NAN_HINT if bool((nan & torch.isfinite(got).to(nan.device)).any()) else ""
    return Failed(judgement.finding, message)


def _sizes(judgement: Judgement) -> str:
    """Return a text with the error, the limit, and the reference's own error."""
    error, limit = f"{judgement.error:.3g}", f"{judgement.limit:.3g}"
    if judgement.finding is Finding.NON_FINITE:
        return ""
    if judgement.metric == "mismatches":
        return f"; allowed to differ: {limit}"
    if judgement.from_reference:
        return f"; {DISTANCES[judgement.metric]} from the reference's answer: {error}, allowed {limit}"
    told = f"; {ERRORS[judgement.metric]}: {error}, allowed {limit}"
    return f"{told}, the reference's own {judgement.original_error:.3g}"


def _unwritten(case: Case, name: str, got: torch.Tensor, yard: Yardstick) -> Failed | None:
    """Fail for elements that still hold the fill value of fresh memory, unless the reference returns that value."""
    unwritten = poisoned(got)
    if bool(unwritten.any()):
        unwritten = unwritten.to(yard.original.device) & ~poisoned(yard.original)
    if not bool(unwritten.any()):
        return None
    return Failed(
        Finding.UNWRITTEN_OUTPUT,
        f"case {case.name}: {int(unwritten.sum())} of {got.numel()} elements of {name} were never written, "
        f"the first at flat index {int(unwritten.reshape(-1).to(torch.uint8).argmax())}",
    )


def check_races(case: Case, launches: Sequence[SeenLaunch]) -> None:
    """Refuse launches whose programs interfere: on a GPU they run in any order, and the answers would differ."""
    for launch in launches:
        for names, what in (
            (launch.contested, "store different values in one element of"),
            (launch.read_beside_stores, "read what others of the same launch store in"),
        ):
            if names:
                raise Failed(Finding.RACE, f"case {case.name}: programs of {launch.kernel} {what} {', '.join(names)}")


def check_inputs(case: Case, answer: Answer, alike: Sequence[Case] = ()) -> None:
    """Require the inputs after the call to be as the reference leaves them, floats that it changes up to rounding.

    Where the reference changes an input or a buffer in one of the cases `alike`, a kernel may store equal values here.
    """
    wanted = case.expectation.inputs_after
    for i in sorted(answer.changed.keys() | mutated_inputs(case)):
        got = answer.changed.get(i)
        if got is not None and i < len(wanted) and _same_bits(wanted[i], got):
            continue
        if got is not None and i in case.expectation.inputs_changed and got.dtype == wanted[i].dtype:
            judgement = _judged_input(case.expectation, i, got)
            if judgement.ok:
                continue
            what = f"after the call is wrong: {judgement.detail}"
        else:
            what = "was changed" if i in answer.changed else "was left as it was; the reference changes it"
        hint = WRITES_HINT if i in answer.changed and i not in mutated_inputs(case) else ""
        raise Failed(Finding.MUTATED_INPUT, f"case {case.name}: the input with index {i} {what}{hint}")
    stored = answer.stored - mutated_inputs(case)
    for i in sorted(stored.difference(*map(mutated_inputs, alike)) if stored else ()):
        raise Failed(
            Finding.MUTATED_INPUT,
            f"case {case.name}: a kernel stores into the input with index {i}, if only for a moment",
        )
    changes_state = any(it.expectation.state_after for it in (case, *alike))
    if answer.stored_state and not changes_state:  # a changed buffer may share a storage with others
        raise Failed(Finding.STATE, f"case {case.name}: a kernel stores into {min(answer.stored_state)}")


@once_for_each
def mutated_inputs(case: Case) -> frozenset[int]:
    if any(tensor.is_meta for tensor in case.expectation.inputs_after):  # full size: checked when the case was made
        return frozenset()
    before = nested_tensors(case.expectation.packed_inputs.unpack())
    pairs = enumerate(zip(before, case.expectation.inputs_after))
    return frozenset(i for i, (one, other) in pairs if not _same_bits(one, other))


def _same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    return not a.is_meta and a.shape == b.shape and a.dtype == b.dtype and _same_row(row(a), row(b).to(a.device))


def check_aliases(case: Case, tape: Tape) -> None:
    """Refuse an output that shares memory where the reference's does not, or that overlaps itself."""
    expectation = case.expectation
    known = {(i, name.removeprefix("parameter ").removeprefix("buffer ")) for i, name in expectation.aliases}
    extra = aliases_of(tape) - known
    if extra:
        index, other = sorted(extra)[0]
        name = expectation.outputs[index].name if index < len(expectation.outputs) else f"output {index}"
        raise Failed(
            Finding.ALIASED_OUTPUT, f"case {case.name}: {name} shares memory with {other}; return fresh memory"
        )
    for index, view in enumerate(tape.outputs):
        if case.verify is None and _overlaps_itself(view) and index not in expectation.expanded:
            what = "overlaps itself: several of its elements are one in memory, where the reference's are not"
            raise Failed(Finding.ALIASED_OUTPUT, f"case {case.name}: {expectation.outputs[index].name} {what}")


def check_layout(case: Case, tape: Tape) -> None:
    """Refuse an output that is transposed by its strides if the reference moves its elements.

    The output must be contiguous in the order of the reference's dimensions, or row by row.
    """
    for i in sorted(case.put_in_order):
        if i >= len(tape.outputs) or i >= len(case.expectation.strides):
            continue
        view, strides = tape.outputs[i], case.expectation.strides[i]
        order = order_in_memory(view.shape, view.strides)
        if view.elements and order != tuple(sorted(order)) and order != order_in_memory(view.shape, strides):
            raise Failed(
                Finding.LAYOUT,
                f"case {case.name}: {case.expectation.outputs[i].name} has strides {list(view.strides)}, the reference "
                f"moves its elements, to strides {list(strides)}; write the output in that order",
            )


def aliases_of(tape: Tape) -> frozenset[tuple[int, str]]:
    """Return pairs of an output's number and the name of a tensor whose memory it shares."""
    found: set[tuple[int, str]] = set()
    for i, output in enumerate(tape.outputs):
        if not output.elements:
            continue
        found |= {(i, f"input {j}") for j, view in enumerate(tape.inputs) if view.buffer == output.buffer}
        found |= {(i, name) for name, view in tape.state if view.buffer == output.buffer}
        others = enumerate(tape.outputs[:i])
        found |= {(i, f"output {j}") for j, other in others if other.elements and overlap(output, other)}
    return frozenset(found)


def overlap(one: View, other: View) -> bool:
    """Return True if two views have an element in common; exact for views of equal item size."""
    if one.buffer != other.buffer:
        return False
    if DTYPES[one.dtype].itemsize != DTYPES[other.dtype].itemsize:
        return one.begin_bytes < other.end_bytes and other.begin_bytes < one.end_bytes
    parts = [Part(layout=_layout(it)) for it in (one, other)]
    return touched(parts) < touched(parts[:1]) + touched(parts[1:])


def _overlaps_itself(view: View) -> bool:
    """Return True if several elements share memory: an expanded view, or overlapping windows."""
    return is_expanded(view.shape, view.strides) or distinct(_layout(view)) < view.elements


def _layout(view: View) -> TensorMeta:
    return TensorMeta(dtype=view.dtype, shape=view.shape, strides=view.strides, offset=view.offset)


def same_bytes(a: Sequence[torch.Tensor], b: Sequence[torch.Tensor]) -> bool:
    return len(a) == len(b) and all(_same_row(one, other) for one, other in zip(a, b))


def _same_row(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Compare rows of bytes, eight bytes at a time if possible: on a CPU this takes a fifth of the time."""
    rows = one, other
    if all(row.numel() % 8 == 0 and row.storage_offset() % 8 == 0 for row in rows):
        rows = one.view(torch.int64), other.view(torch.int64)
    return torch.equal(*rows)


def read_state(reply: State, blobs: list[torch.Tensor], device: str = "cpu") -> dict[str, torch.Tensor]:
    """Read parameters and buffers from the executor's reply."""
    try:
        described = zip(reply.tensors.items(), blobs)
        return {name: near(unpack(item, blob), device) for (name, item), blob in described}
    except Malformed as error:
        raise Failed(Finding.TAMPERED, f"the executor's answer contradicts itself ({error})") from error


def check_state(case: Case, state: Mapping[str, torch.Tensor]) -> None:
    """Require the buffers that the reference changes to be changed alike, and all others to be unchanged."""
    expectation = case.expectation
    changed = {output.name.removeprefix("buffer "): output for output in expectation.state_after}
    for name, before in expectation.state_before.items():
        got = state.get(name)
        if got is None and name in changed:
            what = "which the reference changes in forward, is not there; keep it under the same name"
            raise Failed(Finding.STATE, f"case {case.name}: buffer {name}, {what}")
        if got is None or got.shape != before.shape:
            continue
        if name in changed:
            judgement = _judged_state(expectation, name, got.to(before.dtype))
            if not judgement.ok:
                raise Failed(
                    Finding.STATE, f"case {case.name}: buffer {name} after the call is wrong: {judgement.detail}"
                )
        elif not _same_bits(before, got.to(before.dtype)):
            raise Failed(Finding.STATE, f"case {case.name}: {name} was changed by forward; the reference leaves it")


def _judged_input(expectation: Expectation, number: int, got: torch.Tensor) -> Judgement:
    """Judge an input that the reference changes."""
    return _judged(expectation, got, lambda found: found.inputs_changed[number].yard)


def _judged_state(expectation: Expectation, name: str, got: torch.Tensor) -> Judgement:
    """Judge a buffer that the reference changes."""

    def yard_in(found: Expectation) -> Yardstick:
        return next(it.yard for it in found.state_after if it.name.removeprefix("buffer ") == name)

    return _judged(expectation, got, yard_in)


def _judged(expectation: Expectation, got: torch.Tensor, yard_in: Callable[[Expectation], Yardstick]) -> Judgement:
    """Judge a tensor by the yardstick in an expectation, or in a closer one."""
    judgement = judge(got, yard_in(expectation))
    while not judgement.ok and (closer := _closer(expectation, [yard_in(expectation)], [judgement])) is not None:
        expectation = closer
        judgement = judge(got, yard_in(expectation))
    return judgement


def explain_wrong(
    failure: Failed, case: Case, answer: Answer, other: Callable[[], Expectation | None] | None
) -> Failed:
    """If the wrong values are the correct answer for a parameter's old value, return a failure that says so."""
    stale = other() if other is not None else None
    if stale is not None and all(judge(got, out.yard).ok for out, got in zip(stale.outputs, answer.tensors)):
        return Failed(
            Finding.STALE_PARAMETER,
            f"case {case.name}: a parameter was changed in place and the answer still uses its old value",
        )
    return failure


def ask_verifier(case: Case, verify: Verify, answer: Answer) -> tuple[list[CaseAccuracy], Failed | None]:
    """Judge with the problem's own verifier; any output it accepts is correct.

    It gets copies that it may write into, on the device of its inputs.
    """
    home = next((tensor.device for tensor in case.expectation.inputs_after), "cpu")
    outputs = unflatten(answer.tree, [tensor.to(home, copy=True) for tensor in answer.tensors])
    right = verify(case.expectation.packed_inputs, outputs)
    row = CaseAccuracy(
        variant=case.variant,
        distribution=case.distribution,
        output="out",
        metric="verifier",
        error=0.0 if right else 1.0,
        original_error=0.0,
        limit=0.0,
        ok=right,
    )
    if right:
        return [row], None
    return [row], Failed(Finding.VALUES, f"case {case.name}: the problem's own verify() does not accept the outputs")


def still_right(case: Case, answer: Answer) -> list[str]:
    """Return the names of the outputs that are correct although no kernel ran."""
    if case.verify is not None:
        return ["out"] if ask_verifier(case, case.verify, answer)[1] is None else []
    if shape_of(case.expectation.tree) != shape_of(answer.tree):
        return []
    trivial = {index for index, _ in case.expectation.aliases}
    return [
        output.name
        for i, (output, got) in enumerate(zip(case.expectation.completed().outputs, answer.tensors))
        if i not in trivial
        and got.numel()
        and got.shape == output.yard.original.shape
        and got.dtype == output.yard.original.dtype
        and judge(got, output.yard).ok
    ]


def _outline(tree: Any) -> str:
    if "list" in tree or "tuple" in tree:
        return f"({', '.join(_outline(item) for item in tree.get('list', tree.get('tuple')))})"
    if "dict" in tree:
        return "{" + ", ".join(f"{key!r}: {_outline(item)}" for key, item in tree["dict"]) + "}"
    return "a tensor" if "tensor" in tree else _plain(tree)


def _plain(leaf: Any) -> str:
    return str(leaf.get("value", leaf.get("float", "?")))
