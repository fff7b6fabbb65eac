"""The templates of prompts: files of one folder for each version, filled in by name.

A version is the folder's name and a digest of its files, so that a stored prompt names its exact templates.
Placeholders within filled-in values are not replaced.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.resources
import string

FOLDER = "5"
"""The folder in use. A changed template needs a new folder; see docs/prompts.md."""


@functools.cache
def templates() -> dict[str, string.Template]:
    """Return the templates by name, without `.md`."""
    return {name.removesuffix(".md"): string.Template(text.strip("\n")) for name, text in _files().items()}


@functools.cache
def prompt_version() -> str:
    """Return the version as stored with every answer: `5-3fa9c104`."""
    digest = hashlib.sha256()
    for name, text in _files().items():
        digest.update(f"{name}\0{text}\0".encode())
    return f"{FOLDER}-{digest.hexdigest()[:8]}"


def worded(template: str, **values: str) -> str:
    """Fill in a template."""
    return templates()[template].substitute(values)


def _files() -> dict[str, str]:
    folder = importlib.resources.files(__package__) / "templates" / FOLDER
    files = sorted((item for item in folder.iterdir() if item.name.endswith(".md")), key=lambda item: item.name)
    return {item.name: item.read_text(encoding="utf-8") for item in files}
