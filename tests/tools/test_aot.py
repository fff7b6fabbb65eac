"""Kernels compile for a GPU that is absent: with the same resources as by the JIT, and failures with line and cause.

Candidates run in children forked from one process that imported torch and triton, as workers are; all of them run
before the first test, each gets its own cache, and the tests read what they reported.
"""

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from triton_agent.tools.compile.resources import read_amdgcn, read_cubin, read_ptxas_log
from triton_agent.tools.compile.targets import parse_target
from triton_agent.tools.errors import UsageError

RUNNER = """
import json, os, pathlib, runpy, sys, traceback
import torch, triton, triton.language
from triton_agent.tools.compile import aot

aot.warm_up()

def report(path, target, ask):
    os.environ["TRITON_CACHE_DIR"] = str(path.with_suffix(".cache"))
    compilation = aot.install(target)
    names = runpy.run_path(str(path))
    failure = None

    def launch(kernel, grid, *args, **kwargs):
        nonlocal failure
        given = {**dict(zip(kernel.arg_names, args)), **kwargs}
        arguments = {name: given.pop(name) for name in kernel.arg_names if name in given}
        found = aot.compile_launch(kernel, arguments, grid, given, source_path=str(path))
        failure = failure or (found and {"kernel": found.kernel, "line": found.line, "cause": found.cause})

    names["main"](launch)
    kernels = [{name: getattr(kernel, name) for name in kernel.__slots__} for kernel in compilation.kernels]
    told = {"kernels": kernels, "constants": compilation.constants, "failure": failure}
    told["asked"] = names[ask]() if ask else None
    return told

for line in sys.stdin:
    path, target, ask = json.loads(line)
    path = pathlib.Path(path)
    child = os.fork()
    if child == 0:
        try:
            path.with_suffix(".json").write_text(json.dumps(report(path, target, ask)))
        except BaseException:
            traceback.print_exc()
        os._exit(0)
    os.waitpid(child, 0)
"""

HEAD = """\
import torch, triton, triton.language as tl
"""

ADD = """
@triton.jit
def add(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) + 1, mask=at < n)
"""

GEMM = """
@triton.jit
def gemm(a, b, c, M, N, K, sa, sb, sc, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        left = tl.load(a + rm[:, None] * sa + (k + rk)[None, :])
        right = tl.load(b + (k + rk)[:, None] * sb + rn[None, :])
        acc = tl.dot(left, right, acc)
    tl.store(c + rm[:, None] * sc + rn[None, :], acc.to(tl.float16))

def operands(m, n, k):
    half = dict(dtype=torch.float16)
    a, b, c = torch.empty(m, k, **half), torch.empty(k, n, **half), torch.empty(m, n, **half)
    return a, b, c, m, n, k, a.stride(0), b.stride(0), c.stride(0)
"""

CASES: dict[str, tuple[str, str, str]] = {}
"""For each case: its target, the candidate, and the function that is called in the child for its result."""


def case(name: str, target: str, *parts: str, ask: str = "") -> str:
    CASES[name] = (target, HEAD + "".join(textwrap.dedent(part) for part in parts), ask)
    return name


pytestmark = pytest.mark.xdist_group("aot")  # what is made once is made in one process


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    folder = tmp_path_factory.mktemp("aot")
    orders = []
    for name, (target, source, ask) in CASES.items():
        (folder / f"{name}.py").write_text(source)
        orders.append(json.dumps([str(folder / f"{name}.py"), target, ask]))
    with (folder / "stderr").open("wb") as errors:  # as a compile worker's is a file
        done = subprocess.run(
            [sys.executable, "-c", RUNNER], input="\n".join(orders), stderr=errors, text=True, timeout=120
        )
    assert done.returncode == 0, (folder / "stderr").read_text()
    told = {path.stem: json.loads(path.read_text()) for path in folder.glob("*.json")}
    assert told.keys() == CASES.keys(), (folder / "stderr").read_text()
    return told


# -- what is compiled is what the JIT would compile ----------------------------------------------------------------

SPECIALISED = case(
    "specialised",
    "cuda:90",
    GEMM,
    """
    def main(launch):
        launch(gemm, (1, 2), *operands(64, 128, 1), BM=64, BN=64, BK=32, num_warps=8, num_stages=2)
        launch(gemm, (1, 2), *operands(64, 128, 40), 64, 64, 32)

    def by_hand():
        from triton.compiler import ASTSource
        pointers, sizes = dict.fromkeys("abc", "*fp16"), dict.fromkeys(("M", "N", "K", "sa", "sb", "sc"), "i32")
        blocks = dict.fromkeys(("BM", "BN", "BK"), "constexpr")
        signature = pointers | sizes | blocks | {"K": "constexpr", "sa": "constexpr"}
        values = {"K": 1, "sa": 1, "BM": 64, "BN": 64, "BK": 32}
        attributes = {(at,): [["tt.divisibility", 16]] for at in (0, 1, 2, 3, 4, 7, 8)}
        source = ASTSource(gemm, signature, values, attributes)
        options = {"num_warps": 8, "num_stages": 2, "debug": False}
        target = triton.backends.compiler.GPUTarget("cuda", 90, 32)
        compiled = triton.compile(source, target=target, options=options)
        loose = triton.compile(ASTSource(gemm, signature, values), target=target, options=options)
        traced = next(iter(gemm.device_caches[0][0].values())).asm["ptx"]
        return {
            "same": compiled.asm["ptx"] == traced,
            "same_unspecialised": loose.asm["ptx"] == traced,
            "shared": compiled.metadata.shared,
        }
    """,
    ask="by_hand",
)


def test_launch_compiles_with_the_specialisation_of_the_jit(reports):
    told = reports[SPECIALISED]
    first, second = told["kernels"]
    assert told["asked"]["same"] and not told["asked"]["same_unspecialised"]
    assert first["shared_bytes"] == told["asked"]["shared"]
    assert (first["num_warps"], first["num_stages"], second["num_warps"], second["num_stages"]) == (8, 2, 4, 3)
    assert first["target"] == "cuda:90" and first["compile_ms"] > 1 and first["registers"] != second["registers"]


def test_constants_are_told(reports):
    assert reports[SPECIALISED]["constants"] == ["BM=64, BN=64, BK=32"] * 2


COUNTED = {
    target: case(
        f"counted_{target.replace(':', '_')}",
        target,
        GEMM,
        """
        def main(launch):
            launch(gemm, (1, 1), *operands(64, 64, 64), 64, 64, 32)

        def disassembled():
            import re, subprocess, tempfile
            (kernel,) = gemm.device_caches[0][0].values()
            with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
                file.write(kernel.asm["cubin"])
                file.flush()
                tool = triton.knobs.nvidia.cuobjdump.path
                text = subprocess.run([tool, "--dump-resource-usage", file.name], capture_output=True, text=True).stdout
            return [int(number) for number in re.search(r"REG:(\\d+) STACK:(\\d+)", text).groups()]
        """,
        ask="disassembled",
    )
    for target in ("cuda:80", "cuda:120")
}


@pytest.mark.parametrize("target", COUNTED)
def test_registers_and_stack_are_those_of_cuobjdump(reports, target):
    told = reports[COUNTED[target]]
    (kernel,) = told["kernels"]
    assert [kernel["registers"], kernel["stack_bytes"]] == told["asked"]
    assert kernel["registers"] > 32 and kernel["spill_bytes"] == 0


SPILLING = case(
    "spilling",
    "cuda:80",
    GEMM,
    """
    def main(launch):
        launch(gemm, (1, 1), *operands(64, 64, 64), 64, 64, 32, maxnreg=32)

    def from_the_cache():
        from triton_agent.tools.compile.resources import read_binary
        (kernel,) = gemm.device_caches[0][0].values()
        gemm.device_caches.clear()
        again = gemm.warmup(*operands(64, 64, 64), 64, 64, 32, maxnreg=32, grid=(1, 1))
        assert again is not kernel and again.hash == kernel.hash
        return read_binary(again).spill_bytes
    """,
    ask="from_the_cache",
)


def test_spilling_kernel_reports_its_spills(reports):
    (kernel,) = reports[SPILLING]["kernels"]
    assert kernel["spill_bytes"] > 0 and kernel["stack_bytes"] > 0 and kernel["registers"] == 32


def test_spills_are_known_when_the_kernel_comes_from_the_cache(reports):
    assert reports[SPILLING]["asked"] == reports[SPILLING]["kernels"][0]["spill_bytes"]


FLOAT32 = case(
    "float32",
    "cuda:90",
    """
    @triton.jit
    def product(x, y, HOW: tl.constexpr):
        at = tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :]
        block = tl.load(x + at)
        tl.store(y + at, tl.dot(block, block, input_precision=HOW))

    def main(launch):
        x, y = torch.empty(64, 64), torch.empty(64, 64)
        for how in ("tf32", "tf32x3", "ieee"):
            launch(product, (1, 1), x, y, how)
    """,
)


def test_tensor_cores_are_told_by_the_instructions(reports):
    """A product in full float32 does without them."""
    assert [kernel["tensor_cores"] for kernel in reports[FLOAT32]["kernels"]] == [True, True, False]
    assert [reports[name]["kernels"][0]["tensor_cores"] for name in (SPECIALISED, AMD)] == [True, True]


AMD = case(
    "amd",
    "gfx942",
    GEMM,
    """
    def main(launch):
        launch(gemm, (1, 1), *operands(64, 64, 64), 64, 64, 32)
        assert triton.runtime.driver.active.get_current_target().warp_size == 64
    """,
)


def test_amd_target_compiles_and_is_counted(reports):
    told = reports[AMD]
    (kernel,) = told["kernels"]
    assert kernel["target"] == "gfx942"
    assert kernel["registers"] > 16 and kernel["spill_bytes"] == 0 and kernel["stack_bytes"] == 0


# -- all the ways to launch ----------------------------------------------------------------------------------------

WAYS = case(
    "ways",
    "cuda:90",
    """
    from triton.tools.tensor_descriptor import TensorDescriptor

    SHIFT: tl.constexpr = tl.constexpr(3)

    @triton.jit
    def twice(x):
        return x * 2 + SHIFT

    @triton.jit
    def scale(x, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        mask = at < (at + 1 if EVEN else n)
        tl.store(x + at, twice(tl.load(x + at, mask=mask)), mask=mask)

    @triton.jit
    def copy(source, target, BLOCK: tl.constexpr):
        target.store([0, 0], source.load([0, 0]))

    @triton.jit
    def copy_on_device(x, n, BLOCK: tl.constexpr):
        view = tl.make_tensor_descriptor(x, [n, n], [n, 1], [BLOCK, BLOCK])
        view.store([0, 0], view.load([0, BLOCK]))

    def main(launch):
        x = torch.empty(64, 64)
        launch(scale, (16,), x, 4096, BLOCK=256, EVEN=True)
        launch(scale, (1,), x, 100, BLOCK=128, EVEN=False)
        view = TensorDescriptor.from_tensor(x, [32, 32])
        launch(copy, (1, 1), view, view, BLOCK=32)
        launch(copy_on_device, (1,), x, 64, BLOCK=32)
    """,
)


def test_helpers_and_descriptors_compile(reports):
    told = reports[WAYS]
    assert told["failure"] is None
    assert told["constants"][:2] == ["BLOCK=256, EVEN=True", "BLOCK=128, EVEN=False"]
    assert len(told["kernels"]) == 4


# -- why a kernel does not compile ---------------------------------------------------------------------------------

BROKEN = {
    "undefined_name": (
        "cuda:90",
        """
        @triton.jit
        def outer(x, BLOCK: tl.constexpr):
            at = tl.arange(0, BLOCK)
            tl.store(x + at, nowhere)  # here

        def main(launch):
            launch(outer, (1,), torch.empty(8), 8)
        """,
        "outer",
        "NameError: nowhere is not defined",
    ),
    "in_a_helper": (
        "cuda:90",
        """
        @triton.jit
        def helper(x):
            return x + missing  # here

        @triton.jit
        def outer(x):
            tl.store(x, helper(1.0))

        def main(launch):
            launch(outer, (1,), torch.empty(8))
        """,
        "outer",
        "NameError: missing is not defined (reached from line 9)",
    ),
    "arange": (
        "cuda:90",
        """
        @triton.jit
        def odd(x, BLOCK: tl.constexpr):
            tl.store(x + tl.arange(0, BLOCK), 0)  # here

        def main(launch):
            launch(odd, (1,), torch.empty(8), BLOCK=6)
        """,
        "odd",
        "arange's range must be a power of 2",
    ),
    "in_the_library": (
        "cuda:90",
        """
        @triton.jit
        def total(x, BLOCK: tl.constexpr):
            tl.store(x, tl.sum(tl.load(x + tl.arange(0, BLOCK)), axis=3))  # here

        def main(launch):
            launch(total, (1,), torch.empty(8), BLOCK=8)
        """,
        "total",
        "invalid axis 3",
    ),
    "assertion_without_text": (
        "cuda:90",
        """
        @triton.jit
        def product(x, y, BLOCK: tl.constexpr):
            at = tl.arange(0, BLOCK)[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
            a = tl.load(x + at)
            tl.store(y + at, tl.dot(a, a, tl.zeros((BLOCK, BLOCK), tl.float16)))  # here

        def main(launch):
            launch(product, (1,), torch.empty(4096, dtype=torch.int8), torch.empty(4096), BLOCK=64)
        """,
        "product",
        "the compiler's own `assert ",
    ),
    "static_assert": (
        "cuda:90",
        """
        @triton.jit
        def strict(x, BLOCK: tl.constexpr):
            tl.static_assert(BLOCK > 100, "BLOCK is too small")  # here

        def main(launch):
            launch(strict, (1,), torch.empty(8), BLOCK=8)
        """,
        "strict",
        "static_assert failed: BLOCK is too small",
    ),
    "ptxas": (
        "cuda:90",
        """
        @triton.jit
        def odd_asm(x):  # here
            tl.store(x, tl.inline_asm_elementwise("frobnicate $0, $1;", "=r,r", [tl.load(x)], tl.float32, True, 1))

        def main(launch):
            launch(odd_asm, (1,), torch.empty(8))
        """,
        "odd_asm",
        "ptxas: Not a name of any known instruction: 'frobnicate'",
    ),
    "mlir": (
        "cuda:80",
        """
        @triton.jit
        def swap(x, BLOCK: tl.constexpr):
            at = x + tl.arange(0, BLOCK)
            tl.atomic_cas(at, tl.zeros([BLOCK], tl.float64), tl.load(at).to(tl.float64))  # here

        def main(launch):
            launch(swap, (1,), torch.empty(8), BLOCK=8)
        """,
        "swap",
        "'tt.atomic_cas' op failed to verify that ptr type matches cmp type",
    ),
    "options": (
        "cuda:80",
        ADD,
        "add",
        "num_ctas > 1 requires NVIDIA SM90+",
    ),
    "threads": (
        "cuda:90",
        ADD,
        "add",
        "out of resource: threads, Required: 2048, Hardware limit: 1024",
    ),
}
for _name, (_target, _source, _, _) in BROKEN.items():
    _call = {"options": "num_ctas=2", "threads": "num_warps=64"}.get(_name)
    _main = f"\ndef main(launch):\n    launch(add, (1,), torch.empty(64), torch.empty(64), 64, BLOCK=64, {_call})\n"
    case(_name, _target, _source.replace("BLOCK: tl.constexpr):\n    at", "BLOCK: tl.constexpr):  # here\n    at"))
    if _call:
        CASES[_name] = (_target, CASES[_name][1] + _main, "")


@pytest.mark.parametrize("name", BROKEN)
def test_failed_compilation_names_kernel_line_and_cause(reports, name):
    _, _, kernel, cause = BROKEN[name]
    failure = reports[name]["failure"]
    lines = CASES[name][1].splitlines()
    assert failure is not None
    assert (failure["kernel"], cause in failure["cause"]) == (kernel, True), failure
    assert lines[failure["line"] - 1].endswith("# here"), failure
    assert "\n" not in failure["cause"]


# -- launches that do not fit the kernel ---------------------------------------------------------------------------

UNBOUND = case(
    "unbound", "cuda:90", ADD, "def main(launch):\n    launch(add, (1,), torch.empty(64), torch.empty(64), 64)\n"
)


def test_missing_argument_is_named(reports):
    failure = reports[UNBOUND]["failure"]
    assert failure["cause"].startswith("TypeError") and "BLOCK" in failure["cause"]


# -- no process needed ---------------------------------------------------------------------------------------------


def test_unknown_target_lists_the_known_ones():
    with pytest.raises(UsageError, match="cuda:90"):
        parse_target("sm_90")
    assert parse_target("cuda:86").shared_limit_bytes == 101376
    assert parse_target("hip:gfx942").name == "gfx942"


def test_target_is_validated_without_torch_or_triton():
    code = (
        "import sys; from triton_agent.tools.compile.targets import parse_target; parse_target('cuda:90');"
        "assert not {'torch', 'triton'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])


def test_text_that_is_no_cubin_has_no_numbers():
    assert read_cubin(b"not an ELF file", "kernel") == (None, None)
    assert read_ptxas_log("") is None
    assert read_amdgcn("").registers is None
