"""Keeps held-out problems out of training, by the fingerprints of their operator graphs and from model to model.

The list is stored beside the weights, so that a later training from them refuses the same problems. A problem under
another name or at other sizes has the same fingerprint. Not covered: rows from files that name no problem.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from triton_agent.memory.observation import ProblemView
from triton_agent.tools.errors import UsageError

FILE = "held_out.json"
NAMES_SHOWN = 5


def identity(view: ProblemView) -> str:
    """Return what identifies equal problems: the fingerprint, or the digest if a problem only has a verifier."""
    return view.fingerprint or view.digest


def read(model: str) -> dict[str, str]:
    """Return the names of the problems held out from a model, by identity; empty if the model has no list."""
    path = Path(model) / FILE
    found: dict[str, str] = json.loads(path.read_text()) if path.is_file() else {}
    return found


def write(folders: Iterable[Path], held_out: Mapping[str, str]) -> None:
    """Write the list into folders of weights."""
    for folder in folders if held_out else ():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / FILE).write_text(json.dumps(dict(sorted(held_out.items())), indent=1) + "\n")


def refuse(trained: Iterable[str], held_out: Mapping[str, str]) -> None:
    """Raise a UsageError if held-out problems are trained on."""
    both = sorted({held_out[problem] for problem in set(trained) & held_out.keys()})
    if both:
        more = f" and {len(both) - NAMES_SHOWN} more" if len(both) > NAMES_SHOWN else ""
        raise UsageError(
            f"held out for evaluation, and among the problems to train on: {', '.join(both[:NAMES_SHOWN])}{more}",
            remedy="leave their runs out of --runs; problems are the same if their operator graphs are, at any size",
        )
