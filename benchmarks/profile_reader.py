"""Tests whether the profile in a prompt suffices to improve a kernel, with a policy that repairs what the profile
names.

The policy's first answer is the built-in author's file with one defect: a clone of an input by torch, copies of it by
kernels of its own, or one copy by a single program. Its second answer removes the defect that the first bottleneck in
the rendered prompt names. If the prompt names another bottleneck, or none, the defect stays and the answer is as slow
as before. So the second attempt is faster only if the profile was taken, stored, rendered and right.

Each example is a run of `optimize` of its own with two turns, several of them at once: whatever is timed has the GPU
alone. A row is written as soon as a run ends, one with its error where it fails. It says nothing without a GPU, where
nothing is profiled.

    python benchmarks/profile_reader.py --example softmax
"""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from triton_agent.memory.observation import Observation
from triton_agent.memory.records import Completion
from triton_agent.policy.answer import read_answer, write_answer
from triton_agent.policy.builtin import Builtin
from triton_agent.policy.llm.prompting.prompt import render

if TYPE_CHECKING:
    from triton_agent.tools.results import Timing

HERE = Path(__file__).resolve().parent
SIX = {
    "gated_mlp": "parallelism",
    "linear_gelu": "parallelism",
    "residual_norm": "torch operators",
    "softmax": "memory traffic",
    "token_loss": "memory traffic",
    "window_softmax": "torch operators",
}
"""The defect of each example's first answer. A copy by one program is the only one that takes longer than a product."""
BOTTLENECK = re.compile(r"`bottleneck: ([a-z ]+), costs up to")
MARK = "\n\n# defect: "
DEFECTS = {
    "torch operators": "x.clone()",
    "memory traffic": "copied(copied(copied(copied(x, 4096), 4096), 4096), 4096)",
    "parallelism": "copied(x, x.numel())",
}
"""Defects, by the bottleneck that each causes."""
TAIL = """

@triton.jit
def copy_pieces(x, y, size, each, BLOCK: tl.constexpr):
    begin = tl.program_id(0).to(tl.int64) * each
    for start in range(0, each, BLOCK):
        at = start + tl.arange(0, BLOCK)
        inside = (at < each) & (begin + at < size)
        tl.store(y + begin + at, tl.load(x + begin + at, mask=inside), mask=inside)


def copied(x, each):
    x = x.contiguous()
    y = torch.empty_like(x)
    copy_pieces[(triton.cdiv(x.numel(), each),)](x, y, x.numel(), each, BLOCK=1024)
    return y


class ModelNew(WithoutDefect):
    def forward(self, x, *others):
        return super().forward(DEFECT, *others)
"""


def with_defect(source: str, name: str) -> str:
    """Return a file with one needless operation before its work."""
    return re.sub(r"\bModelNew\b", "WithoutDefect", source) + f"{MARK}{name}{TAIL.replace('DEFECT', DEFECTS[name])}"


def without_defect(source: str) -> str:
    return re.sub(r"\bWithoutDefect\b", "ModelNew", source.partition(MARK)[0])


def defect_of(source: str) -> str:
    """Return the name of the defect in a file; empty if it has none."""
    return source.partition(MARK)[2].partition("\n")[0]


class ProfileReader:
    """Removes the defect that the prompt names, and no other."""

    name = "profile-reader"
    version = "1"

    async def propose(self, observation: Observation, n: int = 1) -> list[Completion]:
        faulty = next((item.source for item in reversed(observation.tried) if defect_of(item.source)), "")
        if not faulty:
            fresh = dataclasses.replace(observation, tried=(), attempts_before=0)
            (written,) = await Builtin().propose(fresh)
            source = read_answer(written.text).source or ""
            defect = SIX[Path(observation.problem.spec["path"]).stem]
            return [self._answer(f"With a defect: {defect}.", with_defect(source, defect))]
        named = BOTTLENECK.search(render(observation, budget_tokens=100_000, count=len).messages[1].content)
        if named is not None and named[1] == defect_of(faulty):
            return [self._answer(f"The bottleneck is {named[1]}: removed.", without_defect(faulty))]
        return [self._answer(f"The prompt names {named[1] if named else 'no bottleneck'}.", f"{faulty}\n# again\n")]

    async def propose_many(self, observations: list[Observation]) -> list[Completion | None]:
        return [(await self.propose(observation))[0] for observation in observations]

    async def close(self) -> None:
        """Nothing to close."""

    def _answer(self, plan: str, source: str) -> Completion:
        return Completion(text=write_answer(plan, source), policy=self.name, policy_version=self.version)


def main() -> None:
    """Run every example; exit code 1 if the second attempt is not faster with confidence."""
    options = _options()
    # Later than --help, which needs no database.
    import rows

    shared = rows.provenance()
    missed = []
    with concurrent.futures.ThreadPoolExecutor(options.at_once) as pool:
        running = [pool.submit(_run, name, options) for name in options.example or SIX]
        for done in concurrent.futures.as_completed(running):
            row = done.result()
            rows.append(options.out, shared, [row])
            print(", ".join(f"{key} {value}" for key, value in row.items()), flush=True)
            missed += [] if row["improved"] == "yes" else [row["example"]]
    if missed:
        sys.exit(f"not improved: {', '.join(missed)}")


def _run(name: str, options: argparse.Namespace) -> dict[str, str]:
    """Run `optimize` on an example; return its row."""
    import examples

    from triton_agent.memory.store import Store

    file, *rest = examples.EXAMPLES[name]
    policy = ["--policy", f"own:{Path(__file__).resolve()}:ProfileReader", "--turns", "2", "--parallel", "1"]
    row = {"example": name, "defect": SIX[name], "status": "", "first": "", "second": "", "improved": "no", "said": ""}
    with tempfile.TemporaryDirectory() as folder:
        problem = str(examples.FOLDER / file)
        argv = examples.optimize(folder, problem, *rest, *policy, "--device", options.device)
        try:
            done = subprocess.run(argv, capture_output=True, text=True, timeout=options.within)
        except subprocess.TimeoutExpired:
            return row | {"said": f"not done within {options.within:g} s"}
        last = (done.stdout.strip().splitlines() or ["{}"])[-1]
        if json.loads(last).get("kind") != "outcome":
            return row | {"said": f"exit code {done.returncode}: {' '.join(done.stderr.split())[-500:]}"}
        with Store.open(f"{folder}/runs.db", read_only=True) as store:
            attempts = list(store.attempts(json.loads(last)["run"]))
            verdicts = [store.gradings(attempt.key)[-1].evaluation for attempt in attempts]
    times: list[Timing | None] = [verdict.timing("eager", "device") if verdict else None for verdict in verdicts]
    speeds = [timing.speedup if timing else None for timing in times]
    first, second = (*speeds, None, None)[:2]
    return row | {
        "status": " ".join(verdict.status.value if verdict else "unmeasured" for verdict in verdicts),
        "first": f"{first.median:.4g}" if first else "",
        "second": f"{second.median:.4g}" if second else "",
        "improved": "yes" if first and second and second.low > first.high else "no",
        "said": " ".join(attempts[1].plan.split()) if len(attempts) > 1 else "",
    }


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Does a policy improve that can only repair what the profile names?")
    parser.add_argument("--example", action="append", choices=tuple(SIX), help="may be repeated; default: all six")
    parser.add_argument("--at-once", type=int, default=3, help="runs at a time")
    parser.add_argument("--within", type=float, default=240.0, help="seconds for one run")
    parser.add_argument("--device", default="auto")
    parser.add_argument(
        "--out", type=Path, default=HERE / "results" / "profile_reader.csv", help="the CSV file for rows"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
