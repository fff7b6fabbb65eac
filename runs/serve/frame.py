"""The frame of a viewer page: navigation, style, one script, and a policy that forbids everything else.

The script fetches a live page again and swaps its content; without it the pages are complete, but stand still. Style
and script are allowed by their hashes, since code, messages and names on a page come from anywhere.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from urllib.parse import urlencode

from triton_agent.runs.report.document import document
from triton_agent.runs.report.markup import Html, tag
from triton_agent.runs.report.style import STYLE

SCRIPT = """
const seconds = 2, place = () => document.getElementById("content");
let seen = null;
const label = (item) => item.querySelector("summary").textContent;
async function look() {
  const busy = document.activeElement.matches("input, select") || String(getSelection());
  if (!place().dataset.live || document.hidden || busy) return;
  const answer = await fetch(location.href, seen ? { headers: { "If-None-Match": seen } } : {});
  if (answer.status !== 200) return;
  const first = seen === null;
  seen = answer.headers.get("ETag");
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("content");
  if (!fresh || (first && fresh.innerHTML === place().innerHTML)) return;
  const before = new Map([...place().querySelectorAll("details")].map((item) => [label(item), item.open]));
  for (const item of fresh.querySelectorAll("details")) {
    if (before.has(label(item))) item.open = before.get(label(item));
  }
  place().replaceWith(fresh);
}
if (place().dataset.live) setInterval(() => look().catch(() => {}), seconds * 1000);
"""
VIEW_STYLE = """
body { max-width: 76rem; }
.filters { display: flex; flex-wrap: wrap; gap: .6rem .8rem; align-items: end; margin: .8rem 0; }
.filters label { display: grid; grid-template-columns: minmax(0, 1fr); max-width: 100%; gap: .15rem;
  font-size: .85rem; color: var(--soft); }
input, select, button { font: inherit; color: var(--text); background: var(--box); border: 1px solid var(--line);
  border-radius: 6px; padding: .3rem .6rem; max-width: 100%; }
button { cursor: pointer; } button:hover { border-color: var(--good); }
.acts { display: flex; flex-wrap: wrap; gap: .6rem; align-items: end; margin: .6rem 0; }
.acts form { display: flex; gap: .4rem; align-items: end; } .acts input[type=number] { width: 5.5rem; }
.acts > a { border: 1px solid var(--line); border-radius: 6px; padding: .3rem .6rem; text-decoration: none; }
.acts label { display: flex; gap: .4rem; align-items: center; color: var(--soft); }
.pages { display: flex; gap: 1.2rem; margin: .8rem 0; } table.full { width: 100%; }
.sides { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); gap: 1rem; }
.sides > div { min-width: 0; }
.sides svg.fits { width: 100%; height: auto; font-size: 18px; }
.live { white-space: nowrap; } td code { white-space: nowrap; }
.live::before { content: "\\25cf  "; color: var(--good); }
"""
LOOKS = STYLE + VIEW_STYLE


def hash_of(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


POLICY = (
    f"default-src 'none'; style-src {hash_of(LOOKS)}; script-src {hash_of(SCRIPT)}; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
PLACES = (("/", "Runs"), ("/bench", "Benchmarks"), ("/training", "Training"))


def page(
    title: str,
    subtitle: object,
    sections: Iterable[tuple[str, str, Sequence[object]]],
    *,
    here: str = "/",
    live: bool = False,
    jobs: bool = False,
) -> str:
    """Return a page of the viewer; `here` is the entry of the navigation that it belongs to."""
    site = navigation(here, jobs=jobs)
    script = tag("script", Html(SCRIPT))
    heading = f"{title} - triton-agent"
    return document(heading, title, subtitle, sections, style=LOOKS, policy=META, above=site, after=script, live=live)


def navigation(here: str, *, jobs: bool) -> Html:
    """Return links to all kinds of pages."""
    places = (*PLACES, ("/jobs", "Jobs")) if jobs else PLACES
    links = [tag("a", name, href=place, aria_current="page" if place == here else None) for place, name in places]
    return tag("div", tag("strong", "triton-agent"), *links, class_="site", role="navigation", aria_label="Site")


META = POLICY.replace("; frame-ancestors 'none'", "")
"""Policy for the page's meta element, where browsers do not accept the last directive; the header has all of them."""


def link(place: str, **query: str | None) -> str:
    """Return an address with its query; parts that are None or empty are left out."""
    told = urlencode({name: value for name, value in query.items() if value})
    return f"{place}?{told}" if told else place


def run_link(run: str) -> str:
    return link("/run", id=run)


def attempt_link(key: str) -> str:
    return link("/attempt", key=key)
