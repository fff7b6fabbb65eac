"""Tables about torch's operators: their kind, the elements an indexed operator touches, the passes it stands for.

Tables decide for common operators, torch's schemas and tags for the rest. If these do not decide either, an operator of
several tensors counts as heavy, because it may be a matrix product by another name, and any other as arithmetic. torch
is imported only if the tables have no answer.
"""

from __future__ import annotations

import functools
from typing import Any, Literal

Kind = Literal["heavy", "arithmetic", "reduction", "movement", "view", "allocation", "random", "index", "metadata"]


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_TABLES: dict[Kind, str] = {
    # Work of cuBLAS, cuDNN, cuFFT or cuSOLVER, or of fused kernels as expensive.
    "heavy": """
        mm addmm bmm baddbmm addbmm mv addmv dot vdot inner outer addr ger matmul linear einsum tensordot chain_matmul
        bilinear _trilinear kron _scaled_mm _scaled_mm_v2 _scaled_grouped_mm _scaled_grouped_mm_v2 _grouped_mm _int_mm
        _addmm_activation _foreach_mm _weight_int4pack_mm _weight_int8pack_mm _mixed_dtypes_linear _sparse_mm
        _sparse_addmm _cslt_sparse_mm _sparse_semi_structured_linear _sparse_semi_structured_mm
        _sparse_semi_structured_addmm _sparse_sparse_matmul hspmm smm sspaddmm sparse_sampled_addmm mkldnn_linear
        _dyn_quant_matmul_4bit _weight_int4pack_mm_for_cpu _weight_int4pack_mm_with_scales_and_zeros
        fbgemm_linear_fp16_weight fbgemm_linear_int8_weight _wrapped_quantized_linear_prepacked convolution _convolution
        convolution_overrideable conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d
        _convolution_mode _conv_depthwise2d conv_depthwise3d thnn_conv2d slow_conv3d slow_conv3d_forward
        slow_conv_dilated2d slow_conv_dilated3d slow_conv_transpose2d slow_conv_transpose3d _slow_conv2d_forward
        _nnpack_spatial_convolution mkldnn_convolution cudnn_convolution cudnn_convolution_transpose
        cudnn_convolution_relu cudnn_convolution_add_relu miopen_convolution miopen_convolution_transpose
        miopen_convolution_relu miopen_convolution_add_relu miopen_depthwise_convolution scaled_dot_product_attention
        _scaled_dot_product_attention_math _scaled_dot_product_flash_attention
        _scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_efficient_attention
        _scaled_dot_product_cudnn_attention _scaled_dot_product_fused_attention_overrideable _flash_attention_forward
        _flash_attention_forward_no_dropout_inplace _efficient_attention_forward _cudnn_attention_forward
        _flash_attention_backward _efficient_attention_backward _triton_scaled_dot_attention
        _triton_multi_head_attention _native_multi_head_attention _transformer_encoder_layer_fwd
        _transform_bias_rescale_qkv flex_attention lstm gru rnn_tanh rnn_relu lstm_cell gru_cell rnn_tanh_cell
        rnn_relu_cell _cudnn_rnn miopen_rnn mkldnn_rnn_layer _thnn_fused_lstm_cell _thnn_fused_gru_cell quantized_lstm
        quantized_gru _fft_c2c _fft_r2c _fft_c2r stft istft cholesky linalg_cholesky linalg_cholesky_ex cholesky_solve
        _cholesky_solve_helper cholesky_inverse svd linalg_svd _linalg_svd linalg_svdvals linalg_eig linalg_eigh
        _linalg_eigh linalg_eigvals _linalg_eigvals linalg_eigvalsh linalg_qr qr geqrf orgqr ormqr
        linalg_householder_product linalg_lu linalg_lu_factor linalg_lu_factor_ex linalg_lu_solve lu_solve _lu_with_info
        linalg_ldl_factor linalg_ldl_factor_ex linalg_ldl_solve linalg_inv linalg_inv_ex inverse linalg_pinv pinverse
        linalg_solve linalg_solve_ex _linalg_solve_ex linalg_solve_triangular triangular_solve linalg_lstsq linalg_det
        _linalg_det det linalg_slogdet _linalg_slogdet slogdet logdet linalg_matrix_exp matrix_exp linalg_matrix_power
        matrix_power linalg_matmul linalg_multi_dot linalg_vecdot linalg_matrix_rank linalg_cond linalg_tensorinv
        linalg_tensorsolve cdist _cdist_forward _euclidean_dist pdist _pdist_forward _ctc_loss _cudnn_ctc_loss ctc_loss
        miopen_ctc_loss _cdist_backward _pdist_backward _compute_linear_combination _sparse_mm_reduce_impl _spsolve cov
        corrcoef _slow_conv2d_backward convolution_backward_overrideable _convolution_double_backward _mps_convolution
        mps_convolution_backward _mps_convolution_transpose mps_convolution_transpose_backward lstm_mps_backward
        mkldnn_linear_backward_input mkldnn_linear_backward_weights _embedding_bag_per_sample_weights_backward
        _thnn_fused_lstm_cell_backward_impl quantized_lstm_cell quantized_gru_cell quantized_rnn_relu_cell
        quantized_rnn_tanh_cell
    """,
    # Fewer elements out than in, or each output depends on a whole row: reductions, normalisations, scans, pools.
    "reduction": """
        sum mean prod nansum nanmean amax amin aminmax _aminmax max min argmax argmin all any count_nonzero norm std
        std_mean var var_mean median nanmedian mode kthvalue logsumexp linalg_vector_norm linalg__powsum linalg_norm
        linalg_matrix_norm frobenius_norm nuclear_norm dist trace histc histogram bincount hash_tensor powsum
        _is_all_true _is_any_true equal allclose segment_reduce sum_to_size col2im coalesce _coalesce
        _softmax_backward_data _log_softmax_backward_data softmax _softmax _safe_softmax _masked_softmax log_softmax
        _log_softmax special_softmax special_log_softmax layer_norm native_layer_norm group_norm native_group_norm
        batch_norm native_batch_norm cudnn_batch_norm miopen_batch_norm _native_batch_norm_legit
        _native_batch_norm_legit_functional _native_batch_norm_legit_no_training _batch_norm_with_update
        _batch_norm_with_update_functional _batch_norm_no_update _batch_norm_impl_index batch_norm_stats
        batch_norm_gather_stats batch_norm_gather_stats_with_counts instance_norm rms_norm _fused_rms_norm _weight_norm
        _weight_norm_interface norm_except_dim renorm cosine_similarity pairwise_distance cumsum cumprod cummax cummin
        _cummax_helper _cummin_helper logcumsumexp _logcumsumexp avg_pool1d avg_pool2d avg_pool3d max_pool1d max_pool2d
        max_pool3d max_pool1d_with_indices max_pool2d_with_indices max_pool3d_with_indices adaptive_avg_pool1d
        adaptive_avg_pool2d adaptive_avg_pool3d _adaptive_avg_pool2d _adaptive_avg_pool3d adaptive_max_pool1d
        adaptive_max_pool2d adaptive_max_pool3d fractional_max_pool2d fractional_max_pool3d mkldnn_max_pool2d
        mkldnn_max_pool3d mkldnn_adaptive_avg_pool2d nll_loss nll_loss2d nll_loss_nd nll_loss_forward nll_loss2d_forward
        cross_entropy_loss mse_loss l1_loss smooth_l1_loss huber_loss kl_div binary_cross_entropy
        binary_cross_entropy_with_logits soft_margin_loss multi_margin_loss multilabel_margin_loss
        multilabel_margin_loss_forward triplet_margin_loss margin_ranking_loss hinge_embedding_loss
        cosine_embedding_loss poisson_nll_loss
    """,
    # Values are moved, repeated or overwritten with a constant, but not computed.
    "movement": """
        copy clone contiguous _to_copy to type_as cat concat concatenate hstack vstack dstack stack _stack _chunk_cat
        column_stack row_stack block_diag constant_pad_nd pad reflection_pad1d reflection_pad2d reflection_pad3d
        replication_pad1d replication_pad2d replication_pad3d _pad_circular _pad_enum flip fliplr flipud roll rot90
        repeat tile repeat_interleave tril triu diag diag_embed diagflat lift lift_fresh_copy pixel_shuffle
        pixel_unshuffle channel_shuffle native_channel_shuffle im2col slice_scatter select_scatter diagonal_scatter
        as_strided_scatter unsafe_chunk unsafe_split unsafe_split_with_sizes _to_cpu cpu cuda pin_memory _pin_memory
        fill zero fill_diagonal to_dense _to_dense resolve_conj resolve_neg _reshape_copy narrow_copy _lazy_clone
        cartesian_prod combinations meshgrid pad_sequence _pack_padded_sequence _pad_packed_sequence
    """,
    # Only metadata changes; no data moves.
    "view": """
        view _unsafe_view reshape _reshape_alias view_as reshape_as transpose swapaxes swapdims t numpy_T mT mH adjoint
        matrix_H permute movedim moveaxis expand expand_as broadcast_to slice narrow select squeeze unsqueeze as_strided
        detach alias unbind split split_with_sizes chunk tensor_split hsplit vsplit dsplit unflatten flatten ravel
        unfold diagonal linalg_diagonal view_as_real view_as_complex real imag _conj conj _neg_view lift_fresh set
        resize resize_as squeeze_ unsqueeze_ values indices crow_indices col_indices atleast_1d atleast_2d atleast_3d
        broadcast_tensors data
    """,
    # Makes a tensor from arguments that are not tensors.
    "allocation": """
        empty empty_like empty_strided empty_permuted zeros zeros_like ones ones_like full full_like new_empty
        new_empty_strided new_zeros new_ones new_full arange range linspace logspace scalar_tensor eye tril_indices
        triu_indices hann_window hamming_window blackman_window bartlett_window kaiser_window fft_fftfreq fft_rfftfreq
        _efficientzerotensor tensor _empty_affine_quantized
    """,
    "random": """
        rand rand_like randn randn_like randint randint_like randperm bernoulli normal uniform exponential cauchy
        log_normal geometric random poisson binomial multinomial dropout native_dropout alpha_dropout feature_dropout
        feature_alpha_dropout _fused_dropout _standard_gamma _sample_dirichlet rrelu rrelu_with_noise
        rrelu_with_noise_functional normal_functional _philox_normal _philox_uniform
    """,
    # The values of a tensor determine which elements are read or written.
    "index": """
        index _unsafe_index _unsafe_masked_index index_select gather take take_along_dim masked_select nonzero
        nonzero_static argwhere embedding embedding_bag _embedding_bag _embedding_bag_forward_only embedding_renorm
        embedding_dense index_put _index_put_impl _unsafe_index_put index_add index_copy index_fill index_reduce scatter
        scatter_add scatter_reduce masked_scatter put one_hot grid_sampler grid_sampler_2d grid_sampler_3d
        cudnn_grid_sampler max_unpool2d max_unpool3d
    """,
    # Queries about a tensor, or about one of its values.
    "metadata": """
        size stride storage_offset numel dim sym_size sym_stride sym_numel sym_storage_offset is_contiguous
        sym_is_contiguous is_same_size is_pinned is_complex is_floating_point result_type can_cast _local_scalar_dense
        item _assert_async _assert_scalar _assert_tensor_metadata _functional_assert_async
        _has_compatible_shallow_copy_type _version _fused_sdp_choice record_stream requires_grad_ is_nonzero
        _debug_has_internal_overlap _shape_as_tensor is_set_to element_size sym_constrain_range
        sym_constrain_range_for_size _backward retain_grad
    """,
    # Element by element, or nearly so: the common ones, and those of which torch's tags do not say so.
    "arithmetic": """
        abs add addcdiv addcmul atan bitwise_and bitwise_not bitwise_or celu ceil clamp clamp_max clamp_min cos div elu
        eq erf exp exp2 expm1 floor fmod ge gelu gt hardsigmoid hardswish hardtanh le leaky_relu lerp log log10 log1p
        log2 log_sigmoid_forward logical_and logical_not logical_or lt maximum minimum mish mul ne neg pow reciprocal
        relu relu6 remainder round rsqrt rsub selu sigmoid sign silu sin sinh softplus softshrink sqrt square sub tan
        tanh threshold trunc where xlogy
        _add_relu _amp_foreach_non_finite_check_and_unscale _amp_update_scale _fused_adagrad _fused_adam _fused_adamw
        _fused_sgd _dirichlet_grad _standard_gamma_grad _masked_scale _prelu_kernel batch_norm_elemt
        batch_norm_backward_elemt batch_norm_backward_reduce batch_norm_update_stats quantized_batch_norm
        quantize_per_channel quantize_per_tensor fake_quantize_per_channel_affine fake_quantize_per_tensor_affine
        fake_quantize_per_channel_affine_cachemask _fused_moving_avg_obs_fq_helper fused_moving_avg_obs_fake_quant
        _fused_moving_avg_obs_fq_helper_functional _fake_quantize_per_tensor_affine_cachemask_tensor_qparams
        _fake_quantize_learnable_per_channel_affine _fake_quantize_learnable_per_tensor_affine searchsorted bucketize
        isin isclose floor_divide divide true_divide multiply subtract arctan2 greater greater_equal less less_equal
        not_equal masked_fill complex polar cross linalg_cross prelu quantile nanquantile diff gradient trapezoid trapz
        cumulative_trapezoid special_gammainc special_gammaincc special_xlogy lu_unpack glu_jvp glu_backward_jvp
        histogramdd _histogramdd_bin_edges _histogramdd_from_bin_cts _histogramdd_from_bin_tensors
        value_selecting_reduction_backward _unsafe_masked_index_put_accumulate _has_same_storage_numel set_data
        sparse_mask _sparse_mask_projection _sparse_coo_tensor_with_dims_and_tensors sparse_compressed_tensor
        _sparse_log_softmax_backward_data _sparse_softmax_backward_data _convert_indices_from_csr_to_coo
        _validate_compressed_sparse_indices sparse_csr_tensor sparse_csc_tensor sparse_bsr_tensor sparse_bsc_tensor
        _grid_sampler_2d_cpu_fallback _make_per_channel_quantized_tensor _empty_per_channel_affine_quantized
        sparse_coo_tensor resize_as_sparse copy_sparse_to_sparse _copy_from _copy_from_and_resize _nested_from_padded
        _neg_view_copy _conj_copy _nested_from_padded_tensor _nested_from_padded_and_nested_example
        _nested_tensor_from_mask _nested_tensor_from_mask_left_aligned _jagged_to_padded_dense_forward
        _padded_dense_to_jagged_forward
    """,
}
_KINDS: dict[str, Kind] = {name: kind for kind, names in reversed(_TABLES.items()) for name in names.split()}
"""The kind of each operator in a table. If several tables have it, the first decides."""

_SCATTERED = frozenset({"slice", "select", "diagonal"})
"""Views whose derivative moves each element to one place. The derivative of any other view is a sum."""

TABLES = {
    **dict.fromkeys(words("index_select gather index _unsafe_index take"), "self"),
    **dict.fromkeys(words("embedding _embedding_bag _embedding_bag_forward_only"), "weight"),
}
"""Operators that read only some elements of a tensor: the name of that argument."""

INDEXED_WRITES = {
    **dict.fromkeys(words("index_put _index_put_impl"), "values"),
    **dict.fromkeys(words("index_copy index_add"), "source"),
    **dict.fromkeys(words("index_fill scatter scatter_add scatter_reduce"), "index"),
}
"""In-place operators that touch as many elements as the argument of this name has."""

ADDING = words("index_add scatter_add scatter_reduce index_reduce")
"""Indexed writes that compute: they also read the elements they overwrite."""

ORDERING = words("sort topk kthvalue median nanmedian mode")
"""Operators whose second result holds positions. Among equal elements, any position is correct."""

REPLACING = words("copy fill zero bernoulli normal uniform exponential cauchy log_normal random")
"""In-place operators that do not read the elements they overwrite."""

_PASSES_BY_COUNT = {
    40: "_upsample_bicubic2d_aa upsample_bicubic2d _upsample_lanczos2d_aa",
    24: "grid_sampler_3d upsample_trilinear3d",
    16: "logcumsumexp",
    12: """
        _grid_sampler_2d_cpu_fallback cudnn_grid_sampler grid_sampler_2d grid_sampler _fused_adam
        upsample_bilinear2d _upsample_bilinear2d_aa _fused_adamw
    """,
    8: """
        cumsum cumprod cummax cummin _cummax_helper _cummin_helper searchsorted bucketize isin
        native_layer_norm binary_cross_entropy_with_logits native_group_norm gelu miopen_batch_norm
        cudnn_batch_norm _batch_norm_no_update _batch_norm_with_update native_batch_norm
        _native_batch_norm_legit_no_training _native_batch_norm_legit _fused_moving_avg_obs_fq_helper_functional
        _fused_moving_avg_obs_fq_helper
    """,
    6: """
        _fused_rms_norm _log_softmax binary_cross_entropy mish _fused_adagrad quantize_per_tensor_dynamic
        upsample_linear1d fake_quantize_per_channel_affine fake_quantize_per_tensor_affine
        fake_quantize_per_tensor_affine_cachemask fake_quantize_per_channel_affine_cachemask
        _fake_quantize_per_tensor_affine_cachemask_tensor_qparams _fake_quantize_learnable_per_channel_affine
        _fake_quantize_learnable_per_tensor_affine
    """,
    5: """
        std_mean _safe_softmax huber_loss smooth_l1_loss softplus var std var_mean _softmax _masked_softmax
        renorm _weight_norm_interface logsumexp _sparse_log_softmax isclose glu_jvp linalg_cross
        _sparse_softmax
    """,
    4: """
        glu elu selu log_sigmoid_forward kl_div sinh tanh celu cosh hardswish sigmoid silu logit special_ndtr
        special_erfcx special_log_ndtr hypot quantize_per_tensor batch_norm_elemt _log_softmax_backward_data polar
        _fused_sgd quantize_per_channel multilabel_margin_loss_forward multi_margin_loss
    """,
    3: """
        lerp mse_loss soft_margin_loss logaddexp hardsigmoid linalg_vector_norm norm l1_loss hardshrink softshrink
        _softmax_backward_data rrelu_with_noise native_dropout dist special_xlog1py logaddexp2 remainder
        special_entr sinc fmod nan_to_num native_norm
    """,
    2: """
        addcdiv prelu relu6 threshold leaky_relu log1p addcmul expm1 clamp hardtanh dequantize _prelu_kernel
        _masked_scale _saturate_weight_to_fp16 frac xlogy
    """,
}
SORTING = words("sort argsort msort topk kthvalue median nanmedian mode quantile nanquantile unique_dim _unique2")
"""Operators that put elements in order. They compare each element many times, but read memory about once."""

PASSES: dict[str, int] = {name: count for count, names in _PASSES_BY_COUNT.items() for name in names.split()}
"""Number of elementary operators needed to write a compound operator in a module.

A scan or a search takes one for each doubling of the distance it reaches; eight stand for rows of a few hundred.
"""
SORTING_PASSES = 8

_TAKEN_APART: dict[str, str] = {
    **dict.fromkeys(words("softmax special_softmax"), "_softmax"),
    **dict.fromkeys(words("log_softmax special_log_softmax cross_entropy_loss"), "_log_softmax"),
    **dict.fromkeys(words("layer_norm instance_norm"), "native_layer_norm"),
    **dict.fromkeys(words("batch_norm _batch_norm_impl_index"), "native_batch_norm"),
    **dict.fromkeys(words("cosine_similarity cosine_embedding_loss pairwise_distance"), "renorm"),
    "group_norm": "native_group_norm",
    "rms_norm": "_fused_rms_norm",
    "log_sigmoid": "log_sigmoid_forward",
    "special_expit": "sigmoid",
}
"""Compound operators that torch decomposes before dispatch, except in inference mode: the operator they become."""

_LIGHT_LINALG = frozenset({"linalg_cross", "linalg_vander"})

_HEAVY_PARTS = ("convolution", "conv1d", "conv2d", "conv3d", "linear", "matmul", "attention", "attn", "gemm", "lstm")
"""Parts of names outside `aten` that indicate a library, as in `mkldnn._linear_pointwise` or `flash_attn.fwd`."""


def bare_name(operator: str) -> str:
    """Return the name without namespace and overload: `add_` for `aten.add_.Tensor`, `aten::add_` and `aten.add_`."""
    parts = operator.replace("::", ".").split(".")
    return parts[1] if len(parts) > 1 else parts[0]


def functional_name(name: str) -> str:
    """Return the name of the functional form: `relu` for `relu_`; names such as `__and__` stay."""
    return name[:-1] if name.endswith("_") and not name.endswith("__") else name


def passes_of(operator: str) -> int:
    """Return how many elementary operators over its largest tensor the operator stands for."""
    name = functional_name(bare_name(operator)).removeprefix("_foreach_")
    name = _TAKEN_APART.get(name, name)
    return PASSES.get(name, PASSES.get(name.removesuffix("_backward"), 1))


@functools.cache
def kind_of(operator: str) -> Kind:
    """Return the kind of an operator given as `aten.mm.default`, `aten.mm` or `aten::mm`."""
    name = bare_name(operator)
    in_aten = operator.replace("::", ".").startswith(("aten.", "prims.")) or name == operator
    if not in_aten:
        heavy = any(part in operator.lower() for part in _HEAVY_PARTS)
        return _tabled(name) or ("heavy" if heavy else "arithmetic")
    return _tabled(name) or _tabled_by_family(name) or _declared(name)


def _tabled(name: str) -> Kind | None:
    return _KINDS.get(name) or _KINDS.get(functional_name(name))


def _tabled_by_family(name: str) -> Kind | None:
    """Return the kind by a related operator's name: of `_foreach_x`, `x_backward` and `x_copy`, `fft_` or `linalg_`."""
    if name.startswith("_foreach_"):
        return _tabled(name.removeprefix("_foreach_"))
    if name.endswith("_backward"):
        kind = _tabled(base := name.removesuffix("_backward"))
        return kind if kind not in ("view", "movement") else "movement" if base in _SCATTERED else "reduction"
    if name.endswith("_copy") and _tabled(name.removesuffix("_copy")) == "view":
        return "movement"
    return "heavy" if name.startswith(("fft_", "linalg_")) and name not in _LIGHT_LINALG else None


def _declared(name: str) -> Kind:
    """Return the kind of an operator in no table, by torch's tags and schemas."""
    import torch

    packet = getattr(torch.ops.aten, name, None)
    if packet is None:
        return "arithmetic"
    overloads = [getattr(packet, overload) for overload in packet.overloads()]
    tags = {str(tag).rpartition(".")[2] for overload in overloads for tag in overload.tags}
    if "reduction" in tags:
        return "reduction"
    if "view_copy" in tags:
        return "movement"
    if all(_only_aliases(overload) for overload in overloads):
        return "view"
    if not tags & {"pointwise", "nondeterministic_seeded"} and max(map(_tensors_taken, overloads)) > 1:
        known = name.startswith(("_foreach_", "__")) or functional_name(name) != name or name.endswith("_backward")
        return "arithmetic" if known else "heavy"
    return "random" if "nondeterministic_seeded" in tags and "pointwise" not in tags else "arithmetic"


def _tensors_taken(overload: Any) -> int:
    arguments = overload._schema.arguments
    return sum("Tensor" in str(argument.type) and not argument.is_out for argument in arguments)


def _only_aliases(overload: Any) -> bool:
    """Return True if all results share memory with an argument that is not written."""
    results = [result.alias_info for result in overload._schema.returns]
    return bool(results) and all(alias is not None and not alias.is_write for alias in results)
