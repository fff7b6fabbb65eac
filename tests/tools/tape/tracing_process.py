"""Traces small files in a separate process, since the tracer patches torch permanently.

    python tracing_process.py < requests.json > replies.json

A request has `source`, the `inputs` of a call as an expression (or a `problem`, whose they are), and may have the
constructor's `arguments`, the names of parameters that are `given`, `train`, the numeric `conditions` and the `target`.
Every file is traced in a fork, so none sees another. Tests call `traced`, which decodes the replies.
"""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from triton_agent.tools.kernels.kernel import KernelSet
from triton_agent.tools.tape.tape import Launch, Operate, Tape, decode

ROOT = Path(__file__).parents[3]
TARGET = "cuda:90"
HEADER = """
import torch
import triton
import triton.language as tl
"""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Traced:
    """The result of tracing one file."""

    reply: dict[str, Any]
    """The reply of the tracer."""

    @property
    def tape(self) -> Tape:
        assert "tape" in self.reply, self.reply
        found = decode(self.reply["tape"])
        assert isinstance(found, Tape)
        return found

    @property
    def kernels(self) -> KernelSet:
        return KernelSet.from_json(self.reply["kernels"])

    @property
    def raised(self) -> dict[str, Any]:
        assert self.reply["is"] == "Raised", self.reply
        return self.reply

    @property
    def ending(self) -> str:
        return str(self.raised["ending"])

    def kernel_names(self) -> list[str]:
        """Names of the kernels launched in a call, in order; of several configurations the first."""
        functions = self.kernels.functions
        return [functions[launch.choices[0].kernel].name for launch in self.tape.launches()]

    def outline(self) -> list[str]:
        """The steps of a call: names of operators and kernels, and kinds of other steps."""
        return [self._name(step) for step in self.tape.steps]

    def prologue(self) -> list[str]:
        """The steps of the prologue, in the same form."""
        return [self._name(step) for step in self.tape.prologue]

    def _name(self, step: Any) -> str:
        if isinstance(step, Operate):
            return step.operator
        if isinstance(step, Launch):
            return self.kernels.functions[step.choices[0].kernel].name
        return type(step).__name__


def traced(requests: Mapping[str, dict[str, Any]]) -> dict[str, Traced]:
    """Trace all files in one process. Imports of `torch`, `triton` and `tl` are put in front of each file."""
    from triton_agent.tools.processes.zygote import MODES, QUIET

    environment = {name: value for name, value in os.environ.items() if not name.startswith("TRITON_")}
    environment |= QUIET | MODES["tracer"] | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    asked = [{**request, "source": HEADER + request["source"]} for request in requests.values()]
    done = subprocess.run(
        [sys.executable, __file__],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        env=environment,
        timeout=1800,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    replies = json.loads(done.stdout.splitlines()[-1])
    return {name: Traced(reply=reply) for name, reply in zip(requests, replies, strict=True)}


def main() -> None:
    """Answer every request from a fork of a warm process."""
    from triton_agent.tools.tape import tracer

    tracer.warm_up()
    replies = []
    with tempfile.TemporaryDirectory() as folder:
        for number, request in enumerate(json.load(sys.stdin)):
            answer = Path(folder) / f"{number}.json"
            pid = os.fork()
            if pid == 0:
                _trace(request, answer)
            os.waitpid(pid, 0)
            replies.append(json.loads(answer.read_text()) if answer.exists() else {"died": True})
    print(json.dumps(replies))


def _arguments(request: dict[str, Any]) -> tuple[Any, Any]:
    """Return the arguments of constructor and call; a whole problem gets fake tensors, since real ones may be large."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    if "problem" not in request:
        constructor = eval(request.get("arguments", "()"), {"torch": torch})
        return (constructor, {}), list(eval(request["inputs"], {"torch": torch}))
    from triton_agent.tools.problem.problem import parse_problem
    from triton_agent.tools.reference.reference import load

    reference = load(parse_problem(request["problem"]))
    with FakeTensorMode():
        return reference.init_arguments(), reference.make_inputs(0)


def _trace(request: dict[str, Any], answer: Path) -> None:
    """Trace in a forked child, write the reply, and exit."""
    from triton_agent.tools.compile.targets import TARGETS
    from triton_agent.tools.machine.card_facts import facts_of_target
    from triton_agent.tools.processes.codec import to_plain
    from triton_agent.tools.processes.payloads import pack
    from triton_agent.tools.processes.protocol import Load, Loaded, Trace
    from triton_agent.tools.processes.torch_switches import Conditions
    from triton_agent.tools.tape import tracer
    from triton_agent.tools.tape.outline import outline

    try:
        scratch = answer.with_suffix("")
        scratch.mkdir()
        made = tracer.Tracer(str(scratch), facts_of_target(TARGETS[request.get("target", TARGET)]))
        init, call = map(outline, _arguments(request))
        load = Load(source=request["source"], conditions=Conditions(**request.get("conditions", {})))
        trace = Trace(seed=7, train=request.get("train", False), given=tuple(request.get("given", ())))
        try:
            reply: object = made.handle(load, [])
            if reply == Loaded(has_model=True):
                reply = made.handle(trace, [pack(init), pack(call)])
        except tracer.CandidateRaised as error:
            reply = error.report
        answer.write_text(json.dumps(to_plain(reply)))
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(0)


if __name__ == "__main__":
    main()
