"""`doctor` is quick, states the truth about this machine, and helps on a machine where something is missing."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from triton_agent.runs.doctor import examination
from triton_agent.runs.doctor import sandbox as examination_sandbox
from triton_agent.runs.doctor import tools as examination_tools
from triton_agent.runs.doctor.checkup import Check, CheckState, in_binary_units
from triton_agent.tools.machine import nvml
from triton_agent.tools.machine.hardware import Gpu
from triton_agent.tools.sandbox import layers

pytestmark = pytest.mark.xdist_group("doctor")  # what is made once is made in one process
CARD = Gpu(
    name="NVIDIA Example",
    uuid="GPU-0",
    compute_capability="9.0",
    memory_bytes=80 << 30,
    sm_count=132,
    l2_bytes=None,
    driver="580.1",
    max_sm_clock_mhz=None,
    max_memory_clock_mhz=None,
)


def doctor(*flags: str, **environment: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "triton_agent", "doctor", *flags]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, env={**os.environ, **environment})


@pytest.fixture(scope="module")
def report() -> dict:
    done = doctor("--json")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout)


def check_of(report: dict, section: str, name: str) -> dict:
    return next(check for check in report["sections"][section] if check["name"] == name)


def test_a_machine_that_runs_these_tests_can_evaluate(report: dict) -> None:
    assert report["can_evaluate"] is True
    assert check_of(report, "versions", "import")["state"] == "ok"


def test_every_sandbox_layer_is_named_once_as_it_was_probed(report: dict) -> None:
    shown = {check["name"]: check["state"] == "ok" for check in report["sections"]["sandbox"]}
    assert shown == {layer.name: layer.available for layer in layers.probe()}


def test_only_extras_that_the_package_declares_are_offered(report: dict) -> None:
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    for check in report["sections"]["optional extras"]:
        assert f"\n{check['name']} = [" in text


def test_whatever_is_missing_comes_with_advice(report: dict) -> None:
    for section in report["sections"].values():
        for check in section:
            assert check["advice"] or check["state"] in ("ok", "fact"), check


def test_every_layer_that_can_be_missing_has_a_meaning_and_a_remedy() -> None:
    for layer in layers.probe():
        lacking = layers.Layer(layer.name, False, "Operation not permitted")
        found = examination_sandbox._check(lacking)
        if layer.name not in (layers.ENVIRONMENT, layers.LIMITS):  # these need nothing and are always there
            assert found.advice.startswith("without it "), layer.name
        assert (found.state is CheckState.WEAK) == (layer.name in layers.ESSENTIAL)


def test_the_page_for_people_says_what_to_run_next() -> None:
    done = doctor()
    assert done.returncode == 0
    assert "Kernels can be judged here" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


def test_a_torch_that_does_not_import_is_seen(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise OSError('libtorch_cpu.so: cannot open shared object file')\n")
    done = doctor("--json", PYTHONPATH=str(tmp_path))
    found = check_of(json.loads(done.stdout), "versions", "import")
    assert (done.returncode, found["state"]) == (2, "broken")
    assert "libtorch_cpu.so" in found["seen"]


def test_the_doctor_itself_does_not_import_torch() -> None:
    code = "import sys; import triton_agent.runs.doctor.command as _; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.strip() == "False"


def test_a_temporary_folder_in_shared_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/dev/shm")
    found = examination._scratch()
    assert found.state is CheckState.BROKEN
    assert "TMPDIR" in found.advice


def test_a_temporary_folder_that_is_passed_over_is_mentioned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", "/nonexistent")
    monkeypatch.setattr("tempfile.tempdir", "/tmp")
    found = examination._scratch()
    assert found.state is not CheckState.OK
    assert "/nonexistent" in found.advice


def test_an_untested_pair_is_named_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "triton_agent.tools.versions.installed", lambda name: {"torch": "2.11.0", "triton": "3.7.1"}.get(name)
    )
    (found,) = examination._torch_and_triton()
    assert found.state is CheckState.WEAK
    assert "2.11 with triton 3.6" in found.advice


@pytest.mark.parametrize(("torch", "triton"), [("2.10.0", "3.6.0"), ("2.13.0", None), ("2.13.0", "3.10.0")])
def test_versions_that_cannot_work_come_with_the_command_that_mends_them(
    monkeypatch: pytest.MonkeyPatch, torch: str, triton: str | None
) -> None:
    monkeypatch.setattr(
        "triton_agent.tools.versions.installed", lambda name: {"torch": torch, "triton": triton}.get(name)
    )
    (found,) = examination._torch_and_triton()
    assert found.state is CheckState.BROKEN
    assert "pip install" in found.advice


def test_a_missing_compiler_matters_only_where_there_is_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    assert examination_tools._compiler(()).state is CheckState.ABSENT
    assert examination_tools._compiler((CARD,)).state is CheckState.WEAK


def test_a_gpu_is_described_by_what_the_driver_tells() -> None:
    found, _ = examination._gpus((CARD,))
    expected = "NVIDIA Example, compute capability 9.0, 80.0 GiB, driver 580.1"
    assert found == Check(name="GPU 0", state=CheckState.OK, seen=expected)


def test_a_driver_that_tells_nothing_of_load_is_a_weakness_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "LIBRARY", "libnothing-of-the-kind.so")
    nvml._library.cache_clear()
    _, watched = examination._gpus((CARD,))
    nvml._library.cache_clear()
    assert (watched.name, watched.state) == ("NVML", CheckState.WEAK)
    assert "install libnothing-of-the-kind.so" in watched.advice


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (200 << 30, "200 GiB"), (5 << 50, "5120 TiB")]
)
def test_sizes_are_told_in_binary_units(count: int, text: str) -> None:
    assert in_binary_units(count) == text


def test_it_says_that_counters_are_for_root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "params").write_text("RmProfilingAdminOnly: 1\n")
    monkeypatch.setattr(examination_tools, "DRIVER_SETTINGS", tmp_path / "params")
    monkeypatch.setattr(examination_tools.shutil, "which", lambda program, path=None: f"/usr/bin/{program}")
    monkeypatch.setattr(examination_tools.os, "geteuid", lambda: 1000)
    ncu = examination_tools._profiler("ncu", "Nsight Compute")
    assert ncu.state is CheckState.WEAK and "only root" in ncu.seen
    assert examination_tools._profiler("nsys", "Nsight Systems").state is CheckState.OK
