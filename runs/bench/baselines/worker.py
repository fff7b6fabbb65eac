"""Asks `process.py` from the driver: one process, one question at a time, restarted after it has ended."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import tempfile
from typing import Any

from triton_agent.tools.errors import InstrumentError
from triton_agent.tools.processes.zygotes import kept_environment
from triton_agent.tools.race.disturbances import ZYGOTE

PROCESS = "triton_agent.runs.bench.baselines.process"
"""Module of the process. It is started with the zygotes' name as argument, by which a check for disturbances knows
it.
"""
READY_S = 120.0


class Worker:
    """A process that is started with the first question."""

    def __init__(self, card: str) -> None:
        """`card` is the UUID of the only GPU that the process sees; empty for all that the driver sees."""
        self.card = card
        self._process: asyncio.subprocess.Process | None = None
        self._complaints = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the process

    async def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        """Return the answer; it holds a `failure` if the problem ended the process.

        Raise `InstrumentError` if no process could be started.
        """
        process = self._process or await self._begun()
        assert process.stdin is not None and process.stdout is not None
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            process.stdin.write(json.dumps(question).encode() + b"\n")
            await process.stdin.drain()
        line = await process.stdout.readline()
        if line:
            answer: dict[str, Any] = json.loads(line)
            return answer
        status = await process.wait()
        self._process = None
        return {"times": [], "failure": f"the process that measures it ended with status {status}"}

    async def close(self) -> None:
        """End the process, whatever it is doing."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()
        self._complaints.close()

    async def _begun(self) -> asyncio.subprocess.Process:
        self._process = process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", PROCESS, ZYGOTE.decode()),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=self._complaints,
            env=kept_environment(self.card),
            start_new_session=True,
            limit=1 << 24,
        )
        assert process.stdout is not None
        with contextlib.suppress(TimeoutError):
            if await asyncio.wait_for(process.stdout.readline(), READY_S):
                return process
        self._complaints.seek(0)
        raise InstrumentError(
            f"the process that measures references did not start:\n{self._complaints.read()[-1500:]}",
            remedy="see `triton-agent doctor`",
        )
