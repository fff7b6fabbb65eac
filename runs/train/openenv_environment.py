"""The problems as an OpenEnv environment: a server for trainers on other machines, and its client.

    python -m triton_agent_openenv examples/ --port 8000 --token-file token

    client = KernelClient(f"http://agent:{token}@judges:8000")         # or openenv's GenericEnvClient
    result = await client.reset(problem="softmax")                     # result.observation.messages: the prompt
    result = await client.step(KernelAction(answer=text))              # result.reward, result.observation.verdict

A session is one client's episode. Sessions share the evaluators, and no more than `at_once` answers are judged at the
same time; the others wait. A client beyond the last session is refused. The token is the password of the address, so
send it over TLS or in a network of your own.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import hmac
import random
from collections.abc import Mapping, Sequence
from typing import Any

from openenv.core import EnvClient
from openenv.core.client_types import StepResult
from openenv.core.env_server import Action, Environment, Observation, State, create_fastapi_app
from openenv.core.env_server.types import ConcurrencyConfig, EnvironmentMetadata
from pydantic import Field
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from triton_agent.policy.answer import write_answer
from triton_agent.policy.train.environment import KernelEpisode
from triton_agent.policy.train.prepare.recipes import Recipe
from triton_agent.runs.train.environment import Problems
from triton_agent.tools.versions import installed

VERDICT_WITHIN_S = 900.0
"""Time limit of a client for a verdict, other answers' before it included; the library's own is a minute."""
UNAUTHORIZED = 4401
"""Code for closing a connection without a token, from the range for applications."""


class KernelAction(Action):
    answer: str
    """The whole answer of the model: a plan, and one complete file in a Python block."""


class KernelObservation(Observation):
    problem: str
    messages: list[dict[str, str]]
    """The prompt for the next answer, earlier attempts included; empty after the last turn."""
    verdict: str = ""
    """Feedback on the last answer, for a conversation that shows the answers themselves."""
    status: str = ""
    """Status of the verdict: passed, wrong_values, ..."""
    passed: bool = False
    hack: bool = False


class KernelState(State):
    problem: str = ""
    problems: list[str] = Field(default_factory=list)
    """Names that `reset(problem=...)` accepts."""


class KernelEnvironment(Environment):
    """One session. `reset` begins an episode at a problem, at one drawn by `seed` if none is named."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, problems: Problems, recipe: Recipe, *, turns: int, context_tokens: int) -> None:
        super().__init__()
        self._problems, self._recipe = problems, recipe
        self._turns, self._context_tokens = turns, context_tokens
        self._state = KernelState(problems=list(problems.names))
        self._held = contextlib.AsyncExitStack()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._episode: KernelEpisode | None = None

    async def reset_async(
        self, seed: int | None = None, episode_id: str | None = None, problem: str = "", **_: Any
    ) -> KernelObservation:
        await self._held.aclose()
        self._held, self._loop, self._episode = contextlib.AsyncExitStack(), asyncio.get_running_loop(), None
        name = problem or random.Random(seed).choice(self._problems.names)
        found = await self._held.enter_async_context(self._problems.using(name))
        self._episode = KernelEpisode(
            found, self._recipe, turns=self._turns, context_tokens=self._context_tokens, seed=seed or 0
        )
        self._state = KernelState(episode_id=episode_id, problem=name, problems=list(self._problems.names))
        return KernelObservation(problem=name, messages=self._prompt())

    async def step_async(self, action: KernelAction, timeout_s: float | None = None, **_: Any) -> KernelObservation:
        """Judge an answer. The reward is None if the answer could not be measured: do not train on it."""
        if self._episode is None:
            raise ValueError("reset the environment first")
        async with self._problems.places:
            reply = await asyncio.wait_for(self._episode.answer(action.answer, policy="openenv"), timeout_s)
        self._state.step_count += 1
        evaluation = reply.graded.evaluation
        return KernelObservation(
            problem=self._state.problem,
            messages=[] if reply.over else self._prompt(),
            verdict=self._episode.verdict,
            status=evaluation.status.value if evaluation else "",
            passed=reply.graded.standing.passed,
            hack=reply.hack,
            reward=reply.reward,
            done=reply.over,
            metadata={name: part for name, part in reply.parts.items() if part is not None},
        )

    def reset(self, seed: int | None = None, episode_id: str | None = None, **_: Any) -> KernelObservation:
        raise NotImplementedError("sessions are asynchronous")

    def step(self, action: KernelAction, timeout_s: float | None = None, **_: Any) -> KernelObservation:
        raise NotImplementedError("sessions are asynchronous")

    @property
    def state(self) -> KernelState:
        return self._state

    def get_metadata(self) -> EnvironmentMetadata:
        description = "Write Triton kernels for PyTorch modules; they are compiled, checked and timed."
        return EnvironmentMetadata(name="triton-agent", description=description, version=installed("triton-agent"))

    def close(self) -> None:
        """Release the problem; called in a thread of the session's own."""
        if self._loop is not None and self._loop.is_running():
            asyncio.run_coroutine_threadsafe(self._held.aclose(), self._loop).result()

    def _prompt(self) -> list[dict[str, str]]:
        assert self._episode is not None
        return [{"role": message.role, "content": message.content} for message in self._episode.messages]


def make_app(
    problems: Problems,
    recipe: Recipe,
    *,
    turns: int,
    context_tokens: int,
    sessions: int,
    idle_seconds: float,
    token: str,
) -> ASGIApp:
    """Return the server's application. A session unused for `idle_seconds` is closed."""
    app = create_fastapi_app(
        lambda: KernelEnvironment(problems, recipe, turns=turns, context_tokens=context_tokens),
        KernelAction,
        KernelObservation,
        concurrency_config=ConcurrencyConfig(max_concurrent_envs=sessions, session_timeout=idle_seconds),
    )
    return WithToken(app, token) if token else app


class WithToken:
    """Serves only requests with the token, as a bearer or as the password of the address."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app, self._token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket") and not hmac.compare_digest(_given(scope["headers"]), self._token):
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": UNAUTHORIZED})
                return
            await PlainTextResponse("this server wants a token", 401)(scope, receive, send)
            return
        await self._app(scope, receive, send)


def _given(headers: Sequence[tuple[bytes, bytes]]) -> str:
    """Return the token that was sent; empty without one."""
    kind, _, text = dict(headers).get(b"authorization", b"").decode("latin-1").partition(" ")
    if kind.lower() == "bearer":
        return text if text.isascii() else ""
    try:
        password = base64.b64decode(text, validate=True).decode("ascii").partition(":")[2]
    except (binascii.Error, UnicodeDecodeError):
        return ""
    return password if kind.lower() == "basic" else ""


class KernelClient(EnvClient[KernelAction, KernelObservation, KernelState]):
    """A session with the server; the address holds the token: `http://agent:TOKEN@HOST:PORT`."""

    def _step_payload(self, action: KernelAction) -> dict[str, Any]:
        return {"answer": action.answer}

    def _parse_result(self, payload: Mapping[str, Any]) -> StepResult[KernelObservation]:
        seen = KernelObservation(**payload["observation"])
        return StepResult(observation=seen, reward=payload["reward"], done=payload["done"])

    def _parse_state(self, payload: Mapping[str, Any]) -> KernelState:
        return KernelState(**payload)


class RemoteKernels:
    """An environment for TRL's `GRPOTrainer`, for models that call tools: the server judges the files that they submit.

        environment_factory=functools.partial(RemoteKernels, "http://agent:TOKEN@judges:8000")

    The rows are those of `remote_rows`. The reward is that of the best file. Each environment is a session with the
    server, which therefore needs as many sessions as a batch has rows.
    """

    def __init__(self, address: str, *, verdict_within_s: float = VERDICT_WITHIN_S) -> None:
        self._client = KernelClient(address, message_timeout_s=verdict_within_s)
        self._problem = ""
        self._begun = False
        self._over = False
        self._rewards: list[float] = []

    def reset(self, *, problem: str, **columns: Any) -> str:
        """Begin an episode at a problem, as TRL does for each row; return the text to add to its prompt."""
        self._problem, self._begun, self._over, self._rewards = problem, False, False, []
        return "\n\nSubmit a file by calling `submit`, which tells you the verdict."

    async def submit(self, plan: str, file: str) -> str:
        """
        Have a kernel file judged.

        Args:
            plan: What the file does, and why that is fast.
            file: The complete Python file, with a class ModelNew.

        Returns:
            The verdict with measurements and, if the file failed, the error.
        """
        if self._over:
            return "The episode is over: no more files will be judged."
        return await self._judged(write_answer(plan, file))

    async def get_reward(self) -> float | None:
        """Return the reward of the best file; None if none could be measured."""
        if not self._begun:
            await self._judged("")
        return max(self._rewards, default=None)

    async def _judged(self, answer: str) -> str:
        if not self._begun:
            await self._client.reset(problem=self._problem)  # connects at the first time
            self._begun = True
        result = await self._client.step(KernelAction(answer=answer))
        self._rewards += [] if result.reward is None else [result.reward]
        self._over = result.done
        verdict: str = result.observation.verdict
        return verdict


async def remote_rows(address: str) -> list[dict[str, Any]]:
    """Return a row of a dataset for each problem of a server: its prompt and its name."""
    rows = []
    async with KernelClient(address, message_timeout_s=VERDICT_WITHIN_S) as client:
        await client.reset()
        for name in (await client.state()).problems:
            rows.append({"prompt": (await client.reset(problem=name)).observation.messages, "problem": name})
    return rows
