"""Device-independent names and arguments for operators that differ between CPU and CUDA.

Operators that torch dispatches under several names are renamed (`Canonical`). Functions that torch decomposes on one
device and runs whole on another are intercepted as Python functions and become one node (`Composite`).
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from triton_agent.tools.graph.operators import bare_name, functional_name
from triton_agent.tools.graph.values import Argument


@dataclass(frozen=True, slots=True, kw_only=True)
class Canonical:
    """The recorded form of a family of operators."""

    operator: str
    names: str
    """Its recorded arguments, separated by spaces. A bar separates names that family members use for one argument."""
    defaults: Mapping[str, Argument] = field(default_factory=dict)
    """Values of arguments that a member lacks or a call omits; None for all others."""
    fixed: Mapping[str, bool] = field(default_factory=dict)
    """Arguments whose value follows from the name of the member."""
    writes: tuple[str, ...] = ()
    """Arguments that are written if `training` is True, although some schemas do not declare it."""


_ATTENTION_DEFAULTS: Mapping[str, Argument] = types.MappingProxyType(
    {"dropout_p": 0.0, "is_causal": False, "enable_gqa": False}
)
_ATTENTION = Canonical(
    operator="aten.scaled_dot_product_attention",
    names="query key value attn_mask|attn_bias dropout_p is_causal scale enable_gqa",
    defaults=_ATTENTION_DEFAULTS,
)
_CONVOLUTION = Canonical(
    operator="aten.convolution",
    names="input|self weight bias stride padding dilation transposed output_padding groups",
    defaults={"transposed": False},
)
_GRID_SAMPLER = Canonical(
    operator="aten.grid_sampler_2d",
    names="input|self grid interpolation_mode padding_mode align_corners",
    # cuDNN's operator lacks these arguments: it is bilinear, pads with zeros and aligns corners.
    defaults={"interpolation_mode": 0, "padding_mode": 0, "align_corners": True},
)


def _batch_norm(**fixed: bool) -> Canonical:
    return Canonical(
        operator="aten.batch_norm",
        names="input weight bias running_mean running_var training momentum|exponential_average_factor eps|epsilon",
        fixed=fixed,
        writes=("running_mean", "running_var"),
    )


CANONICAL: Mapping[str, Canonical] = types.MappingProxyType(
    {
        **dict.fromkeys(
            (
                *("_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_flash_attention"),
                *("_scaled_dot_product_efficient_attention", "_scaled_dot_product_cudnn_attention"),
                *("_scaled_dot_product_fused_attention_overrideable", "_scaled_dot_product_attention_math"),
            ),
            _ATTENTION,
        ),
        **dict.fromkeys(
            ("native_batch_norm", "cudnn_batch_norm", "miopen_batch_norm", "_native_batch_norm_legit"), _batch_norm()
        ),
        "_native_batch_norm_legit_no_training": _batch_norm(training=False),
        "_batch_norm_with_update": _batch_norm(training=True),
        "_batch_norm_no_update": _batch_norm(training=False),
        **dict.fromkeys(
            (
                *("convolution", "_convolution", "convolution_overrideable"),
                *("mkldnn_convolution", "cudnn_convolution", "miopen_convolution"),
            ),
            _CONVOLUTION,
        ),
        **dict.fromkeys(("grid_sampler_2d", "cudnn_grid_sampler"), _GRID_SAMPLER),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """Facts from an operator's schema and tags."""

    names: tuple[str, ...]
    """Arguments in the order of the schema; empty for a higher-order operator, which has no schema."""
    written: frozenset[str]
    """Arguments whose contents the operator changes."""
    given_results: frozenset[str]
    """`out=` arguments, which are written but not read."""
    looks_at_values: bool
    """True if its results or their shapes depend on values, so that Python has to wait for values."""


@functools.cache
def traits_of(operator: Any) -> Traits:
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


def written_by(operator: Any, passed: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of the arguments that this call overwrites, declared or not."""
    family, written = CANONICAL.get(bare_name(str(operator))), traits_of(operator).written
    if family is not None and passed.get("training", family.fixed.get("training", False)):
        return written | frozenset(family.writes)
    return written


@dataclass(frozen=True, slots=True, kw_only=True)
class Wording:
    """A call in its recorded form."""

    operator: str
    overload: str = ""
    names: tuple[str, ...]
    arguments: tuple[Argument, ...]
    keywords: Mapping[str, Argument] = field(default_factory=dict)
    telling_results: int | None = None
    """Number of leading results that mean the same on every device; None for all."""


def wording_of(operator: Any, passed: Mapping[str, Argument], positional: int) -> Wording:
    """Record a call of a dispatched operator. The first `positional` arguments were passed by position."""
    family = CANONICAL.get(bare_name(str(operator)))
    if family is not None:
        known = {**family.defaults, **passed, **family.fixed}
        spellings = [word.split("|") for word in family.names.split()]
        return Wording(
            operator=family.operator,
            names=tuple(names[0] for names in spellings),
            arguments=tuple(next((known[name] for name in names if name in known), None) for names in spellings),
            telling_results=1,
        )
    given = traits_of(operator).given_results
    arguments = {name: value for name, value in passed.items() if name not in given}
    names = tuple(passed)[:positional]
    namespace, dot, rest = str(operator).replace("::", ".").partition(".")
    name, _, overload = rest.partition(".") if dot else (namespace, "", "")
    return Wording(
        operator=f"{namespace if dot else 'higher_order'}.{functional_name(name)}",
        overload="" if len(arguments) < len(passed) else overload,
        names=names,
        arguments=tuple(arguments[name] for name in names),
        keywords={name: value for name, value in arguments.items() if name not in names and value is not None},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Composite:
    """A Python function of torch that becomes one node, whatever operators it runs."""

    operator: str
    names: tuple[str, ...]
    """Its arguments, in positional order."""
    aliases: Mapping[str, str]
    """Alternative keywords of arguments."""
    defaults: Mapping[str, Argument]
    """Values of arguments that a call omits; None for all others."""


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


_RECURRENT = ("lstm", "gru", "rnn_tanh", "rnn_relu")
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
    **{
        name: _composite(name, "input hx params has_biases num_layers dropout train bidirectional batch_first")
        for name in _RECURRENT
    },
    **{f"{name}_cell": _composite(f"{name}_cell", "input hx w_ih w_hh b_ih b_hh") for name in _RECURRENT},
}
_PACKED_COMPOSITES = {
    name: _composite(name, "data batch_sizes hx params has_biases num_layers dropout train bidirectional")
    for name in _RECURRENT
}


def composite_of(
    function: Callable[..., Any], arguments: tuple[Any, ...], keywords: Mapping[str, Any]
) -> Composite | None:
    name = getattr(function, "__name__", "")
    own = isinstance(function, types.BuiltinFunctionType) or function is getattr(torch.nn.functional, name, None)
    if not own or name not in _COMPOSITES or keywords.get("inplace") or (name == "dropout" and len(arguments) > 3):
        return None
    if name == "one_hot" and keywords.get("num_classes", arguments[1] if len(arguments) > 1 else -1) == -1:
        return None  # the number of classes depends on the values of the indices
    packed = name in _PACKED_COMPOSITES and len(arguments) > 3 and isinstance(arguments[3], list | tuple)
    return _PACKED_COMPOSITES[name] if packed else _COMPOSITES[name]


def composite_wording(composite: Composite, passed: Mapping[str, Argument]) -> Wording:
    return Wording(
        operator=composite.operator,
        names=composite.names,
        arguments=tuple(passed.get(name, composite.defaults.get(name)) for name in composite.names),
    )
