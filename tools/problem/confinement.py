"""Confinement of the checker for a problem file that is not trusted (`--no-trust`).

The reference and its inputs are code like any other. Confined as a candidate is, that code reaches no network, no key
in the environment and no file of the user's outside of the problem's own folder, and writes to its scratch folder
only. Not covered: it shares a process with the verdict, so a problem can still let anything pass (`check-problem`).
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
"""A checker lives as long as its evaluator and holds float64 truth; these limits only end a runaway."""


def confinement_for(spec: ProblemSpec, scratch: Path, *, gpu: bool) -> Confinement:
    """Return the confinement of one problem's checker, and make its scratch folder."""
    scratch.mkdir(mode=0o700)
    if gpu:
        lease.make_folder()
        with contextlib.suppress(OSError):  # a copy of the figures measured before, so that it cannot change the user's
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
    """Return the folder that the file's imports start from.

    Return the file and the local modules it imports instead, if that folder is a home directory or lies above one.
    """
    root, _ = problem_source.import_root(path)
    home = Path(os.path.realpath(os.path.expanduser("~")))
    if not home.is_relative_to(os.path.realpath(root)):
        return (str(root),)
    modules = problem_source.local_modules(problem_source.read(path))
    return (str(path), *map(str, modules.values()))
