"""Where rows are made: the machine, its versions, and the commit of this project's code."""

from __future__ import annotations

import platform

from triton_agent.runs.bench.rows import Where
from triton_agent.tools.hardware import gpus
from triton_agent.tools.versions import installed, project_version


def here(device: str) -> Where:
    """As it is now."""
    found = gpus() if device == "cuda" else ()
    return Where(
        device=device,
        gpu=found[0].name if found else "",
        driver=(found[0].driver or "") if found else "",
        python=platform.python_version(),
        torch=installed("torch") or "",
        triton=installed("triton") or "",
        commit=project_version(),
    )
