"""Made-up benchmark records with known contents, for tests of figures, comparisons and pages."""

from __future__ import annotations

import dataclasses
import hashlib
import math
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from triton_agent.runs.bench.rows import (
    FILE,
    Against,
    BaselineTime,
    Head,
    Kind,
    Mode,
    ProblemRow,
    Record,
    Sample,
    Speed,
    Where,
    head_line,
    row_line,
)
from triton_agent.tools.results import DECISIONS, Finding, Interval, Status

GPU = Where(device="cuda", gpu="NVIDIA H200", driver="580", python="3.12", torch="2.11", triton="3.6", commit="abc")
CPU = Where(device="cpu", python="3.11", torch="2.13", triton="3.7", commit="abc")
SETTINGS = {"policy": "builtin", "mode": "own-kernels", "samples": 1, "device": "cuda", "seed": 0}


def interval(median: float, spread: float = 0.01) -> Interval:
    return Interval(median=median, low=median / (1 + spread), high=median * (1 + spread))


def speed(factor: float, *, against: Against = Against.EAGER, kind: Kind = Kind.DEVICE, spread: float = 0.01) -> Speed:
    return Speed(
        against=against,
        kind=kind,
        speedup=interval(factor, spread),
        kernel_ms=interval(1 / factor),
        baseline_ms=interval(1.0),
        baseline=f"{against} (float32 matmul, tf32 conv)",
    )


def right(*speeds: Speed, **more: Any) -> Sample:
    known = {"index": 0, "kernel": "k.py", "called": True, "executed": True, "statuses": {"passed": 1}}
    return Sample(**{**known, "status": Status.PASSED, "speeds": speeds, **more})


def wrong(finding: Finding = Finding.VALUES, **more: Any) -> Sample:
    status = DECISIONS[finding].status
    known = {"index": 0, "kernel": "k.py", "called": True, "message": "as it happened", "statuses": {str(status): 1}}
    return Sample(**{**known, "status": status, "finding": finding, "cheated": status is Status.CHEATED, **more})


def lost(index: int = 0) -> Sample:
    return Sample(index=index, not_measured="WorkerLost: the GPU was busy", unmeasured=1)


def row(label: str, *samples: Sample, where: Where = GPU, version: str = "1", **more: Any) -> ProblemRow:
    return ProblemRow(
        **{
            "label": label,
            "group": label.partition("/")[0],
            "digest": hashlib.sha256(label.encode()).hexdigest(),
            "policy": "builtin",
            "policy_version": version,
            "mode": Mode.OWN_KERNELS,
            "where": where,
            "samples": samples,
            **more,
        }
    )


def baseline(against: Against, over_eager: float) -> BaselineTime:
    return BaselineTime(against=against, kind=Kind.DEVICE, ms=interval(1.0), over_eager=interval(over_eager))


def record(
    rows: Sequence[ProblemRow], *, labels: Sequence[str] = (), settings: Mapping[str, Any] = SETTINGS, **more: Any
) -> Record:
    """Return a record of these rows; `labels` may name more problems than have rows."""
    asked = tuple(labels or (item.label for item in rows))
    digest = hashlib.sha256("".join(asked).encode()).hexdigest()
    head = Head(
        **{"benchmark": "suite", "title": "the suite", "digest": digest, "labels": asked, "settings": settings, **more}
    )
    return Record(head=head, rows=tuple(rows))


def noisy(
    factors: Mapping[str, float | None], source: random.Random, noise: float = 0.01, shift: float = 1.0
) -> Record:
    """Return a record of problems with known speed-ups, measured by a clock with an error of `noise`.

    None stands for unsolved. The spread of the errors varies, as with few pairs; intervals state it correctly.
    """
    rows = []
    for label, factor in factors.items():
        if factor is None:
            rows.append(row(label, wrong()))
            continue
        spread = noise * source.choice((0.5, 1.0, 2.0))
        seen = factor * shift * math.exp(source.gauss(0, spread))
        rows.append(row(label, right(speed(seen, spread=math.expm1(1.96 * spread)))))
    return record(rows)


def written(folder: Path, made: Record) -> str:
    """Write the record as a benchmark does."""
    folder.mkdir()
    lines = [head_line(made.head), *map(row_line, made.rows)]
    (folder / FILE).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(folder)


def changed(found: ProblemRow, **more: Any) -> ProblemRow:
    return dataclasses.replace(found, **more)
