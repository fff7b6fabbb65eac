"""The stages of a sketch: one correct call at the given sizes, then a short race. A sketch is never a verdict.

The built-in author writes many files that differ in a number or two. Sketches choose the ones worth a verdict, and the
best one is then judged fully, like any other candidate.
"""

from __future__ import annotations

from triton_agent.tools.answers.authorship import check_launches
from triton_agent.tools.checker.clock_stages import enter_clock, ready_clock
from triton_agent.tools.checker.compiling import fill_cache
from triton_agent.tools.checker.job import Job
from triton_agent.tools.checker.pipeline import Stage, screen_text
from triton_agent.tools.checker.questions import ask_once
from triton_agent.tools.machine.baton import BATON
from triton_agent.tools.machine.lease import Mode


def trace_main(job: Job) -> None:
    """Trace one call at the main sizes, and compile its kernels ahead if there are compile workers."""
    trial = job.plan.trials[job.plan.main]
    program = job.programs.of(trial, trial.cases[0])
    check_launches(program.tape, empty_outputs=False)
    if job.ahead:
        fill_cache([program], job.ahead)


def right_once(job: Job) -> None:
    """Check the answer for the inputs as given, at the main sizes."""
    job.runner.await_ready()
    job.await_room()
    trial = job.plan.trials[job.plan.main]
    with job.gpu(Mode.SHARED):
        ask_once(job, trial, trial.cases[0])


def sketch_time(job: Job) -> None:
    """Time a few pairs of calls against the reference."""
    clock = ready_clock(job)
    if clock is None:
        return
    enter_clock(job, clock)
    with BATON.put_down(), job.gpu(Mode.EXCLUSIVE):
        race = clock.sketch(job.runner)
    job.timings = race.timings()


STAGES: tuple[Stage, ...] = (
    ("screen", screen_text),
    ("trace", trace_main),
    ("first", right_once),
    ("time", sketch_time),
)
