"""`triton-agent data make`: composes problems, has them solved if asked, and writes the dataset's folder."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json as json_text
import os
from collections import Counter
from pathlib import Path
from typing import Any

from triton_agent.policy.train.data.candidates import TRAIN, DataSettings, Row, seen_compositions
from triton_agent.policy.train.data.compose import DIFFICULTIES
from triton_agent.runs.cli import console, exit_codes
from triton_agent.runs.cli.devices import choose_one
from triton_agent.runs.cli.pace import counted
from triton_agent.runs.data.composing import compose_all
from triton_agent.runs.data.folder import AUDITS, CONVERSATIONS, README, SOLVED, DatasetFolder
from triton_agent.tools.errors import InstrumentError, UsageError
from triton_agent.tools.settings import EvaluatorSettings
from triton_agent.tools.versions import require_supported

COUNT, DEFAULT = 1000, ("easy", "medium", "hard")
HELD_OUT_SHARE = 0.1
LEAST = {"jobs": 0, "turns": 1, "faults": 0, "prompt_tokens": 1}
"""Smallest values of options."""
AT_ONCE_ON_A_CARD = 4
"""Problems solved and timed at once on a GPU by default; more do not give more verdicts a second."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MakeRequest:
    """The options; None stands for a default, or for the setting of the dataset that is continued."""

    out: str
    count: int | None
    seed: int | None
    difficulties: tuple[str, ...]
    held_out: float | None
    against: tuple[str, ...]
    jobs: int
    audit: bool
    solve: bool
    turns: int
    faults: int
    judged: float
    prompt_tokens: int
    device: str
    target: str
    resume: bool
    json: bool


def run(request: MakeRequest) -> int:
    """Make the dataset, or continue it."""
    for warning in require_supported():
        console.progress().print(f"warning: {warning}")
    folder = _folder(request)
    try:
        unmeasured = _make(folder, request)
    except KeyboardInterrupt:
        told = f"what is finished is kept in {folder.path}; the same command with --resume continues"
        console.progress().print(told, markup=False, soft_wrap=True)
        raise
    folder.write_card()
    _print_result(folder, unmeasured, request.json)
    return exit_codes.NOT_MEASURED if unmeasured else exit_codes.GOOD


def _make(folder: DatasetFolder, request: MakeRequest) -> int:
    """Compose, audit and solve what is not done yet; return how many problems could not be measured."""
    jobs = request.jobs or _cores()
    if not folder.composed:
        against = [Path(path) for path in request.against]
        with counted("problems composed") as tell:
            accepted = compose_all(folder, against, jobs, lambda done: tell(done, folder.settings.count))
        if seen := seen_compositions(accepted.rows):
            raise InstrumentError(f"held-out compositions occur in training: {', '.join(seen[:5])}")
        folder.write_problems(accepted)
    unmeasured = _audited(folder, jobs) if request.audit else 0
    unmeasured += _solved(folder, request) if request.solve else 0
    return unmeasured


def _folder(request: MakeRequest) -> DatasetFolder:
    """Begin the folder, or open it and refuse options that contradict it."""
    unknown = [name for name in request.difficulties if name not in DIFFICULTIES]
    if unknown:
        raise UsageError(f"--difficulty {unknown[0]}", remedy=f"one of {', '.join(DIFFICULTIES)}")
    for name, least in LEAST.items():
        if getattr(request, name) < least:
            raise UsageError(f"--{name.replace('_', '-')} {getattr(request, name)}", remedy=f"at least {least}")
    if not 0 <= request.judged <= 1:
        raise UsageError(f"--judged {request.judged}", remedy="a share from 0 to 1")
    for path in request.against:
        if not Path(path).exists():
            raise UsageError(f"--against {path}: there is no such folder")
    against = [{"name": Path(path).resolve().name, "sha256": _digest(Path(path))} for path in request.against]
    if request.resume:
        folder = DatasetFolder.continued(Path(request.out))
        asked = {
            "count": request.count,
            "seed": request.seed,
            "difficulties": list(request.difficulties) or None,
            "held_out": request.held_out,
        }
        for name, value in asked.items():
            if value is not None and value != folder.plan["settings"][name]:
                there = folder.plan["settings"][name]
                raise UsageError(f"{name}: {there} there, {value} now", remedy="leave it out to continue the dataset")
        if against != folder.plan["against"] and (request.against or not folder.composed):
            raise UsageError("the folders of --against are not those it was begun with", remedy="name the same ones")
        return folder
    settings = DataSettings(
        count=COUNT if request.count is None else request.count,
        seed=request.seed or 0,
        difficulties=request.difficulties or DEFAULT,
        held_out=HELD_OUT_SHARE if request.held_out is None else request.held_out,
    )
    if settings.count < 1 or not 0 <= settings.held_out <= 0.5:
        raise UsageError("--count is at least 1, and --held-out is between 0 and 0.5")
    return DatasetFolder.begin(Path(request.out), settings, against)


def _digest(path: Path) -> str:
    """Return a hash of the Python files that does not depend on the folder's place."""
    files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
    lines = [f"{file.relative_to(path)} {hashlib.sha256(file.read_bytes()).hexdigest()}" for file in files]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _audited(folder: DatasetFolder, jobs: int) -> int:
    """Audit all problems; one that is only used to evaluate has to be sound as well."""
    from triton_agent.runs.data.auditing import audit_all

    rows = folder.problems()
    done = itertools.count(sum(1 for _ in folder.lines(AUDITS)))
    with counted("problems audited") as tell:
        tell(next(done), len(rows))
        return audit_all(folder, rows, jobs, lambda: tell(next(done), len(rows)))


def _solved(folder: DatasetFolder, request: MakeRequest) -> int:
    """Solve the problems to train on; held-out ones have no conversations."""
    from triton_agent.runs.data.solving import SolveSettings, conversations_of, solve_all

    chosen = choose_one(request.device, "problems are solved on one")
    timed = request.turns > 1  # a single turn has nothing to improve on
    settings = SolveSettings(
        evaluator=EvaluatorSettings(
            device=chosen.device,
            card=chosen.uuids[0],
            target=None if request.target == "none" else request.target,
            timed=timed,
        ),
        turns=request.turns,
        faults=request.faults,
        judged=request.judged,
        jobs=request.jobs or (AT_ONCE_ON_A_CARD if timed and chosen.device == "cuda" else _cores()),
        cards=chosen.gpus,
    )
    rows = folder.sound([row for row in folder.problems() if row["split"] == TRAIN])
    done = itertools.count(sum(1 for _ in folder.lines(SOLVED)))
    with counted("problems solved") as tell:
        tell(next(done), len(rows))
        unmeasured = solve_all(folder, rows, settings, lambda _: tell(next(done), len(rows)), console.progress().print)
    folder.write_conversations(conversations_of(folder, rows, request.prompt_tokens))
    return unmeasured


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def _print_result(folder: DatasetFolder, unmeasured: int, json: bool) -> None:
    rows: list[Row] = folder.problems()
    said = list(folder.lines(CONVERSATIONS))
    told = {
        "folder": str(folder.path),
        "problems": dict(Counter(row["split"] for row in rows)),
        "tried": folder.plan["tried"],
        "refused": folder.plan["refused"],
        "audits": dict(Counter("sound" if report["sound"] else "flagged" for report in folder.lines(AUDITS))),
        "solved": dict(Counter(line["outcome"] for line in folder.lines(SOLVED))),
        "conversations": dict(Counter(row["kind"] for row in said)),
        "devices": dict(Counter(row["device"] for row in said)),
        "unmeasured": unmeasured,
    }
    if json:
        print(json_text.dumps(told), flush=True)
        return
    out = console.results()
    splits = ", ".join(f"{count:,} {name}" for name, count in told["problems"].items())
    out.print(f"{folder.path}: {splits} of {told['tried']:,} candidates; see {README}", markup=False, soft_wrap=True)
    _print_counts("audit", told["audits"])
    _print_counts("solved", told["solved"])
    _print_counts("conversations", told["conversations"])
    if unmeasured:
        out.print(f"  {unmeasured} problems could not be measured; --resume tries them again")


def _print_counts(what: str, counts: Any) -> None:
    if counts:
        said = ", ".join(f"{count:,} {name}" for name, count in counts.items())
        console.results().print(f"  {what}: {said}", markup=False, soft_wrap=True)
