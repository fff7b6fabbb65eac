"""The problems as an OpenEnv environment: `python -m triton_agent_openenv PROBLEM... [--port 8000]` serves them."""

import argparse
import importlib.util
import secrets
import sys
from pathlib import Path

import uvicorn

if importlib.util.find_spec("openenv") is None:
    sys.exit("OpenEnv is not installed: pip install 'openenv-core==0.3.0', in a virtual environment of its own")

from triton_agent.policy.train.prepare.recipes import recipe_named
from triton_agent.runs.train.environment import Problems
from triton_agent.runs.train.openenv_environment import (
    KernelAction,
    KernelClient,
    KernelObservation,
    RemoteKernels,
    make_app,
    remote_rows,
)
from triton_agent.tools.errors import TritonAgentError

__all__ = ["KernelAction", "KernelClient", "KernelObservation", "RemoteKernels", "make_app", "remote_rows"]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m triton_agent_openenv", description=__doc__)
    parser.add_argument("problems", nargs="+", help="problem files, and folders of them")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen at; default: this machine only")
    parser.add_argument("--port", type=int, default=8000, help="default: 8000")
    parser.add_argument("--token-file", type=Path, metavar="FILE", help="file with the token; without it one is made")
    parser.add_argument("--sessions", type=int, default=64, metavar="N", help="most clients at a time; default: 64")
    parser.add_argument("--idle", type=float, default=900, metavar="S", help="seconds after which an idle session ends")
    parser.add_argument("--at-once", type=int, default=8, metavar="N", help="answers judged at a time; default: 8")
    parser.add_argument("--turns", type=int, default=4, metavar="N", help="answers of an episode; default: 4")
    parser.add_argument("--prompt-tokens", type=int, default=8192, metavar="N", help="most tokens of a prompt")
    parser.add_argument("--recipe", default="default", help="how verdicts become rewards; see docs/training.md")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:N")
    said = parser.parse_args()
    token = said.token_file.read_text().strip() if said.token_file else secrets.token_urlsafe(18)
    try:
        recipe = recipe_named(said.recipe)
        problems = Problems(said.problems, device=said.device, at_once=said.at_once)
    except TritonAgentError as error:
        print(error, file=sys.stderr)
        return 2
    app = make_app(
        problems,
        recipe,
        turns=said.turns,
        context_tokens=said.prompt_tokens,
        sessions=said.sessions,
        idle_seconds=said.idle,
        token=token,
    )
    shown = "TOKEN" if said.token_file else token
    print(f"{len(problems.names)} problems at http://agent:{shown}@{said.host}:{said.port}", flush=True)
    try:
        uvicorn.run(app, host=said.host, port=said.port, log_level="warning", ws_ping_timeout=None)
    finally:
        problems.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
