"""Writes an evidence bundle: the results of a run in one file that anyone can check and evaluate again, without the
store.

It holds the problem's text with the local modules it imports, every candidate's source, and its results: verdicts,
errors, timing distributions, seeds, machine and versions. It leaves out conversations with models. Equal runs give
equal bytes. It is not signed: compare the SHA-256 of the whole file with one that you got another way.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from triton_agent import __version__
from triton_agent.memory.exchange.plain import to_plain
from triton_agent.runs.bundle import archive as bundle_archive
from triton_agent.runs.bundle.redaction import Redaction
from triton_agent.runs.history import stored_problem
from triton_agent.runs.history.records import History, StoredAttempt
from triton_agent.tools.candidate.identity import candidate_id
from triton_agent.tools.errors import UsageError
from triton_agent.tools.problem import source as problem_source
from triton_agent.tools.problem.problem import ProblemSpec

FORMAT, VERSION = "triton-agent-evidence", 1
MANIFEST, SEAL = "manifest.json", "manifest.sha256"
FILES = "problem/files/"
README = """Evidence of one run of triton-agent.

triton-agent verify-bundle THIS.zip               check every byte, then judge the best attempt again on this machine
triton-agent verify-bundle THIS.zip --all         judge every attempt again
triton-agent verify-bundle THIS.zip --hashes-only check the bytes only

problem/        the problem: its specification and its text
attempts/N.M/   answer M of turn N: its source, what it came from, every verdict on it
run.json        the run's settings and its end
manifest.json   SHA-256 of every file; its own is in manifest.sha256 (sha256sum --check)

The sources are foreign programs. Do not run them outside a sandbox.
"""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """A bundle, ready to be written."""

    data: bytes
    sha256: str
    members: int
    complete: bool
    """True if the problem can be loaded from it, as evaluating again requires."""


def make_bundle(history: History, *, redact: bool) -> Bundle:
    """Make the bundle of a run."""
    texts, facts = _contents(history)
    problem, spec = facts["problem/problem.json"], facts["problem/spec.json"]
    complete = _digest_of(spec, problem["main"], texts) == problem["digest_in_run"]
    if redact:
        texts, facts = _redacted(texts, facts, history)
        problem, spec = facts["problem/problem.json"], facts["problem/spec.json"]
        spec["digest"] = _digest_of(spec, problem["main"], texts) or spec["digest"]
    problem["complete"] = complete
    for name in [name for name in texts if name.startswith("attempts/")]:
        facts[f"{Path(name).parent}/attempt.json"]["candidate"] = candidate_id(texts[name])
    members = {name: text.encode("utf-8", "surrogatepass") for name, text in {**texts, "README.txt": README}.items()}
    members |= {name: _as_bytes(data) for name, data in facts.items()}
    data = bundle_archive.pack(members | _sealed(members, history.run.id, redact))
    if len(data) > bundle_archive.LARGEST_BYTES:
        raise UsageError(
            f"run {history.run.id} is too large for a bundle", remedy="export it: triton-agent runs export"
        )
    sha256 = hashlib.sha256(data).hexdigest()
    return Bundle(data=data, sha256=sha256, members=len(members) + 2, complete=complete)


def _as_bytes(data: Any) -> bytes:
    return (json.dumps(data, indent=1, sort_keys=True, allow_nan=False) + "\n").encode("ascii")


def _sealed(members: Mapping[str, bytes], run: str, redacted: bool) -> dict[str, bytes]:
    """Return the manifest and its own hash."""
    listed = {name: {"bytes": len(raw), "sha256": hashlib.sha256(raw).hexdigest()} for name, raw in members.items()}
    about = {"format": FORMAT, "version": VERSION, "made_by": f"triton-agent {__version__}", "run": run}
    manifest = _as_bytes(about | {"redacted": redacted, "members": listed})
    seal = f"{hashlib.sha256(manifest).hexdigest()}  {MANIFEST}\n"
    return {MANIFEST: manifest, SEAL: seal.encode("ascii")}


# -- contents ----------------------------------------------------------------------------------------------------------


def _contents(history: History) -> tuple[dict[str, str], dict[str, Any]]:
    """Return program texts and plain data by member."""
    run, end = history.run, history.end
    main, files = _problem_files(history)
    texts = {f"{FILES}{name}": text for name, text in files.items()}
    about_run = {
        name: getattr(run, name) for name in ("id", "policy", "settings", "started_at", "forked_from", "commit")
    }
    ending = {"stop_reason": end.stop_reason, "ended_at": end.ended_at, "summary": end.summary} if end else None
    best = history.best.name if history.best else None
    facts = {"run.json": to_plain({**about_run, "end": ending, "best": best, "attempts": _order(history.attempts)})}
    view = run.problem
    kept = ("name", "fingerprint", "signature", "variants", "floor_bytes", "floor_flops", "floor_ms", "device", "notes")
    about_problem = {name: getattr(view, name) for name in kept} | {"main": main, "digest_in_run": view.digest}
    facts["problem/problem.json"] = to_plain(about_problem)
    facts["problem/spec.json"] = to_plain({**view.spec, "path": main})
    for item in history.attempts:
        folder = f"attempts/{item.name}"
        facts[f"{folder}/attempt.json"] = to_plain(_about(item))
        facts[f"{folder}/gradings.json"] = to_plain(item.gradings)
        if item.attempt.source is not None:
            texts[f"{folder}/source.py"] = item.attempt.source
    return texts, facts


def _order(attempts: Sequence[StoredAttempt]) -> list[str]:
    return [item.name for item in attempts]


def _about(item: StoredAttempt) -> dict[str, Any]:
    attempt, said = item.attempt, item.attempt.completion
    return {
        **{name: getattr(attempt, name) for name in ("key", "turn", "index", "parent", "plan", "created_at")},
        **{
            name: getattr(said, name)
            for name in ("policy", "policy_version", "prompt_version", "finish_reason", "usage")
        },
        "seed": attempt.observation.seed,
        "rules": attempt.observation.rules,
        "candidate_in_run": None if attempt.source is None else candidate_id(attempt.source),
        "candidate": None,
    }


def _problem_files(history: History) -> tuple[str, dict[str, str]]:
    """Return the problem's own file and the local modules it imports, named relative to their common folder."""
    view = history.run.problem
    path = Path(str(view.spec.get("path", "")))
    alone = {"problem.py": view.source}
    try:
        source = problem_source.read(path)
        root, _ = problem_source.import_root(path)
        beside = {name: file.read_bytes().decode() for name, file in problem_source.local_modules(source).items()}
        main = path.resolve().relative_to(root).as_posix()
    except (UsageError, OSError, ValueError):
        return "problem.py", alone
    named_well = all(bundle_archive.fault_of(f"{FILES}{name}") == "" for name in (main, *beside))
    if source.text != view.source or not beside or not named_well:
        return "problem.py", alone
    return main, {main: view.source, **beside}


def _redacted(texts: dict[str, str], facts: dict[str, Any], history: History) -> tuple[dict[str, str], dict[str, Any]]:
    """Redact texts and data. The members' names are made here or are names of modules, and stay."""
    place = Path(str(history.run.problem.spec.get("path", ""))).parent
    redaction = Redaction([*texts.values(), json.dumps([facts, str(place)])], (place, Path.cwd()))
    return {name: redaction.code(text) for name, text in texts.items()}, redaction.data(facts)


def _digest_of(spec: Mapping[str, Any], main: str, texts: Mapping[str, str]) -> str | None:
    """Return the digest of the problem in these texts; None if they are not a whole problem."""
    if ProblemSpec.from_json(spec).saved_files:  # saved tensors are a pickle, which no bundle holds
        return None
    files = {name.removeprefix(FILES): text for name, text in texts.items() if name.startswith(FILES)}
    with tempfile.TemporaryDirectory(prefix="triton-agent-bundle-") as made:
        stored_problem.lay_out(files, Path(made))
        try:
            return stored_problem.parse_at(ProblemSpec.from_json(spec), Path(made) / main).digest
        except UsageError:
            return None
