"""Attention at real sizes: the scores of long sequences are never written to memory."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from tests.policy.author.briefs import full_size_brief

from triton_agent.policy.author.decisions import first_choice
from triton_agent.policy.author.writer import drafts_of
from triton_agent.tools.problem.problem import parse_problem

FOLDER = Path(__file__).parents[3] / "benchmarks/problems/large/attention"


@pytest.mark.parametrize("library", [False, True])
@pytest.mark.parametrize("name", ["long_causal_attention", "grouped_query_attention"])
def test_scores_of_long_attention_are_not_stored(name: str, library: bool) -> None:
    """They would be hundreds of gigabytes, and every candidate would end as out of memory."""
    brief = dataclasses.replace(full_size_brief(parse_problem(str(FOLDER / f"{name}.py"))), allow_library=library)
    for draft in drafts_of(brief, first_choice(brief)):
        program = draft.program
        largest_input = max(value.elements() for value in program.values.values() if value.operation == "source")
        stored = {root.value: program.values[root.value] for kernel in draft.kernels for root in kernel.kernel.roots}
        assert all(value.elements() <= largest_input for value in stored.values())
