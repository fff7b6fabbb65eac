"""The command line around a benchmark: reads the options, keeps a record in a folder, prints tables."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json as json_text
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from triton_agent.memory.store import Store
from triton_agent.policy.protocol import Policy
from triton_agent.runs.bench.baselines.references import References, ReferenceSettings
from triton_agent.runs.bench.journal import Journal
from triton_agent.runs.bench.kernels import KernelFolder, read_kernels
from triton_agent.runs.bench.places import here, places, usual_at_once
from triton_agent.runs.bench.problems import Selection, Task
from triton_agent.runs.bench.results import tables, write_results
from triton_agent.runs.bench.rows import Mode, Record, read_record
from triton_agent.runs.bench.runner import PROBLEMS, Bench
from triton_agent.runs.bench.screen import Screen, make_screen
from triton_agent.runs.bench.settings import BenchSettings
from triton_agent.runs.bench.suite import parse_shard
from triton_agent.runs.cli import console, exit_codes
from triton_agent.runs.cli.devices import Chosen, choose, chosen_before
from triton_agent.runs.cli.model_options import ModelOptions
from triton_agent.runs.cli.policies import DEFAULT, make_policies
from triton_agent.runs.optimize.request import parse_seconds
from triton_agent.runs.optimize.run import TRACING, machine_here
from triton_agent.tools.compile.targets import parse_target
from triton_agent.tools.errors import UsageError
from triton_agent.tools.processes.zygotes import Nursery
from triton_agent.tools.versions import require_supported

STORE = "runs.db"
"""Store in the benchmark's folder, by default, so that its runs do not become lessons for the user's own runs."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class BenchRequest:
    """Options of the command line, without the problems; None for an option that was not given."""

    policy: str | None = None
    kernels: str | None = None
    clone: str | None = None
    attempts: int | None = None
    turns: int | None = None
    parallel: int | None = None
    at_once: int | None = None
    budget: str | None = None
    allow_library: bool | None = None
    precision: str | None = None
    device: str | None = None
    target: str | None = None
    seed: int | None = None
    timeout: float | None = None
    compile_limit: float | None = None
    baselines_again: bool = False
    trust: bool | None = None
    protocol: str | None = None
    model: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Fields of `ModelOptions` that were given."""
    out: str | None = None
    resume: str | None = None
    shard: str | None = None
    store: str | None = None
    json: bool = False


def run(selection: Selection, request: BenchRequest, *, nurseries: Sequence[Nursery] = ()) -> int:
    """Start or continue a benchmark. Each of the `nurseries`, which stay open, serves one problem at a time."""
    for warning in require_supported():
        console.progress().print(f"warning: {warning}")
    os.environ.setdefault(TRACING, "false")
    settings, policies, kernels = _settings_and_policies(selection, request)
    chosen = chosen_before(settings.device, settings.cards)
    if request.at_once is None and not request.resume:
        at_once = usual_at_once(selection, chosen, cores=len(os.sched_getaffinity(0)))
        settings = dataclasses.replace(settings, at_once=at_once)
    shard = parse_shard(request.shard) if request.shard else None
    tasks = selection.tasks[shard.index - 1 :: shard.count] if shard else selection.tasks
    folder = Path(request.resume or request.out or f"bench-{selection.benchmark}")
    journal = Journal(folder, selection.head(settings.to_json()))
    screen = make_screen(as_json=request.json)
    _announce(selection, tasks, settings, journal, kernels, screen)
    try:
        asyncio.run(_run(tasks, journal, settings, policies, kernels, screen, request, chosen, nurseries))
    except KeyboardInterrupt:
        screen.say(f"finished problems are kept; continue with --resume {folder}")
        raise
    finally:
        screen.close()
        record = journal.record()
        summary = write_results(folder, record)
    _show(record, folder, summary, as_json=request.json)
    unmeasured = {task.label for task in tasks} & set(record.missing)
    return exit_codes.NOT_MEASURED if unmeasured else exit_codes.GOOD


def _settings_and_policies(
    selection: Selection, request: BenchRequest
) -> tuple[BenchSettings, list[Policy], KernelFolder | None]:
    """Return the settings as given or, for a record that is continued, as recorded; the policies; the kernels."""
    before = dict(read_record(Path(request.resume)).head.settings) if request.resume else {}
    said = _given_settings(request)
    if request.policy and request.kernels:
        raise UsageError("--policy and --kernels were both given", remedy="keep one of them")
    folder = said.pop("kernels", before.get("kernels", ""))
    chosen = {**before, **said}
    kernels = read_kernels(Path(folder), selection.tasks) if folder and not request.policy else None
    name = request.policy or (DEFAULT if not before else str(before["policy"]))
    model = {**before.get("model", {}), **request.model}
    policies = [] if kernels else make_policies(name, ModelOptions(**model))
    who = {
        "policy": f"kernels:{kernels.folder.name}" if kernels else name,
        "policy_version": kernels.version if kernels else "+".join(policy.version for policy in policies),
        "kernels": str(kernels.folder.resolve()) if kernels else "",
        "model": model,
    }
    where = _device_settings(request.device, before)
    settings = BenchSettings.from_json({"mode": Mode.OWN_KERNELS.value, **chosen, **who, **where})
    parse_target(settings.target)
    return settings, policies, kernels


def _device_settings(said: str | None, before: Mapping[str, Any]) -> dict[str, str]:
    """Return the device as given or, without that, as recorded."""
    if said is None and "device" in before:
        return {"device": str(before["device"]), "cards": str(before.get("cards", ""))}
    chosen = choose(said or "auto")
    return {"device": chosen.device, "cards": chosen.cards}


def _given_settings(request: BenchRequest) -> dict[str, Any]:
    """Return the options that were given, by the names of the settings."""
    mode = None
    if request.allow_library is not None:
        mode = Mode.ALLOW_LIBRARY.value if request.allow_library else Mode.OWN_KERNELS.value
    found = {
        "kernels": request.kernels,
        "clone": request.clone,
        "samples": request.attempts,
        "turns": request.turns,
        "parallel": request.parallel,
        "at_once": request.at_once,
        "budget_s": parse_seconds(request.budget),
        "mode": mode,
        "precision": request.precision,
        "target": request.target,
        "seed": request.seed,
        "timeout_s": request.timeout,
        "compile_limit_s": request.compile_limit,
        "trust": request.trust,
        "protocol": request.protocol,
    }
    return {name: value for name, value in found.items() if value is not None}


def _announce(
    selection: Selection,
    tasks: Sequence[Task],
    settings: BenchSettings,
    journal: Journal,
    kernels: KernelFolder | None,
    screen: Screen,
) -> None:
    record = journal.record()
    cards = f":{settings.cards}" if settings.cards else ""
    where = "cpu: speed is not measured" if settings.device == "cpu" else f"{settings.device}{cards}"
    shard = "" if len(tasks) == len(selection.tasks) else f" (this shard: {len(tasks)} of {len(selection.tasks)})"
    screen.say(f"{record.head.title}{shard}: {settings.policy}, {settings.mode}, {where}")
    there = len({task.label for task in tasks} - set(record.missing))
    if there:
        screen.say(f"continuing {journal.folder}: {there} of them are finished")
    for text in selection.passed_over:
        screen.say(f"passed over: {text}")
    if kernels and kernels.unmatched:
        shown = ", ".join(kernels.unmatched[:5]) + (", ..." if len(kernels.unmatched) > 5 else "")
        screen.say(f"{len(kernels.unmatched)} files belong to none of these problems: {shown}")


async def _run(
    tasks: Sequence[Task],
    journal: Journal,
    settings: BenchSettings,
    policies: list[Policy],
    kernels: KernelFolder | None,
    screen: Screen,
    request: BenchRequest,
    chosen: Chosen,
    shared: Sequence[Nursery],
) -> None:
    async with contextlib.AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="triton-agent-bench-")))
        opened = stack.enter_context(Store.open(request.store or journal.folder / STORE))
        found = await stack.enter_async_context(places(chosen, settings, folder, shared, screen.say))
        references = _references(journal, settings, chosen, screen, again=request.baselines_again)
        stack.push_async_callback(references.close)
        bench = Bench(
            settings=settings,
            policies=policies,
            kernels=kernels,
            store=opened,
            journal=journal,
            places=found,
            where=here(chosen),
            machine=machine_here(settings.seed, chosen),
            watcher=screen,
            references=references,
        )
        try:
            await bench.run(tasks, baselines_again=request.baselines_again)
        finally:
            for policy in policies:
                await policy.close()


def _references(
    journal: Journal, settings: BenchSettings, chosen: Chosen, screen: Screen, *, again: bool
) -> References:
    """Use the cards only if the problems' code is trusted, because references run outside the sandbox."""
    how = ReferenceSettings(workspace=journal.folder / PROBLEMS, compile_limit_s=settings.compile_limit_s, again=again)
    return References(chosen if settings.device == "cuda" and settings.trust else None, how, screen.say)


def _show(record: Record, folder: Path, summary: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print(json_text.dumps({"kind": "summary", **summary}, allow_nan=False), flush=True)
        return
    screen = console.results()
    for part in tables(record):
        screen.print(part)
    screen.print(f"{folder}: rows.jsonl, rows.csv, summary.json", markup=False)
