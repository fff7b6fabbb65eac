"""Benchmark records and training runs in the folders that the server was given.

A record is a folder with `rows.jsonl`, a training a folder with checkpoints or with the lines of an online training
(`training_page.py`). They are named by their paths within the given folders, and no other path can be asked for.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from triton_agent.policy.train.online.rollouts import UPDATES
from triton_agent.runs.bench.compare.command import compared
from triton_agent.runs.bench.page.comparison import render_comparison
from triton_agent.runs.bench.page.page import render_page
from triton_agent.runs.bench.rows import FILE, Record, read_record
from triton_agent.runs.report.markup import table, tag
from triton_agent.runs.serve.frame import link, navigation, page
from triton_agent.tools.errors import UsageError

DEPTH = 3
"""Levels of folders that are looked through."""
LOOKED_THROUGH = 5_000
"""Most folders that are looked through."""
STATE = "trainer_state.json"
"""The trainer's log in a checkpoint."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Folders:
    """The folders that the server may read."""

    roots: tuple[Path, ...]

    def records(self) -> dict[str, Path]:
        """Return benchmark records by name."""
        return {name: path for name, path, files in self._walk() if FILE in files}

    def trainings(self) -> dict[str, Path]:
        """Return training runs by name."""
        return {name: path for name, path, files in self._walk() if UPDATES in files or newest_state(path) is not None}

    def training(self, name: str) -> Path:
        """Return the folder of a training."""
        return _path(self.trainings(), name)

    def _walk(self) -> Iterator[tuple[str, Path, Sequence[str]]]:
        """Yield folders with their names and files; links and hidden folders are left out."""
        left = LOOKED_THROUGH
        for root in self.roots:
            for folder, below, files in os.walk(root):
                path = Path(folder)
                depth = len(path.relative_to(root).parts)
                below[:] = sorted(name for name in below if not name.startswith(".") and depth < DEPTH)
                left -= 1
                if left < 0:
                    return
                name = path.relative_to(root).as_posix()
                yield (root.name if name == "." else name), path, files


def render_benchmarks(folders: Folders, *, jobs: bool) -> str:
    """Return the list of records, with a form to compare two."""
    found = folders.records()
    if not found:
        where = ", ".join(map(str, folders.roots))
        told = tag("p", f"No record of a benchmark lies in {where}. Other folders are named by --folder.")
        return page("Benchmarks", "Records", [("records", "Records", [told])], here="/bench", jobs=jobs)
    rows = [_record_row(name, path) for name, path in found.items()]
    listed = table(
        ("record", "benchmark", "policy", "problems run"), rows, right=(3,), caption=f"{len(rows)} records", stacks=(3,)
    )
    *_, newest = found
    names = [tag("option", name, value=name) for name in found]
    later = [tag("option", name, value=name, selected="selected" if name == newest else None) for name in found]
    form = tag(
        "form",
        tag("label", "before", tag("select", *names, name="a")),
        tag("label", "after", tag("select", *later, name="b")),
        tag("button", "Compare", type="submit"),
        class_="filters",
        action="/bench/compare",
    )
    parts = [listed, form] if len(found) > 1 else [listed]
    return page("Benchmarks", "Records of benchmarks", [("records", "Records", parts)], here="/bench", jobs=jobs)


def _record_row(name: str, path: Path) -> tuple[object, ...]:
    where = tag("a", name, href=link("/bench/record", name=name))
    try:
        record = read_record(path)
    except UsageError as error:
        return where, f"cannot be read: {error.what}", "", ""
    policy = record.head.settings.get("policy", "")
    return where, record.head.title, policy, f"{len(record.rows)} of {len(record.head.labels)}"


def render_record(folders: Folders, query: Mapping[str, str], *, jobs: bool) -> str:
    """Return the page of a record, as `triton-agent bench report` writes it."""
    name, record = _record(folders, query.get("name", ""))
    return render_page(record, name, above=navigation("/bench", jobs=jobs))


def render_two_records(folders: Folders, query: Mapping[str, str], *, jobs: bool) -> str:
    """Return the page of two records compared; differences that make figures incomparable are said on it."""
    paths = [_path(folders.records(), query.get(side, "")) for side in ("a", "b")]
    found, records = compared(str(paths[0]), str(paths[1]), anyway=True)
    return render_comparison(found, *records, above=navigation("/bench", jobs=jobs))


def _record(folders: Folders, name: str) -> tuple[str, Record]:
    return name, read_record(_path(folders.records(), name))


def newest_state(folder: Path) -> Path | None:
    """Return the log in the newest checkpoint of a training."""
    found = [path / STATE for path in folder.glob("checkpoint-*") if (path / STATE).is_file()]
    return max(found, key=lambda path: (len(path.parent.name), path.parent.name), default=None)


def _path(known: Mapping[str, Path], name: str) -> Path:
    if name not in known:
        raise UsageError(f"there is nothing named {name!r:.100} in the folders of this server")
    return known[name]
