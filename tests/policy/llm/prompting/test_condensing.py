"""Condensed files keep the bodies of their kernels, or at least the signatures."""

from __future__ import annotations

from tests.policy.llm.prompting.shown import example

from triton_agent.policy.llm.prompting.condensing import kernels_only, signatures_only

AUTOTUNED = '''"""Two kernels."""
import triton


def configurations():
    return []


@triton.autotune(
    configs=[
        triton.Config({"BLOCK": 64}),
    ],
    key=["n"],
)
@triton.jit
def first(
    x_ptr,
    n,  # elements: all of them
    BLOCK: tl.constexpr,
):
    # nothing yet

    tl.store(x_ptr, 0)


# a comment of what follows
@functools.cache
def plain():
    return 1


@triton.jit
def second(x_ptr): tl.store(x_ptr, 1)


class ModelNew(nn.Module):
    @torch.no_grad()
    def forward(self, x):
        return x
'''


def test_only_kernels_are_kept_with_their_decorators() -> None:
    short = kernels_only(AUTOTUNED)
    assert short.count("@triton.jit") == 2
    assert "configs=[" in short
    assert "tl.store(x_ptr, 0)" in short
    assert not any(word in short for word in ("ModelNew", "plain", "configurations", "a comment"))
    assert short.startswith("# [... 4 lines left out ...]\n@triton.autotune(")
    assert short.endswith("# [... 4 lines left out ...]")


def test_signatures_are_heads_without_bodies() -> None:
    short = signatures_only(AUTOTUNED)
    assert "n,  # elements: all of them" in short
    assert "tl.store(x_ptr, 0)" not in short
    assert short.count("    ...") == 2


def test_each_form_of_a_real_file_is_shorter_than_the_one_before() -> None:
    whole = example("softmax_online.py")
    assert len(signatures_only(whole)) < len(kernels_only(whole)) < len(whole)
    assert "def softmax_kernel(x_ptr, y_ptr, columns, BLOCK: tl.constexpr):" in signatures_only(whole)


def test_a_text_without_kernels_has_no_short_form() -> None:
    for text in ("", "no Python, (at all", "@triton.jit", "@triton.jit\n@", "class ModelNew: pass", "def f(:\n\n\n"):
        assert kernels_only(text) == signatures_only(text) == ""
