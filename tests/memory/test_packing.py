"""Packed bytes are restored exactly, and compressed only if that saves space."""

from __future__ import annotations

import math
import random
import struct
import sys

import pytest

from triton_agent.memory.errors import StoreDamaged
from triton_agent.memory.sql import packing


@pytest.mark.parametrize("data", [b"", b"x", b"short", b"long " * 1_000, random.Random(0).randbytes(5_000)])
def test_bytes_come_back(data: bytes) -> None:
    assert packing.unsqueeze(packing.squeeze(data)) == data
    assert len(packing.squeeze(data)) <= len(data) + 1


@pytest.mark.parametrize("high", [0, 1, 2**16 - 1, 2**16, 2**24 - 1, 2**24, 2**32 - 1, 2**32, 2**63 - 1])
@pytest.mark.parametrize("low", [0, -1, -(2**63)])
def test_token_ids_of_any_vocabulary_come_back(low: int, high: int) -> None:
    values = (low, high, *(random.Random(high).randrange(high + 1) for _ in range(700)))
    assert packing.unpack_integers(packing.pack_integers(values)) == values
    assert packing.unpack_integers(packing.pack_integers(())) == ()


def test_token_ids_take_three_bytes_at_most_for_the_vocabularies_of_today() -> None:
    draw = random.Random(0)
    assert len(packing.pack_integers([draw.randrange(152_000) for _ in range(1_500)])) <= 3 * 1_500 + 2
    assert len(packing.pack_integers([draw.randrange(50_000) for _ in range(1_500)])) <= 2 * 1_500 + 2
    assert len(packing.pack_integers([17] * 1_500)) < 100


def test_a_token_id_beyond_64_bits_is_refused() -> None:
    with pytest.raises(ValueError, match="64 bits"):
        packing.pack_integers([2**64])


@pytest.mark.parametrize(
    "values",
    [
        (),
        (0.0, -0.0, math.inf, -math.inf),
        (math.nan, -1.5),
        (0.1, -0.2),
        (1e300, -1e-320, sys.float_info.max),
        tuple(struct.unpack("f", struct.pack("f", -k / 7))[0] for k in range(1_500)),
        tuple(math.log((k + 1) / 1_501) for k in range(1_500)),
    ],
)
def test_log_probabilities_come_back_to_the_bit(values: tuple[float, ...]) -> None:
    found = packing.unpack_floats(packing.pack_floats(values))
    assert struct.pack(f"{len(values)}d", *found) == struct.pack(f"{len(values)}d", *values)


def test_single_precision_takes_half_the_room() -> None:
    draw = random.Random(0)
    single = [struct.unpack("f", struct.pack("f", -draw.random()))[0] for _ in range(1_500)]
    assert len(packing.pack_floats(single)) <= 4 * 1_500 + 2
    assert len(packing.pack_floats([value + 1e-12 for value in single])) > 4 * 1_500 + 2


def test_flags_come_back_in_next_to_no_room() -> None:
    values = (True,) * 900 + (False,) * 600
    assert packing.unpack_flags(packing.pack_flags(values)) == values
    assert len(packing.pack_flags(values)) < 60


@pytest.mark.parametrize("stored", [b"", b"\x07abc", b"\x01no zlib here"])
def test_bytes_that_were_never_packed_are_damage(stored: bytes) -> None:
    with pytest.raises(StoreDamaged):
        packing.unsqueeze(stored)
