"""The guard of a shipped file: which call may run the kernels.

Everything from the line that `MARKER` names on is copied into shipped files as it stands; what is above it stands in
for what such a file has before: the reference's class, the plans, and the figures of what was verified. The text is
held to what a kernel file may import and name (`tools/candidate/screen.py`), since a shipped file is judged like any
other candidate.

Not covered: `torch.jit.script`, which cannot read a forward with `*args`; tracers that record real tensors below
Python (`make_fx`), which see the kernels' launches as nothing; a weight rewritten through `.data` where the kernels
keep a copy of it that goes by its version counter; a method that is replaced in a class after the model was made.
"""

from __future__ import annotations

import functools
import warnings
from operator import attrgetter, getitem, is_, itemgetter
from types import SimpleNamespace
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
KEYWORD_ONLY = 0
DEFAULTS: dict[str, Any] = {}
VERSIONS = ("", "")
GPU: Any = None
MATMUL_PRECISION = "highest"
AUTOCAST = ""
DETERMINISTIC = True
CALLS_LIBDEVICE = False
OPERATOR = "stand_in"

# -- which calls run the kernels ---------------------------------------------------------------------------------------

OF_ANY_MODULE = frozenset({*vars(torch.nn.Module()), "use_kernels", "_watch"})
FOR_ALL_MODULES = [torch.nn.modules.module._global_forward_hooks, torch.nn.modules.module._global_forward_pre_hooks]
READING = torch.Tensor.data_ptr, attrgetter("dtype"), torch.Tensor.size, torch.Tensor.is_contiguous
NEEDS_GRADIENT = attrgetter("requires_grad")
MUTABLE = (list, dict, set, torch.Tensor)
JIT: Any = torch.jit
INTERPRETED = triton.knobs.runtime.interpret
measured: dict[Any, bool] = {}


def _attributes(module: Any) -> Any:
    """Return what a forward may read of a module beside its parameters, buffers and submodules."""
    hidden = "_" if type(module).__module__.startswith("torch.") else " "
    own = [name for name in vars(module) if name not in OF_ANY_MODULE and not name.startswith(hidden)]
    return {name: getattr(module, name) for name in own}


def _plain(value: Any) -> Any:
    """Return what a constructor was given, with objects of the user's classes as what they hold."""
    if type(value) in (list, tuple):
        return type(value)(map(_plain, value))
    if type(value) is dict:
        return {key: _plain(item) for key, item in value.items()}
    if str(getattr(value, "__module__", "builtins")).split(".")[0] in ("builtins", "torch"):
        return value
    held = {name: getattr(value, name, None) for name in dir(value) if not name.startswith("_")}
    kept = {name: item for name, item in held.items() if not callable(item) or isinstance(item, type)}
    return SimpleNamespace(**{name: _plain(item) for name, item in kept.items()})


def _noted(value: Any) -> Any:
    """Return what shows later whether a value was changed."""
    if isinstance(value, torch.Tensor):
        return value, value._version
    return value.copy() if isinstance(value, (list, dict, set)) else value


def _made_of(model: Any) -> Any:
    """Return class and attributes of every module, for a comparison later on."""
    modules = model.named_modules(remove_duplicate=False)
    return {path: (type(m), {name: _noted(value) for name, value in _attributes(m).items()}) for path, m in modules}


class Watch:
    """Hands out a model's parameters and buffers as long as the model computes what was verified.

    Each call compares the model with lists of what it was like when last examined as a whole, and examines it again
    where anything differs.
    """

    def __init__(self, model: Any, known: bool) -> None:
        self.known, self.made = known, _made_of(model) if known else {}
        self.seen: Any = None

    def __getstate__(self) -> Any:
        return {"known": self.known, "made": self.made, "seen": None}  # a copy of the model is examined itself

    def state(self, model: Any) -> Any:
        """Return parameters and buffers by name; None if the reference has to run."""
        seen = self.seen
        if seen is None or seen.differs(vars(model)):
            if seen is not None and model._parameters is not seen.parameters:
                return None  # a replica that shares this object, perhaps with other threads
            self.seen = seen = Seen(model, self.made)
        if any(seen.hooks) or (torch.is_grad_enabled() and any(map(NEEDS_GRADIENT, seen.tensors))):
            return None
        return seen.state


class Seen:
    """What a model was like when it was examined; `state` is None if it was not as made and verified."""

    def __init__(self, model: Any, made: Any) -> None:
        modules = list(model.modules())
        inner = modules[1:]
        named = dict(model.named_parameters(remove_duplicate=False))
        named.update(model.named_buffers(remove_duplicate=False))
        attributes = [value for module in modules for value in _attributes(module).values()]
        self.mutable = [value for value in attributes if isinstance(value, MUTABLE)]
        self.noted = list(map(_noted, self.mutable))
        self.hooks = [hooks for m in inner for hooks in (m._forward_hooks, m._forward_pre_hooks)] + FOR_ALL_MODULES
        self.parameters, self.inner, self.classes = model._parameters, inner, list(map(type, inner))
        slots = [(vars(m), name) for m in inner for name in ("training", *_attributes(m))]
        self.owners, self.names = [owner for owner, _ in slots], [name for _, name in slots]
        self.values = [*map(getitem, self.owners, self.names)]
        self.inner_vars = [*map(vars, inner)]
        self.sizes = [*map(len, self.inner_vars)]
        holders = [holder for m in modules for holder in (m._parameters, m._buffers, m._modules)]
        self.empty, self.full = [holder for holder in holders if not holder], [holder for holder in holders if holder]
        self.full_then = [*map(dict, self.full)]
        # Dictionaries compare tensors as equal if they are the same, and cannot if not, but for those of one number.
        numbers = [
            (d, name) for d in self.full for name, t in d.items() if isinstance(t, torch.Tensor) and t.numel() == 1
        ]
        self.number_owners, self.number_names = [owner for owner, _ in numbers], [name for _, name in numbers]
        self.numbers = [owner[name] for owner, name in numbers]
        self.own = itemgetter("training", "_parameters", "_buffers", "_modules", *_attributes(model))
        self.own_values, self.own_size = self.own(vars(model)), len(vars(model))
        self.tensors, self.device = list(named.values()), next((t.device for t in named.values()), None)
        self.strided = [tensor for tensor in self.tensors if not tensor.is_contiguous()]
        self.forms, self.state = self.read_forms(), None
        if (
            named.keys() == STATE.keys()
            and _made_of(model) == made
            and all(m.training == model.training for m in inner)
        ):
            plain = all(type(t) in (torch.Tensor, torch.nn.Parameter) and not t.is_inference() for t in self.tensors)
            placed = all(t.device == self.device and t.data_ptr() % 16 == 0 and not t.is_meta for t in self.tensors)
            if plain and placed and all(_form(named[name]) == form[1:] for name, form in STATE.items()):
                self.state = {name: named[name] for name in STATE}

    def read_forms(self) -> Any:
        tensors = self.tensors
        return [*([*map(read, tensors)] for read in READING), [*map(torch.Tensor.stride, self.strided)]]

    def differs(self, own: Any) -> bool:
        """Return whether anything changed; `own` are the model's attributes, which this object may not keep alive."""
        try:
            return not (
                len(own) == self.own_size
                and self.own(own) == self.own_values
                and self.full == self.full_then
                and not any(self.empty)
                and [*map(getitem, self.owners, self.names)] == self.values
                and [*map(len, self.inner_vars)] == self.sizes
                and [*map(type, self.inner)] == self.classes
                and (
                    not self.numbers or all(map(is_, map(getitem, self.number_owners, self.number_names), self.numbers))
                )
                and (not self.mutable or [*map(_noted, self.mutable)] == self.noted)
                and self.read_forms() == self.forms
            )
        except (AttributeError, KeyError, RuntimeError, TypeError, ValueError):
            return True  # an attribute is gone, or a tensor was compared with another one


def _in_order(args: Any, kwargs: Any) -> Any:
    """Return the arguments in the order of PARAMETERS, as plans take them; None if a value is not known for one."""
    names = PARAMETERS[len(args) :]
    if len(args) + KEYWORD_ONLY > len(PARAMETERS) or not all(name in names for name in kwargs):
        return None
    values, last = {**DEFAULTS, **kwargs}, len(names)
    while not KEYWORD_ONLY and names[last - 1] not in kwargs:
        last -= 1  # defaults at the end are left out, as in a call without keywords
    return (*args, *(values[name] for name in names[:last])) if all(name in values for name in names[:last]) else None


def _form(tensor: Any) -> Any:
    return tensor.shape, tensor.dtype, tensor.stride()


def _surroundings(device: Any, forced: bool) -> bool:
    """Check the state of the process: autocast, determinism, the GPU, the versions and the precision of products."""
    kind = device.type
    casts = str(torch.get_autocast_dtype(kind))[6:] if torch.is_autocast_enabled(kind) else ""
    if casts != AUTOCAST or kind == "meta" or not (DETERMINISTIC or not torch.are_deterministic_algorithms_enabled()):
        return False
    if kind != "cuda" or device.index != torch.cuda.current_device():
        return forced and kind != "cuda" and (kind != "cpu" or _interpreted())
    return forced or (torch.get_float32_matmul_precision() == MATMUL_PRECISION and _measured_on(device.index))


def _interpreted() -> bool:
    """Return whether Triton interprets the kernels, as a CPU needs it; say so once if not."""
    able = INTERPRETED and not CALLS_LIBDEVICE
    if not able and "cpu" not in measured and not torch.compiler.is_compiling():
        measured["cpu"] = False
        text = "the kernels need a GPU, or TRITON_INTERPRET=1 set before triton is imported: here the reference runs"
        if INTERPRETED:
            text = "the kernels need a GPU, since Triton's interpreter has no libdevice: here the reference runs"
        warnings.warn(text, stacklevel=2)
    return able


def _measured_on(index: int) -> bool:
    """Return whether the kernels were measured on this kind of GPU with these versions; say so once if not."""
    if index not in measured:
        card = torch.cuda.get_device_properties(index)
        versions = tuple(".".join(text.split(".")[:2]) for text in (torch.__version__, triton.__version__))
        measured[index] = ((card.name, (card.major, card.minor)), versions) == (GPU, VERSIONS)
        if not measured[index] and not torch.compiler.is_compiling():
            text = f"the kernels were measured on {GPU} with torch and triton {VERSIONS}: here the reference runs"
            warnings.warn(text, stacklevel=2)
    return measured[index]


def _admitted(model: Any, args: Any) -> Any:
    """Return the plan of a call, the model's state and the call's tensors; None where the reference has to run."""
    found = plan_for(model.training, *args)
    state = None if found is None or JIT.is_tracing() else model._watch.state(model)
    if state is None or type(model) is not ModelNew:
        return None
    call, tensors = found
    device, grad = tensors[0].device if tensors else model._watch.seen.device, torch.is_grad_enabled()
    for tensor in tensors:
        if tensor.__class__ is not torch.Tensor or tensor.device != device or (grad and tensor.requires_grad):
            return None
        if tensor.data_ptr() % 16 or not tensor.numel():  # what torch.func wraps has no address and raises
            return None
    alike = not state or device == model._watch.seen.device
    return (call, state, tensors) if alike and _surroundings(device, model.use_kernels == "always") else None


# -- torch.compile -----------------------------------------------------------------------------------------------------


def _compiled(model: Any, ordered: Any, args: Any, kwargs: Any) -> Any:
    """Make a call inside a graph of torch.compile: as one operator if the kernels may run, else as the reference."""
    call, tensors = (None if torch.compiler.is_exporting() else plan_for(model.training, *ordered)) or (None, ())
    if call is not None and tensors and CALLS[call.__name__][2] is not None and _as_made(model):
        named = dict(model.named_parameters(remove_duplicate=False))
        named.update(model.named_buffers(remove_duplicate=False))
        state, grad, device = [named[name] for name in STATE], torch.is_grad_enabled(), tensors[0].device
        alike = all(t.device == device and not (grad and t.requires_grad) for t in [*tensors, *state])
        fits = all(_form(tensor) == form[1:] for tensor, form in zip(state, STATE.values()))
        if alike and fits and _surroundings(device, model.use_kernels == "always"):
            results = _operator(tensors, state, call.__name__)
            kind = _layout(call.__name__, tensors)[1][0]
            return results[0] if kind is torch.Tensor else kind(results)
    return OriginalModel.forward(model, *args, **kwargs)


def _as_made(model: Any) -> bool:
    """Ask in code that torch.compile can trace whether the model computes what was verified."""
    for path, module in model.named_modules(remove_duplicate=False):
        kind, values = model._watch.made.get(path, (None, {}))
        if type(module) is not kind or module.training != model.training:
            return False
        if path and (len(module._forward_hooks) or len(module._forward_pre_hooks)):
            return False
        for name, value in values.items():
            if isinstance(getattr(module, name), torch.Tensor) or getattr(module, name) != value:
                return False
    return True


def _layout(name: str, tensors: Any) -> Any:
    """Return the strides that a plan takes, and kind and forms of what it returns; for a range, at these sizes."""
    _, strides, results = CALLS[name]
    return strides(*tensors) if callable(strides) else (strides, results)


def _laid_out(tensor: Any, strides: Any) -> Any:
    """Return the tensor aligned and with these strides, which a compiler may have chosen otherwise."""
    if tensor.stride() == strides and tensor.data_ptr() % 16 == 0:
        return tensor
    return torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype, device=tensor.device).copy_(tensor)


@torch.library.custom_op(
    f"triton_agent::{OPERATOR}_{''.join(letter if letter.isalnum() else '_' for letter in __name__)}",
    mutates_args=(),
    schema="(Tensor[] tensors, Tensor[] state, str name) -> Tensor[]",
)
def _operator(tensors: Any, state: Any, name: str) -> Any:
    call, strides = CALLS[name][0], _layout(name, tensors)[0]
    held = {key: _laid_out(tensor, form[3]) for (key, form), tensor in zip(STATE.items(), state)}
    results = call(held, *map(_laid_out, tensors, strides))
    return [results] if isinstance(results, torch.Tensor) else list(results)


@_operator.register_fake
def _results_like(tensors: Any, state: Any, name: str) -> Any:
    results = _layout(name, tensors)[1]
    return [tensors[0].new_empty_strided(shape, strides, dtype=dtype) for shape, dtype, strides in results[1:]]


# -- the model ---------------------------------------------------------------------------------------------------------


class ModelNew(OriginalModel):
    """Has the reference's constructor, state dict and results.

    `use_kernels`, of the class or of one model, says when the kernels run: "verified" (in the calls they were verified
    and measured for), "always" (in the calls they were verified for, on other GPUs and versions, too) or "never".
    """

    use_kernels = USE_KERNELS
    _watch: Any = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._watch = Watch(self, repr(_plain(_constructor(*args, **kwargs))) == repr(CONSTRUCTED))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        # Calls that need gradients run the reference; generated backward kernels would have their place here.
        if self.use_kernels == "never" or self._watch is None or not self._watch.known:
            return super().forward(*args, **kwargs)
        ordered = _in_order(args, kwargs) if kwargs or KEYWORD_ONLY else args
        if ordered is None:
            return super().forward(*args, **kwargs)
        if torch.compiler.is_compiling():
            return _compiled(self, ordered, args, kwargs)
        try:
            found = _admitted(self, ordered)
        except (AttributeError, KeyError, NotImplementedError, RuntimeError, TypeError, ValueError):
            found = None  # a tensor or module that does not answer like a plain one
        if found is None:
            return super().forward(*args, **kwargs)
        call, state, tensors = found
        return call(state, *tensors)


functools.update_wrapper(ModelNew.__init__, OriginalModel.__init__, updated=())  # for the reference's signature
functools.update_wrapper(ModelNew.forward, OriginalModel.forward, updated=())
