"""A loaded problem: the original module, its inputs and its verifier, at the sizes as given or at others.

Used in the trusted checker process only, which never imports a candidate. It runs the user's code and nothing else:
no copying to other dtypes or devices, no judging.
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

from triton_agent.tools import problem_source
from triton_agent.tools.errors import ProblemError
from triton_agent.tools.problem import ProblemKind, ProblemSpec
from triton_agent.tools.verify import input_tensors
from triton_agent.tools.verify.allowance import Allowance, AllowanceSpent
from triton_agent.tools.verify.index_bounds import refusing
from triton_agent.tools.verify.sizes import resize_spec, resize_tree
from triton_agent.tools.verify.stand_ins import stand_in
from triton_agent.tools.verify.user_code import UserModule, seeded

LARGE_BYTES = 8 << 20
"""Of inputs. A CPU takes up to a second to draw 64 MiB, a GPU some milliseconds."""
_INIT_SEED = 0
"""`get_init_inputs()` gives sizes; should it draw numbers, they are the same ones every time."""


class Reference:
    """One problem at one variant. Everything it makes depends on the given seed only."""

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
        """Whether inputs are better made where they are used; None as long as nobody has asked."""
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
        """Forget the loaded module's name. Models made so far keep working."""
        self._user.close()
        if "_elsewhere" in vars(self):
            self._elsewhere.close()

    def init_arguments(self) -> tuple[list[Any], dict[str, Any]]:
        """What the constructor takes, made anew at each call; a candidate's constructor takes the same."""
        if self.spec.kind is ProblemKind.USER_MODULE:
            return copy.deepcopy((list(self._sized.init), dict(self._sized.init_keywords)))
        make = self._user.get("get_init_inputs")
        if make is None:
            return [], {}
        with self._user.running("get_init_inputs()"), seeded(_INIT_SEED):
            return _as_arguments(make(), self._model_class)

    def told_arguments(self) -> tuple[list[Any], dict[str, Any]]:
        """The same for a candidate, whose process does not have the user's classes."""
        positional, keywords = self.init_arguments()
        try:
            with self._user.running("get_init_inputs()"):
                return stand_in(positional, self._user.is_own), stand_in(keywords, self._user.is_own)
        except ProblemError as error:
            raise ProblemError(error.what, where=error.where or self.spec.path, remedy=error.remedy) from error

    def make_model(self, seed: int) -> nn.Module:
        """The original, freshly constructed, in the mode (train or eval) that its constructor leaves it in."""
        if self._model_class is None:
            raise ProblemError("has a verifier and no reference", where=self.spec.path, remedy="call verify() instead")
        positional, keywords = self.init_arguments()
        name = self._model_class.__name__
        with self._user.running(f"{name}(...)", remedy=self._init_remedy()), seeded(seed):
            model = self._model_class(*positional, **keywords)
        for module in model.modules():  # weight_norm keeps what it computes; such a tensor cannot be copied
            kept = {name: item for name, item in vars(module).items() if isinstance(item, torch.Tensor)}
            vars(module).update({name: item.detach() for name, item in kept.items() if not item.is_leaf})
        if any(isinstance(parameter, UninitializedParameter) for parameter in model.parameters()):
            raise ProblemError(
                "has parameters whose sizes only a call tells (nn.LazyLinear and the like)",
                where=self.spec.path,
                remedy="give the sizes: nn.Linear(in_features, out_features)",
            )
        return model

    def forward_parameters(self) -> tuple[str, ...]:
        """Names of what `forward` takes, in order."""
        if self._model_class is None:
            return ()
        return tuple(inspect.signature(self._model_class.forward).parameters)[1:]

    def make_inputs_on(self, device: str, seed: int) -> list[Any]:
        """Such inputs, and other numbers for the same seed, made on this device where they are large.

        Only if the user's code does not mind: if it raises there, all is made on the CPU from then on. The file is
        executed anew for it, since it may remember tensors, and those belong where they were made.
        """
        if device == "cpu" or not self._are_large():
            return self.make_inputs(seed)
        try:
            with torch.device(device), refusing(on_gpu=True):
                return self._elsewhere.make_inputs(seed)
        except (ProblemError, RuntimeError, TypeError):
            self._large = False
            return self.make_inputs(seed)

    @functools.cached_property
    def _elsewhere(self) -> Reference:
        return Reference(self.spec, self.constants, self.batch)

    def _are_large(self) -> bool:
        if self._large is None:
            self._large = self._saved is None and self._ask_for_much()
        return self._large

    def _ask_for_much(self) -> bool:
        """Told by a draw on the CPU, which ends where it has asked for more; of the file executed anew, for its own
        code is left half-way.
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
        """Fresh inputs in the order of `forward`'s parameters; nobody else holds their memory."""
        if self.batch is None:
            return input_tensors.own_copy(self._draw_inputs(seed))
        return input_tensors.own_copy(input_tensors.with_leading(self._draw_inputs, seed, self.batch))

    def call(self, model: nn.Module, inputs: list[Any]) -> Any:
        """`model(*inputs)` in the surroundings that the user's code needs (imports inside `forward`, say)."""
        with self.running("forward"):
            return model(*inputs)

    def running(self, action: str) -> contextlib.AbstractContextManager[None]:
        """Those surroundings, for whoever calls the model in another way; errors become a `ProblemError`."""
        return self._user.running(action, remedy="the original has to run on its own inputs")

    def verify(self, inputs: list[Any], outputs: Any) -> bool:
        """The user's own judgement of the outputs."""
        check = self._function("verify")
        with self._user.running("verify(inputs, outputs)"), seeded(_INIT_SEED), torch.no_grad():
            answer = check(inputs, outputs)
        if not _is_truth(answer):
            raise ProblemError(
                f"verify returned {type(answer).__name__}, not True or False",
                where=self.spec.path,
                remedy="return a bool",
            )
        return bool(answer)

    def _draw_inputs(self, seed: int) -> list[Any]:
        with self._user.running("get_inputs()"), seeded(seed):
            if self._saved is not None:
                made: Any = self._saved
            elif self.spec.kind is ProblemKind.USER_MODULE:
                made = [input_tensors.draw(item) for item in self._sized.inputs]
            else:
                made = self._function("get_inputs")()
            made = list(made) if isinstance(made, Iterator) else made  # what is drawn on the way is drawn here
        positional = self._as_positional(made)
        self._require_plain(positional)
        return positional

    def _require_plain(self, value: Any) -> None:
        """Tensors are looked for in lists, tuples and dictionaries; a candidate has no other class of the user's."""
        if self._user.is_own(type(value)):
            raise ProblemError(
                f"get_inputs() gives a {type(value).__name__}, and a kernel's file does not have that class",
                where=self.spec.path,
                remedy="give tensors and plain values, in lists, tuples and dictionaries",
            )
        if isinstance(value, (list, tuple, Mapping)):
            for item in value.values() if isinstance(value, Mapping) else value:
                self._require_plain(item)

    def _as_positional(self, made: Any) -> list[Any]:
        if isinstance(made, torch.Tensor):
            return [made]
        if isinstance(made, (list, tuple)):
            return list(made)
        if isinstance(made, Mapping) and self._model_class is not None:
            return _by_parameter(made, self._model_class, self.spec.path)
        raise ProblemError(
            f"the inputs are a {type(made).__name__}",
            where=self.spec.inputs_file or self.spec.path,
            remedy="give a list of tensors in the order of forward's parameters",
        )

    def _find_model_class(self) -> type[nn.Module]:
        name = self.spec.class_name or "Model"
        found = self._user.get(name)
        if isinstance(found, type) and issubclass(found, nn.Module):
            return found
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


def load(spec: ProblemSpec, constants: Mapping[str, int] | None = None, *, batch: int | None = None) -> Reference:
    """Execute the problem's file, with the sizes in `constants` (keys as in `sizes.py`) written over those given."""
    return Reference(spec, constants or {}, batch)


def _is_truth(answer: Any) -> bool:
    if isinstance(answer, torch.Tensor):
        return answer.numel() == 1
    return isinstance(answer, (bool, numpy.bool_))


def _as_arguments(made: Any, model_class: type[nn.Module] | None) -> tuple[list[Any], dict[str, Any]]:
    """A list of arguments, a dict of keywords, one value, or `[[positional], {keywords}]` where that fits the class."""
    if isinstance(made, Mapping):
        return [], dict(made)
    if not isinstance(made, (list, tuple)):
        return ([] if made is None else [made]), {}
    pair = len(made) == 2 and isinstance(made[0], (list, tuple)) and isinstance(made[1], Mapping)
    if pair and model_class is not None and _takes(model_class, made[0], made[1]):
        return list(made[0]), dict(made[1])
    return list(made), {}


def _takes(model_class: type[nn.Module], positional: Any, keywords: Any) -> bool:
    try:
        inspect.signature(model_class).bind(*positional, **keywords)
    except (TypeError, ValueError):
        return False
    return True


def _by_parameter(made: Mapping[Any, Any], model_class: type[nn.Module], path: str) -> list[Any]:
    """Inputs given by name, put in the order of `forward`; parameters left out in between get their defaults."""
    try:
        bound = inspect.signature(model_class.forward).bind(None, **made)
        bound.apply_defaults()
    except (TypeError, ValueError) as error:
        remedy = "give a list of tensors in the order of forward's parameters"
        raise ProblemError(f"the inputs do not fit forward: {error}", where=path, remedy=remedy) from None
    if bound.kwargs:
        remedy = "give a list; inputs that forward takes by keyword only cannot be passed on"
        raise ProblemError(f"forward takes {', '.join(bound.kwargs)} by keyword only", where=path, remedy=remedy)
    return list(bound.args[1:])


def _load_saved(path: str) -> Any:
    remedy = "save a list of tensors and plain numbers: torch.save([x, y], path)"
    try:
        return torch.load(path, map_location=None if torch.cuda.is_available() else "cpu", weights_only=True)
    except (OSError, RuntimeError, pickle.UnpicklingError, EOFError, ValueError) as error:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise ProblemError(f"cannot be loaded: {first}", where=path, remedy=remedy) from None
