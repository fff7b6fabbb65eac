"""Makes docs/report.png, the picture of a report in the README: optimizes an example on the CPU, and takes a screenshot
of the report's top in headless Chromium.

    python docs/make_report_picture.py      # or: make report-picture
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

DOCS = Path(__file__).resolve().parent
EXAMPLE = DOCS.parent / "examples" / "int8_gate.py"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
WIDTH, HEIGHT = 1000, 1090
"""Pixels: down to the end of the chart of errors."""


def main() -> int:
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        print(f"needs one of {', '.join(BROWSERS)}: apt-get install chromium", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="triton-agent-picture-") as name:
        folder = Path(name)
        command = [sys.executable, "-m", "triton_agent", "optimize", EXAMPLE, "--device", "cpu", "--out", "."]
        subprocess.run([*command, "--store", "runs.db"], cwd=folder, check=True)
        quiet = (
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            f"--user-data-dir={folder}/browser",
        )
        size, to = f"--window-size={WIDTH},{HEIGHT}", f"--screenshot={DOCS / 'report.png'}"
        shown = (size, to, f"file://{folder}/report.html")
        subprocess.run([browser, *quiet, *shown], check=True, stderr=subprocess.DEVNULL)
    print(DOCS / "report.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
