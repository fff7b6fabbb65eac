"""The folder of a benchmark while it runs: finished rows, and the stored run of each sample.

Every row is on disk before the next problem begins; a lock lets several shards share one folder. A benchmark that is
continued must have the same head. A line that was cut off is removed first.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from triton_agent.memory.sql.encoding import from_plain
from triton_agent.runs.bench.baselines.found import Baselines
from triton_agent.runs.bench.rows import FILE, Head, ProblemRow, Record, head_line, read_record, row_line
from triton_agent.runs.bench.settings import differences
from triton_agent.tools.errors import UsageError
from triton_agent.tools.results import to_json

BEGUN = "begun.jsonl"
"""Names the run in the store of each sample of each problem."""
BASELINES = "baselines.jsonl"
"""Holds what is known of each problem's baselines, including those that could not be measured."""
STORIES = "bugs.txt"


class Journal:
    """The folder of one benchmark."""

    def __init__(self, folder: Path, head: Head) -> None:
        """Begin the record, or continue it if it is of the same benchmark."""
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._rows, self._begun, self._baselines = folder / FILE, folder / BEGUN, folder / BASELINES
        with _locked(self._rows) as file:
            _cut_to_whole_lines(file)
            if file.tell() == 0:
                _write(file, head_line(head))
        for path in (self._begun, self._baselines):
            with _locked(path) as file:
                _cut_to_whole_lines(file)
        self._require_same(head)

    def record(self) -> Record:
        """Return the record on disk, including rows of other shards."""
        return read_record(self._rows)

    def add(self, row: ProblemRow) -> None:
        """Append a row; it is on disk when this returns."""
        with _locked(self._rows) as file:
            _write(file, row_line(row))

    def begin(self, label: str, index: int, run: str) -> None:
        """Note the store's run of a sample."""
        with _locked(self._begun) as file:
            _write(file, json.dumps({"label": label, "index": index, "run": run}))

    def begun(self, label: str) -> dict[int, str]:
        """Return the latest run of every sample of a problem, by the sample's index."""
        lines = map(json.loads, self._begun.read_text(encoding="utf-8").splitlines())
        return {line["index"]: line["run"] for line in lines if line["label"] == label}

    def keep_baselines(self, label: str, found: Baselines) -> None:
        """Keep baselines, so that a continued benchmark does not measure them again."""
        with _locked(self._baselines) as file:
            _write(file, json.dumps({"label": label, "found": to_json(found)}, allow_nan=False))

    def baselines(self) -> dict[str, Baselines]:
        """Return the latest baselines of each problem, by label."""
        lines = map(json.loads, self._baselines.read_text(encoding="utf-8").splitlines())
        return {line["label"]: from_plain(Baselines, line["found"]) for line in lines}

    def keep_story(self, label: str, error: Exception) -> None:
        """Keep the traceback of an error that a row states in one line."""
        story = "".join(traceback.format_exception(error))
        with (self.folder / STORIES).open("a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(f"{label}\n{story}\n")

    def _require_same(self, head: Head) -> None:
        there = self.record().head
        found = differences(there.settings, head.settings)
        if there.digest != head.digest or there.benchmark != head.benchmark:
            found.insert(0, f"problems: {there.title} there, {head.title} now")
        if found:
            raise UsageError(
                f"holds another benchmark ({'; '.join(found)})",
                where=str(self.folder),
                remedy="name another folder with --out, or continue the existing one with --resume",
            )


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[BinaryIO]:
    """Yield the file, locked and positioned at its end."""
    with path.open("a+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0, os.SEEK_END)
        yield file


def _write(file: BinaryIO, line: str) -> None:
    file.write(line.encode() + b"\n")
    file.flush()
    os.fsync(file.fileno())


def _cut_to_whole_lines(file: BinaryIO) -> None:
    """Remove a line that a killed process left incomplete."""
    file.seek(0)
    text = file.read()
    whole = text.rfind(b"\n") + 1
    if whole < len(text):
        file.truncate(whole)
    file.seek(0, os.SEEK_END)
