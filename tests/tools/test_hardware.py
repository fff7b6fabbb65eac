"""Facts about a machine and the state of its GPUs, read from a fake `nvidia-smi`."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from triton_agent.tools.errors import InstrumentError
from triton_agent.tools.machine import hardware, health
from triton_agent.tools.machine.health import GpuProcess, Health
from triton_agent.tools.race import ceilings
from triton_agent.tools.race.ceilings import Ceilings

PutCard = Callable[..., None]
UUID = "GPU-5c2a0b1e-0000-1111-2222-333344445555"

CARD = {
    "name": "NVIDIA H200",
    "uuid": UUID,
    "compute_cap": "9.0",
    "memory.total": "143771",
    "driver_version": "580.159.04",
    "clocks.max.sm": "1980",
    "clocks.max.memory": "3201",
    "utilization.gpu": "0",
    "temperature.gpu": "31",
    "clocks.sm": "345",
    "clocks.mem": "3201",
    "clocks_event_reasons.active": "0x0000000000000001",
    "ecc.errors.uncorrected.volatile.total": "0",
    "gpu_recovery_action": "None",
}

STAND_IN = """#!{python} -S
import sys
card = {card!r}
for argument in sys.argv[1:]:
    if argument.startswith("--query-compute-apps"):
        print({processes!r})
        sys.exit(0)
    if argument.startswith("--query-gpu="):
        fields = argument.split("=")[1].split(",")
        for field in fields:
            if field not in card:
                print(f'Field "{{field}}" is not a valid field to query.')
                sys.exit(2)
        print(", ".join(card[field] for field in fields))
"""


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PutCard:
    """Put a fake `nvidia-smi` on the PATH."""

    def put(processes: str = "", **changes: str) -> None:
        card = {**CARD, **{name.replace("__", "."): value for name, value in changes.items()}}
        program = tmp_path / "nvidia-smi"
        program.write_text(STAND_IN.format(python=sys.executable, card=card, processes=processes))
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path))

    return put


def state(**changes: object) -> Health:
    facts: dict[str, object] = {
        "uuid": UUID,
        "processes": (),
        "utilization_percent": 0,
        "temperature_c": 40,
        "sm_clock_mhz": 1980,
        "memory_clock_mhz": 3201,
        "throttled_by": (),
        "uncorrected_ecc_errors": 0,
        "recovery": "",
    }
    return Health(**{**facts, **changes})  # type: ignore[arg-type]


def process(pid: int, visible: bool = True) -> GpuProcess:
    return GpuProcess(pid=pid, name="python", visible=visible)


def test_describing_a_machine_without_a_gpu_leaves_out_the_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    machine = hardware.describe()
    assert machine.gpus == ()
    assert machine.cpu_count >= 1 and machine.memory_bytes > 2**28
    assert machine.python.startswith("3.") and machine.torch is not None


def test_describing_imports_neither_torch_nor_triton() -> None:
    program = (
        "import sys; from triton_agent.tools.machine import hardware, health; hardware.describe()\n"
        "assert not {'torch', 'triton'} & set(sys.modules)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60, env=environment)


def test_a_card_is_described_as_nvidia_smi_tells(stand_in: PutCard) -> None:
    stand_in()
    (gpu,) = hardware.gpus()
    assert (gpu.name, gpu.uuid, gpu.compute_capability) == ("NVIDIA H200", UUID, "9.0")
    assert gpu.memory_bytes == 143771 * 2**20
    assert (gpu.driver, gpu.max_sm_clock_mhz, gpu.max_memory_clock_mhz) == ("580.159.04", 1980, 3201)
    assert gpu.sm_count is None  # no driver library knows this card


def test_an_author_is_told_what_the_card_tells(stand_in: PutCard) -> None:
    stand_in(clocks__max__memory="[N/A]")
    told = hardware.card_facts(UUID)
    assert told == hardware.CardFacts(compute_capability="9.0", memory_bytes=143771 * 2**20, sm_clock_mhz=1980)
    assert str(told) == "compute capability 9.0, 140 GiB of memory, multiprocessors at up to 1980 MHz"
    assert hardware.card_facts("GPU-another") is None


def test_a_card_that_is_known_is_not_asked_for_again(stand_in: PutCard, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in()
    cards, told = hardware.gpus(), hardware.card_facts(UUID)
    monkeypatch.setenv("PATH", "")
    assert hardware.card_facts(UUID, cards) == told and hardware.card_facts(UUID) is None


def test_what_a_card_does_not_tell_is_none_and_not_zero(stand_in: PutCard) -> None:
    stand_in(
        memory__total="[N/A]", clocks__max__sm="[Not Supported]", ecc__errors__uncorrected__volatile__total="[N/A]"
    )
    (gpu,) = hardware.gpus()
    assert gpu.memory_bytes is None and gpu.max_sm_clock_mhz is None
    assert health.health(UUID).uncorrected_ecc_errors is None


def test_fields_that_this_driver_does_not_know_cost_only_themselves(stand_in: PutCard) -> None:
    stand_in()
    assert hardware.query_gpus("uuid", "name", "no.such.field") == [{"uuid": UUID, "name": "NVIDIA H200"}]


def test_a_hanging_nvidia_smi_is_given_up_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!{sys.executable} -S\nimport time; time.sleep(60)\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(hardware, "LIMIT_S", 0.3)
    assert hardware.gpus() == ()
    with pytest.raises(InstrumentError, match="cannot be read"):
        health.health("0")


def test_health_reads_clocks_reasons_and_processes(stand_in: PutCard) -> None:
    stand_in(processes=f"{os.getpid()}, /usr/bin/python3\n999999999, [Not Found]", clocks__sm="1755")
    seen = health.health(UUID)
    assert [(found.pid, found.visible) for found in seen.processes] == [(os.getpid(), True), (999999999, False)]
    assert seen.clocks_mhz == (1755, 3201)
    assert seen.throttled_by == ()  # 0x01 is idle


def test_throttling_is_read_under_its_older_name_too(stand_in: PutCard) -> None:
    stand_in(clocks_throttle_reasons__active="0x00000000000000c0", clocks_event_reasons__active="[N/A]")
    assert health.health(UUID).throttled_by == ("hardware thermal slowdown", "hardware power brake")


@pytest.mark.parametrize(
    ("seen", "complaint"),
    [
        (state(processes=(process(7),), loads=((process(7), 60),)), r"pid 7 \(python\) takes 60%"),
        (state(utilization_percent=60), "60% busy"),
        (state(throttled_by=("hardware slowdown",)), "held back by hardware slowdown"),
        (state(uncorrected_ecc_errors=2), "2 uncorrected memory errors"),
        (state(recovery="a reset"), "a reset"),
        (state(temperature_c=95), "95 degrees"),
    ],
    ids=["foreign process", "load", "throttled", "memory errors", "reset", "hot"],
)
def test_what_spoils_a_measurement_is_noticed(seen: Health, complaint: str) -> None:
    (found,) = health.disturbances(seen, own_pids=[])
    assert re.search(complaint, found)


def test_our_own_load_is_no_disturbance() -> None:
    assert health.disturbances(state(processes=(process(7),), utilization_percent=99), own_pids=[7]) == ()


def test_unknown_facts_disturb_nobody() -> None:
    assert health.disturbances(state(utilization_percent=None, temperature_c=None), own_pids=[]) == ()


def test_idle_guests_are_accepted() -> None:
    assert health.disturbances(state(processes=(process(7),)), own_pids=[]) == ()
    assert health.disturbances(state(processes=(process(7),), utilization_percent=50), own_pids=[]) != ()


def measured(**changes: object) -> Ceilings:
    facts: dict[str, object] = {
        "gpu": "NVIDIA H200",
        "uuid": UUID,
        "driver": "580.159.04",
        "torch": "2.11.0",
        "measured_at": "2026-01-01T00:00:00+00:00",
        "copy_bytes_per_s": 4e12,
        "flops_per_s": {"bf16": 8e14, "tf32": 4e14, "fp32": 5e13},
        "launch_ms": 0.02,
        "launch_enqueue_ms": 0.01,
        "empty_kernel_ms": 0.003,
    }
    return Ceilings(**{**facts, **changes})  # type: ignore[arg-type]


def test_the_floor_is_the_larger_of_moving_and_computing() -> None:
    assert ceilings.floor_ms(4e9, {"bf16": 8e9}, measured()) == pytest.approx(1.0)
    assert ceilings.floor_ms(4e6, {"bf16": 8e12}, measured()) == pytest.approx(10.0)
    assert ceilings.floor_ms(0, {}, measured()) == 0


def test_a_copy_of_as_many_bytes_is_found_between_those_that_were_measured() -> None:
    card = measured(copies_ms=((10**6, 0.005), (10**8, 0.030)))
    assert ceilings.copy_ms(10**6, card) == pytest.approx(0.005)
    assert ceilings.copy_ms(5 * 10**5, card) == pytest.approx(0.004)
    assert ceilings.copy_ms((10**6 + 10**8) / 2, card) == pytest.approx(0.0175)
    assert ceilings.copy_ms(10**8 + 4 * 10**9, card) == pytest.approx(1.030)
    assert ceilings.copy_ms(10**6, measured()) is None
    with pytest.raises(ValueError, match="above zero"):
        measured(copies_ms=((10**6, 0.0),))


def test_work_of_the_same_tensor_cores_adds_up_and_other_work_overlaps() -> None:
    assert ceilings.floor_ms(0, {"bf16": 8e11, "tf32": 4e11}, measured()) == pytest.approx(2.0)
    assert ceilings.floor_ms(0, {"bf16": 8e11, "fp32": 5e10}, measured()) == pytest.approx(1.0)


def test_a_unit_without_a_rate_is_refused() -> None:
    with pytest.raises(ValueError, match="fp64"):
        ceilings.floor_ms(0, {"fp64": 1e9}, measured())
    with pytest.raises(ValueError, match="unknown units"):
        measured(flops_per_s={"fp8": 1e15})
    with pytest.raises(ValueError, match="above zero"):
        measured(copy_bytes_per_s=0.0)


def test_ceilings_are_kept_privately_and_read_back(tmp_path: Path) -> None:
    path = ceilings.cache_path(tmp_path / "triton-agent" / "ceilings", {"uuid": UUID})
    card = measured(copies_ms=((2**20, 0.005), (2**21, 0.006)))
    ceilings.save(path, card)
    assert ceilings.load(path) == card
    assert stat.S_IMODE(path.parent.stat().st_mode) == stat.S_IMODE(path.parent.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(list(path.parent.iterdir())) == 1


@pytest.mark.parametrize("text", ["", "{", "[]", '{"gpu": "x"}', "null"])
def test_a_damaged_cache_is_measured_again(tmp_path: Path, text: str) -> None:
    (tmp_path / "kept.json").write_text(text)
    assert ceilings.load(tmp_path / "kept.json") is None
    assert ceilings.load(tmp_path / "missing.json") is None


def test_another_driver_has_other_ceilings(tmp_path: Path) -> None:
    paths = {ceilings.cache_path(tmp_path, {"uuid": UUID, "driver": driver}) for driver in ("570", "580")}
    assert len(paths) == 2
