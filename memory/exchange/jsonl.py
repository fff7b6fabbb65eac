"""Entries as JSON lines, gzipped if the file's name ends in `.gz`: equal entries give equal bytes.

The first line names the format, the last says how many entries there are, so that a truncated file is noticed. A file
is written under a temporary name and renamed when it is complete.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from triton_agent.memory.exchange.entries import EntryKind, RecordEntry, header, require_header
from triton_agent.memory.exchange.plain import canonical
from triton_agent.tools.errors import UsageError

LONGEST_LINE_BYTES = 256 << 20
"""An attempt takes a few hundred kilobytes; a longer line was not written by this program."""
_LEVEL = 6


def write_entries(found: Iterable[RecordEntry], path: Path) -> int:
    """Write entries; return their number."""
    count = 0

    def lines() -> Iterator[Any]:
        nonlocal count
        yield header()
        for entry in found:
            count += 1
            yield {"kind": entry.kind.value, entry.kind.value: entry.data}
        yield {"kind": "last", "entries": count}

    write_lines(lines(), path)
    return count


def write_lines(rows: Iterable[Any], path: Path) -> int:
    """Write plain data, a line each; return their number."""
    count = 0
    with whole_or_not(path) as file, _packed(file, path) as lines:
        for row in rows:
            lines.write(canonical(row).encode("ascii") + b"\n")
            count += 1
    return count


@contextlib.contextmanager
def whole_or_not(path: Path) -> Iterator[IO[bytes]]:
    """Yield a file that appears at `path` once it is complete."""
    try:  # readable by the owner only: it holds prompts and answers of models
        descriptor, part = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    except FileNotFoundError:
        what = "nothing can be written there" if path.parent.is_dir() else f"there is no folder {path.parent}"
        raise UsageError(what, where=str(path), remedy="name a file in another folder") from None
    try:
        with open(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(part)
        raise


@contextlib.contextmanager
def _packed(file: IO[bytes], path: Path) -> Iterator[IO[bytes]]:
    if path.suffix != ".gz":
        yield file
        return
    with gzip.GzipFile(filename="", mode="wb", compresslevel=_LEVEL, fileobj=file, mtime=0) as packed:
        yield packed  # type: ignore[misc]


def parse_entries(path: Path) -> Iterator[tuple[str, RecordEntry]]:
    """Yield entries with their lines; raise UsageError at the first invalid one and for a truncated file."""
    begun, count, ended = False, 0, False
    for where, data in _lines(path):
        if ended:
            raise UsageError("there is more after the last line", where=where, remedy="export it anew")
        if not begun:
            require_header(data, where)
            begun = True
        elif isinstance(data, dict) and data.get("kind") == "last":
            ended = True
            if data.get("entries") != count:
                raise UsageError(f"{count} entries instead of {data.get('entries')}", where=where)
        else:
            count += 1
            yield where, _entry(data, where)
    if not ended:
        raise UsageError("the file was cut off: its last line is missing", where=str(path), remedy="export it anew")


def _entry(data: Any, where: str) -> RecordEntry:
    try:
        kind = EntryKind(data["kind"])
        holds = data[kind.value]
    except (KeyError, TypeError, ValueError):
        raise UsageError("not an entry", where=where, remedy="export it anew") from None
    if not isinstance(holds, dict):
        raise UsageError(f"the {kind} is not a JSON object", where=where, remedy="export it anew")
    return RecordEntry(kind=kind, data=holds)


def _lines(path: Path) -> Iterator[tuple[str, Any]]:
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            number = 0
            while line := file.readline(LONGEST_LINE_BYTES):
                number += 1
                where = f"{path}:{number}"
                if len(line) >= LONGEST_LINE_BYTES:
                    raise UsageError(f"a line of more than {LONGEST_LINE_BYTES >> 20} MiB", where=where)
                yield where, _parsed(line, where)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UsageError(f"does not unpack: {error}", where=str(path), remedy="export it anew") from None


def _parsed(line: bytes, where: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        raise UsageError("not a line of JSON", where=where, remedy="give a file that `runs export` wrote") from None
