"""An attempt taken apart for storing, and put together again.

What attempts share goes to the *shelf*, by the hash of its bytes: sources, messages, problem views, whole observations
(siblings have the same), prompts. The rest, the answer's text above all, is a small JSON body. Where the text holds the
source, as it mostly does, the body has only what stands around it.

Short texts are not worth a blob of their own and stay where they are; a blob's place holds `{"blob": hash}`.
"""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import json
import re
from collections.abc import Callable, Iterator
from typing import Any, cast

from triton_agent.memory import encoding, packing
from triton_agent.memory.observation import Observation, ProblemView
from triton_agent.memory.records import Attempt, Completion, Message

SHORT_CHARACTERS = 160
"""Up to here a text costs less in its place than a row of its own."""
_SEPARATE = ("text", "messages", "prompt_ids", "token_ids", "log_probabilities", "mask")
"""Fields of a completion that are not in its body."""

_REFERENCE = re.compile(rb'{"blob":"([0-9a-f]{64})"}')

Fetch = Callable[[bytes], bytes]
"""Hands back the bytes behind a hash."""


class Shelf:
    """Shared bytes on their way into the store."""

    def __init__(self, is_known: Callable[[bytes], bool] = lambda sha: False) -> None:
        self.blobs: dict[bytes, bytes] = {}
        """Packed, by the hash of what was put in; without those that are known to be in the store."""
        self._is_known = is_known

    def put(self, data: bytes) -> bytes:
        """Its hash."""
        sha = hashlib.sha256(data).digest()
        if sha not in self.blobs and not self._is_known(sha):
            self.blobs[sha] = packing.squeeze(data)
        return sha

    def put_text(self, text: str) -> str | dict[str, str]:
        """What stands in its place."""
        return text if len(text) <= SHORT_CHARACTERS else {"blob": self.put(_bytes(text)).hex()}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Pieces:
    """An attempt taken apart; what was shared is on the shelf."""

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
        """Of all that was said and shown."""
        whole = hashlib.sha256()
        for name in encoding.field_names(Pieces):
            part: bytes | None = getattr(self, name)
            whole.update(b"-" if part is None else b"%d:" % len(part))
            whole.update(part or b"")
        return whole.digest()


def take_apart(attempt: Attempt, shelf: Shelf, shared: tuple[bytes, bytes] | None = None) -> Pieces:
    """`shared` are the hashes of problem view and observation, where these are on the shelf already."""
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
    """The attempt that was taken apart."""
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
    """Hash of a problem view; the text of its file is a blob of its own."""
    return shelf.put(encoding.to_text(_shallow(view) | {"source": shelf.put_text(view.source)}).encode())


def get_view(data: bytes, fetch: Fetch) -> ProblemView:
    plain = json.loads(data)
    return encoding.from_plain(ProblemView, plain | {"source": _get_text(plain["source"], fetch)})


def put_observation(observation: Observation, shelf: Shelf) -> tuple[bytes, bytes]:
    """Hashes of its problem view and of itself."""
    view_sha = put_view(observation.problem, shelf)
    tried = [_shallow(item) | {"source": shelf.put_text(item.source)} for item in observation.tried]
    recalled = [_shallow(item) | {"text": shelf.put_text(item.text)} for item in observation.recalled]
    plain = _shallow(observation) | {"problem": {"blob": view_sha.hex()}, "tried": tried, "recalled": recalled}
    return view_sha, shelf.put(encoding.to_text(plain).encode())


def get_observation(data: bytes, fetch: Fetch, view_of: Callable[[bytes], ProblemView]) -> Observation:
    """`view_of` reads a problem view, which many observations share, by its hash."""
    plain = json.loads(data)
    view = view_of(bytes.fromhex(plain["problem"]["blob"]))
    for items, name in ((plain["tried"], "source"), (plain["recalled"], "text")):
        for item in items:
            item[name] = _get_text(item[name], fetch)
    return encoding.from_plain(Observation, plain | {"problem": view})


def references_in(data: bytes) -> Iterator[bytes]:
    """Hashes that an observation, a view or a conversation speaks of, so that they can be fetched all at once.

    A quote within a text is escaped, so no text is taken for one.
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
    return shelf.put(
        encoding.to_text([[message.role, shelf.put_text(message.content)] for message in messages]).encode()
    )


def _conversation(sha: bytes | None, fetch: Fetch) -> tuple[Message, ...]:
    if sha is None:
        return ()
    return tuple(Message(role=role, content=_get_text(text, fetch)) for role, text in json.loads(fetch(sha)))


def _put_ids(ids: tuple[int, ...], shelf: Shelf) -> bytes:
    """Packed before they are hashed: the bytes of a blob are what `fetch` hands back."""
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
