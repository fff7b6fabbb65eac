"""The folder of a dataset: its settings, its journals while it is made, and the files that others read.

    dataset.json          settings and counts
    train.jsonl           problems to train on, a line each; held_out.jsonl: the others
    problems/SPLIT/*.py   the same problems as files
    audits.jsonl          with --audit: reports of `check-problem`
    conversations.jsonl   with --solve; attempts.db holds their attempts and verdicts
    README.md             the data card

While problems are composed, `composing.jsonl` holds every outcome in order; `solved.jsonl` names the problems that
were solved and their runs. A line that was cut off is removed before more are written.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from triton_agent.memory.exchange.jsonl import write_lines
from triton_agent.policy.train.data.candidates import HELD_OUT, SPLITS, TRAIN, Accepted, DataSettings, Row
from triton_agent.policy.train.data.card import card
from triton_agent.tools.errors import UsageError
from triton_agent.tools.versions import installed

SETTINGS, README, CONVERSATIONS = "dataset.json", "README.md", "conversations.jsonl"
COMPOSING, SOLVED, STORE, PROBLEMS = "composing.jsonl", "solved.jsonl", "attempts.db", "problems"
SETTINGS_PART = f".{SETTINGS}.part"
"""The settings while they are written; a folder with nothing else was begun by a process that was killed at once."""
AUDITS = "audits.jsonl"
COMPOSER = "1"
"""Version of the composer. The same seed gives other problems in another version, so such a dataset is not continued.
"""


class DatasetFolder:
    """A dataset on disk."""

    def __init__(self, path: Path, plan: Mapping[str, Any]) -> None:
        self.path = path
        self.plan = dict(plan)

    @classmethod
    def begin(cls, path: Path, settings: DataSettings, against: Sequence[Mapping[str, str]]) -> DatasetFolder:
        if path.exists() and (not path.is_dir() or any(child.name != SETTINGS_PART for child in path.iterdir())):
            raise UsageError(f"{path} is not empty", remedy="add --resume to continue, or name another folder")
        path.mkdir(parents=True, exist_ok=True)
        made_by = {"composer": COMPOSER, "torch": installed("torch")}
        plan = {**made_by, "settings": dataclasses.asdict(settings), "against": list(against)}
        folder = cls(path, plan)
        folder._save_plan()
        return folder

    @classmethod
    def continued(cls, path: Path) -> DatasetFolder:
        try:
            plan = json.loads((path / SETTINGS).read_text())
        except (OSError, ValueError):
            raise UsageError(f"{path} holds no dataset to continue", remedy="leave out --resume to begin one") from None
        now = {"composer": COMPOSER, "torch": installed("torch")}
        if "tried" not in plan and any(plan[name] != version for name, version in now.items()):
            raise UsageError(f"{path} was begun by another version", remedy="make it anew in another folder")
        return cls(path, plan)

    @property
    def settings(self) -> DataSettings:
        plain = self.plan["settings"]
        return DataSettings(**{**plain, "difficulties": tuple(plain["difficulties"])})

    @property
    def composed(self) -> bool:
        return "tried" in self.plan

    def lines(self, name: str) -> Iterator[Any]:
        """Yield the lines of a journal that were written whole."""
        path = self.path / name
        if not path.exists():
            return
        with path.open("rb+") as file:
            text = file.read()
            file.truncate(text.rfind(b"\n") + 1)
        yield from map(json.loads, text[: text.rfind(b"\n") + 1].splitlines())

    def append(self, name: str, data: Any) -> None:
        """Add a line to a journal; it is on disk when this returns."""
        with (self.path / name).open("a", encoding="utf-8") as file:
            file.write(json.dumps(data) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def file_of(self, row: Row) -> Path:
        return self.path / PROBLEMS / str(row["split"]) / f"{row['name']}.py"

    def sound(self, rows: Sequence[Row]) -> list[Row]:
        """Return the rows without those that the audit flagged."""
        flagged = {report["problem"]["name"] for report in self.lines(AUDITS) if not report["sound"]}
        return [row for row in rows if row["name"] not in flagged]

    def write_problems(self, accepted: Accepted) -> None:
        """Write the problems, and drop the journal of their composition."""
        for split in SPLITS:
            rows = [row for row in accepted.rows if row["split"] == split]
            if rows:
                write_lines(rows, self.path / f"{split}.jsonl")
                self.file_of(rows[0]).parent.mkdir(parents=True, exist_ok=True)
            for row in rows:
                self.file_of(row).write_text(row["source"])
        self.plan |= {"tried": accepted.tried, "refused": dict(sorted(accepted.refused.items()))}
        self.write_card()
        self._save_plan()
        (self.path / COMPOSING).unlink(missing_ok=True)

    def problems(self) -> list[Row]:
        """Return the problems, those to train on first."""
        return [row for split in (TRAIN, HELD_OUT) for row in self.lines(f"{split}.jsonl")]

    def write_conversations(self, rows: Sequence[Mapping[str, Any]]) -> None:
        if rows:
            write_lines(rows, self.path / CONVERSATIONS)
        else:
            (self.path / CONVERSATIONS).unlink(missing_ok=True)

    def write_card(self) -> None:
        text = card(
            self.settings,
            self.problems(),
            list(self.lines(CONVERSATIONS)),
            refused=self.plan["refused"],
            tried=self.plan["tried"],
            torch=self.plan["torch"],
            composer=self.plan["composer"],
            against=[item["name"] for item in self.plan["against"]],
            solved=Counter(line["outcome"] for line in self.lines(SOLVED)),
            audits=Counter(bool(report["sound"]) for report in self.lines(AUDITS)),
        )
        (self.path / README).write_text(text)

    def _save_plan(self) -> None:
        part = self.path / SETTINGS_PART
        part.write_text(json.dumps(self.plan, indent=1, sort_keys=True) + "\n")
        part.replace(self.path / SETTINGS)
