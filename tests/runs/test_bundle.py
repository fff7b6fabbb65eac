"""Evidence bundles: equal bytes each time, every changed byte is found, hostile files are refused, verdicts repeat."""

from __future__ import annotations

import dataclasses
import getpass
import hashlib
import io
import json
import os
import platform
import stat
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.recorded_run import EXAMPLES, PROBLEM, RUN, Recorded, recorded
from tests.runs.commands import call

from triton_agent.memory.observation import ProblemView
from triton_agent.memory.store import Store
from triton_agent.runs.bundle import archive as bundle_archive
from triton_agent.runs.bundle.check import check_bundle
from triton_agent.runs.bundle.redaction import Redaction
from triton_agent.runs.bundle.writing import MANIFEST, SEAL, make_bundle
from triton_agent.runs.cli import exit_codes
from triton_agent.runs.history.records import History, StoredAttempt
from triton_agent.tools.candidate.identity import candidate_id
from triton_agent.tools.errors import NotJudgeableHere, UsageError
from triton_agent.tools.problem.problem import parse_problem
from triton_agent.tools.processes.zygotes import Nursery

STRIDE = 61
"""Distance between the bytes that are changed; prime, so that every kind of field is hit."""


@pytest.fixture(scope="module")
def told(nursery: Nursery) -> Recorded:
    return recorded(nursery)


def history(told: Recorded) -> History:
    attempts = tuple(
        StoredAttempt(attempt=one, gradings=tuple(grading for grading in told.gradings if grading.attempt == one.key))
        for one in told.attempts
    )
    return History(run=told.run, attempts=attempts, end=told.end)


@pytest.fixture(scope="module")
def raw(told: Recorded) -> bytes:
    return make_bundle(history(told.timed(a3_0=1.5)), redact=False).data


def written(folder: Path, data: bytes) -> Path:
    path = folder / "evidence.zip"
    path.write_bytes(data)
    return path


def members(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


# -- what is in it -----------------------------------------------------------------------------------------------------


def test_a_bundle_holds_the_evidence_and_opens_with_any_tool(told: Recorded, raw: bytes) -> None:
    found = members(raw)
    assert found["attempts/3.0/source.py"].decode() == told.attempts[3].source
    assert found["problem/files/problem.py"].decode() == PROBLEM.read_text()
    verdict = json.loads(found["attempts/3.0/gradings.json"])[0]["evaluation"]
    assert verdict["status"] == "passed"
    assert verdict["timings"][0]["speedup"]["median"] == 1.5
    assert verdict["environment"]["torch"]
    about = json.loads(found["attempts/3.0/attempt.json"])
    assert (about["seed"], about["parent"]) == (103, f"{RUN}/1.0")
    assert b"messages" not in b"".join(found.values())
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        assert archive.testzip() is None


def test_the_manifest_tells_the_hash_of_every_member(raw: bytes) -> None:
    found = members(raw)
    listed = json.loads(found[MANIFEST])["members"]
    assert listed.keys() == found.keys() - {MANIFEST, SEAL}
    assert all(listed[name]["sha256"] == hashlib.sha256(found[name]).hexdigest() for name in listed)
    assert found[SEAL].decode().split() == [hashlib.sha256(found[MANIFEST]).hexdigest(), MANIFEST]


def test_the_same_run_gives_the_same_bytes(told: Recorded, raw: bytes) -> None:
    assert make_bundle(history(told.timed(a3_0=1.5)), redact=False).data == raw


def test_a_bundle_is_read_back_as_it_was(told: Recorded, raw: bytes, tmp_path: Path) -> None:
    found = check_bundle(written(tmp_path, raw))
    assert (found.run, found.best, found.complete, found.redacted) == (RUN, "3.0", True, False)
    assert [one.source for one in found.attempts] == [one.source for one in told.attempts]
    assert found.attempts[1].gradings == (told.gradings[1],)
    assert found.sha256 == hashlib.sha256(raw).hexdigest()


def test_modules_beside_the_problem_go_with_it(told: Recorded, tmp_path: Path) -> None:
    package = tmp_path / "models" / "parts"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "scale.py").write_text("SCALE = 2\n")
    file = package / "problem.py"
    file.write_text("from .scale import SCALE\n" + PROBLEM.read_text())
    spec = parse_problem(str(file))
    view = ProblemView(digest=spec.digest, name="x", spec=spec.to_json(), source=file.read_text(), fingerprint="")
    moved = dataclasses.replace(told, run=dataclasses.replace(told.run, problem=view))
    made = make_bundle(history(moved), redact=True)
    assert made.complete
    assert {"problem/files/parts/problem.py", "problem/files/parts/scale.py"} <= members(made.data).keys()


# -- what was done to it -----------------------------------------------------------------------------------------------


def test_every_changed_byte_is_found(raw: bytes, tmp_path: Path) -> None:
    path = tmp_path / "evidence.zip"
    for at in range(0, len(raw), STRIDE):
        path.write_bytes(raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :])
        with pytest.raises(UsageError):
            check_bundle(path)


def test_every_missing_or_added_byte_is_found(raw: bytes, tmp_path: Path) -> None:
    path = tmp_path / "evidence.zip"
    for at in range(0, len(raw), 7 * STRIDE):
        for data in (raw[:at], raw[:at] + raw[at + 1 :], raw[:at] + b"\0" + raw[at:]):
            path.write_bytes(data)
            with pytest.raises(UsageError):
                check_bundle(path)
    path.write_bytes(raw + b"\n")
    with pytest.raises(UsageError, match="1 bytes were added"):
        check_bundle(path)


def changed(data: bytes, **changes: bytes | None) -> bytes:
    """Return a well-formed archive with other members; None removes one."""
    found: dict[str, bytes | None] = {**members(data), **changes}
    return bundle_archive.pack({name: content for name, content in found.items() if content is not None})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"attempts/3.0/source.py": b"import os\n"}, "attempts/3.0/source.py was changed"),
        ({"attempts/3.0/source.py": None}, "attempts/3.0/source.py is missing"),
        ({"attempts/4.0/source.py": b"x = 1\n"}, "attempts/4.0/source.py was added"),
        ({MANIFEST: b"{}"}, "manifest.json does not have the hash"),
        ({SEAL: None}, "manifest.sha256 is missing"),
    ],
)
def test_what_was_changed_is_named(raw: bytes, tmp_path: Path, changes: Mapping[str, bytes | None], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        check_bundle(written(tmp_path, changed(raw, **changes)))


def forged(data: bytes, name: str, content: bytes) -> bytes:
    """Change a member and fix all hashes, as somebody could who knows the format."""
    found = members(data) | {name: content}
    manifest = json.loads(found[MANIFEST])
    manifest["members"][name] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    found[MANIFEST] = json.dumps(manifest).encode()
    found[SEAL] = f"{hashlib.sha256(found[MANIFEST]).hexdigest()}  {MANIFEST}\n".encode()
    return bundle_archive.pack(found)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("attempts/3.0/source.py", b"import os\n", "not the candidate"),
        ("attempts/3.0/source.py", b"\xff\xfe", "not text"),
        ("run.json", b"[" * 100_000, "not JSON"),
        ("run.json", b'{"best": "9.9", "attempts": [], "settings": {}}', "best attempt"),
        ("run.json", b"[]", "do not make a run"),
        ("attempts/3.0/gradings.json", b'[{"grader": "1"}]', "attempt"),
        ("problem/spec.json", b'{"path": 1}', "do not make a run"),
        ("problem/spec.json", b"1" * 5000, "not JSON"),
    ],
)
def test_a_forged_member_that_makes_no_run_is_refused(
    raw: bytes, tmp_path: Path, name: str, content: bytes, words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        check_bundle(written(tmp_path, forged(raw, name, content)))


# -- hostile files -----------------------------------------------------------------------------------------------------


def archive(*entries: tuple[zipfile.ZipInfo | str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as made:
        for entry, content in entries:
            # With its own date, an entry is the same bytes whenever it is made.
            named = zipfile.ZipInfo(entry) if isinstance(entry, str) else entry
            made.writestr(named, content, compress_type=method)
    return out.getvalue()


def link(name: str) -> zipfile.ZipInfo:
    made = zipfile.ZipInfo(name)
    made.external_attr = (stat.S_IFLNK | 0o777) << 16
    return made


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (archive(("a.json", bytes(50 << 20)), method=zipfile.ZIP_DEFLATED), "compressed"),
        (archive(("../../escape.py", b"")), "not a plain relative name"),
        (archive(("/etc/cron.d/x.txt", b"")), "not a plain relative name"),
        (archive(("a/../b.py", b"")), "not a plain relative name"),
        (archive(("a\\b.py", b"")), "not a plain relative name"),
        (archive(("weights.pkl", b"\x80\x04.")), "only .json"),
        (archive(("inputs.pt", b"PK")), "only .json"),
        (archive((link("a.txt"), b"/etc/passwd")), "changed"),
        (archive(("b.py", b""), ("a.py", b"")), "out of order|header"),
        (b"", "does not begin"),
        (b"PK\5\6" + bytes(18), "does not begin"),
        (b"PK\3\4", "within a member's header"),
        (b"#!/bin/sh\n", "does not begin"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_hostile_archive_is_refused(data: bytes, words: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=words):
        check_bundle(written(tmp_path, data))
    assert [path.name for path in tmp_path.iterdir()] == ["evidence.zip"]


def test_an_enormous_file_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "evidence.zip"
    with path.open("wb") as file:
        os.truncate(file.fileno(), bundle_archive.LARGEST_BYTES + 1)
    with pytest.raises(UsageError, match="more than"):
        check_bundle(path)


# -- redaction ---------------------------------------------------------------------------------------------------------


def test_a_redacted_bundle_tells_no_folder_user_or_machine(told: Recorded, tmp_path: Path) -> None:
    secrets = {"/home/alice/secret/problem.py", "alice", str(EXAMPLES), str(PROBLEM.parent), platform.node()}
    source = (told.attempts[3].source or "") + "# by alice in /home/alice/secret\n"
    attempts = (
        *told.attempts[:3],
        dataclasses.replace(told.attempts[3], source=source, plan="as in /home/alice/secret/problem.py, says alice"),
    )
    settings = {**told.run.settings, "store": "postgresql://alice:pass@db.example.org/runs"}
    run = dataclasses.replace(told.run, settings=settings)
    verdict = told.gradings[3].evaluation
    assert verdict is not None
    judged = dataclasses.replace(
        told.gradings[3], evaluation=dataclasses.replace(verdict, candidate=candidate_id(source))
    )
    changed = dataclasses.replace(told, run=run, attempts=attempts, gradings=(*told.gradings[:3], judged))
    made = make_bundle(history(changed), redact=True)
    text = b"\n".join(members(made.data).values()).decode()
    for secret in secrets - {""}:
        assert secret not in text
    assert "db.example.org" not in text
    assert "pass@" not in text
    found = check_bundle(written(tmp_path, made.data))
    assert found.redacted
    assert found.attempts[3].source == source.replace("alice in /home/alice/secret", "<user> in <path>/secret")


def test_redaction_changes_comments_and_texts_of_code_and_nothing_else() -> None:
    source = 'alice = 6 / 2 /home/ 1  # alice\nname = f"{alice} of alice at /home/alice/x"\n'
    told = Redaction([source])
    assert told.code(source) == 'alice = 6 / 2 /home/ 1  # <user>\nname = f"{alice} of <user> at <path>/x"\n'
    assert told.text("case N=1 / as given, 3/4") == "case N=1 / as given, 3/4"
    assert told.data({"metric": "max"}) == {"metric": "max"}
    assert told.text('File "/opt/x y/z.py"') != 'File "/opt/x y/z.py"'


def test_common_names_are_left_since_they_are_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(getpass, "getuser", lambda: "root")
    assert Redaction([]).text("the square root") == "the square root"


# -- the commands ------------------------------------------------------------------------------------------------------


@pytest.fixture
def place(told: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "store.db"
    with Store.open(path) as store:
        told.into(store)
    monkeypatch.setenv("TRITON_AGENT_STORE", str(path))
    monkeypatch.chdir(tmp_path)
    return path


def test_a_bundle_is_written_and_its_bytes_checked(place: Path, tmp_path: Path) -> None:
    done = call("bundle", "last", "-o", "e.zip", "--json").json
    assert done["sha256"] == hashlib.sha256((tmp_path / "e.zip").read_bytes()).hexdigest()
    checked = call("verify-bundle", "e.zip", "--hashes-only")
    assert checked.code == 0
    assert done["sha256"] in checked.stdout
    call("bundle", "last", "-o", "again.zip")
    assert (tmp_path / "again.zip").read_bytes() == (tmp_path / "e.zip").read_bytes()


@pytest.mark.slow
def test_a_bundle_is_judged_again_with_problem_and_candidates_confined(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from triton_agent.runs.history import judge_again

    asked: list[Any] = []
    real = judge_again.evaluator_for
    monkeypatch.setattr(
        judge_again, "evaluator_for", lambda spec, settings, say: asked.append(settings) or real(spec, settings)
    )
    call("bundle", RUN, "--redact", "-o", "e.zip")
    done = call("verify-bundle", "e.zip", "--all", "--json")
    assert done.code == 0, done.stderr
    assert [one["agreement"] for one in done.json["outcomes"]] == ["same"] * 3
    assert asked[0].trust is False


@pytest.mark.slow
def test_a_false_verdict_in_a_bundle_is_found(told: Recorded, tmp_path: Path) -> None:
    """All hashes are right, but the wrong kernel carries the verdict of the right one."""
    attempt = told.attempts[1]
    own, praise = told.gradings[1].evaluation, told.gradings[3].evaluation
    assert own is not None
    assert praise is not None
    lie = dataclasses.replace(
        told.gradings[3], attempt=attempt.key, evaluation=dataclasses.replace(praise, candidate=own.candidate)
    )
    end = told.end and dataclasses.replace(told.end, best=attempt.key)
    liar = dataclasses.replace(told, gradings=(told.gradings[0], lie, *told.gradings[2:]), end=end)
    path = written(tmp_path, make_bundle(history(liar), redact=False).data)
    assert call("verify-bundle", str(path), "--hashes-only").code == 0
    done = call("verify-bundle", str(path))
    assert done.code == exit_codes.NOT_PASSED
    assert "differs" in done.stdout


def test_a_bundle_without_the_whole_problem_can_only_be_checked(told: Recorded, tmp_path: Path) -> None:
    view = dataclasses.replace(told.run.problem, digest="0" * 64, spec={**told.run.problem.spec, "path": "/gone.py"})
    lost = dataclasses.replace(told, run=dataclasses.replace(told.run, problem=view))
    made = make_bundle(history(lost), redact=False)
    assert not made.complete
    path = written(tmp_path, made.data)
    assert call("verify-bundle", str(path), "--hashes-only").code == 0
    with pytest.raises(NotJudgeableHere, match="whole problem"):
        call("verify-bundle", str(path))


@pytest.mark.parametrize(("arguments", "word"), [(("none.zip",), "no such file"), ((".",), "is a folder")])
def test_what_is_no_bundle_is_refused(place: Path, arguments: tuple[str, ...], word: str) -> None:
    with pytest.raises(UsageError, match=word):
        call("verify-bundle", *arguments)
