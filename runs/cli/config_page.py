"""`triton-agent config`: prints the settings that hold in the working folder, and where each comes from."""

from __future__ import annotations

import json as json_text
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from triton_agent.memory.sql.database import default_path
from triton_agent.runs.cli import config_file, console, exit_codes
from triton_agent.runs.cli.foreign_text import legible

USUAL = ("optimize",)
"""The command whose defaults are shown; it has all general settings."""


def run(tree: Any, *, json: bool) -> int:
    """Print every general setting, then those of single commands in the file."""
    file, warnings = config_file.find(Path.cwd())
    for warning in warnings:
        console.progress().print(f"warning: {warning}", markup=False)
    if file:
        config_file.defaults(file, tree)  # raises UsageError for a wrong setting
    rows = list(_rows(file, tree))
    if json:
        told = [dict(zip(("setting", "value", "from"), row)) for row in rows]
        print(json_text.dumps({"file": str(file.path) if file else None, "settings": told}))
        return exit_codes.GOOD
    shown = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("setting", "value", "from"):
        shown.add_column(heading, overflow="fold")
    for setting, value, source in rows:
        shown.add_row(setting, Text("" if value is None else legible(str(value))), Text(legible(source)))
    out = console.results()
    out.print(shown)
    if file is None:
        out.print("to change a default: triton-agent.toml, or [tool.triton-agent] in pyproject.toml", markup=False)
    return exit_codes.GOOD


def _rows(file: config_file.ConfigFile | None, tree: Any) -> Iterator[tuple[str, Any, str]]:
    """Yield name, value and origin of each setting."""
    written = file.settings if file else {}
    options = config_file.general_options(USUAL, dict(config_file.commands_of(tree))[USUAL])
    for key, option in options.items():
        variable = config_file.variable_of(key)
        if os.environ.get(variable):
            yield key, _without_password(os.environ[variable]), f"environment, {variable}"
        elif key in written:
            yield key, _without_password(written[key]), str(file and file.path)
        else:
            yield key, str(default_path()) if key == "store" else option.default, "default"
    for command, table in _tables(written):
        for key, value in table.items():
            yield f"{command} --{key}", _without_password(value), str(file and file.path)


def _tables(settings: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the tables that hold settings, with the words of their commands."""
    for name, value in settings.items():
        if isinstance(value, dict):
            inner = {key: item for key, item in value.items() if not isinstance(item, dict)}
            if inner:
                yield f"{before}{name}", inner
            yield from _tables({key: item for key, item in value.items() if key not in inner}, f"{before}{name} ")


def _without_password(value: Any) -> Any:
    return re.sub(r"(?<=://)([^/@:]*):[^/@]*@", r"\1:***@", value) if isinstance(value, str) else value
