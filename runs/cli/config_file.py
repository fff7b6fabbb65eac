"""Defaults of options from a file: `triton-agent.toml`, or the section `[tool.triton-agent]` of a `pyproject.toml`.

The file is looked for in the working folder and the folders above it; the first one found counts. The command line
beats the environment (`TRITON_AGENT_POLICY` for `--policy`), which beats the file.

    policy = "openai:my-model"                # for every command that has the option
    base-url = "http://127.0.0.1:8000/v1"
    [optimize]                                # for this command only
    turns = 4

A file can name a policy to load and a server to send a key to, so it is as trusted as the code beside it: commands that
do not trust a problem (`--no-trust`, `mcp`, `verify-bundle`) do not read it, nor is a file of another user read.

Not covered: the Python functions, which take their options as arguments; settings of several files together.
"""

from __future__ import annotations

import dataclasses
import difflib
import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from triton_agent.runs.cli import model_options
from triton_agent.tools.errors import UsageError

NAMES = ("triton-agent.toml", "pyproject.toml")
SECTION = "triton-agent"
PREFIX = "TRITON_AGENT_"

LIMITS = ("requests-per-minute", "tokens-per-minute")
SERVER = ("base-url", "api-key-env", "context-tokens", "price", *LIMITS, "vllm-python")
"""Keys that say where a model runs, what it costs and how fast it may be asked. None of them changes an answer."""
WRITERS = ("policy", *(name.replace("_", "-") for name in model_options.OPTIONS))
"""Keys for commands in which a policy writes kernels. Elsewhere `--policy` selects runs."""
GENERAL = ("store", "device", "target", "timeout", *WRITERS)
"""Keys that hold for every command that has the option."""
BENCH = "bench"
"""Takes only the keys in SERVER from a file: a benchmark's record has to state all of its settings, and a benchmark
keeps a store of its own.
"""
NEVER = ("trust", "yes", "help", "resume", "json")
"""Options that can be given on the command line only."""
PATHS = ("store", "out", "adapter", "vllm-python", "root", "output")
"""Options that name files; a relative path starts at the folder of the file that sets it."""
POLICIES_IN_FOLDERS = ("scripted:", "own:", "hf:")
MEANT = {"server": "base-url", "url": "base-url", "model": "policy", "database": "store", "key": "api-key-env"}
"""Wrong keys that people try, with the right ones."""
UNTRUSTING = ("mcp", "verify-bundle")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ConfigFile:
    """The settings of a file, as written."""

    path: Path
    settings: Mapping[str, Any]


def find(folder: Path) -> tuple[ConfigFile | None, list[str]]:
    """Return the nearest file with settings, in the folder or above it, and warnings about files that are not read."""
    warnings = []
    for place in (folder, *folder.parents):
        for name in NAMES:
            path = place / name
            try:
                content, owner = path.read_bytes(), path.stat().st_uid
            except OSError:
                continue
            if name == "pyproject.toml" and not re.search(rb"\[\s*tool\s*\.\s*[\"']?triton-agent", content):
                continue
            if owner not in (0, os.geteuid()):
                warnings.append(f"{path} belongs to another user and is not read")
                continue
            return ConfigFile(path=path, settings=_settings(path, content)), warnings
    return None, warnings


def _settings(path: Path, content: bytes) -> Mapping[str, Any]:
    try:
        read = tomllib.loads(content.decode())
    except ValueError as error:
        raise UsageError(f"not TOML: {error}", where=str(path)) from None
    section = read.get("tool", {}).get(SECTION, {}) if path.name == "pyproject.toml" else read
    if not isinstance(section, dict):
        raise UsageError(f"[tool.{SECTION}] is no table", where=str(path))
    return section


def is_read_for(arguments: Sequence[str]) -> bool:
    """Return whether a command line takes defaults from a file of the working folder."""
    if {"--help", "-h", "--version"} & set(arguments) or "--no-trust" in arguments:
        return False
    command = next((word for word in arguments if not word.startswith("-")), "")
    return command not in UNTRUSTING or "--trust" in arguments


def commands_of(tree: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every command below a group of commands, with the words that call it."""
    for name, command in getattr(tree, "commands", {}).items():
        if hasattr(command, "commands"):
            yield from commands_of(command, (*path, name))
        else:
            yield (*path, name), command


def options_of(command: Any) -> dict[str, Any]:
    """Return a command's options by their long names, without the dashes."""
    found = {}
    for parameter in command.params:
        long = next((word for word in parameter.opts if word.startswith("--")), "")
        if parameter.param_type_name == "option" and long:
            found[long.removeprefix("--")] = parameter
    return found


def general_options(path: tuple[str, ...], command: Any) -> dict[str, Any]:
    """Return the options of a command that general keys can set."""
    options = options_of(command)
    keys = SERVER if path[0] == BENCH else GENERAL if "base-url" in options else GENERAL[: -len(WRITERS)]
    return {key: options[key] for key in keys if key in options}


def listen_to_environment(tree: Any) -> None:
    """Let environment variables such as `TRITON_AGENT_POLICY` set the options that have general keys."""
    for path, command in commands_of(tree):
        for key, option in general_options(path, command).items():
            option.envvar = variable_of(key)


def variable_of(key: str) -> str:
    """Return the environment variable of a general key."""
    return PREFIX + key.upper().replace("-", "_")


def defaults(file: ConfigFile, tree: Any) -> dict[str, Any]:
    """Return the file's settings in click's form, `{command: {parameter: value}}`; raise UsageError for a wrong one."""
    commands = dict(commands_of(tree))
    sections: dict[tuple[str, ...], Mapping[str, Any]] = {}
    for key, value in file.settings.items():
        if isinstance(value, dict):
            sections |= _sections(file, commands, (key,), value)
        elif key not in GENERAL:
            raise _unknown(file, key, [*GENERAL, *(path[0] for path in commands)], commands=commands)
    found: dict[str, Any] = {}
    for path, command in commands.items():
        options = general_options(path, command)
        given = {key: value for key, value in file.settings.items() if key in options} | dict(sections.get(path, {}))
        place = found
        for word in path:
            place = place.setdefault(word, {})
        for key, value in given.items():
            option = options_of(command)[key]
            place[option.name] = _checked(file, key, value, option, command)
    return found


def _sections(
    file: ConfigFile, commands: Mapping[tuple[str, ...], Any], path: tuple[str, ...], table: Mapping[str, Any]
) -> dict[tuple[str, ...], Mapping[str, Any]]:
    """Return the tables of single commands in one top-level table."""
    name = ".".join(path)
    if path[0] == BENCH:
        raise UsageError(
            f"[{name}]: benchmarks take their settings from the command line, so that a record says all of them",
            where=str(file.path),
        )
    if path in commands:
        options = options_of(commands[path])
        for key in table:
            if key in NEVER:
                raise UsageError(f"[{name}] {key}: can be given on the command line only", where=str(file.path))
            if key not in options:
                raise _unknown(file, key, [option for option in options if option not in NEVER], f"[{name}] ")
        return {path: table}
    inside = {known[: len(path) + 1] for known in commands if known[: len(path)] == path}
    if not inside:
        raise _unknown(file, name, [*GENERAL, *(known[0] for known in commands)])
    found: dict[tuple[str, ...], Mapping[str, Any]] = {}
    for key, value in table.items():
        if (*path, key) not in inside or not isinstance(value, dict):
            raise _unknown(file, key, [known[-1] for known in inside], f"[{name}] ")
        found |= _sections(file, commands, (*path, key), value)
    return found


def _unknown(
    file: ConfigFile,
    key: str,
    known: Sequence[str],
    before: str = "",
    commands: Mapping[tuple[str, ...], Any] | None = None,
) -> UsageError:
    owners = [".".join(path) for path, command in (commands or {}).items() if key in options_of(command)]
    close = [MEANT[key]] if MEANT.get(key) in known else difflib.get_close_matches(key.replace("_", "-"), known, n=1)
    if owners and key not in NEVER:
        remedy = f"it is an option of single commands: [{owners[0]}] {key} = ..."
    else:
        remedy = f"did you mean {close[0]}?" if close else f"known are {', '.join(dict.fromkeys(known))}"
    return UsageError(f"{before}{key}: there is no such setting", where=str(file.path), remedy=remedy)


def _checked(file: ConfigFile, key: str, value: Any, option: Any, command: Any) -> Any:
    """Return the value as click takes it; raise UsageError if the option cannot have it."""
    many, flag = bool(option.multiple), bool(option.is_flag)
    expected = "a list" if many else "true or false" if flag else "one value"
    fits = isinstance(value, list) == many and (many or isinstance(value, bool) == flag)
    try:
        if not fits or isinstance(value, dict):
            raise ValueError(f"{expected} is expected")
        option.process_value(command.make_context(command.name, [], resilient_parsing=True), value)
    except Exception as error:  # the parser's own class differs between versions of typer
        raise UsageError(f"{key} = {value!r}: {getattr(error, 'message', error)}", where=str(file.path)) from None
    return [_placed(file.path.parent, key, item) for item in value] if many else _placed(file.path.parent, key, value)


def _placed(folder: Path, key: str, value: Any) -> Any:
    """Return the value; a relative path in it is resolved against the folder of the file."""
    if key == "policy" and isinstance(value, str):
        return ",".join(_placed_policy(folder, name.strip()) for name in value.split(","))
    if key not in PATHS or not isinstance(value, str) or "://" in value:
        return value
    return str(folder / Path(value).expanduser())


def _placed_policy(folder: Path, name: str) -> str:
    kind = next((kind for kind in POLICIES_IN_FOLDERS if name.startswith(kind)), "")
    return f"{kind}{folder / Path(name.removeprefix(kind)).expanduser()}" if kind else name
