"""What is known for certain of values that kernels compute; see `noting/bounds.py`."""

from __future__ import annotations

import math

import numpy as np
import pytest
import triton.language as tl
from triton.runtime.interpreter import TensorHandle

from triton_agent.tools.noting.bounds import ANY, Bounds, bounds_of, compare, decides, of_any_number, of_sum

ONE = TensorHandle(np.ones(4, np.float32), tl.float32)
OTHER = TensorHandle(np.ones(4, np.float32), tl.float32)
BYTES = TensorHandle(np.ones(4, np.uint8), tl.uint8)


def bounds(name: str, *known: Bounds, handles: tuple[TensorHandle, ...] = (ONE, OTHER)) -> Bounds:
    may_be_nan = [it != (0.0, 0.0) for it in known]
    return bounds_of(f"create_{name}", (), handles[: len(known)], known, may_be_nan, handles[0])


def test_sigmoid_and_hyperbolic_tangent_are_bounded() -> None:
    raised = bounds("exp", ANY)
    assert raised == (0.0, math.inf)
    divisor = bounds("fadd", raised, (1.0, 1.0))
    assert bounds("fdiv", (1.0, 1.0), divisor) == (0.0, 1.0)
    raised = bounds("exp", bounds("fmul", bounds("fabs", ANY), (-2.0, -2.0)))
    assert raised == (0.0, 1.0)
    quotient = bounds("fdiv", bounds("fsub", (1.0, 1.0), raised), bounds("fadd", (1.0, 1.0), raised))
    assert quotient == (0.0, 1.0)


def test_a_square_and_an_epsilon_are_above_zero_in_float32_only_if_float32_holds_them() -> None:
    square = bounds("fmul", ANY, ANY, handles=(ONE, ONE))
    assert square == (0.0, math.inf)
    assert bounds("fmul", ANY, ANY) == ANY
    assert bounds("fadd", square, (1e-6, 1e-6))[0] > 0
    assert bounds("fmul", (1e-30, 1.0), (1e-30, 1.0))[0] == 0


@pytest.mark.parametrize(
    ("name", "one", "other"),
    [
        ("fdiv", (1.0, 2.0), (-1.0, 1.0)),
        ("fsub", (0.0, math.inf), (0.0, math.inf)),
        ("unknown", (1.0, 2.0), (1.0, 2.0)),
    ],
)
def test_what_may_be_any_number_has_no_bounds(name: str, one: Bounds, other: Bounds) -> None:
    assert bounds(name, one, other) == ANY


def test_an_extremum_that_drops_nan_is_bounded_by_certain_numbers_only() -> None:
    assert bounds("maximumf", (5.0, 9.0), (0.0, 0.0)) == (5.0, 9.0)
    assert bounds("maxnumf", (5.0, 9.0), (0.0, 0.0)) == (0.0, 9.0)


def test_whole_numbers_beyond_their_type_may_be_any_of_it() -> None:
    assert bounds("add", (0.0, 100.0), (0.0, 100.0), handles=(BYTES, BYTES)) == (0.0, 200.0)
    assert bounds("add", (0.0, 200.0), (0.0, 100.0), handles=(BYTES, BYTES)) == (0.0, 255.0)


def test_comparisons_of_what_lies_apart_are_decided() -> None:
    assert decides("create_fcmpOEQ", (1.0, 2.0), (0.0, 0.0))
    assert decides("create_fcmpOLT", (0.0, 1.0), (0.0, 0.0))
    assert not decides("create_fcmpOLE", (0.0, 1.0), (0.0, 0.0))
    assert bool(compare("create_fcmpUNE", 1.0, math.nan)) and not bool(compare("create_fcmpOGE", 1.0, math.nan))


def test_sums_of_so_many_terms_and_of_any_number_of_them() -> None:
    assert of_sum((-1.0, 2.0), 8) == (-8.0, 16.0)
    assert of_any_number((0.5, 2.0)) == (0.0, math.inf)
    assert of_any_number((-2.0, -1.0)) == (-math.inf, 0.0)
