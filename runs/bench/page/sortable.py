"""A table that the reader can sort without a network, by one small script that the page's policy allows by its hash.

Names, messages and kernels' texts come from anywhere, so no other script may run. Without the script the table is
shown unsorted. A page opened as `report.html#by-4` or `#by-4-down` is sorted by its fourth column.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
from collections.abc import Iterable, Sequence

from triton_agent.runs.report.markup import POLICY, Html, tag

SCRIPT = """
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0], heads = [...table.tHead.rows[0].cells];
  const sort = (column, down) => {
    const keyed = [...body.rows].map((row) => [row.cells[column].dataset.key, row]);
    keyed.sort(([one], [other]) => {
      if (one === "" || other === "") return (one === "") - (other === "");
      const order = Number.isNaN(one - other) ? one.localeCompare(other) : one - other;
      return down ? -order : order;
    });
    body.append(...keyed.map(([, row]) => row));
    heads.forEach((head) => head.removeAttribute("aria-sort"));
    heads[column].setAttribute("aria-sort", down ? "descending" : "ascending");
  };
  heads.forEach((head, column) => {
    const turned = () => head.getAttribute("aria-sort") ?? (head.className ? "ascending" : "descending");
    head.firstChild.addEventListener("click", () => sort(column, turned() === "ascending"));
  });
  const asked = location.hash.match(/^#by-([0-9]+)(-down)?$/);
  if (asked && heads[asked[1] - 1]) sort(asked[1] - 1, Boolean(asked[2]));
}
"""
"""Unknown values come last in either direction; numbers begin with the largest, words with the first."""
STYLE = """
th button { font: inherit; color: inherit; background: none; border: 0; padding: 0; cursor: pointer; }
th button::after { content: " \\2195"; color: var(--soft); }
th[aria-sort=ascending] button::after { content: " \\2191"; }
th[aria-sort=descending] button::after { content: " \\2193"; }
td details { margin: 0; } td summary { white-space: nowrap; }
@media print { th button::after { content: "" !important; } .sortable { font-size: 6.5pt; }
  .sortable td, .sortable th, .sortable summary { padding-right: .5em; white-space: normal; } }
"""
ONLY_THIS_SCRIPT = (
    f"{POLICY}; script-src 'sha256-{base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()}'"
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """The content of a cell, and the key that it is sorted by."""

    shown: object
    key: object = ""
    """A number or a text; an empty text for an unknown value, which comes last."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A row with an anchor."""

    anchor: str
    cells: Sequence[Cell]


def sorting_script() -> Html:
    return tag("script", Html(SCRIPT))


def sortable(headings: Sequence[str], lines: Iterable[Line], *, right: Iterable[int] = (), caption: str) -> Html:
    """Return the table. Columns in `right` hold numbers; columns without any known value are left out."""
    rows = list(lines)
    known = [column for column in range(len(headings)) if any(line.cells[column].key != "" for line in rows)]
    class_of = {column: "n" if column in set(right) else None for column in known}
    head = [
        tag("th", tag("button", headings[column], type="button"), scope="col", class_=class_of[column])
        for column in known
    ]
    body = [
        tag("tr", *(_cell(line.cells[column], class_of[column]) for column in known), id=line.anchor) for line in rows
    ]
    whole = tag(
        "table", tag("caption", caption), tag("thead", tag("tr", *head)), tag("tbody", *body), class_="sortable"
    )
    return tag("div", whole, class_="wide", role="region", aria_label=caption, tabindex="0")


def _cell(cell: Cell, class_: str | None) -> Html:
    return tag("td", cell.shown, data_key=cell.key, class_=class_)
