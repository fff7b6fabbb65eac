"""The sets of inputs that timed calls take in turn."""

from __future__ import annotations

import pytest
import torch

from triton_agent.tools.race import clock
from triton_agent.tools.race.clock import TIMING_SETS, timing_sets


@pytest.mark.parametrize(("length", "sets"), [(4, TIMING_SETS), (5, 1)])
def test_inputs_too_large_for_any_cache_are_the_only_set(
    length: int, sets: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock, "LARGE_SET_BYTES", 4 * 8)
    drawn = list(
        timing_sets(lambda number: [torch.full((length,), number, dtype=torch.float32), {"mask": torch.zeros(length)}])
    )
    assert len(drawn) == sets
    assert [int(first[0]) for first, _ in drawn] == list(range(sets))
