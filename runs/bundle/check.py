"""Reads an evidence bundle from anywhere and checks every byte against its manifest.

Nothing is unpacked to disk or run here; it reads text and JSON of bounded size. `judge_again.py` evaluates the
bundle's candidates again, in the sandbox.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from triton_agent.memory.exchange.plain import from_plain
from triton_agent.memory.observation import ProblemView, Rules
from triton_agent.memory.records import Grading
from triton_agent.runs.bundle import archive as bundle_archive
from triton_agent.runs.bundle.writing import FILES, FORMAT, MANIFEST, SEAL, VERSION
from triton_agent.tools.candidate.identity import candidate_id
from triton_agent.tools.errors import UsageError
from triton_agent.tools.problem.problem import ProblemSpec


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class BundledAttempt:
    name: str
    source: str | None
    rules: Rules
    gradings: tuple[Grading, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CheckedBundle:
    """A bundle whose bytes were all checked."""

    sha256: str
    """Hash of the whole file; only this tells it from a forged bundle."""
    run: str
    redacted: bool
    members: int
    best: str | None
    settings: Mapping[str, Any]
    """Settings of the run."""
    attempts: tuple[BundledAttempt, ...]
    problem: ProblemView
    main: str
    """Name of the problem's own file in `files`."""
    files: Mapping[str, str]
    complete: bool


def check_bundle(path: Path) -> CheckedBundle:
    """Check every byte; UsageError names the first fault."""
    data = _read(path)
    where = str(path)
    members = bundle_archive.unpack(data, where)
    manifest = _manifest(members, where)
    _require_listed(manifest, members, where)
    try:
        return _understood(manifest, members, hashlib.sha256(data).hexdigest(), where)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise _broken(where, f"its members do not make a run ({reason[:200]})") from None


def _read(path: Path) -> bytes:
    try:
        if path.stat().st_size > bundle_archive.LARGEST_BYTES:
            raise _broken(str(path), f"more than {bundle_archive.LARGEST_BYTES >> 20} MiB")
        with path.open("rb") as file:
            return file.read(bundle_archive.LARGEST_BYTES + 1)
    except FileNotFoundError:
        raise UsageError("no such file", where=str(path), remedy="give a file that `bundle` wrote") from None
    except IsADirectoryError:
        raise UsageError("is a folder", where=str(path), remedy="give a file that `bundle` wrote") from None
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", where=str(path)) from None


def _manifest(members: Mapping[str, bytes], where: str) -> dict[str, Any]:
    for name in (MANIFEST, SEAL):
        if name not in members:
            raise _broken(where, f"member {name} is missing")
    sealed = f"{hashlib.sha256(members[MANIFEST]).hexdigest()}  {MANIFEST}\n".encode("ascii")
    if members[SEAL] != sealed:
        raise _broken(where, f"{MANIFEST} does not have the hash in {SEAL}")
    manifest = _json(members[MANIFEST], MANIFEST, where)
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise _broken(where, f"{MANIFEST} is not that of an evidence bundle")
    if manifest.get("version") != VERSION:
        said = f"version {manifest.get('version')!r}, and version {VERSION} is what can be read here"
        raise UsageError(
            f"the bundle is of {said}", where=where, remedy="use the version of triton-agent that wrote it"
        )
    return manifest


def _require_listed(manifest: Mapping[str, Any], members: Mapping[str, bytes], where: str) -> None:
    listed = manifest.get("members")
    if not isinstance(listed, dict):
        raise _broken(where, f"{MANIFEST} lists no members")
    for name in sorted(listed.keys() | members.keys() - {MANIFEST, SEAL}):
        if name not in members:
            raise _broken(where, f"member {name} is missing")
        if name not in listed:
            raise _broken(where, f"member {name} was added: {MANIFEST} does not list it")
        raw = members[name]
        if listed[name] != {"bytes": len(raw), "sha256": hashlib.sha256(raw).hexdigest()}:
            raise _broken(where, f"member {name} was changed: its SHA-256 is not the one in {MANIFEST}")


def _understood(manifest: Mapping[str, Any], members: Mapping[str, bytes], sha256: str, where: str) -> CheckedBundle:
    run, about, spec = (_json(members[name], name, where) for name in RECORDS)
    files = {
        name.removeprefix(FILES): _text(raw, name, where) for name, raw in members.items() if name.startswith(FILES)
    }
    spec = ProblemSpec.from_json(spec).to_json()
    if not isinstance(about["main"], str) or about["main"] not in files:
        raise _broken(where, "the problem's own file is not among its members")
    view = ProblemView(
        digest=spec["digest"],
        name=str(about["name"]),
        spec=spec,
        source=files[about["main"]],
        fingerprint=str(about["fingerprint"]),
    )
    attempts = tuple(_attempt(str(name), members, where) for name in run["attempts"])
    if run["best"] is not None and run["best"] not in [attempt.name for attempt in attempts]:
        raise _broken(where, f"the best attempt, {run['best']!r}, is not among its members")
    return CheckedBundle(
        sha256=sha256,
        run=str(manifest["run"]),
        redacted=bool(manifest["redacted"]),
        members=len(members),
        best=run["best"],
        settings=dict(run["settings"]),
        attempts=attempts,
        problem=view,
        main=about["main"],
        files=files,
        complete=bool(about["complete"]),
    )


RECORDS = ("run.json", "problem/problem.json", "problem/spec.json")


def _attempt(name: str, members: Mapping[str, bytes], where: str) -> BundledAttempt:
    folder = f"attempts/{name}"
    about = _json(members[f"{folder}/attempt.json"], f"{folder}/attempt.json", where)
    raw = members.get(f"{folder}/source.py")
    source = None if raw is None else _text(raw, f"{folder}/source.py", where)
    if source is not None and about["candidate"] != candidate_id(source):
        raise _broken(where, f"{folder}/source.py is not the candidate that {folder}/attempt.json tells of")
    stored = _json(members[f"{folder}/gradings.json"], f"{folder}/gradings.json", where)
    gradings = tuple(from_plain(Grading, one, f"{where}: {folder}/gradings.json") for one in stored)
    for grading in gradings:
        judged = grading.evaluation
        if source is not None and judged is not None and judged.candidate != about["candidate_in_run"]:
            raise _broken(where, f"a verdict in {folder} is on another candidate")
    rules = from_plain(Rules, about["rules"], f"{where}: {folder}/attempt.json")
    return BundledAttempt(name=name, source=source, rules=rules, gradings=gradings)


def _json(raw: bytes, name: str, where: str) -> Any:
    try:
        return json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise _broken(where, f"{name} is not JSON: {error}") from None


def _text(raw: bytes, name: str, where: str) -> str:
    try:
        return raw.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        raise _broken(where, f"{name} is not text in UTF-8") from None


def _broken(where: str, what: str) -> UsageError:
    return UsageError(f"the bundle is not intact: {what}", where=where, remedy="get the file again from its author")
