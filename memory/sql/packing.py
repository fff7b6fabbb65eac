"""Packs bytes for the store: tokens and log-probabilities without loss, compressed if that saves space.

The first byte of every packed value names the method, so that a better one can be added later and both be read.
Numbers are little-endian.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

from triton_agent.memory.errors import StoreDamaged

PLAIN, DEFLATED = 0, 1
LEVEL = 3
"""zlib's level; kernels compress to within 5 % of level 6 in 60 % of its time."""
WORTH_TRYING_BYTES = 96
PAYS_BELOW = 0.9
"""Compress only if the result is smaller than this share of the original: reading it costs time, too."""
NUMBERS_PAY_BELOW = 0.8
SAMPLE_BYTES = 256
"""Log-probabilities seldom compress, so a sample of this many bytes is tried first."""
_FLOAT_CODES = {4: "f", 8: "d"}


def squeeze(data: bytes) -> bytes:
    """Pack text, compressed if that makes it smaller."""
    if len(data) >= WORTH_TRYING_BYTES:
        small = zlib.compress(data, LEVEL)
        if len(small) < PAYS_BELOW * len(data):
            return bytes((DEFLATED,)) + small
    return bytes((PLAIN,)) + data


def unsqueeze(stored: bytes) -> bytes:
    """Undo `squeeze`."""
    if stored[:1] == bytes((PLAIN,)):
        return stored[1:]
    if stored[:1] != bytes((DEFLATED,)):
        raise StoreDamaged(f"bytes packed in an unknown way ({stored[:1]!r})")
    try:
        return zlib.decompress(stored[1:])
    except zlib.error as error:
        raise StoreDamaged(f"compressed bytes do not open ({error})") from None


def pack_integers(values: Sequence[int]) -> bytes:
    """Pack token ids in as few whole bytes each as the largest needs: all lowest bytes first, then all next ones.

    The upper bytes, few of which differ, then stand together: half the size after compression, in a third of the time.
    """
    import numpy as np

    try:
        packed = struct.pack(f"<{len(values)}I", *values)
    except struct.error:
        return _squeeze_numbers(bytes((8,)) + _pack_wide(values))
    numbers = np.frombuffer(packed, "<u4")
    high = int(numbers.max(initial=0))
    width = 2 if high < 1 << 16 else 3 if high < 1 << 24 else 4
    planes = numbers.view("u1").reshape(-1, 4)[:, :width].T
    return _squeeze_numbers(bytes((width,)) + planes.tobytes())


def _pack_wide(values: Sequence[int]) -> bytes:
    try:
        return struct.pack(f"<{len(values)}q", *values)
    except struct.error:
        raise ValueError("a token id does not fit into 64 bits") from None


def unpack_integers(stored: bytes) -> tuple[int, ...]:
    """Undo `pack_integers`."""
    data = unsqueeze(stored)
    width, packed = data[0], data[1:]
    if width == 8:
        return struct.unpack(f"<{len(packed) // 8}q", packed)
    count = len(packed) // width
    wide = bytearray(count * 4)
    for byte in range(width):
        wide[byte::4] = packed[byte * count : (byte + 1) * count]
    return struct.unpack(f"<{count}I", wide)


def pack_floats(values: Sequence[float]) -> bytes:
    """Pack log-probabilities in single precision if that preserves every bit, otherwise in double."""
    import numpy as np

    double = struct.pack(f"<{len(values)}d", *values)
    with np.errstate(over="ignore", invalid="ignore"):
        single = np.frombuffer(double, "<f8").astype("<f4")
    if single.astype("<f8").tobytes() == double:
        return _squeeze_numbers(bytes((4,)) + single.tobytes())
    return _squeeze_numbers(bytes((8,)) + double)


def unpack_floats(stored: bytes) -> tuple[float, ...]:
    """Undo `pack_floats`."""
    data = unsqueeze(stored)
    width, packed = data[0], data[1:]
    return struct.unpack(f"<{len(packed) // width}{_FLOAT_CODES[width]}", packed)


def pack_flags(values: Sequence[bool]) -> bytes:
    """Pack a mask with a byte per flag, which compresses to next to nothing."""
    return squeeze(bytes(values))


def unpack_flags(stored: bytes) -> tuple[bool, ...]:
    return tuple(map(bool, unsqueeze(stored)))


def _squeeze_numbers(data: bytes) -> bytes:
    """Compress numbers without searching for matches: only runs of equal bytes and frequent bytes occur in them."""
    stride = len(data) // SAMPLE_BYTES | 1  # odd, to meet every byte of a number
    if len(data) < WORTH_TRYING_BYTES or not _pays(data[::stride]):
        return bytes((PLAIN,)) + data
    small = _without_matches(data)
    return bytes((DEFLATED,)) + small if len(small) < NUMBERS_PAY_BELOW * len(data) else bytes((PLAIN,)) + data


def _pays(sample: bytes) -> bool:
    return len(_without_matches(sample)) < NUMBERS_PAY_BELOW * len(sample)


def _without_matches(data: bytes) -> bytes:
    deflate = zlib.compressobj(1, zlib.DEFLATED, zlib.MAX_WBITS, zlib.DEF_MEM_LEVEL, zlib.Z_RLE)
    return deflate.compress(data) + deflate.flush()
