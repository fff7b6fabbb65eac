"""Watching a GPU during timing: which disturbances are noticed, from which source, and what follows.

NVIDIA's library is a stand-in, compiled here, with the entry points and layouts of the real one's public header.
"""

from __future__ import annotations

import ctypes
import dataclasses
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from triton_agent.tools.checker.checker import device_trouble
from triton_agent.tools.checker.session import Failed
from triton_agent.tools.errors import InstrumentError, WorkerLost
from triton_agent.tools.machine import health, nvml
from triton_agent.tools.machine.health import GpuProcess, Health
from triton_agent.tools.race.disturbances import ATTEMPTS, ZYGOTE, GpuWatch, undisturbed
from triton_agent.tools.results import Finding

UUID = "GPU-5c2a0b1e-0000-1111-2222-333344445555"

LIBRARY = r"""
#include <string.h>
typedef struct { unsigned pid; unsigned long long bytes; unsigned gi, ci; } process_t;
typedef struct { unsigned pid; unsigned long long at; unsigned sm, mem, enc, dec; } load_t;
unsigned first_pid, second_pid, second_sm, degrees = 40;
unsigned long long reasons, ecc;
int handle_code, ecc_code;
int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetHandleByUUID(const char *uuid, void **device) {
    *device = &degrees;
    return strncmp(uuid, "GPU-5c2a", 8) ? 6 : handle_code;
}
int nvmlDeviceGetUtilizationRates(void *d, unsigned *rates) { rates[0] = 99; rates[1] = 7; return 0; }
int nvmlDeviceGetTemperature(void *d, unsigned sensor, unsigned *value) { *value = degrees; return sensor; }
int nvmlDeviceGetClockInfo(void *d, unsigned kind, unsigned *value) { *value = kind == 1 ? 1755 : 3201; return 0; }
int nvmlDeviceGetCurrentClocksThrottleReasons(void *d, unsigned long long *value) { *value = reasons; return 0; }
int nvmlDeviceGetTotalEccErrors(void *d, unsigned kind, unsigned counter, unsigned long long *value) {
    *value = ecc;
    return kind == 1 && counter == 0 ? ecc_code : 2;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void *d, unsigned *count, process_t *found) {
    if (*count < 2) { *count = 2; return 7; }
    *count = 2;
    found[0] = (process_t){first_pid, 1ull << 30, ~0u, ~0u};
    found[1] = (process_t){second_pid, ~0ull, ~0u, ~0u};
    return 0;
}
int nvmlDeviceGetProcessUtilization(void *d, load_t *found, unsigned *count, unsigned long long since) {
    if (!second_pid || since < 1600000000000000ull) return 6;
    *count = 2;
    found[0] = (load_t){first_pid, since + 1, 80, 1, 0, 0};
    found[1] = (load_t){second_pid, since + 1, second_sm, 1, 0, 0};
    return 0;
}
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler for the stand-in library")
    folder = tmp_path_factory.mktemp("nvml")
    (folder / "nvml.c").write_text(LIBRARY)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", folder / "nvml.so", folder / "nvml.c"], check=True)
    return folder / "nvml.so"


@pytest.fixture
def card(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Set what the library reports about the card. Two processes are on it, the first is this one."""
    path = tmp_path / "libnvidia-ml.so.1"
    shutil.copy(built, path)
    monkeypatch.setattr(nvml, "LIBRARY", str(path))
    nvml._library.cache_clear()
    library = ctypes.CDLL(str(path))

    def put(**values: int) -> None:
        for name, value in values.items():
            kind = ctypes.c_ulonglong if name in ("reasons", "ecc") else ctypes.c_uint
            kind.in_dll(library, name).value = value

    put(first_pid=os.getpid(), second_pid=1, second_sm=0, degrees=40, reasons=0, ecc=0, handle_code=0, ecc_code=0)
    yield put
    nvml._library.cache_clear()


def test_the_library_tells_what_the_card_is_doing(card: Callable[..., None]) -> None:
    card(reasons=0x08 | 0x04, ecc=3)
    seen = health.health(UUID)
    assert (seen.temperature_c, seen.clocks_mhz, seen.utilization_percent) == (40, (1755, 3201), 99)
    assert seen.throttled_by == ("hardware slowdown",)
    assert seen.uncorrected_ecc_errors == 3
    assert [(process.pid, process.visible) for process in seen.processes] == [(os.getpid(), True), (1, True)]
    assert [(process.pid, percent) for process, percent in seen.loads] == [(1, 0), (os.getpid(), 80)]


def test_what_the_library_does_not_tell_is_none(card: Callable[..., None]) -> None:
    card(ecc_code=3)
    assert health.health(UUID).uncorrected_ecc_errors is None


def test_a_card_in_error_asks_for_what_it_needs(card: Callable[..., None]) -> None:
    card(handle_code=15)
    assert "reboot" in health.health(UUID).recovery
    card(handle_code=16)
    assert health.health(UUID).recovery == "a reset"
    assert any("reset" in text for text in GpuWatch(UUID).disturbances())


def test_a_card_that_nobody_knows_is_an_instruments_failure(card: Callable[..., None]) -> None:
    with pytest.raises(InstrumentError):
        health.health("GPU-00000000-0000-0000-0000-000000000000")


def test_another_process_that_computes_is_noticed_and_our_own_is_not(card: Callable[..., None]) -> None:
    watch = GpuWatch(UUID)
    assert watch.disturbances() == ()
    assert watch.clocks_mhz == (1755, 3201)
    card(second_sm=60)
    (found,) = watch.disturbances()
    assert found.startswith("pid 1 ") and "60%" in found


def test_strange_numbers_count_only_where_ours_are_among_them(card: Callable[..., None]) -> None:
    card(second_pid=999_999_999, second_sm=60)
    assert len(GpuWatch(UUID).disturbances()) == 1
    card(first_pid=999_999_998)  # a container: the driver counts in another namespace, and one of these may be us
    assert GpuWatch(UUID).disturbances() == ()


def test_throttling_heat_and_new_memory_errors_are_noticed_and_old_ones_are_not(card: Callable[..., None]) -> None:
    card(ecc=2)
    watch = GpuWatch(UUID)
    assert watch.disturbances() == ()
    card(ecc=3, reasons=0x40, degrees=95)
    assert watch.disturbances() == (
        "held back by hardware thermal slowdown",
        "1 uncorrected memory errors",
        "95 degrees Celsius",
    )


def test_where_nothing_is_told_it_goes_on_and_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(nvml, "LIBRARY", str(tmp_path / "none.so"))
    monkeypatch.setenv("PATH", str(tmp_path))
    nvml._library.cache_clear()
    watch = GpuWatch(UUID)
    assert not nvml.available()
    assert undisturbed(lambda: 7, watch, after=lambda _: (), settle_s=0.0) == 7
    assert "cannot be read" in watch.blind
    nvml._library.cache_clear()


# -- what follows --------------------------------------------------------------------------------------------------

QUIET = Health(
    uuid=UUID,
    processes=(),
    utilization_percent=0,
    temperature_c=40,
    sm_clock_mhz=1980,
    memory_clock_mhz=3201,
    throttled_by=(),
    uncorrected_ecc_errors=0,
    recovery="",
)
BUSY = dataclasses.replace(QUIET, loads=((GpuProcess(pid=1, name="stranger", visible=True), 80),))


def seeing(*looks: Health) -> GpuWatch:
    """Return a watch that sees these states in turn, and the last one from then on."""
    left = list(looks)
    return GpuWatch(UUID, lambda _: left.pop(0) if len(left) > 1 else left[0])


def test_a_disturbed_measurement_is_taken_once_more() -> None:
    taken: list[int] = []
    watch = seeing(QUIET, BUSY, QUIET, QUIET)
    assert undisturbed(lambda: taken.append(1) or len(taken), watch, after=lambda _: (), settle_s=0.0) == 2


def test_disturbed_again_it_is_the_instruments_failure_and_no_verdict() -> None:
    taken: list[int] = []
    watch = seeing(QUIET, BUSY, QUIET, BUSY)
    with pytest.raises(InstrumentError, match="stranger"):
        undisturbed(lambda: taken.append(1), watch, after=lambda _: (), settle_s=0.0)
    assert len(taken) == ATTEMPTS


def test_a_look_behind_one_measurement_is_the_look_before_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[str] = []
    watch = GpuWatch(UUID, lambda gpu: looks.append(gpu) or QUIET)
    for _ in range(3):
        undisturbed(lambda: None, watch, after=lambda _: (), settle_s=0.0)
    assert len(looks) == 4
    monkeypatch.setattr("triton_agent.tools.race.disturbances.STILL_QUIET_S", 0.0)
    undisturbed(lambda: None, watch, after=lambda _: (), settle_s=0.0)
    assert len(looks) == 6


def test_a_busy_card_is_not_even_tried() -> None:
    with pytest.raises(InstrumentError, match="80%"):
        undisturbed(lambda: pytest.fail("measured"), seeing(BUSY), after=lambda _: (), settle_s=0.0)


def test_what_a_candidate_did_wrong_counts_only_when_nothing_disturbed() -> None:
    def lies() -> None:
        raise Failed(Finding.FALSE_CLOCK, "too slow")

    with pytest.raises(Failed):
        undisturbed(lies, seeing(QUIET), after=lambda _: (), settle_s=0.0)
    with pytest.raises(InstrumentError):
        undisturbed(lies, seeing(QUIET, BUSY), after=lambda _: (), settle_s=0.0)


def test_an_original_much_slower_than_before_betrays_a_load_that_nobody_told_of() -> None:
    watch = seeing(QUIET)
    assert watch.slower_than_usual({"eager": 1.0, "compile": 0.5}) == ()
    assert watch.slower_than_usual({"eager": 1.2, "compile": 0.5}) == ()
    (found,) = watch.slower_than_usual({"eager": 2.1, "compile": 0.5})
    assert found == "eager takes 2.1000 ms and took 1.0000 ms before"
    assert watch.slower_than_usual({"eager": 0.8}) == watch.slower_than_usual({"eager": None}) == ()
    tiny = seeing(QUIET)
    assert tiny.slower_than_usual({"eager": 0.004}) == tiny.slower_than_usual({"eager": 0.009}) == ()


def sleeper(*marks: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(60)", *marks])
    deadline_s = time.monotonic() + 10
    while not Path(f"/proc/{process.pid}/cmdline").read_bytes():  # for a moment after the start it has none
        assert time.monotonic() < deadline_s
    return process


def test_forks_of_a_zygote_are_ours_whoever_their_driver_is(card: Callable[..., None]) -> None:
    with sleeper(ZYGOTE.decode()) as own, sleeper() as stranger:
        card(second_pid=own.pid, second_sm=90)
        assert GpuWatch(UUID).disturbances() == ()
        card(second_pid=stranger.pid)
        assert len(GpuWatch(UUID).disturbances()) == 1
        own.kill(), stranger.kill()


def test_what_the_dead_did_in_the_last_second_disturbs_nobody(card: Callable[..., None]) -> None:
    stranger = sleeper()
    card(second_pid=stranger.pid, second_sm=90)
    stranger.kill()
    os.waitid(os.P_PID, stranger.pid, os.WEXITED | os.WNOWAIT)
    assert GpuWatch(UUID).disturbances() == ()  # a zombie
    stranger.wait()
    card(first_pid=0)
    assert GpuWatch(UUID).disturbances() == ()


def test_a_candidate_that_seems_wrong_on_a_slowed_card_is_no_verdict() -> None:
    def lies() -> None:
        raise Failed(Finding.FALSE_CLOCK, "too slow")

    with pytest.raises(InstrumentError, match="eager takes"):
        undisturbed(lies, seeing(QUIET), after=lambda _: (), probe=lambda: "eager takes 2 ms", settle_s=0.0)


def test_what_the_gpu_does_to_the_checker_is_the_instruments_failure() -> None:
    sticky = device_trouble(RuntimeError("CUDA error: an illegal memory access was encountered\nmore"))
    assert isinstance(sticky, WorkerLost) and "illegal memory access" in sticky.what
    assert device_trouble(RuntimeError("shapes do not match")) is None
    assert device_trouble(ValueError("CUDA")) is None
