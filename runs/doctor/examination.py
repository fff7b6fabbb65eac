"""The checks of `doctor`: versions, machine, sandbox, tools, folders, extras.

Torch and triton are imported in a separate process, since only an import shows that they work, in parallel with the
other checks. Nothing is changed: no folder is made, no cache filled. Not covered: whether a GPU computes correctly.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import platformdirs

from triton_agent.runs.doctor.checkup import Check, CheckState, Section, in_binary_units
from triton_agent.runs.doctor.sandbox import sandbox_section
from triton_agent.runs.doctor.tools import tools_section
from triton_agent.tools import versions
from triton_agent.tools.errors import UsageError
from triton_agent.tools.machine import hardware, nvml
from triton_agent.tools.sandbox.reach import SHARED_MEMORY

TESTED_PAIRS = (((2, 11), (3, 6)), ((2, 13), (3, 7)))
"""Versions of torch and triton that were tested together, which are also those that torch requires."""
IMPORT_TIMEOUT_S = 120.0
"""On a cold network disk importing torch has taken half a minute."""
SPACE_WANTED_BYTES = 1 << 30
"""A candidate may write this much into its scratch folder (`sandbox.Limits.file_bytes`)."""
MEMORY_WANTED_BYTES = 4 << 30
"""Memory that one candidate may use (`EvaluatorSettings.memory_bytes`)."""

PROBE = "import torch, triton; print(torch.version.cuda or torch.version.hip or '')"


def examine() -> tuple[Section, ...]:
    """Run all checks; return sections in the order of the page."""
    importing = subprocess.Popen(
        [sys.executable, "-P", "-c", PROBE],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    machine = hardware.describe()
    rest = (
        Section(name="machine", checks=(*_machine(machine), *_gpus(machine.gpus))),
        sandbox_section(),
        tools_section(machine.gpus),
        Section(name="folders", checks=(_scratch(), *_user_folders())),
        Section(name="optional extras", checks=_extras()),
    )
    return (Section(name="versions", checks=(_python(), *_torch_and_triton(), _imports(importing))), *rest)


def _python() -> Check:
    fits = sys.platform == "linux" and (3, 11) <= sys.version_info[:2] <= (3, 13)
    seen = f"{platform.python_version()} on {platform.system()} {platform.release()}"
    advice = "" if fits else "triton-agent needs Linux and Python 3.11 to 3.13"
    return Check(name="Python", state=CheckState.OK if fits else CheckState.BROKEN, seen=seen, advice=advice)


def _torch_and_triton() -> tuple[Check, ...]:
    torch, triton = versions.installed("torch"), versions.installed("triton")
    seen = f"torch {torch or 'not installed'}, triton {triton or 'not installed'}"
    try:
        versions.require_supported()
    except UsageError as error:
        advice = f"{error.what}; {error.remedy}" if error.remedy else error.what
        return (Check(name="torch and triton", state=CheckState.BROKEN, seen=seen, advice=advice),)
    if torch and triton and (versions.numbers(torch), versions.numbers(triton)) in TESTED_PAIRS:
        return (Check(name="torch and triton", state=CheckState.OK, seen=f"{seen}: a tested pair"),)
    tested = " or ".join(f"torch {a}.{b} with triton {c}.{d}" for (a, b), (c, d) in TESTED_PAIRS)
    return (Check(name="torch and triton", state=CheckState.WEAK, seen=f"{seen}: not tested together", advice=tested),)


def _imports(importing: subprocess.Popen[str]) -> Check:
    try:
        out, complaint = importing.communicate(timeout=IMPORT_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        importing.kill()
        importing.communicate()
        return Check(
            name="import", state=CheckState.BROKEN, seen=f"torch does not import within {IMPORT_TIMEOUT_S:.0f} s"
        )
    if importing.returncode:
        last = complaint.strip().splitlines()[-1:] or [f"exit status {importing.returncode}"]
        advice = f"for the full error: {sys.executable} -c 'import torch, triton'"
        return Check(name="import", state=CheckState.BROKEN, seen=last[0], advice=advice)
    built_for = f"built for GPU toolkit {out.strip()}" if out.strip() else "built for processors only"
    return Check(name="import", state=CheckState.OK, seen=f"torch and triton import; torch is {built_for}")


def _machine(machine: hardware.Machine) -> tuple[Check, ...]:
    small = machine.memory_bytes < MEMORY_WANTED_BYTES
    advice = f"a candidate may use {in_binary_units(MEMORY_WANTED_BYTES)}; large ones may be killed" if small else ""
    return (
        Check(name="processors", state=CheckState.OK, seen=f"{machine.cpu_count} cores, {platform.machine()}"),
        Check(
            name="memory",
            state=CheckState.WEAK if small else CheckState.OK,
            seen=in_binary_units(machine.memory_bytes),
            advice=advice,
        ),
    )


def _gpus(gpus: tuple[hardware.Gpu, ...]) -> tuple[Check, ...]:
    if not gpus:
        advice = "correctness is judged in the interpreter and kernels compile ahead of time; speed is not measured"
        return (Check(name="GPU", state=CheckState.ABSENT, seen="no NVIDIA GPU with a driver", advice=advice),)
    cards = (Check(name=f"GPU {index}", state=CheckState.OK, seen=_gpu_text(gpu)) for index, gpu in enumerate(gpus))
    return (*cards, _nvml())


def _nvml() -> Check:
    """Check that the work of other processes on a GPU can be noticed during a measurement."""
    if nvml.available():
        seen = "the driver reports other processes on a GPU, and what throttles its clocks"
        return Check(name="NVML", state=CheckState.OK, seen=seen)
    advice = f"other work on a GPU shows only in the reference's own times; install {nvml.LIBRARY} of the driver"
    return Check(
        name="NVML", state=CheckState.WEAK, seen=f"{nvml.LIBRARY} does not load or does not answer", advice=advice
    )


def _gpu_text(gpu: hardware.Gpu) -> str:
    memory = in_binary_units(gpu.memory_bytes) if gpu.memory_bytes else ""
    capability = f"compute capability {gpu.compute_capability}" if gpu.compute_capability else ""
    driver = f"driver {gpu.driver}" if gpu.driver else ""
    return ", ".join(part for part in (gpu.name, capability, memory, driver) if part)


def _scratch() -> Check:
    """Check the scratch folder of candidates: it has to exist, be writable, and have room."""
    try:
        folder = tempfile.gettempdir()
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"\0" * 4096)
            file.flush()
        free = shutil.disk_usage(folder).free
    except OSError as error:
        seen = f"{os.environ.get('TMPDIR', '/tmp')}: {error.strerror or error}"
        return Check(name="scratch", state=CheckState.BROKEN, seen=seen, advice="point TMPDIR at a folder with space")
    seen = f"{folder}, {in_binary_units(free)} free"
    wished = os.environ.get("TMPDIR")
    if os.path.realpath(folder).startswith(SHARED_MEMORY):
        advice = f"point TMPDIR elsewhere: candidates get a {SHARED_MEMORY} of their own"
        return Check(name="scratch", state=CheckState.BROKEN, seen=seen, advice=advice)
    if wished and os.path.abspath(wished) != folder:
        advice = f"TMPDIR={wished} cannot be written to and is ignored; point it at another folder"
        return Check(name="scratch", state=CheckState.WEAK, seen=seen, advice=advice)
    if free < SPACE_WANTED_BYTES:
        advice = f"point TMPDIR at a folder with {in_binary_units(SPACE_WANTED_BYTES)} or more"
        return Check(name="scratch", state=CheckState.WEAK, seen=seen, advice=advice)
    return Check(name="scratch", state=CheckState.OK, seen=seen)


def _user_folders() -> tuple[Check, ...]:
    folders = {
        "data": Path(platformdirs.user_data_dir("triton-agent")),
        "cache": Path(platformdirs.user_cache_dir("triton-agent")),
    }
    return tuple(Check(name=name, state=CheckState.FACT, seen=_size_of(folder)) for name, folder in folders.items())


def _size_of(folder: Path) -> str:
    if not folder.is_dir():
        return f"{folder}, nothing there yet"
    total = sum(file.lstat().st_size for file in folder.rglob("*") if file.is_file())
    return f"{folder}, {in_binary_units(total)}"


def _extras() -> tuple[Check, ...]:
    """List the extras of the installed package and whether their packages are there."""
    try:
        declared = importlib.metadata.metadata("triton-agent")
    except importlib.metadata.PackageNotFoundError:
        return (Check(name="triton-agent", state=CheckState.FACT, seen="runs from its source folder, not installed"),)
    requirements = declared.get_all("Requires-Dist") or []
    return tuple(_extra(name, requirements) for name in declared.get_all("Provides-Extra") or [])


def _extra(name: str, requirements: list[str]) -> Check:
    wanted = [_package(text) for text in requirements if re.search(rf"extra\s*==\s*[\"']{re.escape(name)}[\"']", text)]
    absent = [package for package in wanted if versions.installed(package) is None]
    advice = f"pip install 'triton-agent[{name}]'" if absent else ""
    seen = f"brings {', '.join(wanted)}" + (f"; not installed: {', '.join(absent)}" if absent else "")
    return Check(name=name, state=CheckState.ABSENT if absent else CheckState.OK, seen=seen, advice=advice)


def _package(requirement: str) -> str:
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    return found[0] if found else requirement
