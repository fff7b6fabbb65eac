"""The words of prompts: files of one folder for each version, filled in by name.

A version is the folder's name and a digest of what is in it, so that a prompt that was stored says which words it was
made of. A value that is filled in is never looked at for names to fill in.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.resources
import string

FOLDER = "2"
"""The words in use. Other words are another folder; see docs/prompts.md."""


@functools.cache
def templates() -> dict[str, string.Template]:
    """By name, without `.md`."""
    return {name.removesuffix(".md"): string.Template(text.strip("\n")) for name, text in _files().items()}


@functools.cache
def prompt_version() -> str:
    """As it is stored with every answer: `2-3fa9c104`."""
    digest = hashlib.sha256()
    for name, text in _files().items():
        digest.update(f"{name}\0{text}\0".encode())
    return f"{FOLDER}-{digest.hexdigest()[:8]}"


def worded(template: str, **values: str) -> str:
    """A template with its values."""
    return templates()[template].substitute(values)


def _files() -> dict[str, str]:
    folder = importlib.resources.files(__package__) / "templates" / FOLDER
    files = sorted((item for item in folder.iterdir() if item.name.endswith(".md")), key=lambda item: item.name)
    return {item.name: item.read_text(encoding="utf-8") for item in files}
