"""Shows pages at a terminal, turned by keys; the terminal is restored whatever happens.

A page is anything that rich can draw, made when it is first shown. Covers scrolling, resized windows, Ctrl-C, Ctrl-Z
and back, hang-up. Not covered: terminals without UTF-8 or cursor control; use `--plain` there.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import select
import signal
import sys
import termios
import tty
from collections.abc import Callable, Iterator, Sequence
from types import FrameType

from rich.console import Console, RenderableType
from rich.control import Control
from rich.screen import Screen
from rich.segment import Segment, Segments

from triton_agent.runs.cli.foreign_text import in_a_line

Page = Callable[[bool], RenderableType]
"""Draws a page; True asks for the changes instead of the whole code."""

POLL_S = 0.25
"""Interval at which a change of the window's size is noticed."""
HINT = "q quit · n/→ next · p/← back · j/k scroll · space/b screen · g/G ends · d code/changes"

KEYS = {
    **dict.fromkeys((b"n", b"\x1b[C", b"\x1bOC", b"l"), "next"),
    **dict.fromkeys((b"p", b"\x1b[D", b"\x1bOD", b"h"), "back"),
    **dict.fromkeys((b"j", b"\x1b[B", b"\x1bOB", b"\n", b"\r"), "down"),
    **dict.fromkeys((b"k", b"\x1b[A", b"\x1bOA"), "up"),
    **dict.fromkeys((b" ", b"f", b"\x1b[6~"), "screen"),
    **dict.fromkeys((b"b", b"\x7f", b"\x1b[5~"), "screen_up"),
    **dict.fromkeys((b"g", b"\x1b[H", b"\x1b[1~", b"\x1bOH"), "top"),
    **dict.fromkeys((b"G", b"\x1b[F", b"\x1b[4~", b"\x1bOF"), "bottom"),
    **dict.fromkeys((b"d", b"\t"), "turn_over"),
    **dict.fromkeys((b"q", b"Q", b"\x04"), "quit"),
}


@dataclasses.dataclass(slots=True, kw_only=True)
class Position:
    """Current page, line and side."""

    page: int = 0
    line: int = 0
    other_side: bool = False


class Player:
    """Shows pages; `play` returns when the user quits."""

    def __init__(self, pages: Sequence[Page], titles: Sequence[str], out: Console) -> None:
        self._pages, self._titles, self._out = pages, titles, out
        self._drawn: dict[tuple[int, bool, int], list[list[Segment]]] = {}
        self.position = Position()

    def play(self) -> None:
        with _terminal(self._out) as keyboard:
            size = None
            while True:
                if size != self._out.size:
                    size = self._out.size
                    self._show()
                action = KEYS.get(keyboard.key(), "")
                if action == "quit":
                    return
                if action or keyboard.came_back():
                    self.step(action)
                    self._show()

    def step(self, action: str) -> None:
        """Carry out an action of KEYS. A space at the end of a page goes to the next one."""
        at, last = self.position, len(self._pages) - 1
        bottom = max(0, len(self._lines()) - self._height())
        if action in ("next", "back") or (action == "screen" and at.line >= bottom):
            target = min(last, max(0, at.page + (-1 if action == "back" else 1)))
            if target != at.page:
                at.page, at.line = target, 0
        elif action == "turn_over":
            at.other_side, at.line = not at.other_side, 0
        else:
            height = self._height()
            moves = {"down": 1, "up": -1, "screen": height - 1, "screen_up": 1 - height}
            ends = {"top": 0, "bottom": bottom}
            at.line = min(bottom, max(0, ends.get(action, at.line + moves.get(action, 0))))

    def _height(self) -> int:
        return max(1, self._out.size.height - 1)

    def _lines(self) -> list[list[Segment]]:
        """Return the page as lines of the current width."""
        at, width = self.position, self._out.size.width
        key = (at.page, at.other_side, width)
        if key not in self._drawn:
            options = self._out.options.update(width=width, height=None)
            self._drawn[key] = self._out.render_lines(self._pages[at.page](at.other_side), options, pad=False)
        return self._drawn[key]

    def _show(self) -> None:
        at, lines, height = self.position, self._lines(), self._height()
        at.line = min(at.line, max(0, len(lines) - height))
        part = lines[at.line : at.line + height]
        part += [[] for _ in range(height - len(part))]
        segments = [segment for line in part for segment in (*line, Segment.line())]
        seen = 100 * min(len(lines), at.line + height) // max(1, len(lines))
        footer = f" {at.page + 1}/{len(self._pages)}  {self._titles[at.page]}  {seen}%  {HINT}"
        style = self._out.get_style("reverse")
        footer = in_a_line(footer, self._out.size.width).ljust(self._out.size.width)
        self._out.control(Control.home())
        self._out.print(Screen(Segments([*segments, Segment(footer, style)])), end="")


class _Keyboard:
    """Reads single keys from a terminal in character mode."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._waiting = b""
        self.suspended = False

    def key(self) -> bytes:
        """Return the next key; empty if none came for a while, Ctrl-D if the terminal is gone."""
        if not self._waiting:
            if not select.select([self._descriptor], [], [], POLL_S)[0]:
                return b""
            try:
                self._waiting = os.read(self._descriptor, 64) or b"\x04"
            except OSError:
                return b"\x04"
        known = [key for key in KEYS if self._waiting.startswith(key)]
        found = max(known, key=len, default=self._waiting[:1])
        if found == b"\x1b":  # an unknown escape sequence: drop all of it
            found = self._waiting
        self._waiting = self._waiting[len(found) :]
        return found

    def came_back(self) -> bool:
        """Return True if the program was suspended and continued since the last call."""
        was, self.suspended = self.suspended, False
        return was


@contextlib.contextmanager
def _terminal(out: Console) -> Iterator[_Keyboard]:
    """Switch to the alternate screen without a cursor and to single keys; undo it at the end and while suspended."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    keyboard = _Keyboard(descriptor)

    def enter() -> None:
        tty.setcbreak(descriptor)
        out.set_alt_screen(True)
        out.show_cursor(False)

    def leave() -> None:
        try:
            out.show_cursor(True)
            out.set_alt_screen(False)
        finally:
            termios.tcsetattr(descriptor, termios.TCSAFLUSH, before)

    def suspend(number: int, frame: FrameType | None) -> None:
        leave()
        os.kill(os.getpid(), signal.SIGSTOP)
        enter()
        keyboard.suspended = True

    previous = signal.signal(signal.SIGTSTP, suspend)
    try:
        enter()
        yield keyboard
    finally:
        signal.signal(signal.SIGTSTP, previous)
        with contextlib.suppress(OSError, termios.error):  # the terminal itself may be gone
            leave()
