"""`triton-agent clean`: removes files that triton-agent keeps for this user, after showing sizes and asking.

There are four groups: `cache` (measured ceilings, compiled kernels: made again when needed), `scratch` (temporary
folders of dead processes, tracebacks of bugs), `data` (the rest of the data folder), `store` (all runs). The store is
removed only if it is named. Files of running processes are kept.
"""

from __future__ import annotations

import dataclasses
import glob
import json as json_text
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import platformdirs
import typer
from rich.text import Text

from triton_agent.memory.sql.database import locate
from triton_agent.runs.cli import console, exit_codes
from triton_agent.runs.cli.foreign_text import legible
from triton_agent.runs.doctor.checkup import in_binary_units
from triton_agent.runs.history.attempt_page import table
from triton_agent.tools import workspace
from triton_agent.tools.errors import UsageError

HEAPS = ("cache", "scratch", "data", "store")
UNASKED = ("cache", "scratch", "data")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A file or folder that may be removed."""

    heap: str
    path: Path
    size_bytes: int
    files: int


def run(heaps: Sequence[str], *, store: str | None, yes: bool, dry_run: bool, json: bool) -> int:
    """Show, ask, remove; exit code 1 if something could not be removed."""
    if unknown := [name for name in heaps if name not in HEAPS]:
        raise UsageError(f"there is no group {unknown[0]!r}", remedy=f"one of {', '.join(HEAPS)}")
    items = [item for heap in (heaps or UNASKED) for item in _found(heap, store)]
    total = sum(item.size_bytes for item in items)
    if not json:
        _show(items, total)
    if dry_run or not items:
        removed: list[Item] = []
    else:
        confirm(f"Remove these {in_binary_units(total)}?", yes)
        removed = [item for item in items if _remove(item.path)]
    left = [item for item in items if item not in removed] if not dry_run else []
    if json:
        print(json_text.dumps({"found": _plain(items), "removed": _plain(removed), "dry_run": dry_run}))
    elif removed:
        console.results().print(f"removed {in_binary_units(sum(item.size_bytes for item in removed))}")
    for item in left:
        console.progress().print(f"{item.path}: could not be removed", markup=False, soft_wrap=True)
    return exit_codes.NOT_PASSED if left else exit_codes.GOOD


def confirm(question: str, yes: bool) -> None:
    """Ask for confirmation, unless `--yes` was given."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError("no terminal to ask for confirmation", remedy="add --yes, or --dry-run to look only")
    typer.confirm(question, abort=True, err=True)


def _found(heap: str, store: str | None) -> list[Item]:
    kept = _store_files(store, named=heap == "store")
    data = Path(platformdirs.user_data_dir("triton-agent"))
    if heap == "cache":
        paths = _children(Path(platformdirs.user_cache_dir("triton-agent")))
    elif heap == "scratch":
        paths = _abandoned(Path(tempfile.gettempdir()))
    elif heap == "data":
        paths = [path for path in _children(data) if not any(_holds(path, file) for file in kept)]
    else:
        paths = [path for path in kept if path.exists()]
    return [_item(heap, path) for path in paths]


def _store_files(where: str | None, *, named: bool) -> list[Path]:
    """Return the store's file, its log, the log's index, and checkpoints beside it; none for a server's database."""
    place = locate(where)
    if not isinstance(place, Path):
        if named:
            raise UsageError("a database on a server is not removed from here", remedy="drop it there: DROP DATABASE")
        return []
    place = place.absolute()
    return [place, *sorted(place.parent.glob(f"{glob.escape(place.name)}[-.]*"))]


def _holds(path: Path, file: Path) -> bool:
    return file == path or file.is_relative_to(path)


def _children(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() and not folder.is_symlink() else []


def _abandoned(parent: Path) -> list[Path]:
    """Return this user's scratch folders whose process is gone, and tracebacks of bugs."""
    found = []
    for path in sorted(parent.glob(f"{workspace.PREFIX}*")):
        owner = path.name.removeprefix(workspace.PREFIX).split("-")[0]
        ours = not path.is_symlink() and path.lstat().st_uid == os.getuid()
        gone = owner.isdigit() and not Path(f"/proc/{owner}").exists()
        if ours and (gone or owner == "bug"):
            found.append(path)
    return found


def _item(heap: str, path: Path) -> Item:
    files = [path] if path.is_symlink() or not path.is_dir() else [file for file in path.rglob("*") if file.is_file()]
    sizes = [file.lstat().st_size for file in files]
    return Item(heap=heap, path=path, size_bytes=sum(sizes), files=len(files))


def _remove(path: Path) -> bool:
    try:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _show(items: Sequence[Item], total: int) -> None:
    out = console.results()
    if not items:
        out.print("nothing to remove")
        return
    shown = table("what", "where", "files", "size", right=("files", "size"))
    for item in items:
        cells = (item.heap, legible(str(item.path)), f"{item.files:,}", in_binary_units(item.size_bytes))
        shown.add_row(*map(Text, cells))
    shown.add_row("", "", "", Text(in_binary_units(total), style="bold"))
    out.print(shown)


def _plain(items: Iterable[Item]) -> list[dict[str, object]]:
    return [{**dataclasses.asdict(item), "path": str(item.path)} for item in items]
