"""Indices are refused exactly where torch refuses them on a CPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from triton_agent.tools.problem.problem import parse_problem
from triton_agent.tools.reference import facts
from triton_agent.tools.reference.index_bounds import RefusingWildIndices
from triton_agent.tools.reference.reference import load
from triton_agent.tools.truth import expectation, truth


def index(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int64)


TABLE = torch.arange(12.0).reshape(4, 3)

RIGHT: dict[str, Callable[[], Any]] = {
    "embedding": lambda: F.embedding(index(0, 3), TABLE),
    "embedding bag": lambda: F.embedding_bag(index(0, 3), TABLE, index(0, 1)),
    "gather": lambda: TABLE.gather(1, index(0, 2, 1).reshape(3, 1)),
    "index_select": lambda: TABLE.index_select(-1, index(2, 0)),
    "subscript": lambda: TABLE[index(-4, 3), index(2, -3)],
    "subscript of a later dimension": lambda: TABLE[:, index(2, -3)],
    "mask": lambda: TABLE[TABLE > 3],
    "mask over both dimensions, and an index": lambda: TABLE[None][:, TABLE > 3][:, index(7)],
    "scatter": lambda: torch.zeros(4, 3).scatter(0, index(3, 0).reshape(1, 2), 1.0),
    "index_add": lambda: torch.zeros(4, 3).index_add(0, index(3, 0), TABLE[:2]),
    "index_fill from the end": lambda: TABLE.index_fill(0, index(-4, 3), 0.0),
    "take": lambda: TABLE.take(index(-12, 11)),
    "padding of a loss": lambda: F.cross_entropy(TABLE, index(0, -100, 2, 1)),
    "padding of another value": lambda: F.cross_entropy(TABLE, index(0, 77, 2, 1), ignore_index=77),
    "loss of images": lambda: F.nll_loss(TABLE.reshape(1, 3, 2, 2), torch.full((1, 2, 2), 2)),
    "nothing at all": lambda: F.embedding(index(), TABLE),
}

WRONG: dict[str, Callable[[], Any]] = {
    "embedding": lambda: F.embedding(index(0, 4), TABLE),
    "embedding counted from the end": lambda: F.embedding(index(-1), TABLE),
    "embedding bag": lambda: F.embedding_bag(index(0, 4), TABLE, index(0, 1)),
    "gather": lambda: TABLE.gather(1, index(0, 3, 1).reshape(3, 1)),
    "index_select": lambda: TABLE.index_select(1, index(3)),
    "subscript": lambda: TABLE[index(0), index(3)],
    "subscript of a later dimension": lambda: TABLE[:, index(-4)],
    "scatter": lambda: torch.zeros(4, 3).scatter(0, index(4, 0).reshape(1, 2), 1.0),
    "index_add": lambda: torch.zeros(4, 3).index_add(0, index(4, 0), TABLE[:2]),
    "index_fill": lambda: TABLE.index_fill(0, index(-5), 0.0),
    "take": lambda: TABLE.take(index(12)),
    "class of a loss": lambda: F.cross_entropy(TABLE, index(0, 3, 2, 1)),
    "padding of another value": lambda: F.cross_entropy(TABLE, index(0, -101, 2, 1)),
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_torch_takes_is_not_refused(name: str) -> None:
    expected = RIGHT[name]()
    with RefusingWildIndices():
        given = RIGHT[name]()
    assert torch.equal(given, expected)


@pytest.mark.parametrize("name", WRONG)
def test_what_torch_refuses_is_refused_before_it_runs(name: str) -> None:
    with pytest.raises((IndexError, RuntimeError)):
        WRONG[name]()
    with RefusingWildIndices(), pytest.raises(IndexError, match="are allowed"):
        WRONG[name]()


def test_bags_that_end_before_they_begin_are_refused() -> None:
    """On a CPU torch treats such bags as empty; on a GPU an assertion fails."""
    with RefusingWildIndices():
        F.embedding_bag(index(0, 3), TABLE, index(0, 1, 1))
        with pytest.raises(IndexError, match="ascend"):
            F.embedding_bag(index(0, 3, 2), TABLE, index(0, 2, 1))


class _Bucketed(torch.nn.Module):
    """Looks up a row by the size of a number, in a table that only covers numbers up to about 1."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return TABLE[(x * 3).long()]


def test_inputs_that_point_past_a_table_are_an_original_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mode is on, as on a GPU, where an index out of bounds would make CUDA unusable in the process."""
    monkeypatch.setattr(expectation, "refusing_on_gpu", lambda _: RefusingWildIndices())
    assert expectation.expect(_Bucketed(), [torch.tensor([0.1, 1.0])]).lifted
    with pytest.raises(expectation.OriginalFailed, match="WildIndex"):
        expectation.expect(_Bucketed(), [torch.tensor([0.1, 100.0])])


def test_a_rounding_that_points_past_a_table_is_no_truth(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(truth, "refusing_on_gpu", lambda _: RefusingWildIndices())
    assert truth.run_lifted(_Bucketed(), [torch.tensor([1.0])]) is not None
    assert truth.run_lifted(_Bucketed(), [torch.tensor([1.5])]) is None


ROWS_AND_WHICH = """
import torch
class Model(torch.nn.Module):
    def forward(self, rows, which):
        return rows[which] * 2
def get_inputs():
    return [torch.randn(12, 3), LIMIT - 1 - torch.arange(12) % LIMIT]
"""


@pytest.mark.parametrize("limit, runs", [(1, True), (12, False)])
def test_a_few_inputs_at_a_time_are_tried_with_care(
    limit: int, runs: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table cut to a few rows is too short for its indices; and the check leaves no trace in a graph."""
    (tmp_path / "problem.py").write_text(ROWS_AND_WHICH.replace("LIMIT", str(limit)))
    spec = parse_problem(str(tmp_path / "problem.py"))
    reference = load(spec)
    main = facts.ReferenceCall(reference.make_model(0), reference.make_inputs(0), train=False)
    plain = facts.at_other_batches(spec, {}, main, facts.TELLING_BATCHES, train=False)
    monkeypatch.setattr(facts, "refusing_on_gpu", lambda _: RefusingWildIndices())
    looked_at = facts.at_other_batches(spec, {}, main, facts.TELLING_BATCHES, train=False)
    assert [call.graph.to_json() for call in looked_at] == [call.graph.to_json() for call in plain]
    assert len(looked_at) == (len(facts.TELLING_BATCHES) if runs else 0)
