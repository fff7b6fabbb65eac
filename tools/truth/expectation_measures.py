"""Measures an expectation: which share of its elements is judged or has to be NaN, and the reference's own error."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from triton_agent.tools.truth.expectation import Expectation

ERROR_GROWN, LEAST_ERROR = 10, 1e-7
"""How many times as large the reference's own error may be as for the inputs as given, or as the second number."""


def judged_share(expectation: Expectation) -> float:
    """Return the share of elements, over all outputs, that an answer is compared in."""
    yards = [output.yard for output in expectation.outputs]
    total = sum(yard.truth.numel() for yard in yards)
    return sum(yard.judged_share * yard.truth.numel() for yard in yards) / total if total else 1.0


def nan_share(expectation: Expectation) -> float:
    """Return the share of elements, over all outputs, that must be NaN."""
    yards = [output.yard for output in expectation.outputs if output.yard.original.is_floating_point()]
    total = sum(output.yard.truth.numel() for output in expectation.outputs)
    return sum(int((yard.original.isnan() & yard.truth.isnan()).sum()) for yard in yards) / total if total else 0.0


def own_error(expectation: Expectation) -> float:
    """Return the largest relative error of the reference's own outputs."""
    yards = [output.yard for output in expectation.outputs if output.yard.original.is_floating_point()]
    errors = [float((it.original.double() - it.truth).norm() / it.truth.norm().clamp(min=1e-30)) for it in yards]
    return max(errors, default=0.0)


def is_as_accurate(expectation: Expectation, given: Expectation) -> bool:
    """Return True if the reference's own error is not many times that for the inputs as given."""
    return own_error(expectation) <= ERROR_GROWN * max(own_error(given), LEAST_ERROR)


def count_not_finite(tensors: Iterable[torch.Tensor]) -> int:
    return sum(int((~torch.isfinite(tensor)).sum()) for tensor in tensors if tensor.is_floating_point())
