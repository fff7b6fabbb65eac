"""The layout of the code holds: small rooms that say what they hold, and no import cycle between files."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from docs.make_house_table import FOLDERS, cycles, import_graph

ROOT = Path(__file__).resolve().parent.parent
MOST_MODULES = 18
"""Modules that a reader can keep in view; a room with more wants to be two."""
LARGER = {
    "policy/author/rules": "one module for each group of operators: the room grows with what the author can write",
}
"""Rooms that are larger, with the reason."""
ROOMS = sorted({path.parent for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")})


def test_no_room_holds_more_modules_than_a_reader_can_keep_in_view() -> None:
    sizes = {
        room.relative_to(ROOT).as_posix(): len([file for file in room.glob("*.py") if file.name != "__init__.py"])
        for room in ROOMS
    }
    crowded = {name for name, size in sizes.items() if size > MOST_MODULES}
    assert crowded == set(LARGER)


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.relative_to(ROOT).as_posix())
def test_every_room_says_what_lives_there(room: Path) -> None:
    docstring = ast.get_docstring(ast.parse((room / "__init__.py").read_text(encoding="utf-8")))
    assert docstring
    assert len(docstring.splitlines()) >= 3, "a sentence on what lives here, a blank line, and where to begin"


def test_no_file_imports_itself_through_others() -> None:
    graph = import_graph({path.relative_to(ROOT).as_posix(): path.read_text() for path in _sources()})
    assert cycles(graph) == []


def _sources() -> list[Path]:
    return [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
