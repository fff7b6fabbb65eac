"""Rules for complex numbers, which are kept as two tensors until an operator needs complex memory.

Complex inputs and outputs go through torch's views as pairs of real numbers. complex128 is left to torch.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from triton_agent.policy.author.brief import BeyondAuthor
from triton_agent.policy.author.ir.program import Number, Operand
from triton_agent.policy.author.rules.building import Builder, Call, lowers
from triton_agent.policy.author.rules.complex_pairs import COMPLEX, parts_of_complex
from triton_agent.policy.author.rules.movement import concat
from triton_agent.policy.author.rules.products import multiply
from triton_agent.policy.author.rules.writes import memory_order, put_into, rectangle
from triton_agent.tools.graph.graph import Reference

REAL = "float32"
Pair: TypeAlias = "tuple[Operand, Operand | None]"
"""The real and the imaginary part; None if there is no imaginary part."""


def _made(builder: Builder, real: str, imaginary: str) -> str:
    return builder.emit(
        "complex", real, imaginary, shape=builder.shape(real), dtype=COMPLEX, hint=builder.get(real).hint
    )


def _point(builder: Builder, function: str, *operands: Operand) -> str:
    return builder.point(function, *operands, dtype=REAL)


def _pair(builder: Builder, call: Call, name: str) -> Pair:
    """Return both parts of an operand, which may be a real tensor or a number."""
    found: Any = call.aligned.arguments.get(name)
    if isinstance(found, complex):
        return builder.number(found.real), builder.number(found.imag)
    if not isinstance(found, Reference):
        return call.operand(name), None
    value = call.tensor(name)
    if builder.get(value).dtype != COMPLEX:
        return value, None
    return parts_of_complex(builder, value)


# -- conversions ----------------------------------------------------------------------------------------------------


@lowers("view_as_complex")
def _from_pairs(builder: Builder, call: Call) -> str:
    name = call.tensor("self")
    if builder.get(name).dtype != REAL:
        raise BeyondAuthor("complex numbers other than complex64")
    last = len(builder.shape(name)) - 1
    halves = [builder.slice(name, last, (k,) * builder.width, builder.one()) for k in (0, 1)]
    real, imaginary = (builder.reshape(half, call.shape) for half in halves)
    return _made(builder, real, imaginary)


@lowers("complex")
def _from_parts(builder: Builder, call: Call) -> str:
    if call.dtype != COMPLEX:
        raise BeyondAuthor("complex numbers other than complex64")
    shape = call.shape
    return _made(builder, *(builder.expand(call.tensor(name), shape) for name in ("real", "imag")))


@lowers("polar")
def _from_angle(builder: Builder, call: Call) -> str:
    length, angle = call.tensor("abs"), call.tensor("angle")
    if call.dtype != COMPLEX:
        raise BeyondAuthor("complex numbers other than complex64")
    return _made(builder, *(_point(builder, "mul", length, _point(builder, f, angle)) for f in ("cos", "sin")))


@lowers("view_as_real")
def _to_pairs(builder: Builder, call: Call) -> str:
    name = call.tensor("self")
    if builder.get(name).dtype != COMPLEX:
        raise BeyondAuthor("complex numbers other than complex64")
    last = len(call.shape) - 1
    return concat(builder, [builder.unsqueeze(p, last) for p in parts_of_complex(builder, name)], last, call.shape)


# -- arithmetic ----------------------------------------------------------------------------------------------------


@lowers("_conj", "conj", "conj_physical", "_conj_physical")
def _conjugate(builder: Builder, call: Call) -> str:
    name = call.tensor("self")
    if builder.get(name).dtype != COMPLEX:
        return name
    real, imaginary = parts_of_complex(builder, name)
    return _made(builder, real, _point(builder, "neg", imaginary))


@lowers("add", "sub", when_complex=True)
def _sum(builder: Builder, call: Call) -> str:
    if not (isinstance(call.operand("alpha", 1), Number) and call.plain("alpha", 1) == 1):
        raise BeyondAuthor("complex numbers with alpha")
    (a, b), (c, d) = _pair(builder, call, "self"), _pair(builder, call, "other")
    function = call.aligned.operator.removeprefix("aten.")
    nought = builder.number(0.0)
    imaginary = _point(builder, function, nought if b is None else b, nought if d is None else d)
    return _spread(builder, call, _point(builder, function, a, c), imaginary)


def _spread(builder: Builder, call: Call, real: str, imaginary: str) -> str:
    return _made(builder, builder.expand(real, call.shape), builder.expand(imaginary, call.shape))


@lowers("mul", when_complex=True)
def _product(builder: Builder, call: Call) -> str:
    return _multiplied(builder, call, _pair(builder, call, "self"), _pair(builder, call, "other"))


def _multiplied(builder: Builder, call: Call, first: Pair, second: Pair) -> str:
    (a, b), (c, d) = first, second
    if b is None or d is None:
        by, (real, imaginary) = (a, second) if b is None else (c, first)
        assert imaginary is not None
        return _spread(builder, call, _point(builder, "mul", real, by), _point(builder, "mul", imaginary, by))
    real = _point(builder, "sub", _point(builder, "mul", a, c), _point(builder, "mul", b, d))
    imaginary = _point(builder, "add", _point(builder, "mul", a, d), _point(builder, "mul", b, c))
    return _spread(builder, call, real, imaginary)


@lowers("div", when_complex=True)
def _quotient(builder: Builder, call: Call) -> str:
    first, (c, d) = _pair(builder, call, "self"), _pair(builder, call, "other")
    if d is None:
        a, b = first
        assert b is not None
        return _spread(builder, call, _point(builder, "div", a, c), _point(builder, "div", b, c))
    square = _point(builder, "add", _point(builder, "mul", c, c), _point(builder, "mul", d, d))
    turned = _point(builder, "div", c, square), _point(builder, "neg", _point(builder, "div", d, square))
    return _multiplied(builder, call, first, turned)


@lowers("neg", when_complex=True)
def _negated(builder: Builder, call: Call) -> str:
    return _made(builder, *(_point(builder, "neg", part) for part in parts_of_complex(builder, call.tensor("self"))))


@lowers("exp", when_complex=True)
def _power(builder: Builder, call: Call) -> str:
    real, angle = parts_of_complex(builder, call.tensor("self"))
    length = _point(builder, "exp", real)
    return _made(builder, *(_point(builder, "mul", length, _point(builder, f, angle)) for f in ("cos", "sin")))


@lowers("abs", when_complex=True)
def _length(builder: Builder, call: Call) -> str:
    return _point(builder, "hypot", *parts_of_complex(builder, call.tensor("self")))


@lowers("angle")
def _angle(builder: Builder, call: Call) -> str:
    name = call.tensor("self")
    if builder.get(name).dtype != COMPLEX:
        raise BeyondAuthor("the angle of a real number")
    real, imaginary = parts_of_complex(builder, name)
    return _point(builder, "atan2", imaginary, real)


@lowers("sum", "mean", when_complex=True)
def _total(builder: Builder, call: Call) -> str:
    parts = parts_of_complex(builder, call.tensor("self"))
    dims, keep = call.dims("dim", len(builder.shape(parts[0]))), call.plain("keepdim", False)
    if call.aligned.operator == "aten.sum":
        return _made(builder, *(builder.reduce("sum", part, dims, keep=keep) for part in parts))
    return _made(builder, *(builder.mean(part, dims, keep=keep, dtype=REAL) for part in parts))


@lowers("clone", "contiguous", "_to_copy", when_complex=True)
def _copied(builder: Builder, call: Call) -> str:
    if call.dtype != COMPLEX:
        raise BeyondAuthor("a cast of complex numbers")
    return _made(builder, *parts_of_complex(builder, call.tensor("self")))


@lowers("zeros", "zeros_like", "new_zeros", "zero", "empty", "empty_like", "new_empty", when_complex=True)
def _zeros(builder: Builder, call: Call) -> str:
    nought = builder.full(0.0, call.shape, REAL)
    return _made(builder, nought, nought)


@lowers("copy", when_complex=True)
def _put(builder: Builder, call: Call) -> str:
    real, imaginary = _pair(builder, call, "src")
    assert isinstance(real, str)
    nought = builder.full(0.0, call.shape, REAL)
    return _spread(builder, call, real, nought if imaginary is None else str(imaginary))


@lowers("as_strided_scatter", when_complex=True)
def _strided_write(builder: Builder, call: Call) -> str:
    wholes, pieces = (parts_of_complex(builder, call.tensor(name)) for name in ("self", "src"))
    if memory_order(builder, call) != list(range(len(call.shape))):
        raise BeyondAuthor("complex numbers that are not contiguous")
    stretches = rectangle(builder, call, builder.shape(wholes[0]))
    lengths = tuple(length for _, length, _ in stretches)
    return _made(
        builder,
        *(put_into(builder, whole, builder.reshape(p, lengths), stretches) for whole, p in zip(wholes, pieces)),
    )


@lowers("mm", "bmm", when_complex=True)
def _matrices(builder: Builder, call: Call) -> str:
    """Compute two real products, each with both parts concatenated along the inner dimension."""
    (a, b), (c, d) = (parts_of_complex(builder, call.tensor(name)) for name in ("self", "mat2"))
    return _made(
        builder,
        _joined_product(builder, (a, _point(builder, "neg", b)), (c, d)),
        _joined_product(builder, (a, b), (d, c)),
    )


def _joined_product(builder: Builder, left: tuple[str, str], right: tuple[str, str]) -> str:
    rank = len(builder.shape(left[0]))
    return multiply(builder, _beside(builder, left, rank - 1), _beside(builder, right, rank - 2), REAL)


def _beside(builder: Builder, pair: tuple[str, str], dim: int) -> str:
    shape = builder.shape(pair[0])
    twice = tuple(2 * size for size in shape[dim])
    return concat(builder, list(pair), dim, (*shape[:dim], twice, *shape[dim + 1 :]))


@lowers("_fft_r2c")
def _transform(builder: Builder, call: Call) -> str:
    """Leave the transform to torch, and record the formula of its number of frequencies."""
    if call.plain("onesided", False):
        dim = int(call.plain("dim")[-1])
        builder.formula(call.shape[dim], "{0} // 2 + 1", builder.shape(call.tensor("self"))[dim], name="frequencies")
    raise BeyondAuthor("a Fourier transform")
