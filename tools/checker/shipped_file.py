"""Judges a shipped file as it is used: the executor runs its module instead of the tape, for checks and timing.

The tapes of the same kernels were judged before. The executor imports the text, so only the code that ships files uses
this.
"""

from __future__ import annotations

from triton_agent.tools.answers import checks
from triton_agent.tools.chance import below, secret_seed
from triton_agent.tools.checker.job import Job
from triton_agent.tools.checker.questions import ORDERS, judge
from triton_agent.tools.checker.tracing import packed
from triton_agent.tools.machine.lease import Mode
from triton_agent.tools.processes.protocol import Call, Called, Done, Prepare, UseFile

NAME = "file"
"""Name of the file's program in the executor."""


def check_file(job: Job) -> None:
    """Check the main sizes' cases that share form and mode with the first one; timing then uses this module."""
    if not job.file:
        return
    trial = job.plan.trials[job.plan.main]
    first = trial.cases[0]
    job.runner.await_ready()
    job.kept = None  # the calls below replace the inputs that the executor kept
    with job.gpu(Mode.SHARED):
        job.runner.ask(
            UseFile(
                name=NAME,
                text=job.file,
                train=first.train,
                by_keyword=trial.by_keyword,
                seed=trial.build_seed,
                conditions=job.settings.conditions,
            ),
            Done,
            [trial.packed_init, packed(first)],
        )
        for case in trial.cases[::-1]:  # the first one last, so that its parameters stay set
            if case.train != first.train or packed(case).data != packed(first).data:
                continue
            job.gpu.pause()
            with_parameters = Prepare(name=NAME, parameters=True)
            reply, blobs = job.runner.ask(
                Call(prepare=with_parameters, salt=0, seed=secret_seed(), order=below(ORDERS)),
                Called,
                [trial.states[case.version], case.expectation.packed_inputs],
                expected_bytes=case.expectation.answer_bytes,
            )
            tree = job.programs.of(trial, case).tape.tree
            judge(job, trial, case, checks.read_answer(tree, reply, blobs, job.settings.device))
