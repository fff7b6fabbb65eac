"""Forms of prompt parts (a growing list, a whole or condensed file) and the ranks of all forms.

The ranks decide how long each part may be and which parts are left out first.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from triton_agent.policy.llm.prompting.condensing import kernels_only, signatures_only
from triton_agent.policy.llm.prompting.fitting import PartForm, PromptPart
from triton_agent.policy.llm.prompting.quoting import fenced
from triton_agent.policy.llm.prompting.wording import worded

SOURCE_CHARACTERS = 40_000
"""Most characters shown of one file; typical kernel files have a tenth of this."""


class Rank:
    """The order in which forms are considered, lowest first. The shortest forms of needed parts come before all of
    these.
    """

    PARENT_FACTS = 10
    RULES = 20
    HARDWARE = 25
    PARENT_SIGNATURES = 30
    TASK_SHORT = 40
    PARENT_KERNELS = 50
    TASK = 60
    PARENT = 70
    LAST_ERROR = 80
    PRIMER = 85
    TRIED_FEW = 90
    LESSONS_FEW = 100
    BEST_FACTS = 110
    BEST_KERNELS = 120
    GRAPH = 130
    CONTRAST_FACTS = 140
    CONTRAST_KERNELS = 150
    BEST = 160
    RECALLED_KERNELS = 170
    WORKED = 180
    TRIED = 190
    OTHERS_FACTS = 200
    OTHERS_KERNELS = 210
    TASK_WHOLE = 220
    LESSONS = 230
    RECALLED = 240
    CONTRAST = 250
    OTHERS = 260
    TRIED_ALL = 270
    LESSONS_ALL = 280


def form(rank: int, write: Callable[[], str]) -> PartForm:
    return PartForm(rank=rank, write=write)


def part(name: str, *forms: PartForm) -> PromptPart:
    return PromptPart(name=name, forms=forms)


def growing(
    lines: Sequence[str],
    counts: Sequence[int],
    ranks: Sequence[int],
    template: str,
    value: str,
    *,
    backwards: bool = False,
) -> list[PartForm]:
    """Return forms that show more and more lines of a list; `backwards` puts the first line last."""

    def write(count: int) -> str:
        shown = list(lines[:count])
        left_out = [f"[... {len(lines) - count} older or lesser ones left out ...]"] if len(lines) > count else []
        ordered = [*left_out, *reversed(shown)] if backwards else [*shown, *left_out]
        return worded(template, **{value: fenced("\n".join(ordered))})

    return [form(rank, functools.partial(write, count)) for rank, count in zip(ranks, counts)]


def source_part(key: str, source: str, ranks: Sequence[int], name: str, heading: str = "") -> PromptPart:
    """Return a part that shows a file: only its kernels, then the whole; with three ranks, first only the
    signatures.
    """

    def write(condense: Callable[[str], str] | None, how: str) -> str:
        text = condense(source) if condense else source
        if not text.strip():
            return ""
        told = worded("source", key=key, how=how, source=fenced(text, label="python", most=SOURCE_CHARACTERS))
        return f"{heading}\n\n{told}" if heading else told

    writers = [
        lambda: write(signatures_only, ", its kernels without their bodies"),
        lambda: write(kernels_only, ", its kernels only"),
        lambda: write(None, ""),
    ]
    return part(name, *[form(rank, writer) for rank, writer in zip(ranks, writers[-len(ranks) :])])
