"""The state of a GPU from NVIDIA's management library, which answers in microseconds and starts no process.

Callers use `health.py`, which falls back to `nvidia-smi` if this library is missing. The library is loaded at first
use and does not touch CUDA. Constants and structures are those of its public header. Nothing here changes a card.
"""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import os
import time
from typing import Any

LIBRARY = "libnvidia-ml.so.1"
OK, GPU_IS_LOST, RESET_REQUIRED = 0, 15, 16
CORE_TEMPERATURE = 0
SM_CLOCK, MEMORY_CLOCK = 1, 2
UNCORRECTED, VOLATILE = 1, 0
MOST_PROCESSES = 256
SAMPLES_S = 1.0
"""Length of the window over which the load of each process is read."""
RECOVERIES = {GPU_IS_LOST: "the GPU is lost; a reboot", RESET_REQUIRED: "a reset"}


class _Process(ctypes.Structure):
    _fields_ = (
        ("pid", ctypes.c_uint),
        ("memory_bytes", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    )


class _Load(ctypes.Structure):
    _fields_ = (
        ("pid", ctypes.c_uint),
        ("time_us", ctypes.c_ulonglong),
        ("sm_percent", ctypes.c_uint),
        ("memory_percent", ctypes.c_uint),
        ("encoder_percent", ctypes.c_uint),
        ("decoder_percent", ctypes.c_uint),
    )


class _Utilization(ctypes.Structure):
    _fields_ = (("gpu_percent", ctypes.c_uint), ("memory_percent", ctypes.c_uint))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One look at a card. None stands for facts that the driver does not report."""

    pids: tuple[int, ...] = ()
    """Processes with a CUDA context, by the driver's pids."""
    loads: tuple[tuple[int, int], ...] = ()
    """Pids, each with the share of the multiprocessors' time it took in the last second, in percent."""
    utilization_percent: int | None = None
    temperature_c: int | None = None
    sm_clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    event_reasons: int = 0
    uncorrected_ecc_errors: int | None = None
    recovery: str = ""


def available() -> bool:
    return _library(os.getpid()) is not None


def look(gpu: str) -> Look | None:
    """Look at the card with this UUID. Return None if the library or the card is missing."""
    library = _library(os.getpid())
    if library is None:
        return None
    device = ctypes.c_void_p()
    code = library.nvmlDeviceGetHandleByUUID(gpu.encode(), ctypes.byref(device))
    if code in RECOVERIES:
        return Look(recovery=RECOVERIES[code])
    return _Card(library, device).look() if code == OK else None


@functools.lru_cache(maxsize=1)
def _library(pid: int) -> Any | None:
    """Load and initialise the library, once per process: a forked process has to initialise it again."""
    try:
        library = ctypes.CDLL(LIBRARY)
        return library if library.nvmlInit_v2() == OK else None
    except (OSError, AttributeError):
        return None


class _Card:
    """Queries about one card."""

    def __init__(self, library: Any, device: ctypes.c_void_p) -> None:
        self._library = library
        self._device = device
        self._recovery = ""

    def look(self) -> Look:
        rates = _Utilization()
        told = self._ask("nvmlDeviceGetUtilizationRates", ctypes.byref(rates))
        # The name with "Event" exists since driver 535, the one with "Throttle" before.
        reasons = [
            self._number(f"nvmlDeviceGetCurrentClocks{word}Reasons", wide=True) for word in ("Event", "Throttle")
        ]
        count, running = ctypes.c_uint(MOST_PROCESSES), (_Process * MOST_PROCESSES)()
        listed = self._ask("nvmlDeviceGetComputeRunningProcesses_v3", ctypes.byref(count), running)
        seen = Look(
            pids=tuple(process.pid for process in running[: count.value]) if listed else (),
            loads=self._loads(),
            utilization_percent=rates.gpu_percent if told else None,
            temperature_c=self._number("nvmlDeviceGetTemperature", CORE_TEMPERATURE),
            sm_clock_mhz=self._number("nvmlDeviceGetClockInfo", SM_CLOCK),
            memory_clock_mhz=self._number("nvmlDeviceGetClockInfo", MEMORY_CLOCK),
            event_reasons=next((bits for bits in reasons if bits is not None), 0),
            uncorrected_ecc_errors=self._number("nvmlDeviceGetTotalEccErrors", UNCORRECTED, VOLATILE, wide=True),
        )
        return dataclasses.replace(seen, recovery=self._recovery)

    def _ask(self, name: str, *arguments: Any) -> bool:
        function = getattr(self._library, name, None)
        if function is None:
            return False
        code = function(self._device, *arguments)
        self._recovery = RECOVERIES.get(code, self._recovery)
        return bool(code == OK)

    def _number(self, name: str, *arguments: int, wide: bool = False) -> int | None:
        value = ctypes.c_ulonglong() if wide else ctypes.c_uint()
        told = self._ask(name, *map(ctypes.c_uint, arguments), ctypes.byref(value))
        return value.value if told else None

    def _loads(self) -> tuple[tuple[int, int], ...]:
        count = ctypes.c_uint(MOST_PROCESSES)
        found = (_Load * MOST_PROCESSES)()
        since = ctypes.c_ulonglong(int((time.time() - SAMPLES_S) * 1e6))
        if not self._ask("nvmlDeviceGetProcessUtilization", found, ctypes.byref(count), since):
            return ()
        most: dict[int, int] = {}
        for load in found[: count.value]:
            if load.pid and load.sm_percent <= 100:  # stale samples may hold any number
                most[load.pid] = max(most.get(load.pid, 0), load.sm_percent)
        return tuple(sorted(most.items()))
