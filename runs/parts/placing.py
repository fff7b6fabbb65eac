"""What every model put together of parts has in common; see `assembly.py`, which copies it into the file.

Everything below the line `MARKER` names is copied as it stands; what is above stands in for the file's own names. The
text is held to what a kernel file may import and name (`tools/candidate/screen.py`).

A part's kernels take the place of the reference's module, with its parameters under the same names. What they were not
tried on (another dtype, number of dimensions or layout) still goes to the reference's module, which is kept beside them
without memory of its own and borrows the tensors for the call.
"""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from torch import nn

# -- parts in the place of modules -------------------------------------------------------------------------------------


@contextlib.contextmanager
def _constructors_watched(kinds: Any) -> Any:
    """While it lasts, modules of these classes leave behind what they were made with."""
    made: dict[int, Any] = {}
    before = {kind: kind.__init__ for kind in kinds}

    def watching(kind: Any, original: Any) -> Any:
        def construct(self: Any, *args: Any, **kwargs: Any) -> None:
            if type(self) is kind:
                made[id(self)] = (self, args, kwargs)
            original(self, *args, **kwargs)

        return construct

    for kind, original in before.items():
        kind.__init__ = watching(kind, original)
    try:
        yield made
    finally:
        for kind, original in before.items():
            kind.__init__ = original


def _put_in_place(model: Any, places: Any, made: Any) -> None:
    """Each part where its module was, if that was made by its constructor and nobody else has a share in it."""
    modules = dict(nn.Module.named_modules(model, remove_duplicate=False))
    for path, kind in places.items():
        original: Any = modules.get(path)
        known = made.get(id(original))
        within = {id(module) for module in nn.Module.modules(original)} if known else set()
        elsewhere = (module for name, module in modules.items() if not f"{name}.".startswith(f"{path}."))
        if known is None or any(id(module) in within for module in elsewhere):
            continue
        part = kind(*known[1], **known[2])
        if not _forms(original).items() <= _forms(part).items():
            continue
        part.train(original.training)
        part.displaced = [original]
        parent, _, name = path.rpartition(".")
        modules[parent]._modules[name] = part
        for module in nn.Module.modules(original):
            module._parameters, module._buffers = {}, {}


def _forms(module: Any) -> Any:
    """Names, shapes and dtypes of parameters and buffers."""
    state: dict[str, Any] = dict(nn.Module.named_parameters(module, remove_duplicate=False))
    state.update(nn.Module.named_buffers(module, remove_duplicate=False))
    return {name: (tensor.shape, tensor.dtype) for name, tensor in state.items()}


def _case(values: Any) -> Any:
    """What a part's kernels go by: of a tensor its dtype and order in memory, of anything else type and value."""
    return tuple(_layout(value) if isinstance(value, torch.Tensor) else (type(value), value) for value in values)


def _layout(tensor: Any) -> Any:
    order = tuple(range(tensor.dim()))
    if not tensor.is_contiguous():
        order = tuple(sorted(order, key=lambda place: (-tensor.stride(place), place)))
    known = tensor.numel() > 0 and tensor.permute(order).is_contiguous()
    return tensor.dtype, order if known else ()


def _ordered(defaults: Any, args: Any, kwargs: Any) -> Any:
    """The arguments in the order of forward's parameters; None where there are others."""
    if len(args) > len(defaults) or not kwargs.keys() <= defaults.keys():
        return None
    return tuple((defaults | dict(zip(defaults, args)) | kwargs).values())


def _by_the_original(part: Any, args: Any, kwargs: Any) -> Any:
    """The module that the part stands for does it, on the part's tensors."""
    (original,) = part.displaced
    theirs = dict(nn.Module.named_modules(part, remove_duplicate=False))
    for path, module in nn.Module.named_modules(original, remove_duplicate=False):
        if path in theirs:
            module._parameters, module._buffers = theirs[path]._parameters, theirs[path]._buffers
            module.training = theirs[path].training
    try:
        return original(*args, **kwargs)
    finally:
        for module in nn.Module.modules(original):
            module._parameters, module._buffers = {}, {}
