"""Prepares records for the database outside of any transaction: hashes, packs and validates them.

Most of the work of storing is here and needs no lock: threads prepare side by side while one writes.
"""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import math
import re
from typing import Any, TypeAlias

from triton_agent.memory.errors import NotInStore
from triton_agent.memory.observation import Observation, ProblemView
from triton_agent.memory.records import Attempt, Event, Grading, Run, RunEnd
from triton_agent.memory.redaction import redact
from triton_agent.memory.sql import encoding, packing
from triton_agent.memory.sql.pieces import Pieces, Shelf, put_observation, put_view, take_apart
from triton_agent.memory.techniques import techniques_of
from triton_agent.memory.verdicts import condensed, failure_key
from triton_agent.tools.errors import UsageError

MOST_KNOWN = 1 << 16
"""Hashes of stored blobs that are remembered; this many take about 10 MB."""
MOST_SHELVED = 32
"""Observations that are remembered as taken apart; siblings come one after the other."""
_RUN_ID = re.compile(r"[^\x00-\x20\x7f\ud800-\udfff]{1,200}")
_NOT_FOR_COLUMNS = re.compile("[\x00\ud800-\udfff]")
_LARGEST = 2**31 - 1
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)
Key: TypeAlias = tuple[str, int, int]
"""Run, turn and answer: the parts of `run/turn.answer`."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PreparedGrading:
    record: Grading
    key: Key
    digest: bytes
    graded_us: int
    body: bytes
    failure_key: int | None
    message: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PreparedAttempt:
    record: Attempt
    key: Key
    digest: bytes
    pieces: Pieces
    blobs: dict[bytes, bytes]
    created_us: int
    techniques: str
    grading: PreparedGrading | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PreparedRun:
    record: Run
    digest: bytes
    view_sha: bytes
    blobs: dict[bytes, bytes]
    started_us: int
    body: bytes


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PreparedEnd:
    record: RunEnd
    digest: bytes
    ended_us: int
    body: bytes


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PreparedEvent:
    record: Event
    digest: bytes
    at_us: int
    body: bytes


Prepared: TypeAlias = PreparedRun | PreparedAttempt | PreparedGrading | PreparedEnd | PreparedEvent
Record: TypeAlias = Run | Attempt | Grading | RunEnd | Event


@dataclasses.dataclass(slots=True)
class _Shelved:
    """An observation that was taken apart, and its blobs."""

    observation: Observation
    hashes: tuple[bytes, bytes]
    blobs: dict[bytes, bytes]


class Preparer:
    """Prepares records; remembers stored blobs, so that none is compressed or sent twice. Threads may share one."""

    def __init__(self) -> None:
        self._known: set[bytes] = set()
        self._shelved: dict[int, _Shelved] = {}

    def learn(self, shas: set[bytes]) -> None:
        """Remember blobs as stored; to be called after the commit only."""
        if len(self._known) > MOST_KNOWN:
            self._known = set()
        self._known |= shas

    def prepare(self, record: Record) -> Prepared:
        match record:
            case Attempt():
                return self.attempt(record, None)
            case Grading():
                return prepare_grading(record)
            case Run():
                return self._run(record)
            case RunEnd():
                return _end(record)
            case Event():
                return _event(record)

    def attempt(self, attempt: Attempt, grading: Grading | None) -> PreparedAttempt:
        _require_key(attempt)
        if grading is not None and grading.attempt != attempt.key:
            raise UsageError(f"the grading is of {grading.attempt}, the attempt is {attempt.key}")
        shelf = Shelf(self._known.__contains__)
        pieces = take_apart(attempt, shelf, self._shelve(attempt.observation, shelf))
        return PreparedAttempt(
            record=attempt,
            key=(attempt.run, attempt.turn, attempt.index),
            digest=attempt_digest(pieces, attempt.parent),
            pieces=pieces,
            blobs=shelf.blobs,
            created_us=microseconds(attempt.created_at),
            techniques="\n".join(techniques_of(attempt.plan)),
            grading=None if grading is None else prepare_grading(grading),
        )

    def _shelve(self, observation: Observation, shelf: Shelf) -> tuple[bytes, bytes]:
        """Take an observation apart. Observations are recognised by identity, so siblings share the work."""
        shelved = self._shelved.get(id(observation))
        if shelved is None or shelved.observation is not observation:
            own = Shelf(self._known.__contains__)
            shelved = _Shelved(observation, put_observation(observation, own), own.blobs)
            if len(self._shelved) >= MOST_SHELVED:
                self._shelved = {}
            self._shelved[id(observation)] = shelved
        shelf.blobs.update((sha, data) for sha, data in shelved.blobs.items() if sha not in self._known)
        return shelved.hashes

    def _run(self, run: Run) -> PreparedRun:
        if not _RUN_ID.fullmatch(run.id):
            raise UsageError(f"a run cannot be called {run.id!r:.100}", remedy="printable characters, 200 at most")
        shelf = Shelf(self._known.__contains__)
        view_sha = put_view(run.problem, shelf)
        rest = {name: getattr(run, name) for name in ("policy", "started_at", "forked_from", "commit")}
        body = encoding.to_text(rest | {"settings": redact(run.settings)}).encode()
        return PreparedRun(
            record=run,
            digest=hashlib.sha256(view_sha + body).digest(),
            view_sha=view_sha,
            blobs=shelf.blobs,
            started_us=microseconds(run.started_at),
            body=packing.squeeze(body),
        )


def attempt_digest(pieces: Pieces, parent: str | None) -> bytes:
    """Digest of an attempt without its key."""
    return hashlib.sha256(pieces.digest + column_text(parent or "").encode()).digest()


def prepare_grading(grading: Grading) -> PreparedGrading:
    body = encoding.to_text(grading).encode()
    verdict = grading.evaluation
    failed = verdict if verdict is not None and verdict.finding is not None else None
    return PreparedGrading(
        record=grading,
        key=parse_key(grading.attempt),
        digest=hashlib.sha256(body).digest(),
        graded_us=microseconds(grading.graded_at),
        body=packing.squeeze(body),
        failure_key=failure_key(failed) if failed else None,
        message=column_text(condensed(failed.message)) if failed else "",
    )


def _end(end: RunEnd) -> PreparedEnd:
    body = encoding.to_text(dataclasses.replace(end, summary=redact(end.summary))).encode()
    digest = hashlib.sha256(body).digest()
    return PreparedEnd(record=end, digest=digest, ended_us=microseconds(end.ended_at), body=packing.squeeze(body))


def _event(event: Event) -> PreparedEvent:
    body = encoding.to_text(dataclasses.replace(event, data=redact(event.data))).encode()
    digest = hashlib.sha256(body).digest()
    return PreparedEvent(record=event, digest=digest, at_us=microseconds(event.at), body=packing.squeeze(body))


def parse_key(key: str) -> Key:
    """Split an attempt's key into run, turn and answer."""
    run, _, place = key.rpartition("/")
    turn, _, answer = place.partition(".")
    if not run or not (turn.isdecimal() and answer.isdecimal() and turn.isascii() and answer.isascii()):
        raise NotInStore(f"{key!r:.100} is not the key of an attempt", remedy="keys look like RUN/TURN.ANSWER")
    return run, min(int(turn), _LARGEST), min(int(answer), _LARGEST)


def _require_key(attempt: Attempt) -> None:
    if not (0 <= attempt.turn <= _LARGEST and 0 <= attempt.index <= _LARGEST):
        raise UsageError(f"turns and answers count from 0, and this is {attempt.key}")


def microseconds(moment: datetime.datetime) -> int:
    """Microseconds since 1970 in UTC; a time without a zone is read as UTC."""
    zoned = moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)
    return (zoned - _EPOCH) // _MICROSECOND


def moment_of(microseconds_since: int) -> datetime.datetime:
    return _EPOCH + microseconds_since * _MICROSECOND


def column_text(text: str) -> str:
    """Replace characters that some database refuses in a column. The records themselves keep them."""
    return _NOT_FOR_COLUMNS.sub("\ufffd", text)


def problem_columns(view: ProblemView) -> dict[str, Any]:
    """Return the columns by which problems are found."""
    graph = view.graphs[0] if view.graphs else {"inputs": {}, "parameters": {}}
    inputs, parameters = graph["inputs"].values(), graph["parameters"].values()
    return {
        "digest": column_text(view.digest),
        "name": column_text(view.name),
        "signature": column_text(view.signature),
        "dtypes": " ".join(sorted({meta["dtype"] for meta in (*inputs, *parameters)})),
        "elements": min(sum(math.prod(meta["shape"]) for meta in inputs), 2**62),
        "device": column_text(view.device),
    }
