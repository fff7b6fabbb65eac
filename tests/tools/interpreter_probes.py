"""Small kernels with their expected results, run by `test_interpreter.py` in a separate process.

    TRITON_INTERPRET=1 python interpreter_probes.py {mended,stock} [probe ...]

prints one JSON object: for each probe whether it found the right answer, or the exception it met.
"""

import contextlib
import inspect
import json
import math
import sys

import numpy as np
import torch
import triton
import triton.language as tl

if sys.argv[1] == "mended":
    from triton_agent.tools.emulate.interpreter import KernelError, OutOfBounds, Unsupported, install
    from triton_agent.tools.errors import InstrumentError

    INTERPRETER = install("cuda:90")
else:
    InstrumentError = KernelError = OutOfBounds = Unsupported = Exception

from triton.language.extra import libdevice

PROBES = {}


def probe(function):
    PROBES[function.__name__] = function
    return function


def values(*shape, dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)


def same(got, want):
    """Return True if all bits are equal; any two NaNs count as equal."""
    return got.dtype == want.dtype and torch.equal(got.nan_to_num(7.0), want.nan_to_num(7.0))


def relative_error(got, truth):
    return float((got.double() - truth).norm() / truth.norm())


def caught(kind, call):
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} was not raised")


# --- bfloat16 and the 8-bit floats

OPERATIONS = ("add", "sub", "mul", "div", "max", "min", "where", "neg", "abs", "fma", "clamp")
CODES = {name: code for code, name in enumerate(OPERATIONS)}


@triton.jit
def elementwise_kernel(x_ptr, y_ptr, out_ptr, OP: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    y = tl.load(y_ptr + i)
    if OP == 0:
        r = x + y
    elif OP == 1:
        r = x - y
    elif OP == 2:
        r = x * y
    elif OP == 3:
        r = x / y
    elif OP == 4:
        r = tl.maximum(x, y)
    elif OP == 5:
        r = tl.minimum(x, y)
    elif OP == 6:
        r = tl.where(x < y, x, y)
    elif OP == 7:
        r = -x
    elif OP == 8:
        r = tl.abs(x)
    elif OP == 9:
        r = tl.fma(x, y, x)
    else:
        r = tl.clamp(x, -1.0, 1.0)
    tl.store(out_ptr + i, r.to(out_ptr.dtype.element_ty))


@probe
def bfloat16_elementwise_equals_torch():
    x, y = values(256, dtype=torch.bfloat16), values(256, dtype=torch.bfloat16, seed=1)
    want = {
        "add": x + y,
        "sub": x - y,
        "mul": x * y,
        "div": x / y,
        "max": torch.maximum(x, y),
        "min": torch.minimum(x, y),
        "where": torch.minimum(x, y),
        "neg": -x,
        "abs": x.abs(),
        "fma": (x.double() * y.double() + x.double()).to(torch.bfloat16),
        "clamp": x.clamp(-1, 1),
    }
    wrong = []
    for name, code in CODES.items():
        out = torch.empty_like(x)
        elementwise_kernel[(1,)](x, y, out, code, 256)
        if not same(out, want[name]):
            wrong.append(name)
    return wrong == [] or wrong


@triton.jit
def cast_kernel(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.load(x_ptr + i).to(out_ptr.dtype.element_ty))


def cast(x, dtype):
    out = torch.empty(x.shape, dtype=dtype)
    cast_kernel[(1,)](x, out, x.numel())
    return out


def awkward(dtype):
    """Return ordinary values mixed with rounding ties, subnormals, the largest and special values."""
    special = [0.0, -0.0, math.inf, -math.inf, math.nan, 1e-40, -1e-40, 1e38, 1.00390625, 1.01171875, 3.3895e38, 0.1]
    return torch.cat([torch.tensor(special, dtype=torch.float64), values(500, dtype=torch.float64)]).to(dtype)


@probe
def casts_to_bfloat16_round_to_nearest_even():
    x = awkward(torch.float32)
    return same(cast(x, torch.bfloat16), x.to(torch.bfloat16))


@probe
def casts_among_bfloat16_and_others_equal_torch():
    wide = awkward(torch.float32).to(torch.bfloat16)
    whole = (values(512) * 1000).to(torch.int32)
    finite = (values(512) * 1000).to(torch.bfloat16)
    return (
        same(cast(wide, torch.float32), wide.float())
        and same(cast(wide, torch.float16), wide.half())
        and same(cast(wide, torch.float64), wide.double())
        and same(cast(wide.half(), torch.bfloat16), wide.half().bfloat16())
        and same(cast(values(512, dtype=torch.float64), torch.bfloat16), values(512, dtype=torch.float64).bfloat16())
        and same(cast(whole, torch.bfloat16), whole.bfloat16())
        and same(cast(finite, torch.int32), finite.int())
    )


@probe
def casts_to_float8_round_to_nearest_even():
    x = values(512) * 3
    return all(same(cast(x, kind).float(), x.to(kind).float()) for kind in (torch.float8_e4m3fn, torch.float8_e5m2))


@probe
def casts_to_float8_saturate():
    x = torch.tensor([1e6, -1e6, 500.0, 1.0])
    return cast(x, torch.float8_e4m3fn).float().tolist() == [448.0, -448.0, 448.0, 1.0]


@probe
def float8_reads_exactly():
    x = torch.arange(256, dtype=torch.uint8)
    kinds = (torch.float8_e4m3fn, torch.float8_e5m2)
    return all(same(cast(x.view(kind), torch.float32), x.view(kind).float()) for kind in kinds)


@probe
def float_to_integer_saturates():
    x = torch.tensor([3e9, -3e9, math.nan, math.inf, -math.inf, 2.9, -2.9, 100.0])
    return cast(x, torch.int32).tolist() == [2**31 - 1, -(2**31), 0, 2**31 - 1, -(2**31), 2, -2, 100]


@triton.jit
def constant_kernel(out_ptr, N: tl.constexpr):
    tl.store(out_ptr + tl.arange(0, N), tl.full((N,), 1.5, tl.bfloat16) + 0.25)


@probe
def bfloat16_constants_exist():
    out = torch.empty(16, dtype=torch.bfloat16)
    constant_kernel[(1,)](out, 16)
    return out.tolist() == [1.75] * 16


@triton.jit
def reduce_kernel(x_ptr, sum_ptr, max_ptr, arg_ptr, scan_ptr, M: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, M), tl.arange(0, N)
    at = i[:, None] * N + j[None, :]
    x = tl.load(x_ptr + at)
    tl.store(sum_ptr + i, tl.sum(x, axis=1))
    tl.store(max_ptr + i, tl.max(x, axis=1))
    tl.store(arg_ptr + i, tl.argmax(x, axis=1))
    tl.store(scan_ptr + at, tl.cumsum(x, axis=1))


def reduced(x):
    m, n = x.shape
    total, largest = torch.empty(m, dtype=x.dtype), torch.empty(m, dtype=x.dtype)
    where, scan = torch.empty(m, dtype=torch.int32), torch.empty(m, n, dtype=torch.float32)
    reduce_kernel[(1,)](x, total, largest, where, scan, m, n)
    return total, largest, where, scan


@probe
def bfloat16_reductions_and_scans():
    x = values(4, 64, dtype=torch.bfloat16)
    total, largest, where, scan = reduced(x)
    truth = x.double().sum(1)
    return (
        float((total.double() - truth).abs().max()) < 0.2
        and same(largest, x.max(1).values)
        and where.tolist() == x.float().argmax(1).tolist()
        and torch.allclose(scan, x.float().cumsum(1), atol=1e-5)
    )


@probe
def bfloat16_sum_is_rounded_at_every_step():
    """256 + 1 is 256 in bfloat16, so the ones vanish beside it, as they do on a GPU."""
    x = torch.ones(1, 512, dtype=torch.bfloat16)
    x[0, ::2] = 256.0
    return float(reduced(x)[0]) == 256.0 * 256


@triton.jit
def atomic_kernel(out_ptr, index_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    old = tl.atomic_add(out_ptr + tl.load(index_ptr + i), tl.full((N,), 1.5, out_ptr.dtype.element_ty), mask=i < N - 1)
    tl.store(out_ptr + 8, tl.max(old.to(tl.float32), axis=0).to(out_ptr.dtype.element_ty))


@probe
def half_precision_atomics_add():
    index = torch.tensor([0, 1, 2, 2, 3, 2, 0, 5])
    got = {}
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        out = torch.zeros(9, dtype=dtype)
        atomic_kernel[(1,)](out, index, 8)
        got[dtype] = out.tolist()
    return all(row == [3.0, 1.5, 4.5, 1.5, 0, 0, 0, 0, 3.0] for row in got.values()) or str(got)


@triton.jit
def sort_kernel(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.sort(tl.load(x_ptr + i)))


@probe
def bfloat16_sorts():
    x = values(64, dtype=torch.bfloat16)
    out = torch.empty_like(x)
    sort_kernel[(1,)](x, out, 64)
    return same(out, x.sort().values)


@triton.jit
def math_kernel(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i).to(tl.float32)
    y = tl.exp(x) + tl.log(tl.abs(x) + 1) + tl.sqrt(x * x) + tl.sigmoid(x) + tl.erf(x) + tl.rsqrt(x * x + 1)
    tl.store(out_ptr + i, y.to(tl.bfloat16))


@probe
def mathematics_on_promoted_bfloat16():
    x = values(128, dtype=torch.bfloat16)
    f = x.float()
    want = f.exp() + (f.abs() + 1).log() + (f * f).sqrt() + f.sigmoid() + f.erf() + (f * f + 1).rsqrt()
    out = torch.empty_like(x)
    math_kernel[(1,)](x, out, 128)
    return relative_error(out, want.double()) < 4e-3


@triton.jit
def scaled_kernel(x_ptr, out_ptr, scale, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.load(x_ptr + i) * scale)


@probe
def float_argument_is_float32_beside_float16():
    """A float argument is a float32 value on a GPU, so the product is not rounded to float16 first."""
    x, out = values(16, dtype=torch.float16), torch.empty(16)
    scaled_kernel[(1,)](x, out, 0.1, 16)
    return same(out, x.float() * torch.tensor(0.1, dtype=torch.float32))


@triton.jit
def toward_zero_kernel(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.cast(tl.load(x_ptr + i), out_ptr.dtype.element_ty, fp_downcast_rounding="rtz"))


@probe
def casts_toward_zero():
    x = values(256) * 3
    ok = True
    for dtype in (torch.bfloat16, torch.float16, torch.float8_e5m2):
        out = torch.empty(256, dtype=dtype)
        toward_zero_kernel[(1,)](x, out, 256)
        near, rounded = out.float().abs(), x.to(dtype).float().abs()
        ok &= bool((near <= x.abs()).all() and (near <= rounded).all() and (near >= x.abs() * 0.75 - 1e-4).all())
    return ok


@probe
def reinterpreted_tensors_are_read_as_what_they_are_said_to_be():
    codes, out = torch.arange(64, dtype=torch.uint8), torch.empty(64)
    cast_kernel[(1,)](triton.reinterpret(codes, tl.float8e5), out, 64)
    return same(out, codes.view(torch.float8_e5m2).float())


# --- matrix products


@triton.jit
def dot_kernel(a_ptr, b_ptr, c_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, P: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    a = tl.load(a_ptr + m[:, None] * K + k[None, :])
    b = tl.load(b_ptr + k[:, None] * N + n[None, :])
    if P == "default":
        c = tl.dot(a, b)
    elif P == "allowed":
        c = tl.dot(a, b, allow_tf32=True)
    elif P == "forbidden":
        c = tl.dot(a, b, allow_tf32=False)
    elif P == "half":
        c = tl.dot(a, b, out_dtype=tl.float16)
    elif P == "int8":
        c = tl.dot(a, b, out_dtype=tl.int32)
    else:
        c = tl.dot(a, b, input_precision=P)
    tl.store(c_ptr + m[:, None] * N + n[None, :], c)


def product_error(precision, dtype=torch.float32, out=torch.float32):
    m, n, k = 32, 16, 128
    a, b = values(m, k, dtype=dtype), values(k, n, dtype=dtype, seed=1)
    c = torch.empty(m, n, dtype=out)
    dot_kernel[(1,)](a, b, c, m, n, k, precision)
    return relative_error(c, a.double() @ b.double())


@probe
def float32_dot_is_tf32_unless_told_otherwise():
    errors = [product_error(precision) for precision in ("default", "allowed", "tf32")]
    return all(2e-4 < error < 2e-3 for error in errors) or errors


@probe
def float32_dot_can_be_exact():
    return max(product_error("ieee"), product_error("forbidden")) < 1e-6


@probe
def split_dots_are_compensated():
    errors = {precision: product_error(precision) for precision in ("tf32x3", "bf16x3", "bf16x6")}
    fits = errors["tf32x3"] < 1e-6 and 1e-6 < errors["bf16x3"] < 2e-5 and errors["bf16x6"] < 1e-6
    return fits or errors


@probe
def narrow_dots_accumulate_in_float32():
    return product_error("default", torch.bfloat16) < 1e-6 and product_error("default", torch.float16) < 1e-6


@probe
def float16_dot_into_float16_is_rounded():
    return 1e-5 < product_error("half", torch.float16, torch.float16) < 1e-3


@probe
def float8_dot():
    errors = [product_error("default", kind) for kind in (torch.float8_e4m3fn, torch.float8_e5m2)]
    return max(errors) < 1e-6 or errors


@probe
def int8_dot_is_exact():
    a = torch.full((32, 128), -128, dtype=torch.int8)
    c = torch.empty(32, 16, dtype=torch.int32)
    dot_kernel[(1,)](a, a.reshape(128, 32)[:, :16].contiguous(), c, 32, 16, 128, "int8")
    return c.unique().tolist() == [128 * 128 * 128]


# --- what numpy decides otherwise than a GPU


@probe
def maximum_and_clamp_drop_nan():
    x = torch.tensor([math.nan, 1.0, -5.0, math.nan])
    zero, out = torch.zeros(4), torch.empty(4)
    elementwise_kernel[(1,)](x, zero, out, CODES["max"], 4)
    clamped = torch.empty(4)
    elementwise_kernel[(1,)](x, zero, clamped, CODES["clamp"], 4)
    return out.tolist() == [0.0, 1.0, 0.0, 0.0] and clamped.tolist() == [-1.0, 1.0, -1.0, -1.0]


@triton.jit
def fused_kernel(x_ptr, y_ptr, z_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.fma(tl.load(x_ptr + i), tl.load(y_ptr + i), tl.load(z_ptr + i)))


@probe
def fma_rounds_once():
    x = torch.tensor([1 + 2**-12] * 4)
    out = torch.empty(4)
    fused_kernel[(1,)](x, x, torch.full((4,), -1 - 2**-11), out, 4)
    return out.tolist() == [2**-24] * 4


@triton.jit
def high_kernel(x_ptr, y_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.umulhi(tl.load(x_ptr + i), tl.load(y_ptr + i)))


@probe
def umulhi_is_unsigned():
    big = torch.tensor([-1, -2, 7, 2**31 - 1], dtype=torch.int32)
    wide = torch.tensor([-1, -(2**40), 7, 2**62], dtype=torch.int64)
    ok = True
    for x, bits in ((big, 32), (wide, 64)):
        out = torch.empty_like(x)
        high_kernel[(1,)](x, x.flip(0).contiguous(), out, 4)
        unsigned = [value % 2**bits for value in x.tolist()]
        ok &= [v % 2**bits for v in out.tolist()] == [a * b >> bits for a, b in zip(unsigned, unsigned[::-1])]
    return bool(ok)


@triton.jit
def histogram_kernel(x_ptr, out_ptr, n, N: tl.constexpr, BINS: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i, mask=i < n, other=0)
    tl.store(out_ptr + tl.arange(0, BINS), tl.histogram(x, BINS, mask=i < n))


@probe
def histogram_counts_int64():
    x = torch.tensor([0, 1, 1, 3, 3, 3, 7], dtype=torch.int64)
    out = torch.empty(8, dtype=torch.int32)
    histogram_kernel[(1,)](x, out, 7, 16, 8)
    return out.tolist() == [1, 2, 0, 3, 0, 0, 0, 1]


@triton.jit
def padded_histogram_kernel(x_ptr, out_ptr, n, N: tl.constexpr, BINS: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + tl.arange(0, BINS), tl.histogram(tl.load(x_ptr + i, mask=i < n, other=-1), BINS))


@probe
def numbers_beyond_a_histogram_are_counted_by_their_low_bits():
    x = torch.tensor([0, 1, 1, 3, 3, 3, 7 + 8], dtype=torch.int32)
    out = torch.empty(8, dtype=torch.int32)
    padded_histogram_kernel[(1,)](x, out, 7, 16, 8)
    return out.tolist() == [1, 2, 0, 3, 0, 0, 0, 1 + 9]


@triton.jit
def lookup_kernel(x_ptr, at_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.gather(tl.load(x_ptr + i), tl.load(at_ptr + i), 0))


@probe
def gathering_beyond_a_block_gives_no_element_of_it():
    x, at = torch.arange(4, dtype=torch.float32), torch.tensor([2, -1, 4, 0], dtype=torch.int32)
    out = torch.empty(4)
    lookup_kernel[(1,)](x, at, out, 4)
    return out.nan_to_num(9.0).tolist() == [2.0, 9.0, 9.0, 0.0]


@triton.jit
def reordering_kernel(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    both = tl.cat(tl.load(x_ptr + i), tl.load(x_ptr + N + i), can_reorder=True)
    tl.store(out_ptr + tl.arange(0, 2 * N), both)


@probe
def blocks_that_may_be_reordered_do_not_keep_their_order():
    x = torch.arange(8, dtype=torch.float32)
    out = torch.empty(8)
    reordering_kernel[(1,)](x, out, 4)
    return out.tolist() != x.tolist() and sorted(out.tolist()) == x.tolist()


@triton.jit
def shift_kernel(out_ptr, one, two):
    tl.store(out_ptr, one << 40)
    tl.store(out_ptr + 1, two << 40)


@triton.jit(do_not_specialize=["one"])
def unspecialized_shift_kernel(out_ptr, one):
    tl.store(out_ptr, one << 40)


@probe
def an_argument_of_one_is_a_constant_without_a_width():
    """A number of 32 bits is zero once it is shifted by 40."""
    out, plain = torch.empty(2, dtype=torch.int64), torch.empty(1, dtype=torch.int64)
    shift_kernel[(1,)](out, 1, 2)
    unspecialized_shift_kernel[(1,)](plain, 1)
    return (*out.tolist(), *plain.tolist()) == (1 << 40, 0, 0)


@triton.jit
def welford(mean_a, m2_a, n_a, mean_b, m2_b, n_b):
    n = n_a + n_b
    delta = mean_b - mean_a
    return mean_a + delta * n_b / n, m2_a + m2_b + delta * delta * n_a * n_b / n, n


@triton.jit
def welford_kernel(x_ptr, out_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    mean, m2, n = tl.reduce((x, tl.zeros((N,), tl.float32), tl.full((N,), 1.0, tl.float32)), 0, welford)
    tl.store(out_ptr, mean)
    tl.store(out_ptr + 1, m2 / n)


@probe
def custom_reduction():
    x, out = values(256) + 3, torch.empty(2)
    welford_kernel[(1,)](x, out, 256)
    return torch.allclose(out, torch.stack([x.mean(), x.var(unbiased=False)]), rtol=1e-5)


@triton.jit
def mean_of_two(a, b):
    return (a + b) * 0.5


@triton.jit
def later_of_two(a, b):
    return tl.where(b > 0, b, a)


@triton.jit
def own_reduction_kernel(x_ptr, out_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    tl.store(out_ptr, tl.reduce(x, 0, mean_of_two))
    tl.store(out_ptr + 1, tl.reduce(x, 0, later_of_two))


@probe
def own_reductions_depend_on_their_order():
    """A GPU combines elements of a thread in sequence, and then those of distant threads."""
    x, out = torch.full((64,), -1.0), torch.empty(2)
    x[5], x[34] = 2.0, 3.0
    own_reduction_kernel[(1,)](x, out, 64)
    return float(out[0]) != float(x.mean()) and float(out[1]) == 2.0


@triton.jit
def linear(a, b, c, d):
    return a * c, b * c + d


@triton.jit
def recurrence_kernel(g_ptr, x_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr, REVERSE: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    _, h = tl.associative_scan((tl.load(g_ptr + at), tl.load(x_ptr + at)), 1, linear, reverse=REVERSE)
    tl.store(out_ptr + at, h)


@probe
def custom_scan():
    g, x = values(2, 32).sigmoid(), values(2, 32, seed=1)
    ok = True
    for reverse in (False, True):
        out, want, h = torch.empty(2, 32), torch.empty(2, 32), torch.zeros(2)
        for t in reversed(range(32)) if reverse else range(32):
            h = g[:, t] * h + x[:, t]
            want[:, t] = h
        recurrence_kernel[(1,)](g, x, out, 2, 32, reverse)
        ok &= torch.allclose(out, want, atol=1e-5)
    return bool(ok)


@triton.jit
def axes_kernel(x_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])
    tl.store(out_ptr, tl.sum(x))
    tl.store(out_ptr + 1, tl.sum(tl.sum(x, axis=0, keep_dims=True)))
    tl.store(out_ptr + 2, tl.max(tl.min(x, axis=-1), axis=0))
    tl.store(out_ptr + 3, x.sum(axis=1).sum(axis=0))


@probe
def reductions_over_any_axis():
    x, out = torch.arange(64.0).reshape(4, 16), torch.empty(4)
    axes_kernel[(1,)](x, out, 4, 16)
    return out.tolist() == [2016.0, 2016.0, 48.0, 2016.0]


# --- the meaning of the source


@triton.jit
def words_kernel(x_ptr, out_ptr, low, high, flag, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    inside = (x > low) and (x < high)
    outside = not inside
    r = tl.where(inside, 1, 0) + tl.where(outside or (x == 0), 10, 0)
    r = max(r, 2) if flag else r
    tl.store(out_ptr + i, min(r, 10))


@probe
def words_act_elementwise():
    x, out = torch.tensor([-3, 0, 1, 5], dtype=torch.int32), torch.empty(4, dtype=torch.int32)
    words_kernel[(1,)](x, out, -1, 3, True, 4)
    return out.tolist() == [10, 10, 2, 10] or out.tolist()


@triton.jit
def doubtful_kernel(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    if tl.load(x_ptr + i) > 0:
        tl.store(out_ptr + i, 1)


@probe
def block_as_condition_is_refused():
    caught(Exception, lambda: doubtful_kernel[(1,)](torch.ones(4), torch.ones(4), 4))
    return True


@triton.jit
def chained_kernel(out_ptr, n, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, 1, mask=0 <= i < n)


@probe
def chained_comparison_is_refused():
    caught(Exception, lambda: chained_kernel[(1,)](torch.ones(4), 2, 4))
    return True


@triton.jit
def loop_kernel(x_ptr, out_ptr, rows, n, stride, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), tl.float32)
    for row in range(0, rows):
        for start in tl.range(0, n, BLOCK, num_stages=2):
            at = start + tl.arange(0, BLOCK)
            total += tl.load(x_ptr + row.to(tl.int64) * stride + at, mask=at < n, other=0.0)
    left = rows
    while left > 1:
        left -= 1
        for k in tl.static_range(2):
            total += k
    tl.store(out_ptr, tl.sum(total, axis=0))


@probe
def loops_over_dynamic_ranges():
    x, out = values(3, 37), torch.empty(1)
    loop_kernel[(1,)](x, out, 3, 37, 37, 16)
    return abs(float(out) - float(x.sum()) - 2 * 16) < 1e-4


@triton.jit
def annotated_kernel(out_ptr, n: tl.int64, scale: "fp64", N: "tl.constexpr"):  # noqa: F821
    half: tl.constexpr = N // 2
    total: tl.float32 = 0
    for i in range(half):
        total += i
    big = n * 2147483647
    tl.store(out_ptr + tl.arange(0, half), (big + 0 * tl.arange(0, half)).to(tl.float64) * scale + total)


@probe
def annotations_are_heeded():
    out = torch.empty(4, dtype=torch.float64)
    annotated_kernel[(1,)](out, 3, 0.1, 8)
    return out.tolist() == [3 * 2147483647 * 0.1 + 6] * 4 or out.tolist()


@triton.jit
def flags_kernel(out_ptr, flag, count, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.where(flag, count, -1), mask=i < N)


@probe
def boolean_and_large_arguments():
    out = torch.empty(4, dtype=torch.int64)
    flags_kernel[(1,)](out, True, 2**40, 4)
    return out.tolist() == [2**40] * 4


def kernel_over(offset):
    @triton.jit
    def closed_kernel(out_ptr, N: tl.constexpr):
        tl.store(out_ptr + tl.arange(0, N), offset)

    return closed_kernel


@probe
def kernels_may_close_over_variables():
    out = torch.empty(4)
    kernel_over(3)[(1,)](out, 4)
    return out.tolist() == [3.0] * 4


@triton.jit
def hints_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    tl.static_assert(BLOCK >= 16, "too small")
    tl.assume(n > 0)
    at = tl.max_contiguous(tl.multiple_of(pid * BLOCK, BLOCK) + tl.arange(0, BLOCK), BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, cache_modifier=".ca", eviction_policy="evict_last")
    tl.debug_barrier()
    tl.device_assert(at >= 0, "negative")
    tl.static_print("block", BLOCK)
    tl.device_print("pid", pid)
    tl.store(out_ptr + at, x, mask=at < n, cache_modifier=".wb", eviction_policy="evict_first")


@probe
def hints_change_nothing():
    x, out = values(37), torch.empty(37)
    with contextlib.redirect_stdout(sys.stderr):
        grid = lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]),)  # noqa: E731
        hints_kernel[grid](
            x, out, 37, BLOCK=16, num_warps=8, num_stages=2, num_ctas=1, maxnreg=64, enable_fp_fusion=False
        )
    return same(out, x)


# --- functions of libdevice

LIBDEVICE = {
    "tanh": torch.tanh,
    "erf": torch.erf,
    "erfc": torch.erfc,
    "erfinv": lambda x: torch.erfinv(x / 8),
    "exp": torch.exp,
    "exp2": torch.exp2,
    "expm1": torch.expm1,
    "log": lambda x: torch.log(x.abs()),
    "log1p": lambda x: torch.log1p(x.abs()),
    "log2": lambda x: torch.log2(x.abs()),
    "sqrt": lambda x: torch.sqrt(x.abs()),
    "rsqrt": lambda x: torch.rsqrt(x.abs()),
    "sin": torch.sin,
    "cos": torch.cos,
    "tan": torch.tan,
    "asin": lambda x: torch.asin(x / 8),
    "acos": lambda x: torch.acos(x / 8),
    "atan": torch.atan,
    "sinh": torch.sinh,
    "cosh": torch.cosh,
    "asinh": torch.asinh,
    "floor": torch.floor,
    "ceil": torch.ceil,
    "trunc": torch.trunc,
    "rint": torch.round,
    "abs": torch.abs,
    "lgamma": lambda x: torch.lgamma(x.abs()),
    "isnan": torch.isnan,
    "isinf": torch.isinf,
    "fast_expf": torch.exp,
    "round": lambda x: torch.sign(x) * torch.floor(x.abs() + 0.5),
}
SCALED = {"erfinv": "eighth", "asin": "eighth", "acos": "eighth"}
POSITIVE = ("log", "log1p", "log2", "sqrt", "rsqrt", "lgamma")


@triton.jit
def libdevice_kernel(x_ptr, out_ptr, F: tl.constexpr, HOW: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    if HOW == "eighth":
        x = x / 8
    elif HOW == "positive":
        x = tl.abs(x)
    tl.store(out_ptr + i, F(x).to(tl.float32))


@probe
def libdevice_functions_equal_torch():
    x = (values(256) * 2).clamp(-7.9, 7.9)
    wrong = []
    for name, reference in LIBDEVICE.items():
        out = torch.empty(256)
        how = "positive" if name in POSITIVE else SCALED.get(name, "")
        libdevice_kernel[(1,)](x, out, getattr(libdevice, name), how, 256)
        if not torch.allclose(out, reference(x).float(), rtol=2e-6, atol=2e-7):
            wrong.append(name)
    return wrong == [] or wrong


@triton.jit
def two_argument_kernel(x_ptr, y_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x, y = tl.load(x_ptr + i), tl.load(y_ptr + i)
    r = libdevice.pow(tl.abs(x), y) + libdevice.fmod(x, y) + libdevice.atan2(x, y) + libdevice.copysign(x, y)
    r += libdevice.div_rn(x, y) + libdevice.fma(x, y, x) + libdevice.hypot(x, y) + tl.extra.cuda.libdevice.pow(2.0, y)
    tl.store(out_ptr + i, r)


@probe
def fast_functions_err_as_on_a_gpu():
    x = values(256) * 2
    out = torch.empty(256)
    libdevice_kernel[(1,)](x, out, libdevice.fast_expf, "", 256)
    near = torch.allclose(out, x.exp(), rtol=2e-6)
    libdevice_kernel[(1,)](x, out, libdevice.fast_sinf, "", 256)
    return near and 1e-7 < float((out - x.double().sin()).abs().max()) < 2e-6


@probe
def libdevice_takes_several_arguments():
    x, y, out = values(64), values(64, seed=1), torch.empty(64)
    two_argument_kernel[(1,)](x, y, out, 64)
    want = x.abs() ** y + x.fmod(y) + torch.atan2(x, y) + x.copysign(y) + x / y + x * y + x + x.hypot(y) + 2**y
    return torch.allclose(out, want, rtol=1e-5, atol=1e-5)


# --- autotuning and the driver


def configs(*blocks):
    return [triton.Config({"BLOCK": block}, num_warps=4) for block in blocks]


@triton.autotune(configs=configs(32, 64, 128), key=["n"])
@triton.jit
def tuned_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n) * 2, mask=at < n)


def tuned_grid(meta):
    return (triton.cdiv(meta["n"], meta["BLOCK"]),)


@probe
def autotuned_kernel_runs():
    x, out = values(100), torch.empty(100)
    tuned_kernel[tuned_grid](x, out, 100)
    return same(out, x * 2)


@triton.heuristics({"BLOCK": lambda arguments: triton.next_power_of_2(arguments["n"])})
@triton.jit
def heuristic_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n) * 2, mask=at < n)


@probe
def heuristics_run():
    x, out = values(100), torch.empty(100)
    heuristic_kernel[(1,)](x, out, 100)
    return same(out, x * 2)


@triton.autotune(configs=configs(32, 64), key=["n"], reset_to_zero=["out_ptr"])
@triton.jit
def summing_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out_ptr, tl.sum(tl.load(x_ptr + at, mask=at < n, other=0.0), axis=0))


@probe
def tuning_resets_what_is_summed():
    out = torch.full((1,), 7.0)
    summing_kernel[tuned_grid](torch.ones(100), out, 100)
    return float(out) == 100.0


@probe
def driver_describes_the_target():
    active = triton.runtime.driver.active
    properties = active.utils.get_device_properties(active.get_current_device())
    target = active.get_current_target()
    return (
        properties["multiprocessor_count"] == 132
        and properties["max_shared_mem"] == 232448
        and (target.backend, target.arch, target.warp_size) == ("cuda", 90, 32)
        and torch.empty(1, device=active.get_active_torch_device()).device.type == "cpu"
    )


# --- memory


@triton.jit
def add_kernel(x_ptr, y_ptr, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    y = tl.load(y_ptr + at, mask=at < n)
    tl.store(out + at, x + y)


def line_in(kernel, text):
    import inspect

    lines, first = inspect.getsourcelines(kernel.fn)
    return next(first + i for i, line in enumerate(lines) if text in line)


@probe
def store_past_the_end_is_told_and_not_done():
    around = torch.zeros(1024 + 64)
    out = around[:1000]
    error = caught(OutOfBounds, lambda: add_kernel[(4,)](values(1000), values(1000), out, 1000, BLOCK=256))
    line = line_in(add_kernel, "tl.store")
    text = (
        f"add_kernel line {line}: store of 24/256 lanes past the end of `out` (float32[1000], first at element 1000), "
        "program (3, 0, 0)"
    )
    return (error.line == line and str(error) == text and not around[1000:].any()) or str(error)


@probe
def neighbour_in_the_same_storage_is_out_of_bounds():
    both = values(2, 64)
    error = caught(OutOfBounds, lambda: add_kernel[(1,)](both[0], both[1], torch.empty(128), 128, BLOCK=128))
    return "past the end of `x_ptr`" in str(error) or str(error)


@probe
def masked_lanes_may_point_anywhere():
    x, out = values(10), torch.empty(10)
    hints_kernel_quiet[(1,)](x, out, 10, 64)
    return same(out, x)


@triton.jit
def hints_kernel_quiet(x_ptr, out_ptr, n, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out_ptr + at, tl.load(x_ptr + at * 1000 * (at >= n) + at, mask=at < n), mask=at < n)


@triton.jit
def negative_kernel(x_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out_ptr + at, tl.load(x_ptr + at - 3))


@probe
def load_before_the_start():
    error = caught(OutOfBounds, lambda: negative_kernel[(1,)](values(16), torch.empty(16), 16))
    return "load of 3/16 lanes before the start of `x_ptr` (float32[16], first at element -3)" in str(error) or str(
        error
    )


@triton.jit
def raw_kernel(address, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out_ptr + at, tl.load(address.to(tl.pointer_type(tl.float32)) + at))


@probe
def raw_address_reaches_only_tensors_of_the_launch():
    # So large that it never lies on the heap, whose addresses may fit into 32 bits and would be taken for an int32.
    hidden, out = torch.empty(16 << 20), torch.empty(16)
    error = caught(OutOfBounds, lambda: raw_kernel[(1,)](hidden.data_ptr(), out, 16))
    return "16/16 lanes" in str(error) or str(error)


@triton.jit
def scatter_kernel(out_ptr, index_ptr, N: tl.constexpr):
    tl.atomic_add(out_ptr + tl.load(index_ptr + tl.arange(0, N)), 1.0)


@probe
def atomic_out_of_bounds():
    index = torch.tensor([0, 1, 2, 9])
    error = caught(OutOfBounds, lambda: scatter_kernel[(1,)](torch.zeros(8), index, 4))
    return "atomic of 1/4 lanes past the end of `out_ptr` (float32[8], first at element 9)" in str(error) or str(error)


@probe
def empty_tensor_has_no_elements():
    error = caught(OutOfBounds, lambda: negative_kernel[(1,)](torch.empty(0), torch.empty(16), 16))
    return "float32[0]" in str(error) or str(error)


@triton.jit
def block_pointer_kernel(x_ptr, out_ptr, m, n, M: tl.constexpr, N: tl.constexpr, CHECK: tl.constexpr):
    source = tl.make_block_ptr(x_ptr, (m, n), (n, 1), (0, 0), (M, N), (1, 0))
    target = tl.make_block_ptr(out_ptr, (m, n), (n, 1), (0, 0), (M, N), (1, 0))
    for _ in range(0, tl.cdiv(n, N)):
        if CHECK:
            x = tl.load(source, boundary_check=(0, 1), padding_option="zero")
            tl.store(target, x, boundary_check=(0, 1))
        else:
            tl.store(target, tl.load(source), boundary_check=(0, 1))
        source = tl.advance(source, (0, N))
        target = tl.advance(target, (0, N))


@probe
def block_pointers_are_checked():
    x, out = values(5, 37), torch.empty(5, 37)
    block_pointer_kernel[(1,)](x, out, 5, 37, 8, 16, True)
    error = caught(OutOfBounds, lambda: block_pointer_kernel[(1,)](x, out, 5, 37, 8, 16, False))
    return same(out, x) and "`x_ptr` (float32[5, 37]" in str(error)


@triton.jit
def descriptor_kernel(x_ptr, out_ptr, m, n, M: tl.constexpr, N: tl.constexpr):
    source = tl.make_tensor_descriptor(x_ptr, shape=[m, n], strides=[n, 1], block_shape=[M, N])
    target = tl.make_tensor_descriptor(out_ptr, shape=[m, n], strides=[n, 1], block_shape=[M, N])
    for j in range(0, n, N):
        target.store([0, j], source.load([0, j]) + 1)


@triton.jit
def host_descriptor_kernel(source, target, n, N: tl.constexpr):
    for j in range(0, n, N):
        target.store([0, j], source.load([0, j]) + 1)


@probe
def descriptors_are_checked():
    from triton.tools.tensor_descriptor import TensorDescriptor

    x, out = values(5, 40), torch.empty(5, 40)
    descriptor_kernel[(1,)](x, out, 5, 40, 8, 16)
    ok = same(out, x + 1)
    error = caught(OutOfBounds, lambda: descriptor_kernel[(1,)](x, out, 8, 40, 8, 16))
    ok &= "`x_ptr` (float32[5, 40]" in str(error)
    host = [TensorDescriptor(tensor, list(tensor.shape), list(tensor.stride()), [8, 16]) for tensor in (x, out.zero_())]
    host_descriptor_kernel[(1,)](*host, 40, 16)
    return bool(ok) and same(out, x + 1)


@probe
def tensors_in_tuples_are_checked():
    x, y = values(16), values(8)
    error = caught(OutOfBounds, lambda: tuple_kernel[(1,)]((x, y), torch.empty(16), 16))
    return "`pair[1]` (float32[8]" in str(error) or str(error)


@triton.jit
def tuple_kernel(pair, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out_ptr + at, tl.load(pair[0] + at) + tl.load(pair[1] + at))


@triton.jit
def helper(x_ptr, at):
    return tl.load(x_ptr + at)


@triton.jit
def caller_kernel(x_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out_ptr + at, helper(x_ptr, at))


@probe
def line_is_that_of_the_helper():
    error = caught(OutOfBounds, lambda: caller_kernel[(1,)](values(10), torch.empty(16), 16))
    return (error.kernel, error.line) == ("caller_kernel", line_in(helper, "return")) or str(error)


# --- what is refused, and how it is told


@triton.jit
def odd_range_kernel(out_ptr, N: tl.constexpr):
    tl.store(out_ptr + tl.arange(0, N), 1.0)


@triton.jit
def odd_block_kernel(out_ptr, N: tl.constexpr):
    x = tl.zeros((N, 4), tl.float32)
    tl.store(out_ptr, tl.sum(x))


@probe
def sizes_that_are_no_power_of_two_are_refused():
    errors = [
        caught(KernelError, lambda k=k: k[(1,)](torch.empty(24), 24)) for k in (odd_range_kernel, odd_block_kernel)
    ]
    lines = [line_in(odd_range_kernel, "arange"), line_in(odd_block_kernel, "zeros")]
    return [e.line for e in errors] == lines and all("power of 2" in str(e) for e in errors)


@triton.jit
def small_dot_kernel(x_ptr, N: tl.constexpr):
    at = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + at)
    tl.store(x_ptr + at, tl.dot(x, x))


@probe
def dot_that_is_too_small_is_refused():
    return "K >= 16" in str(caught(KernelError, lambda: small_dot_kernel[(1,)](torch.empty(8, 8), 8)))


@probe
def grids_a_gpu_refuses_are_refused():
    x = torch.ones(16)
    out = torch.zeros(16)
    for grid in ((-1,), (), (1, 1, 1, 1), (1, 65536), (1, 1, 65536), (2**31,)):
        caught(ValueError, lambda grid=grid: negative_kernel[grid](x, out, 16))
    caught(TypeError, lambda: negative_kernel[(1.0,)](x, out, 16))
    caught(TypeError, lambda: negative_kernel[4](x, out, 16))
    return True


@probe
def empty_grid_does_nothing():
    INTERPRETER.launches.clear()
    out = torch.zeros(16)
    odd_range_kernel[(0,)](out, 16)
    odd_range_kernel[(3, 0, 2)](out, 16)
    return not out.any() and not INTERPRETER.launches


@probe
def unknown_options_and_wrong_arguments_are_refused():
    out = torch.zeros(16)
    caught(KeyError, lambda: odd_range_kernel[(1,)](out, 16, nothing=1))
    caught(ValueError, lambda: odd_range_kernel[(1,)](out, 16, num_warps=3))
    caught(TypeError, lambda: odd_range_kernel[(1,)](out))
    caught(TypeError, lambda: odd_range_kernel[(1,)](out, 16, 17))
    caught(RuntimeError, lambda: odd_range_kernel(out, 16))
    return not out.any()


@triton.jit
def assembly_kernel(out_ptr, N: tl.constexpr):
    x = tl.full((N,), 1, tl.int32)
    y = tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [x], dtype=tl.int32, is_pure=True, pack=1)
    tl.store(out_ptr + tl.arange(0, N), y)


@triton.jit
def bessel_kernel(out_ptr, N: tl.constexpr):
    tl.store(out_ptr + tl.arange(0, N), libdevice.j0(tl.full((N,), 1.0, tl.float32)))


@triton.jit
def clock_kernel(out_ptr):
    tl.store(out_ptr, tl.extra.cuda.globaltimer())


@probe
def what_cannot_be_emulated_is_named():
    INTERPRETER.faults.clear()
    texts = [
        str(caught(Unsupported, lambda: assembly_kernel[(1,)](torch.empty(4, dtype=torch.int32), 4))),
        str(caught(Unsupported, lambda: bessel_kernel[(1,)](torch.empty(4), 4))),
        str(caught(Unsupported, lambda: clock_kernel[(1,)](torch.empty(4, dtype=torch.int64)))),
    ]
    named = "inline assembly" in texts[0] and "__nv_j0f" in texts[1] and "inline assembly" in texts[2]
    return (named and len(INTERPRETER.faults) == 3) or texts


@probe
def compiled_kernels_are_unsupported():
    from triton.experimental import gluon

    kernel = gluon.jit(caller_kernel.fn)
    return "Gluon" in str(caught(Unsupported, lambda: kernel[(1,)](torch.empty(4), torch.empty(4), 4)))


@triton.jit
def failing_kernel(out_ptr, N: tl.constexpr):
    x = tl.zeros((N,), tl.float32)
    y = tl.zeros((2 * N,), tl.float32)

    tl.store(out_ptr + tl.arange(0, N), x + y)


@probe
def exception_carries_the_line():
    error = caught(KernelError, lambda: failing_kernel[(1,)](torch.empty(4), 4))
    prefix = f"failing_kernel line {line_in(failing_kernel, 'x + y')}: ValueError"
    return str(error).startswith(prefix) or str(error)


@probe
def swallowed_fault_is_remembered():
    INTERPRETER.faults.clear()
    with contextlib.suppress(Exception):
        negative_kernel[(1,)](values(16), torch.empty(16), 16)
    return [type(fault).__name__ for fault in INTERPRETER.faults] == ["OutOfBounds"]


# --- the record


@probe
def launch_is_recorded():
    INTERPRETER.launches.clear()
    x, out = values(100), torch.empty(100)
    hints_kernel_quiet[(1,)](x, out, 100, 128)
    (launch,) = INTERPRETER.launches
    return (
        (launch.kernel, launch.programs) == ("hints_kernel_quiet", 1)
        and (launch.bytes_loaded, launch.bytes_stored) == (400, 400)
        and launch.contested == ()
    )


@triton.jit
def racing_kernel(x_ptr, out_ptr, N: tl.constexpr):
    pid = tl.program_id(0)
    tl.store(out_ptr + tl.arange(0, N), tl.load(x_ptr + tl.arange(0, N)) * pid)


@triton.jit
def lanes_kernel(place_ptr, value_ptr, out_ptr, N: tl.constexpr):
    lane = tl.arange(0, N)
    tl.store(out_ptr + tl.load(place_ptr + lane), tl.load(value_ptr + lane))


@probe
def lanes_that_store_different_values_in_one_element_are_told():
    place, out = torch.tensor([3, 1, 3, 0]), torch.zeros(4)
    found = []
    for value in (torch.tensor([1.0, 2.0, 5.0, 3.0]), torch.tensor([5.0, 2.0, 5.0, 3.0])):
        INTERPRETER.launches.clear()
        lanes_kernel[(1,)](place, value, out, 4)
        found.append(INTERPRETER.launches[0].contested)
    return found == [("out_ptr",), ()]


@triton.jit
def ticket_kernel(count_ptr, out_ptr, N: tl.constexpr):
    lane = tl.arange(0, N)
    tl.store(out_ptr + lane, tl.atomic_add(count_ptr + lane * 0, 1))


@probe
def lanes_of_an_atomic_come_in_any_order():
    count, out = torch.zeros(1, dtype=torch.int32), torch.zeros(64, dtype=torch.int32)
    INTERPRETER.order_seed = 1
    ticket_kernel[(1,)](count, out, 64)
    INTERPRETER.order_seed = None
    return out.tolist() != list(range(64)) and sorted(out.tolist()) == list(range(64))


@triton.jit
def quotient_kernel(a_ptr, b_ptr, out_ptr, N: tl.constexpr):
    lane = tl.arange(0, N)
    a, b = tl.load(a_ptr + lane), tl.load(b_ptr + lane)
    tl.store(out_ptr + lane, a // b)
    tl.store(out_ptr + N + lane, a % b)


@probe
def whole_numbers_divided_by_zero_do_not_give_zero():
    a, b, out = torch.tensor([7, 7, 0, -7]), torch.tensor([2, 0, 0, 2]), torch.empty(8, dtype=torch.int64)
    quotient_kernel[(1,)](a, b, out, 4)
    return out.tolist() == [3, -1, -1, -3, 1, -1, -1, -1]


@triton.jit
def multiple_kernel(out_ptr, n):
    tl.store(out_ptr, tl.multiple_of(n, 16))


@probe
def a_false_multiple_is_refused():
    out = torch.zeros(1, dtype=torch.int32)
    multiple_kernel[(1,)](out, 48)
    try:
        multiple_kernel[(1,)](out, 40)
    except KernelError as error:
        return out.tolist() == [48] and "multiple of 16" in str(error)
    return False


@triton.jit
def neighbours_kernel(x_ptr, out_ptr, step, N: tl.constexpr):
    at = tl.max_contiguous(tl.arange(0, N) * step % 12, N)
    tl.store(out_ptr + tl.arange(0, N), tl.load(x_ptr + at))


@probe
def false_neighbours_are_refused():
    """Numbers that start over are not: lanes beyond the end of a tensor mostly do not count."""
    x, out = torch.arange(12.0), torch.empty(16)
    neighbours_kernel[(1,)](x, out, 1, 16)
    try:
        neighbours_kernel[(1,)](x, out, 3, 16)
    except KernelError as error:
        return "are no neighbours" in str(error)


@triton.jit
def constancy_kernel(x_ptr, out_ptr, n, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=tl.max_constancy(at < n, 4), other=0.0))


@probe
def false_constancy_of_flags_is_refused():
    x, out = torch.ones(16), torch.empty(16)
    constancy_kernel[(1,)](x, out, 12, 16)
    try:
        constancy_kernel[(1,)](x, out, 10, 16)
    except KernelError as error:
        return out.sum().item() == 12.0 and "values that differ" in str(error)
    return False


@triton.jit
def to_bytes_kernel(x_ptr, signed_ptr, unsigned_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    tl.store(signed_ptr + at, x.to(tl.int8))
    tl.store(unsigned_ptr + at, x.to(tl.uint8))


@triton.jit
def sums_of_flags_kernel(a_ptr, b_ptr, sum_ptr, difference_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    a, b = tl.load(a_ptr + at), tl.load(b_ptr + at)
    tl.store(sum_ptr + at, a + b)
    tl.store(difference_ptr + at, a - b)


@probe
def sums_of_flags_keep_one_bit():
    """As on a GPU, where the compiler makes `xor` of both."""
    a, b = torch.tensor([False, False, True, True]), torch.tensor([False, True, False, True])
    added, subtracted = torch.empty_like(a), torch.empty_like(a)
    sums_of_flags_kernel[(1,)](a, b, added, subtracted, 4)
    return torch.equal(added, a ^ b) and torch.equal(subtracted, a ^ b)


@probe
def bytes_keep_the_low_bits_of_floats_out_of_range():
    """As `cvt.rzi.s16.f32` and `cvt.rzi.u16.f32` do, of which the low byte is stored."""
    x = torch.tensor([-3.7, 127.9, 200.0, 300.0, -200.0, 1e9, -1e9, torch.nan])
    signed, unsigned = torch.empty(8, dtype=torch.int8), torch.empty(8, dtype=torch.uint8)
    to_bytes_kernel[(1,)](x, signed, unsigned, 8)
    expected = [-3, 127, -56, 44, 56, -1, 0, 0], [0, 127, 200, 44, 0, 255, 0, 0]
    return (signed.tolist(), unsigned.tolist()) == expected or [signed.tolist(), unsigned.tolist()]


@triton.jit
def last_sums_kernel(part_ptr, count_ptr, out_ptr, SEM: tl.constexpr, N: tl.constexpr):
    tl.store(part_ptr + tl.program_id(0), 1.0)
    if tl.atomic_add(count_ptr, 1, sem=SEM) == N - 1:
        tl.store(out_ptr, tl.sum(tl.load(part_ptr + tl.arange(0, N)), 0))


@probe
def a_relaxed_atomic_orders_nothing():
    found = []
    for order in ("acq_rel", "relaxed"):
        INTERPRETER.launches.clear()
        out = torch.zeros(1)
        last_sums_kernel[(4,)](torch.zeros(4), torch.zeros(1, dtype=torch.int32), out, order, 4)
        found.append((out.item(), INTERPRETER.launches[0].read_beside_stores))
    return found == [(4.0, ()), (4.0, ("part_ptr",))] or found


@triton.jit
def idle_then_wait_kernel(part_ptr, idle_ptr, flag_ptr, out_ptr, ATOMIC: tl.constexpr):
    tl.atomic_add(idle_ptr, 1)
    if tl.program_id(0) == 0:
        tl.store(part_ptr, 3.0)
        if ATOMIC:
            tl.atomic_xchg(flag_ptr, 1)
        else:
            tl.store(flag_ptr, 1)
    else:
        flag = 0
        while flag == 0:
            flag = tl.load(flag_ptr, volatile=True)
        tl.store(out_ptr, tl.load(part_ptr))


@probe
def an_atomic_before_a_store_does_not_order_it():
    found = []
    for is_atomic in (True, False):
        INTERPRETER.launches.clear()
        INTERPRETER.order_seed = 1
        idle, flag = (torch.zeros(1, dtype=torch.int32) for _ in range(2))
        out = torch.zeros(1)
        idle_then_wait_kernel[(2,)](torch.zeros(1), idle, flag, out, is_atomic)
        INTERPRETER.order_seed = None
        found.append((out.item(), INTERPRETER.launches[0].read_beside_stores))
    return found == [(3.0, ()), (3.0, ("part_ptr",))] or found


@triton.jit
def scope_kernel(total_ptr, step, SCOPE: tl.constexpr):
    tl.atomic_add(total_ptr + step * tl.program_id(0), 1.0, scope=SCOPE)


@probe
def atomics_of_one_program_contest_those_of_others():
    found = []
    for scope, step in (("gpu", 0), ("cta", 0), ("cta", 2)):
        INTERPRETER.launches.clear()
        scope_kernel[(4,)](torch.zeros(8), step, scope)
        found.append(INTERPRETER.launches[0].contested)
    return found == [(), ("total_ptr",), ()] or found


@probe
def contested_elements_are_told():
    INTERPRETER.launches.clear()
    racing_kernel[(2,)](torch.ones(16), torch.empty(16), 16)
    racing_kernel[(2,)](torch.zeros(16), torch.empty(16), 16)
    return [launch.contested for launch in INTERPRETER.launches] == [("out_ptr",), ()]


@probe
def no_operator_of_torch_is_dispatched():
    from torch.utils._python_dispatch import TorchDispatchMode

    seen = []

    class Log(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    x, out = values(128), torch.empty(128)
    with Log():
        scaled_kernel[(1,)](x, out, 2.0, 128)
    return seen == [] or seen


@probe
def installing_again_changes_nothing():
    return install("cuda:90") is INTERPRETER


@triton.jit
def extrema_at_places(x_ptr, low_ptr, high_ptr, n, B: tl.constexpr):
    at = tl.arange(0, B)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.atomic_min(low_ptr + at % 3, x, mask=at < n)
    tl.atomic_max(high_ptr + at % 3, x, mask=at < n)


@probe
def atomic_extrema_of_fractions():
    x, low, high = values(30), torch.zeros(3), torch.zeros(3)
    extrema_at_places[(1,)](x, low, high, 30, B=32)
    columns = x.view(10, 3)
    return same(low, columns.amin(0).clamp(max=0)) and same(high, columns.amax(0).clamp(min=0))


@triton.jit
def mean_near_a_number(x_ptr, out_ptr, columns, B: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, B)
    x = tl.load(x_ptr + row * columns + column, mask=column < columns, other=0.0)
    mean = tl.sum(2.0 * x + 1.0, axis=0) / columns
    tl.store(out_ptr + row, tl.abs(mean - 37.25))


@probe
def counterparts_of_sums_make_them_what_they_meet():
    x, out = values(64, 24), torch.empty(64)
    INTERPRETER.notes.start()
    try:
        mean_near_a_number[(64,)](x, out, 24, B=32)
        addresses, numbers = INTERPRETER.notes.counterparts.found(of_sums=True)
    finally:
        INTERPRETER.notes.stop()
    places = [divmod(int(address) - x.data_ptr(), 4 * 24) for address in addresses]
    met = x.clone()
    for (row, _), number in zip(places, numbers):
        met[row, 0] = number
    mean_near_a_number[(64,)](met, out, 24, B=32)
    hit = int((out < 1e-4).sum())  # elsewhere the sum equals the number of columns, which it meets as well
    return places == [(row, 0) for row in range(64)] and 0 < hit < 64


@triton.jit
def either(a, b):
    return tl.where(a * b > 3600.0, b, a)  # always the same


@triton.jit
def kernel_of_predicates(x_ptr, word_ptr, out_ptr, n, B: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, B)
    keep = at < n
    x = tl.load(x_ptr + row * n + at, mask=keep, other=99.0)
    word = tl.load(word_ptr + row * n + at, mask=keep, other=-1)
    total = tl.sum(tl.where(keep, x, 0.0), axis=0)
    y = tl.where((x > 0.0) & keep, x, 0.0)
    y += tl.where(x * total > 200.0, 1.0, 0.0)  # always the same: 99 lies behind the end only
    y += tl.where(x * x > 2500.0, 1.0, 0.0) + tl.where(total < -1e6, -1e6, total)
    y += tl.where(tl.argmax(x, axis=0) < 0, 1.0, 0.0)
    y += tl.where(total == 3.0, 1.0, 0.0)  # always the same
    y += tl.minimum(tl.abs(total - 3.0) * 1e30, 1.0)  # always the same
    y += (total * 1e-3).to(tl.int32)  # always the same
    y += tl.exp(-1e30 * tl.abs(total - 3.0))  # always the same
    y += tl.maximum(x, total - 1000.0)  # always the same
    odd = total * 1e-12
    y -= y * odd  # always the same: too little to change anything
    y += tl.maximum(x, total)
    y += tl.exp(tl.full((), -float("inf"), tl.float32) - total)  # a running maximum begins so
    mean = tl.zeros((B,), tl.float32) + x * (1.0 / tl.full((), 1.0, tl.float32))
    y += tl.exp(x - mean) - 1.0  # and a running mean so
    y += tl.where((word >= 0) & (word < 100), 1.0, 0.0)
    y += tl.where((x == x) & (tl.abs(x) != float("inf")), 1.0, 0.0)
    peak = tl.max(tl.where(keep, x, -float("inf")), axis=0)
    mass = tl.sum(tl.where(keep, tl.exp(x - peak), 0.0), axis=0)
    y += tl.where(peak > -float("inf"), 1.0, 0.0) + tl.where(mass == 0.0, 1.0, 0.0)
    rising = tl.sum((tl.associative_scan(tl.where(keep, x, 0.0), 0, either) > x).to(tl.int32), axis=0)
    y += tl.where(rising == n + 1, 1.0, 0.0)  # always the same
    y += tl.where(tl.rand(tl.load(word_ptr), at) >= 0.0, 1.0, 0.0)
    tl.store(out_ptr + row * n + at, y, mask=keep)


@contextlib.contextmanager
def noting(**options):
    """Note predicates for the length of the block, by place."""
    INTERPRETER.notes.start(**options)
    try:
        yield INTERPRETER.notes.predicates.seen
    finally:
        INTERPRETER.notes.stop()


@probe
def predicates_on_data_with_one_result_are_noted():
    x, words, out = values(40, 24), torch.randint(0, 100, (40, 24)), torch.empty(40, 24)
    found = {}
    for kernel in (either, kernel_of_predicates):
        lines, first = inspect.getsourcelines(kernel.fn)
        found |= {first + number: "# always the same" in line for number, line in enumerate(lines)}
    with noting() as seen:
        kernel_of_predicates[(40,)](x, words, out, 24, B=32)
        one_sided = {it.line for it in seen.values() if it.only is not None and it.kind != "guard"}
    wanted = {line for line, is_same in found.items() if is_same}
    assert one_sided == wanted, (one_sided - wanted, wanted - one_sided)
    return True


@triton.jit
def kernel_of_limits(x_ptr, word_ptr, out_ptr, n, most, B: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, B)
    keep = at < n
    x = tl.load(x_ptr + row * n + at, mask=keep, other=0.0)
    size = tl.sum(x * x, axis=0)
    y = tl.maximum(size, 0.3)  # always the same
    y += tl.where(size < 0.3, 0.3, size)  # always the same
    y += tl.where(tl.abs(size - 1.0) < 0.05, 1.0, size)  # always the same
    y += tl.where(tl.abs(size - 1.0) < 1e-6, 7.0, size)  # always the same: zero of what was shifted is no zero
    y += tl.clamp(size, 0.3, 1e6)  # always the same
    y += tl.maximum(size, 1e-12) + tl.minimum(size, 65504.0) + tl.where(size == 0.0, 1.0, size)
    y += tl.where(x > 1e3, 1e3, x)
    whole = tl.sum((x > -1.0).to(tl.float32), axis=0)
    y += tl.maximum(whole, 1.0)
    y += tl.minimum(tl.sqrt(size), most)  # is nearly reached
    a, b = tl.load(word_ptr + row), tl.load(word_ptr + row + 1)
    c, d = tl.load(word_ptr + row + 2), tl.load(word_ptr + row + 3)
    y += tl.where((a <= at) & (at < b), 1.0, 0.0)  # a segment
    y += tl.where((b - a == 2) & (c - b == 2) & (d - c == 2), 1.0, 0.0)  # always the same
    tl.store(out_ptr + row * n + at, y, mask=keep)


@probe
def limits_of_totals_and_patterns_of_whole_numbers_are_noted():
    x, words, out = values(40, 24), torch.arange(43), torch.empty(40, 24)
    lines, first = inspect.getsourcelines(kernel_of_limits.fn)
    with noting() as seen:
        kernel_of_limits[(40,)](x, words, out, 24, 1.001 * x.norm(dim=1).max().item(), B=32)
        one_sided = {it.line for it in seen.values() if it.only is not None and it.kind not in ("guard", "operand")}
    wanted = {first + number for number, line in enumerate(lines) if "# always the same" in line}
    assert one_sided == wanted, (one_sided - wanted, wanted - one_sided)
    return True


@triton.jit
def kernel_of_one_predicate(x_ptr, out_ptr, n, B: tl.constexpr):
    at = tl.arange(0, B)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(out_ptr + at, tl.where(tl.sum(x, axis=0) == 3.0, 0.0, x), mask=at < n)


@probe
def another_result_is_forced_at_one_place():
    x, out, forced, place = values(24), torch.empty(24), torch.empty(24), None
    for written in (out, forced):
        with noting(forced=place) as seen:
            kernel_of_one_predicate[(1,)](x, written, 24, B=32)
            place = next((place for place, it in seen.items() if it.only is not None), None)
    return same(out, x) and same(forced, torch.zeros(24))


@triton.jit
def kernel_of_counts(x_ptr, ends_ptr, out_ptr):
    row = tl.program_id(0)
    begin, end = tl.load(ends_ptr + row), tl.load(ends_ptr + row + 1)
    count = 0
    if end > begin:
        count = 1
    tl.store(out_ptr + row, tl.where(count.to(tl.float32) == 0.0, 5.0, tl.load(x_ptr + row)))


@probe
def a_constant_that_data_may_have_replaced_is_data_in_comparisons():
    x, out, found = values(4), torch.empty(4), []
    for ends in ([0, 2, 4, 6, 8], [0, 2, 2, 4, 6]):
        with noting() as seen:
            kernel_of_counts[(4,)](x, torch.tensor(ends), out)
            last = list(seen.values())[-1]
            found.append((last.kind, last.only))
    return found == [("comparison", 0.0), ("comparison", None)]


@triton.jit
def kernel_of_rounds(x_ptr, out_ptr, n, B: tl.constexpr):
    at = tl.arange(0, B)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    for _ in range(tl.sum(x, axis=0).to(tl.int32) - 1000):
        x *= 0.0
    tl.store(out_ptr + at, x, mask=at < n)


@probe
def a_loop_without_rounds_is_forced_to_have_one():
    x, out, forced, place = values(24), torch.empty(24), torch.empty(24), None
    for written in (out, forced):
        with noting(forced=place) as seen:
            kernel_of_rounds[(1,)](x, written, 24, B=32)
            place = next((place for place, it in seen.items() if it.kind == "bound"), None)
    return same(out, x) and same(forced, torch.zeros(24))


@probe
def a_failure_of_the_notes_is_not_the_kernels():
    x, out, predicates = values(24), torch.empty(24), INTERPRETER.notes.predicates
    with noting():
        predicates._place = None  # a bug
        try:
            kernel_of_one_predicate[(1,)](x, out, 24, B=32)
        except InstrumentError as error:
            return "could not be noted" in str(error)
        finally:
            del predicates._place
    return False


def main():
    chosen = sys.argv[2:] or list(PROBES)
    results = {}
    for name in chosen:
        try:
            results[name] = PROBES[name]()
        except Exception as error:
            results[name] = f"{type(error).__name__}: {error}"
    json.dump(results, sys.stdout)


if __name__ == "__main__":
    np.seterr(all="ignore")
    main()
