"""What a GPU is doing right now: who else computes on it, whether it is held back, hot or broken.

For noticing that a measurement would not be believable. `require_quiet` turns that into an InstrumentError: a busy or
throttled GPU is a failure of the instrument, never a slow kernel.

It asks NVIDIA's library (`nvml.py`), and `nvidia-smi` where that is missing. What single processes do on the card only
the library tells.

Not covered: Xid errors themselves (the kernel log is for root); what they leave behind, a required reset and
uncorrected memory errors, is. Nothing here changes a setting.
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Collection

from triton_agent.tools import nvml
from triton_agent.tools.errors import InstrumentError
from triton_agent.tools.hardware import nvidia_smi, query_gpus, whole

BUSY_PERCENT = 5
"""A display or a monitor stays below."""
HOT_C = 90
"""Near where data-centre cards begin to slow down."""
POLL_S = 0.25
STAT_FLAGS, EXITING = 5, 0x4
"""Place of the flags behind the state in /proc/PID/stat, and the bit of a process that is on its way out."""

THROTTLES = {
    0x08: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
}
"""Bits of the clock event reasons that make a reading worthless. A power cap (0x04) is not among them: it is how large
matrix products run on many cards, and paired measurement bears it."""

_FIELDS = (
    "uuid",
    "utilization.gpu",
    "temperature.gpu",
    "clocks.sm",
    "clocks.mem",
    "clocks_event_reasons.active",
    "clocks_throttle_reasons.active",  # the same by its name before driver 535
    "ecc.errors.uncorrected.volatile.total",
    "gpu_recovery_action",  # since driver 570
    "reset_status.reset_required",
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class GpuProcess:
    """A process with a CUDA context on the card."""

    pid: int
    name: str
    visible: bool
    """Whether this pid exists here. If not, it is another namespace's number and may be one of ours."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """One look at a card. None stands for what the driver does not tell."""

    uuid: str
    processes: tuple[GpuProcess, ...]
    utilization_percent: int | None
    temperature_c: int | None
    sm_clock_mhz: int | None
    memory_clock_mhz: int | None
    throttled_by: tuple[str, ...]
    uncorrected_ecc_errors: int | None
    recovery: str
    """What the driver asks for after an error, such as a reset; empty when nothing."""
    loads: tuple[tuple[GpuProcess, int], ...] = ()
    """Which process took what share of the multiprocessors' time lately, in percent; empty where that is not told."""

    @property
    def clocks_mhz(self) -> tuple[int, ...]:
        """Multiprocessor and memory clock, as a timing records them."""
        return tuple(clock for clock in (self.sm_clock_mhz, self.memory_clock_mhz) if clock is not None)


def health(gpu: str) -> Health:
    """Looks at a card, named by UUID, or by index where there is `nvidia-smi`."""
    seen = nvml.look(gpu) if gpu.startswith("GPU-") else None
    return _by_program(gpu) if seen is None else _by_library(gpu, seen)


def _by_library(gpu: str, seen: nvml.Look) -> Health:
    return Health(
        uuid=gpu,
        processes=tuple(map(_process, seen.pids)),
        utilization_percent=seen.utilization_percent,
        temperature_c=seen.temperature_c,
        sm_clock_mhz=seen.sm_clock_mhz,
        memory_clock_mhz=seen.memory_clock_mhz,
        throttled_by=_named(seen.event_reasons),
        uncorrected_ecc_errors=seen.uncorrected_ecc_errors,
        recovery=seen.recovery,
        loads=tuple((_process(pid), percent) for pid, percent in seen.loads if _may_compute(pid, seen.pids)),
    )


def _may_compute(pid: int, on_the_card: Collection[int]) -> bool:
    """Not the dead, whose last second is told of still, nor the dying, which take a while to give up their context."""
    try:
        with open(f"/proc/{pid}/stat", errors="replace") as text:
            state, *fields = text.read().rpartition(")")[2].split()
    except OSError:
        return pid in on_the_card
    return state not in "ZX" and not int(fields[STAT_FLAGS]) & EXITING


def _process(pid: int) -> GpuProcess:
    try:
        with open(f"/proc/{pid}/comm", errors="replace") as text:
            return GpuProcess(pid=pid, name=text.read().strip(), visible=True)
    except OSError:
        return GpuProcess(pid=pid, name="of another namespace", visible=False)


def _by_program(gpu: str) -> Health:
    rows = query_gpus(*_FIELDS, gpu=gpu)
    if not rows:
        raise InstrumentError(
            "the state of this GPU cannot be read", where=gpu, remedy="see what `nvidia-smi` says on this machine"
        )
    row = rows[0]
    reasons = row.get("clocks_event_reasons.active", row.get("clocks_throttle_reasons.active", "0x0"))
    return Health(
        uuid=row["uuid"],
        processes=_processes(row["uuid"]),
        utilization_percent=whole(row.get("utilization.gpu")),
        temperature_c=whole(row.get("temperature.gpu")),
        sm_clock_mhz=whole(row.get("clocks.sm")),
        memory_clock_mhz=whole(row.get("clocks.mem")),
        throttled_by=_throttles(reasons),
        uncorrected_ecc_errors=whole(row.get("ecc.errors.uncorrected.volatile.total")),
        recovery=_recovery(row),
    )


def disturbances(seen: Health, own_pids: Collection[int], *, idle_guests: bool = False) -> tuple[str, ...]:
    """Why a measurement now would not be believable; empty when it would.

    `idle_guests` accepts others that hold a context and do nothing, as notebooks do.
    """
    found = [f"held back by {reason}" for reason in seen.throttled_by]
    if seen.recovery:
        found.append(f"the driver asks for: {seen.recovery}")
    if seen.uncorrected_ecc_errors:
        found.append(f"{seen.uncorrected_ecc_errors} uncorrected memory errors")
    if seen.temperature_c is not None and seen.temperature_c >= HOT_C:
        found.append(f"{seen.temperature_c} degrees Celsius")
    if not idle_guests:
        found += [f"pid {process.pid} ({process.name}) computes on it" for process in foreign(seen, own_pids)]
    found += [
        f"pid {process.pid} ({process.name}) takes {percent}% of it" for process, percent in intruders(seen, own_pids)
    ]
    ours = {process.pid for process in seen.processes}.intersection(own_pids)
    # While a process of ours is on the card the load may be our own.
    if not ours and (seen.utilization_percent or 0) > BUSY_PERCENT:
        found.append(f"{seen.utilization_percent}% busy with none of our processes on it")
    return tuple(found)


def intruders(seen: Health, own_pids: Collection[int]) -> list[tuple[GpuProcess, int]]:
    """Processes that compute on the card right now and are not ours.

    Numbers that do not exist here count only where the driver numbers processes as we do: one of ours is among them.
    """
    listed = {process.pid for process in seen.processes} | {process.pid for process, _ in seen.loads}
    same_numbers = not listed.isdisjoint(own_pids)
    return [
        (process, percent)
        for process, percent in seen.loads
        if percent > BUSY_PERCENT and process.pid not in own_pids and (process.visible or same_numbers)
    ]


def foreign(seen: Health, own_pids: Collection[int]) -> tuple[GpuProcess, ...]:
    """Processes that are not ours.

    Those numbered in another pid namespace count once there are more of them than could be ours.
    """
    others = [process for process in seen.processes if process.pid not in own_pids]
    hidden = [process for process in others if not process.visible]
    listed = {process.pid for process in seen.processes}
    ours_unlisted = sum(pid not in listed for pid in own_pids)
    excess = hidden[ours_unlisted:]
    return tuple(process for process in others if process.visible) + tuple(excess)


def require_quiet(gpu: str, own_pids: Collection[int], *, settle_s: float = 3.0, idle_guests: bool = False) -> Health:
    """The state of a card fit to be measured on; raises InstrumentError where it is not, naming why.

    Looks again for `settle_s`, since the utilisation it reads is that of the last second or so.
    """
    deadline_s = time.monotonic() + settle_s
    while True:
        seen = health(gpu)
        found = disturbances(seen, own_pids, idle_guests=idle_guests)
        if not found:
            return seen
        if time.monotonic() >= deadline_s:
            raise InstrumentError(
                f"the GPU is not quiet: {'; '.join(found)}",
                where=gpu,
                remedy="measure when it is free and cool, or on another card",
            )
        time.sleep(POLL_S)


def _processes(uuid: str) -> tuple[GpuProcess, ...]:
    text = nvidia_smi("--query-compute-apps=pid,process_name", "--format=csv,noheader,nounits", f"--id={uuid}")
    found = []
    for line in text.splitlines():
        pid, _, name = (part.strip() for part in line.partition(","))
        if pid.isdigit():
            found.append(GpuProcess(pid=int(pid), name=name, visible=os.path.exists(f"/proc/{pid}")))
    return tuple(found)


def _throttles(reasons: str) -> tuple[str, ...]:
    try:
        return _named(int(reasons, 16))
    except ValueError:
        return ()


def _named(bits: int) -> tuple[str, ...]:
    return tuple(name for bit, name in THROTTLES.items() if bits & bit)


def _recovery(row: dict[str, str]) -> str:
    action = row.get("gpu_recovery_action", "None")
    if action.lower() != "none":
        return action
    return "a reset" if row.get("reset_status.reset_required", "No").lower() == "yes" else ""
