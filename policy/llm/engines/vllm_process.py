"""Starts, asks and ends the process of a vLLM engine, and notices its death.

It needs no event loop: a thread reads replies into futures. The process leads its own process group, so that it can be
killed with everything it started, and it ends itself when its input ends, for example because this process died.
"""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import json
import os
import re
import signal
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from triton_agent.policy.llm.engine import EngineError

WORKER = Path(__file__).with_name("vllm_worker.py")
LINES_KEPT = 400
"""Last lines of the engine's log to keep; a traceback through its processes has about a hundred."""
LINES_SHOWN = 4
CAUSE = re.compile(r"(?:^|[\s\]])((?:\w+\.)*\w*(?:Error|Exception|Interrupt)): (.+)")
SAYS_NOTHING = ("Engine core initialization failed", "EngineDeadError", "worker died unexpectedly")
"""Errors that only refer to an earlier one."""
PREFIX = re.compile(r"^(?:\([^)]*\) ?)*(?:(?:INFO|WARNING|ERROR) [\d\-: ]+\[[^\]]*\] ?)?")


class EngineGone(EngineError):
    """The engine's process ended during a request; a new one may succeed."""


class VllmProcess:
    """The process of a running engine."""

    def __init__(self, python: str, start: Mapping[str, Any], environment: Mapping[str, str]) -> None:
        self.ready: concurrent.futures.Future[dict[str, Any]] = concurrent.futures.Future()
        """The engine's description of itself, once it has started."""
        self._pending: dict[int, concurrent.futures.Future[dict[str, Any]]] = {}
        self._numbers = 0
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._buried = threading.Event()
        self._said: collections.deque[str] = collections.deque(maxlen=LINES_KEPT)
        self._process = subprocess.Popen(
            [python, str(WORKER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env=dict(environment),
            start_new_session=True,
        )
        self._listener = threading.Thread(target=self._listen, name="vllm-stderr", daemon=True)
        self._listener.start()
        for work in (self._read, self._kill_group):
            threading.Thread(target=work, name=f"vllm{work.__name__}", daemon=True).start()
        self._write(start)

    @property
    def alive(self) -> bool:
        return not self._buried.is_set() and not (self.ready.done() and self.ready.exception())

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, request: Mapping[str, Any]) -> tuple[int, concurrent.futures.Future[dict[str, Any]]]:
        """Send a request; return the number that cancels it, and the future reply."""
        future: concurrent.futures.Future[dict[str, Any]] = concurrent.futures.Future()
        with self._lock:
            self._numbers += 1
            number = self._numbers
            self._pending[number] = future
        self._write({"id": number, **request})
        return number, future

    def cancel(self, number: int) -> None:
        """Cancel a request."""
        with self._lock:
            wanted = self._pending.pop(number, None)
        if wanted:
            self._write({"cancel": number})

    def end(self, grace_s: float) -> None:
        """Shut down cleanly within the time limit, otherwise kill the process."""
        pipe = self._process.stdin
        if pipe:
            with contextlib.suppress(OSError):
                pipe.close()
        if not self._buried.wait(timeout=grace_s):
            self.kill()

    def kill(self) -> None:
        """Kill the process and everything it started."""
        if not self._buried.is_set():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._buried.wait()

    def _kill_group(self) -> None:
        """Wait for the process to die, then kill the rest of its group, which would keep its pipes and the GPU open."""
        os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)  # WNOWAIT: not reaped, so its pid is not reused
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._buried.set()

    def _write(self, request: Mapping[str, Any]) -> None:
        line = json.dumps(request) + "\n"
        pipe = self._process.stdin
        # if the process died, the reader fails the pending requests
        with self._writing, contextlib.suppress(OSError, ValueError):
            assert pipe
            pipe.write(line)
            pipe.flush()

    def _read(self) -> None:
        replies = self._process.stdout
        assert replies
        for line in replies:
            with contextlib.suppress(ValueError):
                self._take(json.loads(line))
        self._buried.wait()
        self._listener.join(timeout=2.0)
        gone = EngineGone("vLLM ended", where=f"exit code {self._process.returncode}", remedy=self._last_error())
        _resolve(self.ready, error=gone)
        with self._lock:
            waiting, self._pending = list(self._pending.values()), {}
        for future in waiting:
            _resolve(future, error=gone)

    def _take(self, reply: dict[str, Any]) -> None:
        if "ready" in reply:
            _resolve(self.ready, reply["ready"])
        elif "failed" in reply:
            self._listener.join(timeout=2.0)
            _resolve(self.ready, error=EngineError("vLLM does not start", remedy=self._cause(reply["failed"])))
        else:
            with self._lock:
                future = self._pending.pop(reply["id"], None)
            if future:
                _resolve(future, reply)

    def _listen(self) -> None:
        said: IO[str] | None = self._process.stderr
        assert said
        for line in said:
            self._said.append(line.rstrip())

    def _cause(self, failed: str) -> str:
        if any(empty in failed for empty in SAYS_NOTHING):
            return self._last_error()
        return _shortened(failed)

    def _last_error(self) -> str:
        return condensed(list(self._said)) or "it said nothing"


def _resolve(
    future: concurrent.futures.Future[dict[str, Any]],
    reply: dict[str, Any] | None = None,
    error: Exception | None = None,
) -> None:
    with contextlib.suppress(concurrent.futures.InvalidStateError):  # cancelled, or settled before
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(reply or {})


def condensed(lines: list[str]) -> str:
    """Return the first meaningful error in an engine's log, or its last lines."""
    for line in lines:
        found = CAUSE.search(line)
        if found and not any(empty in line for empty in SAYS_NOTHING):
            return _shortened(f"{found[1]}: {found[2]}")
    spoken = [PREFIX.sub("", line) for line in lines if line.strip()]
    return _shortened("\n".join(spoken[-LINES_SHOWN:]))


def _shortened(text: str, most: int = 1000) -> str:
    return text if len(text) <= most else text[: most - 3] + "..."
