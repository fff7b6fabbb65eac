"""From what the checker reports, plain data, to the frozen `Evaluation`; the diagnosis is put into words here."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from triton_agent.tools.kernel_profile import KernelTime, Occupancy, Profile, Roofline, roofline_notes
from triton_agent.tools.results import (
    CaseAccuracy,
    Determinism,
    Diagnosis,
    Environment,
    Evaluation,
    Evidence,
    Finding,
    Interval,
    KernelLaunch,
    KernelResources,
    StageTime,
    Status,
    Timing,
)

if TYPE_CHECKING:
    from triton_agent.tools.evaluate.evaluator import ProblemFacts

MEMORY_WORTH_SAYING = 1.5
TRAFFIC_WORTH_SAYING = 1.25
"""Bytes moved over the fewest bytes; below this there is little to win by moving less."""


def evaluation_from(
    verdict: dict[str, Any],
    *,
    candidate: str,
    problem: str,
    status: Status,
    finding: Finding | None,
    message: str,
    environment: Environment,
    facts: ProblemFacts,
) -> Evaluation:
    """The verdict as a value."""
    resources = tuple(KernelResources(**item) for item in verdict["resources"])
    launches = tuple(KernelLaunch(**item) for item in verdict["launches"])
    evidence = tuple(Evidence(finding=Finding(item["finding"]), detail=item["detail"]) for item in verdict["evidence"])
    return Evaluation(
        candidate=candidate,
        problem=problem,
        status=status,
        finding=finding,
        message=message,
        environment=environment,
        accuracy=tuple(CaseAccuracy(**_floats(item)) for item in verdict["accuracy"]),
        resources=resources,
        diagnosis=_diagnosis(facts, launches, resources, verdict) if launches else None,
        determinism=Determinism(verdict["determinism"]),
        timings=tuple(_timing(item) for item in verdict["timings"]) if status is Status.PASSED else (),
        evidence=evidence,
        stages=tuple(StageTime(**item) for item in verdict["stages"]),
        notes=tuple(dict.fromkeys([*facts.notes, *verdict["notes"]])),
    )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sketch:
    """Result of a quick look at a variant by a trusted author. It serves sorting and is no verdict."""

    candidate: str
    finding: Finding | None
    """The finding, if something was wrong."""
    message: str
    timings: tuple[Timing, ...]
    """Timings of a short race; empty if something was wrong."""
    stages: tuple[StageTime, ...]


def sketch_from(verdict: dict[str, Any], *, candidate: str) -> Sketch:
    """The same, from what the checker reports."""
    return Sketch(
        candidate=candidate,
        finding=Finding(verdict["finding"]) if verdict["finding"] else None,
        message=verdict["message"],
        timings=tuple(_timing(item) for item in verdict["timings"]),
        stages=tuple(StageTime(**item) for item in verdict["stages"]),
    )


def _timing(item: dict[str, Any]) -> Timing:
    intervals = {name: Interval(**item[name]) for name in ("candidate_ms", "baseline_ms", "speedup")}
    return Timing(**{**item, **intervals, "clocks_mhz": tuple(item["clocks_mhz"])})


def _floats(item: dict[str, Any]) -> dict[str, Any]:
    """JSON has no infinity; `to_json` wrote it as text."""
    return {key: float(value) if key in ("error", "original_error", "limit") else value for key, value in item.items()}


def _diagnosis(
    facts: ProblemFacts,
    launches: tuple[KernelLaunch, ...],
    resources: tuple[KernelResources, ...],
    verdict: dict[str, Any],
) -> Diagnosis:
    torch_operators = tuple(verdict["torch_operators"])
    roofline = Roofline(**verdict["roofline"]) if verdict["roofline"] else None
    profile = _profile(verdict["profile"]) if verdict["profile"] else None
    moved = sum((launch.bytes_loaded or 0) + (launch.bytes_stored or 0) for launch in launches)
    ratio = moved / facts.floor_bytes if facts.floor_bytes and moved else None
    return Diagnosis(
        floor_bytes=facts.floor_bytes,
        floor_flops=facts.floor_flops,
        floor_ms=roofline.floor_ms if roofline else None,
        traffic_ratio=ratio,
        launches=launches,
        torch_operators=torch_operators,
        notes=(*_speed_notes(roofline, profile, verdict), *_notes(ratio, launches, resources, torch_operators)),
        peak_bytes=verdict["peak_bytes"],
        original_peak_bytes=verdict["original_peak_bytes"],
        roofline=roofline,
        profile=profile,
    )


def _profile(item: dict[str, Any]) -> Profile:
    kernels = tuple(KernelTime(**kernel) for kernel in item["kernels"])
    occupancy = tuple(Occupancy(**estimate) for estimate in item["occupancy"])
    return Profile(**{**item, "kernels": kernels, "occupancy": occupancy, "notes": tuple(item["notes"])})


def _speed_notes(roofline: Roofline | None, profile: Profile | None, verdict: dict[str, Any]) -> list[str]:
    device = [timing["candidate_ms"]["median"] for timing in verdict["timings"] if timing["kind"] == "device"]
    notes = roofline_notes(roofline, device[0]) if roofline and device else []
    notes += list(profile.notes) if profile else []
    peak, original = verdict["peak_bytes"], verdict["original_peak_bytes"]
    if peak and original and peak > MEMORY_WORTH_SAYING * original:
        notes.append(f"a call takes {peak / original:.1f}x the device memory of the reference's")
    return notes


def _notes(
    ratio: float | None,
    launches: tuple[KernelLaunch, ...],
    resources: tuple[KernelResources, ...],
    torch_operators: tuple[str, ...],
) -> list[str]:
    notes = []
    spilling = [kernel for kernel in resources if kernel.spill_bytes]
    notes += [f"{kernel.kernel} spills {kernel.spill_bytes} bytes: smaller tile or more warps" for kernel in spilling]
    if ratio is not None and ratio > TRAFFIC_WORTH_SAYING:
        notes.append(f"the kernels move {ratio:.1f}x the fewest bytes this problem needs")
    count = sum(launch.launches for launch in launches)
    if count > 1:
        notes.append(f"{count} launches per call")
    if torch_operators:
        notes.append(f"torch still does {', '.join(torch_operators[:6])}")
    return notes
