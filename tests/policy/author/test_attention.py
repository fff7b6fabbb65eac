"""Attention at real sizes: the scores of long sequences are never written to memory."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
from tests.policy.author.briefs import brief_of, full_size_brief, problem
from tests.policy.author.test_author import check_passes

from triton_agent.policy.author.brief import Brief
from triton_agent.policy.author.choice import Choice, Tiles
from triton_agent.policy.author.decisions import Feedback, first_choice, neighbours
from triton_agent.policy.author.writer import drafts_of, write
from triton_agent.tools.problem.problem import parse_problem
from triton_agent.tools.processes.zygotes import Nursery

FOLDER = Path(__file__).parents[3] / "benchmarks/problems/large/attention"


def model(forward: str, inputs: str) -> str:
    return f"""
class Model(nn.Module):
    def forward(self, {forward}

def get_inputs():
    return {inputs}


def get_init_inputs():
    return []
"""


HEADS = "[torch.randn(2, 2, 37, 40), torch.randn(2, 2, 50, 40), torch.randn(2, 2, 50, 24)]"
KINDS = {
    "other lengths, other widths": model(
        """query, key, value):
        return F.scaled_dot_product_attention(query, key, value)
""",
        HEADS,
    ),
    "causal, with what follows": model(
        """query, key, value, gate):
        seen = F.scaled_dot_product_attention(query, key, value, is_causal=True, scale=0.3)
        return seen.transpose(1, 2).flatten(2) * torch.sigmoid(gate)
""",
        "[*(torch.randn(2, 3, 41, 16) for _ in range(3)), torch.randn(2, 41, 48)]",
    ),
    "written out, with a bias for each head": model(
        """query, key, value, slope):
        back = torch.arange(20)[:, None] - torch.arange(20)
        scores = query @ key.transpose(-2, -1) * 0.25 - slope * back
        return torch.softmax(scores.masked_fill(back < 0, float("-inf")), -1) @ value
""",
        "[*(torch.randn(2, 4, 20, 16) for _ in range(3)), torch.rand(4, 1, 1)]",
    ),
    "a row that sees no key": model(
        """query, key, value, seen):
        return F.scaled_dot_product_attention(query, key, value, attn_mask=seen)
""",
        "[*(torch.randn(2, 1, 18, 16) for _ in range(3)), torch.arange(18)[:, None] > torch.arange(18)]",
    ),
    "shared keys in half precision": model(
        """query, key, value):
        key, value = (shared.repeat_interleave(2, 1) for shared in (key, value))
        return F.scaled_dot_product_attention(query, key, value, is_causal=True)
""",
        "[torch.randn(1, 4, 33, 32).half(), *(torch.randn(1, 2, 33, 32).half() for _ in range(2))]",
    ),
    "a window": model(
        """query, key, value):
        back = torch.arange(70)[:, None] - torch.arange(70)
        seen = (back >= 0) & (back < 9)
        return F.scaled_dot_product_attention(query, key, value, attn_mask=seen)
""",
        "[torch.randn(1, 2, 70, 16) for _ in range(3)]",
    ),
    "capped scores of half precision": model(
        """query, key, value):
        scores = 20.0 * torch.tanh(query @ key.transpose(-2, -1) * 0.25 / 20.0)
        hidden = torch.arange(40)[:, None] < torch.arange(40)
        shares = torch.softmax(scores.masked_fill(hidden, float("-inf")).float(), -1)
        return shares.to(value.dtype) @ value
""",
        "[4 * torch.randn(2, 3, 40, 16).half(), *(torch.randn(2, 1, 40, 16).half() for _ in range(2))]",
    ),
    "scores that are given": model(
        """scores, value):
        return torch.softmax(scores, -1) @ value
""",
        "[torch.randn(3, 19, 45), torch.randn(3, 45, 24)]",
    ),
}


def kernels_of(folder: Path, text: str, choice: Choice | None = None) -> list[str]:
    brief = brief_of(problem(folder, text))
    return [kernel.kernel.kind for one in drafts_of(brief, choice or first_choice(brief)) for kernel in one.kernels]


@pytest.mark.parametrize("kind", KINDS)
def test_a_softmax_and_the_product_of_its_shares_are_one_kernel(kind: str, tmp_path: Path) -> None:
    assert kernels_of(tmp_path, KINDS[kind]) == ["attention"]


@pytest.mark.parametrize("kind", KINDS)
def test_attention_passes(kind: str, tmp_path: Path, nursery: Nursery) -> None:
    check_passes(tmp_path, nursery, KINDS[kind])


def described(brief: Brief) -> Choice:
    """Return a choice of small tiles of keys and values that descriptors load, if they can."""
    choice = first_choice(brief)
    for draft in drafts_of(brief, choice):
        for kernel in draft.kernels:
            tiles = Tiles(rows=16, inner=16, warps=4, stages=2, described=True)
            choice = choice.with_tiles(kernel.key, tiles)
    return choice


def test_keys_and_values_by_descriptors_are_right(tmp_path: Path, nursery: Nursery) -> None:
    """Heads share keys, so their rows begin elsewhere than those of the queries; 33 keys are no whole blocks."""
    answer = check_passes(tmp_path, nursery, KINDS["shared keys in half precision"], described)
    assert re.search(r"= k\w*_matrix\.load\(\[first_key \+ start, 0\]\)\.T\n", answer.source)
    assert "matrix.load([first_value + start, 0])\n" in answer.source and "processors_of" not in answer.source


@pytest.mark.parametrize("kind", ["causal, with what follows", "written out, with a bias for each head", "a window"])
def test_other_keys_are_loaded_by_pointers(kind: str, tmp_path: Path) -> None:
    text = KINDS[kind].replace("torch.randn(1, 2, 70, 16)", "torch.randn(1, 2, 70, 16).half()")
    brief = brief_of(problem(tmp_path, text))
    assert "matrix" not in write(brief, described(brief)).source


def test_a_large_head_of_half_precision_is_described_on_a_gpu_that_can(tmp_path: Path) -> None:
    brief = full_size_brief(parse_problem(str(FOLDER / "long_causal_attention.py")))
    for target, loads in (("cuda:90", 2), ("cuda:80", 0)):
        source = write(dataclasses.replace(brief, allow_library=False, target=target), Choice()).source
        assert source.count("_matrix.load(") == loads


def test_shares_that_somebody_else_takes_are_stored(tmp_path: Path) -> None:
    forward = """query, key, value):
        shares = torch.softmax(query @ key.transpose(-2, -1), -1)
        return shares @ value, shares
"""
    assert "attention" not in kernels_of(tmp_path, model(forward, HEADS))


def test_heads_too_wide_for_one_tile_are_written_out(tmp_path: Path) -> None:
    forward = """query, key, value):
        return F.scaled_dot_product_attention(query, key, value)
"""
    kinds = kernels_of(tmp_path, model(forward, "[torch.randn(1, 1, 20, 400) for _ in range(3)]"))
    assert "attention" not in kinds and "product" in kinds


def test_after_a_failure_attention_is_written_out(tmp_path: Path) -> None:
    text = KINDS["other lengths, other widths"]
    brief = brief_of(problem(tmp_path, text))
    failure = Feedback(status="wrong_values", message="wrong")
    others = [choice for choice in neighbours(brief, first_choice(brief), failure) if not choice.online]
    assert others and "attention" not in kernels_of(tmp_path, text, others[0])


def test_blocks_that_a_mask_hides_are_left_out(tmp_path: Path) -> None:
    def source(kind: str) -> str:
        brief = dataclasses.replace(brief_of(problem(tmp_path, KINDS[kind])), target="cuda:90", device="cuda")
        return write(brief, first_choice(brief)).source

    causal, window, all_keys = source("causal, with what follows"), source("a window"), source("scores that are given")
    assert "end = tl.minimum(queries, (tile + 1) * BLOCK_M)" in causal
    assert causal.count("for start in range") == 2 and "range(0, whole, BLOCK_K)" in causal
    assert "range(tl.maximum(0, tile * BLOCK_M - 8)" in window
    assert "tl.minimum" not in all_keys


@pytest.mark.parametrize("library", [False, True])
@pytest.mark.parametrize("name", ["long_causal_attention", "grouped_query_attention"])
def test_scores_of_long_attention_are_not_stored(name: str, library: bool) -> None:
    """Stored scores would take hundreds of gigabytes, and every candidate would run out of memory."""
    brief = dataclasses.replace(full_size_brief(parse_problem(str(FOLDER / f"{name}.py"))), allow_library=library)
    for draft in drafts_of(brief, first_choice(brief)):
        program = draft.program
        largest_input = max(value.elements() for value in program.values.values() if value.operation == "source")
        stored = {root.value: program.values[root.value] for kernel in draft.kernels for root in kernel.kernel.roots}
        assert all(value.elements() <= largest_input for value in stored.values())
