"""A benchmark's folder: finished rows are there once, after interruptions and after several shards."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from triton_agent.runs.bench.journal import BEGUN, Journal
from triton_agent.runs.bench.rows import FILE, Head, Mode, ProblemRow, Sample, Where, read_record
from triton_agent.tools.errors import UsageError
from triton_agent.tools.results import Status

HEAD = Head(
    benchmark="suite",
    title="two",
    digest="d",
    labels=("a/x", "a/y"),
    settings={"policy": "p", "turns": 1, "kernels": "/k"},
)


def row(label: str, **changes: object) -> ProblemRow:
    samples = (Sample(index=0, status=Status.WRONG_VALUES, called=True, statuses={"wrong_values": 1}),)
    made = ProblemRow(
        label=label,
        group="a",
        digest="0",
        policy="p",
        policy_version="1",
        mode=Mode.OWN_KERNELS,
        where=Where(device="cpu"),
        samples=samples,
    )
    return dataclasses.replace(made, **changes)  # type: ignore[arg-type]


def test_rows_come_back_as_they_were_in_the_order_of_the_head(tmp_path: Path) -> None:
    journal = Journal(tmp_path, HEAD)
    journal.add(row("a/y", notes=("scaled",), seconds=1.5))
    journal.add(row("a/x", unusable="no such file", samples=()))
    record = read_record(tmp_path)
    assert record.head == HEAD
    assert record.rows == (row("a/x", unusable="no such file", samples=()), row("a/y", notes=("scaled",), seconds=1.5))
    assert record.missing == ()


def test_half_a_line_is_cut_off_and_its_problem_is_missing(tmp_path: Path) -> None:
    journal = Journal(tmp_path, HEAD)
    journal.add(row("a/x"))
    with (tmp_path / FILE).open("a") as file:
        file.write('{"kind":"row","label":"a/y","gro')
    assert read_record(tmp_path).missing == ("a/y",)
    again = Journal(tmp_path, HEAD)
    again.add(row("a/y"))
    assert read_record(tmp_path).missing == ()


def test_what_could_not_be_measured_is_missing_until_it_is(tmp_path: Path) -> None:
    journal = Journal(tmp_path, HEAD)
    journal.add(row("a/x", samples=(Sample(index=0, not_measured="the GPU was busy"),)))
    assert journal.record().missing == ("a/x", "a/y")
    journal.add(row("a/x"))
    assert journal.record().missing == ("a/y",)
    assert len(journal.record().rows) == 1


@pytest.mark.parametrize(
    ("changes", "said"),
    [({"settings": {**HEAD.settings, "turns": 9}}, "turns 1 there, 9 now"), ({"digest": "e"}, "problems: two there")],
)
def test_another_benchmark_is_not_mixed_into_a_folder(tmp_path: Path, changes: dict[str, object], said: str) -> None:
    Journal(tmp_path, HEAD)
    with pytest.raises(UsageError, match=said):
        Journal(tmp_path, dataclasses.replace(HEAD, **changes))  # type: ignore[arg-type]


def test_kernels_may_have_moved(tmp_path: Path) -> None:
    Journal(tmp_path, HEAD)
    Journal(tmp_path, dataclasses.replace(HEAD, settings={**HEAD.settings, "kernels": "/elsewhere"}))


def test_the_latest_run_of_a_sample_counts(tmp_path: Path) -> None:
    journal = Journal(tmp_path, HEAD)
    for index, run in ((0, "first"), (1, "other"), (0, "second")):
        journal.begin("a/x", index, run)
    with (tmp_path / BEGUN).open("a") as file:
        file.write('{"label": "a/x", "ind')
    assert Journal(tmp_path, HEAD).begun("a/x") == {0: "second", 1: "other"}


@pytest.mark.parametrize("text", ["", "no json\n", '{"kind":"row"}\n', '{"kind":"head","format":99}\n', "[1]\n"])
def test_a_file_that_is_no_record_is_refused_with_its_place(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    with pytest.raises(UsageError, match=FILE):
        read_record(tmp_path)
