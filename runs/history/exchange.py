"""`triton-agent runs export` and `import`: write runs to a file for keeping, analysis or training; read one back."""

from __future__ import annotations

import dataclasses
import json as json_text
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from rich.text import Text

from triton_agent.memory.exchange import jsonl
from triton_agent.memory.exchange.entries import RecordEntry, Remembered, entries, read_entries
from triton_agent.memory.exchange.intake import require_sound, take_in
from triton_agent.memory.exchange.trl import JudgedAttempt, Render, Shape, SkipCounts, Which, grpo_rows, sft_rows
from triton_agent.memory.listing import AttemptFilter
from triton_agent.memory.store import Store
from triton_agent.runs.cli import console, exit_codes
from triton_agent.runs.cli.selection import RunSelection, select_runs
from triton_agent.runs.cli.store_option import open_store
from triton_agent.runs.doctor.checkup import in_binary_units
from triton_agent.runs.history.records import newest_verdict
from triton_agent.tools.errors import UsageError

PROMPT_TOKENS = 16_384
"""Token limit of a prompt that is made for a training row, since no model is known whose context would limit it."""
FORMS = ("jsonl", "parquet", "trl-sft", "trl-grpo")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ExportRequest:
    selection: RunSelection
    output: str | None
    form: str | None
    which: str
    shape: str


# -- out ---------------------------------------------------------------------------------------------------------------


def export_runs(request: ExportRequest, *, store: str | None, json: bool) -> int:
    """Write the selected runs to a file."""
    path, form = _destination(request)
    which = _one_of(Which, request.which, "--which")
    shape = _one_of(Shape, request.shape, "--shape")
    left_out = SkipCounts()
    with open_store(store) as opened:
        chosen = sorted(run.id for run in select_runs(opened, request.selection))
        if not chosen:
            raise UsageError("no run matches", where=opened.where, remedy="list them: triton-agent runs list")
        if form in ("jsonl", "parquet"):
            write = jsonl.write_entries if _is_lines(path) else _parquet().write_entries
            count = write(entries(opened, map(opened.run, chosen)), path)
        else:
            judged = _judged(opened, chosen)
            rows = (
                grpo_rows(judged, left_out)
                if form == "trl-grpo"
                else sft_rows(judged, which, shape, left_out, _as_messages())
            )
            count = _write_rows(rows, path, left_out)
    told = {"file": str(path), "format": form, "runs": len(chosen), "records": count, "left_out": left_out.reasons}
    _print_export(told, path, json)
    return exit_codes.GOOD


def _as_messages() -> Render:
    """Return a renderer for attempts without messages: it makes the prompt that a language model would get."""
    from triton_agent.policy.llm.prompting.counting import token_bound
    from triton_agent.policy.llm.prompting.prompt import as_messages

    return as_messages(budget_tokens=PROMPT_TOKENS, count=token_bound)


def _destination(request: ExportRequest) -> tuple[Path, str]:
    """Return the path and the format; each is derived from the other if only one is given."""
    if request.form is not None and request.form not in FORMS:
        raise UsageError(f"--format {request.form}", remedy=f"one of {', '.join(FORMS)}")
    if request.output is None:
        form = request.form or "jsonl"
        names = {"jsonl": "runs.jsonl.gz", "parquet": "runs.parquet", "trl-sft": "sft.jsonl", "trl-grpo": "grpo.jsonl"}
        return Path(names[form]), form
    path = Path(request.output)
    if path.is_dir():
        raise UsageError("is a folder", where=str(path), remedy=f"name a file: -o {path / 'runs.jsonl.gz'}")
    if not _is_lines(path) and path.suffix != ".parquet":
        raise UsageError(
            "the file's name does not say its format", where=str(path), remedy="end it in .jsonl, .jsonl.gz or .parquet"
        )
    form = request.form or ("jsonl" if _is_lines(path) else "parquet")
    if (form == "jsonl" and not _is_lines(path)) or (form == "parquet" and _is_lines(path)):
        raise UsageError(
            f"--format {form} contradicts the file's name", where=str(path), remedy="leave one of them out"
        )
    return path, form


def _is_lines(path: Path) -> bool:
    return path.suffixes[-1:] in ([".jsonl"], [".json"]) or path.suffixes[-2:] in ([".jsonl", ".gz"], [".json", ".gz"])


def _one_of(kind: Any, text: str, option: str) -> Any:
    try:
        return kind(text)
    except ValueError:
        raise UsageError(f"{option} {text}", remedy=f"one of {', '.join(kind)}") from None


def _parquet() -> Any:
    from triton_agent.memory.exchange import parquet

    return parquet


def _judged(store: Store, runs: list[str]) -> Iterator[JudgedAttempt]:
    """Yield attempts by run, turn and answer, so that equal runs give equal files from any store."""
    for run in runs:
        found = store.iterate(AttemptFilter(runs=(run,)))
        for attempt, gradings in sorted(found, key=lambda pair: (pair[0].turn, pair[0].index)):
            yield JudgedAttempt(attempt=attempt, evaluation=newest_verdict(gradings))


def _write_rows(rows: Iterable[dict[str, Any]], path: Path, left_out: SkipCounts) -> int:
    rows = iter(rows)
    first = next(rows, None)
    if first is None:
        why = ", ".join(f"{count} {reason}" for reason, count in left_out.reasons.items()) or "there are no attempts"
        raise UsageError(f"nothing to train on: {why}", remedy="choose other runs, or another --which")

    def whole() -> Iterator[dict[str, Any]]:
        yield first
        yield from rows

    return jsonl.write_lines(whole(), path) if _is_lines(path) else int(_parquet().write_rows(whole(), path))


def _print_export(told: dict[str, Any], path: Path, json: bool) -> None:
    if json:
        print(json_text.dumps(told | {"bytes": path.stat().st_size}))
        return
    out = console.results()
    unit = "records" if told["format"] in ("jsonl", "parquet") else "rows"
    size = in_binary_units(path.stat().st_size)
    out.print(Text(f"{path}: {told['records']:,} {unit} of {told['runs']} runs, {size}"), soft_wrap=True)
    for reason, count in told["left_out"].items():
        out.print(f"  {count} attempts left out: {reason}")


# -- in ----------------------------------------------------------------------------------------------------------------


def import_runs(files: list[str], *, store: str | None, json: bool) -> int:
    """Import files; all are validated before the first is stored."""
    readers = [_reader(Path(name)) for name in files]
    err = console.progress()
    with err.status("reading"):
        counts = [require_sound(read()) for read in readers]
    told = []
    with open_store(store, read_only=False) as opened, err.status("storing"):
        for name, read, count in zip(files, readers, counts):
            told.append({"file": name, "records": count, **dataclasses.asdict(take_in(opened, read()))})
        where = opened.where
    if json:
        print(json_text.dumps({"store": where, "files": told}))
        return exit_codes.GOOD
    for one in told:
        console.results().print(Text(_line(one)), soft_wrap=True)
    return exit_codes.GOOD


def _line(one: dict[str, Any]) -> str:
    new = f"{one['runs']} runs, {one['attempts']} attempts, {one['gradings']} gradings, {one['others']} events and ends"
    return f"{one['file']}: {new}; {one['there_already']} records were there already"


def _reader(path: Path) -> Callable[[], Iterator[Remembered]]:
    """Return a function that reads the file from its beginning each time."""
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "no such file"
        raise UsageError(what, where=str(path), remedy="give a file that `runs export` wrote")
    if not _is_lines(path) and path.suffix != ".parquet":
        raise UsageError("not a name of an export", where=str(path), remedy="it ends in .jsonl, .jsonl.gz or .parquet")

    def parsed() -> Iterator[tuple[str, RecordEntry]]:
        return jsonl.parse_entries(path) if _is_lines(path) else _parquet().parse_entries(path)

    return lambda: read_entries(parsed())
