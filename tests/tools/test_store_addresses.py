"""Kernels reduced to where they store: what only computes values is gone, and what decides about addresses stays."""

from __future__ import annotations

import textwrap

import pytest

from triton_agent.tools.kernels.kernel import FunctionReference, JitFunction, KernelSet, Parameter
from triton_agent.tools.kernels.store_addresses import storing_zeros


def reduced(text: str, helper: str = "def helper(x):\n    return x\n") -> str | None:
    """Return the reduced text of a kernel, which may call a helper."""
    inner = JitFunction(name="helper", source=helper, parameters=(Parameter(name="x"),), globals=())
    kernel = JitFunction(
        name="kernel",
        source=textwrap.dedent(text),
        parameters=(),
        globals=(("helper", FunctionReference(identity=inner.identity)),),
    )
    found = storing_zeros(kernel, KernelSet(functions={it.identity: it for it in (kernel, inner)}))
    return None if found is None else found.source


def test_a_product_keeps_its_tile_and_loses_its_loop() -> None:
    text = """
    def kernel(a, b, c, M, N, K, BM: tl.constexpr):
        pid = tl.program_id(0)
        m = helper(pid) * BM + tl.arange(0, BM)
        total = tl.zeros((BM, BM), tl.float32)
        for k in range(0, K, BM):
            total += tl.dot(tl.load(a + m * K + k), tl.load(b + k * N))
        pointers = c + m * N
        pointers += 1
        tl.store(pointers, total.to(tl.float16), mask=m < M)
    """
    expected = """
    def kernel(a, b, c, M, N, K, BM: tl.constexpr):
        pid = tl.program_id(0)
        m = helper(pid) * BM + tl.arange(0, BM)
        pointers = c + m * N
        pointers += 1
        tl.store(pointers, 0, mask=m < M)
    """
    assert reduced(text) == textwrap.dedent(expected).lstrip()


def test_loops_conditions_and_returns_around_stores_stay() -> None:
    text = """
    def kernel(x, out, n, BLOCK: tl.constexpr, FLAG: tl.constexpr):
        first = tl.program_id(0)
        if first > n:
            return
        for tile in tl.range(first, n, tl.num_programs(0)):
            at = tile * BLOCK + tl.arange(0, BLOCK)
            value = tl.load(x + at)
            if FLAG:
                value = value * 2
            else:
                tl.store(out + at, value, mask=at < n)
    """
    expected = """
    def kernel(x, out, n, BLOCK: tl.constexpr, FLAG: tl.constexpr):
        first = tl.program_id(0)
        if first > n:
            return
        for tile in tl.range(first, n, tl.num_programs(0)):
            at = tile * BLOCK + tl.arange(0, BLOCK)
            if FLAG:
                pass
            else:
                tl.store(out + at, 0, mask=at < n)
    """
    assert reduced(text) == textwrap.dedent(expected).lstrip()


@pytest.mark.parametrize(
    "body",
    [
        "tl.store(out + tl.load(x), 1.0)",
        "at = tl.load(x)\n    tl.store(out + at, 1.0)",
        "tl.atomic_add(out, 1.0)",
        "x.store([0], 1.0)",
        "y = 1",
    ],
)
def test_what_loads_decide_or_other_operations_write_is_not_reduced(body: str) -> None:
    assert reduced(f"def kernel(x, out):\n    {body}\n") is None


def test_a_kernel_whose_helper_stores_is_not_reduced() -> None:
    text = "def kernel(out):\n    helper(out)\n    tl.store(out, 1.0)\n"
    assert reduced(text) is not None
    assert reduced(text, "def helper(x):\n    tl.store(x, 1.0)\n    return x\n") is None
