"""Drives a real Chromium over its DevTools protocol: opens pages, reads, types, clicks, takes screenshots."""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.runs.pages import BROWSER, FLAGS
from websockets.sync.client import ClientConnection, connect

PATIENCE_S = 60.0


class Page:
    """The one tab of a browser."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket, self._numbers = socket, itertools.count(1)
        self.requests: list[str] = []
        """Addresses that the page has requested."""
        self.complaints: list[str] = []
        """Errors that the browser logged: refused scripts, failed requests, exceptions."""
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **given: Any) -> Any:
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": given}))
        while True:
            told = json.loads(self._socket.recv(timeout=PATIENCE_S))
            self._note(told)
            if told.get("id") == number:
                assert "error" not in told, told["error"]
                return told["result"]

    def _note(self, told: dict[str, Any]) -> None:
        what, given = told.get("method"), told.get("params", {})
        if what == "Network.requestWillBeSent":
            self.requests.append(given["request"]["url"])
        if what == "Log.entryAdded" and given["entry"]["level"] == "error":
            self.complaints.append(given["entry"]["text"])
        if what == "Runtime.exceptionThrown":
            self.complaints.append(str(given["exceptionDetails"]))
        if what == "Page.javascriptDialogOpening":
            self.complaints.append(f"dialog: {given['message']}")

    def open(self, url: str) -> None:
        self.run("window.left = true")
        self.ask("Page.navigate", url=url)
        self.wait("!window.left && document.readyState === 'complete'")

    def run(self, code: str) -> Any:
        """Return the value of a JavaScript expression."""
        told = self.ask("Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in told, told["exceptionDetails"]
        return told["result"].get("value")

    def wait(self, code: str, patience_s: float = PATIENCE_S) -> None:
        """Wait until a JavaScript expression is true."""
        end = time.monotonic() + patience_s
        while time.monotonic() < end:
            with contextlib.suppress(AssertionError):  # between two pages there is nothing to ask
                if self.run(f"Boolean({code})"):
                    return
            time.sleep(0.05)
        raise AssertionError(f"never came true: {code}\n{self.text}")

    @property
    def text(self) -> str:
        return " ".join(str(self.run("document.body.textContent")).split())

    def fill(self, selector: str, value: str) -> None:
        self.run(f"document.querySelector({json.dumps(selector)}).value = {json.dumps(value)}")

    def click(self, selector: str, *, leaves: bool = True) -> None:
        """Click; with `leaves`, wait for the page that the click opens."""
        self.run("window.left = true")
        self.run(f"document.querySelector({json.dumps(selector)}).click()")
        if leaves:
            self.wait("!window.left && document.readyState === 'complete'")

    def look(self, *, width: int, height: int = 900, dark: bool = False) -> None:
        """Set the size and the colour scheme of the screen."""
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])

    def picture(self, path: Path, *, whole: bool = True) -> None:
        """Write a screenshot of the whole page, or of the visible part."""
        shot = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))


@contextlib.contextmanager
def browser(folder: Path) -> Iterator[Page]:
    """Start a browser with a profile of its own in `folder`."""
    assert BROWSER is not None
    profile = folder / "profile"
    command = [BROWSER, *FLAGS, "--remote-debugging-port=0", f"--user-data-dir={profile}", "about:blank"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        port, path = _address(process, profile / "DevToolsActivePort")
        with connect(f"ws://127.0.0.1:{port}{path}", max_size=None, ping_interval=None) as root:
            number = itertools.count(1)

            def ask(method: str, **given: Any) -> Any:
                here = next(number)
                root.send(json.dumps({"id": here, "method": method, "params": given}))
                while (told := json.loads(root.recv(timeout=PATIENCE_S))).get("id") != here:
                    pass
                return told["result"]

            pages = [item for item in ask("Target.getTargets")["targetInfos"] if item["type"] == "page"]
            target = pages[0]["targetId"]
            with connect(f"ws://127.0.0.1:{port}/devtools/page/{target}", max_size=None, ping_interval=None) as socket:
                yield Page(socket)
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(20)
        process.kill()
        process.wait()


def _address(process: subprocess.Popen[bytes], file: Path) -> tuple[str, str]:
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        if file.exists() and len(lines := file.read_text().split()) == 2:
            return lines[0], lines[1]
        assert process.poll() is None, "the browser ended"
        time.sleep(0.05)
    raise AssertionError("the browser opened no port")
