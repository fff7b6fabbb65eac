"""The guard of a shipped file: which call may run the kernels.

Everything from the line that `MARKER` names on is copied into shipped files as it stands; what is above it stands in
for what such a file has before: the reference's class, the plans, and the figures of what was verified. The text is
held to what a kernel file may import and name (`tools/candidate/screen.py`), since a shipped file is judged like any
other candidate.

Not covered: `torch.jit.script`, which cannot read a forward with `*args`; tracers that record real tensors below
Python (`make_fx`), which see the kernels' launches as nothing; a weight rewritten through `.data` where the kernels
keep a copy of it that goes by its version counter; a method other than `forward` that is replaced in a class.
"""

from __future__ import annotations

import functools
import warnings
from operator import attrgetter, getitem, is_
from typing import Any

import torch
import triton


class OriginalModel(torch.nn.Module):
    """Stands in for the user's class."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return args, kwargs


def _constructor(*args: Any, **kwargs: Any) -> Any:
    return args, kwargs


def plan_for(training: bool, *args: Any) -> Any:
    """Stands in for the function that knows the verified calls."""


STATE: dict[str, Any] = {}
CALLS: dict[str, Any] = {}
USE_KERNELS = "never"
CONSTRUCTED: Any = _constructor()
PARAMETERS: tuple[str, ...] = ()
VERSIONS = ("", "")
GPU: Any = None
MATMUL_PRECISION = "highest"
AUTOCAST = ""
DETERMINISTIC = True
OPERATOR = ""

# -- which calls run the kernels ---------------------------------------------------------------------------------------

OF_ANY_MODULE = frozenset({*vars(torch.nn.Module()), "use_kernels", "_watch"})
FOR_ALL_MODULES = [torch.nn.modules.module._global_forward_hooks, torch.nn.modules.module._global_forward_pre_hooks]
UNUSUAL = (AttributeError, KeyError, NotImplementedError, RuntimeError, TypeError, ValueError)
DTYPE_OF, NEEDS_GRADIENT = attrgetter("dtype"), attrgetter("requires_grad")
measured: dict[int, bool] = {}


def _attributes(module: Any) -> Any:
    """Return what a forward may read of a module beside its parameters, buffers and submodules."""
    hidden = "_" if type(module).__module__.startswith("torch.") else " "
    names = sorted(name for name in vars(module) if name not in OF_ANY_MODULE and not name.startswith(hidden))
    return {name: getattr(module, name) for name in names}


def _made_of(model: Any) -> Any:
    """Return class and attributes of every module, for a comparison later on: containers are copied."""
    found = {}
    for path, module in model.named_modules(remove_duplicate=False):
        values = _attributes(module)
        for name, value in values.items():
            if isinstance(value, torch.Tensor):
                values[name] = value, value._version
            elif isinstance(value, (list, dict, set)):
                values[name] = value.copy()
        found[path] = type(module), values
    return found


class Watch:
    """Hands out a model's parameters and buffers as long as the model computes what was verified.

    Each call compares modes, hooks, attributes, submodules and tensors with lists made when the model was last examined
    as a whole. Where anything differs, the model is examined again.
    """

    def __init__(self, model: Any, known: bool) -> None:
        self.known, self.seen, self.forwards = known, None, {}
        self.made = _made_of(model) if known else {}

    def __getstate__(self) -> Any:
        return {"known": self.known, "made": self.made, "seen": None, "forwards": {}}  # a copy is examined itself

    def state(self, model: Any) -> Any:
        """Return parameters and buffers by name; None if the model may compute something else."""
        seen, own = self.seen, vars(model)
        if seen is None or seen.changed(own):
            if seen is not None and own["_parameters"] is not seen.parameters:
                return None  # a replica that shares this object; other threads may have more of them
            self.seen = seen = Seen(model, self)
        if any(seen.hooks) or (torch.is_grad_enabled() and any(map(NEEDS_GRADIENT, seen.tensors))):
            return None
        return seen.state


class Seen:
    """What a model was like when it was examined; `state` is None where it was not as constructed."""

    def __init__(self, model: Any, watch: Watch) -> None:
        modules = dict(model.named_modules(remove_duplicate=False))
        inner = [module for path, module in modules.items() if path]
        dicts = [holder for module in inner for holder in (vars(module), module._parameters, module._buffers)]
        dicts += [model._parameters, model._buffers]
        watched = [(vars(module), name) for module in inner for name in ("training", *_attributes(module))]
        watched += [(d, name) for m in modules.values() for d in (m._parameters, m._buffers) for name in d]
        containers = [value for module in modules.values() for value in _attributes(module).values()]
        self.containers = [value for value in containers if isinstance(value, (list, dict, set))]
        self.copies = [value.copy() for value in self.containers]
        self.dicts, self.sizes = dicts, list(map(len, dicts))
        self.owners, self.names = [owner for owner, _ in watched], [name for _, name in watched]
        self.values = list(map(getitem, self.owners, self.names))
        self.own = ("training", "_parameters", "_buffers", "_modules", *_attributes(model))
        self.own_size, self.own_values = len(vars(model)), [vars(model)[name] for name in self.own]
        self.children = [module._modules for module in modules.values()]
        self.child_copies = [dict(children) for children in self.children]
        self.hooks = [hooks for m in inner for hooks in (m._forward_hooks, m._forward_pre_hooks)] + FOR_ALL_MODULES
        self.inner, self.classes, self.parameters = inner, list(map(type, inner)), model._parameters
        self.kinds = list({type(module): None for module in modules.values()})
        self.forwards = [watch.forwards.setdefault(kind, kind.forward) for kind in self.kinds]
        held = dict(model.named_parameters(remove_duplicate=False))
        held.update(model.named_buffers(remove_duplicate=False))
        self.tensors = list(held.values())
        self.forms = self._forms()
        self.device = self.tensors[0].device if held else None
        fits = _made_of(model) == watch.made and all(module.training == model.training for module in inner)
        fits = fits and held.keys() == STATE.keys() and [kind.forward for kind in self.kinds] == self.forwards
        fits = fits and all(self._readable(tensor, STATE[name]) for name, tensor in held.items())
        self.state = {name: held[name] for name in STATE} if fits else None

    def _readable(self, tensor: Any, form: Any) -> bool:
        plain = type(tensor) in (torch.Tensor, torch.nn.Parameter) and not tensor.is_inference()
        placed = tensor.device == self.device and tensor.device.type != "meta" and tensor.data_ptr() % 16 == 0
        return plain and placed and (tensor.shape, tensor.dtype, tensor.stride()) == form[1:]

    def _forms(self) -> Any:
        given = torch.Tensor.data_ptr, DTYPE_OF, torch.Tensor.size, torch.Tensor.stride
        return [list(map(read, self.tensors)) for read in given]

    def changed(self, own: Any) -> bool:
        """Return whether anything differs; `own` has the attributes of the model, which this object may not keep."""
        return not (
            len(own) == self.own_size
            and all(map(is_, map(own.get, self.own), self.own_values))
            and all(map(is_, map(dict.get, self.owners, self.names), self.values))
            and list(map(len, self.dicts)) == self.sizes
            and self.children == self.child_copies
            and list(map(type, self.inner)) == self.classes
            and [kind.forward for kind in self.kinds] == self.forwards
            and self.containers == self.copies
            and self._forms() == self.forms
        )


def _surroundings(device: Any, forced: bool) -> bool:
    """Check the state of the process: autocast, determinism, the GPU, the versions and the precision of products."""
    kind = device.type
    casts = str(torch.get_autocast_dtype(kind))[6:] if torch.is_autocast_enabled(kind) else ""
    if casts != AUTOCAST or kind == "meta" or not (DETERMINISTIC or not torch.are_deterministic_algorithms_enabled()):
        return False
    if kind != "cuda" or device.index != torch.cuda.current_device():
        return forced and kind != "cuda"
    return forced or (torch.get_float32_matmul_precision() == MATMUL_PRECISION and _measured_on(device.index))


def _measured_on(index: int) -> bool:
    """Return whether this is the kind of GPU, and these are the versions, that the kernels were measured with."""
    if index not in measured:
        card = torch.cuda.get_device_properties(index)
        versions = tuple(".".join(text.split(".")[:2]) for text in (torch.__version__, triton.__version__))
        measured[index] = ((card.name, (card.major, card.minor)), versions) == (GPU, VERSIONS)
        if not measured[index] and not torch.compiler.is_compiling():
            here = f"{card.name}, torch {versions[0]}, triton {versions[1]}"
            warnings.warn(f"kernels measured on {GPU}, {VERSIONS} stay out on {here}: the reference runs", stacklevel=2)
    return measured[index]


def _admitted(model: Any, args: Any) -> Any:
    """Return the plan of a call, the model's state and the call's tensors; None where the reference has to run."""
    if type(model) is not ModelNew or torch.jit.is_tracing():
        return None
    found = plan_for(model.training, *args)
    state = model._watch.state(model) if found is not None else None
    if state is None:
        return None
    (call, tensors), device, grad = found, model._watch.seen.device, torch.is_grad_enabled()
    device = tensors[0].device if tensors else device
    for tensor in tensors:
        if tensor.__class__ is not torch.Tensor or tensor.device != device or (grad and tensor.requires_grad):
            return None
        if tensor.data_ptr() % 16 or not tensor.numel():  # a tensor that torch.func wraps has no address and raises
            return None
    if (state and device != model._watch.seen.device) or not _surroundings(device, model.use_kernels == "always"):
        return None
    return call, state, tensors


# -- torch.compile -----------------------------------------------------------------------------------------------------


def _compiled(model: Any, args: Any) -> Any:
    """Make a call inside a graph of torch.compile: as one operator if the kernels may run, else as the reference."""
    found = plan_for(model.training, *args) if OPERATOR and not torch.compiler.is_exporting() else None
    call, tensors = found if found is not None else (None, ())
    if call is not None and tensors and CALLS[call.__name__][2] is not None and _as_made(model):
        named = dict(model.named_parameters(remove_duplicate=False))
        named.update(model.named_buffers(remove_duplicate=False))
        state, grad, device = [named[name] for name in STATE], torch.is_grad_enabled(), tensors[0].device
        fits = all((t.shape, t.dtype, t.stride()) == form[1:] for t, form in zip(state, STATE.values()))
        alike = all(t.device == device and not (grad and t.requires_grad) for t in [*tensors, *state])
        if fits and alike and _surroundings(device, model.use_kernels == "always"):
            results = _operator(tensors, state, call.__name__)
            kind = CALLS[call.__name__][2][0]
            return results[0] if kind is torch.Tensor else kind(results)
    return OriginalModel.forward(model, *args)


def _as_made(model: Any) -> bool:
    """Ask in code that torch.compile can trace whether the model computes what was verified."""
    for path, module in model.named_modules(remove_duplicate=False):
        kind, values = model._watch.made.get(path, (None, {}))
        if type(module) is not kind or module.training != model.training:
            return False
        if path and (len(module._forward_hooks) or len(module._forward_pre_hooks)):
            return False
        for name, value in values.items():
            if isinstance(value, tuple) or getattr(module, name) != value:
                return False
    return True


def _laid_out(tensor: Any, strides: Any) -> Any:
    """Return the tensor aligned and with these strides, which a compiler may have chosen otherwise."""
    if tensor.stride() == strides and tensor.data_ptr() % 16 == 0:
        return tensor
    return torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype, device=tensor.device).copy_(tensor)


def _run(tensors: Any, state: Any, name: str) -> Any:
    call, strides, _ = CALLS[name]
    laid_out = {key: _laid_out(tensor, form[3]) for (key, form), tensor in zip(STATE.items(), state)}
    results = call(laid_out, *map(_laid_out, tensors, strides))
    return [results] if isinstance(results, torch.Tensor) else list(results)


def _results_like(tensors: Any, state: Any, name: str) -> Any:
    _, *forms = CALLS[name][2]
    return [tensors[0].new_empty_strided(shape, strides, dtype=dtype) for shape, dtype, strides in forms]


if OPERATOR:
    _operator: Any = torch.library.custom_op(
        f"triton_agent::{OPERATOR}_{''.join(letter if letter.isalnum() else '_' for letter in __name__)}",
        _run,
        mutates_args=(),
        schema="(Tensor[] tensors, Tensor[] state, str name) -> Tensor[]",
    )
    _operator.register_fake(_results_like)


# -- the model ---------------------------------------------------------------------------------------------------------


class ModelNew(OriginalModel):
    """Has the reference's constructor, state dict and results.

    `use_kernels`, of the class or of one model, says when the kernels run: "verified" (in the calls they were verified
    and measured for), "always" (in the calls they were verified for, on other GPUs and versions, too) or "never".
    """

    use_kernels = USE_KERNELS
    _watch: Any = None

    @functools.wraps(OriginalModel.__init__)
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        known = repr(_constructor(*args, **kwargs)) == repr(CONSTRUCTED)
        self._watch = Watch(self, known)

    @functools.wraps(OriginalModel.forward)
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        # Calls that need gradients run the reference; generated backward kernels would have their place here.
        if self.use_kernels == "never" or self._watch is None or not self._watch.known:
            return super().forward(*args, **kwargs)
        names = PARAMETERS[len(args) : len(args) + len(kwargs)] if kwargs else ()
        if set(names) != set(kwargs):
            return super().forward(*args, **kwargs)
        ordered = (*args, *(kwargs[name] for name in names)) if kwargs else args
        if torch.compiler.is_compiling():
            return _compiled(self, ordered)
        try:
            found = _admitted(self, ordered)
        except UNUSUAL:  # a tensor or module that does not answer like a plain one
            found = None
        if found is None:
            return super().forward(*args, **kwargs)
        call, state, tensors = found
        return call(state, *tensors)
