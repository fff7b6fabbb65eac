"""`triton-agent examples`: writes the example problems and kernels into a folder, for users of the wheel."""

from __future__ import annotations

from pathlib import Path

from triton_agent.runs.cli import console, exit_codes
from triton_agent.tools.errors import UsageError

FOLDER = Path(__file__).resolve().parents[2] / "examples"


def run(folder: str) -> int:
    """Copy the examples; keep files that exist already."""
    target = Path(folder)
    if target.resolve() == FOLDER:
        raise UsageError("these are the examples themselves", where=folder, remedy="name another folder")
    try:
        target.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise UsageError("is a file", where=folder, remedy="name a folder") from None
    found = sorted(path for path in FOLDER.iterdir() if path.is_file())
    new = [path for path in found if not (target / path.name).exists()]
    for path in new:
        (target / path.name).write_bytes(path.read_bytes())
    out = console.results()
    out.print(f"{len(new)} files written to {target}, {len(found) - len(new)} were there already", markup=False)
    out.print(f"next: triton-agent optimize {target / 'softmax.py'}", markup=False)
    return exit_codes.GOOD
