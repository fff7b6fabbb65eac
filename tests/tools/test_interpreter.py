"""The interpreter's behaviour, tested by the kernels of `interpreter_probes.py` in a separate process.

The same probes run on Triton's stock interpreter, where those in `FAULTS_OF_THE_STOCK_INTERPRETER` must fail. If a new
Triton version fixes one of them, its test fails, and our own fix can be removed.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group("interpreter")  # what is made once is made in one process
PROBES_FILE = Path(__file__).with_name("interpreter_probes.py")
SOURCES = Path(__file__).parents[2] / "src"
TIMEOUT_S = 120

FAULTS_OF_THE_STOCK_INTERPRETER = (
    "bfloat16_elementwise_equals_torch",
    "casts_to_bfloat16_round_to_nearest_even",
    "casts_among_bfloat16_and_others_equal_torch",
    "casts_to_float8_round_to_nearest_even",
    "casts_to_float8_saturate",
    "float8_reads_exactly",
    "float_to_integer_saturates",
    "bfloat16_constants_exist",
    "bfloat16_reductions_and_scans",
    "bfloat16_sum_is_rounded_at_every_step",
    "half_precision_atomics_add",
    "bfloat16_sorts",
    "float_argument_is_float32_beside_float16",
    "float32_dot_is_tf32_unless_told_otherwise",
    "split_dots_are_compensated",
    "narrow_dots_accumulate_in_float32",
    "maximum_and_clamp_drop_nan",
    "fma_rounds_once",
    "umulhi_is_unsigned",
    "histogram_counts_int64",
    "numbers_beyond_a_histogram_are_counted_by_their_low_bits",
    "gathering_beyond_a_block_gives_no_element_of_it",
    "blocks_that_may_be_reordered_do_not_keep_their_order",
    "an_argument_of_one_is_a_constant_without_a_width",
    "words_act_elementwise",
    "block_as_condition_is_refused",
    "chained_comparison_is_refused",
    "loops_over_dynamic_ranges",
    "annotations_are_heeded",
    "boolean_and_large_arguments",
    "kernels_may_close_over_variables",
    "libdevice_functions_equal_torch",
    "fast_functions_err_as_on_a_gpu",
    "libdevice_takes_several_arguments",
    "autotuned_kernel_runs",
    "tuning_resets_what_is_summed",
    "driver_describes_the_target",
    "store_past_the_end_is_told_and_not_done",
    "neighbour_in_the_same_storage_is_out_of_bounds",
    "load_before_the_start",
    "raw_address_reaches_only_tensors_of_the_launch",
    "grids_a_gpu_refuses_are_refused",
    "unknown_options_and_wrong_arguments_are_refused",
    "no_operator_of_torch_is_dispatched",
)

OTHER_PROMISES = (
    "casts_toward_zero",
    "mathematics_on_promoted_bfloat16",
    "reinterpreted_tensors_are_read_as_what_they_are_said_to_be",
    "float32_dot_can_be_exact",
    "float16_dot_into_float16_is_rounded",
    "float8_dot",
    "int8_dot_is_exact",
    "custom_reduction",
    "own_reductions_depend_on_their_order",
    "custom_scan",
    "atomic_extrema_of_fractions",
    "reductions_over_any_axis",
    "hints_change_nothing",
    "heuristics_run",
    "masked_lanes_may_point_anywhere",
    "atomic_out_of_bounds",
    "empty_tensor_has_no_elements",
    "block_pointers_are_checked",
    "descriptors_are_checked",
    "tensors_in_tuples_are_checked",
    "line_is_that_of_the_helper",
    "sizes_that_are_no_power_of_two_are_refused",
    "dot_that_is_too_small_is_refused",
    "empty_grid_does_nothing",
    "what_cannot_be_emulated_is_named",
    "compiled_kernels_are_unsupported",
    "exception_carries_the_line",
    "swallowed_fault_is_remembered",
    "launch_is_recorded",
    "contested_elements_are_told",
    "lanes_that_store_different_values_in_one_element_are_told",
    "lanes_of_an_atomic_come_in_any_order",
    "whole_numbers_divided_by_zero_do_not_give_zero",
    "a_false_multiple_is_refused",
    "false_neighbours_are_refused",
    "false_constancy_of_flags_is_refused",
    "bytes_keep_the_low_bits_of_floats_out_of_range",
    "sums_of_flags_keep_one_bit",
    "a_relaxed_atomic_orders_nothing",
    "an_atomic_before_a_store_does_not_order_it",
    "atomics_of_one_program_contest_those_of_others",
    "counterparts_of_sums_make_them_what_they_meet",
    "predicates_on_data_with_one_result_are_noted",
    "limits_of_totals_and_patterns_of_whole_numbers_are_noted",
    "another_result_is_forced_at_one_place",
    "a_failure_of_the_notes_is_not_the_kernels",
    "a_constant_that_data_may_have_replaced_is_data_in_comparisons",
    "a_loop_without_rounds_is_forced_to_have_one",
    "installing_again_changes_nothing",
)


def environment(**changes: str) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("TRITON_")}
    return {**inherited, "PYTHONPATH": str(SOURCES), "PYTHONWARNINGS": "ignore", **changes}


def run_probes(kind: str, *names: str) -> dict[str, object]:
    done = subprocess.run(
        [sys.executable, str(PROBES_FILE), kind, *names],
        env=environment(TRITON_INTERPRET="1", OMP_NUM_THREADS="1"),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return dict(json.loads(done.stdout))


@pytest.fixture(scope="module")
def mended() -> dict[str, object]:
    return run_probes("mended")


@pytest.fixture(scope="module")
def stock() -> dict[str, object]:
    return run_probes("stock", *FAULTS_OF_THE_STOCK_INTERPRETER)


@pytest.mark.parametrize("promise", [*FAULTS_OF_THE_STOCK_INTERPRETER, *OTHER_PROMISES])
def test_interpreter_keeps_promise(promise: str, mended: dict[str, object]) -> None:
    assert mended[promise] is True


@pytest.mark.parametrize("promise", FAULTS_OF_THE_STOCK_INTERPRETER)
def test_stock_interpreter_breaks_promise(promise: str, stock: dict[str, object]) -> None:
    assert stock[promise] is not True


def test_every_probe_has_a_promise(mended: dict[str, object]) -> None:
    assert set(mended) == {*FAULTS_OF_THE_STOCK_INTERPRETER, *OTHER_PROMISES}


def test_triton_imported_to_compile_is_an_instruments_failure() -> None:
    code = "from triton_agent.tools.emulate.interpreter import install; install()"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, timeout=TIMEOUT_S
    )
    assert "InstrumentError" in done.stderr and "TRITON_INTERPRET=1" in done.stderr
