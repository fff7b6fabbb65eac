"""Predicts the memory of one call of the reference on fake tensors, before anything is allocated.

Counts the allocations of torch's operators until they are freed, and the copies of tensors that cuDNN makes for
convolutions. Not covered: other workspaces of libraries, fragmentation, and the context of the process.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.multiprocessing.reductions import StorageWeakRef

from triton_agent.tools.dispatch_modes import UncompiledMode
from triton_agent.tools.reference.footprint import fake_model
from triton_agent.tools.reference.input_tensors import map_tensors, tensors_in
from triton_agent.tools.reference.reference import Reference


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PeakMemory:
    """Memory of one call, in bytes."""

    input_bytes: int
    parameter_bytes: int
    peak_bytes: int
    """Largest number of bytes alive at one time, including inputs and parameters."""


class _LiveBytes(UncompiledMode):  # type: ignore[no-untyped-call]
    """Records the largest number of bytes of storage alive at one time."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._alive: dict[int, tuple[StorageWeakRef, int]] = {}
        self.peak = 0

    def see(self, tensor: torch.Tensor) -> None:
        if tensor.layout is not torch.strided:
            return
        storage = tensor.untyped_storage()
        self._alive[storage._cdata] = (StorageWeakRef(storage), storage.nbytes())  # type: ignore[no-untyped-call]

    def settle(self, more_bytes: int = 0) -> None:
        self._alive = {key: item for key, item in self._alive.items() if not item[0].expired()}  # type: ignore[no-untyped-call]
        self.peak = max(self.peak, sum(size for _, size in self._alive.values()) + more_bytes)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in tensors_in(result):
            self.see(tensor)
        self.settle(_copied_bytes(*args, result) if func is torch.ops.aten.convolution.default else 0)
        return result


def _copied_bytes(given: torch.Tensor, weight: torch.Tensor, *settings: Any) -> int:
    """Return the memory of cuDNN's copies in another layout: of the input, and in some convolutions of the output.

    Measured on an H200, for float32 and half precision. Depthwise and pixelwise convolutions make none.
    """
    _, _, _, _, is_transposed, _, groups, result = settings
    if groups > 1 or all(size == 1 for size in weight.shape[2:]):
        return 0
    return int(given.nbytes + (result.nbytes if is_transposed or given.dim() == 5 else 0))


def predicted_peak(reference: Reference, seed: int = 0) -> PeakMemory:
    """Call the reference on fake tensors. Raise `ProblemError` if it does not run on them."""
    live = _LiveBytes()
    with torch.no_grad(), FakeTensorMode(allow_non_fake_inputs=True) as fake:
        made = reference.make_inputs(seed)
    model = fake_model(lambda: reference.make_model(seed), fake)
    with torch.no_grad(), fake:
        inputs = [map_tensors(value, lambda tensor: _faked(tensor, fake)) for value in made]
        given = list(tensors_in(inputs))
        kept = [*model.parameters(), *model.buffers()]
        for tensor in (*given, *kept):
            live.see(tensor)
        live.settle()
        with live:
            outputs = reference.call(model, inputs)
        del outputs
    return PeakMemory(
        input_bytes=sum(tensor.nbytes for tensor in given),
        parameter_bytes=sum(tensor.nbytes for tensor in kept),
        peak_bytes=live.peak,
    )


def _faked(tensor: torch.Tensor, fake: FakeTensorMode) -> torch.Tensor:
    is_fake = isinstance(tensor, torch._subclasses.fake_tensor.FakeTensor)
    return tensor if is_fake else fake.from_tensor(tensor)
