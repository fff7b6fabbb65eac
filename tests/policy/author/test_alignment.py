"""Graphs of one model at several sizes become one graph, although torch runs other operators at some of them."""

from __future__ import annotations

import torch
from torch import nn

from triton_agent.policy.author.ir.alignment import align
from triton_agent.tools.graph.recorder import extract


class Heads(nn.Module):
    """Repeats each of two key heads for four queries, as grouped-query attention does."""

    def forward(self, x: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
        batch, length, heads, width = x.shape
        keys = x[:, :, :, None].expand(batch, length, heads, 4, width).reshape(batch, length, 4 * heads, width)
        return q.transpose(1, 2) @ keys.permute(0, 2, 3, 1)


def test_a_reshape_is_one_whether_torch_copies_for_it_or_not() -> None:
    graphs = [extract(Heads(), [torch.randn(batch, 5, 2, 8), torch.randn(batch, 5, 8, 8)]) for batch in (2, 1, 3)]
    assert len({len(graph.nodes) for graph in graphs}) == 2, "torch ran the same operators: the test tests nothing"
    for order in (graphs, [graphs[1], graphs[0], graphs[2]]):
        aligned = align(order)
        assert aligned.left_out == 0
        assert aligned.shape_of("x0")[0] == tuple(graph.sources()["x0"].shape[0] for graph in order)


class Positions(nn.Module):
    """Adds the last rows of a table; if the input is as long as the table, torch runs no slice."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(9, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 + self.table[9 - x.shape[0] :]


def test_a_slice_that_takes_everything_at_the_first_size_is_put_back() -> None:
    graphs = [extract(Positions(), [torch.randn(rows, 4)]) for rows in (9, 5, 7)]
    assert [len(graph.nodes) for graph in graphs] == [2, 3, 3]
    aligned = align(graphs)
    assert aligned.left_out == 0
    sliced = next(node for node in aligned.nodes if node.operator == "aten.slice")
    assert sliced.shapes[0] == ((9, 5, 7), (4, 4, 4))
    assert sliced.arguments["start"].values == (0, 4, 2)
