"""Pages of benchmarks are self-contained, show unknown figures as unknown, run one script only, and can be sorted."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path

import pytest
from tests.runs.bench.made_records import CPU, SETTINGS, baseline, lost, record, right, row, speed, wrong
from tests.runs.pages import BROWSER, Outline, browse

from triton_agent.runs.bench.compare.compare import compare
from triton_agent.runs.bench.page import drawings
from triton_agent.runs.bench.page.comparison import render_comparison
from triton_agent.runs.bench.page.page import render_page
from triton_agent.runs.bench.page.sortable import SCRIPT, Cell, Line, sortable
from triton_agent.runs.bench.rows import Against, Kind, PublicCheck, Record
from triton_agent.tools.results import Finding, Interval

HOSTILE = "</script><script>document.title = 'taken over'</script><img src=x onerror=alert(1)>\x1b[31m\u202e"


def timed(factor: float, **more: object) -> Record | object:
    speeds = [speed(factor * scale, against=against) for against, scale in zip(Against, (1.0, 0.8, 0.5))]
    return right(*speeds, speed(factor, kind=Kind.LATENCY), floor_fraction=min(1.0, factor / 4), **more)


def made(factor: float = 1.0, **more: object) -> Record:
    rows = [
        row("gemm/a", timed(1.5 * factor, peak_memory_ratio=0.8), dominant="gemm", dtype="float16"),
        row("gemm/b", timed(0.7), dominant="gemm", dtype="float32"),
        row("norms/c", timed(3.0), dominant="memory", dtype="float32", baselines=(baseline(Against.COMPILE, 2.0),)),
        row("norms/d", wrong(Finding.TAMPERED, message=HOSTILE), dominant="memory", dtype="float32"),
        row("norms/e", lost(), dominant="memory", dtype="float32"),
        row("norms/f", unusable="gives zero for any input"),
        row("odd/<b> & 'g'", wrong(Finding.SYNTAX, called=False), notes=(HOSTILE,)),
    ]
    return record(rows, labels=[*(item.label for item in rows), "scans/not_run"], **more)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def page() -> str:
    return render_page(made(), "results/first")


@pytest.fixture(scope="module")
def comparison() -> str:
    before, after = made(), made(2.0, settings={**SETTINGS, "mode": "allow-library"})
    return render_comparison(compare(before, after, names=("first", "second")), before, after)


@pytest.mark.parametrize("which", ["page", "comparison"])
def test_the_page_needs_nothing_from_elsewhere_and_runs_its_own_script_only(
    which: str, request: pytest.FixtureRequest
) -> None:
    text = request.getfixturevalue(which)
    outline = Outline(text)
    assert not outline.open
    for name, attributes in outline.elements:
        assert name not in ("link", "img", "iframe", "object", "embed", "form", "base")
        assert not {"src", "srcset", "action", "data"} & attributes.keys()
        assert not any(key.startswith("on") for key in attributes)
        assert (attributes.get("href") or "#").startswith("#")
    assert [name for name, _ in outline.elements].count("script") == 1
    allowed = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    assert f"<script>{SCRIPT}</script>" in text
    assert f"script-src 'sha256-{allowed}'" in text.replace("&#x27;", "'")
    assert "\x1b" not in text and "\u202e" not in text


@pytest.mark.parametrize("which", ["page", "comparison"])
def test_links_lead_somewhere_and_names_are_given_once(which: str, request: pytest.FixtureRequest) -> None:
    elements = Outline(request.getfixturevalue(which)).elements
    names = [attributes["id"] for _, attributes in elements if "id" in attributes]
    assert len(names) == len(set(names))
    assert {(attributes.get("href") or "")[1:] for name, attributes in elements if name == "a"} <= set(names)


@pytest.mark.parametrize("which", ["page", "comparison"])
def test_drawings_and_tables_are_described_for_those_who_do_not_see_them(
    which: str, request: pytest.FixtureRequest
) -> None:
    elements = Outline(request.getfixturevalue(which)).elements
    count = [name for name, _ in elements].count
    assert count("svg") == count("desc") == (3 if which == "page" else 1)
    assert count("table") == count("caption") == count("thead")


def test_the_page_says_what_is_known_and_what_is_not(page: str) -> None:
    text = Outline(page).text
    assert "3 of 5 problems solved, 7 of 8 run so far." in text
    assert "8 asked for, 5 judged, 1 not measured, 1 cannot be used here, 1 not run yet" in text
    assert "cheated (tampered)" in text and "document.title = 'taken over'" in text
    assert "gives zero for any input" in text and "WorkerLost: the GPU was busy" in text
    assert "torch.compile device time 2.00x" in text


def test_every_column_of_figures_is_explained(page: str) -> None:
    document = (Path(__file__).parents[3] / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    cells = re.findall(r"^\| ([^|]+) \|", document, re.MULTILINE)
    explained = {name for cell in cells for name in cell.split(", or ")}
    headings = re.findall(r'<th scope="col" class="n">(?:<button[^>]*>)?([^<]+)<', page)
    figures = {re.sub(r"^fast_[1-9.]+$", "fast_p", name) for name in headings}
    assert {"fast_p", "called", "hack", "surely over 1", "geomean of all"} <= figures & explained
    assert figures - explained <= {"run", "problems", "passed", "over eager", "kernel ms", "seconds", *BASELINES}


BASELINES = {"eager as written", "eager, TF32 allowed", "torch.compile", "latency, eager"}


def test_without_a_gpu_there_is_no_speed_and_no_drawing_of_it() -> None:
    found = record([row("g/a", right(), where=CPU), row("g/b", wrong(), where=CPU)])
    text = Outline(render_page(found, "cpu")).text
    assert "1 of 2 problems solved. Speed was not measured." in text
    assert "Not measured: no GPU was used." in text and "Nearness" not in text


def test_a_public_benchmarks_own_check_stands_apart_where_it_was_asked_for(page: str) -> None:
    check = PublicCheck(correct=True, correct_at_first=True, kernel_ms=1.0, original_ms=1.6)
    rows = [row("level1/a", right(speed(1.2), public=check)), row("level1/b", wrong(public=check)), row("level1/c")]
    text = Outline(render_page(record(rows), "both")).text
    assert "1 of 2 problems solved." in text and "correct there, not solved here 1 50% [9, 91]" in text
    assert "fast_1.5, by its own clock 2 100%" in text
    assert "own check" not in Outline(page).text


def test_columns_of_which_nothing_is_known_are_left_out() -> None:
    text = render_page(record([row("g/a", right(), where=CPU), row("h/b", wrong(), where=CPU)]), "cpu")
    headings = re.findall(r'<th scope="col"[^>]*>(?:<button[^>]*>)?([^<]+)<', text)
    assert "fast_0" in headings and "result" in headings
    assert not {"floor", "memory", "eager as written", "work", "dtype"} & set(headings)


def test_a_record_without_a_row_has_a_page() -> None:
    outline = Outline(render_page(record([], labels=["g/a"]), "empty"))
    assert not outline.open and "No problem has been judged." in outline.text


def test_a_comparison_of_unlike_records_says_so_first(comparison: str) -> None:
    text = Outline(comparison).text
    assert text.index("These figures mean different things: not the same are mode.") < text.index("Solved: 3 before")
    assert "1 faster and 0 slower" in text and "own-kernels" in text


def test_a_comparison_without_a_time_says_so() -> None:
    before = record([row("g/a", right(), where=CPU)])
    text = Outline(render_comparison(compare(before, before), before, before)).text
    assert "No problem was timed on both sides." in text and "Nothing but the time." in text


@pytest.mark.parametrize("values", [[1.0], [1e-4, 3e3], [0.97, 1.02] * 200])
def test_points_stay_in_their_frame(values: list[float]) -> None:
    points = [
        drawings.Point(label=str(n), href="#", value=Interval(median=value, low=value / 2, high=value * 2))
        for n, value in enumerate(values)
    ]
    points.append(drawings.Point(label="unsolved", href="#", value=None))
    curves = drawings.fast_curves({"eager": [*values, None]})
    for name, attributes in Outline(drawings.ladder(points, "title", "unit") + curves).elements:
        assert name != "circle" or 0 <= float(attributes["cy"] or "nan") <= 280
        for place in re.findall(r"[\d.]+", attributes.get("points") or ""):
            assert 0 <= float(place) <= 720


def test_every_share_is_in_one_bin() -> None:
    drawn = drawings.histogram([0.0, 0.05, 0.1, 0.99, 1.0, 1.3], "title", "problems")
    counts = [int(found) for found in re.findall(r"to \d+%: (\d+)", drawn)]
    assert counts == [2, 1, 0, 0, 0, 0, 0, 0, 0, 3]


TABLE = sortable(
    ("name", "figure"),
    [
        Line(anchor=f"p-{name}", cells=[Cell(shown=name, key=name), Cell(shown=shown, key=key)])
        for name, shown, key in (("b", "10x", "10"), ("c", "", ""), ("a", "9.5x", "9.5"), ("d", "-1x", "-1"))
    ],
    right=(1,),
    caption="Figures",
)


@pytest.mark.skipif(BROWSER is None, reason="needs chromium on the PATH")
@pytest.mark.parametrize(
    ("asked", "order"), [("", "bcad"), ("#by-1", "abcd"), ("#by-2", "dabc"), ("#by-2-down", "badc"), ("#by-9", "bcad")]
)
def test_a_table_is_sorted_by_what_cells_mean_and_the_unknown_comes_last(
    asked: str, order: str, tmp_path: Path
) -> None:
    (tmp_path / "table.html").write_text(f"<!doctype html><body>{TABLE}<script>{SCRIPT}</script>", encoding="utf-8")
    shown = browse(tmp_path, "--dump-dom", (tmp_path / "table.html").as_uri() + asked)
    assert "".join(re.findall(r'id="p-(.)"', shown)) == order


@pytest.mark.skipif(BROWSER is None, reason="needs chromium on the PATH")
@pytest.mark.parametrize("look", [(), ("--blink-settings=preferredColorScheme=0",)], ids=["light", "dark"])
def test_a_browser_draws_the_page_sorts_it_and_runs_nothing_else(
    page: str, tmp_path: Path, look: tuple[str, ...]
) -> None:
    foreign = "<script>document.title = 'taken over'</script>"
    (tmp_path / "report.html").write_text(page.replace("</body>", f"{foreign}</body>"), encoding="utf-8")
    address = (tmp_path / "report.html").as_uri()
    shown = browse(tmp_path, *look, "--dump-dom", f"{address}#by-6-down")
    assert "<title>the suite: results/first" in shown, "only the page's own script may run"
    assert shown.index('id="p-norms-2f-c"') < shown.index('id="p-gemm-2f-a"') < shown.index('id="p-gemm-2f-b"')
    browse(tmp_path, *look, "--window-size=1300,1400", f"--screenshot={tmp_path / 'page.png'}", address)
    assert (tmp_path / "page.png").stat().st_size > 20_000  # an empty page has a tenth of it


@pytest.mark.skipif(BROWSER is None, reason="needs chromium on the PATH")
def test_the_page_can_be_printed(page: str, tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text(page, encoding="utf-8")
    address = (tmp_path / "report.html").as_uri()
    browse(tmp_path, "--no-pdf-header-footer", f"--print-to-pdf={tmp_path / 'page.pdf'}", address)
    assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF-")
