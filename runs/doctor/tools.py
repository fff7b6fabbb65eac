"""Checks compilers, assemblers and profilers for `doctor`, where Triton itself would look for them."""

from __future__ import annotations

import glob
import importlib.util
import os
import shutil
import sysconfig
from pathlib import Path

from triton_agent.runs.doctor.checkup import Check, CheckState, Section
from triton_agent.tools.compile.targets import TARGETS
from triton_agent.tools.machine.hardware import Gpu

PROFILER_FOLDERS = ("/usr/local/cuda*/bin", "/opt/nvidia/nsight-compute/*", "/opt/nvidia/nsight-systems/*/bin")
"""Folders of NVIDIA's installers that are not on the PATH."""
COUNTERS_FOR_ROOT = "RmProfilingAdminOnly: 1"
DRIVER_SETTINGS = Path("/proc/driver/nvidia/params")
BLACKWELL = 100
"""From compute capability 10.0 on, Triton calls `ptxas-blackwell` instead of `ptxas`."""


def tools_section(gpus: tuple[Gpu, ...]) -> Section:
    """Check compilers, launchers and profilers."""
    return Section(name="compilers and profilers", checks=(*_targets(), _compiler(gpus), _headers(gpus), *_profilers()))


def _targets() -> tuple[Check, ...]:
    """Check the targets of ahead-of-time compilation that Triton's wheel supports."""
    older = [name for name in TARGETS if name.startswith("cuda:") and not _is_newer(name)]
    newer = [name for name in TARGETS if name.startswith("cuda:") and _is_newer(name)]
    amd = [name for name in TARGETS if not name.startswith("cuda:")]
    hip = _backend("amd")
    return (
        _assembler("ptxas", "TRITON_PTXAS_PATH", older),
        _assembler("ptxas-blackwell", "TRITON_PTXAS_BLACKWELL_PATH", newer),
        Check(
            name="AMD backend",
            state=CheckState.OK if hip else CheckState.ABSENT,
            seen=f"compiles for {', '.join(amd)}" if hip else "this build of triton has none",
            advice="" if hip else f"--target {amd[0]} and other AMD targets need triton from PyPI",
        ),
    )


def _is_newer(target: str) -> bool:
    return int(target.removeprefix("cuda:")) >= BLACKWELL


def _assembler(program: str, variable: str, targets: list[str]) -> Check:
    nvidia = _backend("nvidia")
    places = [
        os.environ.get(variable, ""),
        str(nvidia / "bin" / program) if nvidia else "",
        shutil.which(program) or "",
    ]
    found = next((place for place in places if place and os.access(place, os.X_OK)), None)
    if found:
        return Check(name=program, state=CheckState.OK, seen=f"compiles for {', '.join(targets)} ({found})")
    advice = f"--target {targets[0]} cannot compile; reinstall triton, or set {variable}"
    return Check(name=program, state=CheckState.ABSENT, seen="not found", advice=advice)


def _backend(name: str) -> Path | None:
    """Return the folder of one of Triton's backends without importing triton."""
    spec = importlib.util.find_spec("triton")
    folders = [Path(folder, "backends", name) for folder in (spec.submodule_search_locations if spec else None) or ()]
    return next((folder for folder in folders if folder.is_dir()), None)


def _compiler(gpus: tuple[Gpu, ...]) -> Check:
    """Check for a C compiler: Triton needs one at the first launch on a GPU; the interpreter needs none."""
    named = os.environ.get("CC")
    found = shutil.which(named) if named else shutil.which("gcc") or shutil.which("clang")
    if found:
        return Check(name="C compiler", state=CheckState.OK, seen=found)
    seen = f"CC={named} is not there" if named else "neither gcc nor clang"
    return _needed_for_launches("C compiler", seen, "apt-get install gcc", gpus)


def _headers(gpus: tuple[Gpu, ...]) -> Check:
    header = Path(sysconfig.get_paths()["include"], "Python.h")
    if header.is_file():
        return Check(name="Python headers", state=CheckState.OK, seen=str(header))
    return _needed_for_launches("Python headers", f"no {header}", "apt-get install python3-dev", gpus)


def _needed_for_launches(name: str, seen: str, remedy: str, gpus: tuple[Gpu, ...]) -> Check:
    if gpus:
        advice = f"Triton cannot launch on the GPU without it; {remedy}"
        return Check(name=name, state=CheckState.WEAK, seen=seen, advice=advice)
    return Check(name=name, state=CheckState.ABSENT, seen=seen, advice=f"needed on machines with a GPU only; {remedy}")


def _profilers() -> tuple[Check, ...]:
    return tuple(
        _profiler(program, product) for program, product in (("ncu", "Nsight Compute"), ("nsys", "Nsight Systems"))
    )


def _profiler(program: str, product: str) -> Check:
    places = [folder for pattern in PROFILER_FOLDERS for folder in sorted(glob.glob(pattern), reverse=True)]
    found = shutil.which(program) or shutil.which(program, path=os.pathsep.join(places))
    if found and program == "ncu" and _counters_are_for_root():
        advice = "profiles of verdicts need no counters; to use ncu by hand, see NVIDIA's ERR_NVGPUCTRPERM"
        seen = f"{found}, but the driver lets only root read hardware counters"
        return Check(name=program, state=CheckState.WEAK, seen=seen, advice=advice)
    if found:
        return Check(name=program, state=CheckState.OK, seen=found)
    advice = f"no verdict needs it; {product} comes with NVIDIA's CUDA toolkit"
    return Check(name=program, state=CheckState.ABSENT, seen="not found", advice=advice)


def _counters_are_for_root() -> bool:
    try:
        return COUNTERS_FOR_ROOT in DRIVER_SETTINGS.read_text() and os.geteuid() != 0
    except OSError:
        return False
