"""Fixtures of all training tests."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from triton_agent.policy.train.extra import require_training


@pytest.fixture
def free_port() -> int:
    """Return a port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a freshly initialised policy."""
    require_training()
    from triton_agent.policy.train.update.fresh import make_policy

    folder = tmp_path_factory.mktemp("policy") / "tiny"
    make_policy("tiny", ["import triton\nimport triton.language as tl\n" * 20], folder)
    return folder
