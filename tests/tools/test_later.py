"""What is made at the first asking is made once."""

from __future__ import annotations

import weakref

import pytest

from triton_agent.tools.verify.later import Later


class Source:
    """What it is made of."""

    def __init__(self, *, fails: int = 0) -> None:
        self.asked = 0
        self.fails = fails

    def make(self) -> list[int]:
        self.asked += 1
        if self.asked <= self.fails:
            raise RuntimeError("not yet")
        return [self.asked]


def test_it_is_made_once_and_its_source_is_let_go_of() -> None:
    source = Source()
    gone = weakref.ref(source)
    later = Later(source.make)
    assert source.asked == 0
    assert later() is later() and later() == [1]
    del source
    assert gone() is None


def test_a_failure_is_not_kept() -> None:
    later = Later(Source(fails=1).make)
    with pytest.raises(RuntimeError):
        later()
    assert later() == [2]
