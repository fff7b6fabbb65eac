"""`triton-agent verify`: judges a shipped file again and prints the result, as lines or as one JSON object."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

from triton_agent.runs.cli import console
from triton_agent.runs.cli.devices import choose_one
from triton_agent.runs.ship.verify import verify
from triton_agent.tools.errors import UsageError
from triton_agent.tools.problem.problem import ProblemSpec, parse_problem
from triton_agent.tools.results import to_json
from triton_agent.tools.versions import require_supported


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class VerifyRequest:
    """The arguments of the command."""

    file: str
    problem: tuple[str | None, str | None, tuple[str, ...], str | None]
    """Target, constructor arguments, inputs, and a file of inputs."""
    device: str
    trust: bool
    store: str | None
    json: bool

    def spec(self) -> ProblemSpec | None:
        """Parse the problem, if one is given."""
        target, init, inputs, inputs_file = self.problem
        if target is not None:
            return parse_problem(target, init=init, inputs=inputs, inputs_file=inputs_file)
        if init is not None or inputs or inputs_file is not None:
            raise UsageError("--init, --input and --inputs go with a problem", remedy="verify FILE PROBLEM ...")
        return None


def run(request: VerifyRequest) -> int:
    """Verify the file; return the exit code."""
    for warning in require_supported():
        console.progress().print(f"warning: {warning}")
    chosen = choose_one(request.device, "a file is measured on one card")
    found = verify(
        Path(request.file),
        request.spec(),
        device=chosen.device,
        card=chosen.uuids[0],
        store=request.store,
        trust=request.trust,
        say=console.progress().print,
    )
    if request.json:
        evaluation = to_json(found.evaluation) if found.evaluation else None
        about = {"file": request.file, "stamped": found.stamped, "message": found.message, "evaluation": evaluation}
        print(json.dumps(about, allow_nan=False))
    else:
        console.results().print(found.message, soft_wrap=True, markup=False)
    return found.code
