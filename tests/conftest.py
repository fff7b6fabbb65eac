"""What tests share: processes that are expensive to start."""

from __future__ import annotations

import gc
import zlib
from collections.abc import Iterator

import pytest
import torch

from triton_agent.tools.chance import draw_from
from triton_agent.tools.processes.zygotes import Nursery


def pytest_collection_finish() -> None:
    """Keep modules and collected tests out of garbage collections, of which each would look at a million objects."""
    gc.collect()
    gc.freeze()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--chance", default="", help="let verdicts draw other numbers than usual; each text has its own")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Let a test and its verdicts draw the same numbers each time. The scoreboard's verdicts draw new ones."""
    chance = item.nodeid + item.config.getoption("--chance")
    draw_from(chance)
    torch.manual_seed(zlib.crc32(chance.encode()))


@pytest.fixture(scope="session")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    """Zygotes for every evaluator of a test process; torch and triton are imported once."""
    with Nursery(str(tmp_path_factory.mktemp("nursery") / "log")) as shared:
        shared.expect_problems()
        yield shared


@pytest.fixture(scope="session", autouse=True)
def _constructors_that_follow_a_device() -> None:
    """Let torch list its constructors, which it does at the first use of a device as a context.

    Transformers replaces `torch.linspace` while a model is loaded. Were that the first use, `torch.linspace` would be
    left out of the list for good.
    """
    with torch.device("meta"):
        torch.empty(0)
