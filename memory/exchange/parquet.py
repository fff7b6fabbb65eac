"""Entries and rows as Parquet files, for pandas, DuckDB, Spark and others. Needs pyarrow, the extra `parquet`.

A file of entries has a row for each. The columns are for filtering; the last, `record`, holds the whole record as
canonical JSON, so that the file can be imported without loss. Equal entries give equal bytes under the same version of
pyarrow.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from triton_agent.memory.exchange.entries import EntryKind, RecordEntry, header, require_header
from triton_agent.memory.exchange.jsonl import whole_or_not
from triton_agent.memory.exchange.plain import canonical
from triton_agent.tools.errors import UsageError
from triton_agent.tools.results import opponent_of

ROWS_A_GROUP = 500
"""Kept small, since a row may hold a conversation."""
_HEADER = b"triton-agent"
_TEXTS = (
    "kind",
    "run",
    "attempt",
    "parent",
    "policy",
    "problem",
    "status",
    "finding",
    "mode",
    "device",
    "grader",
    "at",
)
_WHOLE = ("turn", "index")
_FLOATS = ("speedup", "speedup_low", "speedup_high")
_LONG = ("plan", "source", "record")


def write_entries(found: Iterable[RecordEntry], path: Path) -> int:
    """Write entries; return their number."""
    pa = _pyarrow(path)
    columns = [(name, pa.string()) for name in _TEXTS] + [(name, pa.int64()) for name in _WHOLE]
    columns += [(name, pa.float64()) for name in _FLOATS] + [(name, pa.string()) for name in _LONG]
    schema = pa.schema(columns, metadata={_HEADER: canonical(header()).encode()})
    return _write((_row(entry) for entry in found), schema, path)


def write_rows(rows: Iterable[dict[str, Any]], path: Path) -> int:
    """Write rows for a trainer, all of one shape; column types are inferred from the first rows."""
    pa = _pyarrow(path)
    first = list(itertools.islice(rows, ROWS_A_GROUP))
    schema = pa.Table.from_pylist(first).schema
    floats = [name for name in _FLOATS if name in schema.names]
    for name in floats:  # a column that is empty in the first rows may not be in the next
        schema = schema.set(schema.get_field_index(name), pa.field(name, pa.float64()))
    return _write(itertools.chain(first, rows), schema, path)


def _write(rows: Iterable[dict[str, Any]], schema: Any, path: Path) -> int:
    import pyarrow as pa  # type: ignore[import-untyped]
    import pyarrow.parquet as pq  # type: ignore[import-untyped]

    count, rows = 0, iter(rows)
    with whole_or_not(path) as file, pq.ParquetWriter(file, schema, compression="zstd") as writer:
        while group := list(itertools.islice(rows, ROWS_A_GROUP)):
            writer.write_table(pa.Table.from_pylist(group, schema=schema))
            count += len(group)
    return count


def parse_entries(path: Path) -> Iterator[tuple[str, RecordEntry]]:
    """Yield entries with their rows; raise UsageError at the first invalid one."""
    pa = _pyarrow(path)
    import pyarrow.parquet as pq

    number = 0
    try:
        with pq.ParquetFile(path) as file:
            said = (file.schema_arrow.metadata or {}).get(_HEADER, b"null")
            require_header(json.loads(said), str(path))
            for batch in file.iter_batches(ROWS_A_GROUP, columns=["kind", "record"]):
                for row in batch.to_pylist():
                    number += 1
                    yield (
                        f"{path}, row {number}",
                        RecordEntry(kind=EntryKind(row["kind"]), data=json.loads(row["record"])),
                    )
    except (pa.ArrowException, ValueError, TypeError, KeyError) as error:
        raise UsageError(
            f"cannot be read after row {number}: {error}", where=str(path), remedy="export it anew"
        ) from None


def _row(entry: RecordEntry) -> dict[str, Any]:
    """Return the columns to filter by, and the record."""
    flat = {EntryKind.ATTEMPT: _attempt, EntryKind.GRADING: _grading}.get(entry.kind, _other)
    return {"kind": entry.kind.value, **flat(entry.data), "record": canonical(entry.data)}


def _attempt(data: dict[str, Any]) -> dict[str, Any]:
    said = data["completion"]
    key = f"{data['run']}/{data['turn']}.{data['index']}"
    kept = {name: data[name] for name in ("run", "turn", "index", "parent")}
    texts = {name: _storable(data[name]) for name in ("plan", "source")}
    return {**kept, "attempt": key, "policy": _storable(said["policy"]), "at": data["created_at"], **texts}


def _grading(data: dict[str, Any]) -> dict[str, Any]:
    verdict = data["evaluation"] or {}
    place = verdict.get("environment") or {}
    timings = (one for one in verdict.get("timings", ()) if one["kind"] == "device")
    ratio: dict[str, Any] = next((one["speedup"] for one in timings if opponent_of(one["baseline"]) == "eager"), {})
    run = data["attempt"].rpartition("/")[0]
    return {
        "run": run,
        "attempt": data["attempt"],
        "at": data["graded_at"],
        "grader": data["grader"],
        **{name: verdict.get(name) for name in ("problem", "status", "finding")},
        **{name: place.get(name) for name in ("mode", "device")},
        **dict(zip(_FLOATS, (ratio.get(name) for name in ("median", "low", "high")))),
    }


def _other(data: dict[str, Any]) -> dict[str, Any]:
    names = {"run": data.get("run", data.get("id")), "policy": data.get("policy"), "problem": data.get("digest")}
    return {**names, "at": data.get("started_at") or data.get("ended_at") or data.get("at")}


def _storable(text: str | None) -> str | None:
    """Replace lone surrogates, which Parquet refuses; the record has them escaped."""
    return None if text is None else text.encode("utf-8", "replace").decode()


def _pyarrow(path: Path) -> Any:
    try:
        import pyarrow
    except ImportError:
        raise UsageError(
            "Parquet needs pyarrow, which is not installed",
            where=str(path),
            remedy="pip install 'triton-agent[parquet]', or use JSON: --format jsonl",
        ) from None
    return pyarrow
