"""A benchmark's folder while it is being filled: rows as they are finished, and which stored run is under way.

Every row is on disk before the next problem is begun, behind a lock that several shards in one folder share. Whoever
comes back to the folder goes on with the same head; what was cut off while it was written is removed first.
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
"""Which run of the store is which sample of which problem."""
BASELINES = "baselines.jsonl"
"""What is known of each problem's baselines, those that could not be had included."""
STORIES = "bugs.txt"


class Journal:
    """One folder, one benchmark."""

    def __init__(self, folder: Path, head: Head) -> None:
        """Begins the record, or takes it up where it is of the same benchmark."""
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
        """As it stands on disk, rows of other shards included."""
        return read_record(self._rows)

    def add(self, row: ProblemRow) -> None:
        """On disk when this returns."""
        with _locked(self._rows) as file:
            _write(file, row_line(row))

    def begin(self, label: str, index: int, run: str) -> None:
        """A run of the store is now this sample of this problem."""
        with _locked(self._begun) as file:
            _write(file, json.dumps({"label": label, "index": index, "run": run}))

    def begun(self, label: str) -> dict[int, str]:
        """The latest run of every sample of a problem."""
        lines = map(json.loads, self._begun.read_text(encoding="utf-8").splitlines())
        return {line["index"]: line["run"] for line in lines if line["label"] == label}

    def keep_baselines(self, label: str, found: Baselines) -> None:
        """So that they are not measured again when the benchmark goes on."""
        with _locked(self._baselines) as file:
            _write(file, json.dumps({"label": label, "found": to_json(found)}, allow_nan=False))

    def baselines(self) -> dict[str, Baselines]:
        """The latest of each problem."""
        lines = map(json.loads, self._baselines.read_text(encoding="utf-8").splitlines())
        return {line["label"]: from_plain(Baselines, line["found"]) for line in lines}

    def keep_story(self, label: str, error: Exception) -> None:
        """The whole of what a row has one line for."""
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
                remedy="name another folder with --out, or go on with what is there: --resume",
            )


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[BinaryIO]:
    """The file, its end, and nobody else's hand on it."""
    with path.open("a+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0, os.SEEK_END)
        yield file


def _write(file: BinaryIO, line: str) -> None:
    file.write(line.encode() + b"\n")
    file.flush()
    os.fsync(file.fileno())


def _cut_to_whole_lines(file: BinaryIO) -> None:
    """A process that was killed may have left half a line."""
    file.seek(0)
    text = file.read()
    whole = text.rfind(b"\n") + 1
    if whole < len(text):
        file.truncate(whole)
    file.seek(0, os.SEEK_END)
