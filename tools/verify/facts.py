"""What is known of an original once it has run: its operator graphs, floors, and what its modules hold.

For authors and for memory. Nothing of this decides about a candidate.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from triton_agent.tools.errors import ProblemError
from triton_agent.tools.floor import floor_of
from triton_agent.tools.graph import extract
from triton_agent.tools.graph_call import structure_of
from triton_agent.tools.module_attributes import numbers_of, tensors_of
from triton_agent.tools.problem import ProblemSpec
from triton_agent.tools.verify.index_bounds import refusing_on_gpu
from triton_agent.tools.verify.input_tensors import own_copy, with_leading
from triton_agent.tools.verify.reference import Reference, load

TELLING_BATCHES = (2, 3)
"""Leading sizes that tell dimensions apart which the sizes as given may have alike. Equal to none that is usual."""
NOT_ALONE = 2
"""A leading size for the smallest variant, which often has one of 1: there torch runs other operators, and what that
variant tells of the other sizes would be lost."""


class Call:
    """What the original does with inputs of one variant."""

    def __init__(self, original: torch.nn.Module, inputs: list[Any], *, train: bool) -> None:
        """Runs it, also in training mode where that is checked. Model and inputs are as before afterwards."""
        self.original, self.inputs = original, inputs
        before = original.training
        try:
            self.graph = extract(original.train(False), inputs)
            self.train_graph = extract(original.train(True), inputs) if train else None
        finally:
            original.train(before)

    @property
    def differs_in_training(self) -> bool:
        """Whether it runs other operators there, as far as that was asked."""
        return self.train_graph is not None and self.train_graph.signature() != self.graph.signature()


def calls_of(
    originals: Sequence[tuple[torch.nn.Module, Reference]], inputs: Sequence[list[Any]], *, train: bool
) -> list[Call]:
    """One at each variant, the main one first. Where that is the same in training mode, others are not asked."""
    calls: list[Call] = []
    for (original, reference), args in zip(originals, inputs):
        with reference.running("forward"):
            calls.append(Call(original, args, train=calls[0].differs_in_training if calls else train))
    return calls


def at_other_batches(
    spec: ProblemSpec, constants: Mapping[str, int], call: Call, batches: Sequence[int], *, train: bool
) -> list[Call]:
    """The same original on few of its inputs at a time, where it runs on them."""
    calls = []
    with contextlib.suppress(ProblemError):
        reference = load(spec, constants)
        for batch in batches:
            with contextlib.suppress(ProblemError):
                inputs = own_copy(with_leading(lambda _: call.inputs, 0, batch))
                with reference.running("forward"), refusing_on_gpu(inputs):
                    calls.append(Call(call.original, inputs, train=train))
    return calls


def facts_of(calls: Sequence[Call], *, smallest: int) -> dict[str, Any]:
    """Of an original at the main sizes, which come first, and at others; `smallest` is where traffic is counted."""
    main = calls[0].graph
    floor, floor_main = floor_of(calls[smallest].graph), floor_of(main)
    return {
        "fingerprint": main.fingerprint(),
        "signature": main.signature(),
        "graphs": [call.graph.to_json() for call in calls],
        "train_graphs": _train_graphs(calls),
        "numbers": [numbers_of(call.original) for call in calls],
        "tensors": [dataclasses.asdict(held) for held in tensors_of(calls[0].original)],
        "input_structure": structure_of(calls[0].inputs),
        "floor_bytes": floor.bytes_moved,
        "floor_flops": floor.flops,
        "floor_bytes_main": floor_main.bytes_moved,
        "floor_flops_main": floor_main.flops,
    }


NOTHING: dict[str, Any] = {
    "fingerprint": "",
    "signature": "",
    "graphs": [],
    "train_graphs": [],
    "numbers": [],
    "tensors": [],
    "input_structure": "",
    "floor_bytes": 0,
    "floor_flops": 0,
    "floor_bytes_main": 0,
    "floor_flops_main": 0,
}
"""The same for a problem that has only a verifier."""


def _train_graphs(calls: Sequence[Call]) -> list[Any]:
    """What calls in training mode run, where that is checked and differs."""
    trained = [call.train_graph for call in calls if call.train_graph is not None]
    return [graph.to_json() for graph in trained] if calls[0].differs_in_training else []
