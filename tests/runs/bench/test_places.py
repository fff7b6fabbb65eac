"""Places of a benchmark: a number for each card, each with its own processes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from triton_agent.runs.bench.places import places
from triton_agent.runs.bench.rows import Mode
from triton_agent.runs.bench.settings import BenchSettings, differences
from triton_agent.runs.cli.devices import Chosen
from triton_agent.tools.errors import UsageError

SETTINGS = BenchSettings(policy="builtin", policy_version="1", mode=Mode.OWN_KERNELS, at_once=2)


def test_two_problems_at_once_have_processes_of_their_own(tmp_path: Path) -> None:
    async def opened() -> list[int]:
        async with places(Chosen(device="cpu"), SETTINGS, tmp_path, [], print) as found:
            return [place.nursery.base.origin.pid for place in found]

    first, second = asyncio.run(opened())
    assert first != second


def test_a_record_goes_on_with_more_at_once() -> None:
    assert not differences(SETTINGS.to_json(), SETTINGS.to_json() | {"at_once": 1})


def test_none_at_once_is_refused() -> None:
    with pytest.raises(UsageError, match="--at-once 0"):
        BenchSettings(policy="builtin", policy_version="1", at_once=0)
