"""Tensors on the wire: raw bytes with a description, and nested structures of tensors as plain data.

The description may come from an untrusted process; `unpack` checks it against the bytes before it builds a tensor. When
a candidate's values are inspected, none of its code runs: containers are read with the methods of their plain base
classes, and tensors with torch's own, even if a subclass or an object overrides them.
"""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Sequence
from typing import Any

import torch

from triton_agent.tools.processes.protocol import SentTensor

DTYPES: dict[str, torch.dtype] = {
    name: getattr(torch, name)
    for name in (
        *("float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"),
        *("complex64", "complex128", "uint16", "uint32", "uint64"),
        *("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"),
    )
    if hasattr(torch, name)
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}


class Malformed(Exception):
    """The description does not match the bytes."""


class Foreign(Exception):
    """A value that cannot be an output: neither a plain tensor, nor plain data, nor a nest of these."""


UNREADABLE = (Foreign, RuntimeError, NotImplementedError, TypeError, AttributeError)
"""Exceptions raised when an output is not what it claims to be."""


def own_view(tensor: torch.Tensor) -> torch.Tensor:
    """Return a plain tensor over the same memory; attributes of the candidate's object could hide methods."""
    return torch.Tensor.detach(tensor)


def describe(tensor: torch.Tensor) -> SentTensor:
    """Return the description of a tensor for a message."""
    return SentTensor(dtype=NAMES.get(tensor.dtype, str(tensor.dtype)), shape=tuple(tensor.shape))


def is_expanded(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Return True if several elements share one place in memory."""
    return 0 not in shape and any(stride == 0 and size > 1 for size, stride in zip(shape, strides))


def row(tensor: torch.Tensor) -> torch.Tensor:
    """Return the values as row-major bytes, in place; they are copied only for another order or a lazy sign."""
    if tensor.layout is not torch.strided or tensor.device.type == "meta" or tensor.is_quantized:
        raise Foreign(f"a {tensor.layout} tensor on {tensor.device}")
    flat = own_view(tensor).resolve_conj().resolve_neg().contiguous().reshape(-1)
    if flat.numel() == 1:  # a single element is contiguous with any stride, and torch refuses to view it as bytes
        flat = flat.as_strided((1,), (1,))
    return flat.view(torch.uint8) if flat.numel() else torch.empty(0, dtype=torch.uint8, device=flat.device)


def unpack(description: SentTensor, data: torch.Tensor) -> torch.Tensor:
    """Return a tensor of this description as a view of the row of bytes; raise Malformed if they do not match."""
    dtype, shape = DTYPES.get(description.dtype), list(description.shape)
    if dtype is None:
        raise Malformed(f"not a dtype of a tensor: {description.dtype[:80]}")
    if any(size < 0 for size in shape):
        raise Malformed("a negative size")
    count = math.prod(shape)
    if count * dtype.itemsize != data.numel():
        raise Malformed(f"{data.numel()} bytes cannot be {description.dtype}{shape}")
    try:
        return data.view(dtype).reshape(shape) if count else torch.empty(shape, dtype=dtype)
    except (RuntimeError, TypeError) as error:  # sizes beyond any memory
        raise Malformed(f"not a shape: {shape}") from error


def flatten(value: Any, on_tensor: Callable[[torch.Tensor], Any], kinds: tuple[type, ...] = ()) -> Any:
    """Return `value` as plain data with `on_tensor(t)` for each tensor `t`; instances of `kinds` are tensors, too."""
    if type(value) in (torch.Tensor, torch.nn.Parameter, *kinds):
        return {"tensor": on_tensor(value)}
    if value is None or type(value) in (bool, int, str):
        return {"value": value}
    if type(value) is float:
        return {"float": repr(value)}
    if isinstance(value, dict):
        return {"dict": [[_key(key), flatten(item, on_tensor, kinds)] for key, item in dict.items(value)]}
    if isinstance(value, list):
        return {"list": [flatten(item, on_tensor, kinds) for item in list.__iter__(value)]}
    if isinstance(value, tuple):
        return {"tuple": [flatten(item, on_tensor, kinds) for item in tuple.__iter__(value)]}
    if isinstance(value, torch.Tensor):
        raise Foreign(f"a tensor subclass ({type(value).__name__})")
    fields = getattr(value, "__dataclass_fields__", None)
    if fields is not None and not isinstance(value, type):
        return {"dict": [[name, flatten(_field(value, name), on_tensor, kinds)] for name in dict.__iter__(fields)]}
    raise Foreign(f"a {type(value).__name__}")


def _key(key: Any) -> str:
    if isinstance(key, str):
        return str.__str__(key)
    if key is None or type(key) in (bool, int, float):
        return str(key)
    raise Foreign(f"a key that is a {type(key).__name__}")


def _field(value: Any, name: str) -> Any:
    """Return the value stored in an object under this name, ignoring properties and other computed attributes."""
    place = next((kind.__dict__[name] for kind in type(value).__mro__ if name in kind.__dict__), None)
    if isinstance(place, types.MemberDescriptorType):
        return place.__get__(value)
    held = object.__getattribute__(value, "__dict__")
    if name not in held or hasattr(type(place), "__set__"):
        raise Foreign(f"a {type(value).__name__} that does not hold its {name}")
    return held[name]


def refill(old: Any, new: Any) -> Any:
    """Return the old nest with the new values, reusing the old tensors where they fit."""
    if isinstance(old, torch.Tensor) and isinstance(new, torch.Tensor) and old.shape == new.shape:
        repeated = [dim for dim, stride in enumerate(torch.Tensor.stride(old)) if stride == 0 and old.shape[dim] > 1]
        if any(new.stride(dim) != 0 for dim in repeated):
            return new  # an expanded tensor cannot hold different values in repeated elements
        target = old.data  # unlike old.copy_, this does not change the version counter
        for dim in repeated:
            target, new = target.narrow(dim, 0, 1), new.narrow(dim, 0, 1)
        target.copy_(new)
        return old
    if isinstance(old, (list, tuple)) and isinstance(new, (list, tuple)):
        return type(old)(refill(a, b) for a, b in zip(old, new))
    if isinstance(old, dict) and isinstance(new, dict):
        return {key: refill(old[key], new[key]) for key in new}
    return new


def nested_tensors(value: Any) -> list[torch.Tensor]:
    """Return the tensors of a nest, in order."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in nested_tensors(item)]
    if isinstance(value, dict):
        return [tensor for item in value.values() for tensor in nested_tensors(item)]
    fields = getattr(value, "__dataclass_fields__", None)
    if fields is not None and not isinstance(value, type):
        return [tensor for name in fields for tensor in nested_tensors(getattr(value, name))]
    return []


def float_tensors(value: Any) -> list[torch.Tensor]:
    """Return the tensors of a nest that hold floats, without empty ones."""
    return [tensor for tensor in nested_tensors(value) if tensor.is_floating_point() and tensor.numel()]


def real_valued(value: Any) -> list[torch.Tensor]:
    """Return the tensors of a nest that hold floats or complex numbers, the latter as pairs, without empty ones."""
    return float_tensors(real_parts(nested_tensors(value)))


def real_parts(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Return the tensors, with complex ones as views of pairs of real numbers."""
    return [torch.view_as_real(it) if it.is_complex() and not it.is_conj() else it for it in tensors]


def aliases(outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor], model: torch.nn.Module) -> list[list[Any]]:
    """Return pairs of an output's index and the name of a tensor whose memory it shares."""
    others = [(f"input {i}", tensor) for i, tensor in enumerate(inputs)]
    plain = torch.nn.Module
    others += [(f"parameter {name}", own_view(tensor)) for name, tensor in plain.named_parameters(model)]
    others += [(f"buffer {name}", own_view(tensor)) for name, tensor in plain.named_buffers(model)]
    places = [(name, _place(tensor)) for name, tensor in others if tensor.numel()]
    found: list[list[Any]] = []
    for i, output in enumerate(outputs):
        if output.numel():
            low, high = _place(output)
            found += [[i, name] for name, (start, end) in places if start < high and low < end]
            found += [
                [i, f"output {j}"] for j, other in enumerate(outputs[:i]) if other.numel() and _meet(output, other)
            ]
    return found


def _place(tensor: torch.Tensor) -> tuple[int, int]:
    """Return the address range of the whole storage: a slice of an input is an alias of it."""
    start = tensor.untyped_storage().data_ptr()
    return start, start + tensor.untyped_storage().nbytes()


def _meet(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Return True if two outputs overlap; outputs may lie side by side in one buffer."""
    (start, end), (low, high) = _extent(a), _extent(b)
    return start < high and low < end


def _extent(tensor: torch.Tensor) -> tuple[int, int]:
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    return tensor.data_ptr(), tensor.data_ptr() + (last + 1) * tensor.element_size()


def unflatten(tree: Any, tensors: Sequence[torch.Tensor]) -> Any:
    """Return the original structure, with the tensors in their places."""
    if "tensor" in tree:
        return tensors[int(tree["tensor"])]
    if "list" in tree:
        return [unflatten(item, tensors) for item in tree["list"]]
    if "tuple" in tree:
        return tuple(unflatten(item, tensors) for item in tree["tuple"])
    if "dict" in tree:
        return {key: unflatten(item, tensors) for key, item in tree["dict"]}
    return float(tree["float"]) if "float" in tree else tree["value"]


def leaves(tree: Any, path: str = "out") -> list[tuple[str, Any]]:
    """Return every leaf of a flattened structure, with its path as an author would write it."""
    if "list" in tree or "tuple" in tree:
        items: Sequence[Any] = tree.get("list", tree.get("tuple"))
        return [leaf for i, item in enumerate(items) for leaf in leaves(item, f"{path}[{i}]")]
    if "dict" in tree:
        return [leaf for key, item in tree["dict"] for leaf in leaves(item, f"{path}[{key!r}]")]
    return [(path, tree)]


def shape_of(tree: Any) -> Any:
    """Return only the nesting, for comparison; lists and tuples count as equal."""
    if "list" in tree or "tuple" in tree:
        return [shape_of(item) for item in tree.get("list", tree.get("tuple"))]
    if "dict" in tree:
        return {key: shape_of(item) for key, item in tree["dict"]}
    return "tensor" if "tensor" in tree else "value"
