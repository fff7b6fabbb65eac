"""The float64 truth: the reference run with every float lifted to float64.

`.double()` is not enough: a module may cast inside (`x.float()`) or create float32 constants. A dispatch mode lifts
those too. If an operator has no float64 version, or a module reinterprets bits, `run_lifted` returns None. The
reference in its own precision then serves as the truth, and the caller has to report that.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from triton_agent.tools.dispatch_modes import UncompiledMode
from triton_agent.tools.graph.module_attributes import beside_classes
from triton_agent.tools.reference.index_bounds import refusing_on_gpu
from triton_agent.tools.reference.input_tensors import map_tensors
from triton_agent.tools.reference.module_copy import copied_module
from triton_agent.tools.truth.random_rounding import Moved

LIFTED = {
    **dict.fromkeys((torch.float32, torch.float16, torch.bfloat16), torch.float64),
    **dict.fromkeys((torch.complex64, torch.complex32), torch.complex128),
}
"""The wider dtype that replaces each lower one."""


class Lift(UncompiledMode):  # type: ignore[no-untyped-call]
    """Replaces every request for a lower float dtype by float64."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if kwargs.get("dtype") in LIFTED:
            kwargs["dtype"] = LIFTED[kwargs["dtype"]]
        args = tuple(LIFTED.get(arg, arg) if isinstance(arg, torch.dtype) else arg for arg in args)
        if func is torch.ops.aten.lift_fresh.default and args[0].dtype in LIFTED:
            return func(_lift(args[0]))
        if func is torch.ops.aten.fake_quantize_per_channel_affine_cachemask.default:
            args = (args[0], args[1].float(), *args[2:])  # the steps may not be float64
        return func(*args, **kwargs)


@contextlib.contextmanager
def lifting() -> Iterator[None]:
    """Make floats inside float64, default dtype included."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with Lift(), torch.no_grad():  # type: ignore[no-untyped-call]
            yield
    finally:
        torch.set_default_dtype(before)


def lift_value(value: Any) -> Any:
    """Return a float64 copy of nested inputs; a tensor that occurs twice stays one tensor."""
    copies: dict[int, torch.Tensor] = {}

    def copied(tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) not in copies:
            copies[id(tensor)] = _double(tensor.detach())
        return copies[id(tensor)]

    return map_tensors(value, copied)


def _double(tensor: torch.Tensor) -> torch.Tensor:
    return _lift(tensor).clone()


def _lift(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.is_complex():
        return tensor.to(torch.complex128)
    return tensor.double() if tensor.is_floating_point() else tensor


@contextlib.contextmanager
def _lifted_globals(model: torch.nn.Module) -> Iterator[None]:
    """Make the tensors at the top level of the problem's file float64 inside."""
    before = [(space, name, space[name]) for space, name in beside_classes(model)]
    try:
        for space, name, value in before:
            space[name] = _double(value.detach())
        yield
    finally:
        for space, name, value in before:
            space[name] = value


def run_lifted(
    model: torch.nn.Module, args: list[Any], *, nudge: Moved | None = None
) -> tuple[Any, torch.nn.Module, list[Any]] | None:
    """Return the outputs in float64, and the lifted module and inputs after the call; None without float64."""
    try:
        with lifting():
            # `double` leaves complex parameters alone.
            exact = copied_module(model)._apply(_lift)  # type: ignore[no-untyped-call]
            # `double` leaves alone the tensors that modules hold as plain attributes.
            for module in exact.modules():
                for name, value in vars(module).items():
                    if isinstance(value, torch.Tensor) and value.dtype in LIFTED:
                        vars(module)[name] = _lift(value)
            inputs = lift_value(args)
            if nudge is not None:
                inputs = nudge(inputs)
                for parameter in exact.parameters():
                    parameter.data = nudge(parameter.detach())
            with (
                _lifted_globals(exact),
                refusing_on_gpu(inputs),
                nudge.arithmetic() if nudge is not None else contextlib.nullcontext(),
            ):
                return exact(*inputs), exact, inputs
    except (RuntimeError, TypeError, ValueError, AssertionError, AttributeError, LookupError):
        return None
