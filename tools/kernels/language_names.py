# ruff: noqa: SIM905 (word lists are easier to read and to compare than quoted items)
"""Names of Triton's language that a kernel may use, by dotted path, and attributes of values that it may read.

The lists are explicit and not read from Triton's modules, which also contain `inspect`, `builtins` and Triton's own
helpers. Names that the installed Triton lacks are left out. The lists are the same for interpreting and compiling.

Not allowed: Gluon, `extern_elementwise` (loads any library), clocks and processor ids (`extra.cuda.globaltimer`,
`smid`), programmatic launches (`extra.cuda.gdc_*`).
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
from types import ModuleType
from typing import Any, Final, Literal

Role = Literal["module", "function", "direct", "loop", "class", "dtype", "constant"]
"""`function` may be called, or passed to a function that calls it. `direct` may only be called by name, since its
arguments are checked. `loop` is used in a `for`."""

DTYPES: Final = (
    "int1 int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float32 float64 "
    "float8e4nv float8e4b8 float8e4b15 float8e5 float8e5b16 void pi32_t"
).split()
_CORE_FUNCTIONS = (
    "add advance arange assume atomic_add atomic_and atomic_cas atomic_max atomic_min atomic_or atomic_xchg atomic_xor "
    "broadcast broadcast_to cast cat clamp debug_barrier dot dot_scaled expand_dims full gather histogram join load "
    "load_tensor_descriptor make_block_ptr make_tensor_descriptor max_constancy max_contiguous maximum minimum mul "
    "multiple_of num_programs permute program_id reshape split store store_tensor_descriptor sub to_tensor trans view "
    "where"
).split()
_DIRECT = (
    "inline_asm_elementwise static_print device_print static_assert device_assert reduce associative_scan "
    "map_elementwise"
).split()
_LOOPS = ["range", "static_range"]
_CLASSES = "constexpr tuple pointer_type block_type dtype condition tensor const tensor_descriptor".split()
_STANDARD = (
    "argmax argmin bitonic_merge cdiv cumprod cumsum flip interleave max min ravel reduce_or sigmoid softmax sort "
    "squeeze sum swizzle2d topk unsqueeze xor_sum zeros zeros_like"
).split()
_MATH = "abs ceil cos div_rn erf exp exp2 fdiv floor fma log log2 rsqrt sin sqrt sqrt_rn umulhi".split()
_RANDOM = (
    "pair_uniform_to_normal philox philox_impl rand rand4x randint randint4x randn randn4x uint_to_uniform_float"
).split()
_TARGET = "is_cuda is_hip cuda_capability_geq".split()
_NUMBERS = "pi e tau inf nan".split()
_NUMBER_FUNCTIONS = (
    "sqrt exp exp2 log log2 log10 log1p expm1 sin cos tan tanh erf floor ceil trunc fabs pow isnan isinf".split()
)

CONSTANT_FUNCTIONS: Final = frozenset(
    {"triton.cdiv", "triton.next_power_of_2", *(f"math.{f}" for f in _NUMBER_FUNCTIONS)}
)
"""Functions that a `constexpr_function` may call."""

CALLABLE_CLASSES: Final = frozenset(
    f"triton.language.{name}" for name in ("constexpr", "tuple", "pointer_type", "block_type", "dtype", "condition")
)

MEMBERS: Final = frozenset(
    (
        "T shape dtype type value numel element_ty scalar primitive_bitwidth int_bitwidth itemsize name "
        "fp_mantissa_width exponent_bias block_shape block_type strides nbytes"
    ).split()
)
"""Attributes of values that may be read but not called. They are harmless on every value a kernel can hold."""

DTYPE_METHODS: Final = frozenset(
    (
        "is_fp8 is_fp8e4nv is_fp8e4b8 is_fp8e4b15 is_fp8e5 is_fp8e5b16 is_fp16 is_bf16 is_fp32 is_fp64 is_int1 is_int8 "
        "is_int16 is_int32 is_int64 is_uint8 is_uint16 is_uint32 is_uint64 is_floating is_standard_floating "
        "is_int_signed is_int_unsigned is_int is_bool is_ptr is_block is_const get_int_max_value get_int_min_value "
        "get_block_shapes"
    ).split()
)
METHODS: Final = DTYPE_METHODS | frozenset(
    (
        "abs advance argmax argmin associative_scan atomic_add atomic_and atomic_cas atomic_max atomic_min atomic_or "
        "atomic_xchg atomic_xor broadcast_to cast cdiv ceil cos cumprod cumsum erf exp exp2 expand_dims flip floor "
        "gather histogram item log log2 logical_and logical_or max min permute ravel reduce reduce_or reshape rsqrt "
        "sigmoid sin softmax sort split sqrt sqrt_rn store sum to trans view xor_sum load scatter"
    ).split()
)
"""Methods of tensors, descriptors, types and constants that may be called."""

BUILTINS: Final = frozenset("min max abs len int float bool print".split())
"""Python functions that may be called; `range` is allowed in a `for`. `isinstance` is not: which values are constants
differs between interpreter and compiler."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """The object at one path."""

    role: Role
    object: Any


@functools.cache
def table() -> dict[str, Entry]:
    """Return the names that a kernel may use, by path, as far as the installed Triton has them."""
    tl = "triton.language"
    found: dict[str, Entry] = {}

    def add(module: str, role: Role, names: list[str]) -> None:
        holder = found[module].object
        for name in names:
            if hasattr(holder, name):
                found[f"{module}.{name}"] = Entry(role=role, object=getattr(holder, name))

    for path in ("triton", tl, *(f"{tl}.{name}" for name in ("core", "math", "standard", "random", "extra")), "math"):
        found[path] = Entry(role="module", object=importlib.import_module(path))
    for path in ("target_info", "extra.libdevice", "extra.cuda", "extra.cuda.libdevice"):
        try:
            found[f"{tl}.{path}"] = Entry(role="module", object=importlib.import_module(f"{tl}.{path}"))
        except ImportError:
            continue
    add("triton", "function", ["cdiv", "next_power_of_2"])
    for module in (tl, f"{tl}.core"):
        add(module, "dtype", DTYPES)
        add(module, "function", _CORE_FUNCTIONS)
        add(module, "direct", _DIRECT)
        add(module, "loop", _LOOPS)
        add(module, "class", _CLASSES)
        add(module, "constant", ["TRITON_MAX_TENSOR_NUMEL"])
        add(module, "module", ["PropagateNan"])
        add(f"{module}.PropagateNan", "constant", ["ALL", "NONE"])
    for module, names in ((f"{tl}.standard", _STANDARD), (f"{tl}.math", _MATH), (f"{tl}.random", _RANDOM)):
        add(tl, "function", names)
        add(module, "function", names)
    if f"{tl}.target_info" in found:
        add(f"{tl}.target_info", "function", _TARGET)
    for module in (f"{tl}.extra.libdevice", f"{tl}.extra.cuda.libdevice"):
        if module in found:
            add(module, "function", _library_functions())
    add("math", "constant", _NUMBERS)
    add("math", "function", _NUMBER_FUNCTIONS)
    return found


def _library_functions() -> list[str]:
    """Return the names in `triton.language.extra.libdevice`, a module with one declaration per device function."""
    library = importlib.import_module("triton.language.extra.libdevice")
    return [
        name
        for name, value in vars(library).items()
        if not name.startswith("_") and callable(value) and not isinstance(value, (type, ModuleType))
    ]


def child(path: str, name: str) -> str | None:
    """Return the path of `name` in the module at `path`, if a kernel may use it."""
    entry = table().get(path)
    if entry is None or entry.role != "module":
        return None
    longer = f"{path}.{name}"
    return longer if longer in table() else None


@functools.cache
def dtype_paths() -> dict[str, str]:
    """Return the attribute of `triton.language` for each type's own name (`fp32` -> `float32`)."""
    language = importlib.import_module("triton.language")
    names = [name for name in DTYPES if name != "pi32_t" and hasattr(language, name)]
    return {getattr(language, name).name: name for name in names}


@functools.cache
def parameter_types() -> frozenset[str]:
    """Return the types that a parameter's annotation may name, as Triton normalises them."""
    from triton._utils import type_canonicalisation_dict

    return frozenset(type_canonicalisation_dict.values())
