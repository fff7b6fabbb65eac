"""Measures the device memory of one verdict on a large problem: at most 2.5 calls of the reference and 6 GB.

One problem with a given size of input and output is judged once with an honest kernel. The memory of the whole card is
read every few milliseconds, so all processes and their contexts count. One call of the reference is its input and the
peak that the evaluator measured for it. Writes JSON; exit code 1 if the bar is missed or the kernel did not pass.

    python benchmarks/memory.py --gib 4 --out memory.json
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CALLS, FIXED_BYTES = 2.5, 6 * 10**9
POLL_S = 0.02

PROBLEM = """
import torch
import torch.nn as nn

ROWS, COLUMNS = {rows}, 4096


class Model(nn.Module):
    def forward(self, x):
        return torch.nn.functional.silu(x) * 1.5


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]
"""

KERNEL = """
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def silu_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(y_ptr + at, x / (1.0 + tl.exp(-x)) * 1.5, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        silu_kernel[(triton.cdiv(x.numel(), 4096),)](x, y, x.numel(), BLOCK=4096)
        return y
"""


class CardMemory:
    """Reads the allocated memory of the whole card until it is stopped."""

    def __init__(self, uuid: str) -> None:
        self._uuid = uuid
        self.peak_bytes = 0
        self.at_rest_bytes = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> CardMemory:
        self.at_rest_bytes = used_bytes(self._uuid)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _read(self) -> None:
        while not self._ended.wait(POLL_S):
            self.peak_bytes = max(self.peak_bytes, used_bytes(self._uuid) - self.at_rest_bytes)


def used_bytes(uuid: str) -> int:
    told = subprocess.run(
        ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", f"--id={uuid}"],
        capture_output=True,
        text=True,
        check=True,
    )
    return int(told.stdout.split()[0]) << 20


def main() -> int:
    options = _options()
    sys.path.insert(0, str(ROOT))
    import rows

    from triton_agent.tools.errors import TritonAgentError
    from triton_agent.tools.evaluate.evaluator import Evaluator
    from triton_agent.tools.machine.hardware import visible_gpus
    from triton_agent.tools.problem.problem import parse_problem
    from triton_agent.tools.settings import EvaluatorSettings

    side_bytes = int(options.gib * 2**30)
    found: dict[str, object] = {"about": rows.provenance(), "reference_call_bytes": 2 * side_bytes}
    settings = EvaluatorSettings(
        device="cuda", total_timeout_s=options.seconds, call_timeout_s=60.0, memory_bytes=64 << 30
    )
    began = time.monotonic()

    def entered(stage: str) -> None:
        found.setdefault("entered_s", {})[stage] = round(time.monotonic() - began, 1)  # type: ignore[attr-defined]
        found.setdefault("peak_at_entry_bytes", {})[stage] = card.peak_bytes  # type: ignore[attr-defined]
        _write(options.out, found)

    with tempfile.TemporaryDirectory() as folder, CardMemory(visible_gpus()[0].uuid) as card:
        path = Path(folder) / "problem.py"
        path.write_text(PROBLEM.format(rows=side_bytes // (4 * 4096)))
        try:
            with Evaluator(parse_problem(str(path)), settings) as evaluator:
                found["prepared_s"] = round(time.monotonic() - began, 1)
                found["peak_while_prepared_bytes"], card.peak_bytes = card.peak_bytes, 0
                _write(options.out, found)
                evaluation = evaluator.evaluate(KERNEL, on_stage=entered)
                found |= {"status": str(evaluation.status), "message": evaluation.message}
                found["stages"] = {stage.stage: round(stage.wall_ms) for stage in evaluation.stages}
                peak = evaluation.diagnosis.original_peak_bytes if evaluation.diagnosis else None
                if peak is not None:
                    found["reference_call_bytes"] = side_bytes + peak
                found["variants"] = evaluator.facts.variants
                found["cases"] = evaluator.facts.cases
        except TritonAgentError as error:
            found |= {"status": type(error).__name__, "message": str(error)}
        found["peak_while_judged_bytes"] = card.peak_bytes
    found["seconds"] = round(time.monotonic() - began, 1)
    peak = max(int(found.get("peak_while_prepared_bytes", 0)), card.peak_bytes)  # type: ignore[call-overload]
    found |= {"peak_bytes": peak, "allowed_bytes": int(CALLS * int(found["reference_call_bytes"])) + FIXED_BYTES}
    _write(options.out, found)
    print(json.dumps(found, indent=1))
    return 0 if found.get("status") == "passed" and peak <= int(found["allowed_bytes"]) else 1  # type: ignore[call-overload]


def _write(path: Path, found: dict[str, object]) -> None:
    """Write the results, also during the run, so that an interrupted run leaves what it measured."""
    path.write_text(json.dumps(found, indent=1))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gib", type=float, default=4.0, help="of the input, and of the output as well (default: 4)")
    parser.add_argument("--seconds", type=float, default=300.0, help="for the verdict (default: 300)")
    parser.add_argument("--out", type=Path, default=Path("memory.json"), help="the result")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
