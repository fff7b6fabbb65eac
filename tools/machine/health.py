"""The state of a GPU right now: other programs on it, throttling, temperature, errors.

It shows if a measurement can be believed: a busy or throttled GPU is an instrument failure, not a slow kernel. The
state comes from NVIDIA's library (`nvml.py`), or from `nvidia-smi` if the library is missing. Only the library reports
the load of single processes.

Not covered: Xid errors, since only root may read the kernel log. Their consequences, a required reset or uncorrected
memory errors, are reported. Nothing here changes a setting.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Collection

from triton_agent.tools.errors import InstrumentError
from triton_agent.tools.machine import nvml
from triton_agent.tools.machine.hardware import nvidia_smi, query_gpus, whole

BUSY_PERCENT = 5
"""A display or a monitoring program stays below this load."""
HOT_C = 90
"""Near the temperature at which data-centre cards begin to slow down."""
STAT_FLAGS, EXITING = 5, 0x4
"""Position of the flags after the state in /proc/PID/stat, and the flag of an exiting process."""

THROTTLES = {
    0x08: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
}
"""Bits of the clock event reasons that make a measurement worthless. A power cap (0x04) is not among them: large matrix
products reach it on many cards, and it does not distort a paired measurement."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class GpuProcess:
    """A process with a CUDA context on the card."""

    pid: int
    name: str
    visible: bool
    """True if this pid exists here. If not, the process is in another namespace, and may be one of ours."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """The state of a card. None stands for facts that the driver does not report."""

    uuid: str
    processes: tuple[GpuProcess, ...]
    utilization_percent: int | None
    temperature_c: int | None
    sm_clock_mhz: int | None
    memory_clock_mhz: int | None
    throttled_by: tuple[str, ...]
    uncorrected_ecc_errors: int | None
    recovery: str
    """The action that the driver requests after an error, such as a reset; empty for none."""
    loads: tuple[tuple[GpuProcess, int], ...] = ()
    """Share of the multiprocessors' time that each process took lately, in percent; empty if not reported."""

    @property
    def clocks_mhz(self) -> tuple[int, ...]:
        """Clocks of the multiprocessors and of the memory, as a timing records them."""
        return tuple(clock for clock in (self.sm_clock_mhz, self.memory_clock_mhz) if clock is not None)


def health(gpu: str) -> Health:
    """Return the state of a card named by UUID, or by index if there is `nvidia-smi`."""
    seen = nvml.look(gpu) if gpu.startswith("GPU-") else None
    if seen is None:
        return _by_program(gpu)
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
    """Return True if a process is alive: the driver reports the load of dead and exiting ones for about a second."""
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


def _named(event_reasons: int) -> tuple[str, ...]:
    return tuple(name for bit, name in THROTTLES.items() if event_reasons & bit)


def _by_program(gpu: str) -> Health:
    reasons_now, reasons_before_535 = "clocks_event_reasons.active", "clocks_throttle_reasons.active"
    rows = query_gpus(
        *("uuid", "utilization.gpu", "temperature.gpu", "clocks.sm", "clocks.mem", reasons_now, reasons_before_535),
        *("ecc.errors.uncorrected.volatile.total", "reset_status.reset_required"),
        "gpu_recovery_action",  # since driver 570
        gpu=gpu,
    )
    if not rows:
        raise InstrumentError(
            "the state of this GPU cannot be read", where=gpu, remedy="see what `nvidia-smi` says on this machine"
        )
    row = rows[0]
    try:
        throttled_by = _named(int(row.get(reasons_now, row.get(reasons_before_535, "0x0")), 16))
    except ValueError:
        throttled_by = ()
    recovery = row.get("gpu_recovery_action", "None")
    if recovery.lower() == "none":
        recovery = "a reset" if row.get("reset_status.reset_required", "No").lower() == "yes" else ""
    query = "--query-compute-apps=pid,process_name"
    processes = []
    for line in nvidia_smi(query, "--format=csv,noheader,nounits", f"--id={row['uuid']}").splitlines():
        pid, _, name = (part.strip() for part in line.partition(","))
        if pid.isdigit():
            processes.append(GpuProcess(pid=int(pid), name=name, visible=os.path.exists(f"/proc/{pid}")))
    return Health(
        uuid=row["uuid"],
        processes=tuple(processes),
        utilization_percent=whole(row.get("utilization.gpu")),
        temperature_c=whole(row.get("temperature.gpu")),
        sm_clock_mhz=whole(row.get("clocks.sm")),
        memory_clock_mhz=whole(row.get("clocks.mem")),
        throttled_by=throttled_by,
        uncorrected_ecc_errors=whole(row.get("ecc.errors.uncorrected.volatile.total")),
        recovery=recovery,
    )


def disturbances(seen: Health, own_pids: Collection[int]) -> tuple[str, ...]:
    """Return the reasons not to believe a measurement made now; empty if there are none.

    Other processes that hold a context but compute nothing, such as notebooks, do not count.
    """
    found = [f"held back by {reason}" for reason in seen.throttled_by]
    if seen.recovery:
        found.append(f"the driver asks for: {seen.recovery}")
    if seen.uncorrected_ecc_errors:
        found.append(f"{seen.uncorrected_ecc_errors} uncorrected memory errors")
    if seen.temperature_c is not None and seen.temperature_c >= HOT_C:
        found.append(f"{seen.temperature_c} degrees Celsius")
    # A pid that does not exist here counts as foreign load only if the driver reports pids of our namespace, which is
    # known if one of our own is among them.
    on_card = {process.pid for process in seen.processes}
    same_numbers = not (on_card | {process.pid for process, _ in seen.loads}).isdisjoint(own_pids)
    for process, percent in seen.loads:
        if percent > BUSY_PERCENT and process.pid not in own_pids and (process.visible or same_numbers):
            found.append(f"pid {process.pid} ({process.name}) takes {percent}% of it")
    # While a process of ours is on the card, the load may come from that process.
    if on_card.isdisjoint(own_pids) and (seen.utilization_percent or 0) > BUSY_PERCENT:
        found.append(f"{seen.utilization_percent}% busy with none of our processes on it")
    return tuple(found)
