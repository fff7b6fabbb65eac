"""`triton-agent optimize` with a language model behind a server: answers, failures, keys."""

from __future__ import annotations

import dataclasses
import gzip
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.policy.llm.asking import KEY
from tests.policy.llm.servers import fault_server as faults
from tests.policy.llm.servers.fault_server import FaultServer, refusing, saying
from tests.runs.commands import call

from triton_agent.memory.store import Store
from triton_agent.policy.answer import write_answer
from triton_agent.policy.llm.engine import Sampling
from triton_agent.runs.cli.model_options import OPTIONS, ModelOptions
from triton_agent.runs.cli.policies import make_policies
from triton_agent.tools.errors import TritonAgentError

ROOT = Path(__file__).resolve().parents[2]
KERNELS = ROOT / "tests" / "kernels" / "row_sum_f32"
PROBLEM = KERNELS / "problem.py"
RIGHT = saying(write_answer("sum in a loop", (KERNELS / "right_loop.py").read_text()))
WRONG = saying(write_answer("only the first block", (KERNELS / "wrong_first_block_only.py").read_text()))


def optimize(folder: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(_command(folder, *arguments), capture_output=True, text=True, timeout=280, env=_environment())


def _command(folder: Path, *arguments: object) -> list[str]:
    where = ("--out", folder / "out", "--store", folder / "runs.db")
    return [sys.executable, "-m", "triton_agent", "optimize", *map(str, (*arguments, *where))]


def _environment() -> dict[str, str]:
    return os.environ | {"OPENAI_API_KEY": KEY}


def told_anywhere(folder: Path, done: subprocess.CompletedProcess[str]) -> str:
    """Return everything that a run left behind: its output, every file, and the packed texts of the store."""
    files = [path.read_bytes().decode("latin-1") for path in folder.rglob("*") if path.is_file()]
    packed = folder.parent / f"{folder.name}.jsonl.gz"
    call("runs", "export", "-o", str(packed), "--store", str(folder / "runs.db"))
    return "\n".join([done.stdout, done.stderr, *files, gzip.decompress(packed.read_bytes()).decode()])


@pytest.mark.slow
def test_a_right_kernel_after_two_bad_answers_becomes_a_draft(tmp_path: Path) -> None:
    with FaultServer(saying("I would rather not."), refusing(401, f"wrong: {KEY}"), WRONG, RIGHT) as server:
        options = ("--policy", "openai:served", "--base-url", f"http://127.0.0.1:{server.port}", "--parallel", 1)
        first = optimize(tmp_path / "run", PROBLEM, *options, "--turns", 3, "--price", "1,2", "--json")
        assert first.returncode == 3, first.stderr  # nothing to ship yet, and nobody to ask
        stopped = json.loads(first.stdout.splitlines()[-1])
        assert stopped["stop_reason"] == "policy_failed" and "401" in stopped["failed"]["openai:served"]
        done = optimize(tmp_path / "run", "--resume", "last", "--json")
    assert done.returncode == 0, done.stderr
    outcome = json.loads(done.stdout.splitlines()[-1])
    assert outcome["draft"] is True and Path(outcome["file"]).exists() and outcome["failed"] == {}
    assert outcome["spent"]["tokens"] == 300 and outcome["spent"]["cost"] == pytest.approx(390e-6)
    with Store.open(tmp_path / "run" / "runs.db") as store:
        attempts = list(store.attempts(outcome["run"]))
        statuses = [str(store.gradings(attempt.key)[0].evaluation.status) for attempt in attempts]
    assert statuses == ["no_answer", "wrong_values", "passed"]
    assert all(attempt.completion.messages and attempt.completion.prompt_version for attempt in attempts)
    assert server.asked[0].headers["authorization"] == f"Bearer {KEY}"
    told = told_anywhere(tmp_path / "run", done) + first.stdout + first.stderr
    assert "[redacted]" in told and "sum in a loop" in told
    assert KEY not in told


def calling(name: str, arguments: dict[str, str]) -> faults.Behaviour:
    function = {"name": name, "arguments": json.dumps(arguments)}
    delta = {"content": "", "tool_calls": [{"index": 0, "id": "c", "type": "function", "function": function}]}
    event = {"choices": [{"index": 0, "delta": delta, "finish_reason": "tool_calls"}]}
    return faults.streaming(event, faults.USAGE, "[DONE]")


@pytest.mark.slow
def test_a_model_tries_a_draft_with_the_real_judge_before_it_answers(tmp_path: Path) -> None:
    draft = calling("evaluate_draft", {"source": (KERNELS / "wrong_first_block_only.py").read_text()})
    with FaultServer(draft, calling("read_memory", {}), RIGHT) as server:
        options = ("--policy", "openai:served", "--base-url", server.url, "--model-tools", "--turns", 1)
        done = optimize(tmp_path / "run", PROBLEM, *options, "--parallel", 1, "--json")
    assert done.returncode == 0, done.stderr
    assert [tool["function"]["name"] for tool in server.asked[0].body["tools"]][1] == "evaluate_draft"
    told = [message["content"] for message in server.asked[-1].body["messages"] if message["role"] == "tool"]
    assert "wrong" in told[0] or "agrees with the reference" in told[0], "one small call may not tell"
    assert "There are no lessons of earlier runs" in told[1]
    with Store.open(tmp_path / "run" / "runs.db") as store:
        (attempt,) = store.attempts(json.loads(done.stdout.splitlines()[-1])["run"])
        assert len(store.gradings(attempt.key)) == 1, "a trial is no verdict"
    assert [message.role for message in attempt.completion.messages] == [
        *("system", "user"),
        *("assistant", "tool"),
        *("assistant", "tool"),
    ]
    assert attempt.completion.messages[2].calls[0].name == "evaluate_draft"
    assert attempt.completion.usage.prompt_tokens == 3 * 70


@pytest.mark.slow
def test_where_the_server_is_dead_the_built_in_author_goes_on(tmp_path: Path) -> None:
    with faults.dead_port() as port:
        options = ("--policy", "builtin,openai:served", "--base-url", f"http://127.0.0.1:{port}")
        done = optimize(tmp_path / "run", PROBLEM, *options, "--turns", 1, "--parallel", 2)
    assert done.returncode == 0, done.stderr
    assert "openai:served could not be asked" in done.stderr and "draft" in done.stdout
    assert KEY not in told_anywhere(tmp_path / "run", done)


@pytest.mark.slow
def test_an_interrupt_does_not_wait_for_a_server_that_hangs(tmp_path: Path) -> None:
    with FaultServer(faults.hang) as server:
        options = (PROBLEM, "--policy", "openai:served", "--base-url", server.url, "--parallel", 1)
        running = subprocess.Popen(
            _command(tmp_path, *options),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=_environment(),
        )
        assert running.stderr is not None
        for line in running.stderr:
            if line.startswith("turn 1"):
                break
        running.send_signal(signal.SIGINT)
        _, rest = running.communicate(timeout=60)
    assert running.returncode == 1, rest
    with Store.open(tmp_path / "runs.db") as store:
        (summary,) = store.runs()
        assert store.end(summary.id).stop_reason == "interrupted"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--policy", "openai:", "--base-url", "http://h"), "names no model"),
        (("--policy", "openai:m", "--api-key-env", "NO_SUCH_KEY"), "--base-url"),
        (("--policy", "openai:m", "--base-url", "ftp://h"), "--base-url ftp://h"),
        (("--policy", "openai:m", "--base-url", "http://user:secret@h"), "--base-url holds more"),
        (("--policy", "openai:m", "--base-url", "http://h", "--api-key-env", "NO_SUCH_KEY"), "no key in NO_SUCH_KEY"),
        (("--policy", "openai:m", "--base-url", "http://h", "--price", "cheap"), "--price cheap"),
        (("--policy", "openai:m", "--base-url", "http://h", "--max-cost", "1"), "without a price"),
        (("--policy", "openai:m", "--base-url", "http://h", "--temperature", "-1"), "--temperature -1"),
        (("--policy", "openai:m", "--base-url", "http://h", "--max-answer-tokens", "0"), "--max-answer-tokens 0"),
        (("--policy", "chat:nobody"), "chat:PROVIDER:MODEL"),
        (("--policy", "chat:a:b", "--reasoning-effort", "low"), "--reasoning-effort: not for chat:"),
        (("--policy", "hf:x", "--model-tools"), "--model-tools: not for hf:"),
        (("--policy", "openai:m", "--base-url", "http://h", "--extra-body", "{"), "--extra-body {"),
        (("--policy", "openai:m", "--base-url", "http://h", "--extra-body", '{"n": 3}'), "--extra-body sets n"),
        (("--policy", "openai:m", "--base-url", "http://h", "--top-p", "0"), "--top-p 0"),
        (("--policy", "openai:m", "--base-url", "http://h", "--min-p", "2"), "--min-p 2"),
        (("--policy", "openai:m", "--base-url", "http://h", "--top-k", "-1"), "--top-k -1"),
        (("--policy", "openai:m", "--base-url", "http://h", "--repetition-penalty", "0"), "--repetition-penalty 0"),
        (("--policy", "openai:m", "--base-url", "http://h", "--tokens-per-minute", "0"), "--tokens-per-minute 0"),
    ],
)
def test_a_wrong_request_says_what_is_wrong(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    with pytest.raises(TritonAgentError) as raised:
        call("optimize", str(PROBLEM), *arguments, "--store", str(tmp_path / "db"))
    assert said in str(raised.value) and "secret" not in str(raised.value)


def test_options_reach_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", KEY)
    options = ModelOptions(
        base_url="http://h", api_key_env="SOME_KEY", temperature=0.0, max_answer_tokens=7, context_tokens=900
    )
    first, second = make_policies("builtin,openai:a/b:c", options)
    assert (first.name, second.name) == ("builtin", "openai:a/b:c")
    assert options.sampling() == Sampling(temperature=0.0, max_tokens=7)
    assert KEY not in repr(vars(second))


def test_thoughts_have_room_where_an_effort_or_a_number_is_given() -> None:
    assert ModelOptions().sampling().max_thinking_tokens == 0
    assert ModelOptions(reasoning_effort="low").sampling().max_thinking_tokens == 16384
    assert ModelOptions(reasoning_effort="low", max_thinking_tokens=5).sampling().max_thinking_tokens == 5


def test_every_setting_of_a_model_has_an_option_of_its_name_and_default() -> None:
    settings = {field.name: field.default for field in dataclasses.fields(ModelOptions)}
    assert {name: default for name, (_, default) in OPTIONS.items()} == settings


def test_the_help_tells_the_true_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")  # in a narrow terminal the words stand on several lines
    said = " ".join(call("optimize", "--help").stdout.split())
    assert f"default: {Sampling().temperature:g}" in said and f"default: {Sampling().max_tokens}" in said
