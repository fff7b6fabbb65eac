"""Confinement of the checker for an untrusted problem file (`--no-trust`).

The reference and its inputs are arbitrary code. The checker that runs them is confined like a candidate: it reaches no
network, no keys in the environment and no files of the user outside the problem's own folder, and writes only to its
scratch folder. Not covered: the reference shares a process with the verdict, so it can make any candidate pass
(`check-problem`).
"""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

from triton_agent.tools.errors import InstrumentError
from triton_agent.tools.machine import lease
from triton_agent.tools.problem import source as problem_source
from triton_agent.tools.problem.problem import ProblemSpec
from triton_agent.tools.race.ceilings import cache_folder
from triton_agent.tools.sandbox.layers import ESSENTIAL, probe
from triton_agent.tools.sandbox.sandbox import Confinement, Limits

LIMITS = Limits(cpu_s=30 * 86400, memory_bytes=64 << 30, open_files=4096)
"""A checker lives as long as its evaluator and holds float64 truth. These limits only stop a runaway process."""


def confinement_for(spec: ProblemSpec, scratch: Path, *, gpu: bool) -> Confinement:
    """Return the confinement of one problem's checker, and make its scratch folder."""
    scratch.mkdir(mode=0o700)
    if gpu:
        lease.make_folder()
        with contextlib.suppress(OSError):  # a copy of the measured rates, so that the checker cannot change the user's
            shutil.copytree(cache_folder(), scratch / "triton-agent" / "ceilings")
    saved = [spec.inputs_file] if spec.inputs_file else []
    return Confinement(
        scratch=str(scratch),
        read_only=(*readable(Path(spec.path)), *saved),
        writable=(str(lease.FOLDER),) if gpu else (),
        gpu=gpu,
        limits=LIMITS,
    )


def require_layers() -> None:
    missing = [layer for layer in probe() if layer.name in ESSENTIAL and not layer.available]
    if missing:
        said = "; ".join(f"{layer.name}: {layer.why}" for layer in missing)
        raise InstrumentError(
            f"the sandbox lacks {said}",
            remedy="see `triton-agent doctor`, or do without --require-sandbox and --no-trust",
        )


def readable(path: Path) -> tuple[str, ...]:
    """Return the paths the checker may read: the folder that the file's imports start from.

    If that folder is a home directory or a parent of one, return the file and the local modules it imports instead.
    """
    root, _ = problem_source.import_root(path)
    home = Path(os.path.realpath(os.path.expanduser("~")))
    if not home.is_relative_to(os.path.realpath(root)):
        return (str(root),)
    modules = problem_source.local_modules(problem_source.read(path))
    return (str(path), *map(str, modules.values()))
