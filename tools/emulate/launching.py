"""Binds a launch: its arguments as the kernel receives them, its grid, its options.

Arguments are converted like in a GPU's launcher: floats become float32 and keep that type in operations with narrower
tensors, integers the narrowest type that holds them, one a constant, booleans `int1`, and a tensor a pointer that knows
its extent. Unknown options, and grids that a GPU would refuse, raise errors.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
import triton
import triton.language as tl
import triton.runtime.interpreter as stock
from triton.runtime.jit import _normalize_ty, mangle_type
from triton.tools.tensor_descriptor import TensorDescriptor

from triton_agent.tools.emulate.blocks import ORIGIN
from triton_agent.tools.emulate.bounds import Extent, extent_of
from triton_agent.tools.emulate.faults import Unsupported

_SCALAR_TYPES = frozenset(["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "fp16", "bf16", "fp32", "fp64"])
_OPTIONS_BESIDE_THE_COMPILERS = frozenset(("debug", "instrumentation_mode"))


@dataclasses.dataclass(slots=True, kw_only=True)
class BoundArguments:
    """One launch's arguments by parameter name."""

    host: dict[str, Any]
    """As passed by the host code."""
    device: dict[str, Any]
    """As received by the kernel."""
    extents: list[Extent]


def bind(
    function: Any,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    *,
    constant: Callable[[int], Any] = int,
    unspecialized: Collection[str] = (),
) -> BoundArguments:
    """Separate options from arguments, and convert the arguments for the kernel.

    Arguments of one become constants, as in a compiled kernel, except those that must not be specialised.
    """
    signature = _signature(function)
    own = {name: value for name, value in kwargs.items() if name in signature.parameters}
    _check_options({name: value for name, value in kwargs.items() if name not in own})
    bound = signature.bind(*args, **own)
    bound.apply_defaults()
    host = {name: tl.core._unwrap_if_constexpr(value) for name, value in bound.arguments.items()}
    extents: list[Extent] = []
    device = {name: _parameter(name, host[name], signature.parameters[name].annotation, extents) for name in host}
    plain = [name for name in host if signature.parameters[name].annotation is inspect.Parameter.empty]
    ones = [name for name in plain if type(host[name]) is int and host[name] == 1 and name not in unspecialized]
    device |= {name: constant(1) for name in ones}
    return BoundArguments(host=host, device=device, extents=extents)


_signature = functools.lru_cache(maxsize=64)(inspect.signature)


def _check_options(options: Mapping[str, Any]) -> None:
    known = _compiler_options()
    unknown = sorted(set(options) - known - _OPTIONS_BESIDE_THE_COMPILERS) if known else []
    if unknown:
        raise KeyError(f"Keyword argument {unknown[0]} was specified but unrecognised")
    num_warps = options.get("num_warps", 4)
    if num_warps < 1 or num_warps & (num_warps - 1) or num_warps > 32:
        raise ValueError(f"num_warps must be a power of two up to 32, not {num_warps}")


@functools.cache
def _compiler_options() -> frozenset[str]:
    """Return the names of options that NVIDIA's compiler accepts; empty if it is not installed, which disables the
    check."""
    try:
        from triton.backends.nvidia.compiler import CUDAOptions
    except ImportError:
        return frozenset()
    return frozenset(field.name for field in dataclasses.fields(CUDAOptions))


def _parameter(name: str, value: Any, annotation: Any, extents: list[Extent]) -> Any:
    declared = "" if annotation is inspect.Parameter.empty else _normalize_ty(annotation)
    if "constexpr" in declared:
        return value
    return _on_device(name, value, declared if declared in _SCALAR_TYPES else "", extents)


def _on_device(name: str, value: Any, declared: str, extents: list[Extent]) -> Any:
    if isinstance(value, (bool, int, float)):
        return _scalar(value, declared or ("fp32" if isinstance(value, float) else mangle_type(value)))
    if isinstance(value, TensorDescriptor):
        return _descriptor(name, value, extents)
    if hasattr(value, "data_ptr"):
        return _pointer(name, value, extents)
    if isinstance(value, tuple):
        items = [_on_device(f"{name}[{i}]", item, "", extents) for i, item in enumerate(value)]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


def _scalar(value: bool | int | float, type_name: str) -> Any:
    element = tl.str_to_ty(type_name, None)
    if element == tl.bfloat16:
        return tl.tensor(stock.interpreter_builder.get_bf16(value), element)
    kind = stock._get_np_dtype(element)
    if kind.kind in "iu" and not np.iinfo(kind).min <= value <= np.iinfo(kind).max:
        raise OverflowError(f"{value} does not fit {type_name}")
    return tl.tensor(stock.TensorHandle(np.array([value], kind), element), element)


def _pointer(name: str, tensor: Any, extents: list[Extent]) -> Any:
    element = tl.str_to_ty(mangle_type(tensor), None)
    storage = tensor.base if isinstance(tensor, triton.runtime.jit.TensorWrapper) else tensor
    if storage.device.type != "cpu":
        raise Unsupported(f"a launch on a tensor in the memory of {storage.device}")
    start, end = extent_of(storage)
    dtype = str(storage.dtype).removeprefix("torch.")
    item_bytes = storage.element_size()
    extents.append(
        Extent(name=name, dtype=dtype, shape=tuple(storage.shape), start=start, end=end, item_bytes=item_bytes)
    )
    handle = stock.TensorHandle(np.array([start], np.uint64), element, {ORIGIN: len(extents) - 1})
    return tl.tensor(handle, element)


def _descriptor(name: str, value: Any, extents: list[Extent]) -> Any:
    """Convert a tensor descriptor made on the host into one made in the kernel from the same numbers."""
    whole = [_on_device(name, size, "", extents) for size in (*value.shape, *value.strides[:-1])]
    rank = len(value.shape)
    descriptor = stock.interpreter_semantic.make_tensor_descriptor(
        base=_pointer(name, value.base, extents),
        shape=whole[:rank],
        strides=[*whole[rank:], tl.constexpr(1)],
        block_shape=[tl.constexpr(size) for size in value.block_shape],
        padding_option=value.padding,
    )
    descriptor.handle.rounds_to_tf32 = getattr(value, "round_f32_to_tf32", False)  # not in Triton 3.6
    return descriptor
