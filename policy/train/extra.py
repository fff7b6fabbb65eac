"""Checks for the libraries of the extra `train` and sets their environment variables."""

from __future__ import annotations

import importlib.util
import os

from triton_agent.tools.errors import UsageError

MODULES = ("torch", "transformers", "tokenizers", "trl", "accelerate", "datasets", "peft")


def missing_modules() -> tuple[str, ...]:
    """Return the missing modules without importing any."""
    return tuple(name for name in MODULES if importlib.util.find_spec(name) is None)


def require_training() -> None:
    """Require the extra `train`. Call it before importing trainers: it disables output and telemetry of the
    libraries.
    """
    missing = missing_modules()
    if missing:
        raise UsageError(
            f"training needs {', '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not installed",
            remedy="pip install 'triton-agent[train]'",
        )
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)


QUIET = {
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "TRL_EXPERIMENTAL_SILENCE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
}
"""Environment variables for the libraries. Values that the user has set are kept."""
