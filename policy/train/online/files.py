"""Writes the files of a training so that a kill leaves no half of one behind."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def replace_text(path: Path, text: str) -> None:
    """Write the file as a whole or not at all."""
    partial = path.with_suffix(".partial")
    partial.write_text(text)
    partial.replace(path)


def append_line(path: Path, line: Mapping[str, Any]) -> None:
    """Add a line to a file of JSON lines, and wait until it is on the disk."""
    with path.open("a") as file:
        file.write(json.dumps(dict(line)) + "\n")
        file.flush()
        os.fsync(file.fileno())
