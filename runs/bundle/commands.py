"""`triton-agent bundle` and `verify-bundle`: write the evidence of a run to one file, and check such a file.

A bundle's problem and candidates are programs of others, so they are evaluated in the sandbox: both the candidate's
process and the checker, which holds the reference.
"""

from __future__ import annotations

import json as json_text
import tempfile
from pathlib import Path

from rich.text import Text

from triton_agent.memory.exchange.jsonl import whole_or_not
from triton_agent.runs.bundle.check import BundledAttempt, CheckedBundle, check_bundle
from triton_agent.runs.bundle.writing import make_bundle
from triton_agent.runs.cli import console, exit_codes
from triton_agent.runs.cli.foreign_text import legible
from triton_agent.runs.cli.store_option import load_history, open_store
from triton_agent.runs.doctor.checkup import in_binary_units
from triton_agent.runs.history.judge_again import StoredCandidate, settings_like
from triton_agent.runs.history.records import newest_verdict
from triton_agent.runs.history.stored_problem import from_files
from triton_agent.tools.errors import NotJudgeableHere, UsageError
from triton_agent.tools.problem.problem import ProblemSpec


def bundle(run: str, output: str | None, *, redact: bool, store: str | None, json: bool) -> int:
    with open_store(store) as opened:
        history = load_history(opened, run)
    if not history.attempts:
        raise UsageError(f"run {history.run.id} has no attempts yet, so there is no evidence")
    path = Path(output or f"{history.run.id}.zip")
    if path.is_dir():
        raise UsageError("is a folder", where=str(path), remedy=f"name a file: -o {path / history.run.id}.zip")
    made = make_bundle(history, redact=redact)
    with whole_or_not(path) as file:
        file.write(made.data)
    if json:
        about = {"file": str(path), "bytes": len(made.data), "sha256": made.sha256, "members": made.members}
        print(json_text.dumps({**about, "run": history.run.id, "can_be_judged_again": made.complete}))
        return exit_codes.GOOD
    out = console.results()
    out.print(Text(f"{path}: {made.members} members, {in_binary_units(len(made.data))}"), soft_wrap=True)
    out.print(f"SHA-256 {made.sha256}", soft_wrap=True)
    if not made.complete:
        out.print("note: only its bytes can be checked: the stored text is not the whole problem", soft_wrap=True)
    return exit_codes.GOOD


def verify(file: str, *, every: bool, hashes_only: bool, device: str, jobs: int, json: bool) -> int:
    """Check every byte, then evaluate the requested attempts again."""
    if device not in ("auto", "cpu", "cuda"):
        raise UsageError(f"--device {device}", remedy="auto, cpu or cuda")
    found = check_bundle(Path(file))
    about = {"file": file, "run": found.run, "sha256": found.sha256, "members": found.members}
    if not json:
        out = console.results()
        out.print(Text(f"{file}: all {found.members} members are as written; run {legible(found.run)}"), soft_wrap=True)
        out.print(f"SHA-256 {found.sha256}", soft_wrap=True)
    if hashes_only:
        if json:
            print(json_text.dumps(about))
        return exit_codes.GOOD
    return _judge(found, every=every, device=device, jobs=jobs, json=json, about=about)


def _judge(found: CheckedBundle, *, every: bool, device: str, jobs: int, json: bool, about: dict[str, object]) -> int:
    from triton_agent.runs.history.replay_verify import exit_code, tell, watched

    chosen = _chosen(found, every)
    if not found.complete or ProblemSpec.from_json(found.problem.spec).saved_files:
        raise NotJudgeableHere(
            "the bundle does not hold the whole problem", remedy="--hashes-only checks what it does hold"
        )
    subjects = [
        StoredCandidate(name=one.name, source=one.source, before=newest_verdict(one.gradings))
        for one in chosen
        if one.source is not None
    ]
    settings = settings_like(chosen[0].rules, [one.before for one in subjects], device, found.settings, trust=False)
    with tempfile.TemporaryDirectory(prefix="triton-agent-bundle-") as folder:
        spec = from_files(found.problem, found.files, found.main, Path(folder))
        outcomes = list(watched(spec, subjects, settings, jobs))
    tell(outcomes, json=json, about=about)
    return exit_code(outcomes)


def _chosen(found: CheckedBundle, every: bool) -> list[BundledAttempt]:
    """Choose the attempts to evaluate again; at least one has a candidate."""
    chosen = [one for one in found.attempts if every or one.name == found.best]
    if not chosen and not every:
        raise UsageError("the run found nothing better, so there is no best attempt", remedy="--all judges every one")
    if not any(one.source is not None for one in chosen):
        raise UsageError("none of its attempts wrote a candidate", remedy="--hashes-only checks its bytes")
    return chosen
