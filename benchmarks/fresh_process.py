"""One candidate judged by a process of its own that starts from nothing: what the evaluator is compared with.

As lean as the same checks allow, to be fair to it: torch is imported once, then children are forked that import triton
side by side, one with the interpreter and one with the compiler (on a GPU one that runs kernels), while this process
loads the problem and makes the plan. There are no zygotes to start, and no sandbox, scratch mounts or limits to set up;
nothing is torn down in order. What is judged, by what code and under what settings, is what the evaluator's checker
does. Triton's cache is empty, as it is for every candidate of the evaluator.

    python benchmarks/fresh_process.py problem.py candidate.py      prints the verdict as one line of JSON
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any, NoReturn

VERDICT_TIMEOUT_S = 300.0


def main() -> None:
    """Judge, print, end; children and scratch go first."""
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
    """The verdict as the checker gives it to the evaluator; pids of what was forked are put into `children`."""
    from triton_agent.tools.isolate.zygote import QUIET

    os.environ.update(QUIET)
    import torch  # noqa: F401  imported before the forks, so once

    from triton_agent.tools.evaluator import EvaluatorSettings, checker_settings, needed_modes
    from triton_agent.tools.isolate.wire import Channel
    from triton_agent.tools.problem import parse_problem

    settings = EvaluatorSettings(confine=False, device=options.device)
    ours, theirs = Channel.pair()
    fds = [_fork_worker(mode, settings.target or "", scratch, children) for mode in needed_modes(settings)]

    from triton_agent.tools.verify.checker import Checker

    checker = Checker(theirs, checker_settings(parse_problem(str(options.problem)), settings))
    prepared = checker.prepare()
    if "facts" not in prepared:
        sys.exit(f"the problem could not be prepared: {prepared}")
    threading.Thread(
        target=checker.judge, args=({"job": 1, "source": options.candidate.read_text()}, fds), daemon=True
    ).start()
    while True:
        message, _ = ours.receive(VERDICT_TIMEOUT_S)
        if "stage" not in message:
            return message


def _fork_worker(mode: str, target: str, scratch: str, children: list[int]) -> int:
    """The descriptor of a channel to a worker that is still importing triton."""
    from triton_agent.tools.isolate.wire import Channel

    ours, theirs = Channel.pair()
    pid = os.fork()
    if pid == 0:
        ours.sock.close()
        _become_worker(mode, target, os.path.join(scratch, mode), theirs)
    theirs.sock.close()
    children.append(pid)
    return ours.sock.detach()


def _become_worker(mode: str, target: str, scratch: str, channel: Any) -> NoReturn:
    from triton_agent.tools.isolate.zygote import MODES

    try:
        os.mkdir(scratch)
        os.environ.update(MODES[mode], TRITON_CACHE_DIR=os.path.join(scratch, "triton"))
        from triton_agent.tools.isolate import worker

        settings = {"scratch": scratch, "mode": mode, "target": target, "confinement": None}
        worker.main(channel, settings)
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
