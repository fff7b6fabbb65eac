"""`triton-agent mcp`: starts the server over stdin and stdout, or over HTTP."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from triton_agent.runs.cli import console, exit_codes
from triton_agent.runs.cli.devices import choose_one
from triton_agent.runs.mcp.roots import Roots
from triton_agent.tools.compile.targets import parse_target
from triton_agent.tools.errors import UsageError
from triton_agent.tools.versions import require_supported

TOKEN = "TRITON_AGENT_MCP_TOKEN"
"""Environment variable with the token for HTTP; without it each start makes a new one."""


def run(
    *,
    roots: Sequence[str],
    http: int | None,
    out: str | None,
    device: str,
    target: str,
    policy: str,
    store: str | None,
    trust: bool,
    model_options: Mapping[str, Any],
) -> int:
    """Serve until the client leaves or Ctrl-C."""
    try:
        from triton_agent.runs.mcp.server import make_server, serve_http
    except ImportError as error:
        raise UsageError(
            f"the server needs more packages ({error})", remedy="pip install 'triton-agent[mcp]'"
        ) from None
    from triton_agent.runs.jobs import Jobs
    from triton_agent.runs.mcp.jobs import OptimizeJob
    from triton_agent.runs.mcp.service import Service, ServiceSettings

    screen = console.progress()
    for warning in require_supported():
        screen.print(f"warning: {warning}")
    parse_target(target)
    choose_one(device, "kernels are compared on one card")
    allowed = Roots(roots)
    settings = ServiceSettings(
        roots=allowed,
        out=Path(out).absolute() if out else allowed.folders[0],
        store=store,
        device=device,
        target=target,
        policy=policy,
        trust=trust,
        model_options=model_options,
    )
    with Jobs[OptimizeJob]() as jobs:
        server = make_server(Service(settings, jobs))
        if http is None:
            server.run("stdio")
        else:
            token = os.environ.get(TOKEN) or secrets.token_urlsafe(24)
            serve_http(
                server,
                http,
                token,
                lambda url: screen.print(f"{url}\nAuthorization: Bearer {token}", markup=False, soft_wrap=True),
            )
    return exit_codes.GOOD
