"""The command line for people and programs: it answers quickly, and every outcome is one of the exit codes."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import triton_agent
from triton_agent.runs.cli import exit_codes
from triton_agent.runs.cli.main import _machine_trouble

SOFTMAX = Path(__file__).parents[1] / "kernels" / "softmax_f32"
PROBLEM, RIGHT, WRONG = (str(SOFTMAX / name) for name in ("problem.py", "right_block.py", "wrong_padded_with_zero.py"))

KEYS = {"kernel", "status", "correctness", "resources", "timing", "diagnosis", "evidence", "stages_ms"}
RUN_TIMEOUT_S = 120


def command(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "triton_agent", *arguments]
    settings = {"capture_output": True, "text": True, "timeout": RUN_TIMEOUT_S, **options}
    return subprocess.run(argv, **settings)  # type: ignore[call-overload]


def evaluate(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    return command("evaluate", "--target", "none", "--shapes", "given", "--mode", "eval", *arguments, **options)


def assert_refused(done: subprocess.CompletedProcess[str], *words: str) -> None:
    """Assert exit code 2 and a helpful message, without verdict or traceback."""
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr


@pytest.fixture(scope="module")
def judged() -> subprocess.CompletedProcess[str]:
    """Evaluate one right and one wrong kernel with `--json`."""
    return command("evaluate", "--json", "--shapes", "given", "--mode", "eval", PROBLEM, RIGHT, WRONG)


@pytest.fixture(scope="module")
def passed() -> subprocess.CompletedProcess[str]:
    """Evaluate a right kernel read from a pipe, in a terminal of 30 columns without colours."""
    environment = {**os.environ, "COLUMNS": "30", "NO_COLOR": "1"}
    return evaluate(PROBLEM, "-", input=Path(RIGHT).read_text(), env=environment)


# -- quick answers -----------------------------------------------------------------------------------------------------


def test_help_does_not_import_torch() -> None:
    code = "import sys; import triton_agent.runs.cli.main; print({'torch', 'triton', 'numpy'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.strip() == "set()"


def test_a_run_is_begun_before_langgraph_is_there() -> None:
    code = "import sys; import triton_agent.runs.optimize.command; print({'torch', 'langgraph'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "nothing to optimize"),
        (("missing.py",), "no such file"),
        ((PROBLEM, "--policy", "genius"), "no such policy"),
        ((PROBLEM, "--turns", "0"), "--turns 0"),
        ((PROBLEM, "--device", "cuda:99"), "--device cuda:99"),
    ],
)
def test_a_request_that_is_wrong_is_refused_before_torch_is_loaded(arguments: tuple[str, ...], said: str) -> None:
    code = (
        "import sys\nfrom triton_agent.runs.cli.main import main\n"
        "try: main()\nfinally: print([name for name in ('torch', 'langgraph', 'sqlalchemy') if name in sys.modules])"
    )
    command = [sys.executable, "-c", code, "optimize", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and said in done.stderr and "loading" not in done.stderr
    assert done.stdout == "[]\n"


def test_help_answers_at_once_and_names_the_commands() -> None:
    began = time.perf_counter()
    done = command("--help")
    took_s = time.perf_counter() - began
    assert done.returncode == 0
    assert all(name in done.stdout for name in ("evaluate", "check-problem", "doctor"))
    assert took_s < 2, "half a second on an idle machine; importing torch would take two at least"


def test_version_is_printed() -> None:
    done = command("--version")
    assert (done.returncode, done.stdout) == (0, f"triton-agent {triton_agent.__version__}\n")


def test_without_a_command_the_help_is_shown() -> None:
    done = command()
    assert done.returncode == 2
    assert "evaluate" in done.stdout + done.stderr
    assert "bug" not in done.stderr


# -- wrong requests ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("evaluete",), "evaluete"),
        (("evaluate",), "PROBLEM"),
        (("evaluate", PROBLEM), "KERNEL"),
        (("evaluate", "--bogus", PROBLEM, RIGHT), "--bogus"),
        (("evaluate", "--jobs", "many", PROBLEM, RIGHT), "--jobs"),
    ],
)
def test_what_the_parser_refuses_is_a_usage_error(arguments: tuple[str, ...], word: str) -> None:
    assert_refused(command(*arguments), word, "Usage:")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--target", "sm_90", PROBLEM, RIGHT), ("sm_90", "cuda:90")),
        (("--mode", "both-ways", PROBLEM, RIGHT), ("both-ways", "eval, train, both")),
        (("--shapes", "all", PROBLEM, RIGHT), ("all", "family or given")),
        (("--timeout", "nan", PROBLEM, RIGHT), ("nan", "seconds")),
        (("--jobs", "-2", PROBLEM, RIGHT), ("-2",)),
        (("no_such_problem.py", RIGHT), ("no_such_problem.py", "no such file")),
        ((PROBLEM, "no_such_kernel.py"), ("no_such_kernel.py",)),
        ((PROBLEM, str(SOFTMAX)), ("is a folder", "*.py")),
        ((RIGHT, RIGHT), ("candidate", "class Model")),
        ((f"{PROBLEM}:Modell", "--input", "f32[4,8]", RIGHT), ("Modell", "Model")),
        ((f"{PROBLEM}:Model", "--input", "f32[4,8", RIGHT), ("f32[4,8",)),
    ],
)
def test_a_request_that_cannot_be_carried_out_says_what_is_wrong(
    arguments: tuple[str, ...], words: tuple[str, ...]
) -> None:
    assert_refused(command("evaluate", *arguments), *words)


def test_a_broken_problem_is_named_with_its_line(tmp_path: Path) -> None:
    problem = tmp_path / "problem.py"
    problem.write_text("import torch\n\nclass Model(torch.nn.Module)\n    pass\n")
    assert_refused(command("evaluate", str(problem), RIGHT), f"{problem}:3", "syntax error")


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00", b"class Model: pass\0\n"])
def test_a_problem_that_is_no_python_text_is_refused(tmp_path: Path, content: bytes) -> None:
    problem = tmp_path / "problem.py"
    problem.write_bytes(content)
    assert_refused(command("evaluate", str(problem), RIGHT), str(problem))


def test_a_kernel_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    kernel = tmp_path / "kernel.py"
    kernel.write_bytes(bytes(range(128, 256)))
    assert_refused(command("evaluate", PROBLEM, str(kernel)), str(kernel), "UTF-8")


# -- verdicts ----------------------------------------------------------------------------------------------------------


@pytest.mark.xdist_group("judged")
def test_a_wrong_kernel_among_right_ones_makes_the_exit_code_one(judged: subprocess.CompletedProcess[str]) -> None:
    assert judged.returncode == 1, judged.stderr


@pytest.mark.xdist_group("judged")
def test_stdout_has_one_json_object_a_kernel_and_nothing_else(judged: subprocess.CompletedProcess[str]) -> None:
    records = [json.loads(line) for line in judged.stdout.splitlines()]
    assert [record["kernel"] for record in records] == [RIGHT, WRONG]
    assert [record["status"] for record in records] == ["passed", "wrong_values"]
    assert all(record.keys() >= KEYS for record in records)


@pytest.mark.xdist_group("judged")
def test_speed_is_never_invented(judged: subprocess.CompletedProcess[str]) -> None:
    for line in judged.stdout.splitlines():
        timing = json.loads(line)["timing"]
        assert timing["measured"] is False
        assert timing["reason"]
        assert timing["floor"]["bytes"] > 0


@pytest.mark.xdist_group("judged")
def test_a_compiled_kernel_reports_its_registers(judged: subprocess.CompletedProcess[str]) -> None:
    resources = json.loads(judged.stdout.splitlines()[0])["resources"]
    assert resources
    assert all(kernel["registers"] > 0 and kernel["target"] == "cuda:90" for kernel in resources)


@pytest.mark.xdist_group("passed")
def test_a_right_kernel_from_a_pipe_passes(passed: subprocess.CompletedProcess[str]) -> None:
    assert passed.returncode == 0, passed.stderr
    assert "1 of 1 passed" in passed.stdout


@pytest.mark.xdist_group("passed")
def test_no_colour_codes_where_none_are_wanted(passed: subprocess.CompletedProcess[str]) -> None:
    assert "\x1b" not in passed.stdout + passed.stderr


def test_odd_names_and_a_byte_order_mark_do_no_harm(tmp_path: Path) -> None:
    """Square brackets are markup to rich, and the name of a file need not be valid text."""
    folder = tmp_path / "a["
    folder.mkdir()
    kernel = os.fsencode(folder) + b"/b] \xff.py"
    Path(os.fsdecode(kernel)).write_text(Path(RIGHT).read_text(), encoding="utf-8-sig")
    nul = tmp_path / "nul.py"
    nul.write_bytes(b"class ModelNew: pass\0\n")
    done = evaluate(PROBLEM, os.fsdecode(kernel), str(nul), errors="surrogateescape")
    assert done.returncode == 1, done.stderr
    assert "1 of 2 passed" in done.stdout
    assert "compile_error (syntax)" in done.stdout


# -- unkind endings ----------------------------------------------------------------------------------------------------


def test_a_file_in_the_working_folder_takes_no_module_s_place(tmp_path: Path) -> None:
    """The judging processes do not import `random` from the working folder, by accident or on purpose."""
    (tmp_path / "random.py").write_text("raise RuntimeError('imported')\n")
    argv = [sys.executable, "-P", "-m", "triton_agent", "evaluate", "--target", "none", "--shapes", "given"]
    done = subprocess.run([*argv, PROBLEM, RIGHT], capture_output=True, text=True, timeout=RUN_TIMEOUT_S, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_output_that_nobody_reads_is_no_error() -> None:
    code = f"{sys.executable} -m triton_agent --help | head -c 1 >/dev/null; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.fixture
def endless(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """An evaluation that takes a while, with a temporary folder of its own."""
    kernel, scratch = tmp_path / "kernel.py", tmp_path / "scratch"
    kernel.write_text(
        "import torch\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        while True: pass\n"
    )
    scratch.mkdir()
    environment = {**os.environ, "TMPDIR": str(scratch)}
    argv = [sys.executable, "-m", "triton_agent", "evaluate", "--target", "none", PROBLEM, str(kernel)]
    process = subprocess.Popen(
        argv,
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # A shell starts its background jobs with Ctrl-C ignored, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    yield process, scratch
    process.kill()
    process.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_evaluation_leaves_no_process_and_no_folder(
    endless: tuple[subprocess.Popen[str], Path], number: signal.Signals
) -> None:
    process, scratch = endless
    await_worker(scratch)
    process.send_signal(number)
    _, complaint = process.communicate(timeout=20)
    assert (process.returncode, complaint) == (130, "interrupted\n")
    assert not list(scratch.glob("triton-agent-*"))
    assert not processes_with_temporary_folder(scratch)


def await_worker(scratch: Path) -> None:
    """Wait until the candidate's file exists, which means that a worker runs it."""
    deadline = time.monotonic() + 60
    while not list(scratch.glob("triton-agent-*/*/candidate.py")):
        assert time.monotonic() < deadline, "no worker was started"
        time.sleep(0.05)


def processes_with_temporary_folder(scratch: Path) -> list[str]:
    """Return the processes that the evaluation started: its temporary folder is in their environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            environment, name = (folder / "environ").read_bytes(), (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if f"TMPDIR={scratch}".encode() in environment:
            found.append(f"{folder.name}: {name!r}")
    return found


@pytest.mark.parametrize(
    ("number", "remedy"),
    [(errno.ENOSPC, "free some space"), (errno.EACCES, "a folder that you may write to"), (errno.EMFILE, "ulimit")],
)
def test_trouble_of_the_machine_comes_with_what_to_do(
    number: int, remedy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _machine_trouble(OSError(number, os.strerror(number), "runs/out")) == exit_codes.NOT_MEASURED
    said = capsys.readouterr().err
    assert f"could not continue: {os.strerror(number)}: runs/out" in said and remedy in said
