"""The places where a benchmark judges problems, and the description of the machine and commit for its rows.

A place is a card or the interpreter, with its own processes, and judges one problem at a time. A card may have several
places.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import platform
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

from triton_agent.runs.bench.problems import SUITE, Selection
from triton_agent.runs.bench.public.protocol import PublicProtocol, public_protocol
from triton_agent.runs.bench.rows import Where
from triton_agent.runs.bench.settings import ORIGINAL, BenchSettings
from triton_agent.runs.cli.devices import Chosen
from triton_agent.runs.optimize.cards import opened_on
from triton_agent.tools.processes.zygotes import Nursery
from triton_agent.tools.versions import installed, project_version

AT_ONCE, CORES_FOR_ONE = 3, 4
"""Most problems on one GPU if the user does not say how many, and the cores that each needs."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A place that judges one problem at a time."""

    card: str
    """UUID of the GPU; empty for the first visible one, and for the interpreter."""
    nursery: Nursery
    public: PublicProtocol | None = None
    """The public benchmark's own check, if that was asked for."""

    @property
    def name(self) -> str:
        """Name of the place for messages."""
        return self.card or "the GPU"


def here(chosen: Chosen) -> Where:
    """Return the description of this machine as it is now; several cards are of one model."""
    gpu = next(iter(chosen.gpus), None)
    return Where(
        device=chosen.device,
        gpu=gpu.name if gpu else "",
        driver=(gpu.driver or "") if gpu else "",
        python=platform.python_version(),
        torch=installed("torch") or "",
        triton=installed("triton") or "",
        commit=project_version(),
    )


def usual_at_once(selection: Selection, chosen: Chosen, *, cores: int) -> int:
    """Return how many problems share a GPU if the user does not say.

    A problem of gigabytes leaves the GPU idle for half a minute while it is prepared. With several small problems at a
    time, the busier host would show in their latencies.
    """
    if chosen.device != "cuda" or selection.benchmark == SUITE:
        return 1
    return chosen.at_once(AT_ONCE, cores_for_one=CORES_FOR_ONE, cores=cores)


@contextlib.asynccontextmanager
async def places(
    chosen: Chosen, settings: BenchSettings, folder: Path, shared: Sequence[Nursery], say: Callable[[str], None]
) -> AsyncIterator[list[Place]]:
    """Yield the places: `at_once` for each card, or one for each of the `shared` nurseries, which stay open."""
    numbers = itertools.count()
    cards = [card for card in chosen.uuids for _ in range(settings.at_once)]

    def begun(card: str) -> Nursery:
        nursery = Nursery(str(folder / f"{card or 'first'}-{next(numbers)}.log"), card)
        nursery.expect_problems()
        return nursery

    def checked(card: str) -> contextlib.AbstractContextManager[PublicProtocol | None]:
        wanted = settings.protocol == ORIGINAL
        return public_protocol(settings.device, card) if wanted else contextlib.nullcontext()

    async with contextlib.AsyncExitStack() as stack:
        nurseries = shared or await stack.enter_async_context(opened_on(cards, begun, say))
        yield [
            Place(card=nursery.card, nursery=nursery, public=stack.enter_context(checked(nursery.card)))
            for nursery in nurseries
        ]
