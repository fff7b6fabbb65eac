"""Builds HTML from values: everything that is not markup is text, and text is escaped. There is no other way.

Plans, messages and code come from candidates, so the page's policy also forbids scripts and every request.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from triton_agent.runs.cli.foreign_text import legible

POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
"""Content security policy of the page: it loads and runs nothing, even if some text was not escaped."""
UNCLOSED = frozenset({"meta", "br", "hr", "col", "input"})
DRAWN = frozenset({"circle", "line", "path", "polyline", "rect"})
"""Shapes, which may have a title as content."""


class Html(str):
    __slots__ = ()


def text(value: object) -> Html:
    """Return a value as markup, escaped unless it is markup already."""
    return value if isinstance(value, Html) else Html(html.escape(legible(str(value)), quote=True))


def join(parts: Iterable[object], between: str = "") -> Html:
    return Html(between.join(text(part) for part in parts if part is not None))


def tag(element: str, /, *children: object, **attributes: object) -> Html:
    """Return an element; attributes that are None are left out, `_` in names becomes `-`, a trailing one is dropped."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{text(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    if element in UNCLOSED:
        return Html(f"<{element}{written}>")
    if element in DRAWN and not children:
        return Html(f"<{element}{written}/>")
    return Html(f"<{element}{written}>{join(children)}</{element}>")


def table(
    headings: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    right: Iterable[int] = (),
    caption: str,
    stacks: Iterable[int] | None = None,
) -> Html:
    """Return a table with a caption; columns in `right` hold numbers.

    With `stacks` the cells of a row stand below one another on a phone, those in `stacks` with their headings.
    """
    numeric, labelled = set(right), set(stacks or ())
    shown = list(rows)
    if not shown:
        return Html("")
    head = tag(
        "tr", *(tag("th", cell, scope="col", class_="n" if i in numeric else None) for i, cell in enumerate(headings))
    )
    body = [
        tag(
            "tr",
            *(
                tag("td", cell, class_="n" if i in numeric else None, data_label=headings[i] if i in labelled else None)
                for i, cell in enumerate(row)
            ),
        )
        for row in shown
    ]
    class_ = "rows" if stacks is not None else None
    whole = tag("table", tag("caption", caption), tag("thead", head), tag("tbody", *body), class_=class_)
    return tag("div", whole, class_="wide", role="region", aria_label=caption, tabindex="0")


def facts(pairs: Iterable[tuple[str, object]]) -> Html:
    """Return a list of names and values; those without a value are left out."""
    items = [join([tag("dt", name), tag("dd", value)]) for name, value in pairs if value not in (None, "")]
    return tag("dl", *items) if items else Html("")


def folded(summary: object, *content: object, **attributes: object) -> Html:
    return tag("details", tag("summary", summary), *content, **attributes)


def figures(items: Iterable[tuple[str, str, str]]) -> Html:
    """Return large figures, each with a name and a line beneath: (`1.61x`, `device time`, `1.56 to 1.66`)."""
    boxes = [
        tag("div", tag("strong", value), tag("span", name), tag("small", beneath) if beneath else None, class_="figure")
        for value, name, beneath in items
    ]
    return tag("div", *boxes, class_="figures") if boxes else Html("")


def pictures(items: Iterable[tuple[str, object]]) -> Html:
    """Return drawings with their names, side by side where there is room; those that are empty are left out."""
    drawn = [tag("figure", tag("figcaption", name), drawing) for name, drawing in items if drawing]
    return tag("div", *drawn, class_="pictures") if drawn else Html("")


def long(what: Html, rows: int, summary: object, most: int = 12) -> Html:
    """Fold a table of many rows."""
    return folded(summary, what) if what and rows > most else what
