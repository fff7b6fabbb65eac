"""One name and one list of arguments for operators that go by different ones on CPU and CUDA.

Two ways in. What torch dispatches under several names is renamed (`Canonical`). What torch takes apart on one device
and runs whole on another is caught before that, at the Python function (`Composite`), and stands as one node.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from triton_agent.tools.graph_values import Argument
from triton_agent.tools.operators import bare_name, functional_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Canonical:
    """How a family of operators is written down."""

    operator: str
    names: tuple[tuple[str, ...], ...]
    """Per argument: its name, then what else the members call it. All of them are always written down."""
    defaults: Mapping[str, Argument]
    """For what a member does not take or a call leaves out; None otherwise."""
    fixed: Mapping[str, bool]
    """Arguments that a member's very name decides."""
    results: int
    """How many of the results mean the same everywhere; the others are dropped where nothing uses them."""
    writes: tuple[str, ...] = ()
    """Arguments written to although some schemas do not say so; only while `training` holds."""


_ATTENTION_DEFAULTS: Mapping[str, Argument] = types.MappingProxyType(
    {"dropout_p": 0.0, "is_causal": False, "enable_gqa": False}
)

_ATTENTION = Canonical(
    operator="aten.scaled_dot_product_attention",
    names=(
        ("query",),
        ("key",),
        ("value",),
        ("attn_mask", "attn_bias"),
        ("dropout_p",),
        ("is_causal",),
        ("scale",),
        ("enable_gqa",),
    ),
    defaults=_ATTENTION_DEFAULTS,
    fixed={},
    results=1,
)
_CONVOLUTION = Canonical(
    operator="aten.convolution",
    names=(
        ("input", "self"),
        ("weight",),
        ("bias",),
        ("stride",),
        ("padding",),
        ("dilation",),
        ("transposed",),
        ("output_padding",),
        ("groups",),
    ),
    defaults={"transposed": False},
    fixed={},
    results=1,
)
_GRID_SAMPLER = Canonical(
    operator="aten.grid_sampler_2d",
    names=(("input", "self"), ("grid",), ("interpolation_mode",), ("padding_mode",), ("align_corners",)),
    # cuDNN's does no other: bilinear, nothing outside of the image, its corners at the ends.
    defaults={"interpolation_mode": 0, "padding_mode": 0, "align_corners": True},
    fixed={},
    results=1,
)


def _batch_norm(**fixed: bool) -> Canonical:
    return Canonical(
        operator="aten.batch_norm",
        names=(
            ("input",),
            ("weight",),
            ("bias",),
            ("running_mean",),
            ("running_var",),
            ("training",),
            ("momentum", "exponential_average_factor"),
            ("eps", "epsilon"),
        ),
        defaults={},
        fixed=fixed,
        results=1,
        writes=("running_mean", "running_var"),
    )


CANONICAL: Mapping[str, Canonical] = types.MappingProxyType(
    {
        "_scaled_dot_product_flash_attention_for_cpu": _ATTENTION,
        "_scaled_dot_product_flash_attention": _ATTENTION,
        "_scaled_dot_product_efficient_attention": _ATTENTION,
        "_scaled_dot_product_cudnn_attention": _ATTENTION,
        "_scaled_dot_product_fused_attention_overrideable": _ATTENTION,
        "_scaled_dot_product_attention_math": _ATTENTION,
        "native_batch_norm": _batch_norm(),
        "cudnn_batch_norm": _batch_norm(),
        "miopen_batch_norm": _batch_norm(),
        "_native_batch_norm_legit": _batch_norm(),
        "_native_batch_norm_legit_no_training": _batch_norm(training=False),
        "_batch_norm_with_update": _batch_norm(training=True),
        "_batch_norm_no_update": _batch_norm(training=False),
        "convolution": _CONVOLUTION,
        "_convolution": _CONVOLUTION,
        "convolution_overrideable": _CONVOLUTION,
        "mkldnn_convolution": _CONVOLUTION,
        "cudnn_convolution": _CONVOLUTION,
        "miopen_convolution": _CONVOLUTION,
        "grid_sampler_2d": _GRID_SAMPLER,
        "cudnn_grid_sampler": _GRID_SAMPLER,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """What torch's schema says of an operator."""

    names: tuple[str, ...]
    """Of its arguments, in the order of the schema; none for a higher-order operator, which has no schema."""
    written: frozenset[str]
    """Arguments whose contents it changes."""
    given_results: frozenset[str]
    """`out=` arguments: written, and not read."""
    looks_at_values: bool
    """Its results, or their shapes, are Python's to see only after a look at values."""


@functools.cache
def traits_of(operator: Any) -> Traits:
    """Of an operator as dispatched."""
    schema = getattr(operator, "_schema", None)
    arguments = schema.arguments if schema is not None else []
    tags = {str(tag).rpartition(".")[2] for tag in getattr(operator, "tags", ())}
    written = {argument.name for argument in arguments if argument.alias_info and argument.alias_info.is_write}
    return Traits(
        names=tuple(argument.name for argument in arguments),
        written=frozenset() if "inplace_view" in tags else frozenset(written),
        given_results=frozenset(argument.name for argument in arguments if getattr(argument, "is_out", False)),
        looks_at_values=bool(tags & {"data_dependent_output", "dynamic_output_shape"}),
    )


def family_of(operator: Any) -> Canonical | None:
    return CANONICAL.get(bare_name(str(operator)))


def written_by(operator: Any, passed: Mapping[str, Any]) -> frozenset[str]:
    """Names of the arguments that this call overwrites, whether the schema says so or not."""
    family, written = family_of(operator), traits_of(operator).written
    if family is not None and passed.get("training", family.fixed.get("training", False)):
        return written | frozenset(family.writes)
    return written


@dataclass(frozen=True, slots=True, kw_only=True)
class Wording:
    """A call as it is written down."""

    operator: str
    overload: str
    names: tuple[str, ...]
    arguments: tuple[Argument, ...]
    keywords: Mapping[str, Argument]
    telling_results: int | None
    """How many results mean the same everywhere; None for all."""


def wording_of(operator: Any, passed: Mapping[str, Argument], positional: int) -> Wording:
    """The first `positional` of what was `passed` came by position. Results given by `out=` are not written down."""
    family, (namespace, name, overload) = family_of(operator), _parts(operator)
    if family is not None:
        return _family_wording(family, passed)
    given = traits_of(operator).given_results
    arguments = {name: value for name, value in passed.items() if name not in given}
    names = tuple(passed)[:positional]
    return Wording(
        operator=f"{namespace}.{functional_name(name)}",
        overload="" if len(arguments) < len(passed) else overload,
        names=names,
        arguments=tuple(arguments[name] for name in names),
        keywords={name: value for name, value in arguments.items() if name not in names and value is not None},
        telling_results=None,
    )


def _parts(operator: Any) -> tuple[str, str, str]:
    """Namespace, name and overload; higher-order operators have a name only."""
    namespace, dot, rest = str(operator).replace("::", ".").partition(".")
    name, _, overload = rest.partition(".")
    return (namespace, name, overload) if dot else ("higher_order", namespace, "")


def _family_wording(family: Canonical, passed: Mapping[str, Argument]) -> Wording:
    known = {**family.defaults, **passed, **family.fixed}
    named = {names[0]: next((known[name] for name in names if name in known), None) for names in family.names}
    return Wording(
        operator=family.operator,
        overload="",
        names=tuple(named),
        arguments=tuple(named.values()),
        keywords={},
        telling_results=family.results,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Composite:
    """A Python function of torch that is one node whatever it runs inside."""

    operator: str
    names: tuple[str, ...]
    """Its arguments, in the order in which they are passed."""
    aliases: Mapping[str, str]
    """Other names by which arguments may be passed."""
    defaults: Mapping[str, Argument]
    """For what a call leaves out; None otherwise."""


def _composite(
    operator: str,
    names: str,
    *,
    aliases: Mapping[str, str] | None = None,
    defaults: Mapping[str, Argument] | None = None,
) -> Composite:
    return Composite(
        operator=f"aten.{operator}", names=tuple(names.split()), aliases=aliases or {}, defaults=defaults or {}
    )


_RECURRENT = "input hx params has_biases num_layers dropout train bidirectional batch_first"
_PACKED = "data batch_sizes hx params has_biases num_layers dropout train bidirectional"
_CELL = "input hx w_ih w_hh b_ih b_hh"

_COMPOSITES = {
    "scaled_dot_product_attention": _composite(
        "scaled_dot_product_attention",
        "query key value attn_mask dropout_p is_causal scale enable_gqa",
        defaults=_ATTENTION_DEFAULTS,
    ),
    "rms_norm": _composite("rms_norm", "input normalized_shape weight eps"),
    "one_hot": _composite("one_hot", "self num_classes", aliases={"tensor": "self"}, defaults={"num_classes": -1}),
    "dropout": _composite(
        "dropout", "input p train", aliases={"training": "train"}, defaults={"p": 0.5, "train": True}
    ),
    **{name: _composite(name, _RECURRENT) for name in ("lstm", "gru", "rnn_tanh", "rnn_relu")},
    **{name: _composite(name, _CELL) for name in ("lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell")},
}
_PACKED_COMPOSITES = {name: _composite(name, _PACKED) for name in ("lstm", "gru", "rnn_tanh", "rnn_relu")}


def composite_of(
    function: Callable[..., Any], arguments: tuple[Any, ...], keywords: Mapping[str, Any]
) -> Composite | None:
    """The composite that this call of a Python function is, if it is one."""
    name = getattr(function, "__name__", "")
    own = isinstance(function, types.BuiltinFunctionType) or function is getattr(torch.nn.functional, name, None)
    if not own or name not in _COMPOSITES or keywords.get("inplace") or (name == "dropout" and len(arguments) > 3):
        return None
    if name == "one_hot" and keywords.get("num_classes", arguments[1] if len(arguments) > 1 else -1) == -1:
        return None  # the values of the indices say how many there are
    packed = name in _PACKED_COMPOSITES and len(arguments) > 3 and isinstance(arguments[3], list | tuple)
    return _PACKED_COMPOSITES[name] if packed else _COMPOSITES[name]


def composite_wording(composite: Composite, passed: Mapping[str, Argument]) -> Wording:
    return Wording(
        operator=composite.operator,
        overload="",
        names=composite.names,
        arguments=tuple(passed.get(name, composite.defaults.get(name)) for name in composite.names),
        keywords={},
        telling_results=None,
    )
