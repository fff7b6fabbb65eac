"""Compilers leave cores to the clock if there are many."""

from __future__ import annotations

import subprocess
import sys

from triton_agent.tools.processes.child import for_compilers

ASK = """
import os
from triton_agent.tools.processes.child import for_compilers, leave_cores_to_the_clock
before = os.sched_getaffinity(0)
leave_cores_to_the_clock()
print(os.sched_getaffinity(0) == for_compilers(before))
"""


def test_two_of_many_cores_are_left_and_none_of_few() -> None:
    assert for_compilers({3, 1, 0, 2, 7, 6, 5, 4}) == {0, 1, 2, 3, 4, 5}
    assert for_compilers(range(16, 32)) == set(range(16, 30))
    assert for_compilers({0, 1, 2, 3}) == {0, 1, 2, 3}


def test_a_process_keeps_to_them() -> None:
    done = subprocess.run([sys.executable, "-c", ASK], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"
