"""Makes the answers of the tools as text: verdicts, audits, optimizations and lessons of earlier runs.

The answers are made by the functions that the commands use. Only the evaluator runs a candidate, and a problem file's
code runs in the sandbox unless the server was started with `--trust`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from triton_agent.memory.errors import NotInStore
from triton_agent.memory.observation import ProblemView
from triton_agent.memory.recall import recall
from triton_agent.memory.store import Store
from triton_agent.runs.cli.devices import choose
from triton_agent.runs.cli.foreign_text import legible
from triton_agent.runs.cli.store_option import load_attempt
from triton_agent.runs.evaluate import check_problem, speed_page
from triton_agent.runs.evaluate.command import EvaluateRequest, read_kernel, settings_from
from triton_agent.runs.history.attempt_page import evaluation_page, title_of, verdict_page
from triton_agent.runs.jobs import Jobs
from triton_agent.runs.mcp.jobs import OptimizeJob
from triton_agent.runs.mcp.roots import Roots
from triton_agent.runs.mcp.texts import Paper, drawn
from triton_agent.runs.optimize.request import OptimizeRequest
from triton_agent.runs.ship.artefact import forced, is_shipped
from triton_agent.tools.errors import UsageError
from triton_agent.tools.evaluate.checker_process import audit_problem
from triton_agent.tools.evaluate.sets_evaluator import AnyEvaluator, evaluator_for
from triton_agent.tools.problem.input_spec import parse_sets
from triton_agent.tools.processes.zygotes import own_nursery

TIMEOUT_S = 120.0
"""Time limit for one kernel, as in the commands."""
OnOpen = Callable[[Callable[[], None]], object]
"""Called with a function that ends the work from any thread, as soon as the work can be ended."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSettings:
    """Settings that the person who starts the server decides, and no client."""

    roots: Roots
    out: Path
    """Folder in which each optimization makes its own subfolder."""
    store: str | None = None
    device: str = "auto"
    target: str = "cuda:90"
    policy: str = "builtin"
    trust: bool = False
    model_options: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AskedProblem:
    """A problem as a client gives it."""

    problem: str
    init: str | None = None
    inputs: Sequence[str] = ()
    sets: Sequence[str] = ()


class Service:
    """Answers for all clients; every method may be called from several threads."""

    def __init__(self, settings: ServiceSettings, jobs: Jobs[OptimizeJob]) -> None:
        self._settings, self._jobs = settings, jobs

    def evaluate(self, asked: AskedProblem, kernel: str, on_open: OnOpen, *, allow_library: bool, profile: bool) -> str:
        """Judge a kernel file, or the text of one."""
        request = dataclasses.replace(self._request(asked), allow_library=allow_library, profile=profile)
        source = kernel if "\n" in kernel else read_kernel(str(self._settings.roots.file(kernel)))
        with self._evaluator(request, on_open) as evaluator:
            facts = evaluator.facts
            verdict = evaluator.evaluate(forced(source), as_given=is_shipped(source))
        head = f"{facts.name}: {len(facts.variants)} shapes, {facts.cases} cases"
        told = speed_page.lines(verdict) if profile else []
        return drawn([*evaluation_page(verdict), *told, head, *filter(None, (facts.scaled,))])

    def check(self, asked: AskedProblem) -> str:
        """Try wrong answers on the problem and report those that pass."""
        spec, paper, began = self._request(asked).spec(), Paper(), time.perf_counter()
        report = audit_problem(spec, trust=self._settings.trust)
        check_problem.show(report, time.perf_counter() - began, paper)
        return paper.text

    def lessons(self, asked: AskedProblem, on_open: OnOpen) -> str:
        """Recall what earlier runs teach about this problem and similar ones."""
        request = self._request(asked)
        try:
            opened = self._opened()
        except NotInStore:
            return "no run is stored yet, so there are no lessons; optimize_start makes the first run"
        with opened as store, self._evaluator(request, on_open) as evaluator:
            view = ProblemView.of(evaluator.spec, evaluator.facts, choose(self._settings.device).gpus)
            lessons = recall(store, view)
        told = [f"{item.kind} {item.attempt}\n{item.why}\n{item.text}" for item in lessons]
        return legible("\n\n".join(told)) or "earlier runs teach nothing about this problem or similar ones"

    @contextlib.contextmanager
    def _evaluator(self, request: EvaluateRequest, on_open: OnOpen) -> Iterator[AnyEvaluator]:
        """Open an evaluator that is ended when its request is cancelled, while it waits for memory, too."""
        settings = settings_from(request)
        with own_nursery(settings.card) as nursery:
            on_open(nursery.close)
            with evaluator_for(request.spec(), settings, nursery=nursery) as evaluator:
                on_open(evaluator.close)
                yield evaluator

    def attempt(self, name: str) -> str:
        """Show an attempt: the verdicts first, then plan and code."""
        with self._opened() as store:
            item = load_attempt(store, name)
        verdicts = [part for grading in reversed(item.gradings) for part in verdict_page(grading)]
        code = legible(item.attempt.source or "(the answer holds no code)")
        return f"{drawn([title_of(item), *verdicts])}\n\nplan: {legible(item.attempt.plan)}\n\n{code}"

    def start(self, asked: AskedProblem, **search: Any) -> str:
        """Start an optimization and name its job."""
        given, chosen = self._settings, choose(self._settings.device)
        checked = self._request(asked)
        request = OptimizeRequest(
            **given.model_options,
            **search,
            problem=checked.problem,
            init=checked.init,
            inputs=checked.inputs,
            sets=checked.sets,
            policy=given.policy,
            device=chosen.device,
            cards=chosen.cards,
            target=given.target,
            trust=given.trust,
        )
        request.loop()  # report a wrong setting at once
        job = self._jobs.start(lambda: OptimizeJob(request, given.store, given.out))
        return f"started {job.id}"

    def job(self, id: str) -> OptimizeJob:
        return self._jobs.find(id)

    def _opened(self) -> Store:
        try:
            return Store.open(self._settings.store, read_only=True)
        except NotInStore as error:
            raise NotInStore(error.what, where=error.where, remedy="optimize_start makes the first run") from None

    def _request(self, asked: AskedProblem) -> EvaluateRequest:
        """Return the request, after checking that the problem needs no file outside the folders that may be read."""
        given, roots = self._settings, self._settings.roots
        for text in asked.sets:
            if "[" not in text:  # a path: the answer must not tell whether it exists
                raise UsageError(f"{text!r} describes no inputs", remedy='as in "f32[64,1024]; i64[64]<50 @3"')
        sets = [
            dataclasses.replace(item, inputs_file=str(roots.file(item.inputs_file))) if item.inputs_file else item
            for item in parse_sets(asked.sets)
        ]
        request = EvaluateRequest(
            problem=roots.target(asked.problem),
            kernels=(),
            init=asked.init,
            inputs=tuple(asked.inputs),
            inputs_file=None,
            sets=tuple(sets),
            device=given.device,
            target=given.target,
            allow_library=False,
            mode="both",
            shapes="family",
            timeout_s=TIMEOUT_S,
            jobs=1,
            require_sandbox=False,
            screen=True,
            json=False,
            trust=given.trust,
        )
        roots.require(request.spec())
        return request
