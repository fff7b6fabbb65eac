"""Writes `docs/agents.md`: how coding agents use triton-agent, with a real conversation.

python docs/make_agents.py            hold the conversation with the SDK's client on the interpreter (a minute), write
python docs/make_agents.py --check    exit 1 if the page differs from what would be written, conversation apart
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

PAGE = Path(__file__).with_name("agents.md")
ROOT = Path(__file__).resolve().parent.parent
SHOWN = 1500
"""Characters of an answer on the page; the conversation requests this many."""

HEAD = """\
# Coding agents

<!-- Written by docs/make_agents.py. Change it there. -->

`triton-agent mcp` serves coding agents over the Model Context Protocol. It needs `pip install 'triton-agent[mcp]'`.

| tool | does |
|---|---|
| `check_problem` | tries wrong answers on a problem and names those that it accepts |
| `evaluate_kernel` | judges a kernel file or its text: status, finding, likely cause, resources, timings |
| `optimize_start`, `optimize_progress`, `optimize_result`, `optimize_cancel` | writes kernels in the background |
| `search_lessons` | returns what earlier runs in the store teach about a problem |
| `show_attempt` | shows the verdict, plan and code of an attempt |

[Verdicts](verdicts.md) and the examples are resources (`triton-agent://docs/verdicts.md`,
`triton-agent://examples/softmax.py`). Answers are text of at most `max_chars` characters and say so if they were cut.

## Adding it

The path of `triton-agent` has to be absolute if it is in a virtual environment that the agent does not use.

Claude Code:

```
claude mcp add triton-agent -- triton-agent mcp --root /path/to/project
```

Codex, in `~/.codex/config.toml`:

```toml
[mcp_servers.triton-agent]
command = "triton-agent"
args = ["mcp", "--root", "/path/to/project"]
tool_timeout_sec = 600
```

Cursor (`.cursor/mcp.json`), Gemini CLI (`.gemini/settings.json`) and Claude Desktop:

```json
{
  "mcpServers": {
    "triton-agent": {"command": "triton-agent", "args": ["mcp", "--root", "/path/to/project"]}
  }
}
```

VS Code (`.vscode/mcp.json`) has `servers` in place of `mcpServers`. If the client has a time limit for tools, raise
it to some minutes: a verdict on a large problem takes as long as with the command.

Over HTTP, for agents in containers or several at once: `triton-agent mcp --http 8765` prints the address and a token,
which a client sends as the header `Authorization: Bearer TOKEN`. `TRITON_AGENT_MCP_TOKEN` sets the token; without it
every start makes a new one. The server listens on 127.0.0.1 only. All clients share jobs and store.

## What a client can do

- It can name files in the folders given by `--root` (default: the current folder) only, with links resolved.
- Kernels run in the evaluator's sandbox, as always. Unlike in the commands, problem files run in the sandbox as well;
  if the machine lacks a layer of the sandbox, calls fail and name it. `--trust` runs problem files with your rights.
- Optimizations write into a folder of their own below `--out` (default: the first root).
- The person who starts the server chooses device, policy and store. At most two optimizations and four verdicts run at
  once. All end with the server; an interrupted run stays in the store, for `triton-agent optimize --resume`.

"""
CONVERSATION = "## A conversation\n"

PROBLEM = """\
import torch
import torch.nn as nn

ROWS, COLUMNS = 64, 96


class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=-1)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]
"""

Call = Callable[..., Any]


async def conversation(call: Call) -> None:
    """Go from a problem file to a shipped draft."""
    await call("check_problem", problem="softmax.py")
    await call("evaluate_kernel", problem="softmax.py", kernel="softmax_half.py")
    started = await call("optimize_start", problem="softmax.py", turns=1, parallel=1)
    job = re.search(r"optimize-\w+", started)
    assert job, started
    await call("optimize_progress", job=job[0], wait_s=240)
    await call("optimize_result", job=job[0])
    await call("show_attempt", attempt="last/best")


async def _held(folder: Path) -> str:
    from mcp import Client, StdioServerParameters

    shutil.copy(ROOT / "examples" / "softmax_half.py", folder)
    (folder / "softmax.py").write_text(PROBLEM)
    store = ["--store", str(folder / "runs.db")]
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "triton_agent", "mcp", "--root", str(folder), "--device", "cpu", *store],
        env=dict(os.environ),
    )
    told = [f"`softmax.py` in the served folder, next to `examples/softmax_half.py`:\n\n```python\n{PROBLEM}```\n"]
    async with Client(server) as client:

        async def call(name: str, **arguments: Any) -> str:
            asked = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
            if name in ("check_problem", "evaluate_kernel", "optimize_progress", "optimize_result", "show_attempt"):
                arguments["max_chars"] = SHOWN
            answer = await client.call_tool(name, arguments, read_timeout_seconds=300)
            text = "\n".join(block.text for block in answer.content).replace(str(folder), "/path/to/project")
            told.append(f"**{name}**({asked})\n\n```\n{text}\n```\n")
            return text

        await conversation(call)
    return "\n".join(told)


def main() -> int:
    if "--check" in sys.argv:
        found = PAGE.read_text(encoding="utf-8").partition(CONVERSATION)
        return 0 if found[0] == HEAD and "_optimized.py" in found[2] else 1
    with tempfile.TemporaryDirectory() as folder:
        text = asyncio.run(_held(Path(folder).resolve()))
    PAGE.write_text(f"{HEAD}{CONVERSATION}\n{text}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
