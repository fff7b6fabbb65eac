"""The guard of shipped files notices every change of a model between two calls, and nothing if there is none."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import triton
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils.flop_counter import FlopCounterMode

from triton_agent.runs.ship.copied import machinery
from triton_agent.runs.ship.copied.machinery import Watch

Change = Callable[[Any], object]


class Layer(nn.Module):
    """Has parameters of several elements, of one and of none, a buffer, and plain attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4, bias=False)
        self.norm = nn.LayerNorm(4)
        self.scale = nn.Parameter(torch.ones(1))
        self.register_buffer("steps", torch.zeros(()))
        self.dilation = [1, 2]
        self.nested = ([0.5, [1.5]], {"scale": 2.0})
        self.settings = Settings()
        self.table = torch.ones(3)


class Settings:
    """An object of the user's, which a forward may read."""

    def __init__(self) -> None:
        self.eps, self.inner = 0.5, SimpleNamespace(layers=[1, 2])


def swapped(module: nn.Module) -> None:
    """Swap the names of two parameters."""
    held = module._parameters
    held["weight"], held["bias"] = held["bias"], held["weight"]


def renamed(module: nn.Module) -> None:
    module._parameters["other"] = module._parameters.pop("bias")


def transposed(tensor: torch.Tensor) -> None:
    """Reinterpret the same memory column by column."""
    tensor.data = tensor.data.t()


CHANGES: dict[str, Change] = {
    "training": lambda layer: layer.norm.eval(),
    "an attribute": lambda layer: setattr(layer.norm, "eps", 0.5),
    "an attribute is gone": lambda layer: delattr(layer.norm, "eps"),
    "an attribute is new": lambda layer: setattr(layer.norm, "forward", lambda x: x),
    "a list": lambda layer: layer.dilation.append(3),
    "a list in a list": lambda layer: layer.nested[0][1].append(3),
    "a dictionary in a tuple": lambda layer: layer.nested[1].update(scale=3.0),
    "an object": lambda layer: setattr(layer.settings, "eps", 1.0),
    "a list in an object in an object": lambda layer: layer.settings.inner.layers.append(3),
    "a tensor that is no buffer": lambda layer: layer.table.mul_(2),
    "another parameter": lambda layer: setattr(layer.linear, "weight", nn.Parameter(torch.ones(4, 4))),
    "an equal parameter of one number": lambda layer: setattr(layer, "scale", nn.Parameter(torch.ones(1))),
    "an equal buffer of one number": lambda layer: setattr(layer, "steps", torch.zeros(())),
    "a parameter is gone": lambda layer: setattr(layer.norm, "bias", None),
    "a parameter is new": lambda layer: setattr(layer.linear, "bias", nn.Parameter(torch.ones(4))),
    "swapped parameters": lambda layer: swapped(layer.norm),
    "a renamed parameter": lambda layer: renamed(layer.norm),
    "memory elsewhere": lambda layer: setattr(layer.linear.weight, "data", torch.ones(4, 4)),
    "memory read by columns": lambda layer: transposed(layer.linear.weight),
    "memory in another shape": lambda layer: setattr(layer.linear.weight, "data", layer.linear.weight.data.view(2, 8)),
    "memory of every other number": lambda layer: setattr(layer.norm.weight, "data", layer.norm.weight.data[::2]),
    "memory of another dtype": lambda layer: setattr(layer.steps, "data", layer.steps.data.view(torch.int32)),
    "memory is freed": lambda layer: layer.norm.weight.untyped_storage().resize_(0),
    "a submodule": lambda layer: setattr(layer, "linear", nn.Linear(4, 4, bias=False)),
    "a new submodule": lambda layer: layer.norm.add_module("act", nn.GELU()),
    "a class": lambda layer: setattr(layer.norm, "__class__", nn.Identity),
}


def examined(model: nn.Module) -> Watch:
    watch = Watch(model, True)
    watch.state_of(model)
    assert not watch.differs(vars(model)) and not watch.differs(vars(model))
    return watch


@pytest.mark.parametrize("what", CHANGES)
def test_a_change_of_the_model_is_seen(what: str) -> None:
    model = nn.Sequential(Layer())
    seen = examined(model)
    CHANGES[what](model[0])
    assert seen.differs(vars(model))


@pytest.mark.parametrize("what", ["a list in a list", "an object", "a list in an object in an object"])
def test_a_model_that_was_changed_is_not_the_verified_one(what: str) -> None:
    model = nn.Sequential(Layer())
    seen = examined(model)
    assert seen.made == machinery._made_of(model)
    CHANGES[what](model[0])
    assert seen.state_of(model) is None


def test_an_error_while_a_model_is_examined_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensors of several numbers cannot be compared, so the first call after such a change ended with an error; the
    second one took the state of before the change.
    """
    model = nn.Sequential(Layer())
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    state = {name: ("parameter", tuple(t.shape), t.dtype, t.stride()) for name, t in tensors.items()}
    monkeypatch.setattr(machinery, "STATE", state)
    seen = Watch(model, True)
    assert seen.state_of(model) == tensors
    model[0].table = torch.zeros(3)
    for _ in range(2):
        with pytest.raises(machinery.NOT_PLAIN):
            seen.state_of(model)


def test_complex_numbers_that_are_conjugated_lazily_are_not_those_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machinery, "TAKES_COMPLEX", True)
    monkeypatch.setattr(machinery, "STATE", {"turns": ("buffer", (3,), torch.complex64, (1,))})
    model = nn.Module()
    model.register_buffer("turns", torch.complex(torch.ones(3), torch.ones(3)))
    seen = Watch(model, True)
    assert seen.state_of(model) is not None
    model.turns.data = model.turns.data.conj()
    assert seen.state_of(model) is None


def test_plans_read_tied_tensors_only_while_they_are_tied(monkeypatch: pytest.MonkeyPatch) -> None:
    form = ("parameter", (4, 4), torch.float32, (4, 1))
    monkeypatch.setattr(machinery, "STATE", {"0.weight": form, "1.weight": form})
    monkeypatch.setattr(machinery, "TIED", {"1.weight": "0.weight"})
    monkeypatch.setattr(machinery, "HAS_TIES", True)
    model = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False))
    model[1].weight = model[0].weight
    seen = Watch(model, True)
    assert seen.state_of(model) is not None
    model[1].weight = nn.Parameter(model[0].weight.detach().clone())
    assert seen.state_of(model) is None


def test_kernels_that_write_take_no_tensors_that_share_memory() -> None:
    x, bias = torch.ones(4, 4), torch.ones(4)
    assert not machinery._overlap({"bias": bias}, [x[:2], x[2:]])
    for shared in ([x, x], [x[:3], x[1:]], [x, bias]):
        assert machinery._overlap({"bias": bias}, shared)


class Doubling(TorchFunctionMode):
    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return function(*args, **kwargs or {}) * 2


@pytest.mark.parametrize("mode", [Doubling, lambda: FlopCounterMode(display=False)])
def test_kernels_step_aside_for_modes_that_would_not_see_them(mode: Callable[[], Any]) -> None:
    assert not machinery._is_observed()
    with mode():
        assert machinery._is_observed()
    with torch.device("cpu"):  # the same kind of mode, for a default device
        assert not machinery._is_observed()


def test_kernels_step_aside_under_another_default_dtype(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machinery, "known", {"cpu": True})
    assert machinery._may_run_on(torch.device("cpu"), True, False)
    torch.set_default_dtype(torch.float64)
    try:
        assert not machinery._may_run_on(torch.device("cpu"), True, False)
    finally:
        torch.set_default_dtype(torch.float32)


def test_memory_that_is_not_contiguous_is_known_by_its_strides() -> None:
    model = nn.Sequential(nn.Conv2d(4, 4, 4).to(memory_format=torch.channels_last))
    seen, weight = examined(model), model[0].weight
    weight.data = weight.data.transpose(2, 3)
    assert not weight.is_contiguous() and seen.differs(vars(model))


def test_new_values_are_no_change() -> None:
    model = nn.Sequential(Layer())
    seen = examined(model)
    with torch.no_grad():
        for tensor in [*model.parameters(), *model.buffers()]:
            tensor.add_(1)
    assert not seen.differs(vars(model))


SEEN_IN_GRAPHS: dict[str, Change] = {
    "training": CHANGES["training"],
    "an attribute": CHANGES["an attribute"],
    "an object": CHANGES["an object"],
    "a list in a list": CHANGES["a list in a list"],
    "a submodule is gone": lambda layer: setattr(layer, "act", None),
    "another forward": lambda layer: setattr(layer.act, "forward", lambda x: x),
    "the forward of another module": lambda layer: setattr(layer.act, "forward", layer.norm.forward),
}


@pytest.mark.slow  # starts torch.compile
@pytest.mark.parametrize("what", SEEN_IN_GRAPHS)
def test_a_compiled_graph_sees_a_change_of_the_model(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    layer = Layer()
    layer.act = nn.GELU()
    del layer.table
    model = nn.Sequential(layer)
    model._watch = Watch(model, True)
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    state = {name: ("parameter", tuple(t.shape), t.dtype, t.stride()) for name, t in tensors.items()}
    monkeypatch.setattr(machinery, "STATE", state)
    torch.compiler.reset()

    def asked(x: torch.Tensor) -> tuple[torch.Tensor, bool]:
        try:
            return x + 1, machinery._traced_state(model) is not None
        except machinery.NOT_PLAIN:
            return x + 1, False

    compiled = torch.compile(asked, backend="eager", fullgraph=True)
    assert compiled(torch.ones(2))[1]
    SEEN_IN_GRAPHS[what](layer)
    assert not compiled(torch.ones(2))[1]


@pytest.mark.slow  # starts torch.compile
def test_a_compiled_graph_of_a_function_that_torch_func_transforms_needs_operators() -> None:
    torch.compiler.reset()

    def asked(x: torch.Tensor) -> torch.Tensor:
        return x + int(machinery._needs_operators())

    assert torch.compile(asked, backend="eager", fullgraph=True)(torch.zeros(2)).tolist() == [0, 0]
    assert torch.compile(torch.vmap(asked), backend="eager", fullgraph=True)(torch.zeros(2)).tolist() == [1, 1]


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> str:
    """Replace the GPU that torch reports; return its name."""
    card = SimpleNamespace(name="NVIDIA H200", major=9, minor=0)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda place: card)
    monkeypatch.setattr(machinery, "known", {})
    return card.name


@pytest.mark.slow  # starts torch.compile
@pytest.mark.parametrize(("measured", "tf32", "may"), [(True, False, True), (True, True, False), (False, False, False)])
def test_a_compiled_graph_can_ask_where_kernels_were_measured(
    gpu: str, measured: bool, tf32: bool, may: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `fullgraph=True` a call that torch.compile cannot trace is an error, but only on measured GPUs."""
    versions = [".".join(text.split(".")[:2]) for text in (torch.__version__, triton.__version__)]
    monkeypatch.setattr(machinery, "MEASURED", {(gpu, (9, 0), *versions): measured})
    monkeypatch.setattr(machinery, "TF32", tf32)
    torch.compiler.reset()

    def asked(x: torch.Tensor) -> tuple[torch.Tensor, bool]:
        return x + 1, machinery._may_run_on(torch.device("cuda", 0), False, True)

    assert torch.compile(asked, backend="eager", fullgraph=True)(torch.ones(2))[1] is may


def test_an_unknown_gpu_is_named_once_and_runs_the_reference(gpu: str) -> None:
    with pytest.warns(UserWarning, match=f"not measured on .*{gpu}.*: here the reference runs"):
        assert not machinery._is_fit(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not machinery._is_fit(0)


def test_kernels_that_add_up_in_any_order_step_aside_where_determinism_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(machinery, "known", {"cpu": True})
    monkeypatch.setattr(machinery, "ORDER_IS_FREE", True)
    monkeypatch.setattr(torch, "are_deterministic_algorithms_enabled", lambda: asked)
    for asked in (True, False):
        assert machinery._may_run_on(torch.device("cpu"), True, False) is not asked


def test_kernels_that_the_interpreter_cannot_run_are_not_asked_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton.knobs.runtime, "interpret", True)
    monkeypatch.setattr(machinery, "known", {})
    assert machinery._is_fit("cpu")
    monkeypatch.setattr(machinery, "known", {})
    monkeypatch.setattr(machinery, "CALLS_LIBDEVICE", True)
    with pytest.warns(UserWarning, match="Triton's interpreter has no libdevice: here the reference runs"):
        assert not machinery._is_fit("cpu")
