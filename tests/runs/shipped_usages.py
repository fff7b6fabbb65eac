"""Uses a shipped file in every way that a module can be used, beside the reference, and prints the results as JSON.

    python shipped_usages.py SHIPPED PROBLEM MODE [DEVICE]

A script for a separate process, with `TRITON_INTERPRET=1` if there is no GPU; it needs torch and triton only. MODE is
"never" (a draft as it is shipped), "always" (its kernels switched on), "verified" (as if on the GPU of the
measurement), "measured" (on that GPU), or "replayed" (there, and each call is made three times, since a file with CUDA
graphs replays the third).
"""

from __future__ import annotations

import copy
import functools
import importlib.util
import io
import json
import pickle
import sys
import types
import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import parametrize
from torch.utils.flop_counter import FlopCounterMode

Use = Callable[[nn.Module, list[torch.Tensor]], Any]
USES: dict[str, Use] = {}
KERNEL_CALLS, REPLAYS = [0], [0]
DEVICE = "cpu"


def load(path: str, name: str) -> types.ModuleType:
    specification = importlib.util.spec_from_file_location(name, path)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module
    specification.loader.exec_module(module)
    return module


def use(name: str) -> Callable[[Use], Use]:
    def kept(function: Use) -> Use:
        USES[name] = function
        return function

    return kept


def quiet(name: str) -> Callable[[Use], Use]:
    """Wrap a use in `no_grad`."""

    def kept(function: Use) -> Use:
        USES[name] = functools.wraps(function)(torch.no_grad()(function))
        return function

    return kept


# -- calls -------------------------------------------------------------------------------------------------------------


@quiet("plain call")
def _(model, inputs):
    return model(*inputs)


@quiet("two calls")
def _(model, inputs):
    model(*inputs)
    return model(*inputs)


@quiet("arguments by name")
def _(model, inputs):
    names = list(model.forward.__wrapped__.__code__.co_varnames if hasattr(model.forward, "__wrapped__") else ())
    names = names or list(model.forward.__code__.co_varnames)
    return model(**dict(zip(names[1:], inputs)))


@use("inference mode")
def _(model, inputs):
    with torch.inference_mode():
        return model(*inputs).clone()


@use("gradients to parameters")
def _(model, inputs):
    model(*inputs).float().sum().backward()
    return [parameter.grad for parameter in model.parameters()]


@use("gradients to inputs")
def _(model, inputs):
    inputs = [value.clone().requires_grad_() for value in inputs]
    model(*inputs).float().sum().backward()
    return [value.grad for value in inputs]


@quiet("autocast")
def _(model, inputs):
    with torch.autocast(DEVICE, dtype=torch.bfloat16):
        return model(*inputs)


@quiet("vmap")
def _(model, inputs):
    return torch.vmap(model)(*(torch.stack([value, value * 2]) for value in inputs))


@quiet("functional call under vmap")
def _(model, inputs):
    state = {name: torch.stack([value, value * 2]) for name, value in model.named_parameters()}
    return torch.vmap(lambda own: torch.func.functional_call(model, own, tuple(inputs)))(state)


@use("torch.func.grad")
def _(model, inputs):
    return torch.func.grad(lambda first: model(first, *inputs[1:]).float().sum())(inputs[0])


@quiet("other shape")
def _(model, inputs):
    return model(*(value[:5].contiguous() for value in inputs))


@quiet("not contiguous")
def _(model, inputs):
    return model(*(value.t().contiguous().t() for value in inputs))


@quiet("no elements")
def _(model, inputs):
    return model(*(value[:0] for value in inputs))


@quiet("other dtype")
def _(model, inputs):
    return model.float()(*(value.float() for value in inputs))


@quiet("tensor subclass")
def _(model, inputs):
    tagged = type("Tagged", (torch.Tensor,), {})
    return model(*(value.as_subclass(tagged) for value in inputs)).as_subclass(torch.Tensor)


@quiet("parameters as inputs")
def _(model, inputs):
    return model(*map(nn.Parameter, inputs))


@quiet("meta tensors")
def _(model, inputs):
    return list(model.to("meta")(*(value.to("meta") for value in inputs)).shape)


@quiet("deterministic algorithms")
def _(model, inputs):
    torch.use_deterministic_algorithms(True)
    try:
        return model(*inputs)
    finally:
        torch.use_deterministic_algorithms(False)


@quiet("eval mode")
def _(model, inputs):
    return model.eval()(*inputs)


@quiet("memory that is not aligned")
def _(model, inputs):
    shifted = [value.new_empty(value.numel() + 1)[1:].view_as(value).copy_(value) for value in inputs]
    return model(*shifted)


@quiet("captured in a CUDA graph")
def _(model, inputs):
    if DEVICE == "cpu":
        return model(*inputs)
    model(*inputs)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = model(*inputs)
    for value in inputs:
        value.mul_(2)
    graph.replay()
    return result


@quiet("on a side stream")
def _(model, inputs):
    if DEVICE == "cpu":
        return model(*inputs)
    model(*inputs)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        result = model(*inputs)
    stream.synchronize()
    return result


# -- tracers and compilers ---------------------------------------------------------------------------------------------


@quiet("torch.compile")
def _(model, inputs):
    return torch.compile(model, backend="eager", fullgraph=True)(*inputs)


@quiet("torch.compile, new weights")
def _(model, inputs):
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    compiled(*inputs)
    for parameter in model.parameters():
        parameter.data.mul_(2.0)
    return compiled(*inputs)


@use("torch.compile, gradients")
def _(model, inputs):
    torch.compile(model, backend="aot_eager", fullgraph=True)(*inputs).float().sum().backward()
    return [parameter.grad for parameter in model.parameters()]


@quiet("torch.compile, inductor")
def _(model, inputs):
    if DEVICE == "cpu":  # needs a C++ compiler there
        return torch.compile(model, backend="aot_eager", fullgraph=True)(*inputs)
    return torch.compile(model, fullgraph=True)(*inputs)


@quiet("torch.compile, not aligned")
def _(model, inputs):
    shifted = [value.new_empty(value.numel() + 1)[1:].view_as(value).copy_(value) for value in inputs]
    return torch.compile(model, backend="aot_eager", fullgraph=True)(*shifted)


@quiet("torch.compile, hook on a part")
def _(model, inputs):
    torch.compiler.reset()  # graphs of other models without hooks would be taken
    next(model.children()).register_forward_hook(lambda module, given, result: result + 1)
    return torch.compile(model, backend="eager", fullgraph=True)(*inputs)


@quiet("torch.compile, other shapes")
def _(model, inputs):
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    return [compiled(*(value[:rows] for value in inputs)) for rows in (5, 7)]


@quiet("torch.export")
def _(model, inputs):
    return torch.export.export(model, tuple(inputs)).module()(*inputs)


@quiet("torch.export, any size")
def _(model, inputs):
    any_size = [{0: torch.export.Dim("rows", min=2, max=64)}] * len(inputs)
    program = torch.export.export(model, tuple(inputs), dynamic_shapes=any_size).module()
    return [program(*inputs), program(*(value[:5] for value in inputs))]


@quiet("torch.compile, sizes marked as dynamic")
def _(model, inputs):
    torch.compiler.reset()  # a graph of these sizes would be taken
    for value in inputs:
        torch._dynamo.mark_dynamic(value, 0)
    return torch.compile(model, backend="eager", fullgraph=True)(*inputs)


@quiet("torch.compile, hook on all modules")
def _(model, inputs):
    torch.compiler.reset()
    handle = nn.modules.module.register_module_forward_hook(lambda module, given, result: result + 1)
    try:
        model.compile(backend="eager", fullgraph=True)
        return model(*inputs)
    finally:
        handle.remove()


@quiet("make_fx")
def _(model, inputs):
    graph = make_fx(lambda first: model(first, *inputs[1:]))(inputs[0])
    return graph(inputs[0] * 2)


@quiet("torch.func.functionalize")
def _(model, inputs):
    return torch.func.functionalize(model)(*inputs)


@quiet("operators counted")
def _(model, inputs):
    with FlopCounterMode(display=False) as counter:
        return [model(*inputs), counter.get_total_flops()]


@quiet("another default dtype")
def _(model, inputs):
    torch.set_default_dtype(torch.float64)
    try:
        return model(*inputs)
    finally:
        torch.set_default_dtype(torch.float32)


@quiet("torch.jit.trace")
def _(model, inputs):
    return torch.jit.trace(model, tuple(inputs), check_trace=False)(*inputs)


@quiet("torch.fx")
def _(model, inputs):
    return torch.fx.symbolic_trace(model)(*inputs)


# -- copies and weights ------------------------------------------------------------------------------------------------


@quiet("deepcopy")
def _(model, inputs):
    model(*inputs)
    copied = copy.deepcopy(model)
    for parameter in model.parameters():
        parameter.data.zero_()
    return copied(*inputs)


@quiet("pickle")
def _(model, inputs):
    model(*inputs)
    return pickle.loads(pickle.dumps(model))(*inputs)


@quiet("torch.save")
def _(model, inputs):
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    return torch.load(file, weights_only=False)(*inputs)


@quiet("load_state_dict")
def _(model, inputs):
    model(*inputs)
    model.load_state_dict({name: value * 3 for name, value in model.state_dict().items()})
    return model(*inputs)


@quiet("load_state_dict, assigned")
def _(model, inputs):
    model(*inputs)
    model.load_state_dict({name: value * 3 for name, value in model.state_dict().items()}, assign=True)
    return model(*inputs)


@quiet("weights written in place")
def _(model, inputs):
    model(*inputs)
    for parameter in model.parameters():
        parameter.data.copy_(parameter.data * 2)
    return model(*inputs)


@use("optimizer step")
def _(model, inputs):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.25)
    model(*inputs).float().mean().backward()
    optimizer.step()
    with torch.no_grad():
        return model(*inputs)


@quiet("to another dtype and back")
def _(model, inputs):
    dtype = next(model.parameters()).dtype
    model(*inputs)
    return model.float().to(dtype)(*inputs)


@quiet("memory of a parameter turned")
def _(model, inputs):
    model(*inputs)
    first = next(model.children())
    first.weight.data = torch.stack([first.weight.data, first.weight.data * 2], 1)[:, 1]
    return model(*inputs)


@quiet("memory of a parameter read otherwise")
def _(model, inputs):
    model(*inputs)
    first = next(model.children())
    first.weight.data = first.weight.data.view(torch.bfloat16)
    return model.half()(*inputs)


@quiet("replaced parameter")
def _(model, inputs):
    model(*inputs)
    first = next(model.children())
    first.weight = nn.Parameter(first.weight.detach() * 2)
    return model(*inputs)


# -- changed modules ---------------------------------------------------------------------------------------------------


@quiet("forward hook on the model")
def _(model, inputs):
    model.register_forward_hook(lambda module, given, result: result + 1)
    return model(*inputs)


@use("backward hook on the model")
def _(model, inputs):
    seen = []
    model.register_full_backward_hook(lambda module, into, out: seen.append(out[0].clone()))
    model(*inputs).float().sum().backward()
    return seen


@quiet("forward hook on a part")
def _(model, inputs):
    next(model.children()).register_forward_hook(lambda module, given, result: result + 1)
    return model(*inputs)


@quiet("hook on a part, removed")
def _(model, inputs):
    next(model.children()).register_forward_hook(lambda module, given, result: result + 1).remove()
    return model(*inputs)


@quiet("hook on all modules")
def _(model, inputs):
    handle = nn.modules.module.register_module_forward_hook(lambda module, given, result: result + 1)
    try:
        return model(*inputs)
    finally:
        handle.remove()


@quiet("hook on a part after a call")
def _(model, inputs):
    model(*inputs)
    next(model.children()).register_forward_pre_hook(lambda module, given: tuple(value + 1 for value in given))
    return model(*inputs)


@quiet("part in another mode after a call")
def _(model, inputs):
    model(*inputs)
    next(model.children()).eval()
    return model(*inputs)


@quiet("parameter added to a part")
def _(model, inputs):
    model(*inputs)
    next(model.children()).register_parameter("more", nn.Parameter(torch.ones(3)))
    return model(*inputs)


@quiet("shallow copy")
def _(model, inputs):
    model(*inputs)
    return copy.copy(model)(*inputs)


@quiet("attribute of a part changed")
def _(model, inputs):
    model(*inputs)
    next(model.children()).eps = 1.0
    return model(*inputs)


@quiet("forward of a part replaced")
def _(model, inputs):
    next(model.children()).forward = lambda value: value + 1
    return model(*inputs)


@quiet("part replaced")
def _(model, inputs):
    model(*inputs)
    name = next(name for name, _ in model.named_children())
    setattr(model, name, nn.Identity())
    return model(*inputs)


@quiet("part in another mode")
def _(model, inputs):
    next(model.children()).eval()
    return model(*inputs)


@quiet("parametrized part")
def _(model, inputs):
    parametrize.register_parametrization(next(model.children()), "weight", nn.Identity())
    return model(*inputs)


@quiet("subclass of the model")
def _(model, inputs):
    kind = type("Mine", (type(model),), {"forward": lambda self, *args: super(kind, self).forward(*args) * 2})
    model.__class__ = kind
    return model(*inputs)


@use("DistributedDataParallel")
def _(model, inputs):
    if not torch.distributed.is_initialized():
        store = torch.distributed.HashStore()
        torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    wrapped = DistributedDataParallel(model)
    wrapped(*inputs).float().sum().backward()
    with torch.no_grad():
        return [wrapped(*inputs), *(parameter.grad for parameter in model.parameters())]


# -- both beside each other --------------------------------------------------------------------------------------------


def flat(value: Any) -> list[Any]:
    return [leaf for item in value for leaf in flat(item)] if isinstance(value, (list, tuple)) else [value]


def same(a: Any, b: Any) -> bool:
    """Compare bit by bit."""
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return a.dtype == b.dtype and a.stride() == b.stride() and torch.equal(a, b)
    return bool(a == b)


def close(a: Any, b: Any) -> bool:
    return bool(torch.allclose(a.float(), b.float(), rtol=1e-2, atol=1e-2)) if isinstance(a, torch.Tensor) else a == b


def compare(function: Use, original: nn.Module, shipped: nn.Module, inputs: list[torch.Tensor]) -> dict[str, Any]:
    copies = [[value.clone() for value in inputs] for _ in range(2)]
    wanted = flat(function(original, copies[0]))
    KERNEL_CALLS[0] = REPLAYS[0] = 0
    got = flat(function(shipped, copies[1]))
    return {
        "kernel_calls": KERNEL_CALLS[0],
        "replays": REPLAYS[0],
        "same": len(got) == len(wanted) and all(map(same, got, wanted)),
        "close": len(got) == len(wanted) and all(map(close, got, wanted)),
    }


def counted(plan: Callable[..., Any], count: list[int]) -> Callable[..., Any]:
    @functools.wraps(plan)
    def call(*args: Any) -> Any:
        count[0] += 1
        return plan(*args)

    return call


def three_times(forward: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(forward)
    def call(*args: Any, **kwargs: Any) -> Any:
        return [forward(*args, **kwargs) for _ in range(3)][-1]

    call.__wrapped__ = forward.__wrapped__  # the reference's, whose signature the model has
    return call


def main(shipped_path: str, problem_path: str, mode: str, device: str = "cpu") -> None:
    global DEVICE
    DEVICE = device
    warnings.simplefilter("error")  # a shipped file has nothing to warn of here
    for harmless in (DeprecationWarning, FutureWarning, UserWarning):
        warnings.filterwarnings("ignore", category=harmless, module=r"torch\..*|copyreg|.*_jit.*")
    warnings.filterwarnings(
        "ignore", message=".*(leaf Tensor|torch.jit|TorchScript|Converting a tensor|Full backward).*"
    )
    shipped, problem = load(shipped_path, "shipped_file"), load(problem_path, "problem_file")
    for name, (plan, *forms) in list(shipped.CALLS.items()):
        shipped.CALLS[name] = (counted(plan, KERNEL_CALLS), *forms)
        setattr(shipped, name, shipped.CALLS[name][0])
    shipped.ModelNew.use_kernels = "verified" if mode in ("measured", "replayed") else mode
    if mode == "replayed":
        shipped.ModelNew.forward = three_times(shipped.ModelNew.forward)
        shipped.Replay.__call__ = counted(shipped.Replay.__call__, REPLAYS)
    if mode == "verified":  # as if the GPU were the one that was measured on
        ask = shipped._may_run_on
        shipped._may_run_on = lambda device, forced, traced: ask(device, True, traced)
    report = {}
    for name, function in USES.items():
        models = []
        for kind in (problem.Model, shipped.Model):
            torch.manual_seed(3)
            models.append(kind(*problem.get_init_inputs()).to(device))
        torch.manual_seed(5)
        try:
            report[name] = compare(function, *models, [value.to(device) for value in problem.get_inputs()])
        except Exception as error:  # one broken use must not hide the others
            report[name] = {"raised": f"{type(error).__name__}: {error}"[:600]}
    print("\n" + json.dumps(report))


if __name__ == "__main__":
    main(*sys.argv[1:])
