"""The first file for a problem suits every target: it compiles at full size, and no kernel spills registers."""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.policy.author.briefs import full_size_brief, on_target
from tests.tools.tape.tracing_process import traced

from triton_agent.memory.observation import BudgetLeft, Observation, ProblemView, Rules
from triton_agent.policy.author.brief import Brief
from triton_agent.policy.author.decisions import first_choice
from triton_agent.policy.author.writer import write
from triton_agent.policy.builtin import Builtin
from triton_agent.tools.graph.fingerprint import fingerprint
from triton_agent.tools.machine.hardware import CardFacts
from triton_agent.tools.problem.problem import parse_problem
from triton_agent.tools.processes.zygote import MODES

ROOT = Path(__file__).parents[3]
TARGETS = ("cuda:80", "cuda:90", "gfx942")
PROBLEMS = (
    "attention/padded_cross_attention",
    "blocks_generative/time_embedding",
    "convolutions/conv3x3_hard_swish",
    "gather/warped_features",
    "gemm/few_rows_linear_residual",
    "gemm/linear_with_adapter",
    "gemm/packed_swiglu_projection",
    "layout_changes/shifted_windows",
    "losses/smoothed_token_loss",
    "norms/group_norm_silu",
    "pointwise/snake_activation",
    "pooling/mixed_pooling",
    "quantise/four_bit_linear",
    "reductions/channel_moments",
    "scans/running_weighted_mean",
    "softmaxes/biased_masked_softmax",
)
"""One problem of each family that the author computes entirely, and some that are tight: a product with a computed
operand, an adapter whose second product needs shared memory beside the tiles of the layer, and a mask that varies where
the addresses do not.
"""

COMPILER = """
import json, os, sys, tempfile
from triton_agent.tools.executor.compiler import Compiler
from triton_agent.tools.processes.protocol import Compile

target = sys.argv[1]
compiler = Compiler(tempfile.mkdtemp(), target, fills_cache=False)

def complaints(name, reply):
    if "tape" not in reply:
        return [f"{name} on {target}: {reply}"]
    told = compiler.compile(Compile(tape=reply["tape"], kernels=reply["kernels"]))
    found = [f"{name} on {target}: {told.failure}"] if told.failure else []
    for kernel in told.kernels:
        if kernel.spill_bytes != 0:
            found.append(f"{name} on {target}: {kernel.kernel} spills with {kernel.constants}")
    return found if told.kernels else [*found, f"{name} on {target}: no kernel"]

print(json.dumps([line for name, reply in json.load(sys.stdin) for line in complaints(name, reply)]))
"""


def complaints_of(target: str, briefs: dict[str, Brief], folder: Path) -> list[str]:
    """Return a line for every failed compilation and every kernel that spills on the target."""
    requests = {}
    for name, brief in briefs.items():
        told = on_target(brief, target)
        source = write(told, first_choice(told)).source
        for train in (False, True):
            asked = {"source": source, "problem": str(problem_file(name)), "train": train, "target": target}
            requests[f"{name} {'train' if train else 'eval'}"] = asked
    replies = [(name, found.reply) for name, found in traced(requests).items()]
    done = subprocess.run(
        [sys.executable, "-c", COMPILER, target],
        input=json.dumps(replies),
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, **MODES["compiler"], "TRITON_CACHE_DIR": str(folder / "cache")},
    )
    assert done.returncode == 0, done.stderr
    found: list[str] = json.loads(done.stdout.splitlines()[-1])
    return found


def problem_file(name: str) -> Path:
    return ROOT / "benchmarks" / "problems" / f"{name}.py"


@pytest.mark.ci
@pytest.mark.slow
def test_first_files_compile_for_every_target_and_nothing_spills(tmp_path: Path) -> None:
    briefs = {name: full_size_brief(parse_problem(str(problem_file(name)))) for name in PROBLEMS}
    folders = [tmp_path / str(i) for i in range(len(TARGETS))]
    for folder in folders:
        folder.mkdir()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        found = pool.map(complaints_of, TARGETS, [briefs] * len(TARGETS), folders)
    assert [line for lines in found for line in lines] == []


def test_a_file_is_written_for_the_card_it_will_run_on_not_for_another_target() -> None:
    spec = parse_problem(str(problem_file("gemm/linear_gelu_tanh")))
    brief = full_size_brief(spec)

    def answer(target: str, card: CardFacts | None = None) -> str:
        view = ProblemView(
            digest=spec.digest,
            name=spec.name,
            spec=spec.to_json(),
            source=brief.source,
            fingerprint=fingerprint(brief.graphs[0]),
            graphs=tuple(graph.to_json() for graph in brief.graphs),
            device="a card",
            card=card,
        )
        seen = Observation(problem=view, rules=Rules(target=target), turn=0, seed=0, budget=BudgetLeft())
        (made,) = asyncio.run(Builtin().propose(seen))
        return made.text

    a100 = CardFacts(compute_capability="8.0", multiprocessors=108)
    h200 = CardFacts(compute_capability="9.0", multiprocessors=132)
    assert answer("cuda:90", a100) == answer("cuda:80", a100) == answer("cuda:80")
    assert answer("cuda:80", h200) == answer("cuda:90", h200) == answer("cuda:90")
    assert answer("cuda:80") != answer("cuda:90")
