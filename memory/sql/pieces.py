"""Takes an attempt apart for storing and puts it together again.

Parts that attempts share become blobs under the hash of their bytes: sources, messages, problem views, whole
observations (siblings have equal ones), prompts. The rest, mostly the answer's text, is a small JSON body. If the text
contains the source, as it usually does, the body holds only the text around it.

Short texts are not worth a blob and stay in place; a blob is referred to by `{"blob": hash}`.
"""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

from triton_agent.memory.observation import Observation, ProblemView
from triton_agent.memory.records import Attempt, Completion, Message, ToolCall
from triton_agent.memory.sql import encoding, packing

SHORT_CHARACTERS = 160
"""Up to this length a text takes less space inline than as a blob."""
_SEPARATE = ("text", "messages", "prompt_ids", "token_ids", "log_probabilities", "mask")
"""Fields of a completion that are stored outside its body."""

_REFERENCE = re.compile(rb'{"blob":"([0-9a-f]{64})"}')

Fetch = Callable[[bytes], bytes]
"""Returns the bytes of a hash."""


class Shelf:
    """Collects shared bytes on their way into the store."""

    def __init__(self, is_known: Callable[[bytes], bool] = lambda sha: False) -> None:
        self.blobs: dict[bytes, bytes] = {}
        """Packed bytes by the hash of the unpacked ones; without those already in the store."""
        self._is_known = is_known

    def put(self, data: bytes) -> bytes:
        """Add bytes and return their hash."""
        sha = hashlib.sha256(data).digest()
        if sha not in self.blobs and not self._is_known(sha):
            self.blobs[sha] = packing.squeeze(data)
        return sha

    def put_text(self, text: str) -> str | dict[str, str]:
        """Return the text itself if it is short, otherwise a reference to its blob."""
        return text if len(text) <= SHORT_CHARACTERS else {"blob": self.put(_bytes(text)).hex()}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Pieces:
    """An attempt taken apart; its shared parts are on the shelf."""

    observation_sha: bytes
    view_sha: bytes
    source_sha: bytes | None
    conversation_sha: bytes | None
    prompt_ids_sha: bytes | None
    body: bytes
    token_ids: bytes | None
    log_probabilities: bytes | None
    mask: bytes | None

    @property
    def digest(self) -> bytes:
        """Hash over all parts."""
        whole = hashlib.sha256()
        for name in encoding.field_names(Pieces):
            part: bytes | None = getattr(self, name)
            whole.update(b"-" if part is None else b"%d:" % len(part))
            whole.update(part or b"")
        return whole.digest()


def take_apart(attempt: Attempt, shelf: Shelf, shared: tuple[bytes, bytes] | None = None) -> Pieces:
    """Take an attempt apart. `shared` holds the hashes of problem view and observation if the shelf already has
    them.
    """
    completion = attempt.completion
    view_sha, observation_sha = shared or put_observation(attempt.observation, shelf)
    tokens, chances, mask = completion.token_ids, completion.log_probabilities, completion.mask
    return Pieces(
        observation_sha=observation_sha,
        view_sha=view_sha,
        source_sha=None if attempt.source is None else shelf.put(_bytes(attempt.source)),
        conversation_sha=_put_conversation(completion.messages, shelf) if completion.messages else None,
        prompt_ids_sha=None if completion.prompt_ids is None else _put_ids(completion.prompt_ids, shelf),
        body=packing.squeeze(encoding.to_text(_body(attempt)).encode()),
        token_ids=None if tokens is None else packing.pack_integers(tokens),
        log_probabilities=None if chances is None else packing.pack_floats(chances),
        mask=None if mask is None else packing.pack_flags(mask),
    )


def put_together(
    pieces: Pieces, fetch: Fetch, *, run: str, turn: int, index: int, parent: str | None, observation: Observation
) -> Attempt:
    """Undo `take_apart`."""
    body = json.loads(packing.unsqueeze(pieces.body))
    source = None if pieces.source_sha is None else _text(fetch(pieces.source_sha))
    text = source.join(body["around"]) if source is not None and "around" in body else body["text"]
    ids = pieces.prompt_ids_sha
    completion = encoding.from_plain(Completion, body["completion"] | {"text": text})
    return Attempt(
        run=run,
        turn=turn,
        index=index,
        parent=parent,
        observation=observation,
        completion=dataclasses.replace(
            completion,
            messages=_conversation(pieces.conversation_sha, fetch),
            prompt_ids=None if ids is None else packing.unpack_integers(fetch(ids)),
            token_ids=None if pieces.token_ids is None else packing.unpack_integers(pieces.token_ids),
            log_probabilities=_unpacked(packing.unpack_floats, pieces.log_probabilities),
            mask=_unpacked(packing.unpack_flags, pieces.mask),
        ),
        plan=body["plan"],
        source=source,
        created_at=datetime.datetime.fromisoformat(body["created_at"]),
    )


def put_view(view: ProblemView, shelf: Shelf) -> bytes:
    """Put a problem view on the shelf and return its hash; the text of its file is a blob of its own."""
    return shelf.put(encoding.to_text(_shallow(view) | {"source": shelf.put_text(view.source)}).encode())


def get_view(data: bytes, fetch: Fetch) -> ProblemView:
    plain = json.loads(data)
    return encoding.from_plain(ProblemView, plain | {"source": _get_text(plain["source"], fetch)})


def put_observation(observation: Observation, shelf: Shelf) -> tuple[bytes, bytes]:
    """Put an observation on the shelf and return the hashes of its problem view and of itself."""
    view_sha = put_view(observation.problem, shelf)
    tried = [_shallow(item) | {"source": shelf.put_text(item.source)} for item in observation.tried]
    recalled = [_shallow(item) | {"text": shelf.put_text(item.text)} for item in observation.recalled]
    plain = _shallow(observation) | {"problem": {"blob": view_sha.hex()}, "tried": tried, "recalled": recalled}
    return view_sha, shelf.put(encoding.to_text(plain).encode())


def get_observation(data: bytes, fetch: Fetch, view_of: Callable[[bytes], ProblemView]) -> Observation:
    """Read an observation; `view_of` reads a problem view by its hash, which many observations share."""
    plain = json.loads(data)
    view = view_of(bytes.fromhex(plain["problem"]["blob"]))
    for items, name in ((plain["tried"], "source"), (plain["recalled"], "text")):
        for item in items:
            item[name] = _get_text(item[name], fetch)
    return encoding.from_plain(Observation, plain | {"problem": view})


def references_in(data: bytes) -> Iterator[bytes]:
    """Yield the hashes that an observation, a view or a conversation refers to, so that they can be fetched all at
    once.

    Quotes within texts are escaped, so no text is mistaken for a reference.
    """
    for match in _REFERENCE.finditer(data):
        yield bytes.fromhex(match[1].decode())


def _body(attempt: Attempt) -> dict[str, Any]:
    completion, source = attempt.completion, attempt.source
    small = {name: value for name, value in _shallow(completion).items() if name not in _SEPARATE}
    body = {"completion": small, "plan": attempt.plan, "created_at": attempt.created_at}
    if source and source in completion.text:
        return body | {"around": completion.text.split(source, 1)}
    return body | {"text": completion.text}


def _put_conversation(messages: tuple[Message, ...], shelf: Shelf) -> bytes:
    plain = [[message.role, shelf.put_text(message.content), *_about_tools(message)] for message in messages]
    return shelf.put(encoding.to_text(plain).encode())


def _about_tools(message: Message) -> tuple[Any, ...]:
    """Return the parts that only messages about tools have; nothing for other messages, whose encoding must not
    change.
    """
    return (message.calls, message.answers_call) if message.calls or message.answers_call else ()


def _conversation(sha: bytes | None, fetch: Fetch) -> tuple[Message, ...]:
    if sha is None:
        return ()
    return tuple(_message(fetch, *parts) for parts in json.loads(fetch(sha)))


def _message(fetch: Fetch, role: str, text: Any, calls: Sequence[Any] = (), answers_call: str = "") -> Message:
    asked = tuple(encoding.from_plain(ToolCall, call) for call in calls)
    return Message(role=role, content=_get_text(text, fetch), calls=asked, answers_call=answers_call)


def _put_ids(ids: tuple[int, ...], shelf: Shelf) -> bytes:
    """Pack before hashing: `fetch` returns the bytes of a blob as they were hashed."""
    return shelf.put(packing.pack_integers(ids))


def _get_text(place: str | dict[str, str], fetch: Fetch) -> str:
    return place if isinstance(place, str) else _text(fetch(bytes.fromhex(place["blob"])))


def _unpacked(unpack: Callable[[bytes], Any], packed: bytes | None) -> Any:
    return None if packed is None else unpack(packed)


def _shallow(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in encoding.field_names(cast(Any, type(value)))}


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")
