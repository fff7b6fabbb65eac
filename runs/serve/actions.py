"""Commands that a page may start, as processes, if the server was started with `--write`.

Each is `python -m triton_agent ...`; its arguments are shown and kept. Cancel sends SIGINT, as Ctrl-C does: the first
one ships the best so far, the second stops at once. Not covered: jobs end with the server.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import secrets
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from triton_agent.memory.listing import RunSummary
from triton_agent.runs.cli.foreign_text import legible
from triton_agent.runs.jobs import Jobs
from triton_agent.runs.report.markup import Html, facts, table, tag
from triton_agent.runs.serve.frame import link, page
from triton_agent.tools.errors import UsageError

LINES_KEPT = 2_000
CLOSING_S = 20.0
"""Time that the server waits, when it ends, for a job to stop its processes."""
TURNS_AT_MOST = 1_000
CARD = Path("/dev/nvidiactl")
"""Exists where the driver of a GPU is loaded."""
Made = Callable[[Mapping[str, str]], list[str]]


class CommandJob:
    """One command in a process of its own."""

    def __init__(self, arguments: Sequence[str], store: str, out: Path) -> None:
        self.id = f"{arguments[0]}-{secrets.token_hex(4)}"
        self.command = " ".join(["triton-agent", *arguments])
        self.began = datetime.datetime.now(datetime.UTC)
        self.state = "running"
        """`running`, then `ended` or `cancelled`, or `failed` with an exit code."""
        self.lines: deque[str] = deque(maxlen=LINES_KEPT)
        self.done = threading.Event()
        self.folder = out / self.id
        self.folder.mkdir(parents=True)
        self._signals = 0
        self._process = subprocess.Popen(
            [sys.executable, "-m", "triton_agent", *arguments],
            env={**os.environ, "TRITON_AGENT_STORE": store},
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="backslashreplace",
            start_new_session=True,
        )
        self._thread = threading.Thread(target=self._read, name=self.id, daemon=True)
        self._thread.start()

    def cancel(self, *, at_once: bool = False) -> str:
        """Send the SIGINT that Ctrl-C sends; `at_once` sends a second one."""
        for _ in range(2 if at_once else 1):
            self._signals += 1
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGINT)
        return "stopping"

    def join(self) -> None:
        """Wait until the job's processes are gone."""
        self._thread.join(CLOSING_S)
        if not self.done.is_set():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for text in self._process.stdout:
            self.lines.append(legible(text.rstrip("\n")))
        code = self._process.wait()
        self.state = "cancelled" if self._signals else "ended" if code == 0 else f"failed with exit code {code}"
        self.done.set()


class Actions:
    """The commands that pages offer; none if the server may not write."""

    def __init__(self, jobs: Jobs[CommandJob], store: str, out: Path, token: str, *, write: bool) -> None:
        self._jobs, self._store, self._out, self._token = jobs, store, out, token
        self.write = write

    # Forms

    def of_run(self, run: RunSummary) -> Html:
        """Return the forms for a run."""
        forms = [self._form("regrade", "Judge all again", run=run.id)]
        if run.device == "cpu" and run.best is not None and CARD.exists():
            forms.append(self._form("promote", "Promote the draft", run=run.id))
        return self._block(_downloads(run.id), forms)

    def of_attempt(self, run: RunSummary, name: str, *, judged: bool) -> Html:
        """Return the forms for an attempt."""
        turns = tag("label", "turns", tag("input", type="number", name="turns", value="4", min="1", max=TURNS_AT_MOST))
        forms = [self._form("fork", "Fork from here", turns, run=run.id, attempt=name)] if judged else []
        forms.append(self._form("regrade", "Judge again", run=run.id, attempt=name))
        return self._block([], forms)

    def _block(self, links: Sequence[Html], forms: Sequence[Html]) -> Html:
        return tag("div", *links, *(forms if self.write else ()), class_="acts") if links or self.write else Html("")

    def _form(self, name: str, label: str, *fields: Html, **hidden: str) -> Html:
        kept = {**hidden, "token": self._token}
        inputs = [tag("input", type="hidden", name=key, value=value) for key, value in kept.items()]
        return tag("form", *inputs, *fields, tag("button", label, type="submit"), method="post", action=f"/act/{name}")

    # Starting

    def start(self, name: str, given: Mapping[str, str]) -> CommandJob:
        """Start a command; every value is checked here, and none is taken for an option."""
        commands: dict[str, Made] = {"fork": _fork, "regrade": _regrade, "promote": _promote}
        if name not in commands:
            raise UsageError(f"no action {name!r:.40}")
        arguments = commands[name](given)
        return self._jobs.start(lambda: CommandJob(arguments, self._store, self._out))

    def cancel(self, id: str) -> CommandJob:
        job = self._jobs.find(id)
        job.cancel()
        return job

    # Pages

    def render_jobs(self) -> str:
        """Return the list of jobs, newest first."""
        rows = [
            (tag("a", job.id, href=link("/job", id=job.id)), job.state, f"{job.began:%H:%M:%S} UTC", job.command)
            for job in reversed(self._jobs.all())
        ]
        listed = table(
            ("job", "state", "began", "command"), rows, caption="Jobs of this server, newest first", stacks=()
        )
        parts = [listed or tag("p", "None yet.")]
        return page("Jobs", "", [("jobs", "Jobs", parts)], here="/jobs", live=True, jobs=True)

    def render_job(self, id: str) -> str:
        """Return the page of a job with its output."""
        job = self._jobs.find(id)
        parts: list[object] = [
            facts([("command", tag("code", job.command)), ("state", job.state), ("folder", str(job.folder))]),
            tag("pre", "\n".join(job.lines) or "(nothing yet)", class_="wrapped"),
            tag("p", tag("a", "All runs, the newest first", href="/")),
        ]
        if not job.done.is_set():
            parts.append(self._form("cancel", "Cancel", id=job.id))
        return page(job.id, "", [("job", "Job", parts)], here="/jobs", live=not job.done.is_set(), jobs=True)


def _downloads(run: str) -> list[Html]:
    return [
        tag("a", "Report as one file", href=link("/report", id=run)),
        tag("a", "Export", href=link("/export", id=run)),
    ]


def _run(given: Mapping[str, str]) -> str:
    run = given.get("run", "")
    if not run or run.startswith("-"):
        raise UsageError(f"{run!r:.100} names no run")
    return run


def _attempt(given: Mapping[str, str]) -> Iterator[str]:
    if given.get("attempt"):
        yield f"--attempt={given['attempt']}"


def _fork(given: Mapping[str, str]) -> list[str]:
    turns, run = given.get("turns", ""), _run(given)
    if not turns.isdecimal() or not 1 <= int(turns) <= TURNS_AT_MOST:
        raise UsageError(f"{turns!r:.20} is no number of turns", remedy=f"from 1 to {TURNS_AT_MOST}")
    return ["replay", f"--fork={given.get('attempt', '')}", f"--turns={int(turns)}", "--", run]


def _regrade(given: Mapping[str, str]) -> list[str]:
    return ["replay", "--regrade", *_attempt(given), "--", _run(given)]


def _promote(given: Mapping[str, str]) -> list[str]:
    return ["promote", "--", _run(given)]
