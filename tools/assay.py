"""The driver's side of an assay: a checker of its own for one problem, and its report. Needs no torch.

The problem's code runs in that checker only. No candidate is involved, so nothing is confined but, on request, the
problem itself.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from triton_agent.tools.distrust import cell_for, require_layers
from triton_agent.tools.errors import InstrumentError, WorkerLost
from triton_agent.tools.isolate.processes import Nursery
from triton_agent.tools.isolate.wire import Channel, ChannelClosed, ChannelTimeout, error_from_json
from triton_agent.tools.problem import ProblemSpec
from triton_agent.tools.results import to_json
from triton_agent.tools.worth import WorthReport

SILENCE_S = 300.0
"""The longest wait for a sign of life; loading a problem and running its original are the longest silent steps."""

OnProgress = Callable[[int, int], None]
"""Attempts made, attempts in all."""


def assay(
    spec: ProblemSpec,
    *,
    on_progress: OnProgress | None = None,
    nursery: Nursery | None = None,
    trust: bool = True,
) -> WorthReport:
    """Try to pass the problem with wrong answers. Raises `ProblemError` where it cannot serve at all.

    Give a `nursery` to share its processes with others; it stays open. A problem without `trust` runs confined.
    """
    with contextlib.ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="triton-agent-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        if nursery is None:
            nursery = stack.enter_context(Nursery(str(folder / "zygote.log")))
        channel, theirs = Channel.pair()
        stack.callback(channel.close)
        settings = {"spec": spec.to_json(), "judge": {}, "plan": {"modes": ["eval", "train"]}}
        if not trust:
            require_layers()
            settings["confinement"] = to_json(cell_for(spec, folder / "checker", gpu=False))
        child = nursery.base.fork("checker", theirs, settings)
        stack.callback(child.reap)
        try:
            channel.send({"op": "assay"})
            return _await_report(channel, on_progress)
        except ChannelTimeout as error:
            raise InstrumentError(
                f"the original did not finish within {SILENCE_S:.0f} s", remedy="make the problem smaller"
            ) from error
        except ChannelClosed as error:
            raise WorkerLost(f"the checker died while it tried the problem:\n{nursery.log_tail()}") from error


def _await_report(channel: Channel, on_progress: OnProgress | None) -> WorthReport:
    while True:
        message, _ = channel.receive(SILENCE_S)
        if "error" in message:
            raise error_from_json(message["error"])
        if "bug" in message:
            raise RuntimeError(f"a bug of ours in the checker:\n{message['bug']}")
        if "report" in message:
            return WorthReport.from_json(message["report"])
        if on_progress is not None:
            on_progress(int(message["tried"]), int(message["attempts"]))
