"""Writes facts as lines for a prompt: about the problem, the hardware, an attempt, the remaining budget.

Only the wording and the figures are written here. Every name and note among them comes from a program or a model and is
quoted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from triton_agent.memory.observation import BudgetLeft, Observation, ProblemView, Tried
from triton_agent.policy.answer import without_notes
from triton_agent.policy.llm.prompting.quoting import inline, on_a_line
from triton_agent.tools.compile.targets import TARGETS
from triton_agent.tools.kernel_profile import Bottleneck
from triton_agent.tools.results import DECISIONS, Diagnosis, Finding, Interval, KernelResources, Status

VARIANTS_SHOWN = 12
NOTES_SHOWN = 8
KERNELS_SHOWN = 8
PLAN_CHARACTERS = 400
LINE_CHARACTERS = 300
SIZE_FAULTS = frozenset({Finding.VALUES, Finding.NON_FINITE, Finding.OUT_OF_BOUNDS, Finding.UNWRITTEN_OUTPUT})
"""Findings that point to wrong handling of some sizes if other sizes were right."""
CASE = re.compile(r"^case [^:]*: ")
"""The case that a message begins with, which takes the room of what is wrong in a line."""
NO_FIGURE = re.compile("[^0-9.]")


def bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def short_key(attempt: str) -> str:
    """Return `3.1` for `20260131-154500-3fa9c1/3.1`. Prompts do not quote it, so only digits and dots are kept."""
    return NO_FIGURE.sub("", attempt.rpartition("/")[2][:24])


# -- problem and hardware ----------------------------------------------------------------------------------------------


def problem_facts(problem: ProblemView) -> list[str]:
    """State how the reference is constructed and called, and at which sizes a file is checked."""
    spec = problem.spec
    lines = []
    if spec.get("kind") == "verifier":
        lines.append(
            "there is no reference: `verify(inputs, outputs)` decides; `ModelNew` takes what `get_inputs` gives"
        )
    else:
        lines.append(f"the reference is the class {inline(str(spec.get('class_name') or 'Model'))}")
    if spec.get("inputs"):
        lines.append(f"made with {inline(_call(spec))}, called with {inline(', '.join(map(str, spec['inputs'])))}")
    if problem.input_structure:
        lines.append(f"arguments of a call, with a star for each tensor: {inline(problem.input_structure)}")
    if problem.variants:
        shown = "; ".join(problem.variants[:VARIANTS_SHOWN])
        more = f", and {len(problem.variants) - VARIANTS_SHOWN} more" if len(problem.variants) > VARIANTS_SHOWN else ""
        lines.append(f"checked at {inline(shown, 600)}{more}")
    for note in problem.notes[:NOTES_SHOWN]:
        lines.append(f"note: {inline(note, LINE_CHARACTERS)}")
        if _is_scaling(note):
            lines[-1] += (
                ", for checking here only: the file will be used at the sizes before the arrows. Bytes, blocks, "
                "registers and shared memory below are those of the smaller sizes"
            )
    return lines


def is_scaled_down(problem: ProblemView) -> bool:
    """Return True if the problem is judged at smaller sizes than it is given with."""
    return any(map(_is_scaling, problem.notes))


def _is_scaling(note: str) -> bool:
    return note.startswith("scaled down: ")


def _call(spec: dict[str, object]) -> str:
    parts = (str(spec.get("init", "()")), str(spec.get("init_keywords", "{}")))
    return ", ".join(part for part in parts if part not in ("()", "{}")) or "no arguments"


def hardware_facts(observation: Observation) -> list[str]:
    """State the device, its measured rates, the compilation target, the versions, and the least work of a call."""
    problem, target = observation.problem, TARGETS.get(observation.rules.target or "")
    card = str(problem.card) if problem.card else ", ".join(problem.hardware)
    lines = []
    if problem.device == "cpu":
        lines.append(
            "no GPU here: kernels run in Triton's interpreter and speed is not measured. Of two right files the better "
            "one leaves fewer operators to torch, then moves fewer bytes, then has fewer launches"
        )
    else:
        told = f": {inline(card, LINE_CHARACTERS)}" if card else ""
        lines.append(f"GPU: {inline(problem.device)}{told}")
    if target is not None:
        example = "" if card else f" (for example {target.card}, {target.multiprocessors} multiprocessors)"
        lines.append(
            f"compiled for `{target.name}`{example}: "
            f"{target.warp_size} threads a warp, at most {target.shared_limit_bytes // 1024} KiB of shared memory "
            "a program" + (", 255 registers a thread" if target.backend == "cuda" else "")
        )
    if problem.rates is not None:
        products = ", ".join(f"{rate / 1e12:.4g} in {unit}" for unit, rate in problem.rates.flops_per_s.items())
        lines.append(
            f"measured on this GPU: a large copy moves {problem.rates.copy_bytes_per_s / 1e12:.4g} TB/s, read plus "
            f"written; TFLOP/s of matrix products: {products}"
        )
    versions = [
        f"{name} {on_a_line(text, 40)}" for name, text in (("torch", problem.torch), ("triton", problem.triton)) if text
    ]
    lines += [f"versions: {inline(', '.join(versions))}"] if versions else []
    if problem.floor_bytes or problem.floor_flops:
        size = "scaled-down" if is_scaled_down(problem) else "given"
        least = f"least work of a call at the {size} sizes: {problem.floor_bytes:,} bytes moved"
        least += f", {problem.floor_flops:,} operations"
        intensity = f" ({problem.floor_flops / problem.floor_bytes:.3g} a byte)" if problem.floor_bytes else ""
        lines.append(least + intensity)
    return lines


def standing_facts(observation: Observation, best: Tried | None) -> list[str]:
    """State the times of the reference and the other baselines, the floor, and the time of the best attempt."""
    lines = []
    timed = best if best is not None and best.baselines_ms else None
    timed = timed or next((item for item in reversed(observation.tried) if item.baselines_ms), None)
    for name, taken_ms in (timed.baselines_ms if timed else {}).items():
        told = "the reference" if name == "eager" else f"the reference as {inline(name, 40)}"
        lines.append(f"{told} takes {taken_ms:.4g} ms on the device")
    floor_ms = floor_of(observation)
    if floor_ms:
        line = next(
            (item.diagnosis.roofline for item in observation.tried if item.diagnosis and item.diagnosis.roofline), None
        )
        bound = f", {line.bound}-bound" if line else ""
        if line and line.bound == "compute" and line.products_each > 1:
            bound += (
                f', with `input_precision="tf32x3"` in `tl.dot`: {line.products_each} products in {line.unit} for one'
            )
        lines.append(f"the floor is {floor_ms:.4g} ms: the least work at this GPU's measured rates{bound}")
    if best is not None and best.device_ms:
        share = f", of which the floor is {100 * floor_ms / best.device_ms:.0f}%" if floor_ms else ""
        speed = f"; it has {times(best.speedup)} the speed of the reference" if best.speedup else ""
        lines.append(f"attempt {short_key(best.attempt)}, the best so far, takes {best.device_ms:.4g} ms{share}{speed}")
    return lines


def floor_of(observation: Observation) -> float | None:
    """Return the floor time in milliseconds: of the problem, or else of an earlier attempt."""
    if observation.problem.floor_ms is not None:
        return observation.problem.floor_ms
    told = (item.diagnosis.floor_ms for item in observation.tried if item.diagnosis is not None)
    return next((value for value in told if value is not None), None)


# -- attempts ----------------------------------------------------------------------------------------------------------


def verdict(item: Tried) -> str:
    """State a verdict in one line."""
    if item.status is None:
        return "could not be measured, which says nothing about the kernel"
    if item.finding is not None:
        return f"{item.status.value} ({item.finding.value}: {DECISIONS[item.finding].means})"
    return f"{item.status.value}{_speed(item)}"


def _speed(item: Tried) -> str:
    if item.speedup is not None:
        return f", {times(item.speedup)} the speed of the reference"
    ratio = item.diagnosis.traffic_ratio if item.diagnosis else None
    return f", moves {ratio:.2f}x the fewest bytes" if ratio is not None else ", speed not measured"


def times(ratio: Interval) -> str:
    """Format a ratio with its interval."""
    return f"{ratio.median:.3g}x ({ratio.low:.3g}x to {ratio.high:.3g}x)"


def attempt_facts(item: Tried) -> list[str]:
    """State the verdict and all measurements."""
    lines = [f"verdict: {verdict(item)}"]
    if item.right_at:
        hint = "; look at what depends on sizes: masks, the last block, offsets" if item.finding in SIZE_FAULTS else ""
        lines.append(f"before it failed, its outputs were right at {inline('; '.join(item.right_at), 300)}{hint}")
    if item.device_ms is not None or item.latency_ms is not None:
        told = [("on the device", item.device_ms), ("for a whole call from Python", item.latency_ms)]
        lines.append("time: " + ", ".join(f"{value:.4g} ms {name}" for name, value in told if value is not None))
    lines += diagnosis_facts(item.diagnosis) if item.diagnosis else []
    lines += resource_facts(item.resources)
    if plan := _plan(item):
        lines.append(f"its plan: {inline(plan, PLAN_CHARACTERS)}")
    return lines


def diagnosis_facts(diagnosis: Diagnosis) -> list[str]:
    """State a diagnosis. Notes come first, the most useful one at the top, because they are written for authors."""
    lines = [inline(note, LINE_CHARACTERS) for note in diagnosis.notes[:NOTES_SHOWN]]
    for launch in diagnosis.launches[:KERNELS_SHOWN] if diagnosis.profile is None else ():
        moved = (("loads", launch.bytes_loaded), ("stores", launch.bytes_stored))
        told = "".join(f", {name} {count:,} bytes" for name, count in moved if count is not None)
        launches = f"{launch.launches:,} launch{'' if launch.launches == 1 else 'es'}"
        programs = f"{launch.programs:,} program{'' if launch.programs == 1 else 's'} in all"
        where = f"{launches}, {programs}{told}, in a call at the smallest size checked"
        lines.append(f"{inline(launch.kernel, 60)}: {where}")
    if diagnosis.profile is not None:
        for kernel in diagnosis.profile.kernels[:KERNELS_SHOWN]:
            whose = "" if kernel.own else " (an operator of torch)"
            each = round((kernel.argument_bytes or 0) / max(1.0, kernel.launches))
            given = f", {each:,} bytes of arguments" if each else ""
            given += " each time" if each and kernel.launches > 1 else ""
            share = f"{kernel.device_ms:.4g} ms, {100 * kernel.share:.0f}% of the device time"
            often = f", {kernel.launches:g} launches" if kernel.launches > 1 else ""
            often += f", {kernel.programs:,} programs in a launch" if kernel.programs is not None else ""
            lines.append(f"{inline(kernel.kernel, 60)}: {share}{often}{given}{whose}")
    return lines


def resource_facts(resources: Sequence[KernelResources]) -> list[str]:
    """State the compiler's report on each kernel; specializations of a kernel with equal reports share a line."""
    lines: Counter[str] = Counter()
    for kernel in resources:
        told = [f"{kernel.num_warps} warp{'' if kernel.num_warps == 1 else 's'}, {kernel.num_stages} stages"]
        told += [f"{kernel.registers} registers a thread"] if kernel.registers is not None else []
        told += [f"spills {kernel.spill_bytes:,} bytes a thread"] if kernel.spill_bytes else []
        told += [f"{kernel.shared_bytes:,} bytes of shared memory a program"]
        told += ["uses tensor cores"] if kernel.tensor_cores else []
        constants = f" with {inline(kernel.constants, 120)}" if kernel.constants else ""
        lines[f"{inline(kernel.kernel, 60)}{constants}: {', '.join(told)}"] += 1
    forms = ((line, "" if count == 1 else f", in each of {count} compiled forms") for line, count in lines.items())
    return [line + count for line, count in forms][:KERNELS_SHOWN]


def largest_bottleneck(item: Tried) -> Bottleneck | None:
    """Return the bottleneck that costs an attempt the most; None without a profile."""
    profile = item.diagnosis.profile if item.diagnosis else None
    return max(profile.bottlenecks, key=lambda found: found.lost_ms, default=None) if profile else None


def in_short(item: Tried) -> str:
    """State the verdict, the time and the plan of an attempt in one line, for a list within a fence."""
    outcome = verdict(item).partition(":")[0] + (")" if item.finding else "")
    _, _, cause = item.message.partition("\nlikely cause: ")
    said = (
        f": {on_a_line(cause or CASE.sub('', item.message), 120)}"
        if item.message and item.status is not Status.PASSED
        else ""
    )
    time = f"{item.device_ms:.4g} ms" if item.device_ms is not None else "not timed"
    idea = on_a_line(_plan(item), 120) or "no plan given"
    return " | ".join((f"attempt {short_key(item.attempt)}", outcome + said, time, idea))


def _plan(item: Tried) -> str:
    return without_notes(item.plan)


# -- budget ------------------------------------------------------------------------------------------------------------


def budget_facts(left: BudgetLeft) -> str:
    """State the remaining turns. Seconds, tokens and cost are left out: they depend on the machine, not the problem."""
    if left.turns is None:
        return "no limit"
    return f"{left.turns}, this one included"
