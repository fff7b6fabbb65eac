"""Impostors: answers that never looked at the question, and right answers damaged from outside.

Each is judged like a candidate's outputs and gets the benefit of the doubt in everything else: buffers, aliases, the
shapes of other variants. An impostor that does not apply (no input of the output's shape, no integers to be off by one)
answers None in every case.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch

from triton_agent.tools.isolate.tensors import nested_tensors
from triton_agent.tools.verify.expectation import Expectation
from triton_agent.tools.verify.precision_mistakes import BFLOAT16, FLOAT16, Rounding, coarser_than
from triton_agent.tools.worth import Family

MOST_INPUTS_RETURNED = 3
SMALL_SHARE = 1e-3
"""Far above the rounding of float32; in half precision about the rounding of the largest value."""
MOSTLY = 0.1
"""Share of the answer that has to be so small: among normal numbers it is a thousandth."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One case as impostors see it."""

    expectation: Expectation
    other_outputs: list[torch.Tensor] | None
    """The original's answer to other inputs of the same kind; None where it has none."""
    constants: list[float]
    """A number per output: the mean of an answer to other inputs as given."""

    @property
    def right(self) -> list[torch.Tensor]:
        return [output.yard.original for output in self.expectation.outputs]


Outputs = list[torch.Tensor] | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Impostor:
    """One way to answer without doing the work."""

    what: str
    answer: Callable[[Question], Outputs]
    family: Family = Family.IMPOSTOR
    meaning: str = ""
    """What it says of the problem if this passes."""
    damages: bool = False
    """It starts from the right answer; where it leaves that as it is in every case, nothing was wrong."""


def impostors_for(question: Question) -> list[Impostor]:
    """Those that apply to outputs like these."""
    return [impostor for impostor in (*_BLIND, *_returning(question), *_damaging(question), *_partial(question))]


def _fill(value: float) -> Callable[[Question], Outputs]:
    return lambda question: [_filled(tensor, value) for tensor in question.right]


def _filled(like: torch.Tensor, value: float) -> torch.Tensor:
    if like.is_floating_point() or like.is_complex():
        return torch.full_like(like, value)
    if like.dtype is torch.bool:
        return torch.full_like(like, value >= 0.5)
    return torch.full_like(like, round(value))


def _constant(question: Question) -> Outputs:
    return [_filled(tensor, value) for tensor, value in zip(question.right, question.constants)]


def _other_inputs(question: Question) -> Outputs:
    others = question.other_outputs
    fits = others is not None and [t.shape for t in others] == [t.shape for t in question.right]
    return others if fits else None


def _noise(question: Question) -> Outputs:
    generator = torch.Generator().manual_seed(7)
    return [_noise_like(tensor, generator) for tensor in question.right]


def _noise_like(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Random numbers of the same mean and spread; whole numbers of the same range."""
    if tensor.is_complex() or not tensor.numel():
        return torch.zeros_like(tensor)
    if tensor.is_floating_point():
        values = tensor.double()[torch.isfinite(tensor)]
        spread = float(values.std()) if values.numel() > 1 else 1.0
        mean = float(values.mean()) if values.numel() else 0.0
        return (mean + spread * torch.randn(tensor.shape, generator=generator, dtype=torch.float64)).to(tensor.dtype)
    low, high = int(tensor.min()), int(tensor.max())
    return torch.randint(low, high + 2, tensor.shape, generator=generator).to(tensor.dtype)


_BLIND = (
    Impostor(what="all zeros", answer=_fill(0.0), meaning="the answer is zero whatever the inputs"),
    Impostor(what="all ones", answer=_fill(1.0), meaning="the answer is one whatever the inputs"),
    Impostor(
        what="a constant (the mean of an earlier answer)",
        answer=_constant,
        meaning="the answer is as good as constant whatever the inputs",
    ),
    Impostor(
        what="the answer to other inputs",
        answer=_other_inputs,
        meaning="the inputs never change, or the answer does not depend on them",
    ),
    Impostor(what="noise of the right mean and spread", answer=_noise, meaning="the values are not looked at"),
)


def _returning(question: Question) -> list[Impostor]:
    inputs = nested_tensors(question.expectation.packed_inputs.unpack())
    shapes = {tensor.shape for tensor in question.right}
    fitting = [i for i, tensor in enumerate(inputs) if shapes == {tensor.shape}]
    return [
        Impostor(
            what=f"input {i} returned as it is",
            answer=_returning_input(i),
            meaning="the original changes nothing on such inputs",
        )
        for i in fitting[:MOST_INPUTS_RETURNED]
    ]


def _returning_input(index: int) -> Callable[[Question], Outputs]:
    def answer(question: Question) -> Outputs:
        given = nested_tensors(question.expectation.packed_inputs.unpack())[index]
        return [given.to(tensor.dtype).clone() for tensor in question.right if tensor.shape == given.shape]

    return answer


def _damaging(question: Question) -> list[Impostor]:
    dtypes = {tensor.dtype for tensor in question.right}
    roundings = [r for r in coarser_than(list(dtypes)) if r in (FLOAT16, BFLOAT16)]
    floats = any(dtype.is_floating_point for dtype in dtypes)
    found = [
        Impostor(
            what=f"the right answer rounded to {rounding.name}",
            answer=_each(_rounding(rounding)),
            damages=True,
        )
        for rounding in (roundings if floats else [])
    ]
    found += [
        Impostor(what="the right answer without its last row", answer=_each(_without_last_row), damages=True),
        Impostor(what="the right answer without its last column", answer=_each(_without_last_column), damages=True),
        Impostor(what="the right answer without its last element", answer=_each(_without_last), damages=True),
    ]
    if any(_is_whole(tensor) for tensor in question.right):
        found.append(
            Impostor(
                what="whole numbers off by one", answer=_each(lambda t: t + 1 if _is_whole(t) else t), damages=True
            )
        )
    if torch.bool in dtypes:
        found.append(
            Impostor(what="true for false", answer=_each(lambda t: ~t if t.dtype is torch.bool else t), damages=True)
        )
    return found


def _each(change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Question], Outputs]:
    return lambda question: [change(tensor) for tensor in question.right]


def _rounding(rounding: Rounding) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda tensor: rounding.apply(tensor) if tensor.is_floating_point() else tensor


def _is_whole(tensor: torch.Tensor) -> bool:
    return not (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype is torch.bool)


def _without_last_row(tensor: torch.Tensor) -> torch.Tensor:
    cut = tensor.clone()
    if tensor.dim():
        cut[-1:] = 0
    return cut


def _without_last_column(tensor: torch.Tensor) -> torch.Tensor:
    cut = tensor.clone()
    if tensor.dim():
        cut[..., -1:] = 0
    return cut


def _without_last(tensor: torch.Tensor) -> torch.Tensor:
    """The last one that is not zero anyway."""
    cut = tensor.clone(memory_format=torch.contiguous_format)
    filled = (cut.reshape(-1) != 0).nonzero()
    if len(filled):
        cut.view(-1)[int(filled[-1])] = 0
    return cut


def _partial(question: Question) -> list[Impostor]:
    """Part of the answer zero, the rest right: one output of several; small values beside large ones."""
    found = [
        Impostor(
            what=f"{output.name} all zeros",
            answer=_zeros_in(i),
            family=Family.PARTIAL,
            meaning="that output is zero whatever the inputs, or its values hardly count",
        )
        for i, output in enumerate(question.expectation.outputs)
        if len(question.right) > 1
    ]
    small = Impostor(
        what=f"zero for all below {SMALL_SHARE:g} of the largest value",
        answer=_each(_without_small),
        family=Family.PARTIAL,
        meaning="a few large values outweigh the others, which may be anything",
        damages=True,
    )
    return [*found, small] if any(_mostly_small(tensor) for tensor in question.right) else found


def _mostly_small(tensor: torch.Tensor) -> bool:
    """Whether enough of the answer would be lost for it to matter, more than the rounding of the largest takes."""
    lost = (_without_small(tensor) != tensor).double()
    return bool(tensor.numel()) and float(lost.mean()) > MOSTLY


def _zeros_in(index: int) -> Callable[[Question], Outputs]:
    return lambda question: [torch.zeros_like(t) if i == index else t for i, t in enumerate(question.right)]


def _without_small(tensor: torch.Tensor) -> torch.Tensor:
    if not tensor.is_floating_point() or not tensor.numel():
        return tensor
    sizes = tensor.abs().nan_to_num(posinf=0.0)
    return torch.where(sizes < SMALL_SHARE * sizes.max(), torch.zeros_like(tensor), tensor)


def verifier_attempts(inputs: list[Any], others: list[Any]) -> list[tuple[str, Any]]:
    """What may be shown to a `verify` that nobody wrote a reference for: nothing tells what outputs look like."""
    tensors, other_tensors = nested_tensors(inputs), nested_tensors(others)
    found: list[tuple[str, Any]] = []
    generator = torch.Generator().manual_seed(7)
    for i, (tensor, other) in enumerate(zip(tensors, other_tensors)):
        found += [
            (f"zeros shaped like input {i}", torch.zeros_like(tensor)),
            (f"ones shaped like input {i}", torch.ones_like(tensor)),
            (f"input {i} returned as it is", tensor.clone()),
            (f"noise shaped like input {i}", _noise_like(tensor, generator)),
            (f"input {i} of another draw", other.clone()),
        ]
    dtype = tensors[0].dtype if tensors else torch.float32
    found += [("a single zero", torch.zeros((), dtype=dtype)), ("a single one", torch.ones((), dtype=dtype))]
    if len(tensors) > 1:
        found.append(("all inputs returned", tuple(tensor.clone() for tensor in tensors)))
        found.append(("zeros shaped like all inputs", tuple(torch.zeros_like(tensor) for tensor in tensors)))
    found.append(("an empty tensor", torch.empty(0, dtype=dtype)))
    return found
