"""Random orders of programs reveal races. Each test runs a probe of `program_order_probes.py` in a separate process."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.tools.test_interpreter import environment

PROBES_FILE = Path(__file__).with_name("program_order_probes.py")
TIMEOUT_S = 240

PROMISES = (
    "without_a_seed_programs_run_one_after_another",
    "with_a_seed_the_order_is_random",
    "with_a_seed_programs_are_interleaved",
    "a_seed_repeats_its_order",
    "some_seeds_give_the_order_of_the_grid",
    "later_launches_have_orders_of_their_own",
    "shifting_in_place_is_a_race_in_any_order",
    "shifting_into_other_memory_is_none",
    "own_elements_in_place_are_no_race",
    "equal_values_stored_by_all_are_no_race",
    "relying_on_the_first_program_goes_wrong_and_is_a_race",
    "a_lock_works_under_any_seed",
    "programs_that_wait_for_earlier_ones_finish_under_any_seed",
    "a_barrier_works_for_as_many_programs_as_multiprocessors",
    "waiting_for_a_program_that_cannot_start_is_a_deadlock",
    "waiting_so_by_plain_loads_is_one_too",
    "waiting_for_each_other_is_a_deadlock",
    "reading_the_same_over_and_over_is_not_waiting",
    "the_first_error_ends_the_launch",
    "an_error_names_kernel_and_line",
    "no_thread_stays_without_a_seed",
    "honest_sum_under_a_lock",
    "honest_split_k_in_turn",
    "honest_last_program_finishes",
    "honest_persistent_kernel",
    "honest_split_k_atomics",
    "honest_partial_products_kept",
    "honest_partials_summed_by_torch",
    "honest_in_place_on_a_clone",
    "honest_atomic_reduction",
    "honest_workspaces_in_turns",
)

pytestmark = pytest.mark.xdist_group("program_order")  # what is made once is made in one process


@pytest.fixture(scope="module")
def kept() -> dict[str, object]:
    done = subprocess.run(
        [sys.executable, str(PROBES_FILE)],
        env=environment(TRITON_INTERPRET="1", OMP_NUM_THREADS="1"),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return dict(json.loads(done.stdout))


@pytest.mark.parametrize("promise", PROMISES)
def test_program_order_keeps_promise(promise: str, kept: dict[str, object]) -> None:
    assert kept[promise] is True


def test_every_probe_has_a_promise(kept: dict[str, object]) -> None:
    assert set(kept) == set(PROMISES)
