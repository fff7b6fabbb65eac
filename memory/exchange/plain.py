"""Records as plain data in one canonical form, and back: equal records give equal text on every machine and store.

Times are in UTC with microseconds, keys are sorted, and the text is ASCII. Numbers have one form each: the shortest for
a float, without a fraction where it is whole, since not all databases tell `1.0` from `1`. Reading follows the records'
types; an unknown value is an error, since dropping it would lose it silently.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import hashlib
import json
from collections.abc import Hashable
from typing import Any, TypeVar, cast

import pydantic

from triton_agent.tools.errors import UsageError
from triton_agent.tools.results import to_json

Record = TypeVar("Record")
_EXACT_BELOW = 2.0**53
"""Up to this size every whole number is exactly one float."""


def to_plain(value: Any) -> Any:
    """Convert to plain data for JSON; see `to_json`; times become text."""
    if isinstance(value, datetime.datetime):
        return to_text(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, (list, tuple)):
        return [to_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT_BELOW:
        return int(value)
    return to_json(value)


def to_text(moment: datetime.datetime) -> str:
    """Format a time; one without a zone is read as UTC, as stores without zones hold it."""
    zoned = moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)
    return zoned.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def canonical(data: Any) -> str:
    """Return the canonical text of plain data, without line breaks."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def digest(data: Any) -> str:
    """Return the hash of plain data by its content."""
    return hashlib.sha256(canonical(data).encode()).hexdigest()


def from_plain(kind: type[Record], data: Any, where: str) -> Record:
    """Read a record from plain data; UsageError says what is wrong with it."""
    try:
        record: Record = _adapter(cast(Hashable, kind)).validate_python(data)
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise _unfit(where, f"{kind.__name__}.{place}: {first['msg']}") from None
    if lost := _left_over(data, to_plain(record), kind.__name__):
        raise _unfit(where, f"{lost} is not a known field")
    return record


@functools.cache
def _adapter(kind: Hashable) -> pydantic.TypeAdapter[Any]:
    return pydantic.TypeAdapter(cast(Any, kind))


def _left_over(data: Any, read: Any, place: str) -> str:
    """Return the first place in `data` that was lost by reading; empty if nothing was."""
    if isinstance(data, dict) and isinstance(read, dict):
        if missing := sorted(data.keys() - read.keys()):
            return f"{place}.{missing[0]}"
        found = (_left_over(item, read[key], f"{place}.{key}") for key, item in data.items())
    elif isinstance(data, list) and isinstance(read, list) and len(data) == len(read):
        found = (_left_over(one, other, f"{place}[{at}]") for at, (one, other) in enumerate(zip(data, read)))
    else:
        return ""
    return next(filter(None, found), "")


def _unfit(where: str, what: str) -> UsageError:
    return UsageError(what, where=where, remedy="export it anew, or read it with the version that wrote it")
