"""Tapes written by hand.

writing = Writing()
x = writing.input(torch.zeros(4))
y = writing.operate("aten.add.Tensor", x, 1)
tape = writing.tape(y)
"""

from __future__ import annotations

from typing import Any

import torch

from triton_agent.tools.processes.tensors import DTYPES, NAMES
from triton_agent.tools.tape.tape import (
    Allocate,
    Argument,
    Buffer,
    Choice,
    Launch,
    Operate,
    Place,
    Step,
    Tape,
    View,
)


class Writing:
    """A tape under construction."""

    def __init__(self) -> None:
        self.buffers: list[Buffer] = []
        self.inputs: list[View] = []
        self.arguments: list[View] = []
        self.state: list[tuple[str, View]] = []
        self.prologue: list[Step] = []
        self.steps: list[Step] = []
        self.rebound: list[tuple[str, View]] = []

    def input(self, tensor: torch.Tensor) -> View:
        """Add an argument of the call with the shape and strides of this tensor."""
        self.inputs.append(self._outside(tensor, Place.INPUT))
        return self.inputs[-1]

    def argument(self, tensor: torch.Tensor) -> View:
        """Add an argument of the constructor."""
        self.arguments.append(self._outside(tensor, Place.ARGUMENT))
        return self.arguments[-1]

    def parameter(self, name: str, tensor: torch.Tensor) -> View:
        """Add a parameter or buffer of the reference."""
        self.state.append((name, self._outside(tensor, Place.STATE)))
        return self.state[-1][1]

    def fresh(self, *shape: int, dtype: str = "float32") -> View:
        """Add the memory that a later step allocates."""
        return self._view(shape, dtype, Place.FRESH)

    def allocate(self, *shape: int, dtype: str = "float32", prepared: bool = False) -> View:
        view = self.fresh(*shape, dtype=dtype)
        self._at(prepared).append(Allocate(buffer=view.buffer))
        return view

    def operate(
        self,
        operator: str,
        *args: Argument,
        result: View | None = None,
        shape: tuple[int, ...] | None = None,
        dtype: str = "",
        prepared: bool = False,
        **kwargs: Argument,
    ) -> View:
        """Add an operator. By default its result has the form of its first tensor."""
        like = next((value for value in args if isinstance(value, View)), None)
        if result is None:
            size = shape if shape is not None else like.shape if like else ()
            result = self.fresh(*size, dtype=dtype or (like.dtype if like else "float32"))
        step = Operate(operator=operator, args=args, kwargs=tuple(kwargs.items()), results=(result,))
        self._at(prepared).append(step)
        return result

    def launch(self, kernel: str, *, prepared: bool = False, options: Any = (), **arguments: Argument) -> None:
        """Add a launch in one configuration."""
        self.choose(
            Choice(kernel=kernel, grid=(1, 1, 1), arguments=tuple(arguments.items()), options=options), prepared
        )

    def choose(self, *choices: Any) -> None:
        """Add a launch with several configurations. A True among them puts it into the prologue."""
        steps = self._at(True in choices)
        steps.append(Launch(choices=tuple(item for item in choices if isinstance(item, Choice)), line=7))

    def tape(self, *outputs: View) -> Tape:
        return Tape(
            buffers=tuple(self.buffers),
            inputs=tuple(self.inputs),
            arguments=tuple(self.arguments),
            state=tuple(self.state),
            prologue=tuple(self.prologue),
            steps=tuple(self.steps),
            tree={"tuple": [{"tensor": number} for number in range(len(outputs))]},
            outputs=outputs,
            rebound=tuple(self.rebound),
        )

    def _at(self, prepared: bool) -> list[Step]:
        return self.prologue if prepared else self.steps

    def _outside(self, tensor: torch.Tensor, place: Place) -> View:
        self.buffers.append(Buffer(place=place, size_bytes=tensor.untyped_storage().nbytes()))
        return View(
            buffer=len(self.buffers) - 1,
            dtype=NAMES[tensor.dtype],
            shape=tuple(tensor.shape),
            strides=tuple(tensor.stride()),
            offset=int(tensor.storage_offset()),
        )

    def _view(self, shape: tuple[int, ...], dtype: str, place: Place) -> View:
        like = torch.empty(shape, device="meta")
        self.buffers.append(Buffer(place=place, size_bytes=like.numel() * DTYPES[dtype].itemsize))
        return View(buffer=len(self.buffers) - 1, dtype=dtype, shape=shape, strides=like.stride(), offset=0)
