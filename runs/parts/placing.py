"""The common code of models with parts; `assembly.py` copies it into the candidate.

The text below the line that `MARKER` names is copied unchanged; the lines above stand in for the file's own names. The
text may import and name only what a kernel file may (`tools/candidate/screen.py`).

A part replaces a module of the reference and holds its parameters under the same names. Calls that its kernels were not
tried on (another dtype, number of dimensions or layout) go to the reference's module, which is kept beside the part
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
    """Record the constructor arguments of modules of these classes."""
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
    """Replace modules by parts, if they were made by their constructors and share nothing with others."""
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
    """Return names, shapes and dtypes of parameters and buffers."""
    state: dict[str, Any] = dict(nn.Module.named_parameters(module, remove_duplicate=False))
    state.update(nn.Module.named_buffers(module, remove_duplicate=False))
    return {name: (tensor.shape, tensor.dtype) for name, tensor in state.items()}


def _case(values: Any) -> Any:
    """Return what kernels are chosen by: dtype and order in memory of tensors, type and value of other arguments."""
    return tuple(_layout(value) if isinstance(value, torch.Tensor) else (type(value), value) for value in values)


def _layout(tensor: Any) -> Any:
    order = tuple(range(tensor.dim()))
    if not tensor.is_contiguous():
        order = tuple(sorted(order, key=lambda place: (-tensor.stride(place), place)))
    known = tensor.numel() > 0 and tensor.permute(order).is_contiguous()
    return tensor.dtype, order if known else ()


def _ordered(defaults: Any, args: Any, kwargs: Any) -> Any:
    """Return arguments in the order of forward's parameters; None for unknown ones."""
    if len(args) > len(defaults) or not kwargs.keys() <= defaults.keys():
        return None
    return tuple((defaults | dict(zip(defaults, args)) | kwargs).values())


def _by_the_original(part: Any, args: Any, kwargs: Any) -> Any:
    """Call the replaced module on the part's tensors."""
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
