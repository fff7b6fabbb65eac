"""The environment in the library verifiers: its own command evaluates a scripted model, with real verdicts."""

from __future__ import annotations

import http.server
import importlib.util
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PROBLEM = """
import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x):
        return x * 2.0

def get_inputs():
    return [torch.randn(64, 32)]

def get_init_inputs():
    return []
"""
RIGHT = """import torch
import triton
import triton.language as tl


@triton.jit
def double_kernel(x_ptr, out_ptr, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < count)
    tl.store(out_ptr + at, x * 2.0, mask=at < count)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        double_kernel[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), BLOCK=256)
        return out
"""


class Model(http.server.BaseHTTPRequestHandler):
    """Answers the first turn with a wrong kernel, the second with the right one, and keeps the requests."""

    asked: list[list[dict[str, Any]]]

    def do_POST(self) -> None:
        messages = json.loads(self.rfile.read(int(self.headers["content-length"])))["messages"]
        self.asked.append(messages)
        file = RIGHT if any(message["role"] == "assistant" for message in messages) else RIGHT.replace("2.0", "3.0")
        said = {"role": "assistant", "content": f"As told.\n\n```python\n{file}```\n"}
        head = {"id": "0", "object": "chat.completion.chunk", "created": 0, "model": "scripted"}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        chunks = [
            head | {"choices": [{"index": 0, "delta": said, "finish_reason": None}]},
            head | {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": usage},
        ]
        body = "".join(f"data: {text}\n\n" for text in [*map(json.dumps, chunks), "[DONE]"]).encode()
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: Any) -> None:
        """Suppress the log."""


@pytest.fixture
def model() -> Iterator[tuple[str, list[list[dict[str, Any]]]]]:
    handler = type("Asked", (Model,), {"asked": []})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1", handler.asked
        server.shutdown()


@pytest.mark.skipif(importlib.util.find_spec("verifiers") is None, reason="`make test-verifiers` installs verifiers")
def test_its_command_evaluates_a_model_over_two_turns(
    model: tuple[str, list[list[dict[str, Any]]]], tmp_path: Path
) -> None:
    url, asked = model
    (tmp_path / "doubled.py").write_text(PROBLEM)
    given = {
        "--env.taskset.problems": json.dumps([str(tmp_path / "doubled.py")]),
        "--env.turns": "2",
        "--env.device": "cpu",
        "--client.base-url": url,
        "--client.api-key-var": "NO_KEY",
        "-m": "scripted",
        "-r": "3",
        "-o": str(tmp_path / "out"),
    }
    command = [str(Path(sys.executable).with_name("vf-eval")), "triton_agent_verifiers", "--no-push", "--no-rich"]
    paths = os.pathsep.join([str(ROOT / "src"), str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = os.environ | {"PATH": paths, "PYTHONPATH": str(ROOT / "src")}
    options = [part for pair in given.items() for part in pair]
    done = subprocess.run([*command, *options], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    [traces] = (tmp_path / "out").rglob("traces.jsonl")
    episodes = [json.loads(line) for line in traces.read_text().splitlines()]
    scored = [trace for episode in episodes for trace in episode["traces"]]
    assert [trace["errors"] for trace in scored] == [[]] * 3
    assert [trace["metrics"] for trace in scored] == [{"passed": 1.0}] * 3
    assert all(trace["rewards"]["best_file"]["score"] == 1.0 for trace in scored)
    verdicts = [messages[-1]["content"] for messages in asked if len(messages) > 2]
    assert len(verdicts) == 3
    assert all("wrong_values" in str(verdict) for verdict in verdicts)
