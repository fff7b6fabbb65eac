"""What references take as written, in TF32, and by `torch.compile`: measured on this machine, with no kernel beside.

Measuring is in `baseline_cards.py`. What was measured is kept in the user's cache folder, by problem, card, driver and
versions: another run, or another policy, has it at once. Several cards share the problems; each of these is measured on
one of them. What could not be measured is not kept.
"""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import platformdirs

from triton_agent.memory.sql.encoding import from_plain
from triton_agent.runs.bench.baselines.cards import Baselines, measure
from triton_agent.runs.bench.problems import Task
from triton_agent.runs.cli.devices import Chosen
from triton_agent.tools.errors import UsageError
from triton_agent.tools.machine.hardware import Gpu
from triton_agent.tools.problem.problem import ProblemSpec
from triton_agent.tools.results import to_json
from triton_agent.tools.versions import installed, project_version

METHOD = 1
"""Of measuring; raised whenever earlier figures would come out otherwise."""


def no_baselines(spec: ProblemSpec) -> Baselines:
    """Without a GPU there is nothing to know."""
    return Baselines(times=())


def prepared_baselines(
    tasks: Sequence[Task], workspace: Path, chosen: Chosen, say: Callable[[str], None]
) -> Callable[[ProblemSpec], Baselines]:
    """A look-up, once what is missing has been measured. A problem that cannot be read shows itself later."""
    specs = []
    for task in tasks:
        try:
            specs.append(task.spec(workspace))
        except UsageError:
            continue
    found = measured(specs, chosen, say)
    return lambda spec: found.get(spec.digest, no_baselines(spec))


def measured(
    specs: Sequence[ProblemSpec],
    chosen: Chosen,
    say: Callable[[str], None],
    *,
    again: bool = False,
    on_each: Callable[[Mapping[str, Baselines]], None] = lambda found: None,
) -> dict[str, Baselines]:
    """The baselines of all problems by digest; from the cache where they are known, unless it is to be done again.

    `on_each` is shown what there is after every problem.
    """
    if not chosen.gpus:
        raise UsageError("baselines need a GPU, and none was found", remedy="see `triton-agent doctor`")
    places = {gpu.uuid: _place(gpu) for gpu in chosen.gpus}
    known = {} if again else {spec.digest: _known(spec, places.values()) for spec in specs}
    found = {digest: result for digest, result in known.items() if result is not None}
    due = [spec for spec in specs if spec.digest not in found]
    if due:
        say(f"baselines of {len(due)} problems: compiling them side by side, then measuring one by one")
    code, cards = project_version(), dict(zip(chosen.uuids, places.values()))
    for spec, card, bare in measure(due, list(cards), say):
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        found[spec.digest] = result = dataclasses.replace(bare, measured_at=now, commit=code)
        if not result.failure:
            _keep(spec, cards[card], result)
        on_each(found)
    return found


def _place(gpu: Gpu) -> str:
    """What figures hold for."""
    return " ".join(map(str, (gpu.uuid, gpu.driver, installed("torch"), installed("triton"), METHOD)))


def _file(spec: ProblemSpec, place: str) -> Path:
    key = hashlib.sha256(f"{spec.digest} {place}".encode()).hexdigest()
    return Path(platformdirs.user_cache_dir("triton-agent")) / "baselines" / f"{key}.json"


def _known(spec: ProblemSpec, places: Iterable[str]) -> Baselines | None:
    """By the first of these cards that measured it."""
    for place in places:
        try:
            return from_plain(Baselines, json.loads(_file(spec, place).read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            continue
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
