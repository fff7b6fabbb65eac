"""What tests share: processes that are expensive to start."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from triton_agent.tools.processes.zygotes import Nursery


@pytest.fixture(scope="session")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    """Zygotes for every evaluator of a test process; torch and triton are imported once."""
    with Nursery(str(tmp_path_factory.mktemp("nursery") / "log")) as shared:
        yield shared
