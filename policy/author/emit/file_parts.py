"""State shared by the methods of one file: the model's text, names of kernels, kernels written so far, constants.

Kernels that differ only in names are written once: the layers of a stack, the steps of a loop.
"""

from __future__ import annotations

import dataclasses
import itertools
import re

from triton_agent.policy.author.emit.arguments import Names
from triton_agent.policy.author.emit.constructor import ModelText
from triton_agent.policy.author.emit.kernel_text import KernelText
from triton_agent.policy.author.ir.torch_calls import BY_TAPS, IN_PARTS
from triton_agent.policy.author.tile.descriptors import HOST_FUNCTIONS

_ASSIGNED = re.compile(r"^\s*(\w+)(?: [-+*]?)?= |^\s*for (\w+) in ", re.MULTILINE)
_WORD = re.compile(r"(?<![\w.\"])[A-Za-z_]\w*")


def anonymous(kernel: KernelText) -> tuple[str, ...]:
    """Return a kernel's text with its own names numbered in order of appearance, for comparison."""
    arguments = kernel.arguments
    signature = [*arguments.matrices, *arguments.tensors, *arguments.sizes, *arguments.numbers, *kernel.blocks]
    text = "\n".join(kernel.lines)
    own = set(signature) | {name for pair in _ASSIGNED.findall(text) for name in pair if name}
    numbers: dict[str, str] = {}

    def numbered(match: re.Match[str]) -> str:
        word = match.group()
        return numbers.setdefault(word, f"name{len(numbers)}") if word in own else word

    body = _WORD.sub(numbered, text)
    order = tuple(numbers.get(name, name) for name in signature)
    counts = (
        len(arguments.matrices),
        len(arguments.tensors),
        len(arguments.sizes),
        len(arguments.numbers),
        len(kernel.blocks),
    )
    return (body, *order, *map(str, counts), *kernel.functions)


class WrittenKernels:
    """The kernels of a file so far."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, ...], KernelText] = {}

    def state(self) -> dict[tuple[str, ...], KernelText]:
        return dict(self._known)

    def back_to(self, state: dict[tuple[str, ...], KernelText]) -> None:
        """Restore an earlier state after an attempt failed."""
        self._known = dict(state)

    def once(self, kernel: KernelText) -> KernelText:
        """Return the kernel, or a further launch of an equal one; the blocks passed may differ."""
        first = self._known.setdefault(anonymous(kernel), kernel)
        if first is kernel:
            return kernel
        blocks = {name: kernel.blocks[own] for name, own in zip(first.blocks, kernel.blocks)}
        return dataclasses.replace(kernel, name=first.name, lines=first.lines, blocks=blocks, repeats=True)


class Constants:
    """Constant tensors of all methods, by the expression that makes each."""

    def __init__(self, source: str) -> None:
        """`source` is the reference's text, whose names are avoided."""
        self._source = source
        self.made: dict[str, str] = {}
        """Maps the expression of a tensor to the attribute that holds it."""

    def name_of(self, made: str) -> str:
        if made not in self.made:
            names = (f"constant{i or ''}" for i in itertools.count())
            self.made[made] = next(n for n in names if n not in self.made.values() and f".{n}" not in self._source)
        return self.made[made]

    def statements(self) -> list[str]:
        return [f"self.register_buffer({n!r}, {made}, persistent=False)" for made, n in self.made.items()]


LAID_OUT = "laid_out_weights"
_IF_STALE = (
    "    made_of = (weight.data_ptr(), weight._version, weight.device, weight.dtype)",
    f"    known = module.{LAID_OUT}.get(name)",
    "    if known is None or known[0] != made_of:",
)
"""Lines of a host function that look for what it made of a weight, and find out if the weight has changed since."""
LAYING_OUT = (
    f"def {BY_TAPS}(module, name, weight, tf32=False):",
    '    """Return a convolution\'s weight as [out, *taps, in], from a cache until the parameter changes."""',
    *_IF_STALE,
    "        made = weight.detach().permute(0, *range(2, weight.dim()), 1).contiguous()",
    "        if tf32:  # round to nearest: the matrix unit would truncate",
    "            nearest = ((made.view(torch.int32) + 4096) & -8192).view(torch.float32)",
    "            made = torch.where(made.abs() < 3e38, nearest, made)",
    f"        known = module.{LAID_OUT}[name] = (made_of, made)",
    "    return known[1]",
)
"""Host function for files whose convolutions read weights in another memory layout than torch's."""
TAKING_PARTS = (
    f"def {IN_PARTS}(module, name, weight):",
    '    """Return a weight rounded to TF32, and the rest of it, from a cache until the parameter changes."""',
    *_IF_STALE,
    "        own = weight.detach().contiguous()",
    "        nearest = ((own.view(torch.int32) + 4096) & -8192).view(torch.float32)",
    "        high = torch.where(own.abs() < 3e38, nearest, own)",
    f"        known = module.{LAID_OUT}[name] = (made_of, (high, own - high))",
    "    return known[1]",
)
"""Host function for files with float32 products that take their weights in two parts."""


IN_LAYOUT = "in_layout"
PUTTING_IN_LAYOUT = (
    f"def {IN_LAYOUT}(tensor, strides):",
    '    """Return the tensor if it has these strides, else a copy that has."""',
    "    if tensor.stride() == strides:",
    "        return tensor",
    "    made = torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype, device=tensor.device)",
    "    return made.copy_(tensor)",
)
"""Host function for files whose kernels read inputs that are not contiguous."""


class FileParts:
    """One file while it is being written."""

    def __init__(self, model: ModelText, source: str) -> None:
        """`source` is the reference's text."""
        self.model = model
        self.names = Names({"ModelNew", "nn", BY_TAPS, IN_PARTS, IN_LAYOUT, *HOST_FUNCTIONS})
        """Names of kernels."""
        self.kernels = WrittenKernels()
        self.constants = Constants(source)
        self.lays_out = False
        """True if a method calls the cached layout of weights."""

    def statements(self) -> list[str]:
        """Return the statements that the constructor needs beside the reference's own."""
        return [*self.constants.statements(), *([f"self.{LAID_OUT} = {{}}"] if self.lays_out else [])]

    def state(self) -> tuple[frozenset[str], dict[tuple[str, ...], KernelText]]:
        return self.names.state(), self.kernels.state()

    def back_to(self, state: tuple[frozenset[str], dict[tuple[str, ...], KernelText]]) -> None:
        """Forget the names and kernels of an attempt that failed."""
        names, kernels = state
        self.names.back_to(names)
        self.kernels.back_to(kernels)
