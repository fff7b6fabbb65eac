"""The file format of evidence bundles: a zip archive of one strict form, so that nothing can hide in it.

Members lie one after another in the order of their names, uncompressed, with a fixed date and no extra fields. Equal
members give equal bytes on every machine, and any unzip opens them. Reading accepts this form only: anything
compressed, encrypted, overlapping, out of order, oddly named or between members is refused, so no member can unpack to
more than the file's size or be written outside a folder.

Not covered: the members' contents; see `check.py`. A forger can write a new archive.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Mapping

from triton_agent.tools.errors import UsageError

LARGEST_BYTES = 256 << 20
"""Largest bundle; a run of a thousand attempts takes a tenth of it."""
MOST_MEMBERS = 20_000
DATE, TIME = (1 << 5) | 1, 0
"""1 January 1980, the earliest date of the format."""
ENDINGS = (".json", ".py", ".txt", ".sha256")
"""Text only: no pickle, no library, nothing that runs when opened."""

_NAME = re.compile(r"[A-Za-z0-9_.\-]+(/[A-Za-z0-9_.\-]+)*")
_LOCAL = struct.Struct("<4s5H3L2H")
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_END = struct.Struct("<4s4H2LH")
_VERSION, _UNIX, _FILE_MODE = 20, 3, 0o100644 << 16


def pack(members: Mapping[str, bytes]) -> bytes:
    """Make an archive of these members."""
    body, directory = bytearray(), bytearray()
    for name in sorted(members):
        if fault := fault_of(name):
            raise ValueError(f"{name!r}: {fault}")
        local, central = _headers(name, members[name], len(body))
        body += local + members[name]
        directory += central
    end = _END.pack(b"PK\5\6", 0, 0, len(members), len(members), len(directory), len(body), 0)
    return bytes(body + directory + end)


def unpack(data: bytes, where: str) -> dict[str, bytes]:
    """Return the members of an archive; UsageError names the first fault."""
    if len(data) > LARGEST_BYTES:
        raise _refused(where, f"{len(data):,} bytes are more than a bundle may have ({LARGEST_BYTES:,})")
    members: dict[str, bytes] = {}
    at, last = 0, ""
    while data[at : at + 4] == b"PK\3\4":
        name, content, at = _member(data, at, where)
        if name <= last:
            raise _refused(where, f"member {name} is there twice or out of order")
        members[name], last = content, name
        if len(members) > MOST_MEMBERS:
            raise _refused(where, f"more than {MOST_MEMBERS:,} members")
    if not members:
        raise _refused(where, "it does not begin with a member")
    _require_rest(data, at, members, where)
    return members


def _headers(name: str, content: bytes, offset: int) -> tuple[bytes, bytes]:
    raw, crc, size = name.encode("ascii"), zlib.crc32(content), len(content)
    local = _LOCAL.pack(b"PK\3\4", _VERSION, 0, 0, TIME, DATE, crc, size, size, len(raw), 0)
    made_by = (_UNIX << 8) | _VERSION
    fields = (made_by, _VERSION, 0, 0, TIME, DATE, crc, size, size, len(raw), 0, 0, 0, 0, _FILE_MODE, offset)
    return local + raw, _CENTRAL.pack(b"PK\1\2", *fields) + raw


def _member(data: bytes, at: int, where: str) -> tuple[str, bytes, int]:
    """Read the member whose header begins at `at`; return also where it ends."""
    if at + _LOCAL.size > len(data):
        raise _refused(where, "it ends within a member's header")
    fields = _LOCAL.unpack_from(data, at)
    flags, method, size, name_length = fields[2], fields[3], fields[8], fields[9]
    begin = at + _LOCAL.size
    name = data[begin : begin + name_length].decode("latin-1")
    if fault := fault_of(name):
        raise _refused(where, f"member {name!r}: {fault}")
    if method or flags & 1:
        raise _refused(where, f"member {name} is {'compressed' if method else 'encrypted'}; a bundle's members are not")
    content = data[begin + name_length : begin + name_length + size]
    if len(content) != size:
        raise _refused(where, f"member {name} is cut off: {len(content):,} of {size:,} bytes")
    if zlib.crc32(content) != fields[6]:
        raise _refused(where, f"member {name} was changed: its check sum does not fit")
    if data[at:begin] + name.encode("ascii") != _headers(name, content, 0)[0]:
        raise _refused(where, f"the header of member {name} was changed")
    return name, content, begin + name_length + size


def _require_rest(data: bytes, at: int, members: Mapping[str, bytes], where: str) -> None:
    """Require that the directory follows the members, entry by entry, and nothing else."""
    offset = 0
    for name, content in members.items():
        local, central = _headers(name, content, offset)
        if data[at : at + len(central)] != central:
            raise _refused(where, f"the directory's entry of member {name} was changed or is missing")
        offset += len(local) + len(content)
        at += len(central)
    end = pack(members)[-_END.size :]
    if data[at : at + _END.size] != end:
        raise _refused(where, "the end of the directory was changed or is missing")
    if extra := len(data) - at - _END.size:
        raise _refused(where, f"{extra:,} bytes were added after its end")


def fault_of(name: str) -> str:
    """Return why a member may not have this name; empty if it may."""
    if not _NAME.fullmatch(name) or any(set(part) == {"."} for part in name.split("/")) or len(name) > 240:
        return "not a plain relative name"
    return "" if name.endswith(ENDINGS) else f"only {', '.join(ENDINGS)} are taken"


def _refused(where: str, what: str) -> UsageError:
    return UsageError(
        f"not an evidence bundle as `triton-agent bundle` writes it: {what}", where=where, remedy="get the file anew"
    )
