"""How fast `triton-agent view` answers over a large store, from the request to the last byte.

Some runs are made as in `store.py` (small ones of ten attempts, large ones of 1,600; texts and verdicts of usual sizes,
no tokens) and copied inside the database until there are as many attempts as wanted. Each page is asked for by HTTP
from a server in a process of its own, with arguments that differ from one time to the next; the first request of each
kind is counted, too. Not covered: what the browser takes to draw the page, and a store on a PostgreSQL server.

    python benchmarks/view.py --attempts 20000
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import datetime
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from triton_agent.memory.records import Run
    from triton_agent.memory.store import Store

HERE = Path(__file__).resolve().parent
SMALL_RUNS, SMALL_TURNS = 500, 2
"""Runs that are copied, and their turns of five answers."""
LARGE_RUNS, LARGE_SHARE = 2, 0.2
"""Runs of 1,600 attempts, and the share of all attempts that copies of them have."""
ANSWERS_OF_SMALL = 5
OPEN_SHARE = 0.1
"""Share of all runs that are running, or were killed and not resumed."""
REPEATS = 15
BAR_MS = 300.0
"""The median of each page at most."""


def fill(store: Store, attempts: int) -> list[Run]:
    """Fill an empty store; return the runs that the others are copies of, the small ones first."""
    from store import Material

    from triton_agent.memory.records import RunEnd

    material, draw = Material(), random.Random(2)
    runs = material.runs((SMALL_RUNS + LARGE_RUNS) * 1600)
    small, large = runs[:SMALL_RUNS], runs[SMALL_RUNS : SMALL_RUNS + LARGE_RUNS]
    for run in runs:
        store.add_run(run)
        pairs = []
        for number, turn in enumerate(material.turns(run)):
            if run in small and number == SMALL_TURNS:
                break
            pairs += turn[:ANSWERS_OF_SMALL] if run in small else turn
        bare = [
            (dataclasses.replace(attempt, completion=_without_tokens(attempt.completion)), grading)
            for attempt, grading in pairs
        ]
        store.add_attempts(bare)
        if draw.random() > OPEN_SHARE:
            end = run.started_at + datetime.timedelta(hours=1)
            store.end_run(RunEnd(run=run.id, stop_reason="turns", best=pairs[0][0].key, ended_at=end))
    wanted_large = int(attempts * LARGE_SHARE)
    copy(store, small, (attempts - wanted_large) // (SMALL_RUNS * SMALL_TURNS * ANSWERS_OF_SMALL) - 1)
    copy(store, large, wanted_large // (LARGE_RUNS * 1600) - 1)
    with store.reading() as connection:
        raw = connection.connection.driver_connection
        assert raw is not None
        raw.execute("PRAGMA optimize")
    return [*small, *large]


def _without_tokens(said):  # type: ignore[no-untyped-def]
    return dataclasses.replace(said, token_ids=None, log_probabilities=None)


def copy(store: Store, runs: Sequence[Run], times: int) -> None:
    """Copy runs with everything they have; copies are named `ID-1`, `ID-2`, ..., each a day older than the one before.

    The records of a copy name the run they were made for; nothing on a page of a run depends on that.
    """
    from sqlalchemy import func, insert, literal, select

    from triton_agent.memory.sql.tables import AnswerRow, AttemptRow, GradingRow, RunRow

    day_us = 86_400 * 1_000_000
    with store.reading() as connection:
        last = {kind: connection.execute(select(func.max(column))).scalar_one() for kind, column in _keys().items()}
    ids = [run.id for run in runs]
    own_runs = select(RunRow.seq).where(RunRow.id.in_(ids))
    own = select(AttemptRow.id).where(AttemptRow.run_seq.in_(own_runs))
    for number in range(1, times + 1):
        shift = {kind: number * top for kind, top in last.items()}
        changed = {
            RunRow: {"seq": RunRow.seq + shift["runs"], "id": RunRow.id + literal(f"-{number}"),
                     "started_us": RunRow.started_us - number * day_us,
                     "best": func.replace(RunRow.best, RunRow.id, RunRow.id + literal(f"-{number}"))},
            AttemptRow: {"id": AttemptRow.id + shift["attempts"], "run_seq": AttemptRow.run_seq + shift["runs"]},
            AnswerRow: {"attempt_id": AnswerRow.attempt_id + shift["attempts"]},
            GradingRow: {"id": GradingRow.id + shift["gradings"],
                         "attempt_id": GradingRow.attempt_id + shift["attempts"]},
        }  # fmt: skip
        chosen = {
            RunRow: RunRow.id.in_(ids),
            AttemptRow: AttemptRow.run_seq.in_(own_runs),
            AnswerRow: AnswerRow.attempt_id.in_(own),
            GradingRow: GradingRow.attempt_id.in_(own),
        }

        def work(connection, changed=changed, chosen=chosen):  # type: ignore[no-untyped-def]
            for table, columns in changed.items():
                names = [column.name for column in table.__table__.c]
                values = [columns.get(name, table.__table__.c[name]) for name in names]
                connection.execute(insert(table).from_select(names, select(*values).where(chosen[table])))

        store.database.write(work)
        _say(f"{number} of {times} copies")


def _keys():  # type: ignore[no-untyped-def]
    from triton_agent.memory.sql.tables import AttemptRow, GradingRow, RunRow

    return {"runs": RunRow.seq, "attempts": AttemptRow.id, "gradings": GradingRow.id}


@contextlib.contextmanager
def served(path: Path) -> Iterator[tuple[str, str]]:
    """Yield address and token of a server over that store."""
    command = [sys.executable, "-m", "triton_agent", "view", "--port", "0", "--store", str(path)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=path.parent)
    assert process.stderr is not None
    try:
        found = re.fullmatch(r"(http://\S+)/\?token=(\S+)", process.stderr.readline().strip())
        assert found is not None
        yield found[1], found[2]
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)


def places(runs: Sequence[Run], copies: int) -> dict[str, list[str]]:
    """Return the addresses of each kind of page."""
    draw = random.Random(1)
    small, large = runs[:SMALL_RUNS], runs[SMALL_RUNS:]

    def some(names: Sequence[Run], form: str) -> list[str]:
        found = [(draw.choice(names), draw.randrange(copies + 1)) for _ in range(REPEATS)]
        return [
            form.format(id=f"{run.id}-{number}" if number else run.id, name=run.problem.name, start=run.id[:12])
            for run, number in found
        ]

    return {
        "runs": ["/"] * REPEATS,
        "runs, a later page": some(small, "/?before={id}"),
        "runs, by problem": some(small, "/?q={name}"),
        "runs, by the beginning of an id": some(small, "/?q={start}"),
        "runs, no match": [f"/?q=nothing{number}" for number in range(REPEATS)],
        "runs, by policy": ["/?policy=author"] * REPEATS,
        "runs, that ended": ["/?state=ended"] * REPEATS,
        "a run of 10 attempts": some(small, "/run?id={id}"),
        "a run of 1,600 attempts": [f"/run?id={run.id}" for run in large] * (REPEATS // len(large)),
        "its later attempts": [f"/run?id={run.id}&after={run.id}/100.0" for run in large] * (REPEATS // len(large)),
        "an attempt": [f"/attempt?key={run.id}/1.{draw.randrange(5)}" for run in draw.sample(small, REPEATS)],
        "two attempts": [f"/compare?a={run.id}/0.0&b={run.id}/1.0" for run in draw.sample(small, REPEATS)],
    }


def measure(path: Path, runs: Sequence[Run], copies: int) -> Iterator[dict[str, object]]:
    """Yield median and worst of each kind of page."""
    import httpx

    with served(path) as (base, token), httpx.Client(base_url=base, timeout=120, trust_env=False) as client:
        client.get(f"/?token={token}")
        for name, addresses in places(runs, copies).items():
            times_ms, size = [], 0
            for address in addresses:
                began = time.perf_counter()
                answer = client.get(address)
                times_ms.append((time.perf_counter() - began) * 1e3)
                answer.raise_for_status()
                size = max(size, len(answer.content))
            yield {
                "page": name,
                "p50_ms": float(f"{statistics.median(times_ms):.4g}"),
                "worst_ms": float(f"{max(times_ms):.4g}"),
                "kilobytes": round(size / 1e3),
            }


def main() -> None:
    """Measure, show, append rows; exit code 1 where the bar is missed."""
    options = _options()
    import rows
    from rich.console import Console
    from rich.table import Table

    from triton_agent.memory.store import Store

    shared = rows.provenance()
    folder = Path(tempfile.mkdtemp(prefix="view-benchmark-", dir=options.folder))
    path = folder / "store.db"
    try:
        with Store.open(path) as store:
            made = fill(store, options.attempts)
            with store.reading() as connection:
                raw = connection.connection.driver_connection
                assert raw is not None
                (attempts,) = raw.execute("SELECT count(*) FROM attempts").fetchone()
                (count,) = raw.execute("SELECT count(*) FROM runs").fetchone()
        found = [{"attempts": attempts, "runs": count, **row} for row in measure(path, made, count // len(made) - 1)]
    finally:
        shutil.rmtree(folder)
    table = Table(title=f"{attempts:,} attempts in {count:,} runs")
    for heading in ("page", "p50, ms", "worst, ms", "kB"):
        table.add_column(heading, justify="left" if heading == "page" else "right")
    for row in found:
        table.add_row(str(row["page"]), f"{row['p50_ms']:.1f}", f"{row['worst_ms']:.1f}", f"{row['kilobytes']}")
    Console(width=100).print(table)
    rows.append(options.out, shared, found)
    if slow := [str(row["page"]) for row in found if float(str(row["p50_ms"])) > BAR_MS]:
        sys.exit(f"over {BAR_MS:g} ms: {', '.join(slow)}")


def _say(text: str) -> None:
    """Progress, for people who wait; not where output goes into a file."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Waiting times of the pages of `triton-agent view`.")
    parser.add_argument("--attempts", type=int, default=1_000_000, help="in the store (default 1,000,000)")
    parser.add_argument("--folder", type=Path, help="where the store is made and removed (3 KB an attempt)")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "view.csv", help="the CSV file for rows")
    return parser.parse_args()


if __name__ == "__main__":
    main()
