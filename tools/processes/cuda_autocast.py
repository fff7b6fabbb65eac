# ruff: noqa: SIM905 (word lists are easier to compare with torch's header than quoted items)
"""CUDA's autocast rules for tensors on the CPU, where tapes are recorded and references run without a GPU.

torch picks an operator's autocast rule by the device of its tensors, and the CPU's rules differ: they leave softmax,
norms and sums in low precision, where CUDA's widen them to float32. `install` replaces the CPU's rules by CUDA's. The
lists are those of torch's `ATen/autocast_mode.h`; a test compares them with the header of the installed version. Not
covered: the fused recurrent layers of cuDNN, which run in low precision on CUDA.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import torch

NARROW = frozenset(
    (
        "_convolution.deprecated _convolution conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d.input "
        "conv_transpose3d.input convolution prelu addmm addmv addr matmul einsum mm mv linalg_vecdot linear addbmm "
        "baddbmm bmm chain_matmul linalg_multi_dot _thnn_fused_lstm_cell _thnn_fused_gru_cell lstm_cell gru_cell "
        "rnn_tanh_cell rnn_relu_cell _scaled_dot_product_flash_attention scaled_dot_product_attention"
    ).split()
)
"""Operators that compute in the dtype of autocast."""
WIDE = frozenset(
    (
        "acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan pow.Tensor_Scalar "
        "pow.Tensor_Tensor pow.Scalar softplus layer_norm native_layer_norm rms_norm group_norm frobenius_norm.dim "
        "nuclear_norm nuclear_norm.dim cosine_similarity poisson_nll_loss cosine_embedding_loss nll_loss nll_loss2d "
        "hinge_embedding_loss kl_div l1_loss smooth_l1_loss huber_loss mse_loss margin_ranking_loss "
        "multilabel_margin_loss soft_margin_loss triplet_margin_loss multi_margin_loss "
        "binary_cross_entropy_with_logits dist pdist cdist renorm logsumexp upsample_nearest1d "
        "_upsample_nearest_exact1d upsample_nearest2d _upsample_nearest_exact2d upsample_nearest3d "
        "_upsample_nearest_exact3d upsample_linear1d upsample_bilinear2d _upsample_bilinear2d_aa upsample_trilinear3d "
        "upsample_bicubic2d _upsample_bicubic2d_aa"
    ).split()
)
"""Operators that compute in float32."""
WIDE_RESULT = frozenset(
    "prod prod.dim_int softmax.int log_softmax.int cumprod cumsum linalg_vector_norm linalg_matrix_norm "
    "linalg_matrix_norm.str_ord sum sum.dim_IntList".split()
)
"""Operators that return a float32 result unless the caller passes a dtype."""
WIDE_NORM = frozenset("norm.Scalar norm.ScalarOpt_dim".split())
"""Like `WIDE_RESULT`, but through an overload that takes a dtype."""
PROMOTED = frozenset(
    "addcdiv addcmul atan2 bilinear cross dot vdot grid_sampler index_put tensordot scatter_add".split()
)
"""Operators that compute in the widest dtype among their tensors."""


@functools.cache
def install(*, computes: bool) -> object:
    """Replace the CPU's autocast rules in this process. Return the object that keeps the new rules registered.

    With `computes`, keep the CPU's rules for operators that have no rule on CUDA. CUDA runs these in low precision, for
    which the CPU often has no kernel.
    """
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    library: Any = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns about each replaced rule
        for full_name in torch._C._dispatch_get_all_op_names():
            name = full_name.removeprefix("aten::")
            is_known_to_cpu = name != full_name and has_kernel(full_name, "AutocastCPU")
            change = _change_of(name)
            if change is not None and not (name in NARROW and is_known_to_cpu):  # torch's own rule caches cast weights
                library.impl(name, _rule(name, change), "AutocastCPU")
            elif is_known_to_cpu and not computes and not has_kernel(full_name, "AutocastCUDA"):
                library.impl(name, torch.library.fallthrough_kernel, "AutocastCPU")
    return library


_Change = Callable[[Any, list[Any], dict[str, Any]], tuple[Any, list[Any], dict[str, Any]]]


def _change_of(name: str) -> _Change | None:
    """Return the function by which a rule changes an operator and its arguments, or None."""
    if name in NARROW:
        return lambda operator, args, kwargs: (operator, *_cast(args, kwargs, torch.get_autocast_dtype("cpu")))
    if name in WIDE:
        return lambda operator, args, kwargs: (operator, *_cast(args, kwargs, torch.float32))
    if name in PROMOTED:
        return lambda operator, args, kwargs: (operator, *_cast(args, kwargs, _widest(args, kwargs)))
    if name in WIDE_RESULT:
        return _with_wide_result
    return _with_wide_norm if name in WIDE_NORM else None


def _rule(name: str, change: _Change) -> Callable[..., Any]:
    packet, _, overload = name.partition(".")
    operator = getattr(getattr(torch.ops.aten, packet), overload or "default")

    def call(*args: Any, **kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)):
            changed, new_args, new_kwargs = change(operator, list(args), kwargs)
            return changed(*new_args, **new_kwargs)

    return call


def _is_cast(value: Any) -> bool:
    """Return True if autocast casts a value: a floating-point tensor other than float64."""
    return isinstance(value, torch.Tensor) and value.is_floating_point() and value.dtype is not torch.float64


def _cast(args: list[Any], kwargs: dict[str, Any], dtype: torch.dtype) -> tuple[list[Any], dict[str, Any]]:
    def cast(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return type(value)(cast(item) for item in value)
        return value.to(dtype) if _is_cast(value) else value

    return [cast(value) for value in args], {name: cast(value) for name, value in kwargs.items()}


def _widest(args: list[Any], kwargs: dict[str, Any]) -> torch.dtype:
    values = [*args, *kwargs.values()]
    tensors = [item for value in values for item in (value if isinstance(value, (list, tuple)) else [value])]
    is_wide = any(_is_cast(tensor) and tensor.dtype is torch.float32 for tensor in tensors)
    return torch.float32 if is_wide else torch.get_autocast_dtype("cpu")


def _with_wide_result(operator: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    position = [argument.name for argument in operator._schema.arguments].index("dtype")
    said = args[position] if position < len(args) else kwargs.get("dtype")
    if not _is_cast(args[0]) or said is not None:
        return operator, args, kwargs
    return operator, args[:position], {**kwargs, "dtype": torch.float32}


def _with_wide_norm(operator: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    dtype = torch.float32 if _is_cast(args[0]) else args[0].dtype
    if operator._overloadname == "Scalar":
        power = args[1] if len(args) > 1 else kwargs.get("p", 2)
        return torch.ops.aten.norm.ScalarOpt_dtype, [args[0], power], {"dtype": dtype}
    return torch.ops.aten.norm.ScalarOpt_dim_dtype, args, {**kwargs, "dtype": dtype}
