"""Shared parts of the tests of engines: interpreters, a model to serve, a real server, and recomputed
log-probabilities.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import itertools
import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import pytest

from triton_agent.policy.llm.engines.interpreters import VARIABLE

SCRIPT = Path(__file__).with_name("served_model.py")
FLOAT32, BFLOAT16 = 1e-4, 1e-2
"""Largest difference between a stored log-probability and a recomputed one."""
SERVER_STARTS_WITHIN_S = 400.0


def vllm_python() -> str:
    """Return an interpreter that has vLLM; skip the test if there is none."""
    if named := os.environ.get(VARIABLE):
        return named
    if importlib.util.find_spec("vllm"):
        return sys.executable
    pytest.skip(f"no vLLM here, and {VARIABLE} is not set (`make test-vllm` sets one up)")


def transformers_python() -> str:
    """Return an interpreter that has transformers. Every interpreter with vLLM has it."""
    if importlib.util.find_spec("transformers"):
        return sys.executable
    return vllm_python()


def require_transformers() -> None:
    if importlib.util.find_spec("transformers") is None:
        pytest.skip("transformers is not installed here (the extra `train`)")
    import torch

    # several threads on two busy cores wait for each other at every step and are ten times slower
    torch.set_num_threads(1)


def run_script(*arguments: str | Path, given: Any = None) -> str:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TRANSFORMERS_VERBOSITY": "error"}
    done = subprocess.run(
        [transformers_python(), str(SCRIPT), *map(str, arguments)],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


class Drawn(Protocol):
    """An answer with its tokens: a completion or a sample."""

    @property
    def text(self) -> str: ...
    @property
    def prompt_ids(self) -> tuple[int, ...] | None: ...
    @property
    def token_ids(self) -> tuple[int, ...] | None: ...
    @property
    def log_probabilities(self) -> tuple[float, ...] | None: ...


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Opinion:
    """Text and log-probabilities of an answer, recomputed by transformers."""

    text: str
    log_probabilities: tuple[float, ...]
    leads: tuple[float, ...]
    """At each step, the difference in log-probability between the most and the second most likely token."""


def second_opinion(
    model: Path, answers: Sequence[Drawn], *, temperature: float, dtype: str = "float32", adapter: Path | None = None
) -> list[Opinion]:
    asked = [{"prompt_ids": one.prompt_ids, "token_ids": one.token_ids, "temperature": temperature} for one in answers]
    given = {"model": str(model), "dtype": dtype, "answers": asked, "adapter": str(adapter) if adapter else None}
    return [
        Opinion(text=one["text"], log_probabilities=tuple(one["log_probabilities"]), leads=tuple(one["leads"]))
        for one in json.loads(run_script("recompute", given=given))
    ]


def assert_exact(
    model: Path,
    answers: Sequence[Drawn],
    *,
    temperature: float,
    within: float = FLOAT32,
    dtype: str = "float32",
    adapter: Path | None = None,
) -> None:
    """Check that the tokens decode to the text and that their log-probabilities are those of the model.

    An answer that was cut off and asked again holds the whole conversation, of which the text is the end.
    """
    assert answers
    opinions = second_opinion(model, answers, temperature=temperature, dtype=dtype, adapter=adapter)
    for answer, opinion in zip(answers, opinions, strict=True):
        assert answer.token_ids and answer.log_probabilities
        mask = getattr(answer, "mask", None) or (True,) * len(answer.token_ids)
        assert opinion.text.endswith(answer.text) if False in mask else opinion.text == answer.text
        own, told = (list(itertools.compress(one.log_probabilities, mask)) for one in (answer, opinion))
        assert own == pytest.approx(told, abs=within)


@contextlib.contextmanager
def vllm_server(model: Path, log: Path, *options: str) -> Iterator[str]:
    """Run a real OpenAI server of vLLM; yield its base URL."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [vllm_python(), "-m", "vllm.entrypoints.openai.api_server", "--model", str(model), "--port", str(port)]
    command += ["--host", "127.0.0.1", "--served-model-name", "served", "--dtype", "float32", "--enforce-eager"]
    command += ["--logprobs-mode", "processed_logprobs", "--no-enable-chunked-prefill", *options]
    quiet = {"VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE": "1"}
    with log.open("w") as said:
        server = subprocess.Popen(
            command, stdout=said, stderr=said, env={**os.environ, **quiet}, start_new_session=True
        )
        try:
            _wait_until_healthy(f"http://127.0.0.1:{port}/health", server, log)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(server.pid, 15)
            with contextlib.suppress(subprocess.TimeoutExpired):
                server.wait(timeout=30)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(server.pid, 9)


def _wait_until_healthy(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + SERVER_STARTS_WITHIN_S
    while time.monotonic() < deadline:
        assert server.poll() is None, log.read_text()[-3000:]
        with contextlib.suppress(urllib.error.URLError, ConnectionError), urllib.request.urlopen(url, timeout=5):
            return
        time.sleep(0.5)
    raise AssertionError(f"the server did not start: {log.read_text()[-3000:]}")
