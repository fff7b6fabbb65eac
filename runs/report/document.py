"""The frame of a self-contained page: head, table of contents, sections."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from triton_agent.runs.report.markup import POLICY, Html, tag
from triton_agent.runs.report.style import STYLE


def document(
    title: str,
    heading: str,
    subtitle: object,
    sections: Iterable[tuple[str, str, Sequence[object]]],
    *,
    style: str = STYLE,
    policy: str = POLICY,
    above: object = None,
    after: object = None,
    live: bool = False,
) -> str:
    """Return a page from sections, each with an anchor, a name and its content.

    `above` begins the body and `after` ends it. The script of a `live` page fetches it again to keep it current.
    """
    shown = list(sections)
    links = [tag("li", tag("a", name, href=f"#{key}")) for key, name, _ in shown]
    body = [
        tag("a", "To the content", href="#content", class_="skip"),
        above,
        tag("header", tag("h1", heading), tag("p", subtitle, class_="soft")),
        tag("nav", tag("ul", *links), aria_label="Sections") if len(links) > 1 else None,
        tag(
            "main",
            *(
                tag("section", tag("h2", name) if len(shown) > 1 else None, *content, aria_label=name, id=key)
                for key, name, content in shown
            ),
            id="content",
            data_live="yes" if live else None,
        ),
        after,
    ]
    head = [
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", title),
        tag("style", Html(style)),
    ]
    return f"<!doctype html>\n{tag('html', tag('head', *head), tag('body', *body), lang='en')}\n"
