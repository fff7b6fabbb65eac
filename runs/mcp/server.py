"""Declares the tools and resources with the SDK, and serves them over stdio or streamable HTTP.

A tool's docstring is what a coding agent reads. Tools return text; an anticipated error is a `ToolError` with its
message. HTTP listens on 127.0.0.1 only and wants a token, since other users of the machine can connect as well.
"""

from __future__ import annotations

import contextlib
import hmac
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any

import anyio
import anyio.to_thread
import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from mcp_types import ToolAnnotations
from pydantic import Field
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from triton_agent import __version__
from triton_agent.runs.mcp.service import AskedProblem, OnOpen, Service
from triton_agent.runs.mcp.texts import cut, in_parameters
from triton_agent.tools.errors import TritonAgentError

ADDRESS = "127.0.0.1"
EVALUATIONS_AT_ONCE = 4
LONGEST_WAIT_S = 300
REPOSITORY = Path(__file__).resolve().parents[2]
"""Folder that holds `docs` and `examples`: the checkout, or the installed package."""

INSTRUCTIONS = """\
triton-agent judges Triton kernels and writes them. A problem is a PyTorch file with Model, get_inputs and
get_init_inputs, or file.py:ClassName with inputs. A kernel is a file with class ModelNew(nn.Module) whose work is done
by its own @triton.jit kernels. Begin with check_problem, judge with evaluate_kernel, or let optimize_start write one.
Without a GPU verdicts are about correctness, and speed is not measured."""

Problem = Annotated[str, Field(description="file.py with Model and get_inputs, or file.py:ClassName with inputs")]
Init = Annotated[str | None, Field(description='constructor arguments of a named class, as in "512, bias=False"')]
Inputs = Annotated[list[str] | None, Field(description='one text for each argument: "f16[8,128,1024]", "i64[8]<1000"')]
Sets = Annotated[list[str] | None, Field(description='several calls: "f32[1,8]", "long=f32[64,8]; i64[64]<50 @3"')]
MaxChars = Annotated[int, Field(ge=200, le=200_000, description="maximum length of the answer; the rest is cut")]
Work = Callable[[OnOpen], str]
Answering = Callable[..., Awaitable[str]]


def make_server(service: Service) -> MCPServer[Any]:
    """Declare tools and resources."""
    tools: list[Tool] = []
    limiter = anyio.CapacityLimiter(EVALUATIONS_AT_ONCE)
    reads = ToolAnnotations(read_only_hint=True)

    def tool(hints: ToolAnnotations | None = None) -> Callable[[Answering], Answering]:
        """Declare a tool. A parameter that it does not have is refused; the SDK would drop it without a word."""

        def declared(answering: Answering) -> Answering:
            made = Tool.from_function(answering, annotations=hints, structured_output=False)
            given = made.fn_metadata.arg_model
            given.model_config["extra"] = "forbid"
            given.model_rebuild(force=True)
            made.parameters["additionalProperties"] = False
            tools.append(made)
            return answering

        return declared

    async def answered(work: Work, max_chars: int, *, judges: bool = False, end: bool = False) -> str:
        """Run the work in a thread; cancelling the request ends its processes. Few threads judge at the same time."""
        with contextlib.ExitStack() as opened:
            try:
                text = await anyio.to_thread.run_sync(
                    work,
                    opened.callback,
                    abandon_on_cancel=True,
                    limiter=limiter if judges else None,
                )
            except TritonAgentError as error:
                raise ToolError(in_parameters(str(error))) from None
        return cut(text, max_chars, end=end)

    @tool(reads)
    async def evaluate_kernel(
        problem: Problem,
        kernel: Annotated[str, Field(description="path of the kernel file, or its text")],
        init: Init = None,
        inputs: Inputs = None,
        sets: Sets = None,
        allow_library: bool = False,
        profile: bool = False,
        max_chars: MaxChars = 6000,
    ) -> str:
        """Judge a kernel: is it right at many sizes and inputs, is the work its own and, on a GPU, how fast is it?

        The answer names status, finding and likely cause, then cases, registers, spills and timings. `allow_library`
        allows torch, cuBLAS and cuDNN beside an own kernel. `profile` shows where device time goes, on a GPU.
        """
        asked = AskedProblem(problem=problem, init=init, inputs=inputs or (), sets=sets or ())

        def work(on_open: OnOpen) -> str:
            return service.evaluate(asked, kernel, on_open, allow_library=allow_library, profile=profile)

        return await answered(work, max_chars, judges=True)

    @tool(reads)
    async def check_problem(
        problem: Problem, init: Init = None, inputs: Inputs = None, sets: Sets = None, max_chars: MaxChars = 4000
    ) -> str:
        """Check whether a problem refuses wrong answers, and name those it accepts."""
        asked = AskedProblem(problem=problem, init=init, inputs=inputs or (), sets=sets or ())
        return await answered(lambda _: service.check(asked), max_chars, judges=True)

    @tool(reads)
    async def search_lessons(
        problem: Problem, init: Init = None, inputs: Inputs = None, sets: Sets = None, max_chars: MaxChars = 8000
    ) -> str:
        """Recall what earlier runs teach about a problem: fast kernels, techniques that paid off, frequent failures."""
        asked = AskedProblem(problem=problem, init=init, inputs=inputs or (), sets=sets or ())
        return await answered(lambda on_open: service.lessons(asked, on_open), max_chars, judges=True)

    @tool(reads)
    async def show_attempt(
        attempt: Annotated[str, Field(description="RUN/TURN.ANSWER or RUN/best; RUN may be `last`")],
        max_chars: MaxChars = 8000,
    ) -> str:
        """Show an attempt of an earlier run: verdict, plan and code."""
        return await answered(lambda _: service.attempt(attempt), max_chars)

    @tool()
    async def optimize_start(
        problem: Problem,
        init: Init = None,
        inputs: Inputs = None,
        sets: Sets = None,
        turns: int = 12,
        parallel: int = 4,
        budget_s: Annotated[float | None, Field(gt=0, description="time limit in seconds")] = None,
        own_kernels: Annotated[bool, Field(description="forbid library calls beside own kernels")] = False,
        seed: int = 0,
    ) -> str:
        """Begin to write, judge and improve kernels for a problem in the background. Returns the id of the job."""
        asked = AskedProblem(problem=problem, init=init, inputs=inputs or (), sets=sets or ())
        search = {"turns": turns, "parallel": parallel, "seconds": budget_s, "own_kernels": own_kernels, "seed": seed}
        return await answered(lambda _: service.start(asked, **search), 1000)

    @tool(reads)
    async def optimize_progress(
        job: str,
        wait_s: Annotated[
            float, Field(ge=0, le=LONGEST_WAIT_S, description="wait up to this long for the job to end")
        ] = 0,
        max_chars: MaxChars = 2000,
    ) -> str:
        """Show the state of a job, and the newest lines of what it has done."""

        def work(_: OnOpen) -> str:
            found = service.job(job)
            found.done.wait(wait_s)
            run = f", run {found.screen.run}" if found.screen.run else ""
            return "\n".join([*found.screen.lines, f"{found.id}: {found.state}{run}"])

        return await answered(work, max_chars, end=True)

    @tool(reads)
    async def optimize_result(job: str, max_chars: MaxChars = 8000) -> str:
        """Show how a job ended, the path of the shipped file, and its text."""

        def work(_: OnOpen) -> str:
            found = service.job(job)
            if not found.done.is_set():
                return f"{found.id} is still running; see optimize_progress"
            text = found.file.read_text(encoding="utf-8") if found.file else ""
            return "\n\n".join(filter(None, (f"{found.id}: {found.state}", found.outcome, text)))

        return await answered(work, max_chars)

    @tool()
    async def optimize_cancel(job: str) -> str:
        """End a job after the evaluations under way and ship the best so far; called again, end it at once."""
        return await answered(lambda _: service.job(job).cancel(), 1000)

    server: MCPServer[Any] = MCPServer(
        "triton-agent", instructions=INSTRUCTIONS, version=__version__, log_level="WARNING", tools=tools
    )
    for path in [REPOSITORY / "docs" / "verdicts.md", *sorted((REPOSITORY / "examples").glob("*.py"))]:
        if path.is_file():
            name = path.relative_to(REPOSITORY).as_posix()
            kind = "text/markdown" if path.suffix == ".md" else "text/x-python"
            server.resource(f"triton-agent://{name}", name=name, mime_type=kind)(_reading(path))
    return server


def _reading(path: Path) -> Callable[[], str]:
    def read() -> str:
        return path.read_text(encoding="utf-8")

    return read


def serve_http(server: MCPServer[Any], port: int, token: str, on_ready: Callable[[str], None]) -> None:
    """Serve until interrupted. `on_ready` is called with the address; port 0 takes a free port."""

    class Announced(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            if self.started:
                bound = self.servers[0].sockets[0].getsockname()[1]
                on_ready(f"http://{ADDRESS}:{bound}/mcp")

    app = wants_token(server.streamable_http_app(host=ADDRESS), token)
    Announced(uvicorn.Config(app, host=ADDRESS, port=port, log_level="warning")).run()


def wants_token(app: ASGIApp, token: str) -> ASGIApp:
    """Refuse requests without `Authorization: Bearer TOKEN`."""

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            given = dict(scope["headers"]).get(b"authorization", b"")
            if not hmac.compare_digest(given, f"Bearer {token}".encode()):
                refusal: Callable[..., Awaitable[None]] = PlainTextResponse("the token is missing or wrong", 401)
                return await refusal(scope, receive, send)
        return await app(scope, receive, send)

    return guarded
