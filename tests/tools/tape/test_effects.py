"""The parameters through which a kernel writes, found from its text; rather one too many than one too few."""

from __future__ import annotations

import ast
from collections.abc import Sequence

import pytest
from tests.tools.tape.test_kernels import TL, function

from triton_agent.tools.kernels.effects import WrittenParameters
from triton_agent.tools.kernels.kernel import FunctionReference, JitFunction, KernelSet, LanguageName


def written(text: str, helpers: Sequence[JitFunction] = ()) -> set[str]:
    """Return the parameters, among `x`, `y`, `z` and `n`, through which a kernel with this body writes."""
    body = "\n".join(f"    {line}" for line in text.strip().split("\n"))
    source = f"def kernel(x, y, z, n):\n{body}\n"
    found = {node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)}
    meanings = {f"tl.{name}": LanguageName(path=f"triton.language.{name}") for name in LANGUAGE}
    references = {
        helper.name: FunctionReference(identity=helper.identity) for helper in helpers if helper.name in found
    }
    kernel = function(source, **{**meanings, **references})
    kernels = KernelSet(functions={item.identity: item for item in (*helpers, kernel)})
    return set(WrittenParameters(kernels)(kernel.identity))


LANGUAGE = (
    *("load", "store", "arange", "program_id", "make_block_ptr", "advance", "make_tensor_descriptor", "atomic_add"),
    *("atomic_xchg", "where", "static_range", "load_tensor_descriptor", "store_tensor_descriptor", "range"),
)


def test_a_store_writes_and_a_load_does_not() -> None:
    assert written("at = tl.arange(0, 8)\ntl.store(y + at, tl.load(x + at) * z)") == {"y"}


def test_the_pointer_may_be_given_by_name() -> None:
    assert written("tl.store(value=tl.load(x), pointer=y)") == {"y"}


def test_a_store_as_a_method_writes() -> None:
    assert written("(y + 3).store(x)") >= {"y"}


@pytest.mark.parametrize(
    "text",
    [
        "p = y\ntl.store(p, tl.load(x))",
        "p = y\nq = p + tl.arange(0, 8)\nq += 3\ntl.store(q, tl.load(x))",
        "p, q = y, x\ntl.store(p, tl.load(q))",
        "p: int = y + 1\ntl.store(p, 0)",
        "p = y if n else y + 1\ntl.store(p, 0)",
        "p = tl.where(n > 0, y, y + 1)\ntl.store(p, 0)",
    ],
)
def test_a_store_through_an_alias_writes(text: str) -> None:
    assert "y" in written(text)


def test_pointers_that_loops_carry_on_are_followed() -> None:
    text = "p = x\nq = x\nfor i in range(n):\n    tl.store(p, tl.load(z))\n    p = q\n    q = y + i"
    assert written(text) >= {"x", "y"}


def test_a_choice_among_pointers_writes_through_each() -> None:
    assert written("p = x\nif n > 0:\n    p = y\ntl.store(p, tl.load(z))") == {"x", "y"}


def test_block_pointers_write_where_they_were_made_of() -> None:
    text = (
        "p = tl.make_block_ptr(base=y, shape=(8,), strides=(1,), offsets=(0,), block_shape=(8,), order=(0,))\n"
        "q = tl.make_block_ptr(x, (8,), (1,), (0,), (8,), (0,))\n"
        "p = tl.advance(p, (8,))\ntl.store(p, tl.load(q))"
    )
    assert written(text) == {"y"}


def test_descriptors_write_where_they_were_made_of() -> None:
    made = "d = tl.make_tensor_descriptor(y, [8, 8], [8, 1], [8, 8])\n"
    assert written(made + "d.store([0, 0], tl.load(x))") == {"y"}
    assert written("y.store([0, 0], x.load([0, 0]))") == {"y"}
    assert written(made + "tl.store_tensor_descriptor(d, [0, 0], tl.load_tensor_descriptor(x, [0, 0]))") == {"y"}


@pytest.mark.parametrize("name", ["atomic_add", "atomic_xchg"])
def test_atomics_write(name: str) -> None:
    assert written(f"old = tl.{name}(y + 1, tl.load(x))") == {"y"}


def test_a_value_that_was_loaded_is_no_pointer() -> None:
    assert written("at = tl.load(x)\ntl.store(y + at, tl.load(z + at))") == {"y"}


def test_a_helper_writes_through_what_it_is_given() -> None:
    helper = function("def put(to, what, at):\n    tl.store(to + at, what)\n", **{"tl.store": STORE})
    assert written("put(y, tl.load(x), 3)", [helper]) == {"y"}
    assert written("put(what=tl.load(x), at=0, to=z)", [helper]) == {"z"}


def test_a_helper_of_a_helper_writes_too() -> None:
    inner = function("def put(to, what):\n    tl.store(to, what)\n", **{"tl.store": STORE})
    outer = function(
        "def twice(a, b, what):\n    put(a, what)\n    put(b, what)\n", put=FunctionReference(identity=inner.identity)
    )
    assert written("twice(y, z, tl.load(x))", [inner, outer]) == {"y", "z"}


def test_a_pointer_that_a_helper_returns_is_still_that_pointer() -> None:
    helper = function("def row(base, at):\n    return base + at * 8\n")
    assert written("tl.store(row(y, 1), tl.load(row(x, 1)))", [helper]) == {"y"}


def test_a_function_that_was_passed_in_may_write_through_all_it_is_given() -> None:
    assert written("n(y, z)\ntl.load(x)") == {"y", "z"}


@pytest.mark.parametrize("name", ["pointer_type", "PointerType", "pi32_t"])
def test_what_makes_pointers_of_numbers_may_write_anywhere(name: str) -> None:
    assert written(f"tl.load(x.to(tl.{name}(n)))") == {"x", "y", "z", "n"}


def test_inline_assembly_gives_a_number_that_still_points_where_its_operands_point() -> None:
    assert written("at = tl.inline_asm_elementwise('', '', [x], tl.int64, True, 1)\ntl.store(y + at, 0)") == {"x", "y"}
    assert written("at = tl.inline_asm_elementwise('', '', [tl.load(x)], tl.int64, True, 1)\ntl.store(y, at)") == {"y"}


def test_a_kernel_that_only_reads_writes_nothing() -> None:
    assert written("tl.load(x + tl.load(y))") == set()


STORE = LanguageName(path="triton.language.store")
assert LanguageName(path="triton.language") == TL
