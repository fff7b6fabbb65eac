"""An evaluator for a problem with several sets of inputs, composed of one evaluator for each set.

    with evaluator_for(spec, settings) as evaluator:  # an `Evaluator`, or a `SetsEvaluator`
        evaluator.evaluate(source)

A candidate is judged set by set; the first set at which it fails decides. Variants of sizes are made only from the
first set, the main one; the others are judged as given. All evaluators share a nursery, and each has its own checker.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import dataclasses
import functools
from collections.abc import Callable, Collection, Sequence
from types import TracebackType
from typing import Self

from triton_agent.tools.errors import InstrumentError, ProblemError
from triton_agent.tools.evaluate import merged_sets
from triton_agent.tools.evaluate.evaluator import Evaluator
from triton_agent.tools.problem.input_spec import InputSet
from triton_agent.tools.problem.problem import ProblemSpec
from triton_agent.tools.problem.size_range import Lengths
from triton_agent.tools.processes.protocol import TapedModule, Tapes
from triton_agent.tools.processes.zygotes import Nursery, own_nursery
from triton_agent.tools.results import Evaluation, Sketch, Status
from triton_agent.tools.settings import EvaluatorSettings

READY_AT_ONCE = 4
"""References that run concurrently without a GPU. On a GPU each runs alone."""


class SetsEvaluator:
    """Judges at several sets of inputs; used like `Evaluator`."""

    def __init__(
        self,
        spec: ProblemSpec,
        settings: EvaluatorSettings | None = None,
        *,
        nursery: Nursery | None = None,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.spec = spec
        self.settings = settings or EvaluatorSettings()
        self._stack = contextlib.ExitStack()
        try:
            shared = nursery or self._stack.enter_context(own_nursery(self.settings.card))
            open_one, numbers = functools.partial(self._evaluator, nursery=shared, say=say), range(len(spec.sets))
            if self.settings.device == "cpu":
                with concurrent.futures.ThreadPoolExecutor(READY_AT_ONCE) as pool:
                    opened = list(pool.map(open_one, numbers))
            else:
                opened = list(map(open_one, numbers))
            self._at = list(zip(spec.sets, opened))
            self.facts = merged_sets.merged_facts([(item, one.facts) for item, one in self._at], spec.digest)
        except BaseException:
            self._stack.close()
            raise

    def _evaluator(self, number: int, nursery: Nursery, say: Callable[[str], None]) -> Evaluator:
        item, settings = self.spec.sets[number], self.settings
        if number > 0:
            settings = dataclasses.replace(settings, shapes="given", waits_for_memory=False)
        try:
            made = Evaluator(self.spec.at(item), settings, nursery=nursery, say=say)
        except (ProblemError, InstrumentError) as error:
            raise type(error)(f"at {item.name}: {error.what}", where=error.where, remedy=error.remedy) from error
        self._stack.callback(made.close)
        return made

    def close(self) -> None:
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def evaluate_async(
        self, source: str, on_stage: Callable[[str], None] | None = None, *, as_given: bool = False, file: str = ""
    ) -> Evaluation:
        """Run `evaluate` in a thread."""
        return await asyncio.to_thread(self.evaluate, source, on_stage, as_given=as_given, file=file)

    def evaluate(
        self,
        source: str,
        on_stage: Callable[[str], None] | None = None,
        *,
        as_given: bool = False,
        file: str = "",
        names: Collection[str] | None = None,
    ) -> Evaluation:
        """Judge one candidate at all sets, or at the sets of these `names`; otherwise like `Evaluator.evaluate`."""
        judges = [
            (item, functools.partial(one.evaluate, as_given=as_given, file=file))
            for item, one in self._at
            if names is None or item.name in names
        ]
        return judged_at_all(judges, source, problem=self.spec.digest, on_stage=on_stage)

    def try_out(self, source: str) -> Evaluation:
        """Try a candidate at the main set; see `Evaluator.try_out`."""
        return self._at[0][1].try_out(source)

    def tapes(self, source: str, names: Collection[str] | None = None) -> Tapes:
        """Return the candidate's tapes at all sets, or at those named."""
        modules: list[TapedModule] = []
        for item, one in self._at:
            if names is None or item.name in names:
                found = one.tapes(source)
                if found.message:
                    return found
                modules += found.modules
        return Tapes(modules=tuple(modules))

    def tapes_at(self, source: str, lengths: Sequence[Lengths]) -> Tapes:
        """Return the candidate's tapes at these lengths of the problem's ranges."""
        return self._at[0][1].tapes(source, lengths)

    @property
    def sketches(self) -> bool:
        """Whether `sketch` can be used."""
        return self._at[0][1].sketches

    def sketch(self, source: str) -> Sketch:
        """Sketch a candidate at each set, up to the first with a finding."""
        found: list[tuple[InputSet, Sketch]] = []
        for item, evaluator in self._at:
            found.append((item, evaluator.sketch(source)))
            if found[-1][1].finding is not None:
                break
        return merged_sets.merged_sketch(found)


AnyEvaluator = Evaluator | SetsEvaluator


def evaluator_for(
    spec: ProblemSpec,
    settings: EvaluatorSettings | None = None,
    *,
    nursery: Nursery | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> AnyEvaluator:
    """Make the evaluator for a problem with one call or several."""
    return (SetsEvaluator if spec.sets else Evaluator)(spec, settings, nursery=nursery, say=say)


Judging = Callable[[str, Callable[[str], None] | None], Evaluation]


def judged_at_all(
    judges: Sequence[tuple[InputSet, Judging]],
    source: str,
    *,
    problem: str,
    on_stage: Callable[[str], None] | None = None,
) -> Evaluation:
    """Judge set by set, in order. The first set at which the candidate does not pass decides."""
    found: list[tuple[InputSet, Evaluation]] = []
    for item, judge in judges:

        def named(stage: str, name: str = item.name) -> None:
            assert on_stage is not None
            on_stage(f"{name}: {stage}")

        evaluation = judge(source, named if on_stage else None)
        if evaluation.status is not Status.PASSED:
            return merged_sets.refused_at(item, evaluation, [one for _, one in found], problem)
        found.append((item, evaluation))
    return merged_sets.passed_at_all(found, problem)
