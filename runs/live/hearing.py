"""A screen that keeps the last text, and forwards everything to another screen if there is one."""

from __future__ import annotations

from triton_agent.agent.ledger import Ledger
from triton_agent.agent.settings import LoopSettings
from triton_agent.agent.state import Event
from triton_agent.runs.optimize.screen import Screen


class Hearing:
    """Keeps the last text for its caller, with or without a visible screen."""

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
