"""The part that every shipped file has in common: which call may run the kernels, and one set of tensors for both.

Everything below the line `MARKER` names is copied into shipped files as it stands; what is above it stands in for what
such a file has before: the reference's class, the kernels' class, and the figures of what was verified. The text is
held to what a kernel file may import and name (`tools/candidate/screen.py`, `tools/kernels/language.py`), since a
shipped file is judged like any other candidate.

Not covered: `torch.jit.script`, which cannot read a forward with `*args`; tracers that record real tensors below
Python (`make_fx`), which see the kernels' launches as nothing; a weight rewritten through `.data` where the kernels
keep a copy of it that goes by its version counter.
"""

from __future__ import annotations

import contextlib
import functools
import operator
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import torch
import triton
from torch import nn
from torch.utils.weak import TensorWeakRef, WeakIdRef


class OriginalModel(nn.Module):
    """Stands in for the user's class."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return args, kwargs

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


class KernelModel(OriginalModel):
    """Stands in for the candidate's class."""


def _constructor(*args: Any, **kwargs: Any) -> Any:
    return args, kwargs


USE_KERNELS = "never"
CONSTRUCTED: Any = _constructor()
PARAMETERS: tuple[str, ...] = ()
STATE: dict[str, Any] = {}
CALLS: tuple[Any, ...] = ()
VERSIONS = ("", "")
GPU: Any = None
MATMUL_PRECISION = "highest"
AUTOCAST = ""
DETERMINISTIC = True
OPERATOR = ""
_operator: Any = None

# -- which call may run the kernels ------------------------------------------------------------------------------------

_PLANS: Any = getattr(KernelModel, "_plans", None)
CALLS = tuple(known for known in CALLS if _PLANS is None or (known[0], *known[1]) in _PLANS)
_CASES = {(training, *facts): case for case, (training, facts, _) in enumerate(CALLS)}
_SAME_VERSIONS = tuple(".".join(v.split(".")[:2]) for v in (torch.__version__, triton.__version__)) == VERSIONS
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_OF_EVERY_MODULE = frozenset(dir(nn.Module()))
_UNUSUAL = (AttributeError, KeyError, NotImplementedError, RuntimeError, TypeError, ValueError)
_every_module: Any = nn.modules.module
_cuda: Any = torch.cuda
_Tensor = torch.Tensor
_autocast_enabled = torch.is_autocast_enabled
_grad_enabled = torch.is_grad_enabled
_matmul_precision = torch.get_float32_matmul_precision
_form = operator.attrgetter("__class__", "shape", "dtype", "device")
_models: dict[int, Any] = {}
_gpus: dict[int, bool] = {}


def _fact(value: Any) -> Any:
    """Return what the guard compares of one argument: a tensor's form, or the type and value of anything else."""
    if value.__class__ is _Tensor:
        return value.shape, value.dtype, value.stride()
    if isinstance(value, (list, tuple)):
        return (type(value), *map(_fact, value))
    if value.__class__ is dict:
        return (dict, *((key, _fact(item)) for key, item in value.items()))
    return type(value), value


def _tensors(values: Any) -> Any:
    found = []
    for value in values:
        if isinstance(value, _Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found += _tensors(value)
        elif value.__class__ is dict:
            found += _tensors(value.values())
    return found


def _by_position(args: Any, kwargs: Any) -> Any:
    """Return the arguments in the order of forward's parameters; None where they do not fit them."""
    names = PARAMETERS[len(args) : len(args) + len(kwargs)]
    return (*args, *(kwargs[name] for name in names)) if set(names) == set(kwargs) else None


def _gpu_verified(index: int) -> bool:
    """Return whether this is the kind of GPU that the kernels were measured on; looked up once for each GPU."""
    if index not in _gpus:
        card = torch.cuda.get_device_properties(index)
        _gpus[index] = (card.name, (card.major, card.minor)) == GPU
    return _gpus[index]


def _plain_names(module: Any) -> Any:
    """Return names of attributes that a forward may read beside parameters, buffers and modules."""
    own = set(dir(module)) - set(dir(type(module))) - _OF_EVERY_MODULE
    own -= module._parameters.keys() | module._buffers.keys() | module._modules.keys()
    if type(module).__module__.startswith("torch."):
        own = {name for name in own if not name.startswith("_")}
    return sorted(own)


def _look(module: Any, hooks: Any = _HOOKS) -> Any:
    """Return names of attributes that must not change while the kernels stand in for this module, and their values."""
    names = ["__class__", "forward.__func__", *hooks]
    for name in _plain_names(module):
        value = getattr(module, name)
        names += [name, f"{name}._version"] if isinstance(value, torch.Tensor) else [name]
    values = operator.attrgetter(*names)(module)
    return tuple(names), tuple(value.copy() if isinstance(value, (list, dict, set)) else value for value in values)


def _state(module: Any) -> Any:
    """Return parameters and buffers by name, shared ones under each of their names."""
    found: dict[str, Any] = dict(nn.Module.named_parameters(module, remove_duplicate=False))
    found.update(nn.Module.named_buffers(module, remove_duplicate=False))
    return found


def _made_of(model: Any) -> Any:
    """Return the attributes of every module; None where one cannot be read, and the reference always runs."""
    with contextlib.suppress(*_UNUSUAL):
        modules = nn.Module.named_modules(model)
        return {path: _look(module, _HOOKS if path else ()) for path, module in modules}
    return None


class _Runner:
    """Belongs to one model: knows how it was made, and holds the kernels' module once there is one."""

    def __init__(self, model: Any, arguments: Any) -> None:
        self.arguments = arguments
        self.made = _made_of(model)
        self.forms: Any = {}
        with contextlib.suppress(*_UNUSUAL):
            self.forms = {name: _fact(tensor.detach()) for name, tensor in _state(model).items()}
        self.start()

    def start(self) -> None:
        """Begin without the kernels' module."""
        args, kwargs = self.arguments
        self.known = False
        with contextlib.suppress(*_UNUSUAL):
            as_constructed = repr(_constructor(*args, **kwargs)) == repr(CONSTRUCTED)
            self.known = as_constructed and self.forms == STATE
        self.verified = _SAME_VERSIONS and self.known
        self.tie: Any = None
        self.misfit = self.made is None
        self.number = -1

    def enrol(self, model: Any) -> None:
        """Give the model a number by which a compiled graph finds it."""
        self.number = len(_models)
        _models[self.number] = WeakIdRef(model)

    def __getstate__(self) -> Any:
        """Leave the kernels' module out: a copy of the model makes one of its own, which reads its own tensors."""
        return {"arguments": self.arguments, "made": self.made, "forms": self.forms}

    def __setstate__(self, kept: Any) -> None:
        self.arguments, self.made, self.forms = kept["arguments"], kept["made"], kept["forms"]
        self.start()

    def prepare(self, model: Any) -> None:
        """Make the kernels' module now if a call may need it, rather than in the first call."""
        likely = model.use_kernels == "verified" and self.verified and GPU is not None and _cuda.is_available()
        wanted = (model.use_kernels == "always" and self.known) or likely
        tensors = _state(model).values()
        if (
            wanted
            and not self.misfit
            and all(type(tensor) in (torch.Tensor, nn.Parameter) and not tensor.is_meta for tensor in tensors)
        ):
            self.tied(model)

    def kernels_for(self, model: Any, args: Any) -> Any:
        """Return a function that computes this call with kernels; None where the reference has to run."""
        try:
            return self._kernels_for(model, args)
        except _UNUSUAL:  # a tensor or module that does not answer like a plain one
            return None

    def _kernels_for(self, model: Any, args: Any) -> Any:
        forced = model.use_kernels == "always"
        if self.misfit or type(model) is not ModelNew or not (self.known if forced else self.verified):
            return None
        facts = tuple(map(_fact, args))
        call = (model.training, *facts)
        if call not in _CASES:
            return None
        tensors = _tensors(args)
        device = tensors[0].device if tensors else _device_of(model)
        if not _surroundings(device, forced) or not _plain(tensors, device):
            return None
        tie = self.tie or self.tied(model)
        if tie is None or not tie.holds(model, device):
            return None
        return tie.kernels if _PLANS is None else functools.partial(_PLANS[call], tie.kernels)

    def tied(self, model: Any) -> Any:
        """Return the kernels' module, made like the reference and reading the reference's tensors; None on failure."""
        try:
            self.misfit = _made_of(model) != self.made  # changed before its first call: not what was verified
            if not self.misfit:
                self.tie = _Tie(model, self)
        except Exception as error:  # whatever the kernels' constructor raises must not keep the reference from running
            self.misfit = True
            warnings.warn(f"the kernels cannot be set up, the reference runs: {error}", stacklevel=2)
        return self.tie

    def case_compiled(self, model: Any, args: Any) -> int:
        """Ask the same in code that torch.compile can trace; return the number of the verified call, or -1."""
        forced = model.use_kernels == "always"
        if (
            OPERATOR == ""
            or self.misfit
            or type(model) is not ModelNew
            or not (self.known if forced else self.verified)
        ):
            return -1
        if self.forms != STATE or torch.compiler.is_exporting():
            return -1
        case = _case_of(model.training, args)
        if case < 0:
            return -1
        device = args[0].device
        state: list[torch.Tensor] = [tensor for _, tensor in model.named_parameters(remove_duplicate=False)]
        state += [tensor for _, tensor in model.named_buffers(remove_duplicate=False)]
        for tensor in [*args, *state]:
            if isinstance(tensor, torch.Tensor) and (
                tensor.device != device or (tensor.requires_grad and torch.is_grad_enabled())
            ):
                return -1
        if torch.is_autocast_enabled(device.type) or not (DETERMINISTIC or _free_order()):
            return -1
        if not forced and not (device.type == "cuda" and _card_matches(device)):
            return -1
        return case if self._as_made(model) else -1

    def _as_made(self, model: Any) -> bool:
        for path, module in model.named_modules():
            if path not in self.made or module.training != model.training:
                return False
            names, values = self.made[path]
            for name, value in zip(names, values):
                if name in _HOOKS:
                    if len(value) or len(getattr(module, name)):
                        return False
                elif name == "__class__":
                    if type(module) is not value:
                        return False
                elif name.endswith("._version") or ("." not in name and getattr(module, name) != value):
                    return False
        return True


def _case_of(training: bool, args: Any) -> int:
    for case, (train, facts, outputs) in enumerate(CALLS):
        known = outputs is not None and train == training and len(facts) == len(args)
        if known and all(_fits(value, fact) for value, fact in zip(args, facts)):
            return case
    return -1


def _fits(value: Any, fact: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return len(fact) == 3 and (value.shape, value.dtype, value.stride()) == fact
    return bool(fact == (type(value), value))


def _card_matches(device: Any) -> bool:
    card = torch.cuda.get_device_properties(device)
    return bool(device.index == torch.cuda.current_device() and (card.name, (card.major, card.minor)) == GPU)


def _free_order() -> bool:
    return not torch.are_deterministic_algorithms_enabled()


def _autocast(kind: str) -> str:
    """Return the dtype that autocast casts to."""
    return str(torch.get_autocast_dtype(kind)).removeprefix("torch.")


def _surroundings(device: Any, forced: bool) -> bool:
    """Check the state of the process: autocast, determinism, hooks on all modules, the GPU and its precision."""
    kind = device.type
    if (_autocast(kind) if _autocast_enabled(kind) else "") != AUTOCAST or kind == "meta":
        return False
    if _every_module._has_any_global_hook() or not (DETERMINISTIC or _free_order()):
        return False
    if kind == "cuda" and _matmul_precision() == MATMUL_PRECISION:
        return (device.index == torch.cuda.current_device() and _gpu_verified(device.index)) or forced
    return forced


def _plain(tensors: Any, device: Any) -> bool:
    """Return whether kernels may read these: memory on one device, and no gradients wanted.

    A tensor that `torch.func` wraps has no memory of its own and raises when asked for its address.
    """
    grad = _grad_enabled()
    for tensor in tensors:
        if tensor.__class__ is not _Tensor or tensor.device != device or (grad and tensor.requires_grad):
            return False
        elements = tensor.numel()
        if type(elements) is not int or elements == 0:  # torch.jit.trace counts in tensors
            return False
        tensor.data_ptr()
    return True


# -- one set of tensors for the reference and the kernels --------------------------------------------------------------


class _Tie:
    """The kernels' module, reading the reference's own tensors; lives outside the model's state and is never copied.

    A module of the kernels shares the dictionaries that hold the parameters and buffers of its namesake in the
    reference. So whatever replaces a tensor there (`.to()`, `load_state_dict`, an optimizer) is seen at once.
    """

    def __init__(self, model: Any, runner: _Runner) -> None:
        state = _state(model)
        self.device = _device_of(model)
        self.kernels = _made_apart(runner.arguments, self.device)
        self.own: list[Any] = []
        self.modules: list[Any] = []
        theirs = [tensor for name, tensor in _state(self.kernels).items() if name in state]
        theirs = [tensor for tensor in theirs if not any(tensor is own for own in state.values())]
        old, spans = [TensorWeakRef(tensor) for tensor in theirs], [_span(tensor) for tensor in theirs]
        del theirs
        self._share(model)
        if any(reference() is not None for reference in old) or self._looks_into(spans):
            raise RuntimeError("the kernels' module keeps a parameter in a second place")
        self._watch(model, runner)
        self.tensors: list[Any] = []
        for name, (shape, dtype, strides) in runner.forms.items():
            space, leaf = _owner(model, name)
            self.tensors.append((space, leaf, (space[leaf].__class__, shape, dtype, self.device), strides))

    def _share(self, model: Any) -> None:
        twins = dict(nn.Module.named_modules(self.kernels, remove_duplicate=False))
        originals = dict(nn.Module.named_modules(model, remove_duplicate=False))
        for path in list(twins):
            twin, module = twins.pop(path), originals.get(path)
            if module is None:
                self.own += [(space, name, twin) for space in (twin._parameters, twin._buffers) for name in space]
            elif path and _interchangeable(twin, module):
                parent, _, name = path.rpartition(".")
                nn.Module.get_submodule(self.kernels, parent)._modules[name] = module
            else:
                self._share_tensors(twin, module)

    def _share_tensors(self, twin: Any, module: Any) -> None:
        theirs = module._parameters.keys() | module._buffers.keys()
        extra = {**twin._parameters, **twin._buffers}
        twin._parameters, twin._buffers = module._parameters, module._buffers
        for name, tensor in extra.items():
            if name not in theirs:  # what only the kernels have stays theirs alone
                object.__setattr__(twin, name, tensor)
                self.own.append((None, name, twin))

    def _looks_into(self, spans: Any) -> bool:
        """Return whether some attribute is a view of a parameter's memory from before it was shared."""
        for module in nn.Module.modules(self.kernels):
            for tensor in _tensors(getattr(module, name) for name in _plain_names(module)):
                start, _ = _span(tensor)
                if any(low <= start < high for low, high in spans):
                    return True
        return False

    def _watch(self, model: Any, runner: _Runner) -> None:
        for path, (names, values) in runner.made.items():
            module = nn.Module.get_submodule(model, path)
            parent, _, leaf = path.rpartition(".")
            holder = nn.Module.get_submodule(model, parent)._modules if path else None
            self.modules.append((holder, leaf, module, operator.attrgetter(*names), values))

    def holds(self, model: Any, device: Any) -> bool:
        """Return whether the model is as it was when the kernels were made; follow it in what may change."""
        training, root = model.training, True
        for holder, leaf, module, read, values in self.modules:
            if not root and holder.get(leaf) is not module:
                return False
            if root and module is not model:
                return False
            if module.training != training or read(module) != values:
                return False
            root = False
        if self.device != device:
            self._move(device)
        grad = _grad_enabled()
        for space, leaf, form, strides in self.tensors:
            tensor = space[leaf]
            if _form(tensor) != form or tensor.stride() != strides or (grad and tensor.requires_grad):
                return False
            if tensor.__class__ is _Tensor:  # a buffer that torch.func wraps has no address and raises
                tensor.data_ptr()
        if self.kernels.training != training:
            self.kernels.train(training)
        return True

    def _move(self, device: Any) -> None:
        """Move tensors that only the kernels have to the device of the reference."""
        with torch.inference_mode(False):
            for space, name, module in self.own:
                tensor = space[name] if space is not None else getattr(module, name)
                if isinstance(tensor, torch.Tensor) and space is not None:
                    space[name] = tensor.detach().to(device)
                elif isinstance(tensor, torch.Tensor):
                    object.__setattr__(module, name, tensor.detach().to(device))
        self.tensors = [(space, leaf, (*form[:-1], device), strides) for space, leaf, form, strides in self.tensors]
        self.device = device

    @contextlib.contextmanager
    def reading(self, state: Any) -> Any:
        """Let the kernels read these tensors meanwhile; mostly they are the model's own."""
        strangers = [
            (space, leaf, space[leaf], tensor)
            for (space, leaf, *_), tensor in zip(self.tensors, state)
            if space[leaf].data_ptr() != tensor.data_ptr()
        ]
        for space, leaf, _, tensor in strangers:
            space[leaf] = tensor
        try:
            yield
        finally:
            for space, leaf, tensor, _ in strangers:
                space[leaf] = tensor


def _device_of(model: Any) -> Any:
    first = next(iter(_state(model).values()), None)
    return torch.device("cpu") if first is None else first.device


def _made_apart(arguments: Any, device: Any) -> Any:
    """Make the kernels' module without changing the state of random generators."""
    gpus = [_cuda.current_device()] if _cuda.is_available() and _cuda.is_initialized() else []
    with torch.inference_mode(False), torch.enable_grad(), torch.random.fork_rng(devices=gpus):
        return nn.Module.to(KernelModel(*arguments[0], **arguments[1]), device)


def _interchangeable(twin: Any, module: Any) -> bool:
    """Return whether both are the same module of torch's, set up alike, so that one may replace the other."""
    if type(twin) is not type(module) or not type(twin).__module__.startswith("torch.nn."):
        return False
    if twin._modules or module._modules:
        return False
    try:
        return bool(_look(twin) == _look(module))
    except _UNUSUAL:
        return False


def _owner(model: Any, name: str) -> Any:
    """Return the dictionary that holds a parameter or buffer, and its key there."""
    path, _, leaf = name.rpartition(".")
    module = nn.Module.get_submodule(model, path)
    return (module._parameters if leaf in module._parameters else module._buffers), leaf


def _span(tensor: Any) -> Any:
    start = tensor.data_ptr()
    return start, start + tensor.numel() * tensor.element_size()


# -- torch.compile -----------------------------------------------------------------------------------------------------


def _compiled_call(model: Any, args: Any, case: int) -> Any:
    """Make the call as one custom operator, which torch's compiler does not look into."""
    tensors = [value for value in args if isinstance(value, torch.Tensor)]
    tensors += [tensor for _, tensor in model.named_parameters(remove_duplicate=False)]
    tensors += [tensor for _, tensor in model.named_buffers(remove_duplicate=False)]
    results = _operator(tensors, case, model._runner.number)
    nest = CALLS[case][2][0]
    return results[0] if nest is torch.Tensor else nest(results)


def _run(tensors: Any, case: int, number: int) -> Any:
    """Ask the guard again when the compiled graph runs; then call the kernels or the reference."""
    model, facts = _models[number](), CALLS[case][1]
    given = iter(tensors)
    args = [next(given) if len(fact) == 3 else fact[1] for fact in facts]
    kernels = model._runner.kernels_for(model, args)
    if kernels is None:
        results = OriginalModel.forward(model, *args)
    else:
        with model._runner.tie.reading(list(given)):
            results = kernels(*args)
    return [results] if isinstance(results, torch.Tensor) else list(results)


def _results_like(tensors: Any, case: int, number: int) -> Any:
    """Return results with the shapes, dtypes and strides of the reference's."""
    forms = CALLS[case][2][1]
    return [tensors[0].new_empty_strided(shape, stride, dtype=dtype) for shape, dtype, stride in forms]


if OPERATOR:
    _SCHEMA = "(Tensor[] tensors, int case, SymInt number) -> Tensor[]"
    _NAME = "".join(letter if letter.isalnum() else "_" for letter in f"{OPERATOR}_{__name__}")
    _operator = torch.library.custom_op(f"triton_agent::{_NAME}", _run, mutates_args=(), schema=_SCHEMA)
    _operator.register_fake(_results_like)


# -- the model ---------------------------------------------------------------------------------------------------------


_Function = TypeVar("_Function", bound=Callable[..., Any])


def _signed_like(original: Any) -> Callable[[_Function], _Function]:
    """Give a method the reference's signature."""

    def signed(function: _Function) -> _Function:
        functools.update_wrapper(function, original, ("__doc__",))
        return function

    return signed


class ModelNew(OriginalModel):
    """Has the reference's constructor, state dict and results.

    `use_kernels`, of the class or of one model, says when the kernels run: "verified" (in the calls they were verified
    and measured for), "always" (in the calls they were verified for, on other GPUs and versions, too) or "never". They
    have a plan for each of these calls; a call with other sizes, numbers or modes always runs the reference.
    """

    use_kernels = USE_KERNELS
    _runner: Any = None

    @_signed_like(OriginalModel.__init__)
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._runner = _Runner(self, (args, kwargs))
        self._runner.enrol(self)
        self._runner.prepare(self)

    def __setstate__(self, state: Any) -> None:
        super().__setstate__(state)
        if self._runner is not None:
            self._runner.enrol(self)

    @_signed_like(OriginalModel.forward)
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        if self.use_kernels == "never" or self._runner is None:
            return super().forward(*args, **kwargs)
        ordered = _by_position(args, kwargs) if kwargs else args
        if ordered is None:
            return super().forward(*args, **kwargs)
        if torch.compiler.is_compiling():
            case = self._runner.case_compiled(self, ordered)
            return super().forward(*args, **kwargs) if case < 0 else _compiled_call(self, ordered, case)
        # The place for generated backward kernels: calls that need gradients run the reference, see `_plain`.
        kernels = self._runner.kernels_for(self, ordered)
        return super().forward(*args, **kwargs) if kernels is None else kernels(*ordered)
