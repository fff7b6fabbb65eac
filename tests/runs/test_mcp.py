"""`triton-agent mcp` with the SDK's own client: verdicts, optimizations, and what a client must not do."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

mcp = pytest.importorskip("mcp", reason="the extra `mcp` is not installed")
import httpx2  # noqa: E402, the SDK's
from docs.make_agents import PROBLEM, conversation  # noqa: E402
from mcp.client.streamable_http import streamable_http_client  # noqa: E402

from triton_agent.memory.store import Store  # noqa: E402
from triton_agent.runs.jobs import Jobs  # noqa: E402
from triton_agent.runs.mcp import command  # noqa: E402
from triton_agent.runs.mcp.roots import Roots  # noqa: E402
from triton_agent.runs.mcp.server import make_server, wants_token  # noqa: E402
from triton_agent.runs.mcp.service import Service, ServiceSettings  # noqa: E402
from triton_agent.runs.mcp.texts import cut  # noqa: E402
from triton_agent.runs.ship import call_form  # noqa: E402
from triton_agent.tools.errors import ProblemError, UsageError  # noqa: E402
from triton_agent.tools.problem.problem import parse_problem  # noqa: E402
from triton_agent.tools.sandbox.layers import ESSENTIAL, probe  # noqa: E402

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
CONFINES = pytest.mark.skipif(
    any(layer.name in ESSENTIAL and not layer.available for layer in probe()),
    reason="an essential layer of the sandbox is missing here, so no problem would be confined",
)
Call = Callable[..., Awaitable[str]]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder to serve, and one next to it that is not served."""
    folder = tmp_path.resolve() / "project"
    folder.mkdir()
    (folder / "softmax.py").write_text(PROBLEM)
    for name in ("softmax_online.py", "softmax_half.py"):
        (folder / name).write_text((EXAMPLES / name).read_text())
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.py").write_text(PROBLEM)
    return folder


def arguments(project: Path, *more: str) -> list[str]:
    told = ["--root", str(project), "--device", "cpu", "--store", str(project.parent / "runs.db")]
    return ["-m", "triton_agent", "mcp", *told, *more]


def calling(client: Any, *, fails: bool = False) -> Call:
    async def call(name: str, **given: Any) -> str:
        answer = await client.call_tool(name, given, read_timeout_seconds=400)
        text = "\n".join(block.text for block in answer.content)
        assert answer.is_error is fails, text
        return text

    return call


@contextlib.asynccontextmanager
async def in_process(project: Path) -> AsyncIterator[Any]:
    settings = ServiceSettings(roots=Roots([str(project)]), out=project, device="cpu")
    with Jobs() as jobs:
        async with mcp.Client(make_server(Service(settings, jobs))) as client:
            yield client


@contextlib.asynccontextmanager
async def over_stdio(project: Path, *more: str) -> AsyncIterator[Any]:
    server = mcp.StdioServerParameters(
        command=sys.executable, args=arguments(project, *more), env=dict(os.environ), cwd=project
    )
    async with mcp.Client(server) as client:
        yield client


@contextlib.contextmanager
def http_server(project: Path) -> Iterator[tuple[str, str]]:
    """Yield address and token."""
    process = subprocess.Popen(
        [sys.executable, *arguments(project, "--http", "0")], stderr=subprocess.PIPE, text=True, cwd=project
    )
    assert process.stderr is not None
    try:
        url, token = process.stderr.readline().strip(), process.stderr.readline().strip().rpartition(" ")[2]
        yield url, token
    finally:
        process.terminate()
        process.communicate(timeout=60)


@contextlib.asynccontextmanager
async def over_http(url: str, token: str) -> AsyncIterator[Any]:
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=400) as http,
        mcp.Client(streamable_http_client(url, http_client=http)) as client,
    ):
        yield client


# -- what a client cannot do -------------------------------------------------------------------------------------------


def test_files_outside_the_roots_are_refused_in_the_same_words_whether_or_not_they_exist(project: Path) -> None:
    (project / "link.py").symlink_to(project.parent / "outside" / "secret.py")
    (project / "folder").symlink_to(project.parent / "outside")
    (project / "softmax.py:Model").symlink_to(project.parent / "outside" / "secret.py")
    os.mkfifo(project / "pipe.py")
    roots = Roots([str(project)])
    assert roots.target("softmax.py") == str(project / "softmax.py")
    there, absent = str(project.parent / "outside" / "secret.py"), str(project.parent / "outside" / "none.py")
    said = []
    for name in (there, absent, "../outside/secret.py", "link.py", "folder/secret.py", "pipe.py", "a\0b", "/dev/stdin"):
        with pytest.raises(UsageError) as refused:
            roots.target(name)
        said.append(str(refused.value).replace(repr(name), "NAME"))
    assert len(set(said)) == 1
    with pytest.raises(UsageError, match="both a class and a file"):
        roots.target("softmax.py:Model")


def test_modules_that_a_problem_imports_have_to_be_in_the_roots(project: Path) -> None:
    (project / "helper.py").symlink_to(project.parent / "outside" / "secret.py")
    (project / "importing.py").write_text("import helper\n" + PROBLEM)
    with pytest.raises(UsageError, match="outside the folders"):
        Roots([str(project)]).require(parse_problem(str(project / "importing.py")))
    (project / "__init__.py").write_text("")  # now imports start above the root
    with pytest.raises(UsageError, match="outside the folders"):
        Roots([str(project)]).require(parse_problem(str(project / "softmax.py")))


def test_wrong_paths_and_values_come_back_as_errors_of_the_tool(project: Path) -> None:
    async def talk() -> None:
        async with in_process(project) as client:
            refused = calling(client, fails=True)
            outside = str(project.parent / "outside" / "secret.py")
            for name in ("evaluate_kernel", "check_problem", "optimize_start", "search_lessons"):
                kernel = {"kernel": "softmax_online.py"} if name == "evaluate_kernel" else {}
                assert "in the folders that this server reads" in await refused(name, problem=outside, **kernel)
            assert "no file" in await refused("evaluate_kernel", problem="softmax.py", kernel=outside)
            sets = {"problem": "softmax.py:Model", "sets": [outside]}
            assert "describes no inputs" in await refused("check_problem", **sets)
            assert "at least 1" in await refused("optimize_start", problem="softmax.py", turns=0)
            assert "no job" in await refused("optimize_cancel", job="optimize-1")
            assert "max_chars" in await refused("check_problem", problem="softmax.py", max_chars=1)

    asyncio.run(talk())


@CONFINES
def test_a_confined_problem_cannot_write_while_its_call_is_looked_at(project: Path) -> None:
    marker = project / "written"
    (project / "softmax.py").write_text(f"open({str(marker)!r}, 'w').close()\n{PROBLEM}")
    with pytest.raises(ProblemError, match=r"Permission|Read-only"):
        call_form.find(parse_problem(str(project / "softmax.py")), trust=False)
    assert not marker.exists()


def test_messages_name_the_parameters_of_tools_and_an_unknown_parameter_is_refused(project: Path) -> None:
    (project / "own.py").write_text("import torch\n\n\nclass Own(torch.nn.Module):\n    pass\n")

    async def talk() -> None:
        async with in_process(project) as client:
            refused = calling(client, fails=True)
            said = await refused("check_problem", problem="own.py:Own")
            assert 'inputs "f16[8,128,1024]"' in said and "--" not in said
            assert "device" in await refused("optimize_start", problem="softmax.py", device="cuda")
            schemas = [tool.input_schema for tool in (await client.list_tools()).tools]
            assert schemas and all(schema["additionalProperties"] is False for schema in schemas)

    asyncio.run(talk())


def test_before_the_first_run_there_are_no_lessons_and_that_is_no_error(project: Path) -> None:
    async def talk() -> None:
        settings = ServiceSettings(
            roots=Roots([str(project)]), out=project, device="cpu", store=str(project / "none.db")
        )
        with Jobs() as jobs:
            async with mcp.Client(make_server(Service(settings, jobs))) as client:
                said = await calling(client)("search_lessons", problem="softmax.py")
                assert "no run is stored yet" in said and "optimize_start" in said
                said = await calling(client, fails=True)("show_attempt", attempt="last/best")
                assert "optimize_start makes the first run" in said

    asyncio.run(talk())


def test_http_without_the_token_is_refused() -> None:
    async def inner(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def statuses() -> list[int]:
        transport = httpx2.ASGITransport(wants_token(inner, "right"))
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            given = [{}, {"Authorization": "Bearer wrong"}, {"Authorization": "Bearer right"}]
            return [(await client.post("/mcp", headers=headers)).status_code for headers in given]

    assert asyncio.run(statuses()) == [401, 401, 200]


# -- answers and declarations ------------------------------------------------------------------------------------------


def test_long_answers_are_cut_to_the_length_asked_for_and_say_so() -> None:
    text = "".join(map(str, range(1000)))
    assert cut(text, len(text)) == text
    first, last = cut(text, 300), cut(text, 300, end=True)
    assert len(first) == len(last) == 300
    assert text.startswith(first.partition("\n")[0]) and text.endswith(last.partition("\n")[2])
    assert f"[cut: {len(text)} characters; max_chars was 300]" in first and "[cut" in last


def test_tools_and_resources_are_declared_and_resources_can_be_read(project: Path) -> None:
    async def talk() -> None:
        async with in_process(project) as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert {"evaluate_kernel", "check_problem", "optimize_start", "optimize_cancel", "show_attempt"} <= set(
                tools
            )
            assert all(tool.description for tool in tools.values())
            resources = {str(item.uri) for item in (await client.list_resources()).resources}
            assert {"triton-agent://docs/verdicts.md", "triton-agent://examples/softmax.py"} <= resources
            read = await client.read_resource("triton-agent://docs/verdicts.md")
            assert "wrong_values" in read.contents[0].text

    asyncio.run(talk())


def test_without_the_extra_the_command_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "triton_agent.runs.mcp.server")
    monkeypatch.setitem(sys.modules, "mcp.server.mcpserver", None)
    options: dict[str, Any] = {"roots": (), "http": None, "out": None, "device": "cpu", "target": "", "policy": ""}
    with pytest.raises(UsageError, match=re.escape("pip install 'triton-agent[mcp]'")):
        command.run(**options, store=None, trust=False, model_options={})


# -- whole conversations -----------------------------------------------------------------------------------------------


@CONFINES
@pytest.mark.ci
@pytest.mark.slow
def test_a_client_gets_from_a_problem_file_to_a_shipped_draft(project: Path) -> None:
    answers: dict[str, str] = {}

    async def talk() -> None:
        async with over_stdio(project) as client:
            ask = calling(client)

            async def call(name: str, **given: Any) -> str:
                answers[name] = await ask(name, **given)
                return answers[name]

            await conversation(call)
            answers["lessons"] = await ask("search_lessons", problem="softmax.py")
            answers["short"] = await ask("show_attempt", attempt="last/best", max_chars=200)

    asyncio.run(talk())
    assert "sound" in answers["check_problem"]
    assert "wrong_values" in answers["evaluate_kernel"] and "expected" in answers["evaluate_kernel"]
    draft = re.search(r"^draft (\S+)$", answers["optimize_result"], re.MULTILINE)
    assert draft and Path(draft[1]).is_relative_to(project)
    assert "class ModelNew" in Path(draft[1]).read_text()
    assert "class ModelNew" in answers["show_attempt"] and "class ModelNew" in answers["lessons"]
    assert len(answers["short"]) == 200


@CONFINES
@pytest.mark.ci
@pytest.mark.slow
def test_a_cancelled_job_ships_its_best_and_one_cancelled_twice_stops_at_once(project: Path) -> None:
    kernels = project / "kernels"
    kernels.mkdir()
    for number in range(12):
        (kernels / f"{number:02}.py").write_text((EXAMPLES / "softmax_online.py").read_text() + f"# {number}\n")
    endless = project / "endless"
    endless.mkdir()
    (endless / "0.py").write_text((EXAMPLES / "softmax_online.py").read_text() + "while True: pass\n")

    async def begun(call: Call) -> str:
        found = re.search(r"optimize-\w+", await call("optimize_start", problem="softmax.py", turns=12, parallel=1))
        assert found
        return found[0]

    async def seen(call: Call, job: str, what: str) -> None:
        while what not in await call("optimize_progress", job=job, wait_s=0.1):
            pass

    async def talk() -> None:
        async with over_stdio(project, "--policy", f"scripted:{kernels}") as client:
            call = calling(client)
            job = await begun(call)
            await seen(call, job, "passed")
            assert "shipping the best so far" in await call("optimize_cancel", job=job)
            assert f"{job}: cancelled" in await call("optimize_progress", job=job, wait_s=120)
            assert "draft" in await call("optimize_result", job=job)
            at_once = await begun(call)
            await call("optimize_cancel", job=at_once)
            assert f"{at_once}: cancelled" in await call("optimize_progress", job=at_once, wait_s=120)
        async with over_stdio(project, "--policy", f"scripted:{endless}") as client:
            call = calling(client)
            job = await begun(call)
            await seen(call, job, "turn 1")
            await call("optimize_cancel", job=job)
            assert "at once" in await call("optimize_cancel", job=job)
            assert f"{job}: cancelled" in await call("optimize_progress", job=job, wait_s=60)

    asyncio.run(talk())
    with Store.open(str(project.parent / "runs.db"), read_only=True) as store:
        cancelled = {run.id for run in store.runs()}
        assert len(cancelled) >= 2


HOSTILE = """
import os, pathlib, signal
try:
    pathlib.Path({marker!r}).write_text("stolen")
except OSError:
    pass
for pid in range(2, os.getpid()):
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError:
        pass
"""


@CONFINES
@pytest.mark.ci
@pytest.mark.slow
def test_a_hostile_kernel_or_problem_harms_neither_files_nor_the_server(project: Path) -> None:
    marker = project / "marker"
    hostile = HOSTILE.format(marker=str(marker))
    (project / "hostile.py").write_text(hostile + (EXAMPLES / "softmax_online.py").read_text())
    (project / "hostile_problem.py").write_text(hostile + PROBLEM)

    async def talk() -> None:
        async with over_stdio(project) as client:
            call = calling(client)
            verdict = await call("evaluate_kernel", problem="softmax.py", kernel="hostile.py")
            assert not verdict.startswith("passed"), verdict
            await client.call_tool("check_problem", {"problem": "hostile_problem.py"}, read_timeout_seconds=400)
            started = await call("optimize_start", problem="hostile_problem.py", turns=1, parallel=1)
            await call("optimize_progress", job=started.rpartition(" ")[2], wait_s=240)
            verdict = await call("evaluate_kernel", problem="softmax.py", kernel="softmax_online.py")
            assert verdict.startswith("passed"), verdict

    asyncio.run(talk())
    assert not marker.exists()


@CONFINES
@pytest.mark.ci
@pytest.mark.slow
def test_two_clients_at_once_get_their_own_answers_and_share_the_jobs(project: Path) -> None:
    async def talk(url: str, token: str) -> None:
        async with over_http(url, token) as one, over_http(url, token) as other:
            right, wrong, started = await asyncio.gather(
                calling(one)("evaluate_kernel", problem="softmax.py", kernel="softmax_online.py"),
                calling(other)("evaluate_kernel", problem="softmax.py", kernel="softmax_half.py"),
                calling(one)("optimize_start", problem="softmax.py", turns=1, parallel=1),
            )
            assert right.startswith("passed") and wrong.startswith("wrong_values")
            job = started.rpartition(" ")[2]
            assert f"{job}: ended" in await calling(other)("optimize_progress", job=job, wait_s=240)

    with http_server(project) as (url, token):
        asyncio.run(talk(url, token))
