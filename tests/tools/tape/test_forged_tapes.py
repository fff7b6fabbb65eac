"""Admission refuses or admits any forged tape and never raises another error."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

import pytest
from tests.tools.tape.tapes import Writing
from tests.tools.tape.test_admission import CALL, CONSTRUCTOR, KERNEL, STATE, honest

from triton_agent.tools.processes.tensors import Malformed
from triton_agent.tools.tape.admission import UnknownOption, admit
from triton_agent.tools.tape.slicing import retained_by, writes_state
from triton_agent.tools.tape.tape import Address, Constant, Constexpr, Descriptor, Tape, View, decode, encode

FORGED: tuple[Any, ...] = (
    *(None, True, -1, 0, 1, 7, 1 << 61, 1 << 63, 1 << 80, 0.5, "", "x", "num_warps", "\ud800", [], {}, [[]], [1, 2]),
    *("aten.add.Tensor", "aten.a::b.c", "aten.__class__.x", "aten.add.__class__", "..", "aten.add_.Tensor"),
    *("aten.sum.default", "prims.add.default", "aten.item.default", "aten.\ud800.x"),
    *({"is": "View"}, {"is": "plain", "data": {"a": [1]}}, {"is": "bytes", "data": "AA=="}, {"is": "nope"}),
    {"is": "float", "data": "0x1p9999"},
)


class OneKernel:
    """A kernel set with a single kernel, which writes through `y_ptr`."""

    def __call__(self, identity: str) -> frozenset[str]:
        return frozenset({"y_ptr"})

    def makes_pointers(self, identity: str) -> bool:
        return False


def add_more(writing: Writing, x: View) -> None:
    """Add steps of the kinds that the honest tape lacks."""
    table = writing.fresh(8, dtype="int64")
    relocation = (8, Address(buffer=x.buffer, offset=4))
    writing.steps.append(Constant(buffer=table.buffer, data=bytes(64), relocations=(relocation,)))
    writing.operate("aten.sum.dim_IntList", x, (1,), False, shape=(4,))
    described = Descriptor(view=x, block_shape=(4, 8), padding="zero")
    constant = Constexpr(value={"value": 3})
    writing.launch(KERNEL, x_ptr=described, k=constant, t=(x, (1, 2.5)), options=(("num_warps", 4), ("debug", None)))


def paths_in(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    for key, value in data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ():
        yield from paths_in(value, (*path, key))


def at(data: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        data = data[key]
    return data


@pytest.mark.parametrize("seed", range(4))
def test_no_forged_tape_breaks_those_who_look_at_it(seed: int) -> None:
    chance, told = random.Random(seed), encode(honest(add_more))
    paths = list(paths_in(told))
    for _ in range(500):
        data = copy.deepcopy(told)
        for _ in range(chance.choice((1, 1, 2, 3))):
            *way, last = chance.choice(paths[1:])
            replacement = chance.choice(FORGED) if chance.random() < 0.5 else at(told, chance.choice(paths))
            try:
                at(data, tuple(way))[last] = copy.deepcopy(replacement)
            except (LookupError, TypeError):
                continue  # an earlier change took this place away
        try:
            tape = decode(data)
            if isinstance(tape, Tape):
                admit(tape, CALL, CONSTRUCTOR, STATE)
                if set(tape.kernels()) <= {KERNEL}:
                    retained_by(tape, OneKernel())  # type: ignore[arg-type]
                    writes_state(tape, OneKernel())  # type: ignore[arg-type]
        except (Malformed, UnknownOption):
            continue
