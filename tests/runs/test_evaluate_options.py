"""Options of `evaluate` that change rules, measurements or trust: wrong ones are refused, idle ones are named."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests import verdicts

from triton_agent.runs.evaluate import speed_page
from triton_agent.tools.kernel_profile import KernelTime, Profile, Roofline
from triton_agent.tools.results import Determinism, Evaluation, to_json

KERNELS = Path(__file__).parents[1] / "kernels"
LINEAR = KERNELS / "linear_relu_f32"
PROBLEM, DEFAULT_DOT = str(LINEAR / "problem.py"), str(LINEAR / "wrong_default_tf32.py")


def evaluate(*arguments: str) -> subprocess.CompletedProcess[str]:
    argv = [
        sys.executable,
        "-m",
        "triton_agent",
        "evaluate",
        "--target",
        "none",
        "--shapes",
        "given",
        "--device",
        "cpu",
    ]
    return subprocess.run([*argv, *arguments], capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize(
    ("option", "value", "told"),
    [
        ("--precision", "tf33", "same or tf32"),
        ("--autocast", "half", "float16 or bfloat16"),
        ("--baseline", "fast", "compile-max-autotune"),
        ("--max-memory-ratio", "0", "such as 1.5"),
        ("--max-memory-ratio", "nan", "such as 1.5"),
    ],
)
def test_a_value_that_means_nothing_is_refused_with_those_that_do(option: str, value: str, told: str) -> None:
    done = evaluate(PROBLEM, DEFAULT_DOT, option, value)
    assert (done.returncode, done.stdout) == (2, "")
    assert option in done.stderr and told in done.stderr


def test_what_the_user_allows_passes_and_the_page_says_that_it_was_allowed() -> None:
    allowed = evaluate(PROBLEM, DEFAULT_DOT, "--precision", "tf32", "--profile", "--no-trust")
    assert allowed.returncode == 0, allowed.stdout + allowed.stderr
    assert "TF32 products are allowed" in allowed.stdout
    assert "--profile has no effect without a GPU" in allowed.stdout


def test_the_record_of_a_verdict_says_what_was_allowed() -> None:
    done = evaluate(PROBLEM, DEFAULT_DOT, "--precision", "tf32", "--json")
    record = json.loads(done.stdout)
    assert record["environment"]["precision"] == "tf32"
    assert record["determinism"] == "not measured"
    assert record["diagnosis"]["peak_bytes"] is None and record["diagnosis"]["profile"] is None


# -- the page of a kernel that passed on a GPU ---------------------------------------------------------------------


def passed(*baselines: str, profile: Profile | None = None) -> Evaluation:
    """Return a verdict with a speed-up of 2 over each baseline."""
    diagnosis = verdicts.diagnosis(
        floor_ms=0.5,
        notes=("memory-bound: the floor is 0.5000 ms, 50% of the time taken",),
        peak_bytes=3 << 20,
        original_peak_bytes=1 << 20,
        roofline=Roofline(floor_ms=0.5, bound="memory", flops_per_byte=1.0),
        profile=profile,
    )
    timings = (
        verdicts.timing(2.0, original_ms=2.0, baseline=name, kind=kind)
        for name in baselines
        for kind in ("device", "latency")
    )
    return verdicts.passed(*timings, environment=verdicts.environment("a card"), diagnosis=diagnosis)


def test_nothing_is_said_where_nothing_was_asked_and_nothing_stands_out() -> None:
    assert speed_page.lines(passed("eager")) == []


def test_each_baseline_has_its_lines() -> None:
    told = speed_page.lines(passed("eager", "compile"))
    assert [line.split(":")[0] for line in told[:4]] == [
        "device time, against eager",
        "call latency, against eager",
        "device time, against compile",
        "call latency, against compile",
    ]
    assert "1.0000 ms to 2.0000 ms, 2.00x [1.90, 2.10]" in told[0]
    assert "device memory of a call: 3.0 MiB, the reference's 1.0 MiB" in told


def test_a_profile_lists_kernels_and_whose_they_are() -> None:
    kernels = (
        KernelTime(kernel="own", launches=1.0, device_ms=0.8, share=0.8, own=True),
        KernelTime(kernel="void copy", launches=2.0, device_ms=0.2, share=0.2, own=False),
    )
    evaluation = passed("eager", profile=Profile(device_ms=1.0, own_share=0.8, kernels=kernels))
    told = speed_page.lines(evaluation)
    assert "profile: 1.0000 ms a call, 80% of it in kernels of its own" in told
    assert any("void copy (library)" in line and "20.0%" in line for line in told)
    json.dumps(to_json(evaluation), allow_nan=False)


def test_bits_that_differ_and_baselines_left_out_are_always_told() -> None:
    odd = dataclasses.replace(
        passed("eager"),
        determinism=Determinism.DIFFERS,
        notes=("baseline compile was not measured: it computes something else than the reference", "of no interest"),
    )
    assert speed_page.lines(odd) == [
        "results differ in their last bits from call to call (as sums by atomics do)",
        "baseline compile was not measured: it computes something else than the reference",
    ]
