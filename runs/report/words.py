"""Turns identifiers of records into words: statuses, findings, stop reasons, settings, amounts of bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from triton_agent.agent.settings import MEANS, StopReason
from triton_agent.memory.listing import AttemptHeader
from triton_agent.tools.results import DECISIONS, Diagnosis, Evaluation, Finding, Interval, Status, asked_as

UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


def plain(identifier: str) -> str:
    """Return an identifier as words: `wrong_values` as `wrong values`."""
    return identifier.replace("_", " ")


def finding_said(finding: Finding | None) -> str:
    """Return what a finding means."""
    return DECISIONS[finding].means if finding is not None else ""


def result_said(line: AttemptHeader) -> str:
    """Return the result of an attempt in a few words, for a row of a table."""
    if line.finding is not None:
        return DECISIONS[line.finding].means
    return f"no verdict: {plain(line.unmeasured)}" if line.unmeasured else ""


def end_said(reason: str) -> str:
    """Return why a run ended; reasons of other programs are shown as they are."""
    return MEANS[StopReason(reason)] if reason in list(StopReason) else plain(reason)


def interval(value: Interval | None) -> str:
    return f"{value.median:.2f}x [{value.low:.2f}, {value.high:.2f}]" if value else ""


def ms_said(value: float) -> str:
    """Return a time in milliseconds with three digits, trailing zeros included: `0.0320`."""
    return f"{value:.0f}" if value >= 100 else f"{value:#.3g}"


def baseline_said(baseline: str) -> str:
    """Return the name of a baseline without its precision: `the reference`, `torch.compile`."""
    kind, _, mode = asked_as(baseline).partition("-")
    if kind == "eager":
        return "the reference"
    return mode or "torch.compile" if kind == "compile" else baseline


def traffic_said(diagnosis: Diagnosis | None) -> str:
    """Return the bytes that kernels moved over the fewest. Those of torch's operators are not counted, so say `own`."""
    if diagnosis is None or diagnosis.traffic_ratio is None:
        return ""
    return f"{diagnosis.traffic_ratio:.2f}x" + (" own" if diagnosis.torch_operators else "")


def cost_said(evaluation: Evaluation | None) -> str:
    """Return what a kernel that passed moves and launches: `1.00x the fewest bytes, 1 launch`."""
    diagnosis = evaluation.diagnosis if evaluation is not None and evaluation.status is Status.PASSED else None
    if diagnosis is None:
        return ""
    traffic, launches = traffic_said(diagnosis), sum(item.launches for item in diagnosis.launches)
    said = f"{launches} launch" if launches == 1 else f"{launches} launches"
    return ", ".join(filter(None, (f"{traffic} the fewest bytes" if traffic else "", said if launches else "")))


def counted(count: int, word: str) -> str:
    """Return a number of things: `1 run`, `12 runs`."""
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}s"


def bytes_said(count: int | None) -> str:
    """Return an amount of memory with three digits: `64 MiB`."""
    if count is None:
        return ""
    amount, unit = float(count), 0
    while amount >= 1024 and unit < len(UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    return f"{amount:.3g} {UNITS[unit]}" if amount < 1000 else f"{amount:.0f} {UNITS[unit]}"


def settings_said(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield each setting that was given, its name and value in words."""
    for name, value in sorted(settings.items()):
        if value is None or value == "" or value == [] or value == {}:
            continue
        if isinstance(value, Mapping):
            yield from settings_said(value, f"{prefix}{plain(name)}, ")
        elif isinstance(value, bool):
            yield f"{prefix}{plain(name)}", "yes" if value else "no"
        elif isinstance(value, list | tuple):
            yield f"{prefix}{plain(name)}", ", ".join(str(item) for item in value)
        else:
            yield f"{prefix}{plain(name)}", str(value)
