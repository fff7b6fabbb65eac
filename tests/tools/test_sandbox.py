"""Each promise of the sandbox, tested by hostile code inside it. The test process itself is never confined.

A driver process stands in for the zygote: it forks, the child enters the sandbox and runs the hostile code, and the
driver reports how that ended. For some values of `machine`, the driver first gives up the right to create user
namespaces or any namespaces, as some containers do, so that the remaining layers are tested on their own.
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from triton_agent.tools.processes.codec import decode, encode
from triton_agent.tools.sandbox import cgroup, inheritance, layers, sandbox

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the sandbox is made of Linux's parts")

MIB = 1 << 20
SECRET = "hunter2-the-token"

ALL_LAYERS = "all-layers"
NO_USER_NAMESPACE = "privileged-without-user-namespace"
NO_NAMESPACES = "no-namespaces"

DRIVER = f"""
ALL_LAYERS, NO_NAMESPACES = {(ALL_LAYERS, NO_NAMESPACES)!r}
"""
DRIVER += """
import importlib, json, os, select, signal, sys, time
from triton_agent.tools.processes.codec import decode
from triton_agent.tools.sandbox import inheritance, layers, namespaces, privileges, sandbox

settings = json.load(sys.stdin)
if settings["machine"] != ALL_LAYERS:
    namespaces.enter(("user",))
    with open("/proc/sys/user/max_user_namespaces", "w") as knob:
        knob.write("0")
if settings["machine"] == NO_NAMESPACES:
    privileges.drop_capabilities()
for name in settings["imports"]:
    importlib.import_module(name)
sandbox.prepare()

def child(code, pipe):
    report = {}
    try:
        start = time.perf_counter()
        inheritance.close_descriptors((2, pipe))
        layers = sandbox.enter(decode(sandbox.Confinement, settings["confinement"]))
        report |= {"layers": layers, "enter_ms": 1000 * (time.perf_counter() - start)}
        os.write(pipe, (json.dumps(report) + "\\n").encode())
        exec(compile(code, "candidate", "exec"), {"report": report, "OUTSIDE_PID": settings["outside_pid"]})
    except BaseException as error:
        report["raised"] = f"{type(error).__name__}: {error}"
    os.write(pipe, (json.dumps(report) + "\\n").encode())
    os._exit(0)

def run(code):
    reading, writing = os.pipe()
    settings["outside_pid"] = os.getpid()
    pid = os.fork()
    if pid == 0:
        child(code, writing)
    os.close(writing)
    start = time.monotonic()
    text, deadline = b"", start + settings["timeout_s"]
    while select.select([reading], [], [], max(0, deadline - time.monotonic()))[0]:
        more = os.read(reading, 65536)
        text += more
        if not more:
            break
    else:
        os.kill(pid, signal.SIGKILL)
        while os.read(reading, 65536):
            pass
    hung_up_s = time.monotonic() - start
    _, status = os.waitpid(pid, 0)
    lines = text.decode().splitlines() or ["{}"]
    return json.loads(lines[-1]) | {"exit_code": os.waitstatus_to_exitcode(status), "hung_up_s": hung_up_s}

print(json.dumps([run(code) for code in settings["codes"]]))
"""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How one piece of hostile code ended."""

    report: dict[str, Any]
    raised: str
    exit_code: int
    layers: tuple[str, ...]
    enter_ms: float
    scratch: Path


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


def enter(
    scratch: Path,
    *codes: str,
    machine: str = ALL_LAYERS,
    imports: tuple[str, ...] = (),
    timeout_s: float = 30,
    **confinement: Any,
) -> list[Outcome]:
    """Run each code in its own sandbox; all are forked from one driver."""
    settings = driver_settings(scratch, *codes, machine=machine, imports=imports, timeout_s=timeout_s, **confinement)
    done = subprocess.run(**driver(), input=settings, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return [_outcome(row, scratch, done.stderr) for row in json.loads(done.stdout)]


def driver_settings(
    scratch: Path, *codes: str, machine: str, imports: tuple[str, ...] = (), timeout_s: float = 30, **confinement: Any
) -> str:
    return json.dumps(
        {
            "codes": codes,
            "machine": machine,
            "imports": imports,
            "timeout_s": timeout_s,
            "confinement": encode(sandbox.Confinement(scratch=str(scratch), **confinement)),
        }
    )


def driver() -> dict[str, Any]:
    """Return the command that starts the driver, whose environment contains a secret."""
    source = str(Path(__file__).parents[2] / "src")
    return {
        "args": [sys.executable, "-c", DRIVER],
        "env": os.environ | {"PYTHONPATH": source, "API_TOKEN": SECRET},
    }


def _outcome(row: dict[str, Any], scratch: Path, stderr: str) -> Outcome:
    assert "layers" in row, f"the sandbox was not entered: {row} {stderr}"
    return Outcome(
        report=row,
        raised=row.get("raised", ""),
        exit_code=row["exit_code"],
        layers=tuple(row["layers"]),
        enter_ms=row["enter_ms"],
        scratch=scratch,
    )


def has(name: str) -> bool:
    return any(layer.name == name and layer.available for layer in layers.probe())


def needs(name: str) -> pytest.MarkDecorator:
    why = next((layer.why for layer in layers.probe() if layer.name == name), "unknown")
    return pytest.mark.skipif(not has(name), reason=f"this machine has no {name}: {why}")


on_every_machine = pytest.mark.parametrize(
    "machine",
    [
        ALL_LAYERS,
        pytest.param(NO_USER_NAMESPACE, marks=needs(layers.NAMESPACES["user"])),
        pytest.param(NO_NAMESPACES, marks=needs(layers.NAMESPACES["user"])),
    ],
)
REFUSALS = ("PermissionError", "OSError", "FileNotFoundError", "ProcessLookupError")


# ---------------------------------------------------------------- files


@on_every_machine
@needs(layers.LANDLOCK)
def test_writes_stay_in_the_scratch_folder(scratch: Path, tmp_path: Path, machine: str) -> None:
    victim = tmp_path / "victim.txt"
    victim.write_text("untouched")
    attempts = [
        f"open({str(victim)!r}, 'w').write('gone')",
        f"import os; os.truncate({str(victim)!r}, 0)",
        f"import os; os.open({str(victim)!r}, os.O_RDONLY | os.O_TRUNC)",
        f"import os; os.unlink({str(victim)!r})",
        f"import os; os.rename({str(victim)!r}, 'mine')",
        f"import os; os.link({str(victim)!r}, 'mine'); open('mine', 'w').write('gone')",
        f"import os; os.symlink({str(victim)!r}, 'mine'); open('mine', 'w').write('gone')",
        f"import os; os.mkdir({str(tmp_path / 'new')!r})",
        f"open({str(Path(sandbox.__file__).with_name('planted.py'))!r}, 'w')",
        "open('/proc/sys/kernel/core_pattern', 'w')",
        "open('here.txt', 'w').write('fine')",
    ]
    *refused, allowed = enter(scratch, *attempts, machine=machine)
    assert [outcome.raised.startswith(REFUSALS) for outcome in refused] == [True] * len(refused), refused
    assert victim.read_text() == "untouched"
    assert allowed.raised == ""
    assert (scratch / "here.txt").read_text() == "fine"
    assert (scratch / "here.txt").stat().st_mode & 0o077 == 0


@on_every_machine
@needs(layers.LANDLOCK)
def test_files_outside_the_allowed_set_cannot_be_read(scratch: Path, tmp_path: Path, machine: str) -> None:
    private = tmp_path / "private"
    private.mkdir()
    (private / "key").write_text(SECRET)
    (tmp_path / "shown").mkdir()
    (tmp_path / "shown" / "data").write_text("data")
    read, listed, linked, shown = enter(
        scratch,
        f"report['got'] = open({str(private / 'key')!r}).read()",
        f"import os; report['got'] = os.listdir({str(private)!r})",
        f"import os; os.symlink({str(private / 'key')!r}, 'way'); report['got'] = open('way').read()",
        f"report['got'] = open({str(tmp_path / 'shown' / 'data')!r}).read()",
        machine=machine,
        read_only=(str(tmp_path / "shown"),),
    )
    assert [outcome.report.get("got") for outcome in (read, listed, linked)] == [None] * 3
    assert shown.report["got"] == "data"


@needs(layers.NAMESPACES["mount"])
def test_shared_memory_of_others_is_not_there(scratch: Path) -> None:
    outside = Path("/dev/shm") / f"sandbox-test-{os.getpid()}"
    outside.write_text(SECRET)
    try:
        (outcome,) = enter(
            scratch, "import os; open('/dev/shm/own', 'w').write('x'); report['seen'] = os.listdir('/dev/shm')"
        )
    finally:
        outside.unlink()
    assert outcome.report["seen"] == ["own"]


# ---------------------------------------------------------------- secrets


@on_every_machine
def test_secrets_in_the_environment_are_gone(scratch: Path, machine: str) -> None:
    (outcome,) = enter(
        scratch,
        """
import ctypes, os, posix, subprocess
report["python"] = repr(os.environ) + repr(posix.environ)
ctypes.CDLL(None).getenv.restype = ctypes.c_char_p
report["c"] = repr(ctypes.CDLL(None).getenv(b"API_TOKEN"))
report["child"] = subprocess.run(["env"], capture_output=True, text=True).stdout
report["proc"], report["opened"] = "", []
for pid in ["self", str(OUTSIDE_PID), str(os.getppid())] + [name for name in os.listdir("/proc") if name.isdigit()]:
    try:
        report["proc"] += open(f"/proc/{pid}/environ", "rb").read().decode(errors="replace")
        report["opened"].append(pid)
    except OSError:
        pass
report["home"], report["here"] = os.environ["HOME"], os.getcwd()
""",
        machine=machine,
    )
    assert outcome.raised == ""
    assert "PATH" in outcome.report["child"]
    for where in ("python", "c", "child", "proc"):
        assert SECRET not in outcome.report[where], where
    assert outcome.report["home"] == outcome.report["here"] == str(scratch)


def test_scrubbed_environment_keeps_what_is_needed_and_no_more(scratch: Path) -> None:
    before = {"PATH": "/bin", "LC_ALL": "C", "OMP_NUM_THREADS": "1", "AWS_SECRET_ACCESS_KEY": "x", "TMPDIR": "/tmp"}
    after = inheritance.scrubbed_environment(str(scratch), before)
    assert (after["PATH"], after["LC_ALL"], after["OMP_NUM_THREADS"]) == ("/bin", "C", "1")
    assert "AWS_SECRET_ACCESS_KEY" not in after
    for name in ("HOME", "TMPDIR", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR"):
        assert after[name].startswith(str(scratch))


def test_only_the_descriptors_named_stay_open(scratch: Path) -> None:
    (outcome,) = enter(
        scratch,
        """
import os
report["open"] = []
for descriptor in range(256):
    try:
        os.fstat(descriptor)
        report["open"].append(descriptor)
    except OSError:
        pass
""",
    )
    assert len(outcome.report["open"]) == 2
    assert outcome.report["open"][0] == 2


# ---------------------------------------------------------------- network


@on_every_machine
@needs(layers.SECCOMP)
def test_no_socket_leads_out(scratch: Path, tmp_path: Path, listener: str, machine: str) -> None:
    families = [("AF_INET", "SOCK_STREAM"), ("AF_INET6", "SOCK_STREAM"), ("AF_INET", "SOCK_DGRAM")]
    families += [("AF_NETLINK", "SOCK_RAW"), ("AF_VSOCK", "SOCK_STREAM"), ("AF_UNIX", "SOCK_DGRAM")]
    codes = [f"import socket; socket.socket(socket.{family}, socket.{kind})" for family, kind in families]
    codes += [
        "import socket; socket.create_connection(('127.0.0.1', 22), timeout=1)",
        f"import socket; socket.socket(socket.AF_UNIX).connect({listener!r})",
        "import socket; a, b = socket.socketpair(); a.send(b'hello'); report['got'] = b.recv(5).decode()",
    ]
    *refused, pair = enter(scratch, *codes, machine=machine)
    assert [bool(outcome.raised) for outcome in refused] == [True] * len(refused), refused
    assert pair.report["got"] == "hello"


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[str]:
    """A Unix socket that accepts connections, like that of a container engine."""
    path = str(tmp_path / "engine.sock")
    with socket.socket(socket.AF_UNIX) as server:
        try:
            server.bind(path)
        except OSError as error:
            pytest.skip(f"no Unix socket can be made here: {error}")
        server.listen()
        yield path


# ---------------------------------------------------------------- other processes


@on_every_machine
@needs(layers.SECCOMP)
def test_the_parent_can_be_neither_read_traced_nor_killed(scratch: Path, machine: str) -> None:
    outcomes = enter(
        scratch,
        "import ctypes; libc = ctypes.CDLL(None, use_errno=True)\n"
        "if libc.ptrace(16, OUTSIDE_PID, 0, 0) < 0: raise OSError(ctypes.get_errno(), 'refused')",
        "import ctypes; libc = ctypes.CDLL(None, use_errno=True)\n"
        "if libc.process_vm_readv(OUTSIDE_PID, 0, 0, 0, 0, 0) < 0: raise OSError(ctypes.get_errno(), 'refused')",
        "open(f'/proc/{OUTSIDE_PID}/mem', 'rb')",
        "import os, signal; os.kill(OUTSIDE_PID, signal.SIGKILL)",
        "import os; os.kill(OUTSIDE_PID, 0)",
        "import resource; resource.prlimit(OUTSIDE_PID, resource.RLIMIT_NOFILE, (1, 1))",
        machine=machine,
    )
    assert [outcome.raised.startswith(REFUSALS) for outcome in outcomes] == [True] * len(outcomes), outcomes


@on_every_machine
def test_no_capability_is_left(scratch: Path, machine: str) -> None:
    (outcome,) = enter(scratch, "report['status'] = open('/proc/self/status').read()", machine=machine)
    sets = dict(line.split(":\t") for line in outcome.report["status"].splitlines() if line.startswith("Cap"))
    assert {int(sets[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == {0}


@on_every_machine
@needs(layers.SECCOMP)
def test_what_was_given_up_cannot_be_regained(scratch: Path, machine: str) -> None:
    outcomes = enter(
        scratch,
        *(
            f"import ctypes; libc = ctypes.CDLL(None, use_errno=True)\n"
            f"if libc.{attempt} < 0: raise OSError(ctypes.get_errno(), 'refused')"
            for attempt in (
                "unshare(0x10000000)",
                "mount(b'none', b'/proc', b'tmpfs', 0, None)",
                "umount2(b'/proc', 2)",
                "syscall(56, 0x10000000 | 17, 0, 0, 0, 0)" if os.uname().machine == "x86_64" else "setns(0, 0)",
                "prctl(1, 0, 0, 0, 0)",
                "setuid(12345)",
            )
        ),
        "open('/proc/self/uid_map', 'w').write('0 0 1')",
        machine=machine,
    )
    assert [bool(outcome.raised) for outcome in outcomes] == [True] * len(outcomes), outcomes


DAEMON = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for _ in range(1000):
            open("pulse", "a").write("x")
            time.sleep(0.01)
    os._exit(0)
while not os.path.exists("pulse"):
    time.sleep(0.01)
"""


@needs(layers.NAMESPACES["pid"])
@pytest.mark.parametrize(
    "end", ["", "time.sleep(60)", "os.setsid(); time.sleep(60)"], ids=["ends", "hangs", "detaches"]
)
def test_a_daemon_dies_with_its_worker(scratch: Path, end: str) -> None:
    (outcome,) = enter(scratch, DAEMON + end, timeout_s=0.7)
    assert outcome.exit_code == (-signal.SIGKILL if end else 0)
    pulse = (scratch / "pulse").stat().st_size
    time.sleep(0.1)
    assert (scratch / "pulse").stat().st_size == pulse


@on_every_machine
def test_a_worker_dies_with_the_zygote_that_forked_it(scratch: Path, machine: str) -> None:
    code = "import time\nfor _ in range(1000): open('pulse', 'a').write('x'); time.sleep(0.01)"
    with subprocess.Popen(**driver(), stdin=subprocess.PIPE, text=True) as zygote:
        assert zygote.stdin is not None
        zygote.stdin.write(driver_settings(scratch, code, machine=machine))
        zygote.stdin.close()
        deadline = time.monotonic() + 20
        while not (scratch / "pulse").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        zygote.kill()
    time.sleep(0.1)
    pulse = (scratch / "pulse").stat().st_size
    time.sleep(0.1)
    assert (scratch / "pulse").stat().st_size == pulse


FILTER_ALONE = """
import os, sys, threading, signal
from triton_agent.tools.sandbox import privileges, seccomp
privileges.forbid_new_privileges()
seccomp.install(seccomp.rules(signals_confined=False, ipc_private=False, truncation_confined=False, gpu=False))

def refused(attempt):
    try:
        attempt()
    except PermissionError:
        return True
    return False

victim = sys.argv[1]
assert refused(lambda: os.kill(os.getppid(), 0))
assert refused(lambda: os.kill(1, 0))
assert refused(lambda: os.truncate(victim, 0))
assert refused(lambda: os.open(victim, os.O_RDONLY | os.O_TRUNC))
os.kill(os.getpid(), 0)
os.kill(0, 0)
signal.pthread_kill(threading.get_ident(), 0)
assert open(victim).read() == "untouched"
open(victim, "w").write("written")
"""


@needs(layers.SECCOMP)
def test_the_filter_alone_makes_up_for_an_early_landlock(tmp_path: Path) -> None:
    victim = tmp_path / "victim.txt"
    victim.write_text("untouched")
    start = driver()
    start["args"] = [sys.executable, "-c", FILTER_ALONE, str(victim)]
    done = subprocess.run(**start, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    assert victim.read_text() == "written"


def test_the_process_forked_ends_as_the_candidate_did(scratch: Path) -> None:
    exited, hung_up, crashed, aborted = enter(
        scratch,
        "import os; os._exit(7)",
        "import os, time; os.closerange(3, 256); time.sleep(1.2); os._exit(8)",
        "import ctypes; ctypes.string_at(0)",
        "import os; os.abort()",
    )
    assert exited.exit_code == 7
    assert hung_up.exit_code == 8
    assert hung_up.report["hung_up_s"] < 1, "the process left outside must hold no end of the channel"
    assert crashed.exit_code == -signal.SIGSEGV
    assert aborted.exit_code in (-signal.SIGABRT, -signal.SIGSEGV)


# ---------------------------------------------------------------- what a candidate may use up


@needs(layers.PROCESS_LIMIT)
def test_a_fork_bomb_is_bounded(scratch: Path) -> None:
    (outcome,) = enter(
        scratch,
        """
import os, time
report["forked"] = 0
try:
    while report["forked"] < 1000:
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
        report["forked"] += 1
except OSError as error:
    report["stopped"] = str(error)
""",
        limits=sandbox.Limits(processes=64),
    )
    assert layers.PROCESS_LIMIT in outcome.layers
    assert "stopped" in outcome.report
    assert outcome.report["forked"] < 64 + 310, "a pid namespace hands out 300 numbers once, then only as many as asked"


def test_memory_disk_processor_and_descriptors_are_bounded(scratch: Path) -> None:
    memory, disk, processor, descriptors = enter(
        scratch,
        f"hoard = bytearray({512 * MIB})",
        f"open('big', 'wb').write(bytes({8 * MIB}))",
        "while True: pass",
        "import os; report['open'] = [os.dup(2) for _ in range(200)]",
        limits=sandbox.Limits(cpu_s=1, memory_bytes=128 * MIB, file_bytes=4 * MIB, open_files=64),
    )
    assert memory.raised.startswith("MemoryError")
    assert layers.MEMORY_LIMIT in memory.layers
    assert "File too large" in disk.raised
    assert (scratch / "big").stat().st_size <= 4 * MIB
    assert processor.exit_code == -signal.SIGKILL or processor.exit_code == -signal.SIGXCPU
    assert "Too many open files" in descriptors.raised


@needs(layers.SECCOMP)
def test_memory_cannot_be_hidden_in_anonymous_files(scratch: Path) -> None:
    (outcome,) = enter(scratch, "import os; os.memfd_create('hoard')")
    assert outcome.raised.startswith("PermissionError")


@needs(layers.CGROUP)
def test_a_control_group_bounds_memory_and_leaves_nothing_behind(scratch: Path) -> None:
    with cgroup.CgroupBox(memory_bytes=64 * MIB, processes=64) as box:
        path = box.path
        assert path is not None
        code = f"import mmap; hoard = mmap.mmap(-1, {256 * MIB}); hoard.write(b'x' * {256 * MIB})"
        (outcome,) = enter(scratch, code, cgroup=str(path))
        assert layers.CGROUP in outcome.layers
        assert outcome.exit_code == -signal.SIGKILL
        assert box.ran_out_of_memory()
    assert not path.exists()


# ---------------------------------------------------------------- honest work

KERNEL = """
import triton
import triton.language as tl

@triton.jit
def double(x, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out + offsets, tl.load(x + offsets, mask=mask) * 2, mask=mask)
"""

PREPARE_KERNEL = f"""
import importlib.util, os, tempfile
with tempfile.NamedTemporaryFile("w", suffix=".py", delete=False) as file:
    file.write({KERNEL!r})
spec = importlib.util.spec_from_file_location("kernel", file.name)
module = importlib.util.module_from_spec(spec)
"""

TORCH = """
import torch
report["error"] = (torch.randn(64, 64) @ torch.eye(64)).sub_(1).isnan().any().item()
x = torch.ones(8, 8, requires_grad=True)
torch.nn.functional.softmax(torch.nn.Linear(8, 8)(x), -1).sum().backward()
torch.save(x.detach(), "x.pt")
report["sum"] = torch.load("x.pt").sum().item()
"""

INTERPRET = """
os.environ["TRITON_INTERPRET"] = "1"
spec.loader.exec_module(module)
import torch
x, out = torch.arange(100.0), torch.zeros(100)
module.double[(4,)](x, out, 100, BLOCK=32)
report["equal"] = torch.equal(out, x * 2)
"""

COMPILE = """
spec.loader.exec_module(module)
import triton
from triton.backends.compiler import GPUTarget
source = triton.compiler.ASTSource(
    fn=module.double,
    signature={"x": "*fp32", "out": "*fp32", "n": "i32", "BLOCK": "constexpr"},
    constexprs={"BLOCK": 128},
)
kernel = triton.compile(source, target=GPUTarget("cuda", 90, 32))
report["cubin"] = len(kernel.asm["cubin"])
report["cached"] = os.listdir(os.environ["TRITON_CACHE_DIR"])
"""


@pytest.mark.parametrize("gpu", [False, True], ids=["cpu", "gpu-layers"])
@pytest.mark.parametrize(
    "machine", [ALL_LAYERS, pytest.param(NO_NAMESPACES, marks=[pytest.mark.slow, needs(layers.NAMESPACES["user"])])]
)
def test_honest_kernels_notice_nothing(scratch: Path, machine: str, gpu: bool) -> None:
    computed, interpreted, compiled = enter(
        scratch,
        TORCH,
        PREPARE_KERNEL + INTERPRET,
        PREPARE_KERNEL + COMPILE,
        imports=("torch", "triton"),
        machine=machine,
        gpu=gpu,
        timeout_s=60,
    )
    assert (computed.raised, interpreted.raised, compiled.raised) == ("", "", "")
    assert computed.report["sum"] == 64
    assert interpreted.report["equal"]
    assert compiled.report["cubin"] > 0
    assert compiled.report["cached"]
    print(f"entering took {computed.enter_ms:.1f}, {interpreted.enter_ms:.1f}, {compiled.enter_ms:.1f} ms")


def test_entering_says_what_is_in_force(scratch: Path) -> None:
    (outcome,) = enter(scratch, "")
    available = {layer.name for layer in layers.probe() if layer.available}
    assert set(outcome.layers) >= available - {layers.CGROUP}
    assert set(outcome.layers) <= available | {layers.MEMORY_LIMIT, layers.PROCESS_LIMIT}


def test_probing_leaves_the_caller_as_it_was() -> None:
    before = Path("/proc/self/status").read_text().split("\n")
    layers.probe.cache_clear()
    layers.probe()
    kept = ("Uid", "Cap", "NoNewPrivs", "Seccomp", "NSpid")
    after = Path("/proc/self/status").read_text().split("\n")
    assert [line for line in before if line.startswith(kept)] == [line for line in after if line.startswith(kept)]


def test_a_confinement_survives_the_wire(scratch: Path) -> None:
    confinement = sandbox.Confinement(scratch=str(scratch), read_only=("/opt",), limits=sandbox.Limits(cpu_s=5))
    assert decode(sandbox.Confinement, json.loads(json.dumps(encode(confinement)))) == confinement
    with pytest.raises(ValueError, match="absolute"):
        sandbox.Confinement(scratch="relative")
