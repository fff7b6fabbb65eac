"""The checker: a trusted process that holds one problem's reference, inputs, truth and the decision.

It is forked from the zygote before any candidate exists. The driver sends `prepare` once, then `judge` with the sockets
of fresh workers; jobs run in threads, since most of a job is waiting for its workers. Nothing a candidate sends is ever
unpickled or executed here.
"""

from __future__ import annotations

import contextlib
import platform
import threading
import time
import traceback
from collections.abc import Iterator
from typing import Any

import torch

from triton_agent.tools.ceilings import ceilings
from triton_agent.tools.errors import InstrumentError, TritonAgentError
from triton_agent.tools.hardware import uuid_of
from triton_agent.tools.isolate.wire import Channel, ChannelClosed, error_to_json
from triton_agent.tools.problem import ProblemSpec
from triton_agent.tools.results import to_json
from triton_agent.tools.timing.lease import Mode, lease
from triton_agent.tools.verify.expectation import unpack_trusted
from triton_agent.tools.verify.input_tensors import map_tensors
from triton_agent.tools.verify.pipeline import Job, JudgeSettings, run
from triton_agent.tools.verify.plan import Plan, PlanSettings
from triton_agent.tools.verify.prepare import prepare_plan
from triton_agent.tools.verify.reference import load
from triton_agent.tools.verify.session import Session
from triton_agent.tools.verify.speed import Racetrack, SpeedSettings, precision_mode
from triton_agent.tools.verify.worth import assay


def main(channel: Channel, settings: dict[str, Any]) -> None:
    """Serve the driver until it hangs up."""
    torch.set_num_threads(1)
    checker = Checker(channel, settings)
    while True:
        message, _, fds = channel.receive_with_fds()
        if message["op"] == "prepare":
            checker.reply(checker.prepare())
        elif message["op"] == "judge":
            threading.Thread(target=checker.judge, args=(message, fds), daemon=True).start()
        elif message["op"] == "assay":
            checker.reply(checker.assay())
        else:
            raise InstrumentError(f"the checker does not know {message['op']!r}")


RECORDED = ("accuracy", "resources", "launches", "torch_operators", "evidence", "notes", "stages", "timings")
"""What a job learned, beside its verdict."""


class Checker:
    """One problem, many candidates."""

    def __init__(self, channel: Channel, settings: dict[str, Any]) -> None:
        self.channel = channel
        self.spec = ProblemSpec.from_json(settings["spec"])
        self.judging = JudgeSettings(**settings["judge"])
        self.planning = PlanSettings(**{**settings["plan"], "modes": tuple(settings["plan"]["modes"])})
        self.plan: Plan | None = None
        self.racetrack: Racetrack | None = None
        self.gpu_key = ""
        self._sending = threading.Lock()

    def reply(self, message: dict[str, Any]) -> None:
        with self._sending:
            self.channel.send(message)

    def prepare(self) -> dict[str, Any]:
        """Load the problem, make the plan; answer with the facts people want to see."""
        try:
            if self.planning.device == "cuda":
                self.gpu_key = uuid_of(0)
            with self._gpu(Mode.SHARED):
                self.plan = prepare_plan(self.spec, self.planning)
            if self.planning.device == "cuda" and self.plan.timing_sets:
                with self._gpu(Mode.EXCLUSIVE):
                    self.racetrack = self._make_racetrack(self.plan)
        except TritonAgentError as error:
            return {"error": error_to_json(error)}
        except BaseException:
            return {"bug": traceback.format_exc()}
        return {
            "facts": {
                **to_json(self.plan.facts),
                "torch": torch.__version__,
                "python": platform.python_version(),
                "device": _device_name(self.planning.device),
            }
        }

    def assay(self) -> dict[str, Any]:
        """Try to pass the problem with wrong answers; progress goes out meanwhile."""
        try:
            report = assay(self.spec, on_progress=lambda tried, total: self.reply({"tried": tried, "attempts": total}))
        except TritonAgentError as error:
            return {"error": error_to_json(error)}
        except BaseException:
            return {"bug": traceback.format_exc()}
        return {"report": report.to_json()}

    @contextlib.contextmanager
    def _gpu(self, mode: Mode) -> Iterator[None]:
        """The lease of the GPU this problem is checked on; nothing to hold on a CPU."""
        if not self.gpu_key:
            yield
            return
        with lease(self.gpu_key, what=f"triton-agent: {self.spec.name}", mode=mode):
            yield

    def _make_racetrack(self, plan: Plan) -> Racetrack:
        """The clock, and the original as the first opponent."""
        trial = plan.trials[plan.main]
        reference = load(self.spec)
        original = reference.make_model(trial.build_seed).to("cuda").train(trial.cases[0].train)
        state = unpack_trusted(trial.states[0])
        with torch.no_grad():
            for name, value in {**dict(original.named_parameters()), **dict(original.named_buffers())}.items():
                value.copy_(state[name])
        floor = plan.facts["floor_bytes_main"] / ceilings("cuda").copy_bytes_per_s * 1e3
        track = Racetrack(SpeedSettings(), floor)
        sets = [[_to_gpu(value) for value in unpack_trusted(packed)] for packed in plan.timing_sets]
        track.add(f"eager ({precision_mode()})", original, sets)
        return track

    def judge(self, message: dict[str, Any], fds: list[int]) -> None:
        """One candidate, start to verdict; whatever happens, one answer goes back."""
        job_id = message["job"]
        sessions = [
            Session(
                Channel.from_fd(fd),
                call_timeout_s=self.judging.call_timeout_s,
                deadline=time.monotonic() + self.judging.total_timeout_s,
            )
            for fd in fds
        ]
        try:
            answer = self._verdict(message, sessions)
        except TritonAgentError as error:
            answer = {"error": error_to_json(error)}
        except BaseException:
            answer = {"bug": traceback.format_exc()}
        finally:
            for session in sessions:
                session.channel.close()
        with contextlib.suppress(ChannelClosed):  # the driver is gone, and with it whoever wanted to know
            self.reply({"job": job_id, **answer})

    def _verdict(self, message: dict[str, Any], sessions: list[Session]) -> dict[str, Any]:
        assert self.plan is not None
        job = Job(
            source=message["source"],
            plan=self.plan,
            settings=self.judging,
            runner=sessions[0],
            compiler=sessions[1] if len(sessions) > 1 else None,
            gpu=self._gpu,
            racetrack=self.racetrack,
            on_stage=lambda stage: self.reply({"job": message["job"], "stage": stage}),
        )
        run(job)
        failure = job.failure
        record = {name: to_json(getattr(job, name)) for name in RECORDED}
        return {
            "verdict": {
                **record,
                "finding": failure.finding.value if failure else None,
                "message": failure.message if failure else "",
                "worker_died": bool(failure and failure.worker_died),
                "layers": list(job.runner.layers),
            }
        }


def _device_name(device: str) -> str:
    return torch.cuda.get_device_name(0) if device == "cuda" else "cpu"


def _to_gpu(value: Any) -> Any:
    return map_tensors(value, lambda tensor: tensor.to("cuda"))
