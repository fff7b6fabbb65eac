"""Says how long something has taken and how much is left, at the pace so far.

with waiting("loading torch"): ...                  on stderr, if it takes more than two seconds
with counted("wrong answers") as tell: tell(3, 30)  a bar at a terminal, a line now and then elsewhere
pace.expect(due=10, total=30); pace.finish(); pace.left      "about 12 min left"
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn
from rich.text import Text

from triton_agent.runs.cli import console

LINE_EVERY_S = 5.0
PATIENCE_S = 2.0
"""Work that ends sooner is not announced."""
REFRESHES_PER_S = 2


class Pace:
    """How many of several similar pieces of work are left, and about how long they will take."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._began_s = now()
        self.total = self._due = self._finished = 0

    def expect(self, due: int, total: int) -> None:
        """Start the clock; `due` of all pieces are left to do."""
        self.total, self._due, self._began_s, self._finished = total, due, self._now(), 0

    def finish(self, count: int = 1) -> None:
        """Count further finished pieces."""
        self._finished += count

    @property
    def done(self) -> int:
        """Number of finished pieces, including those of earlier runs."""
        return self.total - self._due + self._finished

    @property
    def spent_s(self) -> float:
        """Seconds since the clock began."""
        return self._now() - self._began_s

    @property
    def left_s(self) -> float | None:
        """Seconds left; None before the first piece is done and after the last."""
        left = self._due - self._finished
        return self.spent_s / self._finished * left if self._finished and left > 0 else None

    @property
    def left(self) -> str:
        """`about 12 min left`; empty if unknown."""
        return "" if self.left_s is None else f"about {in_words(self.left_s)} left"


def in_words(seconds: float) -> str:
    """Format a time as people say it: `40 s`, `12 min`, `1 h 20 min`."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


@contextlib.contextmanager
def counted(what: str, at_first: str = "") -> Iterator[Callable[[int, int], None]]:
    """Yield a function that takes the numbers of finished and of all pieces, and shows them with the time left."""
    screen, pace, said_s = console.progress(), Pace(), time.monotonic()
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    bar = Progress(*columns, TimeRemainingColumn(), console=screen, transient=True, disable=not screen.is_terminal)
    task = bar.add_task(at_first or what, total=None)

    def tell(done: int, total: int) -> None:
        nonlocal said_s
        if not pace.total:
            pace.expect(total - done, total)
        pace.finish(done - pace.done)
        bar.update(task, description=what, completed=done, total=total)
        if not screen.is_terminal and time.monotonic() - said_s > LINE_EVERY_S and pace.left:
            said_s = time.monotonic()
            screen.print(f"{what}: {done} of {total}, {pace.left}", markup=False, soft_wrap=True)

    with bar:
        yield tell


@contextlib.contextmanager
def waiting(what: str, after_s: float = PATIENCE_S) -> Iterator[None]:
    """Print `what` on stderr if the block takes longer than `after_s`; a terminal also shows the seconds so far."""
    screen, began_s = console.progress(), time.monotonic()
    live = Live(
        console=screen,
        refresh_per_second=REFRESHES_PER_S,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
        get_renderable=lambda: Text(f"{what}, {time.monotonic() - began_s:.0f} s"),
    )
    finished = threading.Event()

    def tell() -> None:
        if finished.wait(after_s):
            return
        if screen.is_terminal:
            live.start(refresh=True)
        else:
            screen.print(what, markup=False, soft_wrap=True)

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield
    finally:
        finished.set()
        teller.join()
        if live.is_started:
            live.stop()
