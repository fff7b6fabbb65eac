"""The zygote: a process that has done its imports once, from which all our other processes are forked.

    driver ──spawns──> zygote (torch) ──forks──> zygote (torch's tracing) ──forks──> checker
                              │                            └──forks──> mode zygote (triton) ──forks──> tracer
                              └──forks──> mode zygote (triton) ──forks──> compiler, executor

The checker is trusted and holds reference, seeds and truth; each of the others serves one candidate. A mode zygote
imports triton in the mode of its workers: for tracing, for the interpreter, for ahead-of-time compilation, or for a
GPU. If many problems follow, another one imports torch's compiler and forks checkers. No zygote ever creates a CUDA
context, runs a candidate, or learns a seed. Requests come over one socket, one at a time. A child stays a zombie until
it is reaped, so a pid that the driver knows cannot be reused.
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
from triton_agent.tools.sandbox import layers, privileges

ROLES = {
    "checker": "triton_agent.tools.checker.checker",
    "tracer": "triton_agent.tools.tape.tracer",
    "compiler": "triton_agent.tools.executor.compiler",
    "executor": "triton_agent.tools.executor.worker",
}
"""The module of each role, whose `main(channel, settings)` the forked child runs."""

TRACING = "tracing"
"""Mode of a zygote that imports torch's tracing, which fake tensors need; checkers and tracers are forked from it."""
CHECKERS = "checkers"
"""Mode of a zygote whose children find torch's compiler imported."""

MODES: dict[str, dict[str, str]] = {
    "interpreter": {"TRITON_INTERPRET": "1"},
    "tracer": {"TRITON_INTERPRET": "0", "CUDA_VISIBLE_DEVICES": ""},
    "compiler": {"TRITON_INTERPRET": "0"},
    "gpu": {"TRITON_INTERPRET": "0", "CUDA_DEVICE_MAX_CONNECTIONS": "1"},
    TRACING: {"PYTORCH_NVML_BASED_CUDA_CHECK": "1"},
    CHECKERS: {"PYTORCH_NVML_BASED_CUDA_CHECK": "1"},
}
"""Environment variables that each mode sets before triton is imported.

With one connection to the GPU instead of eight, a context is created and destroyed in half the time. The driver
serialises both, which limits verdicts per second. Kernels on several streams of a candidate may then wait for each
other, unlike at its user's: at worst it is measured too slow, never too fast.

torch's compiler must not query the GPU with a CUDA call, because then no child could use CUDA.
"""

QUIET = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "TORCHINDUCTOR_COMPILE_THREADS": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONUNBUFFERED": "1",
}
"""Single-threaded libraries: threads started before a fork do not exist after it."""


def serve(channel: Channel) -> None:
    """Fork on request until the driver hangs up."""
    parent = os.getpid()
    gc.collect()
    gc.freeze()  # otherwise a collection in a child would write to every page with objects, and so copy it: 90 ms
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
    """End a child and the rest of its process group; return its exit code as in `os.waitstatus_to_exitcode`.

    The group is killed while the child still exists, at least as a zombie, so its number cannot have been reused.
    """
    deadline = time.monotonic() + grace_s
    while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None and time.monotonic() < deadline:
        time.sleep(0.001)
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _become(request: Fork | ForkZygote, fds: list[int], control: Channel, parent: int) -> NoReturn:
    """Turn the child into the requested process; never return to the caller's loop."""
    code = 1
    try:
        privileges.die_with_parent()  # in any state: a checker may be inside a reference that never returns
        if os.getppid() != parent:
            os._exit(code)
        control.sock.close()
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the driver handles Ctrl-C
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
    if mode == TRACING:
        importlib.import_module("torch._dynamo")
    elif mode == CHECKERS:
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
    """Run the first zygote; its socket's descriptor is given on the command line."""
    os.environ.update(QUIET)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    channel = Channel.from_fd(int(sys.argv[1]))
    layers.probe()  # forks a dozen times, which takes 3 ms of processor time now, and 17 ms each once torch is imported
    importlib.import_module("torch")
    serve(channel)


if __name__ == "__main__":
    main()
