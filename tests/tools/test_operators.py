"""The kind of operator by its name, also for names that are in no table."""

from __future__ import annotations

import subprocess
import sys

import pytest

from triton_agent.tools.graph.operators import kind_of, passes_of


@pytest.mark.parametrize("name", ["_compute_linear_combination", "_cdist_backward", "_slow_conv2d_backward"])
def test_a_product_under_another_name_is_heavy(name: str) -> None:
    assert kind_of(f"aten.{name}") == "heavy"


def test_an_operator_nobody_knows_is_heavy_where_it_takes_several_tensors() -> None:
    assert kind_of("aten._wrapped_linear_prepack") == "heavy"
    assert kind_of("aten.upsample_bilinear2d") == "arithmetic"


@pytest.mark.parametrize("name", ["add", "mul_", "where", "masked_fill_", "eq_", "searchsorted", "_foreach_add_"])
def test_what_works_element_by_element_is_light(name: str) -> None:
    assert kind_of(f"aten.{name}") == "arithmetic"


def test_common_operators_are_known_without_torch() -> None:
    asked = "import sys; from triton_agent.tools.graph.operators import kind_of"
    asked += "; print(kind_of('aten.mul'), 'torch' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert said.stdout.split() == ["arithmetic", "False"]


def test_the_derivative_of_a_compound_operator_counts_as_much_as_itself() -> None:
    assert passes_of("aten.sigmoid_backward") == passes_of("aten.sigmoid") > 1


@pytest.mark.parametrize("name", ["fake_quantize_per_tensor_affine", "upsample_bilinear2d", "_fused_adam_", "polar"])
def test_one_operator_that_does_the_work_of_several_counts_as_several(name: str) -> None:
    assert passes_of(f"aten.{name}") > 2
