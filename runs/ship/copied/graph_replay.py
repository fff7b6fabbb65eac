"""Calls of a shipped file as CUDA graphs, for files made with `--cuda-graph`.

The text from the line that `artefact.GRAPHS` names is copied into such files, in front of their model. A model's first
call with given parameters launches the kernels one by one, which compiles them; the second is recorded, and later ones
replay the record. Calls whose kernels change memory of the caller, or return it, are not recorded (`Plan.results`).
"""

from __future__ import annotations

import threading
from typing import Any
from weakref import WeakKeyDictionary

import torch

CALLS: dict[str, Any] = {}

# -- CUDA graphs -------------------------------------------------------------------------------------------------------

GRAPHS_AT_MOST = 16  # of a model, one for each plan, sizes and stream; other calls launch the kernels one by one
graphs: Any = WeakKeyDictionary()  # by the Watch of a model
replaying = threading.Lock()  # a graph has one place for the tensors of a call


class Replay:
    """A plan's kernels as a CUDA graph, with its own copies of a call's tensors and of the results."""

    def __init__(self, plan: Any, state: Any, tensors: Any) -> None:
        with torch.inference_mode(False), torch.no_grad():
            self.tensors = [tensor.clone() for tensor in tensors]
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph, capture_error_mode="thread_local"):
                made = plan(state, *self.tensors)
        self.kind = type(made)
        self.results = [made] if isinstance(made, torch.Tensor) else list(made)
        # memory that the graph reads, which a plan makes anew when parameters change
        self.prepared = [value.latest for value in globals().values() if hasattr(value, "latest")]
        copied = *zip(tensors, self.tensors), *((result, result.clone()) for result in self.results)
        self.is_exact = all(one.stride() == other.stride() for one, other in copied)

    def __call__(self, tensors: Any) -> Any:
        for own, given in zip(self.tensors, tensors):
            own.copy_(given)
        self.graph.replay()
        results = [result.clone() for result in self.results]
        return results[0] if self.kind is torch.Tensor else self.kind(results)


def _replayed(watch: Any, plan: Any, state: Any, tensors: Any) -> Any:
    """Make a call by its graph; by launching the kernels where there is none."""
    if not CALLS[plan.__name__][2] or torch.cuda.is_current_stream_capturing():
        return plan(state, *tensors)
    known = graphs.setdefault(watch, {})
    call = (plan, torch.cuda.current_stream().cuda_stream, *(tensor.shape for tensor in tensors))
    versions = [tensor._version for tensor in state.values()]  # of what plans prepare from parameters
    with replaying:
        seen, at, replay = known.get(call, (None, None, None))
        if seen is watch.found and at == versions and (replay is None or replay.is_exact):
            replay = replay or Replay(plan, state, tensors)
            known[call] = watch.found, versions, replay
            return replay(tensors) if replay.is_exact else plan(state, *tensors)
        if call in known or len(known) < GRAPHS_AT_MOST:
            known[call] = watch.found, versions, None
    return plan(state, *tensors)
