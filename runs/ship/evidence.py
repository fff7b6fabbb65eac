"""The header of a shipped file: how to use it, what was verified, how fast it is, and on which device."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator

from triton_agent.runs.ship.facts import Argument, Call, ShippedFacts, ShippedSet, TensorForm
from triton_agent.tools.problem.problem import ProblemSpec
from triton_agent.tools.ranking import standing
from triton_agent.tools.results import KINDS_OF_TIME, CaseAccuracy, Timing

WIDTH = 118
VARIANTS_AT_MOST = 8


def header(problem: ProblemSpec, facts: ShippedFacts, class_name: str, notes: Iterable[str], *, draft: bool) -> str:
    """Return the header as plain text for the file's docstring."""
    blocks = [
        f"{problem.name} with Triton kernels, made by triton-agent {facts.version}. Needs torch and triton only.",
        _use(class_name, draft=draft),
        _graphs() if facts.cuda_graph else "",
        "\n".join([_status(facts, draft=draft), *_speed(facts, draft=draft)]),
        "\n".join(_sets(facts, draft=draft)),
        "\n".join(["Ranges of sizes:", *(f"  {text}" for text in facts.ranges)]) if facts.ranges else "",
        "\n".join(_accuracy(facts.evaluation.accuracy)),
        "\n".join(_where(facts)),
        "\n".join(_made(problem, facts)),
        "\n".join(f"Note: {note}" for note in (*notes, *facts.evaluation.notes)),
    ]
    return "\n\n".join(_wrapped(block) for block in blocks if block)


def verified_again(facts: ShippedFacts, *, faster: bool) -> str:
    """Return lines for the header of a file that was verified and measured on another GPU."""
    result = "faster than the reference" if faster else "no faster than the reference, which runs there"
    return _wrapped(
        "\n".join(
            [f"Verified again {facts.date.isoformat()}: {result}.", *_speed(facts, draft=False), *_where(facts)[:1]]
        )
    )


def _wrapped(block: str) -> str:
    lines = []
    for line in block.splitlines():
        margin = len(line) - len(line.lstrip())
        indent = " " * (margin + 2 if margin else 0)
        lines += textwrap.wrap(line, WIDTH, subsequent_indent=indent, break_long_words=False) or [""]
    return "\n".join(lines)


def _use(class_name: str, *, draft: bool) -> str:
    name = class_name if class_name == "ModelNew" else f"{class_name} (also called ModelNew)"
    lead = f"Import {name} from here in place of the reference: same constructor, same state dict, same answers. "
    if draft:
        return (
            f"{lead}\nThis is a draft: the reference runs, until `ModelNew.use_kernels` (or that of one model) is set "
            'to "always".'
        )
    return (
        f"{lead}\nThe kernels run in the calls that were verified and measured (CALLS, below); every other call, "
        "and every call that needs gradients, runs the reference."
    )


def _graphs() -> str:
    return (
        "On a GPU calls are replayed as CUDA graphs: the tensors of a call are copied to where the graph reads them, "
        "the results out of it. Each graph keeps the memory of one call. The first two calls with given sizes and "
        "parameters take longer."
    )


def _status(facts: ShippedFacts, *, draft: bool) -> str:
    if not draft:
        return "Verified and measured on the GPU named below."
    how = "in the interpreter" if facts.evaluation.environment.mode == "interpreter" else "on a GPU"
    promote = f"\nTo measure and promote it, on a machine with a GPU:\n  {facts.promote}" if facts.promote else ""
    return f"Verified for correctness {how}, not measured.{promote}"


def _speed(facts: ShippedFacts, *, draft: bool) -> list[str]:
    if draft:
        return []
    over_all = ["Over all sets of inputs, as weighted geometric means:"] if facts.sets else []
    return [*over_all, *(_timing(timing) for timing in facts.evaluation.timings if not timing.input_set)]


def _sets(facts: ShippedFacts, *, draft: bool) -> Iterator[str]:
    """Yield lines on each set of inputs, and on the one with the smallest gain."""
    if not facts.sets:
        return
    yield "Sets of inputs, each verified:" if draft else "Sets of inputs, each verified and measured:"
    for item in facts.sets:
        yield f"  {item.name} (weight {item.weight:g}): {_call(item.call)}"
        if item.admitted:
            yield from (f"  {_timing(timing)}" for timing in item.timings if not draft)
        else:
            yield f"    the reference runs here; the kernels alone were {_no_faster(item)}"
    if worst := standing(facts.evaluation).worst:
        ratio = worst.speedup
        yield f"  The least gain: {ratio.median:.2f}x [{ratio.low:.2f}, {ratio.high:.2f}] at {worst.name}"


def _no_faster(item: ShippedSet) -> str:
    said = [
        f"{timing.speedup.median:.2f}x [{timing.speedup.low:.2f}, {timing.speedup.high:.2f}] in "
        f"{KINDS_OF_TIME[timing.kind]}"
        for timing in item.timings
        if timing.baseline_name == "eager"
    ]
    return " and ".join(said) or "not measured"


def _timing(timing: Timing) -> str:
    what = KINDS_OF_TIME[timing.kind]
    ratio = timing.speedup
    cache = ", L2 cache cold" if timing.cold_l2 else ""
    return (
        f"  {what}: {ratio.median:.2f}x as fast as {timing.baseline} [{ratio.low:.2f}, {ratio.high:.2f}]; "
        f"{timing.candidate_ms.median:.4g} ms, was {timing.baseline_ms.median:.4g} ms ({timing.pairs} pairs{cache})"
    )


def _accuracy(cases: tuple[CaseAccuracy, ...]) -> list[str]:
    """Return a line for each output, on the case that came closest to its limit."""
    worst: dict[str, CaseAccuracy] = {}
    for case in cases:
        known = worst.get(case.output)
        if known is None or _share(case) > _share(known):
            worst[case.output] = case
    lines = [f"Error against float64, in {len(cases)} checks; the closest to its limit:"]
    for case in worst.values():
        lines.append(
            f"  {case.output}: {case.error:.3g} ({case.metric}; the reference's own {case.original_error:.3g}, "
            f"allowed {case.limit:.3g}) with {case.variant} / {case.distribution}"
        )
    return lines


def _share(case: CaseAccuracy) -> float:
    return case.error / case.limit if case.limit else case.error


def _where(facts: ShippedFacts) -> list[str]:
    environment = facts.evaluation.environment
    gpu = facts.gpu
    device = f"{gpu.name}, compute capability {gpu.capability[0]}.{gpu.capability[1]}" if gpu else environment.device
    driver = f", driver {gpu.driver}" if gpu and gpu.driver else ""
    lines = [
        f"Device: {device}{driver}; torch {environment.torch}, triton {environment.triton}, "
        f"Python {environment.python}, verifier {environment.grader}"
    ]
    calls = [call for call in facts.call.calls if call.train in facts.modes]
    if calls:
        modes = " and ".join(dict.fromkeys("train" if call.train else "eval" for call in calls))
        autocast = f", under autocast to {environment.autocast}" if environment.autocast else ""
        tf32 = ", float32 products in TF32" if environment.precision == "tf32" else ""
        what = "as in the sets above" if facts.sets else _call(calls[0])
        lines.append(f"Call: {what}, in {modes} mode{autocast}{tf32}")
    if facts.variants:
        shown = "; ".join(facts.variants[:VARIANTS_AT_MOST])
        more = len(facts.variants) - VARIANTS_AT_MOST
        lines.append(f"Checked at sizes: {shown}{f'; and {more} more' if more > 0 else ''}")
    if facts.scaled:
        lines.append(f"For the check, {facts.scaled.strip()}; the sizes of the call were not checked in full")
    return lines


def _call(call: Call) -> str:
    return ", ".join(_argument(value) for value in call.arguments) or "no arguments"


def _argument(value: Argument) -> str:
    if isinstance(value, TensorForm):
        return f"{value.dtype}[{', '.join(map(str, value.shape))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key!r}: {_argument(item)}' for key, item in value.items())}}}"
    return repr(value) if not isinstance(value, (list, tuple)) else f"[{', '.join(map(_argument, value))}]"


def _made(problem: ProblemSpec, facts: ShippedFacts) -> list[str]:
    author = f", kernels by {facts.author}" if facts.author else ""
    return [
        f"Run {facts.run}, {facts.date.isoformat()}{author}",
        f"Problem {problem.digest[:16]}, candidate {facts.evaluation.candidate[:16]}",
    ]
