"""`make cheats`: every cheat and every honest oddity against the evaluator, with the screen on and off.

    python -m tests.scoreboard [--no-screen] [--device cuda] [--only NAME] [--json FILE]
    python -m tests.scoreboard --corpus --rounds 10     ordinary kernels, ten times: is a verdict left to chance?
    python -m tests.scoreboard --habits                 honest files as people and models write them

Seeds are secret, and new in every round. Exit code 0 when every cheat was caught with a status of the decision table
and no honest kernel refused. A kernel that needs a module this machine lacks is not tried, and counts as neither.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import itertools
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.rows import provenance
from rich.console import Console
from rich.table import Table

from tests.grading import Specimen, cheats, corpus, grade, habits, honest, spoken
from triton_agent.tools.settings import EvaluatorSettings

CALL_TIMEOUT_S, TOTAL_TIMEOUT_S = 10.0, 60.0
GPU_CALL_TIMEOUT_S = 8.0
"""Short, since some of these never end by themselves."""
IMPORT_TIMEOUT_S = 120.0
TRY_IMPORT = """
import importlib, sys
name = sys.argv[1]
folder, _, part = name.rpartition(".")
try:
    if not (folder and hasattr(importlib.import_module(folder), part)):
        importlib.import_module(name)
except ModuleNotFoundError as error:
    print(error.name)
"""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What became of one kernel."""

    item: Specimen
    got: str | None = None
    """None where it was not tried."""
    ok: bool | None = None
    missing: str = ""
    """The module for want of which it was not tried."""

    def to_json(self) -> dict[str, object]:
        seen = {"got": self.got, "ok": self.ok} if not self.missing else {"missing": self.missing}
        return {"kernel": self.item.name, "expected": list(self.item.expected), **seen}


def main() -> int:
    arguments = _arguments()
    console = Console(highlight=False, width=160)
    places = ("both", "gpu") if arguments.device == "cuda" else ("both", "cpu")
    everything = specimens(arguments)
    parts = arguments.only or [""]
    asked = [item for item in everything if item.where in places and any(part in item.name for part in parts)]
    rows = [Row(item=item, missing=name) for item in asked if (name := missing(item.needs))]
    for row in rows:
        console.print(f"not tried here: {row.item.name} needs {row.item.needs}, and there is no module {row.missing}")
    about = {**provenance(), "device": arguments.device, "screen": "on" if arguments.screen else "off"}
    chosen = [item for item in asked if not missing(item.needs)]
    rounds = (
        grade(chosen, _settings(arguments), jobs=arguments.jobs, problems=arguments.problems)
        for _ in range(arguments.rounds if chosen else 0)
    )
    for item, outcome in itertools.chain.from_iterable(rounds):
        rows.append(Row(item=item, got=spoken(outcome), ok=item.meets(outcome)))
        if not item.meets(outcome):
            console.print(f"[red]unexpected[/] {item.name}: {spoken(outcome)}, expected {'|'.join(item.expected)}")
            console.print(f"    {getattr(outcome, 'message', outcome)}", markup=False)
        if arguments.json:  # as far as it got, should it be cut short
            _write(Path(arguments.json), about, rows)
    if arguments.json:
        _write(Path(arguments.json), about, rows)
    console.print(_table(rows, arguments.screen))
    return 1 if any(row.ok is False for row in rows) else 0


def specimens(arguments: argparse.Namespace) -> list[Specimen]:
    """Return the collections that were asked for; by default cheats and honest files."""
    asked = [*(corpus() if arguments.corpus else ()), *(habits() if arguments.habits else ())]
    return asked or [*cheats(), *honest()]


@functools.cache
def missing(module: str) -> str:
    """Return the name of what is not here but needed for this module, or part of one; empty if nothing is missing.

    Asked of an interpreter without our sandbox: what only the sandbox keeps from being imported is no excuse.
    """
    if not module:
        return ""
    argv = [sys.executable, "-c", TRY_IMPORT, module]
    return subprocess.run(argv, stdout=subprocess.PIPE, text=True, timeout=IMPORT_TIMEOUT_S).stdout.strip()


def _settings(arguments: argparse.Namespace) -> EvaluatorSettings:
    call_timeout_s = GPU_CALL_TIMEOUT_S if arguments.device == "cuda" else CALL_TIMEOUT_S
    return EvaluatorSettings(
        device=arguments.device,
        screen=arguments.screen,
        call_timeout_s=call_timeout_s,
        compile_timeout_s=call_timeout_s * 2,
        total_timeout_s=TOTAL_TIMEOUT_S,
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-screen", dest="screen", action="store_false", help="leave out the reading of the text")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--corpus", action="store_true", help="ordinary kernels, right and wrong, in place of cheats")
    parser.add_argument("--habits", action="store_true", help="files as people and models write them, all honest")
    parser.add_argument("--rounds", type=int, default=1, help="how many times each is judged, with new seeds")
    parser.add_argument("--only", action="append", help="part of a name; several may be given")
    parser.add_argument("--jobs", type=int, default=1, help="verdicts at once on one problem")
    parser.add_argument("--problems", type=int, default=2, help="problems open at once")
    parser.add_argument("--json", help="write the rows there, too")
    return parser.parse_args()


def _write(path: Path, about: Mapping[str, str], rows: Sequence[Row]) -> None:
    """Write the rows with place, time and commit of the measurement."""
    path.write_text(json.dumps({**about, "rows": [row.to_json() for row in rows]}, indent=1))


def _table(rows: Sequence[Row], screen: bool) -> Table:
    table = Table(title=f"screen {'on' if screen else 'off'}", box=None)
    for heading in ("family", "kernels", "as expected", "passed", "not measured", "not tried"):
        table.add_column(heading, justify="left" if heading == "family" else "right")
    families: dict[str, list[Row]] = {}
    for row in rows:
        path = row.item.path
        whole = path.parent.name in ("honest", "habits")
        family = path.parent.name if whole else path.stem.split("_")[0]
        families.setdefault(family, []).append(row)
    for family, members in [*sorted(families.items()), ("all", rows)]:
        tried = [row.got for row in members if row.got is not None]
        table.add_row(
            family,
            *map(
                str,
                (
                    len(members),
                    sum(row.ok is True for row in members),
                    sum(got == "passed" for got in tried),
                    sum(got.endswith(("Error", "Lost", "Here")) for got in tried),
                    len(members) - len(tried),
                ),
            ),
        )
    return table


if __name__ == "__main__":
    sys.exit(main())
