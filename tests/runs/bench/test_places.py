"""Places of a benchmark: a number for each card, each with its own processes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.runs.bench.test_baselines import card

from triton_agent.runs.bench.places import places, usual_at_once
from triton_agent.runs.bench.problems import of_suite
from triton_agent.runs.bench.rows import Mode
from triton_agent.runs.bench.settings import BenchSettings, differences
from triton_agent.runs.bench.suite import CORE, LARGE
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


@pytest.mark.parametrize(
    ("part", "device", "cards", "cores", "at_once"),
    [
        (CORE, "cuda", 1, 64, 1),
        (LARGE, "cpu", 0, 64, 1),
        (LARGE, "cuda", 1, 64, 3),
        (LARGE, "cuda", 1, 8, 2),
        (LARGE, "cuda", 4, 32, 2),
        (LARGE, "cuda", 1, 2, 1),
    ],
)
def test_large_problems_share_a_gpu_if_the_host_has_the_cores(
    part: str, device: str, cards: int, cores: int, at_once: int
) -> None:
    selection = of_suite(quick=True, part=part)
    chosen = Chosen(device=device, cards="all", gpus=tuple(card(f"GPU-{number}") for number in range(cards)))
    assert usual_at_once(selection, chosen, cores=cores) == at_once


def test_none_at_once_is_refused() -> None:
    with pytest.raises(UsageError, match="--at-once 0"):
        BenchSettings(policy="builtin", policy_version="1", at_once=0)
