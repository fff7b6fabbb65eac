"""A limit on work is not used up while other processes have the processors."""

from __future__ import annotations

import time

from triton_agent.tools.reference.allowance import TimeLimit


def test_waiting_alone_does_not_use_up_a_limit_and_work_does() -> None:
    limit = TimeLimit(0.5)
    time.sleep(0.6)
    assert not limit.is_over
    end = time.process_time() + 0.6
    while time.process_time() < end:
        pass
    assert limit.is_over


def test_a_limit_ends_for_a_process_that_only_waits() -> None:
    limit = TimeLimit(0.1)
    time.sleep(0.4)
    assert limit.is_over
