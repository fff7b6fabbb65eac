"""The zygote: a process that has paid for its imports once and forks every other process of ours.

    driver ──spawns──> zygote (torch) ──forks──> checker          trusted: holds reference, seeds, truth
                              └───────forks──> mode zygote (torch + triton) ──forks──> worker    runs one candidate

A mode zygote has triton imported as its workers need it: in interpreter mode, for ahead-of-time compilation, or for a
GPU. Where many problems are to come, one more has torch's compiler imported, and forks checkers. No zygote ever makes a
CUDA context, runs a candidate, or learns a seed. Commands come over one socket, one at a time; a child stays a zombie
until it is waited for, so a process id in the driver's hands cannot come to mean another.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import signal
import sys
import time
from typing import NoReturn

from triton_agent.tools.errors import TritonAgentError
from triton_agent.tools.processes.codec import from_plain, to_plain
from triton_agent.tools.processes.protocol import Fork, Forked, ForkZygote, Reap, Reaped, ZygoteReady
from triton_agent.tools.processes.wire import Channel, ChannelClosed, error_to_json
from triton_agent.tools.sandbox import privileges

ROLES = {
    "checker": "triton_agent.tools.checker.checker",
    "tracer": "triton_agent.tools.tape.tracer",
    "compiler": "triton_agent.tools.executor.compiler",
    "executor": "triton_agent.tools.executor.worker",
}
"""Role -> module whose `main(channel, settings)` the forked child runs."""

CHECKERS = "checkers"
"""Mode of a zygote whose children do not have to import torch's compiler."""

MODES: dict[str, dict[str, str]] = {
    "interpreter": {"TRITON_INTERPRET": "1"},
    "tracer": {"TRITON_INTERPRET": "0", "CUDA_VISIBLE_DEVICES": ""},
    "compiler": {"TRITON_INTERPRET": "0"},
    "gpu": {"TRITON_INTERPRET": "0", "CUDA_DEVICE_MAX_CONNECTIONS": "1"},
    CHECKERS: {"PYTORCH_NVML_BASED_CUDA_CHECK": "1"},
}
"""Mode -> environment it sets before triton is imported.

A context with one connection to the GPU instead of eight is made and ended in half the time, and the driver makes and
ends one after another: that is what bounds verdicts per second. Kernels on several streams of a candidate may then
wait for each other where they would not for its user: a reading that is too slow at worst, never too fast.

Whether there is a GPU, torch's compiler must not find out by a CUDA call: no child could make one then.
"""

QUIET = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "TORCHINDUCTOR_COMPILE_THREADS": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONUNBUFFERED": "1",
}
"""Threads started before a fork would not exist after it."""


def serve(channel: Channel) -> None:
    """Fork on request until the driver is gone."""
    parent = os.getpid()
    gc.collect()
    gc.freeze()  # a collection in a child would write to, and so copy, every page that objects lie on: 90 ms
    channel.send(to_plain(ZygoteReady()))
    while True:
        try:
            plain, _, fds = channel.receive_with_fds()
        except ChannelClosed:
            return
        request = from_plain(Fork | ForkZygote | Reap, plain)
        if isinstance(request, Reap):
            channel.send(to_plain(Reaped(status=_reap(request.pid, request.grace_s))))
            continue
        pid = os.fork()
        if pid == 0:
            _become(request, fds, channel, parent)
        for fd in fds:
            os.close(fd)
        channel.send(to_plain(Forked(pid=pid)))


def _reap(pid: int, grace_s: float) -> int:
    """End a child and all that is left of its group; its exit code as `os.waitstatus_to_exitcode` gives it.

    The group is killed while the child is still there, at least as a zombie: so the number cannot be another's.
    """
    deadline = time.monotonic() + grace_s
    while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None and time.monotonic() < deadline:
        time.sleep(0.001)
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _become(request: Fork | ForkZygote, fds: list[int], control: Channel, parent: int) -> NoReturn:
    """Turn the child into what was asked for; never return to the caller's loop."""
    code = 1
    try:
        privileges.die_with_parent()  # whatever it is doing: a checker may be inside a reference that does not end
        if os.getppid() != parent:
            os._exit(code)
        control.sock.close()
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C is the driver's to handle
        channel = Channel.from_fd(fds[0])
        if isinstance(request, ForkZygote):
            code = _become_mode_zygote(request.mode, request.target, channel)
        else:
            importlib.import_module(ROLES[request.role]).main(channel, request.settings)
            code = 0
    except TritonAgentError as error:
        sys.stderr.write(f"{error_to_json(error)}\n")
    except ChannelClosed:
        code = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(code)


def _become_mode_zygote(mode: str, target: str, channel: Channel) -> int:
    os.environ.update(MODES[mode])
    if mode == CHECKERS:
        importlib.import_module("triton_agent.tools.checker.checker")
        importlib.import_module("triton_agent.tools.race.baselines").import_compiler()
    elif mode == "tracer":
        importlib.import_module("triton_agent.tools.tape.tracer").warm_up()
    elif mode == "compiler":
        importlib.import_module("triton_agent.tools.executor.compiler").warm_up(target)
    else:
        importlib.import_module("triton_agent.tools.executor.worker").warm_up(mode, target)
    serve(channel)
    return 0


def main() -> None:
    """Entry of the first zygote: the driver's socket is the descriptor named on the command line."""
    os.environ.update(QUIET)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    channel = Channel.from_fd(int(sys.argv[1]))
    importlib.import_module("torch")
    serve(channel)


if __name__ == "__main__":
    main()
