"""How the interpreter reads and writes memory at addresses that it has checked; see `emulate/bounds.py`."""

from __future__ import annotations

import numpy as np
import pytest

from triton_agent.tools.emulate.bounds import read, write
from triton_agent.tools.emulate.floats import Array


def addresses(memory: Array, places: list[int], shift: int = 0) -> Array:
    return np.array([memory.ctypes.data + place * memory.itemsize + shift for place in places], np.uint64)


@pytest.mark.parametrize("kind", ["u1", "i2", "f4", "f8"])
@pytest.mark.parametrize("places", [[3], [2, 3, 4], [9, 0, 4, 4], []])
def test_elements_are_read_wherever_they_lie(kind: str, places: list[int]) -> None:
    memory = np.arange(10).astype(kind)
    assert read(addresses(memory, places), memory.dtype).tolist() == places


def test_of_several_values_for_one_element_the_last_one_stays() -> None:
    memory = np.zeros(6, np.int32)
    write(addresses(memory, [4, 1, 4, 4]), np.array([1, 2, 3, 4], np.int32))
    assert memory.tolist() == [0, 2, 0, 0, 4, 0]


def test_values_are_copies_that_no_later_store_changes() -> None:
    memory = np.arange(4, dtype=np.int64)
    values = read(addresses(memory, [0, 1, 2, 3]), memory.dtype)
    write(addresses(memory, [1]), np.array([7]))
    assert values.tolist() == [0, 1, 2, 3] and memory.tolist() == [0, 7, 2, 3]


def test_elements_that_begin_within_others_are_read_and_written() -> None:
    memory = np.zeros(4, np.int32)
    places = np.concatenate([addresses(memory, [0]), addresses(memory, [1], shift=2)])
    write(places, np.array([1, 2], np.int32))
    assert memory.tolist() == [1, 2 << 16, 0, 0]
    assert read(places, memory.dtype).tolist() == [1, 2]
