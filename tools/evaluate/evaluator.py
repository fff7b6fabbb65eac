"""The evaluator: give it a problem once and candidates as they come; each gets exactly one `Evaluation`.

The driver lives here. It never imports a problem or a candidate, and needs no torch: it starts the zygotes, hands the
sockets of fresh workers to the checker, waits for the verdict and reaps what it started. Every method may be called
from any thread; candidates evaluated at once share the checker and run in workers of their own.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import hashlib
import importlib.metadata
import os
import shutil
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from triton_agent.tools import workspace
from triton_agent.tools.compile.targets import DEFAULT_TARGET, TARGETS
from triton_agent.tools.errors import InstrumentError, NotJudgeableHere, WorkerNeverReady
from triton_agent.tools.evaluate.checker_process import CheckerProcess
from triton_agent.tools.evaluate.verdict import Sketch, evaluation_from, sketch_from
from triton_agent.tools.evaluate.worker_pool import (
    COMPILER,
    GPU,
    INTERPRETER,
    TRACER,
    PoolSettings,
    Team,
    Worker,
    WorkerPool,
    how_it_died,
)
from triton_agent.tools.graph.module_attributes import HeldTensor
from triton_agent.tools.problem.confinement import confinement_for, require_layers
from triton_agent.tools.problem.problem import ProblemSpec
from triton_agent.tools.processes.child import CORES_LEFT
from triton_agent.tools.processes.torch_switches import Conditions
from triton_agent.tools.processes.zygotes import Nursery
from triton_agent.tools.race.baseline_names import BASELINE_NAMES
from triton_agent.tools.results import DECISIONS, Environment, Evaluation, Finding, Status, to_json

COPIES_IN_A_WORKER = 4
"""Copies of inputs and outputs that travel as bytes: as sent, as received, as tensors, and once more when sent back."""
CPU_SLACK_S = 30
"""Processor time beyond the wall time of a verdict: compilers may use several cores at once."""
CORES_TO_COMPILE_AHEAD = 4
CALL_TIMEOUT_S = 20.0
"""One call in the interpreter takes a second or two; longer than this is a loop without an end."""
COMPILE_TIMEOUT_S = 60.0
GRADER = "8"
"""Version of the rules by which verdicts are reached; raised whenever an old verdict could come out otherwise."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatorSettings:
    """How candidates are judged. The defaults are what training and benchmarks use."""

    device: str = "cpu"
    """`cpu`: the interpreter; `cuda`: run and time on one GPU."""
    card: str = ""
    """UUID of that GPU; empty for the first visible one."""
    target: str | None = "cuda:90"
    """Compile ahead of time for this target; None leaves that stage out."""
    allow_library: bool = False
    modes: tuple[str, ...] = ("eval", "train")
    screen: bool = True
    remedies: bool = True
    shapes: str = "family"
    """`family`: variants of the problem's sizes too; `given`: only the sizes as given (or scaled down)."""
    precision: str = "same"
    """`same`: as torch does it by default; `tf32`: original, baselines and candidate may multiply float32 in TF32."""
    autocast: str = ""
    """`float16` or `bfloat16`: forward is called under autocast, the reference's and the candidate's."""
    baselines: tuple[str, ...] = ()
    """Names of further baselines (`race/baseline_names.py`), for timing on a GPU."""
    max_memory_ratio: float | None = None
    """How many times the reference's device memory a call may take; None for any."""
    profile: bool = False
    """After a pass on a GPU, see where the device time goes; takes seconds."""
    call_timeout_s: float = CALL_TIMEOUT_S
    compile_timeout_s: float = COMPILE_TIMEOUT_S
    total_timeout_s: float = 120.0
    memory_bytes: int = 4 << 30
    """What one candidate may use on the host."""
    trust: bool = True
    """Off for a problem file from elsewhere: its code then runs confined, too."""
    confine: bool = True
    """Off only where the machine's owner runs kernels of their own; the verdict says so."""
    require_sandbox: bool = False
    """Refuse to go on where an essential layer of the sandbox is missing."""

    def within(self, total_s: float) -> Self:
        """Return settings with this limit for a whole verdict; no stage may take longer either."""
        call_s, compile_s = min(CALL_TIMEOUT_S, total_s), min(COMPILE_TIMEOUT_S, total_s)
        return dataclasses.replace(self, call_timeout_s=call_s, compile_timeout_s=compile_s, total_timeout_s=total_s)

    @property
    def conditions(self) -> Conditions:
        """Under which the reference, its baselines and the candidate run."""
        return Conditions(precision=self.precision, autocast=self.autocast)

    def __post_init__(self) -> None:
        _ = self.conditions  # refuses what is none
        if self.card and self.device != "cuda":
            raise ValueError(f"a card is for cuda, not for {self.device}")
        if unknown := set(self.baselines) - set(BASELINE_NAMES):
            raise ValueError(f"no baselines: {sorted(unknown)}; there are {', '.join(BASELINE_NAMES)}")
        if self.max_memory_ratio is not None and not self.max_memory_ratio > 0:
            raise ValueError(f"a ratio of memory is above zero, not {self.max_memory_ratio}")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ProblemFacts:
    """Facts about a problem, known once its reference has run."""

    name: str
    digest: str
    variants: tuple[str, ...]
    cases: int
    fingerprint: str
    signature: str
    """Signature of the operator graph at the main sizes: equal if structure and sizes are equal."""
    graphs: tuple[dict[str, Any], ...]
    """Operator graphs in evaluation mode as plain data, at the main sizes first; see `tools/graph/graph.py`."""
    train_graphs: tuple[dict[str, Any], ...]
    """Operator graphs in training mode; empty if that is not checked or runs the same operators."""
    numbers: tuple[dict[str, float], ...]
    """For each graph, the plain numbers that the reference's modules hold as attributes: `norm.num_groups`."""
    tensors: tuple[HeldTensor, ...]
    """Tensors that the reference's modules hold as plain attributes, at the main sizes."""
    input_structure: str
    """How the arguments of a call are nested, a star for each tensor: `[*, [*, *], 5]`."""
    floor_bytes: int
    """Fewest bytes at the smallest sizes checked, where traffic is counted."""
    floor_flops: int
    scaled: str
    """How the problem was scaled down; empty when it was not."""
    notes: tuple[str, ...]
    floor_bytes_main: int
    """Fewest bytes at the sizes as given (or as scaled down)."""
    floor_flops_main: int
    device: str
    gpu: str
    """UUID of the GPU that candidates run on; empty for the interpreter."""
    target: str
    """Compilation target of that GPU, such as `cuda:90`; empty for the interpreter."""
    torch: str
    python: str
    triton: str

    @property
    def place(self) -> str:
        """Device and GPU that candidates run on; tells apart several cards of one model."""
        return f"{self.device} {self.gpu}".strip()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Tapes:
    """A candidate's tapes as plain data, from which `runs/ship/plan_file.py` writes a file."""

    modules: tuple[dict[str, Any], ...]
    """What the module is made with and how it is called; see `checker/verified_tapes.py`."""
    message: str = ""
    """Why there are none."""


class Evaluator:
    """Use as a context manager; `close` leaves no process and no file behind."""

    def __init__(
        self, spec: ProblemSpec, settings: EvaluatorSettings | None = None, *, nursery: Nursery | None = None
    ) -> None:
        """Give a `nursery` of the same card to share its processes; it stays open when this one closes."""
        self.spec = spec
        self.settings = settings or EvaluatorSettings()
        if self.settings.require_sandbox or not self.settings.trust:
            require_layers()
        self._folder = workspace.make()
        self._stack = contextlib.ExitStack()
        self._stack.callback(shutil.rmtree, self._folder, ignore_errors=True)
        self._nursery = nursery
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise

    # -- life ------------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        card = self.settings.card
        if self._nursery is None:
            self._nursery = self._stack.enter_context(Nursery(str(self._folder / "zygote.log"), card))
        elif card and self._nursery.card != card:
            raise ValueError(f"a nursery whose processes see {self._nursery.card or 'any card'}, and not {card} alone")
        target = self.settings.target or DEFAULT_TARGET
        self._referee = CheckerProcess(
            self._nursery,
            self._checker_settings(),
            verdict_timeout_s=self.settings.total_timeout_s,
        )
        self._stack.callback(self._referee.close)
        self._referee.begin()
        on_gpu = self.settings.device == "cuda"
        kinds = (TRACER, GPU if on_gpu else INTERPRETER)
        zygotes = {kind: self._nursery.mode(kind, target) for kind in kinds}
        compiles = (on_gpu and _cores() >= CORES_TO_COMPILE_AHEAD) or (not on_gpu and self.settings.target is not None)
        if compiles:
            zygotes[COMPILER] = self._nursery.mode(COMPILER, target)  # most likely the one: its imports go on meanwhile
        reported = self._referee.facts()
        card_facts = reported.pop("card")
        self.facts = _facts(reported)
        if card and self.facts.gpu != card:
            raise InstrumentError(f"asked for the card {card}, and found {self.facts.gpu or 'none'} in its place")
        if on_gpu and compiles and self.facts.target in TARGETS:
            target = self.facts.target
            zygotes[COMPILER] = self._nursery.mode(COMPILER, target)
        elif on_gpu:
            compiles = False
        chosen = PoolSettings(
            executor=kinds[1],
            compiles=compiles,
            target=target,
            facts=card_facts,
            folder=self._folder,
            memory_bytes=self.settings.memory_bytes,
            copies_bytes=COPIES_IN_A_WORKER * self.facts.floor_bytes_main,
            cpu_s=int(self.settings.total_timeout_s) + CPU_SLACK_S,
            confine=self.settings.confine,
            gpu=self.facts.gpu,
            compilers=_cores() - CORES_LEFT if on_gpu else 1,
        )
        self._pool = WorkerPool(zygotes, chosen, lent=lambda: self._referee.lent)
        self._stack.callback(self._pool.close)

    def _checker_settings(self) -> dict[str, Any]:
        told = checker_settings(self.spec, self.settings)
        if self.settings.trust:
            return told
        cell = confinement_for(self.spec, self._folder / "checker", gpu=self.settings.device == "cuda")
        return {**told, "confinement": to_json(cell)}

    def close(self) -> None:
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- evaluation ------------------------------------------------------------------------------------------------

    async def evaluate_async(
        self, source: str, on_stage: Callable[[str], None] | None = None, *, as_given: bool = False, file: str = ""
    ) -> Evaluation:
        """`evaluate` for callers in an event loop."""
        return await asyncio.to_thread(self.evaluate, source, on_stage, as_given=as_given, file=file)

    def evaluate(
        self,
        source: str,
        on_stage: Callable[[str], None] | None = None,
        *,
        as_given: bool = False,
        file: str = "",
    ) -> Evaluation:
        """The verdict on one candidate; raises `InstrumentError` where none could be reached.

        `as_given` asks at the problem's own sizes only, as for a file that steps aside at others. `file` is for who
        ships: a text of our own writing with the same kernels, which is imported, checked and timed in their place.
        """
        try:
            return self._evaluate(source, on_stage, as_given, file)
        except WorkerNeverReady:  # before it saw the candidate, so nothing of the candidate's; once in a thousand
            return self._evaluate(source, on_stage, as_given, file)

    def _evaluate(self, source: str, on_stage: Callable[[str], None] | None, as_given: bool, file: str) -> Evaluation:
        with self._referee.job() as job, self._pool.team() as team:
            job.hand_over(source, team, as_given=as_given, file=file)
            try:
                verdict = job.verdict(team, on_stage)
            except WorkerNeverReady as error:
                raise _in_its_own_words(error, team.workers) from error
            return self._conclude(source, verdict, team, self._facts_at_main if as_given else self.facts)

    @property
    def _facts_at_main(self) -> ProblemFacts:
        """Facts for a candidate that is judged at the main sizes alone, where its traffic is counted, too."""
        flops, moved = self.facts.floor_flops_main, self.facts.floor_bytes_main
        return dataclasses.replace(self.facts, floor_bytes=moved, floor_flops=flops)

    @property
    def sketches(self) -> bool:
        """True if `sketch` can be used: without a GPU there is nothing to sort by."""
        return self.settings.device == "cuda"

    def sketch(self, source: str) -> Sketch:
        """A quick look at a variant of a trusted author's, for sorting: right once, and a short race.

        It proves little: what looks best goes through `evaluate`.
        """
        if not self.sketches:
            raise NotJudgeableHere("without a GPU there is nothing to sort by", remedy="evaluate the candidates")
        with self._referee.job() as job, self._pool.team() as team:
            job.hand_over(source, team, sort=True)
            return sketch_from(job.verdict(team, None), candidate=candidate_id(source))

    def tapes(self, source: str) -> Tapes:
        """Return what the candidate does in the calls of the problem's own sizes, and of the sizes checked instead."""
        with self._referee.job() as job, self._pool.team() as team:
            job.hand_over(source, team, tapes=True, as_given=True)
            reply = job.verdict(team, None)
            return Tapes(modules=tuple(reply["modules"]), message=reply["message"])

    def _conclude(self, source: str, verdict: dict[str, Any], team: Team, facts: ProblemFacts) -> Evaluation:
        environment = Environment(
            mode="gpu" if self.settings.device == "cuda" else "interpreter",
            device=self.facts.device,
            gpu=self.facts.gpu,
            python=self.facts.python,
            torch=self.facts.torch,
            triton=self.facts.triton,
            target=self.settings.target,
            sandbox=tuple(verdict["layers"]),
            grader=GRADER,
            precision=self.settings.precision,
            autocast=self.settings.autocast,
        )
        finding = Finding(verdict["finding"]) if verdict["finding"] else None
        if finding is not None:
            workspace.require_room(self._folder)
        message = verdict["message"]
        if verdict["worker_died"]:
            dead = [worker for worker in team.workers if not worker.is_sound]
            for worker in dead:
                worker.end(gently=True)
            finding, message = how_it_died(message, dead)
        return evaluation_from(
            verdict,
            candidate=candidate_id(source),
            problem=self.spec.digest,
            status=DECISIONS[finding].status if finding else Status.PASSED,
            finding=finding,
            message=message,
            environment=environment,
            facts=facts,
        )


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def checker_settings(spec: ProblemSpec, chosen: EvaluatorSettings) -> dict[str, Any]:
    """Return the settings of a checker as plain data: the problem and how to judge."""
    judge = {
        "target": chosen.target,
        "allow_library": chosen.allow_library,
        "screen": chosen.screen,
        "call_timeout_s": chosen.call_timeout_s,
        "compile_timeout_s": chosen.compile_timeout_s,
        "total_timeout_s": chosen.total_timeout_s,
        "device": chosen.device,
        "max_memory_ratio": chosen.max_memory_ratio,
        "profile": chosen.profile,
    }
    plan = {"modes": list(chosen.modes), "remedies": chosen.remedies, "family": chosen.shapes == "family"}
    plan["device"] = chosen.device
    told = {"spec": spec.to_json(with_text=True), "judge": judge, "plan": plan, "baselines": list(chosen.baselines)}
    return {**told, "conditions": dataclasses.asdict(chosen.conditions)}


def _in_its_own_words(error: WorkerNeverReady, workers: list[Worker]) -> WorkerNeverReady:
    for worker in workers:
        worker.end(gently=True)
    ends = [f"status {worker.status}: {worker.last_words.strip()[-500:]}" for worker in workers]
    return WorkerNeverReady("\n".join([error.what, *ends]), remedy=error.remedy)


def _facts(reported: dict[str, Any]) -> ProblemFacts:
    facts: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in reported.items()}
    facts["tensors"] = tuple(HeldTensor(**{**held, "shape": tuple(held["shape"])}) for held in facts["tensors"])
    return ProblemFacts(**facts, triton=importlib.metadata.version("triton"))


def candidate_id(source: str) -> str:
    """A candidate's identity: the hash of its text."""
    return hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()
