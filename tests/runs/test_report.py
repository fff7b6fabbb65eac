"""The report of a run is self-contained, shows unknown figures as unknown, and runs no foreign code."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest
from tests.runs import reported_run as sample
from tests.runs.pages import BROWSER, Outline, browse

from triton_agent.memory.store import Store
from triton_agent.runs.report.drawing import ticks
from triton_agent.runs.report.page import headline, render_report
from triton_agent.runs.report.view import RunView
from triton_agent.runs.report.words import traffic_said
from triton_agent.tools.results import Interval


@pytest.fixture(scope="module")
def page() -> str:
    return render_report(RunView(history=sample.history(), ceilings=sample.CEILINGS))


def test_the_page_needs_nothing_from_elsewhere(page: str) -> None:
    for name, attributes in Outline(page).elements:
        assert name not in ("script", "link", "img", "iframe", "object", "embed", "form", "base")
        assert not {"src", "srcset", "action", "data"} & attributes.keys()
        assert not any(key.startswith("on") for key in attributes)
        assert (attributes.get("href") or "#").startswith("#")
    assert "url(" not in page and "@import" not in page
    assert "default-src 'none'" in page.replace("&#x27;", "'")


def test_what_comes_from_candidates_is_shown_and_never_markup(page: str) -> None:
    outline = Outline(page)
    assert not outline.open
    assert "document.title = 'taken over'" in outline.text
    assert "\x1b" not in page and "\u202e" not in page
    page.encode("utf-8")


def test_links_lead_somewhere_and_names_are_given_once(page: str) -> None:
    elements = Outline(page).elements
    names = [attributes["id"] for _, attributes in elements if "id" in attributes]
    assert len(names) == len(set(names))
    wanted = {(attributes.get("href") or "")[1:] for name, attributes in elements if name == "a"}
    assert wanted <= set(names)


def test_drawings_and_tables_are_described_for_those_who_do_not_see_them(page: str) -> None:
    elements = Outline(page).elements
    count = [name for name, _ in elements].count
    drawings = [attributes for name, attributes in elements if name == "svg"]
    assert {"Speed-up over the turns", "Roofline", "Tree of attempts", "Errors and their limits"} <= {
        item["aria-label"] for item in drawings
    }
    assert all(item["role"] == "img" and item["aria-label"] for item in drawings)
    assert count("desc") == len(drawings)
    assert count("table") == count("caption") == count("thead")
    assert elements[1][0] == "head" and dict(elements)["html"]["lang"] == "en"


def test_the_summary_says_what_is_known(page: str) -> None:
    text = Outline(page).text
    assert "1.61x device time 1.56 to 1.66" in text
    assert "10 (5 passed, 1 wrong values" in text
    assert "Attempt 3.1 ★ best" in text and "Changes to 2.1" in text
    assert text.index("1.61x device time") < text.index("times as fast as the reference") < text.index("Attempt 3.1")
    assert "Could not be measured (WorkerLost): the GPU was busy" in text


def test_identifiers_are_said_in_words(page: str) -> None:
    text = Outline(page).text
    assert "values differ from the float64 truth" in text and "ended because all turns were used" in text
    assert "wrong_values" not in text and "128 MiB" in text


def test_long_tables_are_folded() -> None:
    rows = tuple((turn, 0, None, None, 1.1) for turn in range(20))
    page = render_report(RunView(history=sample.history(attempts=rows)))
    assert "<summary>All 20 attempts</summary>" in page


def test_notes_of_the_built_in_author_are_not_shown() -> None:
    history = sample.history()
    first = history.attempts[1]
    noted = dataclasses.replace(first.attempt, plan='Two passes.\ndecided: {"stored": ["v15"]}')
    changed = dataclasses.replace(history, attempts=(dataclasses.replace(first, attempt=noted),))
    text = Outline(render_report(RunView(history=changed))).text
    assert "Two passes." in text and "decided" not in text


def test_what_was_not_measured_is_said_to_be_not_measured() -> None:
    text = Outline(render_report(RunView(history=sample.history(gpu=False)))).text
    assert "Its speed was not measured: no GPU was used; kernels ran in Triton's interpreter." in text
    history = sample.history(gpu=False)
    assert history.best is not None
    draft = RunView(history=history, shipped=history.best.evaluation, elsewhere=" --store runs.db")
    said = Outline(render_report(draft)).text
    assert "The draft is correct. Its speed was not measured" in said
    assert f"to measure it triton-agent promote {sample.RUN} --store runs.db" in said and "promote" not in text
    assert "floor not measured" in text
    assert "Roofline" not in text


def test_where_nothing_was_timed_the_headline_is_what_is_known() -> None:
    text = Outline(render_report(RunView(history=sample.history(gpu=False)))).text
    assert "1.50x the fewest bytes" in text and "1 launch no operator of torch is left" in text
    assert "6 checks within their limits the largest error is" in text
    assert text.index("1.50x the fewest bytes") < text.index("best attempt")


def test_attempts_that_were_not_timed_are_compared_by_what_they_move() -> None:
    untimed, timed = (render_report(RunView(history=sample.history(gpu=gpu))) for gpu in (False, True))
    assert 'data-label="moves">1.50x the fewest bytes, 1 launch</td>' in untimed and ">moves</th>" not in timed
    assert "Launches in one call, at the size where bytes are counted; fewest: " in untimed


def test_tables_of_kernels_fit_a_phone() -> None:
    page = render_report(RunView(history=sample.history(gpu=False)))
    assert 'data-label="registers">' in page and 'data-label="programs">' in page


def test_traffic_is_that_of_own_kernels_where_operators_of_torch_are_left() -> None:
    evaluation = sample.evaluation(None, None, gpu=False)
    assert evaluation.diagnosis is not None
    diagnosis = dataclasses.replace(evaluation.diagnosis, traffic_ratio=0.01, torch_operators=("aten.addmm",))
    shown = Outline(headline(dataclasses.replace(evaluation, diagnosis=diagnosis))).text
    assert "0.01x the fewest bytes memory traffic of its own kernels only" in shown
    assert "and 1 operator of torch" in shown


def test_each_clock_is_drawn_once_with_all_it_was_timed_against(page: str) -> None:
    text = Outline(page).text
    assert "1.45x over torch.compile" in text
    summary = text[: text.index("All attempts")]
    for label in ("kernels", "the reference", "torch.compile"):
        assert summary.count(f"device time, {label}: ") == summary.count(f"call latency, {label}: ") == 1


def test_the_pictures_come_before_the_facts(page: str) -> None:
    names = [shown["aria-label"] for tag, shown in Outline(page).elements if tag == "svg"]
    assert names[:2] == ["Speed-up over the turns", "Roofline"]
    assert names.index("Times, median and confidence interval") < names.index("Tree of attempts")


def test_attempts_that_are_all_fresh_starts_make_no_tree() -> None:
    starts = tuple((0, index, None, None, 1.1) for index in range(3))
    page = render_report(RunView(history=sample.history(attempts=starts)))
    assert "Tree of attempts" not in page and "All attempts" in page
    assert ">speed-up</th>" in page and ">because</th>" not in page


def test_without_ceilings_there_is_no_roofline_but_the_rest() -> None:
    text = Outline(render_report(RunView(history=sample.history()))).text
    assert "Not drawn: the ceilings of this GPU were not measured." in text
    assert "times as fast as the reference, device time" in text


def test_a_run_without_an_attempt_or_an_end_has_a_report() -> None:
    outline = Outline(render_report(RunView(history=sample.history(attempts=(), ended=False))))
    assert not outline.open
    assert "None yet." in outline.text and "not ended yet" in outline.text


def test_a_run_that_found_nothing_says_so() -> None:
    failed = tuple(row for row in sample.ATTEMPTS if row[3] is not None and row[2] is None)
    text = Outline(render_report(RunView(history=sample.history(attempts=failed)))).text
    assert "No correct kernel was found. The reference stays." in text


def test_an_attempt_from_another_run_and_several_verdicts_are_shown() -> None:
    history = sample.history()
    first = history.attempts[1]
    older = dataclasses.replace(first.gradings[0], graded_at=sample.BEGAN, grader="0")
    again = dataclasses.replace(
        first,
        attempt=dataclasses.replace(first.attempt, parent="another-run/1.0"),
        gradings=(older, *first.gradings),
    )
    changed = dataclasses.replace(history, attempts=(history.attempts[0], again, *history.attempts[2:]))
    text = Outline(render_report(RunView(history=changed))).text
    assert "another-run/1.0" in text and "Judged more than once" in text


@pytest.mark.parametrize(("low", "high"), [(0.0, 1e-3), (0.85, 1.74), (0.9, 120.0), (3.0, 3.0), (0.0, 7e5)])
def test_axes_have_a_few_round_numbers(low: float, high: float) -> None:
    found = ticks(low, high)
    assert 1 <= len(found) <= 7
    assert all(low - 1e-9 <= value <= high + 1e-9 for value in found)
    assert found == sorted(set(found))


def test_the_drawing_of_one_instant_measurement_stays_in_its_frame() -> None:
    exact = Interval(median=1.0, low=1.0, high=1.0)
    history = sample.history(attempts=(sample.ATTEMPTS[1],))
    only = history.attempts[0]
    grading = only.gradings[0]
    assert grading.evaluation is not None
    timings = tuple(dataclasses.replace(item, speedup=exact) for item in grading.evaluation.timings)
    changed = dataclasses.replace(grading, evaluation=dataclasses.replace(grading.evaluation, timings=timings))
    view = RunView(history=dataclasses.replace(history, attempts=(dataclasses.replace(only, gradings=(changed,)),)))
    for name, attributes in Outline(render_report(view)).elements:
        if name in ("circle", "line", "text"):
            places = [
                float(attributes[key] or "nan") for key in ("cx", "cy", "x", "y", "x1", "y1") if key in attributes
            ]
            assert all(-100 <= place <= 1000 for place in places)


def test_the_command_writes_a_stored_run(tmp_path: Path) -> None:
    history = sample.history()
    path = tmp_path / "store.db"
    with Store.open(path) as store:
        store.add_run(history.run)
        for item in history.attempts:
            store.add_attempt(item.attempt, item.gradings[0])
        assert history.end is not None
        store.end_run(history.end)
    code = (
        "from triton_agent.runs.report.command import run\n"
        f"raise SystemExit(run({sample.RUN!r}, output='out.html', store={str(path)!r}))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    written = (tmp_path / "out.html").read_text(encoding="utf-8")
    assert written == render_report(RunView(history=history))
    assert [entry.name for entry in tmp_path.glob("out*")] == ["out.html"]


@pytest.mark.skipif(BROWSER is None, reason="needs chromium on the PATH")
@pytest.mark.parametrize("look", [(), ("--blink-settings=preferredColorScheme=0",)], ids=["light", "dark"])
def test_a_browser_draws_the_page(page: str, tmp_path: Path, look: tuple[str, ...]) -> None:
    (tmp_path / "report.html").write_text(page, encoding="utf-8")
    address = (tmp_path / "report.html").as_uri()
    shown = browse(tmp_path, *look, "--dump-dom", address)
    assert "<title>softmax: run" in shown  # no script has changed it
    assert shown.count("<svg") == page.count("<svg") > 4
    browse(tmp_path, *look, "--window-size=1000,1400", f"--screenshot={tmp_path / 'page.png'}", address)
    assert (tmp_path / "page.png").stat().st_size > 20_000  # an empty page has a tenth of it


@pytest.mark.skipif(BROWSER is None, reason="needs chromium on the PATH")
def test_the_page_can_be_printed(page: str, tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text(page, encoding="utf-8")
    address = (tmp_path / "report.html").as_uri()
    browse(tmp_path, "--no-pdf-header-footer", f"--print-to-pdf={tmp_path / 'page.pdf'}", address)
    assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF-")


def test_traffic_is_said_to_be_that_of_own_kernels_where_it_is() -> None:
    diagnosis = sample.evaluation(None, None).diagnosis
    assert diagnosis is not None
    assert traffic_said(diagnosis) == "1.50x" and traffic_said(None) == ""
    assert traffic_said(dataclasses.replace(diagnosis, torch_operators=("aten.mm",))) == "1.50x own"
