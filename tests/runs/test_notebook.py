"""Results as notebooks show them; the example notebook runs from its first cell to its last."""

from __future__ import annotations

import html.parser
import os
from pathlib import Path

import pytest
from tests.runs.reported_run import history

from triton_agent.runs.notebook.cards import attempt_card, evaluation_card, run_card

ROOT = Path(__file__).resolve().parents[2]


class Seen(html.parser.HTMLParser):
    """The elements and the text of a card."""

    def __init__(self, card: str) -> None:
        super().__init__()
        self.elements: set[str] = set()
        self.text = ""
        self.feed(card)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_run_shows_its_attempts_and_the_best() -> None:
    told = history()
    seen = Seen(told._repr_html_())
    assert all(item.name in seen.text for item in told.attempts)
    assert told.best is not None and f"{told.best.name} (best)" in seen.text


def test_a_verdict_shows_times_accuracy_and_what_was_wrong() -> None:
    told = history()
    assert told.best is not None and told.best.evaluation is not None
    seen = Seen(evaluation_card(told.best.evaluation))
    assert "passed" in seen.text and "device time" in seen.text and "comparisons with float64" in seen.text
    wrong = next(item.evaluation for item in told.attempts if item.evaluation and item.evaluation.message)
    text = Seen(evaluation_card(wrong)).text
    assert wrong.message.splitlines()[0] in text
    assert "wrong values: values differ from the float64 truth" in text and "wrong_values" not in text


def test_nothing_of_a_candidate_becomes_markup() -> None:
    """The plans, code, messages and remedies of this history try to inject markup."""
    told = history()
    for card in (run_card(told), *map(attempt_card, told.attempts)):
        assert not {"script", "img", "style", "iframe"} & Seen(card).elements
        assert "\x1b" not in card
    assert "taken over" in Seen(attempt_card(told.attempts[0])).text


@pytest.mark.ci
@pytest.mark.slow
def test_the_example_notebook_runs(tmp_path: Path) -> None:
    """Each cell runs in a kernel of its own; the last output is the refused kernel's verdict."""
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    notebook = nbformat.read(ROOT / "examples" / "notebook.ipynb", as_version=4)
    environment = os.environ | {"TRITON_AGENT_STORE": str(tmp_path / "runs.db"), "XDG_DATA_HOME": str(tmp_path)}
    nbclient.NotebookClient(notebook, timeout=240, kernel_name="python3").execute(cwd=str(tmp_path), env=environment)
    shown = [
        output["data"]["text/html"]
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if "text/html" in output.get("data", {})
    ]
    outcome, run, best, refused = map(Seen, shown)
    assert "draft" in outcome.text and "(best)" in run.text and "code" in best.text
    assert "wrong values" in refused.text
