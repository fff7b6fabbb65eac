"""Joins parts of one benchmark, such as shards from several machines, into one record."""

from __future__ import annotations

import json as json_text
from collections.abc import Sequence
from pathlib import Path

from triton_agent.runs.bench.journal import Journal
from triton_agent.runs.bench.results import summary_of, tables, write_results
from triton_agent.runs.bench.rows import ProblemRow, Record, read_record, record_of
from triton_agent.runs.bench.settings import differences
from triton_agent.runs.cli import console, exit_codes
from triton_agent.tools.errors import UsageError


def run(folders: Sequence[str], *, out: str | None, json: bool) -> int:
    """Show the results of several folders as one, and write them to `out` if it is named."""
    record = joined([Path(folder) for folder in folders])
    if out:
        journal = Journal(Path(out), record.head)
        known = journal.record().rows
        for row in record.rows:
            if row not in known:
                journal.add(row)
        record = journal.record()
        write_results(Path(out), record)
    if json:
        print(json_text.dumps({"kind": "summary", **summary_of(record)}, allow_nan=False))
    else:
        for part in tables(record):
            console.results().print(part)
    return exit_codes.NOT_MEASURED if record.missing else exit_codes.GOOD


def joined(folders: Sequence[Path]) -> Record:
    """Join the records; of several rows of a problem a measured one counts, then that of the last folder."""
    records = [read_record(folder) for folder in folders]
    first = records[0].head
    for folder, record in zip(folders, records):
        found = differences(first.settings, record.head.settings)
        if record.head.digest != first.digest:
            found.insert(0, f"problems: {first.title} there, {record.head.title} now")
        if found:
            what = f"is of another benchmark than {folders[0]} ({'; '.join(found)})"
            raise UsageError(what, where=str(folder), remedy="join the parts of one; compare different ones")
    rows: list[ProblemRow] = [row for record in records for row in record.rows]
    return record_of(first, sorted(rows, key=lambda row: row.measured))
