"""HTML built from values: whatever is not markup already is text, and text is escaped. There is no other way in.

Plans, messages and code come from candidates, so the page also forbids scripts and every fetch by its own policy.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from triton_agent.runs.cli.foreign_text import legible

POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
"""Nothing is loaded and nothing runs, even if an escape were missed."""
VOID = frozenset({"meta", "br", "hr", "circle", "line", "rect", "path", "polyline", "col"})


class Html(str):
    """Text that is markup."""

    __slots__ = ()


def text(value: object) -> Html:
    """Anything, shown as it is."""
    return value if isinstance(value, Html) else Html(html.escape(legible(str(value)), quote=True))


def join(parts: Iterable[object], between: str = "") -> Html:
    return Html(between.join(text(part) for part in parts if part is not None))


def tag(element: str, /, *children: object, **attributes: object) -> Html:
    """An element; attributes that are None are left out, `_` in their names is `-`, a trailing one is dropped."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{text(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    if element in VOID:
        return Html(f"<{element}{written}>" if element in ("meta", "br", "hr", "col") else f"<{element}{written}/>")
    return Html(f"<{element}{written}>{join(children)}</{element}>")


def table(
    headings: Sequence[str], rows: Iterable[Sequence[object]], *, right: Iterable[int] = (), caption: str
) -> Html:
    """A table with a caption; columns in `right` hold numbers."""
    numeric = set(right)
    shown = list(rows)
    if not shown:
        return Html("")
    head = tag(
        "tr", *(tag("th", cell, scope="col", class_="n" if i in numeric else None) for i, cell in enumerate(headings))
    )
    body = [
        tag("tr", *(tag("td", cell, class_="n" if i in numeric else None) for i, cell in enumerate(row)))
        for row in shown
    ]
    whole = tag("table", tag("caption", caption), tag("thead", head), tag("tbody", *body))
    return tag("div", whole, class_="wide", role="region", aria_label=caption, tabindex="0")


def facts(pairs: Iterable[tuple[str, object]]) -> Html:
    """Names and values; those without a value are left out."""
    items = [join([tag("dt", name), tag("dd", value)]) for name, value in pairs if value not in (None, "")]
    return tag("dl", *items) if items else Html("")


def folded(summary: object, *content: object, **attributes: object) -> Html:
    return tag("details", tag("summary", summary), *content, **attributes)
