"""The OpenEnv environment: its server with real verdicts, tested with the library's own clients."""

from __future__ import annotations

import asyncio
import functools
import importlib.util
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.policy.train.online.tool_calls import CONTEXT, model_that_calls_tools, settings, trainer_that_submits
from tests.runs.test_verifiers import PROBLEM, RIGHT

from triton_agent.policy.train.extra import missing_modules, require_training

ROOT = Path(__file__).parents[2]
WRONG = RIGHT.replace("2.0", "3.0")
pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("openenv") is None, reason="`make test-openenv` installs openenv-core"
)


def said(file: str) -> str:
    return f"As told.\n\n```python\n{file}```\n"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("problems")
    (folder / "doubled.py").write_text(PROBLEM)
    (folder / "tripled.py").write_text(PROBLEM.replace("2.0", "3.0"))
    (folder / "token").write_text("the token\n")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "triton_agent_openenv", str(folder), "--port", str(port), "--device", "cpu"]
    command += ["--token-file", str(folder / "token"), "--sessions", "3", "--turns", "2", "--at-once", "1"]
    server = subprocess.Popen(command, env=os.environ | {"PYTHONPATH": str(ROOT / "src")}, stdout=subprocess.PIPE)
    try:
        assert server.stdout is not None and b"2 problems" in server.stdout.readline()
        limit = time.monotonic() + 60
        while time.monotonic() < limit:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        yield f"127.0.0.1:{port}"
    finally:
        server.send_signal(signal.SIGINT)
        assert server.wait(60) == 0


def test_two_sessions_have_episodes_of_their_own(address: str) -> None:
    from triton_agent_openenv import KernelAction, KernelClient

    async def episode(problem: str, files: list[str]) -> list[tuple[float | None, str, bool]]:
        found = []
        async with KernelClient(f"http://agent:the%20token@{address}", message_timeout_s=300) as client:
            began = await client.reset(problem=problem)
            assert "x *" in began.observation.messages[-1]["content"]
            for file in files:
                result = await client.step(KernelAction(answer=said(file)))
                found.append((result.reward, result.observation.status, result.done))
                if not result.done:
                    assert result.observation.status in result.observation.verdict
                    assert "wrong_values" in result.observation.messages[-1]["content"]
            state = await client.state()
            assert (state.problem, state.step_count) == (problem, len(files))
            with pytest.raises(RuntimeError, match="over after 2 turns"):
                await client.step(KernelAction(answer=""))
        return found

    async def both() -> list[list[tuple[float | None, str, bool]]]:
        return await asyncio.gather(episode("doubled", [WRONG, RIGHT]), episode("tripled", [RIGHT, WRONG]))

    for (failed, status, over), (passed, better, done) in asyncio.run(both()):
        assert (status, over, better, done) == ("wrong_values", False, "passed", True)
        assert failed is not None and passed is not None and passed > failed


def test_a_client_without_types_begins_again_and_the_last_session_is_the_last(address: str) -> None:
    from openenv.core import GenericEnvClient
    from websockets.exceptions import ConnectionClosedOK  # the refusal may come while the client still asks

    async def check() -> None:
        url = f"http://agent:the%20token@{address}"
        async with GenericEnvClient(url, message_timeout_s=300) as client:
            names = {(await client.reset(seed=seed)).observation["problem"] for seed in range(8)}
            assert names == {"doubled", "tripled"}
            again = [(await client.reset(seed=5)).observation["problem"] for _ in range(2)]
            assert again[0] == again[1]
            with pytest.raises(RuntimeError, match="no problem absent"):
                await client.reset(problem="absent")
            others = [GenericEnvClient(url) for _ in range(3)]
            with pytest.raises((RuntimeError, ConnectionClosedOK), match=r"CAPACITY_REACHED|received 1000"):
                for other in others:
                    await other.reset(problem="doubled")
            for other in others:
                await other.close()

    asyncio.run(check())


@pytest.mark.skipif(bool(missing_modules()), reason=f"training needs {', '.join(missing_modules())}")
def test_trl_trains_on_files_that_the_server_judges(address: str, tmp_path: Path) -> None:
    """Run three steps of TRL's tool loop. The answers of the tiny model are replaced: file 1 is wrong, file 2 is
    right.
    """
    require_training()
    from datasets import Dataset

    from triton_agent_openenv import RemoteKernels, remote_rows

    url = f"http://agent:the%20token@{address}"
    model, tokenizer = model_that_calls_tools(tmp_path / "tiny")
    rows = [row for row in asyncio.run(remote_rows(url)) if row["problem"] == "doubled"]
    assert "x *" in rows[0]["prompt"][-1]["content"]
    shown: list[str] = []
    trainer = trainer_that_submits(lambda number: RIGHT if number == 2 else WRONG, shown)(
        model,
        environment_factory=functools.partial(RemoteKernels, url),
        args=settings(tmp_path, max_completion_length=CONTEXT),
        train_dataset=Dataset.from_list([{"prompt": [{"role": "user", "content": "Double x."}], "problem": "doubled"}]),
        processing_class=tokenizer,
    )
    trainer.train()
    assert trainer.state.global_step == 3
    assert any("wrong_values" in text for text in shown)
    spread = [entry["reward_std"] for entry in trainer.state.log_history if "reward" in entry]
    assert len(spread) == 3 and min(spread) > 0, "the right file is worth more than the wrong one"


@pytest.mark.parametrize("given", ["", "agent:another@", "agent:@"])
def test_nobody_is_answered_without_the_token(address: str, given: str) -> None:
    from openenv.core import GenericEnvClient

    async def connect() -> None:
        async with GenericEnvClient(f"http://{given}{address}"):
            pass

    with pytest.raises(ConnectionError, match=r"40[13]"):
        asyncio.run(connect())
