"""Questions to a candidate in its worker, and the first look at each answer.

What is asked in which order is the stages' affair (`pipeline.py`, `clock_stages.py`, `sorting.py`).
"""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Iterable, Sequence
from typing import Any

from triton_agent.tools.isolate import pieces
from triton_agent.tools.results import Finding, KernelLaunch
from triton_agent.tools.verify import checks
from triton_agent.tools.verify.job import Job
from triton_agent.tools.verify.plan import Case, Trial
from triton_agent.tools.verify.remembering import MEMORY, launched_less
from triton_agent.tools.verify.session import Failed, Session

ASKED_BEFORE, ASKED_AGAIN = 30_000, 30_001
"""Slots of calls that no other call is compared with."""
SOON_FORGOTTEN = 3
"""Calls after which no buffer holds the first answer any more."""


def bring_to_life(job: Job, session: Session, trial: Trial, *, silenced: bool = False, afresh: bool = False) -> None:
    """The candidate made for one variant: file, module, parameters.

    `afresh`: as new, in a worker that may have run others.
    """
    session.await_ready()
    if session.phase == "ready" or silenced or afresh:
        reply, _ = session.ask("load", source=job.source, conditions=dataclasses.asdict(job.settings.conditions))
        if "no_model" in reply:
            raise Failed(Finding.NO_MODEL, "ModelNew is not a subclass of torch.nn.Module")
    session.ask("build", [trial.packed_init], model=trial.variant, seed=trial.build_seed, silenced=silenced)
    set_parameters(job, session, trial, 0)


def ask_once(job: Job, trial: Trial, case: Case) -> dict[str, Any]:
    """One question, its answer judged; what the worker reported."""
    answer, reply = call(job, trial, case, slot=0)
    judge(job, case, answer)
    return reply


def set_parameters(job: Job, session: Session, trial: Trial, version: int) -> None:
    reply, _ = session.ask("parameters", [trial.states[version]], model=trial.variant)
    if reply["misfits"]:
        raise Failed(
            Finding.CONSTRUCT, f"parameters have other shapes than the original's: {', '.join(reply['misfits'])}"
        )
    if reply["missing"]:
        job.misfit = f"ModelNew has no parameter or buffer named {', '.join(reply['missing'][:6])}"


def call(
    job: Job,
    trial: Trial,
    case: Case,
    *,
    slot: int,
    overwrite: int | None = None,
    silenced: bool = False,
    salt: int | None = None,
    prove: bool = False,
    measure: bool = False,
    noted: bool = False,
    whole: bool = False,
) -> tuple[checks.Answer, dict[str, Any]]:
    """One question and its answer, and what the worker says beside it.

    `whole`: every byte of the inputs is looked at afterwards, however large they are. `salt`: what fresh memory is
    filled with; drawn, so that no byte of an answer is there by itself in every case.
    """
    apart = silenced or pieces.are_long(case.expectation.inputs_bytes)
    reply, blobs = job.runner.ask(
        "call",
        [case.expectation.packed_inputs],
        expected_bytes=case.expectation.answer_bytes,
        model=trial.variant,
        slot=slot,
        overwrite=overwrite,
        train=case.train,
        silenced=silenced,
        salt=secrets.randbelow(2) if salt is None else salt,
        prove=prove,
        measure=measure,
        noted=noted,
        apart=apart,
    )
    checks.check_faults(case, reply["faults"])
    answer = checks.read_answer(reply, blobs, job.settings.device)
    if apart and not silenced:  # in silence nobody asks what became of them
        seen = _look_back(job, slot, case.expectation.inputs_bytes, "inputs", whole=whole)
        answer = dataclasses.replace(answer, inputs_seen=seen)
    return answer, reply


def look_again(job: Job, earlier: Case, answer: checks.Answer, slot: int, *, whole: bool) -> None:
    """An answer must outlast the calls that came after it."""
    sizes_bytes = [tensor.nbytes for tensor in answer.tensors]
    checks.check_held(earlier, answer.tensors, _look_back(job, slot, sizes_bytes, "outputs", whole=whole))


def _look_back(job: Job, slot: int, sizes_bytes: Sequence[int], of: str, *, whole: bool) -> checks.Seen:
    """What became of the inputs or the outputs of a call, in pieces that are chosen now."""
    numbers = [None if whole else pieces.draw(size) for size in sizes_bytes]
    expected_bytes = sum(map(pieces.size_bytes, sizes_bytes, numbers))
    reply, rows = job.runner.ask("read", slot=slot, of=of, pieces=numbers, expected_bytes=expected_bytes)
    described = reply["tensors"]
    if not isinstance(described, list):
        raise Failed(Finding.TAMPERED, "the worker's answer contradicts itself (no list of tensors)")
    return checks.Seen(described=described, numbers=numbers, rows=rows)


def judge(job: Job, case: Case, answer: checks.Answer, earlier: checks.Answer | None = None) -> None:
    """All questions about one answer, in order."""
    if case.verify is None:
        checks.check_structure(case, answer)
        checks.check_form(case, answer)
        rows, failure = checks.measure(case, answer)
    else:
        rows, failure = checks.ask_verifier(case, case.verify, answer)
    job.accuracy += rows
    if failure is not None:
        failure = checks.explain_wrong(failure, case, answer, earlier, case.stale)
        if job.misfit:
            failure = Failed(failure.finding, f"{failure.message}\nlikely cause: {job.misfit}")
        raise failure
    checks.check_inputs(case, answer)
    checks.check_aliases(case, answer)


def right_in_silence(job: Job, trial: Trial, case: Case) -> list[str]:
    """Outputs that are right although no kernel runs, whatever fresh memory was filled with."""
    right: set[str] = set()
    for salt in (0, 1):
        try:
            answer, _ = call(job, trial, case, slot=-1 - salt, silenced=True, salt=salt)
        except Failed as failure:
            if failure.worker_died or failure.finding is Finding.TOO_SLOW:
                raise
            return []  # host code that stumbles over missing results depends on them
        found = set(checks.still_right(case, answer))
        right = found if salt == 0 else right & found
        if not right:
            return []
    return sorted(right)


def refuse_remembered_answers(job: Job, trial: Trial, asked: Sequence[Case]) -> None:
    """These cases were called in this order, and the parameters are those they came with.

    Asked the last of them again at once, a file launches what it launches for any other. Asked the first, which any
    buffer has forgotten by now, it has no answer while its kernels are silenced.
    """
    first, last = asked[0], asked[-1]
    _, reply = call(job, trial, last, slot=ASKED_BEFORE)
    kernel = launched_less(by_kernel(reply["launches"]), job.called)
    if kernel:
        raise Failed(Finding.FALSE_CLOCK, f"asked the same again, it does less in {kernel} than ever before: {MEMORY}")
    if len(asked) < SOON_FORGOTTEN or not checks.tells(first, *asked[1:]):
        return
    right = right_in_silence(job, trial, first)
    if right and len(right) == (len(first.expectation.outputs) or 1):
        raise Failed(Finding.DEAD_KERNEL, f"with kernels silenced {', '.join(right)} came out right: {MEMORY}")


def refuse_spoiled_answer(job: Job, trial: Trial, slot: int) -> None:
    """What the noted call of this slot left behind may hold its answer only to be written once more.

    See `isolate/keepsakes.py`.
    """
    case = trial.cases[slot]
    others = [other for other in trial.cases[:slot] if other.version == case.version]
    if not checks.tells(case, *others):
        return
    reply, _ = job.runner.ask("spoil", slot=slot)
    if not int(reply["places"]):
        return
    answer, _ = call(job, trial, case, slot=ASKED_AGAIN)
    try:
        judge(job, case, answer)
    except Failed as failure:
        what = f"it keeps its last answer, and once that is spoiled it is wrong ({failure.message}): {MEMORY}"
        raise Failed(Finding.FALSE_CLOCK, what) from failure


def by_kernel(launches: list[dict[str, Any]]) -> dict[str, KernelLaunch]:
    return {item.kernel: item for item in launch_counts(launches)}


def launch_counts(launches: list[dict[str, Any]]) -> list[KernelLaunch]:
    names = list(dict.fromkeys(launch["kernel"] for launch in launches))
    return [_counted(name, [launch for launch in launches if launch["kernel"] == name]) for name in names]


def _counted(name: str, launches: list[dict[str, Any]]) -> KernelLaunch:
    return KernelLaunch(
        kernel=name,
        launches=len(launches),
        programs=sum(launch["programs"] for launch in launches),
        bytes_loaded=_total(launch["bytes_loaded"] for launch in launches),
        bytes_stored=_total(launch["bytes_stored"] for launch in launches),
    )


def _total(counts: Iterable[int | None]) -> int | None:
    """The sum, unless somewhere nothing was counted."""
    known = list(counts)
    return None if None in known else sum(count for count in known if count is not None)
