"""`--protocol original`: what KernelBench's own check would say of a kernel, told beside this project's verdict.

Five draws of the inputs at one size, `allclose` with a fixed tolerance, mean times of a hundred calls of the kernel and
of the original, which share a process. It is weaker than a verdict here in every respect, and a kernel can forge it; it
is there so that figures can be set beside published ones. What a kernel was *solved* by is never this.
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
from triton_agent.tools.distrust import cell_for, require_layers
from triton_agent.tools.errors import WorkerLost
from triton_agent.tools.isolate.processes import kept_environment
from triton_agent.tools.problem import ProblemSpec
from triton_agent.tools.results import to_json
from triton_agent.tools.timing.disturbances import ZYGOTE

PROCESS = "triton_agent.runs.bench.public_process"
LIMIT_S = 180.0
"""For one kernel: five calls and two hundred timed ones, and waiting for the GPU."""


class PublicProtocol:
    """A process that judges one kernel at a time; begun at the first one."""

    def __init__(self, device: str, folder: Path, card: str = "") -> None:
        self._device = device
        self._card = card
        self._folder = folder
        self._process: subprocess.Popen[str] | None = None
        self._turn = asyncio.Lock()

    async def check(self, spec: ProblemSpec, source: str) -> PublicCheck:
        """Raises `WorkerLost` where the process itself failed."""
        async with self._turn:
            return await asyncio.to_thread(self._check, spec, source)

    def _check(self, spec: ProblemSpec, source: str) -> PublicCheck:
        with tempfile.TemporaryDirectory(dir=self._folder) as scratch:
            cell = cell_for(spec, Path(scratch) / "cell", gpu=self._device == "cuda")
            job = {
                "spec": spec.to_json(),
                "source": source,
                "limit_s": LIMIT_S,
                "confinement": to_json(cell),
            }
            return PublicCheck(**self._ask(job))

    def _ask(self, job: dict[str, Any]) -> dict[str, Any]:
        if self._process is None:
            self._process = self._begin()
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(job) + "\n")
            self._process.stdin.flush()
            answer: dict[str, Any] = json.loads(self._process.stdout.readline())
            return answer
        except (OSError, ValueError) as error:
            self.close()
            log = (self._folder / "public.log").read_text(errors="replace")[-1000:]
            raise WorkerLost(f"the process of the public protocol ended ({error}):\n{log}") from error

    def _begin(self) -> subprocess.Popen[str]:
        with (self._folder / "public.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", PROCESS, self._device, ZYGOTE.decode()],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=kept_environment(self._card),
                start_new_session=True,
            )

    def close(self) -> None:
        """End the process, and with it whatever it judges."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


@contextmanager
def public_protocol(device: str, card: str = "") -> Iterator[PublicProtocol]:
    """On the `card` named, by UUID, or the first. Refused where kernels cannot be confined."""
    require_layers()
    with tempfile.TemporaryDirectory(prefix="triton-agent-public-") as folder:
        protocol = PublicProtocol(device, Path(folder), card)
        try:
            yield protocol
        finally:
            protocol.close()
