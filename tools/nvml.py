"""NVIDIA's management library, asked directly: what a card is doing, in microseconds instead of a process.

`health.py` is who should be asked; it falls back to `nvidia-smi` where this library is missing. Loaded at first use, in
whatever process asks, and touches no CUDA. Numbers and layouts are those of the library's public header.

Not covered: anything that changes a card.
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
"""Samples of what processes did are asked for as far back as this."""


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
    """One look at a card; None stands for what the driver does not tell."""

    pids: tuple[int, ...]
    """With a CUDA context, as the driver numbers them."""
    loads: tuple[tuple[int, int], ...]
    """Process id and its share of the multiprocessors' time, in percent, over the last second or so."""
    utilization_percent: int | None
    temperature_c: int | None
    sm_clock_mhz: int | None
    memory_clock_mhz: int | None
    event_reasons: int
    uncorrected_ecc_errors: int | None
    recovery: str


def available() -> bool:
    """Whether the library loads and answers here."""
    return _library(os.getpid()) is not None


def look(gpu: str) -> Look | None:
    """The card by its UUID; None where the library or the card is not to be had."""
    library = _library(os.getpid())
    if library is None:
        return None
    device = ctypes.c_void_p()
    code = library.nvmlDeviceGetHandleByUUID(gpu.encode(), ctypes.byref(device))
    if code in (GPU_IS_LOST, RESET_REQUIRED):
        return _lost(code)
    return _Card(library, device).look() if code == OK else None


@functools.lru_cache(maxsize=1)
def _library(pid: int) -> Any | None:
    """Loaded and initialised once a process; a forked one does so again."""
    try:
        library = ctypes.CDLL(LIBRARY)
        return library if library.nvmlInit_v2() == OK else None
    except (OSError, AttributeError):
        return None


class _Card:
    """One card's handle, and how its answers are read."""

    def __init__(self, library: Any, device: ctypes.c_void_p) -> None:
        self._library = library
        self._device = device
        self._lost = 0

    def look(self) -> Look:
        rates = _Utilization()
        told = self._ask("nvmlDeviceGetUtilizationRates", ctypes.byref(rates))
        seen = Look(
            pids=self._pids(),
            loads=self._loads(),
            utilization_percent=rates.gpu_percent if told else None,
            temperature_c=self._number("nvmlDeviceGetTemperature", CORE_TEMPERATURE),
            sm_clock_mhz=self._number("nvmlDeviceGetClockInfo", SM_CLOCK),
            memory_clock_mhz=self._number("nvmlDeviceGetClockInfo", MEMORY_CLOCK),
            event_reasons=self._reasons(),
            uncorrected_ecc_errors=self._number("nvmlDeviceGetTotalEccErrors", UNCORRECTED, VOLATILE, wide=True),
            recovery="",
        )
        return dataclasses.replace(seen, recovery=_recovery(self._lost)) if self._lost else seen

    def _ask(self, name: str, *arguments: Any) -> bool:
        function = getattr(self._library, name, None)
        if function is None:
            return False
        code = function(self._device, *arguments)
        if code in (GPU_IS_LOST, RESET_REQUIRED):
            self._lost = code
        return bool(code == OK)

    def _number(self, name: str, *arguments: int, wide: bool = False) -> int | None:
        value = ctypes.c_ulonglong() if wide else ctypes.c_uint()
        told = self._ask(name, *map(ctypes.c_uint, arguments), ctypes.byref(value))
        return value.value if told else None

    def _reasons(self) -> int:
        """By its name since driver 535, else by the one before."""
        names = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")
        told = (self._number(name, wide=True) for name in names)
        return next((bits for bits in told if bits is not None), 0)

    def _pids(self) -> tuple[int, ...]:
        count = ctypes.c_uint(MOST_PROCESSES)
        found = (_Process * MOST_PROCESSES)()
        told = self._ask("nvmlDeviceGetComputeRunningProcesses_v3", ctypes.byref(count), found)
        return tuple(process.pid for process in found[: count.value]) if told else ()

    def _loads(self) -> tuple[tuple[int, int], ...]:
        count = ctypes.c_uint(MOST_PROCESSES)
        found = (_Load * MOST_PROCESSES)()
        since = ctypes.c_ulonglong(int((time.time() - SAMPLES_S) * 1e6))
        if not self._ask("nvmlDeviceGetProcessUtilization", found, ctypes.byref(count), since):
            return ()
        most: dict[int, int] = {}
        for load in found[: count.value]:
            if load.pid and load.sm_percent <= 100:  # stale samples have been seen to hold anything
                most[load.pid] = max(most.get(load.pid, 0), load.sm_percent)
        return tuple(sorted(most.items()))


def _lost(code: int) -> Look:
    return Look(
        pids=(),
        loads=(),
        utilization_percent=None,
        temperature_c=None,
        sm_clock_mhz=None,
        memory_clock_mhz=None,
        event_reasons=0,
        uncorrected_ecc_errors=None,
        recovery=_recovery(code),
    )


def _recovery(code: int) -> str:
    return "a reset" if code == RESET_REQUIRED else "the GPU is lost; a reboot"
