"""Graphs of one model at several sizes become one graph, although torch runs other operators at some of them."""

from __future__ import annotations

import torch
from torch import nn

from triton_agent.policy.author.ir.alignment import align
from triton_agent.tools.graph.recorder import extract


class Heads(nn.Module):
    """Shares each of two heads among four queries, as grouped-query attention does."""

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
