"""Mistakes by one: indices, diagonals, windows, and the edge of a comparison."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from triton_agent.tools.verify.mistakes import Mistake, given
from triton_agent.tools.verify.operator_call import Call, sibling
from triton_agent.tools.worth import Family

BOUNDARIES = {"gt": "ge", "ge": "gt", "lt": "le", "le": "lt"}
INDICES = {
    "embedding": ("indices", "weight"),
    "_embedding_bag": ("indices", "weight"),
    "gather": ("index", "self"),
    "index_select": ("index", "self"),
    "scatter": ("index", "self"),
    "scatter_add": ("index", "self"),
    "take": ("index", "self"),
    "nll_loss_forward": ("target", "self"),
}
"""Operator -> the argument with the indices, and the one it points into."""


def off_by_one(call: Call, result: Any) -> Iterator[Mistake]:
    """Indices, diagonals, windows and the edge of a comparison."""
    operator = sibling(call, BOUNDARIES[call.name]) if call.name in BOUNDARIES else None
    if operator is not None and not torch.equal(call.run(operator=operator), result):
        yield Mistake(
            family=Family.OFF_BY_ONE,
            what=f"{BOUNDARIES[call.name]} instead of {call.name}",
            result=lambda c: c.run(operator=operator),
        )
    if call.name in INDICES:
        yield _shifted_indices(call, *INDICES[call.name])
    masks = (torch.bool, torch.uint8)
    if call.name == "index" and not any(i is not None and i.dtype in masks for i in call.get("indices")):
        yield Mistake(family=Family.OFF_BY_ONE, what="indices off by one in index", result=_indexed_next)
    for name in ("diagonal", "shifts"):
        if name in call.arguments and call.name in ("tril", "triu", "roll"):
            yield from _shifted_number(call, name)
    if call.name in ("slice", "select") and call.kind == "view":
        yield from _shifted_window(call)
    yield from _shifted_answers(call, result)


def _shifted_indices(call: Call, name: str, into: str) -> Mistake:
    def shifted(c: Call) -> Any:
        dim = c.get("dim")
        table = c.get(into)
        if c.name == "nll_loss_forward":
            dim = min(1, table.dim() - 1)
        size = table.numel() if c.name == "take" else table.shape[dim or 0] if table.dim() else 1
        return c.run({name: (c.get(name) + 1) % size})

    return Mistake(family=Family.OFF_BY_ONE, what=f"{name} off by one in {call.name}", result=shifted)


def _indexed_next(call: Call) -> Any:
    indices = list(call.get("indices"))
    moved = [i if i is None else (i + 1) % call.first.shape[dim] for dim, i in enumerate(indices)]
    return call.run({"indices": moved})


def _shifted_number(call: Call, name: str) -> Iterator[Mistake]:
    for words, step in (("one more", 1), ("one less", -1)):
        what = f"{name} {words} in {call.name}"
        yield Mistake(family=Family.OFF_BY_ONE, what=what, result=given(name, _moved_by(step)))


def _moved_by(step: int) -> Callable[[Any], Any]:
    return lambda value: [value[0] + step, *value[1:]] if isinstance(value, (list, tuple)) else value + step


def _shifted_window(call: Call) -> Iterator[Mistake]:
    size = call.first.shape[call.get("dim")]
    if call.name == "select" and size > 1:
        yield Mistake(
            family=Family.OFF_BY_ONE,
            what="the next element in select",
            result=lambda c: c.run({"index": (c.get("index") + 1) % c.first.shape[c.get("dim")]}),
        )
    start, end = call.get("start") or 0, min(call.get("end") or size, size)
    if call.name == "slice" and 0 <= start < end and (start, end) != (0, size):
        step = 1 if end < size else -1
        yield Mistake(
            family=Family.OFF_BY_ONE,
            what=f"a slice moved by {step:+d}",
            result=lambda c: c.run({"start": start + step, "end": end + step}),
        )


def _shifted_answers(call: Call, result: Any) -> Iterator[Mistake]:
    """The index that an argmax or sort gives."""
    if call.name in ("argmax", "argmin"):
        yield Mistake(
            family=Family.OFF_BY_ONE, what=f"the index of {call.name} off by one", result=lambda c: c.run() + 1
        )
    elif call.name in ("max", "min", "topk", "sort", "max_pool2d_with_indices") and isinstance(result, tuple):
        yield Mistake(
            family=Family.OFF_BY_ONE,
            what=f"the indices of {call.name} off by one",
            result=lambda c: (lambda values, indices: (values, indices + 1))(*c.run()),
            output=1,
        )
