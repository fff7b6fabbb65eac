"""`triton-agent runs backup` and `repair`: copies the store while it is in use, and saves a damaged one.

The work is done in `memory/backup.py` and `memory/repair.py`. A damaged file is kept beside the new one.
"""

from __future__ import annotations

import json as json_text
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from rich.text import Text

from triton_agent.memory import backup as copying
from triton_agent.memory import repair as mending
from triton_agent.memory.errors import StoreUnreachable
from triton_agent.memory.sql.database import locate
from triton_agent.runs.cli import console, exit_codes
from triton_agent.runs.cli.store_option import open_store
from triton_agent.runs.doctor.checkup import in_binary_units
from triton_agent.runs.history.clean import confirm
from triton_agent.tools.errors import UsageError

BROKEN, NEW = ".broken", ".repaired"
"""Endings for the damaged file that is kept, and for the new file while it is made."""


def backup(file: str, *, store: str | None, json: bool) -> int:
    """Copy the whole store to a new file."""
    with open_store(store) as opened:
        where, made = opened.where, copying.backup(opened, Path(file))
    if json:
        counts = {"runs": made.runs, "attempts": made.attempts, "bytes": made.bytes}
        print(json_text.dumps({"store": where, "file": str(made.path), **counts}))
    else:
        counted = f"{made.runs:,} runs, {made.attempts:,} attempts, {in_binary_units(made.bytes)}"
        console.results().print(Text(f"{made.path}: {counted}"), soft_wrap=True)
    return exit_codes.GOOD


def repair(*, store: str | None, yes: bool, json: bool) -> int:
    """Check the store; if it is damaged, replace it by what can be read. Exit code 1: something is lost."""
    path = locate(store)
    if not isinstance(path, Path):
        raise UsageError(
            "a database on a server is repaired with its own tools", remedy="`runs backup` saves what it holds"
        )
    if not path.is_file():
        raise UsageError("there is no store", where=str(path), remedy="name one: --store, TRITON_AGENT_STORE")
    damage = _damage(path)
    if not damage:
        _tell({"store": str(path), "damage": ""}, f"{path}: no damage was found", json)
        return exit_codes.GOOD
    console.progress().print(Text(f"{path} is damaged: {damage}"), soft_wrap=True)
    confirm("Make a new store of what can be read, and keep the old file beside it?", yes)
    new, old = _beside(path, NEW), _beside(path, BROKEN)
    done = mending.repair(path, new)
    _swap(path, new, old)
    lost = {kind: count for kind, count in done.lost.items() if count}
    counted = ", ".join(f"{count:,} {kind}" for kind, count in done.kept.items())
    missing = ", ".join(f"{count:,} {kind}" for kind, count in lost.items()) or "nothing"
    told = {"store": str(path), "damage": damage, "kept": done.kept, "lost": done.lost, "broken_file": str(old)}
    _tell(told, f"{path}: saved {counted}\nlost: {missing}\nthe broken file is {old}", json)
    return exit_codes.NOT_PASSED if lost else exit_codes.GOOD


def _tell(told: Mapping[str, object], text: str, json: bool) -> None:
    if json:
        print(json_text.dumps(told))
    else:
        console.results().print(Text(text), soft_wrap=True)


def _damage(path: Path) -> str:
    """Return what SQLite's integrity check reports; empty if the file is sound."""
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            rows = connection.execute("PRAGMA integrity_check(3)").fetchall()
    except sqlite3.OperationalError as error:
        raise StoreUnreachable(f"the file cannot be checked: {error}", where=str(path)) from None
    except sqlite3.DatabaseError as error:
        return str(error)
    said = "; ".join(" ".join(str(row[0]).split()) for row in rows)
    return "" if said == "ok" else said


def _beside(path: Path, ending: str) -> Path:
    """Return an unused name."""
    number, made = 0, path.with_name(path.name + ending)
    while made.exists():
        number += 1
        made = path.with_name(f"{path.name}{ending}-{number}")
    return made


def _swap(path: Path, new: Path, old: Path) -> None:
    """Move the old file aside with its log, which would not fit the new one."""
    for ending in ("-wal", "-shm"):
        leftover = path.with_name(path.name + ending)
        if leftover.exists():
            leftover.rename(old.with_name(old.name + ending))
    path.rename(old)
    new.rename(path)
