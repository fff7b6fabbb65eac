"""Facts about a reference that has run: its operator graphs, its floor, and the values its modules hold.

Authors and the store use them. No verdict depends on them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from triton_agent.tools.errors import ProblemError
from triton_agent.tools.graph.call import structure_of
from triton_agent.tools.graph.fingerprint import fingerprint, signature
from triton_agent.tools.graph.floor import floor_of
from triton_agent.tools.graph.module_attributes import numbers_given, numbers_of, tensors_of
from triton_agent.tools.graph.recorder import extract
from triton_agent.tools.problem.problem import ProblemSpec
from triton_agent.tools.reference.index_bounds import refusing_on_gpu
from triton_agent.tools.reference.input_tensors import (
    apart,
    leading_size,
    lies_in_order,
    own_copy,
    tensors_in,
    with_leading,
)
from triton_agent.tools.reference.reference import Reference, load

TELLING_BATCHES = (2, 3)
"""Leading sizes of additional graphs. They differ from usual sizes, so they distinguish dimensions that are
equal at the given sizes."""
NOT_ALONE = 2
"""Leading size to add if the smallest variant has a leading size of 1. torch runs other operators at size 1, so the
graph of that variant would say nothing about other sizes."""


class ReferenceCall:
    """The operator graph of one call of the reference, in evaluation mode and, if asked for, in training mode."""

    def __init__(self, original: torch.nn.Module, inputs: list[Any], *, train: bool) -> None:
        """Run the call. Model and inputs are unchanged afterwards.

        Authors get graphs of inputs that share no memory: candidates are judged with such inputs, too, whatever the
        problem's own ones share. What has to be read at least is counted for the inputs as given.
        """
        self.original, self.inputs = original, inputs
        before, told = original.training, apart(inputs)
        try:
            self.graph = extract(original.train(False), told)
            self.train_graph = extract(original.train(True), told) if train else None
            self.as_given = self.graph if told is inputs else extract(original.train(False), inputs)
        finally:
            original.train(before)

    @property
    def differs_in_training(self) -> bool:
        """True if training mode was requested and runs other operators."""
        return self.train_graph is not None and signature(self.train_graph) != signature(self.graph)


def calls_of(
    originals: Sequence[tuple[torch.nn.Module, Reference]], inputs: Sequence[list[Any]], *, train: bool
) -> list[ReferenceCall]:
    """Call each variant once, the main one first. If it runs the same in training mode, skip that for the others."""
    calls: list[ReferenceCall] = []
    for (original, reference), args in zip(originals, inputs):
        with reference.running("forward"):
            calls.append(ReferenceCall(original, args, train=calls[0].differs_in_training if calls else train))
    return calls


def at_other_batches(
    spec: ProblemSpec, constants: Mapping[str, int], call: ReferenceCall, batches: Sequence[int], *, train: bool
) -> list[ReferenceCall]:
    """Call the same reference with inputs cut to these leading sizes; skip the sizes at which it does not run.

    How further rows would lie beside a single one is not always known; then there are no such calls.
    """
    calls: list[ReferenceCall] = []
    if leading_size(call.inputs) == 1 and not all(map(lies_in_order, tensors_in(call.inputs))):
        return calls
    with contextlib.suppress(ProblemError):
        reference = load(spec, constants)
        for batch in batches:
            with contextlib.suppress(ProblemError):
                inputs = own_copy(with_leading(lambda _: call.inputs, 0, batch=batch))
                with reference.running("forward"), refusing_on_gpu(inputs):
                    calls.append(ReferenceCall(call.original, inputs, train=train))
    return calls


def facts_of(calls: Sequence[ReferenceCall], *, smallest: int) -> dict[str, Any]:
    """Return the facts. `calls[0]` has the main sizes; `smallest` is the index of the call where traffic is counted."""
    main = calls[0].graph
    trained = [call.train_graph for call in calls if call.train_graph is not None]
    floor, floor_main = floor_of(calls[smallest].as_given), floor_of(calls[0].as_given)
    return {
        "fingerprint": fingerprint(main),
        "signature": signature(main),
        "graphs": tuple(call.graph.to_json() for call in calls),
        "train_graphs": tuple(graph.to_json() for graph in trained) if calls[0].differs_in_training else (),
        "numbers": tuple(numbers_of(call.original) | numbers_given(call.inputs) for call in calls),
        "tensors": tensors_of(calls[0].original),
        "input_structure": structure_of(calls[0].inputs),
        "floor_bytes": floor.bytes_moved,
        "floor_flops": floor.flops,
        "floor_bytes_main": floor_main.bytes_moved,
        "floor_flops_main": floor_main.flops,
    }


NOTHING: dict[str, Any] = {
    **dict.fromkeys(("fingerprint", "signature", "input_structure"), ""),
    **dict.fromkeys(("graphs", "train_graphs", "numbers", "tensors"), ()),
    **dict.fromkeys(("floor_bytes", "floor_flops", "floor_bytes_main", "floor_flops_main"), 0),
}
"""The facts about a problem that has only a verifier."""
