"""Fixture of all agent tests: an empty store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from triton_agent.memory.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store.db") as opened:
        yield opened
