"""Programs run in lockstep give the same as one by one, bit for bit: values, faults and records of launches.

The kernels are those of `lockstep_probes.py`, run in a separate process, and the files of `tests/kernels` and
`tests/honest`.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.tools.test_interpreter import environment

PROBES_FILE = Path(__file__).with_name("lockstep_probes.py")
TIMEOUT_S = 240

PROMISES = (
    "programs_that_do_not_meet_run_together",
    "programs_that_read_what_others_store_run_one_by_one",
    "programs_that_store_to_one_place_run_one_by_one",
    "elements_of_two_sizes_run_one_by_one",
    "atomics_run_one_by_one",
    "volatile_loads_run_one_by_one",
    "pointers_of_unknown_origin_run_one_by_one",
    "programs_that_branch_run_in_groups",
    "programs_that_loop_differently_run_in_groups",
    "groups_that_meet_run_one_by_one",
    "few_programs_with_large_blocks_run_at_once",
    "a_fault_is_that_of_its_program",
    "waiting_for_what_nobody_stores_is_a_deadlock",
    "operations_on_whole_blocks_know_their_program",
    "block_pointers_and_descriptors_run_together",
)

pytestmark = pytest.mark.xdist_group("lockstep")  # what is made once is made in one process
FILES_AT_LEAST = 250
"""Least number of kernel files that run in the interpreter without the evaluator."""
LAUNCHES_TOGETHER = 0.8
"""Least share of the launches in these files that run in lockstep."""


@pytest.fixture(scope="module")
def found() -> dict[str, dict[str, object]]:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(PROBES_FILE)],
        env=environment(TRITON_INTERPRET="1", OMP_NUM_THREADS="1"),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return dict(json.loads(done.stdout))


@pytest.mark.parametrize("promise", PROMISES)
def test_lockstep_keeps_promise(promise: str, found: dict[str, dict[str, object]]) -> None:
    assert found["probes"][promise] is True


def test_every_probe_has_a_promise(found: dict[str, dict[str, object]]) -> None:
    assert set(found["probes"]) == set(PROMISES)


def test_files_of_kernels_give_the_same_together_and_one_by_one(found: dict[str, dict[str, object]]) -> None:
    compared = {name: told for name, told in found["files"].items() if isinstance(told, list)}
    assert {name: told for name, (told, _, _) in compared.items() if told} == {}
    together, apart = (sum(told[i] for told in compared.values()) for i in (1, 2))
    assert len(compared) >= FILES_AT_LEAST
    assert together >= LAUNCHES_TOGETHER * (together + apart)
