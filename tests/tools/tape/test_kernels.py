"""Kernels are captured, checked and rebuilt; texts outside the kernel language are refused."""

from __future__ import annotations

import ast
import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.grading import corpus, honest
from tests.scoreboard import missing

from triton_agent.tools.kernels.kernel import (
    Constexpr,
    DType,
    FunctionReference,
    JitFunction,
    KernelSet,
    LanguageName,
    Parameter,
    Value,
    value_from_json,
    value_to_json,
)
from triton_agent.tools.kernels.language import NotKernelLanguage, check, check_value
from triton_agent.tools.kernels.modules import build, load
from triton_agent.tools.processes.tensors import Malformed

pytestmark = pytest.mark.xdist_group("tape_kernels")  # what is made once is made in one process
ROOT = Path(__file__).parents[3]
TL = LanguageName(path="triton.language")
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("TRITON_")} | {
    "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
    "PYTHONWARNINGS": "ignore",
    "OMP_NUM_THREADS": "1",
}


def text_of(kernels: KernelSet) -> str:
    return build(kernels).text


def function(source: str, *, kind: str = "jit", first_line: int = 1, **found: Value) -> JitFunction:
    """A function as a tracer might send it. Annotations containing `constexpr` are taken at their word."""
    try:
        definition = ast.parse(source).body[0]
    except (SyntaxError, ValueError, RecursionError, MemoryError, IndexError):
        definition = ast.parse("def kernel(): pass").body[0]
    if not isinstance(definition, ast.FunctionDef):
        definition = ast.parse("def kernel(): pass").body[0]
    assert isinstance(definition, ast.FunctionDef)
    arguments = definition.args.args
    required = len(arguments) - len(definition.args.defaults)
    return JitFunction(
        name=definition.name,
        source=source,
        parameters=tuple(
            Parameter(
                name=argument.arg,
                annotation="constexpr" if argument.annotation and "constexpr" in ast.dump(argument) else "",
                has_default=position >= required,
            )
            for position, argument in enumerate(arguments)
        ),
        globals=tuple({"tl": TL, **found}.items()),
        first_line=first_line,
        kind=kind,  # type: ignore[arg-type]
    )


def kernel(body: str, parameters: str = "x, y, N: tl.constexpr", **found: Value) -> KernelSet:
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    return KernelSet.of([function(f"def kernel({parameters}):\n{lines}", **found)])


# The corpora


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    files = [
        s.path
        for s in (*corpus(), *honest())
        if (s.path.stem.startswith("right") or s.path.parent.name == "honest") and not missing(s.needs)
    ]
    files += sorted((ROOT / "examples").glob("*.py"))
    out = tmp_path_factory.mktemp("corpus") / "kernels.json"
    script = Path(__file__).with_name("kernel_corpus.py")
    subprocess.run([sys.executable, script, out, *files], env=ENVIRONMENT, check=True, timeout=300)
    return dict(json.loads(out.read_text()))


def test_every_right_kernel_is_captured_checked_and_rebuilt(captured: dict[str, Any], tmp_path: Path) -> None:
    failures: dict[str, str] = {}
    count = 0
    for path, result in captured.items():
        if "import" in result or result["refused"]:
            failures[path] = str(result.get("import") or result["refused"])
            continue
        kernels = KernelSet.from_json(result["kernels"])
        try:
            functions = load(kernels, tmp_path)
        except NotKernelLanguage as error:
            failures[path] = str(error)
            continue
        assert functions.keys() == kernels.functions.keys()
        count += len(functions)
    assert failures == {}
    assert count > 150


@pytest.mark.parametrize("apart", [False, True])
def test_lines_of_rebuilt_kernels_are_those_of_the_candidates_file(captured: dict[str, Any], apart: bool) -> None:
    for path, result in captured.items():
        original = Path(path).read_text().split("\n")
        kernels = KernelSet.from_json(result["kernels"])
        module = build(kernels, apart=apart)
        lines = module.text.split("\n")
        for identity, one in kernels.functions.items():
            start, first_line = module.first_lines[identity]
            last = start + len(one.source.rstrip().split("\n")) - 1
            assert lines[start - 1].startswith("def ")
            assert lines[last - 1].strip() == original[last - start + first_line - 1].strip()


def test_a_function_kept_apart_has_the_same_lines_beside_others() -> None:
    kernel = function("def copy(x, y):\n    tl.store(y, tl.load(x))\n", tl=TL)
    more = [
        function(f"def other_{n}(x):\n{'    # a comment' * (n > 1)}\n    tl.store(x, {n})\n", tl=TL) for n in range(4)
    ]
    alone, beside = (build(KernelSet.of(found), apart=True) for found in ([kernel], [*more, kernel]))
    (identity,) = alone.first_lines
    assert alone.first_lines[identity] == beside.first_lines[identity]
    line = alone.first_lines[identity][0]
    assert all(module.text.split("\n")[line - 1] == "def copy(x, y):" for module in (alone, beside))


def test_json_round_trip_keeps_identities(captured: dict[str, Any]) -> None:
    for result in captured.values():
        kernels = KernelSet.from_json(result["kernels"])
        assert KernelSet.from_json(json.loads(json.dumps(kernels.to_json()))) == kernels


# Capturing what is less common

FIRST_FILE = '''
import enum
import math
import triton
import triton.language as T
from triton.language import sum as total, exp
from triton.language.extra import libdevice
import second
from second import scale as rescale

class Mode(enum.IntEnum):
    FAST = 3

LOG2E = T.constexpr(1.44)
MODE = T.constexpr(Mode.FAST)
PTR = T.pointer_type(T.float16)
PLAIN = 7

@triton.constexpr_function
def bits(n):
    result = 0
    for i in range(40):
        if n > 1:
            n = n // 2
            result += 1
    return result

@triton.jit
def plus(a, b):
    return a + b

@triton.jit
def apply(x, fn: T.constexpr = None):
    if fn is not None:
        x = fn(x)
    return x

@triton.jit(do_not_specialize=["n"], noinline=True)
def kernel(x_ptr: "*fp32", y, n: T.int32,  # a comment
           B: T.constexpr = (
               64
           ), M: "T.constexpr" = float("inf")) -> None:
    """A docstring.
    def foo(): is not code
    """
    offsets = T.arange(0, B)
    v = T.load(x_ptr + offsets, mask=offsets < n, other=-M)
    v = rescale(v) + second.shift(v) * LOG2E + second.C
    v = apply(v, fn=exp) + apply(v) + apply(v, libdevice.tanh)
    z = T.reduce(v, 0, plus) + total(v, axis=0) + math.sqrt(B)
    K: T.constexpr = bits(B)
    for i in T.static_range(K):
        v += MODE
    T.static_assert(B % 2 == 0, f"B is {B}")
    T.store(y.to(PTR) + offsets, v + z, mask=offsets < n)

def maker(width):
    @triton.jit
    def inner(x):
        return x * width
    return inner

closed = maker(T.constexpr(8))

@triton.jit
def uses_plain(x):
    return x + PLAIN

@triton.jit
def recursive(x):
    return recursive(x)

@triton.jit
def uses_object(x):
    return x + Mode.FAST
'''
ENUM_LINE = FIRST_FILE.split("\n").index("    return x + Mode.FAST") + 1
SECOND_FILE = """
import triton
import triton.language as tl

LOG2E = tl.constexpr(2.0)
C = 5

@triton.jit
def scale(x):
    return x * LOG2E

@triton.jit
def kernel(x):
    return max(x, 0)

@triton.jit
def shift(x):
    return kernel(x) + tl.math.exp(x)
"""
CAPTURE = """
import json, sys
import first
from triton_agent.tools.kernels.capture import Capture
from triton_agent.tools.kernels.kernel import NotKernelLanguage
results = {}
for name in ("kernel", "closed", "uses_plain", "recursive", "uses_object"):
    capture = Capture()
    try:
        identity = capture.capture(getattr(first, name))
        results[name] = [identity, capture.kernels().to_json()]
    except NotKernelLanguage as error:
        results[name] = [str(error), None]
print(json.dumps(results))
"""


@pytest.fixture(scope="module")
def unusual(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("unusual")
    (folder / "first.py").write_text(FIRST_FILE)
    (folder / "second.py").write_text(SECOND_FILE)
    environment = ENVIRONMENT | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{folder}"}
    done = subprocess.run(
        [sys.executable, "-c", CAPTURE], env=environment, check=True, timeout=120, capture_output=True, text=True
    )
    return dict(json.loads(done.stdout))


def test_helpers_aliases_modules_and_clashing_names_are_captured(unusual: dict[str, Any], tmp_path: Path) -> None:
    identity, data = unusual["kernel"]
    kernels = KernelSet.from_json(data)
    assert sorted(f.name for f in kernels.functions.values()) == [
        "apply", "bits", "kernel", "kernel", "plus", "scale", "shift",
    ]  # fmt: skip
    module = build(kernels)
    assert "LOG2E = tl.constexpr(2.0)" in module.text and "LOG2E = tl.constexpr(1.44)" in module.text
    assert "# a comment" in module.text and "scale(v) + shift(v)" in module.text
    loaded = load(kernels, tmp_path)[identity]
    assert loaded.noinline is True and loaded.do_not_specialize == ["n"]
    assert [p.annotation for p in loaded.params] == ["*fp32", "", "i32", "constexpr", "constexpr"]
    assert loaded.params[4].default == float("inf") and loaded.params[3].default == 64


def test_closure_variables_are_captured(unusual: dict[str, Any]) -> None:
    assert "width = tl.constexpr(8)" in text_of(KernelSet.from_json(unusual["closed"][1]))


def test_plain_globals_stay_plain_so_that_triton_refuses_them(unusual: dict[str, Any]) -> None:
    assert "PLAIN = 7" in text_of(KernelSet.from_json(unusual["uses_plain"][1]))


@pytest.mark.parametrize(
    ("name", "words"), [("recursive", "calls itself"), ("uses_object", f"kernel uses_object, line {ENUM_LINE}: Mode")]
)
def test_what_cannot_go_on_a_tape_is_named(unusual: dict[str, Any], name: str, words: str) -> None:
    message, kernels = unusual[name]
    assert kernels is None and words in message


# Refusals

ASSEMBLY = 'y = tl.inline_asm_elementwise("{}", "=r,r", [x], tl.int32, True, 1)'
REFUSED_BODIES = {
    # attributes
    "handle": "x.handle",
    "handle_data": "x.handle.data.tofile('/tmp/x')",
    "class": "y = x.__class__",
    "class_chain": "x.__class__.__base__.__subclasses__()",
    "init_globals": "tl.load.__globals__['os']",
    "tensor_init": "tl.tensor.__init__(x, 1)",
    "tensor_class": "y = tl.tensor(x, 1)",
    "private_attribute": "y = x._flatten_ir",
    "to_ir": "y = x.dtype.to_ir(x)",
    "method_not_called": "y = x.to",
    "launch_a_helper": "y = tl.sum.fn",
    "run": "y = tl.sum.run",
    "function_subscript": "y = tl.sum[(1,)]",
    "attribute_store": "x.shape = 1",
    "attribute_augmented": "x.value += 1",
    "subscript_store": "x[0] = 1",
    "subscript_delete": "del x",
    # modules
    "core_sys": "y = tl.core.sys",
    "core_builtins": "y = tl.core.builtins.open('x')",
    "core_inspect": "tl.core.inspect.os.system('true')",
    "core_builtin": "y = tl.core.builtin(x)",
    "core_wraps": "y = tl.core.wraps(x)",
    "core_knobs": "y = tl.core.knobs.cache",
    "core_extern": "y = tl.core.extern_elementwise('l', '/tmp/l.so', [x], {}, True)",
    "standard_core": "y = tl.standard.core.builtins",
    "standard_jit": "y = tl.standard.jit(x)",
    "standard_private": "y = tl.standard._log2(8)",
    "semantic": "y = tl.semantic.TritonSemantic",
    "extra_pkgutil": "y = tl.extra.pkgutil",
    "extra_modules": "y = tl.extra.modules",
    "module_as_value": "y = tl",
    "module_as_argument": "y = len(tl.math)",
    "function_as_value": "y = tl.exp",
    "class_as_value": "y = tl.constexpr",
    "str_to_ty": "y = tl.str_to_ty('*fp32', None)",
    "globaltimer": "y = tl.extra.cuda.globaltimer()",
    "smid": "y = tl.extra.cuda.smid()",
    "num_warps": "y = tl.extra.cuda.num_warps()",
    "gdc": "tl.extra.cuda.gdc_launch_dependents()",
    # names
    "undefined": "y = os",
    "import_builtin": "y = __import__('os')",
    "builtins_name": "y = __builtins__",
    "language_of_the_interpreter": "y = __language__",
    "name_mangled": "__x = 1",
    "open": "y = open('x')",
    "eval": "y = eval('1')",
    "getattr": "y = getattr(x, 'handle')",
    "type": "y = type(x)",
    "vars": "y = vars(x)",
    "builtin_as_value": "y = print",
    "builtin_attribute": "y = print.__self__",
    "float_attribute": "y = float.fromhex('1')",
    "own_name": "y = kernel(x, y, N)",
    "shadowed_module": "tl = x\ny = tl.load(x)",
    "shadowed_in_loop": "for tl in range(3):\n    pass",
    "shadowed_builtin": "print = x\nprint(1)",
    "called_variable": "f = x\nf(y)",
    "called_result": "tl.load(x)(y)",
    "called_subscript": "x[0](y)",
    "called_condition": "(tl.exp if N else tl.log)(x)",
    "called_value_parameter": "x(y)",
    "called_and_assigned": "N = 1\nN(x)",
    "function_parameter_subscript": "g = N[(1,)]\nN(x)",
    "function_parameter_attribute": "g = N.fn\nN(x)",
    "function_in_tuple": "y = (tl.exp, tl.log)",
    "function_returned": "return tl.exp",
    # strings
    "format": "y = '{0.__class__}'.format(x)",
    "format_variable": "s: tl.constexpr = '{0.__class__}'\ny = s.format(x)",
    "join": "y = ''.join(['a'])",
    "percent": "y = '%999999999d' % 1",
    "percent_variable": "s: tl.constexpr = '%999999999d'\ny = s % 1",
    "string_times": "y = 'a' * 10**10",
    "string_times_variable": "s: tl.constexpr = 'a'\ns *= 100000",
    "string_added": "s: tl.constexpr = 'a'\ns += s",
    "f_string": "y = f'{x}'",
    "f_string_call": "tl.static_assert(N, f'{tl.exp(x)}')",
    "f_string_attribute": "tl.static_assert(N, f'{x.__class__}')",
    "f_string_format": "tl.static_assert(N, f'{x:>999999999}')",
    "f_string_nested_format": "print(f'{x:{N}}')",
    "f_string_in_call": "y = tl.load(f'{x}')",
    # numbers
    "power_bomb": "y = 2**10**10",
    "power_of_parameter": "y = 2**N",
    "power_of_power": "y = ((N**60)**60)**60",
    "huge_literal": "y = " + "9" * 30,
    "huge_shift": "y = 1 << 10000000000",
    "huge_shift_from_global": "y = 1 << BIG",
    "huge_product": "y = 0xffffffffffff * 0xffffffffffff",
    "tuple_times": "y = (1,) * 10**10",
    "list_times": "y = [1] * N",
    "tuple_variable_times": "t = (1, 2)\ny = t * N",
    "constant_squared": "N *= N",
    "constant_doubled": "N += N",
    "constant_local_doubled": "a: tl.constexpr = N\nfor i in range(99):\n    a += a",
    "constant_from_itself": "a: tl.constexpr = 2\nfor i in range(99):\n    a: tl.constexpr = a * a",
    "constants_in_turn": "a: tl.constexpr = 2\nwhile x:\n    b: tl.constexpr = a * a\n    a: tl.constexpr = b",
    "constant_on_one_line": "for i in range(9):\n    b: tl.constexpr = a * a; a: tl.constexpr = b",
    "bytes": "y = b'a'",
    "complex": "y = 1j",
    "ellipsis": "y = x[...]",
    # syntax
    "lambda": "f = lambda: 1",
    "comprehension": "y = [i for i in range(3)]",
    "generator": "y = max(i for i in range(3))",
    "dict": "y = {}",
    "set": "y = {1}",
    "walrus": "y = (z := 1)",
    "yield": "yield x",
    "await_less": "y = yield",
    "import": "import os",
    "import_from": "from os import system",
    "global": "global tl",
    "nonlocal_less": "class A: pass",
    "nested": "def f(): pass",
    "decorated": "@tl.core.builtin\ndef f(): pass",
    "async": "async def f(): pass",
    "with": "with x:\n    pass",
    "try": "try:\n    pass\nexcept Exception:\n    pass",
    "raise": "raise ValueError",
    "break": "while x:\n    break",
    "continue": "for i in range(3):\n    continue",
    "for_else": "for i in range(3):\n    pass\nelse:\n    pass",
    "match": "match x:\n    case 1:\n        pass",
    "matmul": "y = x @ y",
    "in": "y = x in y",
    "chained_assignment": "a = b = x",
    "starred_target": "a, *b = x",
    "for_over_tensor": "for i in x:\n    pass",
    "for_over_attribute": "for i in x.handle:\n    pass",
    "for_target_attribute": "for x.handle in range(3):\n    pass",
    "annotation_call": "y: tl.load(x) = 1",
    "annotation_name": "y: open = 1",
    "annotation_subscript": "y: x[0] = 1",
    "bare_annotation": "y: tl.constexpr",
    "assert_escape": "assert x, x.__class__",
    # arguments
    "semantic_keyword": "y = tl.load(x, _semantic=y)",
    "builder_keyword": "y = tl.exp(x, _builder=y)",
    "generator_keyword": "y = tl.reduce(x, 0, tl.maximum, _generator=y)",
    "method_semantic_keyword": "y = x.to(tl.float32, _semantic=y)",
    "double_star": "y = tl.load(**x)",
    "print_file": "print(x, file=y)",
    "static_print_file": "tl.static_print(x, file=y)",
    "device_print_file": "tl.device_print('x', x, file=y)",
    "max_key": "y = max(x, y, key=tl.exp)",
    "isinstance_type": "y = isinstance(x, N)",
    "isinstance_constant": "if isinstance(x, tl.constexpr):\n    y = x",
    "range_as_value": "y = range(3)",
    "range_function": "y = len(range(10**9))",
    "static_range_value": "y = tl.static_range(3)",
    "reduce_value": "y = tl.reduce(x, 0, x)",
    "reduce_builtin": "y = tl.reduce(x, 0, max)",
    "reduce_direct": "y = tl.reduce(x, 0, tl.static_print)",
    "reduce_starred": "y = tl.reduce(*x)",
    "method_reduce_value": "y = x.reduce(0, y)",
    "map_value": "y = tl.map_elementwise(x, y)",
    "scan_subscript": "y = tl.associative_scan(x, 0, N[(1,)])",
    "constexpr_called": "y = tl.constexpr(tl.exp)(x)",
    "constexpr_of_function": "y = tl.constexpr(tl.exp)",
    # inline assembly
    "asm_clock": ASSEMBLY.format("mov.u64 $0, %clock64;"),
    "asm_globaltimer": ASSEMBLY.format("mov.u64 $0, %globaltimer;"),
    "asm_smid": ASSEMBLY.format("mov.u32 $0, %smid;"),
    "asm_redeclared": ASSEMBLY.format("{ .reg .b32 %smid; mov.u32 $0, %smid; }"),
    "asm_pm": ASSEMBLY.format("{ .reg .b32 %pm0; mov.u32 $0, %pm0; }"),
    "asm_warp_size": ASSEMBLY.format("mov.u32 $0, WARP_SZ;"),
    "asm_load": ASSEMBLY.format("ld.global.u32 $0, [$1];"),
    "asm_store": ASSEMBLY.format("st.global.u32 [$1], 1;"),
    "asm_atomic": ASSEMBLY.format("atom.add.u32 $0, [$1], 1;"),
    "asm_hidden_in_comment_end": ASSEMBLY.format("/* */ ld.global.u32 $0, [$1]; /* */"),
    "asm_hidden_by_line": ASSEMBLY.format("add.s32 $0, $1, 1\\n trap;"),
    "asm_trap": ASSEMBLY.format("trap;"),
    "asm_exit": ASSEMBLY.format("exit;"),
    "asm_sleep": ASSEMBLY.format("nanosleep.u32 100;"),
    "asm_branch": ASSEMBLY.format("top: bra top;"),
    "asm_call": ASSEMBLY.format("call vprintf, ($1);"),
    "asm_barrier": ASSEMBLY.format("bar.sync 0;"),
    "asm_directive": ASSEMBLY.format('.pragma \\"x\\";'),
    "asm_guarded": ASSEMBLY.format("@$1 trap;"),
    "asm_escape": ASSEMBLY.format("mov.u32 $0, $$1;"),
    "asm_parameter": "y = tl.inline_asm_elementwise(N, '=r,r', [x], tl.int32, True, 1)",
    "asm_variable": "a: tl.constexpr = 'trap;'\ny = tl.inline_asm_elementwise(a, '=r,r', [x], tl.int32, True, 1)",
    "asm_sum": "y = tl.inline_asm_elementwise('tr' 'ap;', '=r,r', [x], tl.int32, True, 1)",
    "asm_starred": "y = tl.inline_asm_elementwise(*x)",
    "asm_twice": "y = tl.inline_asm_elementwise('', '=r', [x], tl.int32, True, 1, asm='trap;')",
    "asm_constraints": "y = tl.inline_asm_elementwise('mov.b32 $0, $1;', '=r,r,~{memory}', [x], tl.int32, True, 1)",
    "asm_by_method": "y = x.inline_asm_elementwise('trap;')",
    "asm_passed_on": "y = tl.map_elementwise(tl.inline_asm_elementwise, x)",
}


@pytest.mark.parametrize("body", REFUSED_BODIES.values(), ids=REFUSED_BODIES.keys())
def test_body_is_refused(body: str) -> None:
    with pytest.raises(NotKernelLanguage) as caught:
        check(kernel(body, BIG=Constexpr(value=10**12)) if "BIG" in body else kernel(body))
    assert caught.value.reason


REFUSED_SOURCES = {
    "two_functions": "def kernel(x):\n    pass\ndef other(x):\n    pass\n",
    "statement_behind": "def kernel(x):\n    pass\nx = 1\n",
    "decorator": "@tl.core.builtin\ndef kernel(x):\n    pass\n",
    "class": "class kernel:\n    pass\n",
    "lambda": "kernel = lambda x: 1\n",
    "async": "async def kernel(x):\n    pass\n",
    "leading_statement": "import os\ndef kernel(x):\n    pass\n",
    "star_arguments": "def kernel(*x):\n    pass\n",
    "keyword_arguments": "def kernel(**x):\n    pass\n",
    "keyword_only": "def kernel(*, x):\n    pass\n",
    "position_only": "def kernel(x, /):\n    pass\n",
    "dunder_parameter": "def kernel(__class__):\n    pass\n",
    "shadowing_parameter": "def kernel(tl):\n    tl.load(1)\n",
    "syntax_error": "def kernel(x:\n",
    "null_byte": "def kernel(x):\n    pass\0\n",
    "form_feed": "def kernel(x):\n\f    pass\n",
    "carriage_return": "def kernel(x):\r    import os\n",
    "surrogate": "def kernel(x):\n    y = '\ud800'\n",
    "deep": "def kernel(x):\n    y = " + "-" * 500 + "x\n",
    "very_deep": "def kernel(x):\n    y = " + "-" * 90_000 + "x\n",
    "parentheses": "def kernel(x):\n    y = " + "(" * 5000 + "x" + ")" * 5000 + "\n",
    "long": "def kernel(x):\n" + "    y = x\n" * 20_000,
    "empty": "",
}


@pytest.mark.parametrize("source", REFUSED_SOURCES.values(), ids=REFUSED_SOURCES.keys())
def test_source_is_refused(source: str) -> None:
    with pytest.raises(NotKernelLanguage):
        check(KernelSet.of([function(source)]))


def test_name_differing_from_the_source_is_refused() -> None:
    forged = dataclasses.replace(function("def kernel(x):\n    pass\n"), name="other")
    with pytest.raises(NotKernelLanguage):
        check(KernelSet.of([forged]))


REFUSED_GLOBALS: dict[str, tuple[str, Value]] = {
    "builtins": ("__builtins__", 1),
    "dunder": ("a.__class__", 1),
    "keyword": ("import", 1),
    "not_a_name": ("a b", 1),
    "newline": ("a\nimport os\nb", 1),
    "expression": ("a[0]", 1),
    "unknown_module": ("os", LanguageName(path="os")),
    "inner_module": ("core", LanguageName(path="triton.language.core.builtins")),
    "semantic": ("semantic", LanguageName(path="triton.language.semantic")),
    "runtime": ("r", LanguageName(path="triton.runtime")),
    "gluon": ("g", LanguageName(path="triton.experimental.gluon.language")),
    "path_with_code": ("p", LanguageName(path="triton.language.exp; import os")),
    "jit": ("j", LanguageName(path="triton.jit")),
    "dtype_with_code": ("d", DType(name="fp32); import os; (")),
    "unknown_dtype": ("d", DType(name="*kind")),
    "huge_integer": ("n", 2**70),
    "huge_text": ("s", "a" * 1_000_000),
    "function_in_tuple": ("t", (LanguageName(path="triton.language.exp"),)),
    "module_in_constexpr": ("m", Constexpr(value=TL)),
    "assembly_in_constexpr": ("m", Constexpr(value=LanguageName(path="triton.language.inline_asm_elementwise"))),
    "nested_constexpr": ("c", Constexpr(value=Constexpr(value=1))),
    "list": ("l", [1]),  # type: ignore[dict-item]
    "object": ("o", object()),  # type: ignore[dict-item]
    "own_class_of_int": ("i", type("Int", (), {})),  # type: ignore[dict-item]
    "parameter_again": ("x", 1),
    "module_twice": ("tl.load", 1),
}


@pytest.mark.parametrize(("name", "value"), REFUSED_GLOBALS.values(), ids=REFUSED_GLOBALS.keys())
def test_global_is_refused(name: str, value: Value, monkeypatch: pytest.MonkeyPatch) -> None:
    forged = dataclasses.replace(function("def kernel(x):\n    pass\n"), globals=(("tl", TL), (name, value)))
    monkeypatch.setattr(JitFunction, "identity", property(lambda self: "f" * 32))
    with pytest.raises(NotKernelLanguage):
        check(KernelSet.of([forged]))


@pytest.mark.parametrize(
    "parameter",
    [
        Parameter(name="x", annotation="constexpr = __import__('os')"),
        Parameter(name="x", annotation="tl.constexpr"),
        Parameter(name="x", annotation="*os"),
        Parameter(name="x, y", annotation=""),
        Parameter(name="y"),
        Parameter(name="x", has_default=True),
    ],
)
def test_forged_parameter_is_refused(parameter: Parameter) -> None:
    forged = dataclasses.replace(function("def kernel(x):\n    pass\n"), parameters=(parameter,))
    with pytest.raises(NotKernelLanguage):
        check(KernelSet.of([forged]))


def test_defaults_and_annotations_of_the_text_are_not_evaluated() -> None:
    source = "def kernel(x: open('x', 'w'), y=__import__('os').system('true')) -> exit():\n    pass\n"
    text = text_of(KernelSet.of([function(source)]))
    assert "def kernel(x, y=None):" in text
    assert "os" not in text


REFUSED_CONSTANT_FUNCTIONS = {
    "while": "while True:\n    pass",
    "endless_range": "for i in range(10**12):\n    pass",
    "range_of_parameter": "for i in range(n):\n    pass",
    "nested_ranges": "for i in range(1000):\n    for j in range(1000):\n        pass",
    "squaring": "for i in range(100):\n    n = n * n\nreturn n",
    "squaring_in_place": "for i in range(100):\n    n *= n\nreturn n",
    "shifting": "for i in range(100):\n    n = n << n\nreturn n",
    "loop_over_list": "for i in [1, 2]:\n    pass",
    "list_grows": "a = [1]\na += a\na.append(1)",
    "tuple_times": "return (1,) * n",
    "text_times": "return 'a' * n",
    "power": "return n ** n",
    "open": "return open('x')",
    "attribute": "return n.__class__",
    "bit_length": "return n.to_bytes(10)",
    "triton_function": "return tl.exp(n)",
    "load": "return tl.load(n)",
    "print": "print(n)",
    "called_parameter": "return n(1)",
    "import": "import os",
    "comprehension": "return [i for i in range(n)]",
    "factorial": "return math.factorial(n)",
}


@pytest.mark.parametrize("body", REFUSED_CONSTANT_FUNCTIONS.values(), ids=REFUSED_CONSTANT_FUNCTIONS.keys())
def test_constant_function_is_refused(body: str) -> None:
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    math = {"math": LanguageName(path="math")} if "math" in body else {}
    with pytest.raises(NotKernelLanguage):
        check(KernelSet.of([function(f"def constant(n):\n{lines}", kind="constexpr", **math)]))


def test_function_that_takes_functions_cannot_be_passed_on() -> None:
    helper = function("def helper(fn: tl.constexpr, x):\n    return fn(x)\n")
    reference = FunctionReference(identity=helper.identity)
    for body in ("helper(helper, x)", "helper(x, x)", "helper(N[(1,)], x)", "helper(*x)", "helper(x.to, x)"):
        user = function(f"def kernel(x, N: tl.constexpr):\n    {body}\n", helper=reference)
        with pytest.raises(NotKernelLanguage):
            check(KernelSet.of([helper, user]))
    with pytest.raises(ValueError):
        check_value(reference, KernelSet.of([helper]))
    wrapped = function("def kernel(x, N: tl.constexpr):\n    y = N[(1,)]\n    H(y, x)\n", H=Constexpr(value=reference))
    with pytest.raises(NotKernelLanguage):
        check(KernelSet.of([helper, wrapped]))


def test_values_of_arguments_are_checked() -> None:
    kernels = kernel("pass")
    check_value(LanguageName(path="triton.language.exp"), kernels)
    check_value((1, 2.5, ("a", None)), kernels)
    for value in (
        TL,
        LanguageName(path="triton.language.inline_asm_elementwise"),
        FunctionReference(identity="0" * 32),
        2**80,
    ):
        with pytest.raises(ValueError):
            check_value(value, kernels)


ALLOWED_BODIES = {
    "loop": "for i in tl.range(0, N, 2, num_stages=3):\n    y += i",
    "tuple": "a, (b, c) = x.shape[0], (1, 2)",
    "method_chain": "z = tl.load(x)[:, None].to(tl.float32).sum(axis=0, keep_dims=True)",
    "dtype": "z = x.dtype.element_ty.primitive_bitwidth // 8\nif x.dtype.is_ptr():\n    z = 1",
    "float": "z = float('-inf') if N > 2**20 - 1 else -1e30",
    "shift": "z = (x >> 4) & 0xF | (1 << N)",
    "assembly": ASSEMBLY.format("{ .reg .b32 r<2>; add.s32 r1, $1, 0x7; @!p mov.b32 $0, r1; }").replace("@!p ", ""),
    "assembly_pairs": ASSEMBLY.format("cvt.rn.bf16x2.f32 $0, $1, $2; mov.b64 {$0, $1}, $2;"),
    "print": "tl.device_print('x', x)\nprint('y', y)\ntl.static_print(f'N = {N!r}')",
    "libdevice": "z = tl.extra.cuda.libdevice.tanh(x)",
    "reduce": "z = tl.reduce(x, 0, tl.maximum)\nw = x.reduce(0, combine_fn=tl.minimum)",
    "enum": "z = tl.maximum(x, y, propagate_nan=tl.PropagateNan.ALL)",
    "while": "while tl.atomic_cas(x, 0, 1) == 1:\n    pass",
    "function_parameter": "z = x\nif N is not None:\n    z = N(x)",
    "constexpr": "z: tl.constexpr = tl.constexpr(4)\nassert z == 4, 'four'",
}


@pytest.mark.parametrize("body", ALLOWED_BODIES.values(), ids=ALLOWED_BODIES.keys())
def test_body_is_allowed(body: str) -> None:
    build(kernel(body))


def test_refusal_names_the_line_of_the_candidates_file() -> None:
    bad = function("def kernel(x):\n    y = x\n    y.handle\n", first_line=40)
    with pytest.raises(NotKernelLanguage, match=r"kernel kernel, line 42: .*\.handle"):
        check(KernelSet.of([bad]))


# The codec


@pytest.mark.parametrize(
    "value",
    [None, True, 1, 1.0, -0.5, float("inf"), "text", (1, ("a", 2.0), ()), DType(name="*kfp16"), Constexpr(value=3), TL],
)
def test_values_survive_json(value: Value) -> None:
    back = value_from_json(json.loads(json.dumps(value_to_json(value))))
    assert back == value and type(back) is type(value)


FORGED_VALUES: dict[str, Any] = {
    "bare": 1,
    "two_tags": {"value": 1, "float": "1"},
    "unknown_tag": {"code": "import os"},
    "list": {"value": [1]},
    "float_in_value": {"value": 1.5},
    "huge": {"value": 2**70},
    "float_text": {"float": "import os"},
    "float_number": {"float": 1.0},
    "dtype": {"dtype": "fp32)"},
    "function": {"function": "../../x"},
    "language": {"language": "triton.language.__class__"},
    "language_code": {"language": "tl;x"},
    "deep": json.loads('{"tuple": [' * 50 + '{"value": 1}' + "]}" * 50),
    "long": {"tuple": [{"value": 1}] * 10_000},
    "long_text": {"value": "a" * 100_000},
}


@pytest.mark.parametrize("data", FORGED_VALUES.values(), ids=FORGED_VALUES.keys())
def test_forged_value_is_malformed(data: Any) -> None:
    with pytest.raises(Malformed):
        value_from_json(data)


@pytest.mark.parametrize(
    "change",
    [
        {"extra": 1},
        {"name": "a b"},
        {"name": "__init__"},
        {"name": 1},
        {"source": None},
        {"noinline": 1},
        {"first_line": 0},
        {"first_line": True},
        {"kind": "gluon"},
        {"kind": ["jit"]},
        {"globals": {"a": 1}},
        {"globals": [["a"]]},
        {"globals": [["a", {"function": "0" * 32}]]},
        {"globals": [["a", {"value": 1}], ["a", {"value": 2}]]},
        {"parameters": [{"name": "x"}]},
    ],
)
def test_forged_function_is_malformed(change: dict[str, Any]) -> None:
    data = kernel("pass").to_json()
    data["functions"][0].update(change)
    with pytest.raises(Malformed):
        KernelSet.from_json(data)


def test_sets_of_two_traces_are_merged() -> None:
    one, two = kernel("y = 1"), kernel("y = 2")
    assert set(one.merged(two).merged(one).functions) == {*one.functions, *two.functions}


# The interpreter

SOFTMAX = """def softmax(x_ptr, y_ptr, n, BLOCK: tl.constexpr, fn: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + offsets, mask=offsets < n, other=-float("inf")) * LOG2E
    numerator = fn(x - tl.max(x, axis=0))
    tl.store(y_ptr + row * n + offsets, numerator / combined(numerator), mask=offsets < n)
"""
RUN = """
import json, sys
from pathlib import Path
import torch
from triton_agent.tools.emulate.interpreter import install
interpreter = install()
import triton.language as tl
from triton_agent.tools.kernels.modules import load
from triton_agent.tools.kernels.kernel import KernelSet
kernels = KernelSet.from_json(json.loads(Path(sys.argv[1], "kernels.json").read_text()))
functions = load(kernels, Path(sys.argv[1]))
softmax = functions[sys.argv[2]]
x = torch.randn(5, 37)
y = torch.empty_like(x)
softmax[(5,)](x, y, 37, BLOCK=64, fn=tl.exp2)
torch.testing.assert_close(y, torch.softmax(x, -1))
print("right")
"""


def test_rebuilt_softmax_is_right_in_the_interpreter(tmp_path: Path) -> None:
    plus = function("def plus(a, b):\n    return a + b\n")
    combined = function(
        "def combined(x):\n    return T.reduce(x, 0, plus)\n",
        T=TL,
        plus=FunctionReference(identity=plus.identity),
    )
    softmax = function(
        SOFTMAX,
        LOG2E=Constexpr(value=1.4426950408889634),
        combined=FunctionReference(identity=combined.identity),
    )
    kernels = KernelSet.of([plus, combined, softmax])
    (tmp_path / "kernels.json").write_text(json.dumps(kernels.to_json()))
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(tmp_path), softmax.identity],
        env=ENVIRONMENT | {"TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout.strip() == "right", done.stderr[-2000:]
