"""Fixtures of all policy tests: a small model with random weights, made once, and variants of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.policy.llm.engines.real_engines import run_script


@pytest.fixture(scope="session")
def served_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the model; skip the test if no interpreter here can make it."""
    folder = tmp_path_factory.mktemp("served") / "model"
    run_script("make", folder)
    return folder


@pytest.fixture(scope="session")
def varied_model(served_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a model of the same shape with other weights."""
    folder = tmp_path_factory.mktemp("varied") / "model"
    run_script("vary", folder, served_model)
    return folder


@pytest.fixture(scope="session")
def adapter(served_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a LoRA adapter for the model."""
    folder = tmp_path_factory.mktemp("adapter") / "adapter"
    run_script("adapter", folder, served_model)
    return folder
