"""The techniques that a plan names."""

from __future__ import annotations

import pytest

from triton_agent.memory.techniques import LONGEST_OWN_WORDS, MOST, techniques_of


@pytest.mark.parametrize(
    ("plan", "techniques"),
    [
        ("Use split-K with atomics", ("split-k", "atomics")),
        ("Fuse the scale into ONE kernel", ("fusion",)),
        ("vectorized 128-bit loads", ("vectorised access",)),
        ("raise num_stages for pipelining", ("software pipelining",)),
        ("a persistent kernel; swizzle the tiles", ("persistent kernel", "grouped tile order")),
        ("increase the block size", ("larger blocks",)),
        ("Use tl.dot so that tensor cores do the work", ("tensor cores",)),
        ("", ()),
        (" \n", ()),
        ("7", ("#",)),
    ],
)
def test_known_techniques_are_named(plan: str, techniques: tuple[str, ...]) -> None:
    assert techniques_of(plan) == techniques


def test_plans_that_differ_in_figures_only_are_one() -> None:
    assert techniques_of("Wobble 64 times. Then see.") == techniques_of("wobble 128 times") == ("wobble # times",)


def test_what_is_kept_of_a_plan_is_bounded_and_printable() -> None:
    assert len(techniques_of("fuse vectorise persistent autotune unroll exp2 atomic recompute")) == MOST
    (own,) = techniques_of("b\x00 a\ud83d" + "c" * 10_000)
    assert own == ("b a" + "c" * 10_000)[:LONGEST_OWN_WORDS]
    assert techniques_of("word " * 1_000 + "split-k") == techniques_of("word " * 1_000)
