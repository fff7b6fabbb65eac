"""Judging one call of a candidate against what the original did: a function per question, in the order of asking.

Each takes the reply of the worker and raises `Failed` with the finding, or adds to the record. The bytes of the outputs
are what counts; what else the worker says (aliases, launches) can only speak against the candidate, never for it.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from triton_agent.tools.isolate import pieces
from triton_agent.tools.isolate.tensors import DTYPES, Malformed, is_expanded, leaves, row, shape_of, unflatten, unpack
from triton_agent.tools.isolate.watch import POISON
from triton_agent.tools.results import CaseAccuracy, Finding
from triton_agent.tools.verify.accuracy import Judgement, judge
from triton_agent.tools.verify.condense import condense
from triton_agent.tools.verify.expectation import Expectation
from triton_agent.tools.verify.near import near
from triton_agent.tools.verify.plan import Case, Verify
from triton_agent.tools.verify.session import Failed
from triton_agent.tools.verify.yardstick import Yardstick


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Tensors of an earlier call as they were found later, in pieces; see `isolate/pieces.py`."""

    described: list[dict[str, Any]]
    numbers: list[pieces.Numbers]
    rows: list[torch.Tensor]

    def is_still(self, index: int, wanted: torch.Tensor) -> bool:
        """Whether that one is what it was, as far as the pieces show."""
        try:
            described, found = self.described[index], self.rows[index]
            alike = described["shape"] == list(wanted.shape) and DTYPES[described["dtype"]] == wanted.dtype
        except (IndexError, KeyError, TypeError):  # it could not be read any more
            return False
        return alike and _same_row(pieces.of(row(wanted), self.numbers[index]), found.to(wanted.device))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The outputs of one call, rebuilt from bytes."""

    tree: Any
    tensors: tuple[torch.Tensor, ...]
    data: tuple[torch.Tensor, ...]
    """The outputs as they came, each a row of bytes."""
    inputs_after: tuple[torch.Tensor, ...]
    """Where they came along."""
    aliases: frozenset[tuple[int, str]]
    inputs_seen: Seen | None = None
    """Where they were looked at afterwards."""
    kept: frozenset[int] = frozenset()
    """Outputs in memory that was there before the call."""
    expanded: frozenset[int] = frozenset()
    """Outputs several elements of which are one in memory."""


def read_answer(reply: dict[str, Any], blobs: list[torch.Tensor], device: str = "cpu") -> Answer:
    """Outputs and inputs as the worker handed them back; anything odd is the candidate's doing."""
    if "foreign" in reply:
        raise Failed(Finding.DISGUISED_TENSOR, f"forward returned {reply['foreign']}; plain tensors are expected")
    if "strayed" in reply:
        raise Failed(Finding.DEVICE, f"an output is on {reply['strayed']}, the inputs are not")
    try:
        described, inputs = list(reply["tensors"]), list(reply["inputs"])
        if len(blobs) != len(described) + len(inputs):
            raise Malformed(f"{len(blobs)} rows of bytes for {len(described)} outputs and {len(inputs)} inputs")
        tensors = [near(unpack(item, blob), device) for item, blob in zip(described, blobs)]
        after = [near(unpack(item, blob), device) for item, blob in zip(inputs, blobs[len(described) :])]
        aliases = frozenset((int(i), str(name)) for i, name in reply["aliases"])
        kept = frozenset(int(i) for i in reply["kept"])
        expanded = frozenset(i for i, it in enumerate(described) if is_expanded(it["shape"], it["strides"]))
        leaves(reply["tree"])
    except (Malformed, KeyError, TypeError, ValueError) as error:
        raise Failed(Finding.TAMPERED, f"the worker's answer contradicts itself ({error})") from error
    return Answer(
        tree=reply["tree"],
        tensors=tuple(tensors),
        data=tuple(blobs[: len(tensors)]),
        inputs_after=tuple(after),
        aliases=aliases,
        kept=kept - {i for i, _ in aliases},
        expanded=expanded,
    )


def check_structure(case: Case, answer: Answer) -> None:
    """The same nesting, and every leaf a tensor where the original has one."""
    expected = case.expectation.tree
    if shape_of(expected) != shape_of(answer.tree):
        wanted, got = _outline(expected), _outline(answer.tree)
        raise Failed(Finding.STRUCTURE, f"case {case.name}: forward returned {got}, the original returns {wanted}")
    for (path, want), (_, have) in zip(leaves(expected), leaves(answer.tree)):
        if "tensor" not in want and want != have:
            raise Failed(Finding.VALUES, f"case {case.name}: {path} is {_plain(have)}, expected {_plain(want)}")


def check_form(case: Case, answer: Answer) -> None:
    """Strict shapes and dtypes."""
    for output, got in zip(case.expectation.outputs, answer.tensors):
        want = output.yard.original
        if tuple(want.shape) != tuple(got.shape):
            raise Failed(
                Finding.SHAPE,
                f"case {case.name}: {output.name} has shape {list(got.shape)}, expected {list(want.shape)}",
            )
        if want.dtype != got.dtype:
            raise Failed(Finding.DTYPE, f"case {case.name}: {output.name} is {got.dtype}, expected {want.dtype}")


def measure(case: Case, answer: Answer) -> tuple[list[CaseAccuracy], Failed | None]:
    """The accuracy of every output, and the first failure among them."""
    rows, failure = [], None
    for output, got in zip(case.expectation.outputs, answer.tensors):
        judgement = judge(got, output.yard)
        rows.append(_row(case, output.name, judgement))
        if failure is None and judgement.ok:
            failure = _unwritten(case, output.name, got, output.yard) if output.yard.holds_nan else None
        elif failure is None:
            failure = _failure(case, output.name, got, output.yard, judgement)
    return rows, failure


def _row(case: Case, name: str, judgement: Judgement) -> CaseAccuracy:
    return CaseAccuracy(
        variant=case.variant,
        distribution=case.distribution + (" / train" if case.train else ""),
        output=name,
        metric=judgement.metric,
        error=judgement.error,
        original_error=judgement.original_error,
        limit=judgement.limit,
        ok=judgement.ok,
    )


def _failure(case: Case, name: str, got: torch.Tensor, yard: Yardstick, judgement: Judgement) -> Failed:
    assert judgement.finding is not None
    unwritten = _unwritten(case, name, got, yard)
    if unwritten is not None:
        return unwritten
    what = {
        Finding.PRECISION: "is less accurate than the original",
        Finding.NON_FINITE: "is not finite where it should be, or the reverse",
    }.get(judgement.finding, "is wrong")
    message = (
        f"case {case.name}: {name} {what}: {judgement.detail}; error ({judgement.metric}) {judgement.error:.3g}, "
        f"allowed {judgement.limit:.3g}, the original's own {judgement.original_error:.3g}"
    )
    if judgement.finding is Finding.PRECISION:
        message += _precision_hint(got.dtype)
    return Failed(judgement.finding, message)


def _unwritten(case: Case, name: str, got: torch.Tensor, yard: Yardstick) -> Failed | None:
    """Elements that still hold what fresh memory was filled with, which is not what the original has there."""
    unwritten = poisoned(got).to(yard.original.device) & ~poisoned(yard.original)
    if not bool(unwritten.any()):
        return None
    return Failed(
        Finding.UNWRITTEN_OUTPUT,
        f"case {case.name}: {int(unwritten.sum())} of {got.numel()} elements of {name} were never written, "
        f"the first at flat index {int(unwritten.reshape(-1).to(torch.uint8).argmax())}",
    )


def _precision_hint(dtype: torch.dtype) -> str:
    if dtype is torch.float32:
        return (
            "\nlikely cause: a value rounded to half precision on the way, or a float32 tl.dot left at its default, "
            'TF32; keep float32 throughout and give tl.dot input_precision="ieee" or "tf32x3"'
        )
    return (
        "\nlikely cause: an accumulator or intermediate in half precision; accumulate in float32, round once at the end"
    )


def poisoned(tensor: torch.Tensor) -> torch.Tensor:
    """Which elements still hold what fresh memory was filled with."""
    pattern = POISON.get(tensor.dtype)
    if pattern is None or tensor.numel() == 0:
        return torch.zeros(tensor.shape, dtype=torch.bool, device=tensor.device)
    as_type, value = pattern
    return tensor.view(as_type) == value


def check_faults(case: Case, faults: list[dict[str, Any]]) -> None:
    """A kernel that touched foreign memory fails even if its author's `except` hid it: on a GPU nothing would."""
    for fault in faults:
        condensed = condense(fault)
        if condensed.finding is Finding.OUT_OF_BOUNDS:
            raise Failed(Finding.OUT_OF_BOUNDS, f"case {case.name}: {condensed.message}")


def check_races(case: Case, launches: list[dict[str, Any]]) -> None:
    """Programs of a launch run in any order on a GPU; where they disagree, so will the answers."""
    for launch in launches:
        if launch["contested"]:
            names = ", ".join(launch["contested"])
            raise Failed(
                Finding.RACE,
                f"case {case.name}: programs of {launch['kernel']} store different values in one element of {names}",
            )


def check_inputs(case: Case, answer: Answer) -> None:
    """Inputs afterwards as the original leaves them."""
    wanted, seen = case.expectation.inputs_after, answer.inputs_seen
    found: Sequence[Any] = answer.inputs_after if seen is None else seen.described
    if len(wanted) != len(found):
        raise Failed(Finding.MUTATED_INPUT, f"case {case.name}: tensors were put into the inputs or taken from them")
    for i, want in enumerate(wanted):
        left = _same_bits(want, answer.inputs_after[i]) if seen is None else seen.is_still(i, want)
        if not left:
            raise Failed(
                Finding.MUTATED_INPUT, f"case {case.name}: input {i} was changed; the original leaves it as it was"
            )


def _same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype and _same_row(row(a), row(b).to(a.device))


def check_aliases(case: Case, answer: Answer) -> None:
    """No output may share memory with something the original's does not share it with."""
    extra = answer.aliases - case.expectation.aliases
    if extra:
        index, other = sorted(extra)[0]
        name = case.expectation.outputs[index].name if index < len(case.expectation.outputs) else f"output {index}"
        raise Failed(
            Finding.ALIASED_OUTPUT, f"case {case.name}: {name} shares memory with {other}; return fresh memory"
        )
    for index in sorted(answer.expanded - case.expectation.expanded) if case.verify is None else ():
        name = case.expectation.outputs[index].name
        what = (
            "is expanded: several of its elements are one in memory, where the original's can be written to one by one"
        )
        raise Failed(Finding.ALIASED_OUTPUT, f"case {case.name}: {name} {what}")


def check_held(earlier: Case, outputs: Sequence[torch.Tensor], now: Seen) -> None:
    """The outputs of an earlier call must outlast a later one, but for those that are views in the original, too."""
    views = {index for index, _ in earlier.expectation.aliases}
    if not all(now.is_still(i, output) for i, output in enumerate(outputs) if i not in views):
        raise Failed(
            Finding.SHARED_OUTPUT,
            f"the outputs of case {earlier.name} changed when forward was called again; allocate outputs anew per call",
        )


def check_own_memory(answers: Sequence[Answer]) -> None:
    """An output that changes from call to call needs memory of its own; what is kept for it, some call writes over."""
    for i in sorted(frozenset().union(*(answer.kept for answer in answers))):
        first, *others = (answer.data[i] for answer in answers if i in answer.kept)
        if any(not _same_row(first, data) for data in others):
            raise Failed(
                Finding.SHARED_OUTPUT,
                f"output {i} comes in memory that was there before the call, and that some later call will write over; "
                "allocate outputs anew per call",
            )


def same_bytes(a: Sequence[torch.Tensor], b: Sequence[torch.Tensor]) -> bool:
    """Whether two answers are equal to the bit."""
    return len(a) == len(b) and all(_same_row(one, other) for one, other in zip(a, b))


def _same_row(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Of bytes: compared by eight, on a CPU in a fifth of the time."""
    rows = one, other
    if all(row.numel() % 8 == 0 and row.storage_offset() % 8 == 0 for row in rows):
        rows = one.view(torch.int64), other.view(torch.int64)
    return torch.equal(*rows)


def check_state(case: Case, reply: dict[str, Any], blobs: list[torch.Tensor], device: str = "cpu") -> None:
    """Buffers after the call: changed as the original changes them, and nothing else changed."""
    expectation = case.expectation
    try:
        described = zip(reply["state"].items(), blobs)
        state = {str(name): near(unpack(item, blob), device) for (name, item), blob in described}
    except (Malformed, AttributeError, TypeError, ValueError) as error:
        raise Failed(Finding.TAMPERED, f"the worker's answer contradicts itself ({error})") from error
    changed = {output.name.removeprefix("buffer "): output for output in expectation.state_after}
    for name, before in expectation.state_before.items():
        got = state.get(name)
        if got is None and name in changed:
            what = "which the original changes in forward, is not there; keep it under the same name"
            raise Failed(Finding.STATE, f"case {case.name}: buffer {name}, {what}")
        if got is None or got.shape != before.shape:
            continue
        if name in changed:
            judgement = judge(got.to(before.dtype), changed[name].yard)
            if not judgement.ok:
                raise Failed(
                    Finding.STATE, f"case {case.name}: buffer {name} after the call is wrong: {judgement.detail}"
                )
        elif not _same_bits(before, got.to(before.dtype)):
            raise Failed(Finding.STATE, f"case {case.name}: {name} was changed by forward; the original leaves it")


def explain_wrong(
    failure: Failed, case: Case, answer: Answer, earlier: Answer | None, other: Callable[[], Expectation | None] | None
) -> Failed:
    """Wrong values after an overwrite may be the right answer to what is no longer asked."""
    anything = any(row.numel() for row in answer.data)
    if earlier is not None and case.overwrite and anything and same_bytes(answer.data, earlier.data):
        return Failed(
            Finding.STALE_OUTPUT,
            f"case {case.name}: the inputs were overwritten in place and the answer to the earlier contents came back",
        )
    stale = other() if other is not None else None
    if stale is not None and _answers(answer, stale):
        return Failed(
            Finding.STALE_PARAMETER,
            f"case {case.name}: a parameter was changed in place and the answer still uses its old value",
        )
    return failure


def _answers(answer: Answer, expectation: Expectation) -> bool:
    return all(judge(got, output.yard).ok for output, got in zip(expectation.outputs, answer.tensors))


def ask_verifier(case: Case, verify: Verify, answer: Answer) -> tuple[list[CaseAccuracy], Failed | None]:
    """A problem without a reference judges by itself; any output it accepts is right.

    It may write into its copies, which are where its inputs are.
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


@functools.lru_cache(maxsize=256)
def tells(case: Case, *others: Case) -> bool:
    """Whether none of the others' answers would do for this case: then one left over from them cannot be right.

    That is so for all candidates, and found out once.
    """
    if case.verify is not None:
        return False
    known = [other.expectation.outputs for other in others]
    return any(
        not any(_would_do(outputs[i].yard.original, output.yard) for outputs in known if i < len(outputs))
        for i, output in enumerate(case.expectation.outputs)
        if output.yard.original.numel()
    )


def _would_do(other: torch.Tensor, yard: Yardstick) -> bool:
    form = other.shape, other.dtype
    return form == (yard.original.shape, yard.original.dtype) and judge(other, yard).ok


def still_right(case: Case, answer: Answer) -> list[str]:
    """Names of the outputs that are right although no kernel ran."""
    if case.verify is not None:
        return ["out"] if ask_verifier(case, case.verify, answer)[1] is None else []
    if shape_of(case.expectation.tree) != shape_of(answer.tree):
        return []
    trivial = {index for index, _ in case.expectation.aliases}
    return [
        output.name
        for i, (output, got) in enumerate(zip(case.expectation.outputs, answer.tensors))
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
