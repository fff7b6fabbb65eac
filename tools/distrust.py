"""Where a problem file from elsewhere runs: its checker confined as a candidate is, with the problem's folder to read.

The original and its inputs are code like any other. Confined, it reaches no network, no file of the user's outside of
the problem's own folder, no key in the environment, and writes to its scratch only. What stays: it shares a process
with the verdict, so a problem can still be one that lets anything pass, of which `check-problem` tells.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

from triton_agent.tools import problem_source
from triton_agent.tools.ceilings import cache_folder
from triton_agent.tools.errors import InstrumentError
from triton_agent.tools.isolate.sandbox import ESSENTIAL, Confinement, Limits, probe
from triton_agent.tools.problem import ProblemSpec
from triton_agent.tools.timing import lease

LIMITS = Limits(cpu_s=30 * 86400, memory_bytes=64 << 30, open_files=4096)
"""A checker lives as long as its evaluator, and holds truths in float64; these only end what runs wild."""


def cell_for(spec: ProblemSpec, scratch: Path, *, gpu: bool) -> Confinement:
    """The confinement of one problem's checker; makes its scratch folder."""
    scratch.mkdir(mode=0o700)
    if gpu:
        lease.make_folder()
        _lend_ceilings(scratch)
    saved = [spec.inputs_file] if spec.inputs_file else []
    return Confinement(
        scratch=str(scratch),
        read_only=(*readable(Path(spec.path)), *saved),
        writable=(str(lease.FOLDER),) if gpu else (),
        gpu=gpu,
        limits=LIMITS,
    )


def require_layers() -> None:
    """Refuse to go on where an essential layer of the sandbox is missing."""
    missing = [layer for layer in probe() if layer.name in ESSENTIAL and not layer.available]
    if missing:
        said = "; ".join(f"{layer.name}: {layer.why}" for layer in missing)
        raise InstrumentError(
            f"the sandbox lacks {said}",
            remedy="see `triton-agent doctor`, or do without --require-sandbox and --no-trust",
        )


def readable(path: Path) -> tuple[str, ...]:
    """The folder that the file's imports start from; the files alone, where that is somebody's home or above one."""
    root, _ = problem_source.import_root(path)
    home = Path(os.path.realpath(os.path.expanduser("~")))
    if not home.is_relative_to(os.path.realpath(root)):
        return (str(root),)
    modules = problem_source.local_modules(problem_source.read(path))
    return (str(path), *map(str, modules.values()))


def _lend_ceilings(scratch: Path) -> None:
    """Figures measured before; a copy, so that none of the user's own can be changed. Its cache is its scratch."""
    with contextlib.suppress(OSError):
        shutil.copytree(cache_folder(), scratch / "triton-agent" / "ceilings")
