"""A loaded problem: its reference module, its inputs and its verifier, at the given sizes or at others.

Used only in trusted processes, which never import a candidate. It only runs the user's code: it neither copies to other
dtypes or devices nor judges.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import pickle
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy
import torch
from torch import nn
from torch.nn.parameter import UninitializedParameter

from triton_agent.tools.errors import ProblemError
from triton_agent.tools.problem import source as problem_source
from triton_agent.tools.problem.input_spec import Made, mapped
from triton_agent.tools.problem.named_tuples import is_named, rebuilt, without_classes
from triton_agent.tools.problem.problem import ProblemKind, ProblemSpec
from triton_agent.tools.problem.size_range import SizeRange
from triton_agent.tools.reference import calling, input_tensors
from triton_agent.tools.reference.allowance import Allowance, AllowanceSpent, TooLarge
from triton_agent.tools.reference.index_bounds import refusing
from triton_agent.tools.reference.sizes import resize_spec, resize_tree
from triton_agent.tools.reference.stand_ins import stand_in
from triton_agent.tools.reference.user_code import UserModule, seeded

LARGE_BYTES = 8 << 20
"""Larger inputs are made on the device that uses them: a CPU takes up to a second for 64 MiB, a GPU milliseconds."""
_INIT_SEED = 0
"""Seed for `get_init_inputs()`, which normally returns sizes; if it draws numbers, they are the same every time."""
_LIST_REMEDY = "give the arguments in the order of forward's parameters, or by their names"


class Reference:
    """One problem at one variant. All values it makes depend only on the given seed."""

    def __init__(self, spec: ProblemSpec, constants: Mapping[str, int], batch: int | None) -> None:
        source = spec.source()
        self.spec = spec
        self.constants = dict(constants)
        self.batch = batch
        self._sized = resize_spec(spec, constants)
        tree = source.tree if spec.kind is ProblemKind.USER_MODULE else resize_tree(source.tree, constants)
        self._user = UserModule(source, tree)
        self._saved = _load_saved(spec.inputs_file) if spec.inputs_file else None
        self._large: bool | None = None
        """True if the inputs are larger than `LARGE_BYTES`; None until measured."""
        try:
            self._model_class = self._find_model_class() if self.has_reference else None
            if spec.kind is not ProblemKind.USER_MODULE:
                self._function("get_inputs")
        except BaseException:
            self.close()
            raise

    @property
    def has_reference(self) -> bool:
        return self.spec.kind is not ProblemKind.VERIFIER

    def close(self) -> None:
        """Remove the loaded module from `sys.modules`. Existing models keep working."""
        self._user.close()
        if "_other_device_copy" in vars(self):
            self._other_device_copy.close()

    def init_arguments(self) -> tuple[list[Any], dict[str, Any]]:
        """Return new arguments for the constructor; a candidate's constructor takes the same."""
        if self.spec.kind is ProblemKind.USER_MODULE:
            with self._user.running("--init", remedy=self._init_remedy()), seeded(_INIT_SEED):
                given = copy.deepcopy((list(self._sized.init), dict(self._sized.init_keywords)))
                return self._made(given)  # type: ignore[no-any-return]
        make = self._user.get("get_init_inputs")
        if make is None:
            return [], {}
        with self._user.running("get_init_inputs()"), seeded(_INIT_SEED):
            made = make()
            if isinstance(made, Mapping):
                return [], dict(made)
            if not isinstance(made, (list, tuple)):
                return ([] if made is None else [made]), {}
            pair = len(made) == 2 and isinstance(made[0], (list, tuple)) and isinstance(made[1], Mapping)
            if pair and self._model_class is not None:
                with contextlib.suppress(TypeError, ValueError):
                    inspect.signature(self._model_class).bind(*made[0], **made[1])
                    return list(made[0]), dict(made[1])
            return list(made), {}

    def _made(self, value: Any) -> Any:
        """Return the arguments with each `Made` replaced by an object of the class it names."""
        if isinstance(value, (list, tuple)):
            return type(value)(map(self._made, value))
        if isinstance(value, dict):
            return {key: self._made(item) for key, item in value.items()}
        if not isinstance(value, Made):
            return value
        found = self._user.get(value.class_name)
        if not isinstance(found, type) or not self._user.is_own(found):
            raise ProblemError(
                f"{value.class_name} is not a class of this file or of a module beside it",
                where=self.spec.path,
                remedy="--init and --input take plain values and calls of the file's own classes",
            )
        return found(*self._made(value.positional), **self._made(dict(value.keywords)))

    def told_arguments(self) -> tuple[list[Any], dict[str, Any]]:
        """Return the arguments for a candidate's constructor, without instances of the user's classes."""
        positional, keywords = self.init_arguments()
        try:
            with self._user.running("get_init_inputs()"):
                return stand_in(positional, self._user.is_own), stand_in(keywords, self._user.is_own)
        except ProblemError as error:
            raise ProblemError(error.what, where=error.where or self.spec.path, remedy=error.remedy) from error

    def make_model(self, seed: int) -> nn.Module:
        """Construct the reference. It stays in the mode (train or eval) that its constructor sets."""
        if self._model_class is None:
            raise ProblemError("has a verifier and no reference", where=self.spec.path, remedy="call verify() instead")
        positional, keywords = self.init_arguments()
        name = self._model_class.__name__
        with self._user.running(f"{name}(...)", remedy=self._init_remedy()), seeded(seed):
            model = self._model_class(*positional, **keywords)
        for module in model.modules():  # weight_norm keeps a computed tensor, which deepcopy refuses until detached
            kept = {name: item for name, item in vars(module).items() if isinstance(item, torch.Tensor)}
            vars(module).update({name: item.detach() for name, item in kept.items() if not item.is_leaf})
        if any(isinstance(parameter, UninitializedParameter) for parameter in model.parameters()):
            raise ProblemError(
                "has parameters whose sizes are only known after a call (nn.LazyLinear and the like)",
                where=self.spec.path,
                remedy="give the sizes: nn.Linear(in_features, out_features)",
            )
        return model

    def forward_parameters(self) -> tuple[str, ...]:
        if self._model_class is None:
            return ()
        return tuple(item.name for item in calling.parameters_of(self._model_class.forward))

    def keyword_only(self) -> tuple[str, ...]:
        """Return the names of the last arguments of a call, which a candidate's forward gets by keyword."""
        return () if self._model_class is None else calling.keyword_only(self._model_class.forward)

    def make_inputs_on(self, device: str, seed: int) -> list[Any]:
        """Make inputs like `make_inputs`, but drawn on this device if they are large, which gives other numbers.

        If the user's code raises there, all further inputs are made on the CPU, unless the device's memory is taken.
        A second copy of the file is executed
        for this, since its module may keep tensors that belong to the device they were made on.
        """
        if self._large is None and device != "cpu":
            self._large = self._saved is None and self._inputs_are_large()
        if device == "cpu" or not self._large:
            return self.make_inputs(seed)
        try:
            with torch.device(device), refusing(on_gpu=True):
                return self._other_device_copy.make_inputs(seed)
        except TooLarge:
            raise  # on the CPU they would be too large as well
        except (ProblemError, RuntimeError, TypeError) as error:
            if isinstance(error.__cause__ or error, torch.OutOfMemoryError):
                raise
            self._large = False
            return self.make_inputs(seed)

    @functools.cached_property
    def _other_device_copy(self) -> Reference:
        return Reference(self.spec, self.constants, self.batch)

    def _inputs_are_large(self) -> bool:
        """Return True if the inputs exceed `LARGE_BYTES`: draw them on the CPU and stop at that size.

        A second copy of the file is executed for this, since its code may be stopped halfway.
        """
        threads, device = torch.get_num_threads(), torch.get_default_device()
        try:
            tried = Reference(self.spec, self.constants, self.batch)
            with contextlib.closing(tried), Allowance(LARGE_BYTES):
                tried.make_inputs(_INIT_SEED)
        except AllowanceSpent:
            return True
        except (ProblemError, RuntimeError, TypeError):
            return False
        finally:
            if torch.get_num_threads() != threads:
                torch.set_num_threads(threads)
            if torch.get_default_device() != device:
                torch.set_default_device(device)
        return False

    def make_inputs(self, seed: int) -> list[Any]:
        """Make new inputs in the order of `forward`'s parameters; nothing else refers to their memory."""
        make = self._draw_inputs
        if self.batch is not None:
            make = functools.partial(input_tensors.with_leading, self._draw_inputs, batch=self.batch)
        for item, length in zip(self.spec.ranges, self.spec.lengths):
            make = functools.partial(self._at_length, make, item, length)
        return input_tensors.own_copy(make(seed))

    def _at_length(self, make: Callable[[int], list[Any]], item: SizeRange, length: int, seed: int) -> list[Any]:
        """Make inputs with this length of one range."""
        given = make(seed)
        shapes = [tuple(value.shape) if isinstance(value, torch.Tensor) else None for value in given]
        return input_tensors.with_length(make, seed, given, item.found_in(shapes, self.forward_parameters()), length)

    def call(self, model: nn.Module, inputs: list[Any]) -> Any:
        """Return `model(*inputs)` in the environment that the user's code needs, such as imports inside `forward`."""
        try:
            with self.running("forward"):
                return model(*inputs)
        except ProblemError as error:
            remedy = _other_dtypes(model, inputs) if self.spec.kind is ProblemKind.USER_MODULE else ""
            if not remedy or type(error) is not ProblemError:  # others catch the kinds of it
                raise
            raise ProblemError(error.what, where=error.where, remedy=remedy) from error.__cause__

    def running(self, action: str) -> contextlib.AbstractContextManager[None]:
        """Provide that environment for other ways to call the model; errors become a `ProblemError`."""
        return self._user.running(action, remedy="the reference has to run on its own inputs")

    def verify(self, inputs: list[Any], outputs: Any) -> bool:
        check = self._function("verify")
        with self._user.running("verify(inputs, outputs)"), seeded(_INIT_SEED), torch.no_grad():
            answer = check(inputs, outputs)
        one_value = isinstance(answer, torch.Tensor) and answer.numel() == 1
        if not (one_value or isinstance(answer, (bool, numpy.bool_))):
            raise ProblemError(
                f"verify returned {type(answer).__name__}, not True or False",
                where=self.spec.path,
                remedy="return a bool",
            )
        return bool(answer)

    def _draw_inputs(self, seed: int) -> list[Any]:
        named: Mapping[str, Any] = {}
        with self._user.running("get_inputs()"), seeded(seed):
            if self._saved is not None:
                made: Any = self._saved
            elif self.spec.kind is ProblemKind.USER_MODULE:
                drawn = [
                    (item.name, self._made(mapped(item.value, input_tensors.drawn))) for item in self._sized.inputs
                ]
                made, named = [value for name, value in drawn if not name], {name: it for name, it in drawn if name}
            else:
                made = self._function("get_inputs")()
            made = list(made) if isinstance(made, Iterator) else made  # a generator draws while it is consumed
        if isinstance(made, Mapping) and self._model_class is not None:
            made, named = [], made
        if isinstance(made, torch.Tensor):
            made = [made]
        elif not isinstance(made, (list, tuple)):
            where = self.spec.inputs_file or self.spec.path
            raise ProblemError(f"the inputs are a {type(made).__name__}", where=where, remedy=_LIST_REMEDY)
        positional = list(made)
        if self._model_class is not None:
            forward = self._model_class.forward
            try:
                positional = calling.in_order(forward, positional, named)
            except (TypeError, ValueError) as error:
                what = f"the inputs do not fit forward{inspect.signature(forward)}: {error}"
                raise ProblemError(what, where=self.spec.path, remedy=_LIST_REMEDY) from None
        self._require_plain(positional)
        return [without_classes(value) for value in positional]

    def _require_plain(self, value: Any) -> None:
        """Raise if the inputs hold instances of the user's own classes, which a candidate does not have."""
        if self._user.is_own(type(value)) and not is_named(value):
            raise ProblemError(
                f"get_inputs() gives a {type(value).__name__}, and a kernel's file does not have that class",
                where=self.spec.path,
                remedy="give tensors and plain values, in lists, tuples, named tuples and dictionaries",
            )
        if isinstance(value, (list, tuple, Mapping)):
            for item in value.values() if isinstance(value, Mapping) else value:
                self._require_plain(item)

    def _find_model_class(self) -> type[nn.Module]:
        name = self.spec.class_name or "Model"
        found = self._user.get(name)
        if isinstance(found, type) and issubclass(found, nn.Module):
            return calling.by_position(found)
        missing = f"no class {name}" if found is None else f"{name} is not derived from torch.nn.Module"
        raise ProblemError(missing, where=self.spec.path, remedy="name a class derived from torch.nn.Module")

    def _function(self, name: str) -> Callable[..., Any]:
        found = self._user.get(name)
        if callable(found):
            return found  # type: ignore[no-any-return]
        raise ProblemError(f"no function {name}", where=self.spec.path, remedy=problem_source.CONVENTION)

    def _init_remedy(self) -> str:
        try:
            takes = f"{self._model_class.__name__}{inspect.signature(self._model_class)}"  # type: ignore[union-attr, arg-type]
        except (TypeError, ValueError):
            takes = "the constructor"
        if self.spec.kind is ProblemKind.USER_MODULE:
            return f'--init has to give the arguments of {takes}: --init "512, 8"'
        return f"get_init_inputs() has to return the arguments of {takes}"


def _other_dtypes(model: nn.Module, inputs: list[Any]) -> str:
    """Return what to do if no input has the dtype of the module's parameters, as of a float32 module given f16; else
    nothing.
    """
    owned = {tensor.dtype for tensor in model.parameters() if tensor.is_floating_point()}
    given = {tensor.dtype for tensor in input_tensors.tensors_in(inputs) if tensor.is_floating_point()}
    if len(owned) != 1 or len(given) != 1 or owned == given:
        return ""
    [have], [want] = owned, given
    return (
        f"its parameters are {have}, and the inputs {want}: give inputs of that dtype, or name a class derived from it "
        f"whose __init__ ends with self.to({want})"
    )


def load(spec: ProblemSpec, constants: Mapping[str, int] | None = None, *, batch: int | None = None) -> Reference:
    """Execute the problem's file with `constants` (keys as in `sizes.py`) replacing the given sizes."""
    return Reference(spec, constants or {}, batch)


def _load_saved(path: str) -> Any:
    remedy = "save a list of tensors and plain numbers: torch.save([x, y], path)"
    try:
        with torch.serialization.safe_globals([rebuilt]):
            return torch.load(path, map_location=None if torch.cuda.is_available() else "cpu", weights_only=True)
    except (OSError, RuntimeError, pickle.UnpicklingError, EOFError, ValueError) as error:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise ProblemError(f"cannot be loaded: {first}", where=path, remedy=remedy) from None
