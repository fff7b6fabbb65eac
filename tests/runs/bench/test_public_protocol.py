"""A public benchmark's own check: it gives its own result, is sandboxed, and decides nothing here."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path

import pytest
from tests.runs.bench.test_journal import HEAD, row

from triton_agent.runs.bench.problems import of_clone
from triton_agent.runs.bench.public.figures import public_figures
from triton_agent.runs.bench.public.layouts import Benchmark
from triton_agent.runs.bench.public.protocol import public_protocol
from triton_agent.runs.bench.rows import PublicCheck, Sample, record_of
from triton_agent.tools.results import Status

HERE = Path(__file__).parent
KERNELS = HERE / "kernels"
BENT = (KERNELS / "level1" / "2_bent_line_0.py").read_text()


def checked(index: int, correct: bool, speedup: float | None = None, *, solved: bool = False) -> Sample:
    times = {"kernel_ms": 1.0, "original_ms": speedup} if speedup else {}
    return Sample(
        index=index,
        status=Status.PASSED if solved else Status.NOT_TRITON,
        called=True,
        executed=solved,
        public=PublicCheck(correct=correct, correct_at_first=True, **times),
    )


def test_counts_are_of_judged_problems_and_apart_from_verdicts() -> None:
    head = dataclasses.replace(HEAD, labels=("a/x", "a/y", "a/z"))
    rows = [
        row("a/x", samples=(checked(0, True, 3.0), checked(1, False, 9.0, solved=True))),
        row("a/y", samples=(checked(0, True, 1.1),)),
        row("a/z", unusable="no such file", samples=()),
    ]
    found = public_figures(record_of(head, rows))
    assert found is not None
    assert (found.of, found.correct, found.correct_at_first, found.only_there) == (2, 2, 2, 1)
    assert found.fast == {"fast_1": 2, "fast_1.2": 1, "fast_1.5": 1, "fast_2": 1}


def test_without_that_check_there_are_no_such_figures() -> None:
    assert public_figures(record_of(HEAD, [row("a/x")])) is None


@pytest.mark.slow
def test_it_accepts_what_is_near_refuses_what_is_not_and_survives_what_ends_it() -> None:
    clone = HERE.parent / "layouts" / "kernelbench"
    names = ("level1/2_bent_line", "level1/3_product_of_three")
    bent, product = (task.spec(Path()) for task in of_clone(clone, Benchmark.KERNELBENCH, [], names=names).tasks)
    library = (KERNELS / "level1" / "3_product_of_three.py").read_text()

    async def answers() -> list[PublicCheck]:
        with public_protocol("cpu") as protocol:
            asked = [(bent, BENT), (bent, BENT.replace("x * x * x, x)", "x * x * x + 0.003, x)"))]
            asked += [(bent, "import os\nos._exit(0)\n"), (bent, "def x(:"), (product, library)]
            return [await protocol.check(*one) for one in asked]

    right, near, gone, broken, torch_only = asyncio.run(answers())
    assert right == PublicCheck(correct=True, correct_at_first=True)
    assert (near.correct, near.correct_at_first) == (False, True)  # its first tolerance let more pass
    assert not gone.correct_at_first and "without an answer" in gone.why
    assert not broken.correct_at_first and "SyntaxError" in broken.why
    assert torch_only.correct  # no kernel at all: what our verdict calls not_triton
