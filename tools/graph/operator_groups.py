"""Groups of operators by what they do with special values: directed inputs are chosen by them."""

from __future__ import annotations

from triton_agent.tools.graph.operators import ORDERING, words

FIRST = words("argmax argmin max min max_pool1d max_pool2d max_pool3d adaptive_max_pool2d")
FIRST |= words("max_pool2d_with_indices max_pool3d_with_indices unique_dim _unique2 cummax cummin")
NORMS = words("native_layer_norm layer_norm native_group_norm group_norm native_batch_norm _native_batch_norm_legit")
NORMS |= words("_native_batch_norm_legit_no_training batch_norm instance_norm cudnn_batch_norm var std var_mean")
NORMS |= words("std_mean _batch_norm_with_update _batch_norm_no_update")
OF_FEATURES = words("native_layer_norm layer_norm native_group_norm group_norm")
"""Norms of the features of one sample."""
PEAKED = words("_softmax softmax _log_softmax log_softmax logsumexp _safe_softmax logcumsumexp cross_entropy_loss")
PEAKED |= words("cross_entropy")
SCALED = words(
    "rms_norm _fused_rms_norm linalg_vector_norm norm rsqrt sqrt mean sum exp log log1p div reciprocal square"
)
SCALED |= words("pow normalize cosine_similarity softplus sigmoid tanh logaddexp amax cumsum")
DIVIDED = words("div true_divide reciprocal rsqrt rms_norm _fused_rms_norm normalize cosine_similarity renorm")
DIVIDED |= NORMS - words("var std var_mean std_mean")
"""Operators that divide by a length, to which an epsilon may be added."""
CANCELLING = words("tanh expm1 log1p sigmoid softplus sinh atanh erf")
"""Operators whose usual formulas lose digits of small numbers."""
SCALING = words("mul div mul_ div_ addcmul")
PERIODIC = words("sin cos tan sinc polar")
DIVIDING = words("floor_divide remainder fmod div bitwise_right_shift bitwise_left_shift __rshift__ __lshift__ abs neg")
DIVIDING |= words("gcd lcm")
LOOKING_UP = words(
    "index index_select gather embedding take take_along_dim embedding_bag _embedding_bag nll_loss_forward"
)
LOOKING_UP |= words("_embedding_bag_forward_only index_add scatter_add bincount scatter_reduce index_reduce")
COMBINING = {"index_put": "accumulate", "_unsafe_index_put": "accumulate", "put": "accumulate", "scatter": "reduce"}
"""Operators that combine elements of one place if this argument says so. Otherwise a repeated index is undefined."""
COUNTED_FROM_THE_END = words("index take index_put put")
LARGEST = words("amax max argmax aminmax _aminmax max_pool1d max_pool2d max_pool3d max_pool2d_with_indices")
LARGEST |= words("max_pool3d_with_indices adaptive_max_pool2d")
LEAST = words("amin min argmin")
ASKING = words("ne eq logical_not logical_and logical_or logical_xor any all count_nonzero _to_copy")
"""Operators that only ask if a whole number is zero; `_to_copy` does so if it copies to flags."""
IGNORING = words("embedding embedding_bag _embedding_bag _embedding_bag_forward_only nll_loss_forward eq ne")
IGNORING |= words("nll_loss2d_forward cross_entropy_loss")
"""Operators that may leave out a certain whole number: padding, or an ignored label."""
CHOOSING = {"where": 0, "masked_fill": 1}
"""Operators that choose by flags, and the position of these among the arguments."""
WHOLE_ARITHMETIC = words("add sub rsub mul neg abs sum cumsum bitwise_and bitwise_or bitwise_xor maximum minimum clamp")
WHOLE_ARITHMETIC |= words("floor_divide remainder fmod max min amax amin relu where eq ne lt le gt ge sign")
KEEPING_WHOLE = words("sort argsort topk argmax argmin aminmax median kthvalue cummax cummin prod cumprod index_add")
KEEPING_WHOLE |= words("scatter_add scatter_reduce index_select gather take_along_dim") | WHOLE_ARITHMETIC
"""Operators that keep whole numbers whole and accept large ones, except as an index."""
MASKING = words("masked_fill where mul logical_not bitwise_not logical_and bitwise_and any all sum")
PASSED_THROUGH = words("clone contiguous _to_copy clamp clamp_min clamp_max relu to type_as detach float double abs")
SUMMING = words("sum mean var std var_mean std_mean cumsum norm linalg_vector_norm logsumexp prod nansum") | NORMS
"""Operators that sum: some valid orders of addition subtract two infinities, and compensated sums always do."""
CONVOLUTIONS = words("convolution conv1d conv2d conv3d _convolution")
PRODUCTS = words("mm addmm bmm baddbmm addbmm mv addmv dot matmul linear") | CONVOLUTIONS
ATTENTION = words("scaled_dot_product_attention _scaled_dot_product_flash_attention_for_cpu")
ATTENTION |= words("_scaled_dot_product_flash_attention _scaled_dot_product_efficient_attention")
ATTENTION |= words("_scaled_dot_product_cudnn_attention _scaled_dot_product_attention_math")
SUMMING |= PRODUCTS | ATTENTION
MULTIPLYING, STEPS_OF_A_RECURRENCE = words("mul addcmul lerp"), 12
"""Operators that multiply, and how many in a row make a recurrence (`h = a * h + b`). A scan multiplies its factors
first: with an infinity and a zero among these it gives NaN, whatever they are multiplied by."""
NAN_DROPPED = words("relu hardtanh leaky_relu clamp clamp_min clamp_max maximum minimum hardswish") | FIRST | ORDERING
NAN_DROPPED |= words("amax amin")
"""Comparisons. Kernels often drop NaN in one, in an epilogue or at the end of a reduction."""
MASKED_OUT = NAN_DROPPED | words("where masked_fill softmax _softmax _safe_softmax index gather mul")
"""Operators that may hide NaN from a product: kernels skip the masked parts of the product."""
WITH_ZEROS = words("tril triu diag_embed block_diag one_hot scatter eye")
"""Operators that make matrices of which kernels skip the zeros."""
PASSING_NAN = PRODUCTS | words(
    """
    add sub rsub mul div true_divide neg abs exp exp2 expm1 log log1p log2 log10 sqrt rsqrt reciprocal square
    pow sin cos tan tanh sigmoid erf relu gelu silu elu selu celu softplus mish leaky_relu hardtanh hardswish
    prelu _prelu_kernel log_sigmoid_forward maximum minimum clamp clamp_min clamp_max where masked_fill gt ge lt
    le eq ne isnan isinf isfinite logical_not logical_and logical_or bitwise_not bitwise_and bitwise_or amax
    amin max min argmax argmin any all sum mean cumsum var std var_mean std_mean norm linalg_vector_norm softmax
    _softmax _safe_softmax log_softmax _log_softmax logsumexp native_layer_norm layer_norm native_group_norm
    group_norm rms_norm _fused_rms_norm batch_norm native_batch_norm _native_batch_norm_legit
    _native_batch_norm_legit_no_training cudnn_batch_norm max_pool1d max_pool2d max_pool3d
    max_pool2d_with_indices max_pool3d_with_indices avg_pool1d avg_pool2d avg_pool3d addcmul addcdiv lerp
    _to_copy to round floor ceil trunc index_select embedding sort topk kthvalue scalar_tensor glu
    nan_to_num nansum prod cumprod fmax fmin copysign signbit atan atan2 hypot sinh cosh asinh erfc isposinf isneginf
    mse_loss l1_loss smooth_l1_loss huber_loss soft_margin_loss binary_cross_entropy_with_logits nll_loss_forward
    hardsigmoid softshrink hardshrink threshold logaddexp logaddexp2 count_nonzero remainder fmod frac sinc xlogy
    lgamma logit asin acos atanh cummax cummin
    aminmax adaptive_max_pool2d adaptive_max_pool3d adaptive_avg_pool2d _adaptive_avg_pool2d _adaptive_avg_pool3d
    logcumsumexp erfinv angle polar complex real imag digamma special_entr ldexp index_add scatter_add
    upsample_nearest1d upsample_nearest2d upsample_nearest3d
    """
)
"""Operators that propagate NaN, or define what becomes of it. Other losses, image samplers and rounding to a grid treat
NaN differently between devices; binary_cross_entropy fails an assertion on it and ends the GPU's context."""
PICKING_FROM = words("index gather take take_along_dim")
MASKING_PICKS = words("where masked_fill mul tril triu")
"""Operators that may hide what was picked at places that only stand in for others, such as -1 made 0."""
BOUNDARIES = {"bucketize": 1, "searchsorted": 0}
STILL = ("view", "movement", "allocation", "metadata")
QUIET = words(
    "view _unsafe_view reshape transpose t permute expand slice select squeeze unsqueeze alias detach clone contiguous "
    "split unbind cat stack flatten unflatten lift_fresh scalar_tensor full zeros ones zeros_like empty _to_copy copy"
)

SHIFTS = words("bitwise_right_shift bitwise_left_shift __rshift__ __lshift__")
WHOLE_OPERATORS = (WHOLE_ARITHMETIC | QUIET | SHIFTS) - words("floor_divide remainder fmod")
"""Operators that accept integers of any size. A shift accepts only small counts."""
