"""Checks the model that a training command is given, before it imports libraries for many seconds."""

from __future__ import annotations

from pathlib import Path

from triton_agent.runs.cli import console
from triton_agent.tools.errors import UsageError


def require_model(name: str) -> None:
    """Raise a UsageError if this can neither be a folder with a model nor the name of one on the hub.

    Says so if the hub will be asked, since that takes minutes where there is no network.
    """
    path, where = Path(name), f"--model {name}"
    if path.is_dir():
        if not any((path / config).is_file() for config in ("config.json", "adapter_config.json")):
            inside = [str(part.parent) for part in sorted(path.glob("*/*config.json")) if part.parent.name == "final"]
            remedy = f"did you mean {inside[0]}?" if inside else "a folder in the Hugging Face format has config.json"
            raise UsageError("no model is in this folder", where=where, remedy=remedy)
        return
    owner, _, rest = name.partition("/")
    if not owner or not rest or "/" in rest or owner.startswith(("~", ".")) or Path(owner).exists():
        remedy = "a folder, such as one made by `policy init` or the `final` of a training; or OWNER/NAME on the hub"
        raise UsageError("there is no such folder", where=where, remedy=remedy)
    console.progress().print(f"{name} is no folder here; asking the Hugging Face hub", markup=False, soft_wrap=True)
