"""Fixtures of all policy tests: a small model with random weights, made once, and variants of it."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest
from tests.policy.llm.engines.real_engines import run_script


def _made_once(factory: pytest.TempPathFactory, name: str, action: str, *given: Path) -> Path:
    """Return the folder of this name, which the first test process that needs it makes for all of them."""
    shared = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    folder, partial = shared / name, shared / f"{name}.partial"
    with (shared / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            run_script(action, partial, *given)
            partial.rename(folder)
    return folder


@pytest.fixture(scope="session")
def served_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the model; skip the test if no interpreter here can make it."""
    return _made_once(tmp_path_factory, "served_model", "make")


@pytest.fixture(scope="session")
def varied_model(served_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a model of the same shape with other weights."""
    return _made_once(tmp_path_factory, "varied_model", "vary", served_model)


@pytest.fixture(scope="session")
def adapter(served_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a LoRA adapter for the model."""
    return _made_once(tmp_path_factory, "adapter", "adapter", served_model)
