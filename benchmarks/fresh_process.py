"""Judges one candidate in a separate process that starts from nothing: the baseline of the evaluator's benchmark.

To be fair it does as little as the same checks allow: torch is imported once, then children are forked that import
triton in parallel, a tracer, an executor and a compile worker, while this process loads the problem and makes the plan.
There are no zygotes to start, no sandbox, scratch mounts or limits to set up, and nothing is torn down in order. The
checks, their code and the settings are those of the evaluator's checker. Triton's cache is empty, as it is for every
candidate of the evaluator.

    python benchmarks/fresh_process.py problem.py candidate.py      prints the verdict as one line of JSON
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import shutil
import signal
import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from triton_agent.tools.processes.wire import Channel

VERDICT_TIMEOUT_S = 300.0


def main() -> None:
    """Judge, print and exit; children and scratch are removed first."""
    options = _options()
    scratch = tempfile.mkdtemp(prefix="fresh-process-")
    children: list[int] = []
    try:
        print(json.dumps(judge(options, scratch, children)), flush=True)
    finally:
        for pid in children:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        shutil.rmtree(scratch, ignore_errors=True)
    os._exit(0)  # the interpreter's own teardown takes a third of a second, and decides nothing


def judge(options: argparse.Namespace, scratch: str, children: list[int]) -> dict[str, Any]:
    """Return the verdict as the checker gives it to the evaluator; pids of forked processes are added to `children`."""
    from triton_agent.tools.processes.zygote import QUIET

    os.environ.update(QUIET)
    import torch  # noqa: F401  imported before the forks, so once

    from triton_agent.tools.evaluate.worker_pool import COMPILER, GPU, INTERPRETER, TRACER
    from triton_agent.tools.problem.problem import parse_problem
    from triton_agent.tools.processes.wire import Channel
    from triton_agent.tools.settings import EvaluatorSettings

    settings = EvaluatorSettings(confine=False, device=options.device)
    kinds = (TRACER, GPU if options.device == "cuda" else INTERPRETER, COMPILER)
    forked = [_fork(kind, settings.target or "", scratch, children) for kind in kinds]

    from triton_agent.tools.checker.checker import Checker
    from triton_agent.tools.processes.codec import from_plain, to_plain
    from triton_agent.tools.processes.protocol import AtStage, HandedOver, JobAnswer, Judge, ProblemLoaded

    ours, theirs = Channel.pair()
    checker = Checker(theirs, parse_problem(str(options.problem)), settings)
    prepared = checker.prepare()
    if not isinstance(prepared, ProblemLoaded):
        sys.exit(f"the problem could not be prepared: {prepared}")
    cache = os.path.join(scratch, "kernels") if options.device == "cuda" else ""
    for channel, _ in forked:
        channel.send({"card": prepared.card, "target": prepared.facts.target or settings.target, "cache": cache})
    workers = tuple(HandedOver(kind=kind, is_warm=False) for kind in kinds)
    request = Judge(job=1, source=options.candidate.read_text(), workers=workers)
    threading.Thread(target=checker.judge, args=(request, [fd for _, fd in forked]), daemon=True).start()
    while True:
        plain, _ = ours.receive(VERDICT_TIMEOUT_S)
        answer = from_plain(AtStage | JobAnswer, plain)
        if not isinstance(answer, AtStage):
            return to_plain(answer)


def _fork(kind: str, target: str, scratch: str, children: list[int]) -> tuple[Channel, int]:
    """Fork a process that imports triton; return the channel on which it waits for the card's facts, and a
    descriptor.
    """
    from triton_agent.tools.processes.wire import Channel

    telling, told = Channel.pair()
    ours, theirs = Channel.pair()
    pid = os.fork()
    if pid == 0:
        telling.sock.close()
        ours.sock.close()
        _become(kind, target, scratch, told, theirs)
    told.sock.close()
    theirs.sock.close()
    children.append(pid)
    return telling, ours.sock.detach()


def _become(kind: str, target: str, scratch: str, told: Channel, channel: Channel) -> NoReturn:
    """Import what this kind of process needs, wait for the facts of the card, serve."""
    from triton_agent.tools.evaluate.worker_pool import COMPILER, ROLES, TRACER
    from triton_agent.tools.processes import zygote
    from triton_agent.tools.processes.codec import encode
    from triton_agent.tools.processes.protocol import WorkerSettings

    try:
        folder = os.path.join(scratch, kind)
        os.mkdir(folder)
        os.environ.update(zygote.MODES[kind], TRITON_CACHE_DIR=os.path.join(folder, "triton"))
        role = importlib.import_module(zygote.ROLES[ROLES[kind]])
        role.warm_up(*{TRACER: (), COMPILER: (target,)}.get(kind, (kind, target)))
        about, _ = told.receive()
        role.main(channel, encode(WorkerSettings(kind=kind, scratch=folder, **about)))
    finally:
        os._exit(1)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Judges one candidate in a fresh process, without a sandbox.")
    parser.add_argument("problem", type=Path, help="a problem file")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("candidate", type=Path, help="a file with ModelNew; it runs unconfined")
    return parser.parse_args()


if __name__ == "__main__":
    main()
