"""What tests of policies share: a small model of random weights, made once."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.policy.llm.engines.real_engines import run_script


@pytest.fixture(scope="session")
def served_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Skips where there is nothing to make it with."""
    folder = tmp_path_factory.mktemp("served") / "model"
    run_script("make", folder)
    return folder


@pytest.fixture(scope="session")
def varied_model(served_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with other weights."""
    folder = tmp_path_factory.mktemp("varied") / "model"
    run_script("vary", folder, served_model)
    return folder


@pytest.fixture(scope="session")
def adapter(served_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Low-rank matrices for it."""
    folder = tmp_path_factory.mktemp("adapter") / "adapter"
    run_script("adapter", folder, served_model)
    return folder
