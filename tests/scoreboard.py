"""`make cheats`: every cheat and every honest oddity against the evaluator, with the screen on and off.

    python -m tests.scoreboard [--no-screen] [--device cuda] [--only NAME] [--json FILE]
    python -m tests.scoreboard --corpus --rounds 10     ordinary kernels, ten times: is a verdict left to chance?

Seeds are secret, and new in every round. Exit code 0 when every cheat was caught with a status of the decision table
and no honest kernel refused.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.grading import Specimen, cheats, corpus, grade, honest, spoken
from triton_agent.tools.evaluator import EvaluatorSettings

CALL_TIMEOUT_S, TOTAL_TIMEOUT_S = 10.0, 60.0
GPU_CALL_TIMEOUT_S = 5.0
"""Short, since some of these never end by themselves."""


def main() -> int:
    arguments = _arguments()
    call_timeout_s = GPU_CALL_TIMEOUT_S if arguments.device == "cuda" else CALL_TIMEOUT_S
    settings = EvaluatorSettings(
        device=arguments.device,
        screen=arguments.screen,
        call_timeout_s=call_timeout_s,
        compile_timeout_s=call_timeout_s * 2,
        total_timeout_s=TOTAL_TIMEOUT_S,
    )
    places = ("both", "gpu") if arguments.device == "cuda" else ("both", "cpu")
    everything = corpus() if arguments.corpus else [*cheats(), *honest()]
    chosen = [item for item in everything if item.where in places and arguments.only in item.name]
    rows, console = [], Console(highlight=False, width=160)
    rounds = (grade(chosen, settings, jobs=arguments.jobs) for _ in range(arguments.rounds))
    for item, outcome in itertools.chain.from_iterable(rounds):
        rows.append((item, spoken(outcome), item.meets(outcome)))
        if not item.meets(outcome):
            console.print(f"[red]unexpected[/] {item.name}: {spoken(outcome)}, expected {'|'.join(item.expected)}")
            console.print(f"    {getattr(outcome, 'message', outcome)}", markup=False)
        if arguments.json:  # as far as it got, should it be cut short
            plain = [{"kernel": i.name, "expected": list(i.expected), "got": got, "ok": ok} for i, got, ok in rows]
            Path(arguments.json).write_text(json.dumps(plain, indent=1))
    console.print(_table(rows, arguments.screen))
    return 0 if all(ok for _, _, ok in rows) else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-screen", dest="screen", action="store_false", help="leave out the reading of the text")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--corpus", action="store_true", help="ordinary kernels, right and wrong, in place of cheats")
    parser.add_argument("--rounds", type=int, default=1, help="how many times each is judged, with new seeds")
    parser.add_argument("--only", default="", help="part of a name")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", help="write the rows there, too")
    return parser.parse_args()


def _table(rows: list[tuple[Specimen, str, bool]], screen: bool) -> Table:
    table = Table(title=f"screen {'on' if screen else 'off'}", box=None)
    for heading in ("family", "kernels", "as expected", "passed", "not measured"):
        table.add_column(heading, justify="left" if heading == "family" else "right")
    families: dict[str, list[tuple[Specimen, str, bool]]] = {}
    for row in rows:
        item = row[0]
        family = "honest" if item.path.parent.name == "honest" else item.path.stem.split("_")[0]
        families.setdefault(family, []).append(row)
    for family, members in [*sorted(families.items()), ("all", rows)]:
        passed = sum(got == "passed" for _, got, _ in members)
        lost = sum(got.endswith(("Error", "Lost", "Here")) for _, got, _ in members)
        table.add_row(family, str(len(members)), str(sum(ok for _, _, ok in members)), str(passed), str(lost))
    return table


if __name__ == "__main__":
    sys.exit(main())
