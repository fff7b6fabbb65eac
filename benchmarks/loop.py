"""Measures the loop's own cost in milliseconds a turn, with candidates that take no time to judge.

Store, checkpoints, graph and screen are the real ones, in a folder of their own on this machine's disk; answers come
from a script and verdicts from a table. The same number of turns is run with one candidate a turn and with many; the
slope between them is what a further candidate costs. Rows in a CSV file; see `rows.py`.

It does not measure how long policies and evaluators take.

    python benchmarks/loop.py --turns 20
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import datetime
import io
import itertools
import statistics
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
TURN_BAR_MS = 15.0
CANDIDATE_BAR_MS = 1.0


def main() -> None:
    """Measure, print and append rows; exit code 1 if a bar is missed."""
    options = _options()
    import rows

    shared = rows.provenance()
    medians = {parallel: statistics.median(_turns_ms(parallel, options.turns)) for parallel in options.parallel}
    fewest, most = min(medians), max(medians)
    slope = (medians[most] - medians[fewest]) / (most - fewest) if most > fewest else 0.0
    found = [{"candidates": n, "figure": "turn p50", "value": round(ms, 2), "unit": "ms"} for n, ms in medians.items()]
    found.append({"candidates": most, "figure": "per further candidate", "value": round(slope, 3), "unit": "ms"})
    for row in found:
        print(f"{row['candidates']:4} at once  {row['figure']:22} {row['value']:8} {row['unit']}")
    rows.append(options.out, shared, [{"turns": options.turns, **row} for row in found])
    if medians[fewest] > TURN_BAR_MS or slope > CANDIDATE_BAR_MS:
        sys.exit(f"above the bar of {TURN_BAR_MS:g} ms a turn and {CANDIDATE_BAR_MS:g} ms a further candidate")


def _turns_ms(parallel: int, turns: int) -> list[float]:
    """Return wall times between the starts of turns, without the first turn, which opens and compiles things."""
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
        began = asyncio.run(_run(Path(folder), parallel, turns + 2))
    return [(b - a) * 1e3 for a, b in itertools.pairwise(began[1:])]


async def _run(folder: Path, parallel: int, turns: int) -> list[float]:
    from tests.agent.tables import Table, kernel, new_run, passed, script

    from triton_agent.agent.ledger import Ledger
    from triton_agent.agent.loop import Loop
    from triton_agent.agent.settings import LoopSettings
    from triton_agent.memory.observation import Rules
    from triton_agent.memory.store import Store
    from triton_agent.runs.optimize.checkpoints import checkpointer
    from triton_agent.runs.optimize.screen import PlainLines

    sources = [kernel(number) for number in range(parallel * turns)]
    judge = Table({source: passed(source, 1.2) for source in sources})
    settings = LoopSettings(rules=Rules(), turns=turns, parallel=parallel, patience=turns)
    run = dataclasses.replace(new_run(), started_at=datetime.datetime.now(datetime.UTC))
    screen, began = PlainLines(), []
    with Store.open(folder / "store.db") as store:
        ledger = Ledger.begin(store, run)
        screen.begin(ledger, settings, "overhead")
        async with checkpointer(store) as saver:
            async for event in Loop(ledger, [script(sources)], [judge], settings, checkpointer=saver).events():
                screen.event(event)
                if event["kind"] == "turn":
                    began.append(time.perf_counter())
    return began


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="What the loop itself costs, in milliseconds a turn.")
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--parallel", type=int, nargs="+", default=[1, 8, 64], help="candidates a turn")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "loop.csv", help="the CSV file for rows")
    return parser.parse_args()


if __name__ == "__main__":
    main()
