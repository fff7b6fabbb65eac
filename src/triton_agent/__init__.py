"""triton-agent: PyTorch modules in, verified and measured Triton kernels out.

    fast = triton_agent.optimize(module, example_inputs)      # a module to use in place of this one
    triton_agent.evaluate(module, "kernel.py", example_inputs).status

Importing this package does nothing: no torch, no folder made, no network touched. What it offers is imported when it is
asked for.
"""

import importlib
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    **dict.fromkeys(("optimize", "evaluate", "load", "load_run", "outcome_of", "Optimized"), "triton_agent.runs.api"),
    **dict.fromkeys(("Evaluation", "Status"), "triton_agent.tools.results"),
    **dict.fromkeys(
        ("TritonAgentError", "UsageError", "ProblemError", "InstrumentError", "NotJudgeableHere"),
        "triton_agent.tools.errors",
    ),
    "StoreError": "triton_agent.memory.errors",
}
"""Name -> the module that has it."""

__all__ = ["__version__", *_HOMES]  # noqa: PLE0604 - the names are strings, as they have to be


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'triton_agent' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
