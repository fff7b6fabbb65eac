"""What originals take as written, in TF32, and by `torch.compile`: measured on this machine, with no kernel beside.

Compiling takes most of the time and needs no quiet GPU, so what is due is compiled side by side, into the user's cache,
where the evaluator finds it as well; then each problem has the GPU to itself. What was measured is kept in the user's
cache folder, by problem, card, driver and versions: another run, or another policy, has it at once. What could
not be measured is not kept.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import platformdirs

from triton_agent.memory.encoding import from_plain
from triton_agent.runs.bench.problems import Task
from triton_agent.runs.bench.rows import BaselineTime
from triton_agent.tools.errors import InstrumentError, UsageError
from triton_agent.tools.hardware import gpus
from triton_agent.tools.isolate.processes import KEPT, KEPT_PREFIXES
from triton_agent.tools.problem import ProblemSpec
from triton_agent.tools.results import to_json
from triton_agent.tools.timing.vigil import ZYGOTE
from triton_agent.tools.versions import installed, project_version

METHOD = 1
"""Of measuring; raised whenever earlier figures would come out otherwise."""
PROCESS = "triton_agent.runs.bench.baseline_process"
"""Called with the zygote's name: its children ask for the GPU's lease, too, which is what that name tells a watcher."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Baselines:
    """Of one problem."""

    times: tuple[BaselineTime, ...]
    notes: tuple[str, ...] = ()
    """A baseline that could not be had, and why."""
    failure: str = ""
    """Why nothing was measured."""
    measured_at: str = ""
    """Date and time, UTC."""
    commit: str = ""
    """Of this project."""


def no_baselines(spec: ProblemSpec) -> Baselines:
    """Without a GPU there is nothing to know."""
    return Baselines(times=())


def prepared_baselines(
    tasks: Sequence[Task], workspace: Path, say: Callable[[str], None]
) -> Callable[[ProblemSpec], Baselines]:
    """A look-up, once what is missing has been measured. A problem that cannot be read shows itself later."""
    specs = []
    for task in tasks:
        try:
            specs.append(task.spec(workspace))
        except UsageError:
            continue
    found = measured(specs, say)
    return lambda spec: found.get(spec.digest, no_baselines(spec))


def measured(
    specs: Sequence[ProblemSpec],
    say: Callable[[str], None],
    *,
    again: bool = False,
    on_each: Callable[[Mapping[str, Baselines]], None] = lambda found: None,
) -> dict[str, Baselines]:
    """The baselines of all problems by digest; from the cache where they are known, unless it is to be done again.

    `on_each` is shown what there is after every problem.
    """
    cards = gpus()
    if not cards:
        raise UsageError("baselines need a GPU, and none was found", remedy="see `triton-agent doctor`")
    place = " ".join(map(str, (cards[0].uuid, cards[0].driver, installed("torch"), installed("triton"), METHOD)))
    known = {} if again else {spec.digest: _known(spec, place) for spec in specs}
    found = {digest: result for digest, result in known.items() if result is not None}
    due = [spec for spec in specs if spec.digest not in found]
    if due:
        say(f"baselines of {len(due)} problems: compiling them side by side, then measuring one by one")
    code = project_version()
    for spec, bare in _measure(due, say):
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        found[spec.digest] = result = dataclasses.replace(bare, measured_at=now, commit=code)
        if not result.failure:
            _keep(spec, place, result)
        on_each(found)
    return found


def _file(spec: ProblemSpec, place: str) -> Path:
    key = hashlib.sha256(f"{spec.digest} {place}".encode()).hexdigest()
    return Path(platformdirs.user_cache_dir("triton-agent")) / "baselines" / f"{key}.json"


def _known(spec: ProblemSpec, place: str) -> Baselines | None:
    try:
        data = json.loads(_file(spec, place).read_text(encoding="utf-8"))
        return from_plain(Baselines, data)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def _keep(spec: ProblemSpec, place: str, result: Baselines) -> None:
    """Whole or not at all; a cache that cannot be written to is none."""
    path = _file(spec, place)
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, suffix=".part", delete=False) as file:
            json.dump(to_json(result), file)
        os.replace(file.name, path)
    except OSError:
        return


def _measure(specs: Sequence[ProblemSpec], say: Callable[[str], None]) -> Iterator[tuple[ProblemSpec, Baselines]]:
    """In a process that imports torch once and forks for each problem; this one never touches the GPU."""
    if not specs:
        return
    kept = {name: value for name, value in os.environ.items() if name in KEPT or name.startswith(KEPT_PREFIXES)}
    asked = json.dumps([spec.to_json() for spec in specs])
    with tempfile.TemporaryFile("w+") as complaints:
        process = subprocess.Popen(
            [sys.executable, "-m", PROCESS, ZYGOTE.decode()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=complaints,
            text=True,
            env=kept,
            start_new_session=True,
        )
        try:
            assert process.stdin is not None and process.stdout is not None
            with contextlib.suppress(BrokenPipeError):  # it has ended, and its status says how
                process.stdin.write(asked)
                process.stdin.close()
            for line in process.stdout:
                data: dict[str, Any] = json.loads(line)
                if "said" in data:
                    say(data["said"])
                else:
                    yield specs[data["problem"]], from_plain(Baselines, data["result"])
            if process.wait() != 0:
                complaints.seek(0)
                raise InstrumentError(
                    f"the process that measures baselines ended with status {process.returncode}:\n"
                    f"{complaints.read()[-1500:]}",
                    remedy="what was measured is kept; the same command goes on",
                )
        finally:
            process.kill()
            process.wait()
