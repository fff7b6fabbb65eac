"""A screen that remembers what was said last, and passes everything on to another one, or to nobody."""

from __future__ import annotations

from triton_agent.agent.ledger import Ledger
from triton_agent.agent.settings import LoopSettings
from triton_agent.agent.state import Event
from triton_agent.runs.optimize.screen import Screen


class Hearing:
    """For a caller who wants to know, whether or not anybody looks on."""

    def __init__(self, shown: Screen | None) -> None:
        self._shown = shown
        self.last = ""

    def begin(self, ledger: Ledger, settings: LoopSettings, title: str) -> None:
        if self._shown is not None:
            self._shown.begin(ledger, settings, title)

    def event(self, event: Event) -> None:
        if self._shown is not None:
            self._shown.event(event)

    def say(self, text: str) -> None:
        self.last = text
        if self._shown is not None:
            self._shown.say(text)

    def close(self) -> None:
        if self._shown is not None:
            self._shown.close()
