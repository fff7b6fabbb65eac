"""Turns the results of a job into an `Evaluation` with its diagnosis, or into a `Sketch`."""

from __future__ import annotations

from collections.abc import Iterator

from triton_agent.tools.candidate.identity import candidate_id
from triton_agent.tools.checker.job import Job
from triton_agent.tools.kernel_profile import roofline_notes
from triton_agent.tools.problem.facts import ProblemFacts
from triton_agent.tools.results import DECISIONS, GRADER, Diagnosis, Environment, Evaluation, Sketch, Status

MEMORY_WORTH_SAYING = 1.5
TRAFFIC_WORTH_SAYING = 1.25
"""Ratio of bytes moved to the fewest bytes; below it, moving less gains little."""


def evaluation_of(job: Job, facts: ProblemFacts, *, layers: tuple[str, ...]) -> Evaluation:
    """Return the evaluation of a candidate; `layers` of the sandbox were active."""
    failure, settings = job.failure, job.settings
    environment = Environment(
        mode="gpu" if settings.device == "cuda" else "interpreter",
        device=facts.device,
        gpu=facts.gpu,
        python=facts.python,
        torch=facts.torch,
        triton=facts.triton,
        target=settings.target,
        sandbox=layers,
        grader=GRADER,
        precision=settings.precision,
        autocast=settings.autocast,
    )
    return Evaluation(
        candidate=candidate_id(job.source),
        problem=facts.digest,
        status=DECISIONS[failure.finding].status if failure else Status.PASSED,
        finding=failure.finding if failure else None,
        message=failure.message if failure else "",
        environment=environment,
        accuracy=tuple(job.accuracy),
        resources=tuple(job.resources),
        timings=() if failure else tuple(job.timings),
        diagnosis=_diagnosis(job, facts) if job.launches else None,
        evidence=tuple(job.evidence),
        determinism=job.determinism,
        stages=tuple(job.stages),
        notes=tuple(dict.fromkeys([*facts.notes, *job.notes])),
    )


def sketch_of(job: Job) -> Sketch:
    """Return the sketch of a candidate."""
    failure = job.failure
    return Sketch(
        candidate=candidate_id(job.source),
        finding=failure.finding if failure else None,
        message=failure.message if failure else "",
        timings=tuple(job.timings),
        stages=tuple(job.stages),
    )


def _diagnosis(job: Job, facts: ProblemFacts) -> Diagnosis:
    moved = sum((launch.bytes_loaded or 0) + (launch.bytes_stored or 0) for launch in job.launches)
    ratio = moved / facts.floor_bytes if facts.floor_bytes and moved else None
    return Diagnosis(
        floor_bytes=facts.floor_bytes,
        floor_flops=facts.floor_flops,
        floor_ms=job.roofline.floor_ms if job.roofline else None,
        traffic_ratio=ratio,
        launches=tuple(job.launches),
        torch_operators=tuple(job.torch_operators),
        notes=tuple(_notes(job, ratio)),
        peak_bytes=job.peak_bytes,
        original_peak_bytes=job.original_peak_bytes,
        roofline=job.roofline,
        profile=job.profile,
    )


def _notes(job: Job, traffic_ratio: float | None) -> Iterator[str]:
    """Yield notes that an author can act on: measurements on a GPU first, then counts."""
    device_ms = [timing.candidate_ms.median for timing in job.timings if timing.kind == "device"]
    if job.roofline and device_ms:
        yield from roofline_notes(job.roofline, device_ms[0])
    if job.profile:
        yield from job.profile.notes
    peak, original = job.peak_bytes, job.original_peak_bytes
    if peak and original and peak > MEMORY_WORTH_SAYING * original:
        yield f"a call takes {peak / original:.1f}x the device memory of the reference's"
    for kernel in job.resources:
        if kernel.spill_bytes and not job.profile:  # which names spills where they cost time
            yield f"{kernel.kernel} spills {kernel.spill_bytes} bytes: smaller tile or more warps"
    if traffic_ratio is not None and traffic_ratio > TRAFFIC_WORTH_SAYING:
        yield f"the kernels move {traffic_ratio:.1f}x the fewest bytes this problem needs"
    launches = sum(launch.launches for launch in job.launches)
    if launches > 1:
        yield f"{launches} launches per call"
    if job.torch_operators:
        yield f"torch still does {', '.join(job.torch_operators[:6])}"
