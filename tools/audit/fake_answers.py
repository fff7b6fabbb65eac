"""Fake answers to a problem: outputs made without its inputs, and correct outputs damaged afterwards.

The audit compares each like a candidate's outputs and assumes that everything else is correct: buffers, aliases, the
shapes at other sizes.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch

from triton_agent.tools.audit.mistakes import BFLOAT16, FLOAT16, Rounding, coarser_than
from triton_agent.tools.audit.report import Family
from triton_agent.tools.processes.tensors import nested_tensors
from triton_agent.tools.truth.expectation import Expectation

MOST_INPUTS_RETURNED = 3
SMALL_SHARE = 1e-3
"""Values below this share of the largest one are small. It is far above rounding in float32, and about the rounding of
the largest value in half precision."""
MOSTLY = 0.1
"""Share of the output that must be small to set it to zero; among normal numbers only a thousandth is."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """The data of one case that a fake answer may use."""

    expectation: Expectation
    other_outputs: list[torch.Tensor] | None
    """The reference's outputs for other inputs of the same kind; None if there are none."""
    constants: list[float]
    """For each output, the mean of the reference's output for other inputs."""

    @property
    def right(self) -> list[torch.Tensor]:
        return [output.yard.original for output in self.expectation.outputs]


Outputs = list[torch.Tensor] | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FakeAnswer:
    """One way to answer without doing the work."""

    what: str
    answer: Callable[[Question], Outputs]
    """Returns None if this answer does not fit the problem."""
    family: Family = Family.FAKE
    meaning: str = ""
    """What it means for the problem if this answer passes."""
    damages: bool = False
    """True if it damages correct outputs; if that changes nothing in any case, the answer is not wrong."""


def fake_answers_for(question: Question) -> list[FakeAnswer]:
    """Return the fake answers that fit outputs like these."""

    def returned(index: int) -> Callable[[Question], Outputs]:
        def answer(question: Question) -> Outputs:
            given = nested_tensors(question.expectation.packed_inputs.unpack())[index]
            return [given.to(tensor.dtype).clone() for tensor in question.right if tensor.shape == given.shape]

        return answer

    inputs = nested_tensors(question.expectation.packed_inputs.unpack())
    shapes = {tensor.shape for tensor in question.right}
    alike = [i for i, tensor in enumerate(inputs) if shapes == {tensor.shape}][:MOST_INPUTS_RETURNED]
    meaning = "the reference changes nothing on such inputs"
    copies = [FakeAnswer(what=f"input {i} returned as it is", answer=returned(i), meaning=meaning) for i in alike]
    return [*_BLIND, *copies, *_damaged(question), *_partial(question)]


# -- without the inputs ------------------------------------------------------------------------------------------------


def _filled(like: torch.Tensor, value: float) -> torch.Tensor:
    if like.is_floating_point() or like.is_complex():
        return torch.full_like(like, value)
    return torch.full_like(like, value >= 0.5 if like.dtype is torch.bool else round(value))


def _outputs_for_other_inputs(question: Question) -> Outputs:
    others = question.other_outputs
    fits = others is not None and [t.shape for t in others] == [t.shape for t in question.right]
    return others if fits else None


def _noise(question: Question) -> Outputs:
    generator = torch.Generator().manual_seed(7)
    return [_noise_like(tensor, generator) for tensor in question.right]


def _noise_like(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Draw random numbers with the same mean and spread, or integers from the same range."""
    if tensor.is_complex() or not tensor.numel():
        return torch.zeros_like(tensor)
    if tensor.is_floating_point():
        values = tensor.double()[torch.isfinite(tensor)]
        spread = float(values.std()) if values.numel() > 1 else 1.0
        mean = float(values.mean()) if values.numel() else 0.0
        return (mean + spread * torch.randn(tensor.shape, generator=generator, dtype=torch.float64)).to(tensor.dtype)
    low, high = int(tensor.min()), int(tensor.max())
    return torch.randint(low, high + 2, tensor.shape, generator=generator).to(tensor.dtype)


_BLIND = tuple(
    FakeAnswer(what=what, answer=answer, meaning=meaning)
    for what, answer, meaning in (
        ("all zeros", lambda q: [_filled(t, 0.0) for t in q.right], "the answer is zero whatever the inputs"),
        ("all ones", lambda q: [_filled(t, 1.0) for t in q.right], "the answer is one whatever the inputs"),
        (
            "a constant (the mean of an earlier answer)",
            lambda q: [_filled(*pair) for pair in zip(q.right, q.constants)],
            "the answer is nearly constant whatever the inputs",
        ),
        (
            "the answer to other inputs",
            _outputs_for_other_inputs,
            "the inputs never change, or the answer does not depend on them",
        ),
        ("noise of the right mean and spread", _noise, "the values are not checked"),
    )
)


# -- right outputs damaged ---------------------------------------------------------------------------------------------


def _each(change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Question], Outputs]:
    return lambda question: [change(tensor) for tensor in question.right]


def _damaged(question: Question) -> Iterator[FakeAnswer]:
    dtypes = {tensor.dtype for tensor in question.right}
    if any(dtype.is_floating_point for dtype in dtypes):
        for rounding in coarser_than(list(dtypes)):
            if rounding in (FLOAT16, BFLOAT16):
                change = _each(functools.partial(_rounded, rounding=rounding))
                yield FakeAnswer(what=f"the right answer rounded to {rounding.name}", answer=change, damages=True)
    last = slice(-1, None)
    row, column = (lambda t: _without(t, last)), (lambda t: _without(t, ..., last))
    for what, cut in (("row", row), ("column", column), ("element", _without_last)):
        yield FakeAnswer(what=f"the right answer without its last {what}", answer=_each(cut), damages=True)
    if any(map(_is_whole, question.right)):
        change = _each(lambda t: t + 1 if _is_whole(t) else t)
        yield FakeAnswer(what="whole numbers off by one", answer=change, damages=True)
    if torch.bool in dtypes:
        change = _each(lambda t: ~t if t.dtype is torch.bool else t)
        yield FakeAnswer(what="true for false", answer=change, damages=True)


def _rounded(tensor: torch.Tensor, *, rounding: Rounding) -> torch.Tensor:
    return rounding.apply(tensor) if tensor.is_floating_point() else tensor


def _is_whole(tensor: torch.Tensor) -> bool:
    return not (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype is torch.bool)


def _without(tensor: torch.Tensor, *place: Any) -> torch.Tensor:
    cut = tensor.clone()
    if tensor.dim():
        cut[place] = 0
    return cut


def _without_last(tensor: torch.Tensor) -> torch.Tensor:
    """Set the last nonzero element to zero."""
    cut = tensor.clone(memory_format=torch.contiguous_format)
    filled = (cut.reshape(-1) != 0).nonzero()
    if len(filled):
        cut.view(-1)[int(filled[-1])] = 0
    return cut


def _partial(question: Question) -> Iterator[FakeAnswer]:
    """Set part of the answer to zero: one of several outputs, or small values beside large ones."""

    def zeros_in(index: int) -> Callable[[Question], Outputs]:
        return lambda question: [torch.zeros_like(t) if i == index else t for i, t in enumerate(question.right)]

    for i, output in enumerate(question.expectation.outputs if len(question.right) > 1 else ()):
        yield FakeAnswer(
            what=f"{output.name} all zeros",
            answer=zeros_in(i),
            family=Family.PARTIAL,
            meaning="that output is zero whatever the inputs, or its values hardly count",
        )
    lost = [(_without_small(tensor) != tensor).double() for tensor in question.right if tensor.numel()]
    if any(float(share.mean()) > MOSTLY for share in lost):
        yield FakeAnswer(
            what=f"zero for all below {SMALL_SHARE:g} of the largest value",
            answer=_each(_without_small),
            family=Family.PARTIAL,
            meaning="a few large values outweigh the others, which may be anything",
            damages=True,
        )


def _without_small(tensor: torch.Tensor) -> torch.Tensor:
    if not tensor.is_floating_point() or not tensor.numel():
        return tensor
    sizes = tensor.abs().nan_to_num(posinf=0.0)
    return torch.where(sizes < SMALL_SHARE * sizes.max(), torch.zeros_like(tensor), tensor)


# -- for problems with a verifier --------------------------------------------------------------------------------------


def answers_for_verifier(inputs: list[Any], others: list[Any]) -> list[tuple[str, Any]]:
    """Return answers for a `verify` without a reference, so that the form of correct outputs is unknown."""
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
