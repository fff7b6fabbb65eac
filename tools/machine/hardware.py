"""Facts about this machine: its GPUs, processors, memory and versions.

Facts about GPUs come from `nvidia-smi` and from a short-lived process that asks the CUDA driver. This process does not
touch CUDA, so it can fork workers that use CUDA. Without a GPU, a driver or `nvidia-smi` fewer facts are known; that is
not an error. `health.py` has the current state of a GPU, `ceilings.py` the speed it reaches.

Not covered: AMD GPUs. Nothing here changes a setting of a card.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence

from triton_agent.tools.versions import installed

VISIBLE = "CUDA_VISIBLE_DEVICES"
"""Environment variable that lists the visible cards, by index or UUID. A program counts them from 0 in that order."""
LIMIT_S = 30.0
"""nvidia-smi answers in less than a second, or in several seconds if no daemon keeps the driver loaded."""

_DRIVER_PROBE = """
import ctypes, json, uuid
cuda = ctypes.CDLL("libcuda.so.1")
assert cuda.cuInit(0) == 0
count = ctypes.c_int()
assert cuda.cuDeviceGetCount(ctypes.byref(count)) == 0
found = {}
for index in range(count.value):
    device, raw, value = ctypes.c_int(), ctypes.create_string_buffer(16), ctypes.c_int()
    assert cuda.cuDeviceGet(ctypes.byref(device), index) == 0
    assert cuda.cuDeviceGetUuid(raw, device) == 0
    facts = []
    for attribute in (16, 38):  # multiprocessors, bytes of L2
        assert cuda.cuDeviceGetAttribute(ctypes.byref(value), attribute, device) == 0
        facts.append(value.value)
    found[f"GPU-{uuid.UUID(bytes=raw.raw)}"] = facts
print(json.dumps(found))
"""
"""Runs as a separate program: once a process has called cuInit, its forked children cannot use CUDA."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One card. None stands for facts that the driver does not report."""

    name: str
    uuid: str
    compute_capability: str | None
    memory_bytes: int | None
    sm_count: int | None
    """Also None if CUDA_VISIBLE_DEVICES hides the card."""
    l2_bytes: int | None
    driver: str | None
    max_sm_clock_mhz: int | None
    max_memory_clock_mhz: int | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A machine on which something was measured."""

    gpus: tuple[Gpu, ...]
    cpu_count: int
    """Processors that this process may use."""
    memory_bytes: int
    """As the kernel reports it now. A virtual machine may grow, and a container may be limited to less."""
    python: str
    torch: str | None
    triton: str | None
    kernel: str


def describe() -> Machine:
    return Machine(
        gpus=gpus(),
        cpu_count=len(os.sched_getaffinity(0)),
        memory_bytes=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        python=platform.python_version(),
        torch=installed("torch"),
        triton=installed("triton"),
        kernel=platform.release(),
    )


def gpus() -> tuple[Gpu, ...]:
    """Return the NVIDIA cards of this machine in the order of nvidia-smi; empty if there are none."""
    return _cards_and_order()[0]


def visible_gpus() -> tuple[Gpu, ...]:
    """Return the cards that CUDA_VISIBLE_DEVICES shows to programs, in CUDA's order: torch's `cuda:0`, `cuda:1`, ...

    If the driver does not answer and no card is hidden, return all cards of nvidia-smi.
    """
    found, order = _cards_and_order()
    by_uuid = {gpu.uuid: gpu for gpu in found}
    shown = tuple(by_uuid[uuid] for uuid in order if uuid in by_uuid)
    hidden = not order and VISIBLE in os.environ
    return () if hidden else shown or found  # parts of a card (MIG) have UUIDs of their own


def _cards_and_order() -> tuple[tuple[Gpu, ...], tuple[str, ...]]:
    """Return all cards, and the UUIDs of the visible ones in CUDA's order."""
    rows = query_gpus(
        "name", "uuid", "compute_cap", "memory.total", "driver_version", "clocks.max.sm", "clocks.max.memory"
    )
    details: dict[str, tuple[int, int]] = {}
    if rows:
        argv = [sys.executable, "-I", "-S", "-c", _DRIVER_PROBE]
        with contextlib.suppress(OSError, subprocess.SubprocessError, ValueError):
            done = subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_S, check=True)
            details = {name: (facts[0], facts[1]) for name, facts in json.loads(done.stdout).items()}
    found = []
    for row in rows:
        memory_mib = whole(row.get("memory.total"))
        sm_count, l2_bytes = details.get(row["uuid"], (None, None))
        gpu = Gpu(
            name=row["name"],
            uuid=row["uuid"],
            compute_capability=row.get("compute_cap"),
            memory_bytes=None if memory_mib is None else memory_mib * 2**20,
            sm_count=sm_count,
            l2_bytes=l2_bytes,
            driver=row.get("driver_version"),
            max_sm_clock_mhz=whole(row.get("clocks.max.sm")),
            max_memory_clock_mhz=whole(row.get("clocks.max.memory")),
        )
        found.append(gpu)
    return tuple(found), tuple(details)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CardFacts:
    """Facts about a card that help a kernel author. None stands for facts that the driver does not report."""

    compute_capability: str | None = None
    """As in `9.0`."""
    multiprocessors: int | None = None
    l2_bytes: int | None = None
    memory_bytes: int | None = None
    sm_clock_mhz: int | None = None
    memory_clock_mhz: int | None = None

    def __str__(self) -> str:
        """Return the known facts as a list for a prompt."""
        facts = (
            (self.compute_capability, "compute capability {}"),
            (self.multiprocessors, "{} multiprocessors"),
            (self.l2_bytes and self.l2_bytes >> 20, "{} MiB of L2"),
            (self.memory_bytes and self.memory_bytes >> 30, "{} GiB of memory"),
            (self.sm_clock_mhz, "multiprocessors at up to {} MHz"),
            (self.memory_clock_mhz, "memory at up to {} MHz"),
        )
        return ", ".join(words.format(fact) for fact, words in facts if fact)


def card_facts(uuid: str, known: Sequence[Gpu] = ()) -> CardFacts | None:
    """Return the facts of the card with this UUID, or None if this machine has no such card.

    Look in `known` first: asking the driver starts two programs.
    """
    gpu = next((card for card in known if card.uuid == uuid), None)
    gpu = gpu or next((card for card in gpus() if card.uuid == uuid), None)
    if gpu is None:
        return None
    return CardFacts(
        compute_capability=gpu.compute_capability,
        multiprocessors=gpu.sm_count,
        l2_bytes=gpu.l2_bytes,
        memory_bytes=gpu.memory_bytes,
        sm_clock_mhz=gpu.max_sm_clock_mhz,
        memory_clock_mhz=gpu.max_memory_clock_mhz,
    )


def query_gpus(*fields: str, gpu: str | None = None) -> list[dict[str, str]]:
    """Return a row of `nvidia-smi --query-gpu` for each card, or for `gpu` only, without fields it does not report.

    Field names depend on the driver. A field that this driver does not know is dropped, and the query repeated.
    """
    wanted = list(fields)
    while wanted:
        chosen = [f"--id={gpu}"] if gpu else []
        text = nvidia_smi(f"--query-gpu={','.join(wanted)}", "--format=csv,noheader,nounits", *chosen)
        unknown = re.search(r'Field "([^"]+)" is not a valid field', text)
        if unknown is None or unknown[1] not in wanted:
            lines = [[value.strip() for value in line.split(",")] for line in text.splitlines()]
            untold = ("", "N/A", "NOT SUPPORTED", "UNKNOWN ERROR", "GPU IS LOST")
            rows = [
                {name: value for name, value in zip(wanted, values) if value.strip("[]").upper() not in untold}
                for values in lines
                if len(values) == len(wanted)
            ]
            return [row for row in rows if {"uuid", "name"}.intersection(wanted) <= row.keys()]
        wanted.remove(unknown[1])
    return []


def nvidia_smi(*arguments: str) -> str:
    """Return the output of nvidia-smi; "" if it is missing, hangs or sees no card. Errors about a field are kept."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return ""
    try:
        done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    complaint = "is not a valid field" in done.stdout + done.stderr
    return done.stdout + done.stderr if complaint else done.stdout if done.returncode == 0 else ""


def whole(text: str | None) -> int | None:
    """Return a number printed by nvidia-smi, rounded; None for any other text."""
    try:
        return None if text is None else round(float(text))
    except ValueError:
        return None


def uuid_of(device_index: int) -> str:
    """Return the UUID of one of torch's CUDA devices as nvidia-smi spells it: the key of its lease.

    This initialises CUDA in this process, which then cannot fork workers that use CUDA.
    """
    import torch

    found = str(torch.cuda.get_device_properties(device_index).uuid)
    return found if found.startswith(("GPU-", "MIG-")) else f"GPU-{found}"
