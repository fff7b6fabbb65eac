"""A quick look at a variant by a trusted author: right once at the sizes as given, then a short race. Never a verdict.

The built-in author writes many files that differ in a number or two. Which of them are worth a verdict is found out
here, in a worker that has run others before: nothing of it is proof against a hostile file, and what looks best is
judged like any other candidate, alone and in full, before anybody believes it.
"""

from __future__ import annotations

from triton_agent.tools.timing.lease import Mode
from triton_agent.tools.verify.ahead import fill_cache
from triton_agent.tools.verify.authorship import check_launches
from triton_agent.tools.verify.clock_stages import enter_clock, ready_clock
from triton_agent.tools.verify.job import Job
from triton_agent.tools.verify.pipeline import Stage, screen_text
from triton_agent.tools.verify.questions import ask_once, bring_to_life


def compile_main(job: Job) -> None:
    """For the main sizes, and where somebody does so beforehand."""
    if job.ahead:
        fill_cache(job.source, [job.plan.trials[job.plan.main]], job.ahead, job.settings.conditions)


def right_once(job: Job) -> None:
    """The inputs as given, at the main sizes."""
    job.runner.await_ready()
    trial = job.plan.trials[job.plan.main]
    with job.gpu(Mode.SHARED):
        bring_to_life(job, job.runner, trial, afresh=True)
        reply = ask_once(job, trial, trial.cases[0])
    check_launches(len(reply["launches"]), empty_outputs=False)


def sketch_time(job: Job) -> None:
    """A few pairs against the original."""
    clock = ready_clock(job)
    if clock is None:
        return
    enter_clock(job, clock)
    with job.gpu(Mode.EXCLUSIVE):
        race = clock.sketch(job.runner)
    job.timings = race.timings()


STAGES: tuple[Stage, ...] = (
    ("screen", screen_text),
    ("compile", compile_main),
    ("first", right_once),
    ("time", sketch_time),
)
