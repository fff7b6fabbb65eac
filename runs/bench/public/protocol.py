"""`--protocol original`: the result of KernelBench's own check, reported beside this project's verdict.

That check draws inputs five times at one size, compares by `allclose` with a fixed tolerance, and takes mean times of a
hundred calls of the kernel and of the reference in one process. It is weaker than a verdict in every respect, and a
kernel can forge it. It allows a comparison with published figures, and never decides whether a problem is solved.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from triton_agent.runs.bench.rows import PublicCheck
from triton_agent.tools.errors import WorkerLost
from triton_agent.tools.problem.confinement import confinement_for, require_layers
from triton_agent.tools.problem.problem import ProblemSpec
from triton_agent.tools.processes.zygotes import kept_environment
from triton_agent.tools.race.disturbances import ZYGOTE
from triton_agent.tools.results import to_json

PROCESS = "triton_agent.runs.bench.public.process"
LIMIT_S = 180.0
"""Time limit for one kernel: five calls, two hundred timed ones, and the wait for the GPU."""


class PublicProtocol:
    """A process that judges one kernel at a time, started with the first one."""

    def __init__(self, device: str, folder: Path, card: str = "") -> None:
        self._device = device
        self._card = card
        self._folder = folder
        self._process: subprocess.Popen[str] | None = None
        self._turn = asyncio.Lock()

    async def check(self, spec: ProblemSpec, source: str) -> PublicCheck:
        """Judge one kernel. Raise `WorkerLost` if the process itself failed."""
        async with self._turn:
            return await asyncio.to_thread(self._check, spec, source)

    def _check(self, spec: ProblemSpec, source: str) -> PublicCheck:
        process = self._process = self._process or self._begin()
        assert process.stdin is not None and process.stdout is not None
        with tempfile.TemporaryDirectory(dir=self._folder) as scratch:
            cell = confinement_for(spec, Path(scratch) / "cell", gpu=self._device == "cuda")
            job = {
                "spec": spec.to_json(with_text=True),
                "source": source,
                "limit_s": LIMIT_S,
                "confinement": to_json(cell),
            }
            try:
                process.stdin.write(json.dumps(job) + "\n")
                process.stdin.flush()
                answer: dict[str, Any] = json.loads(process.stdout.readline())
            except (OSError, ValueError) as error:
                self.close()
                log = (self._folder / "public.log").read_text(errors="replace")[-1000:]
                raise WorkerLost(f"the process of the public protocol ended ({error}):\n{log}") from error
            return PublicCheck(**answer)

    def _begin(self) -> subprocess.Popen[str]:
        with (self._folder / "public.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-P", "-m", PROCESS, self._device, ZYGOTE.decode()],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=kept_environment(self._card),
                start_new_session=True,
            )

    def close(self) -> None:
        """End the process and the kernel it is judging."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


@contextmanager
def public_protocol(device: str, card: str = "") -> Iterator[PublicProtocol]:
    """Start the check on the card with this UUID, or on the first. Raise an error if kernels cannot be sandboxed."""
    require_layers()
    with tempfile.TemporaryDirectory(prefix="triton-agent-public-") as folder:
        protocol = PublicProtocol(device, Path(folder), card)
        try:
            yield protocol
        finally:
            protocol.close()
