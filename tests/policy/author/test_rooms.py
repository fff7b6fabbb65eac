"""The author's packages import each other as the passes of a compiler, and one module adds a group of operators."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import triton_agent.policy.author
from triton_agent.policy.author.rules.building import COMPLEX_RULES, RULES, lowers
from triton_agent.policy.author.rules.registry import GROUPS

PACKAGE = "triton_agent.policy.author"
FOLDER = Path(next(iter(triton_agent.policy.author.__path__)))
MAY_IMPORT = {
    "ir": {"ir"},
    "rules": {"ir", "rules"},
    "plan": {"ir", "plan"},
    "tile": {"ir", "plan", "tile"},
    "emit": {"ir", "plan", "tile", "emit"},
}


def _imports() -> dict[str, set[str]]:
    """Return, for each of the author's modules, the author's modules that it imports anywhere in its text."""
    paths = {".".join(path.relative_to(FOLDER).with_suffix("").parts): path for path in FOLDER.rglob("*.py")}
    found: dict[str, set[str]] = {}
    for module, path in paths.items():
        nodes = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)]
        names = [f"{node.module}.{alias.name}" for node in nodes for alias in node.names]
        names += [str(node.module) for node in nodes]
        found[module] = {name.removeprefix(f"{PACKAGE}.") for name in names} & paths.keys()
    return found


def test_no_modules_import_each_other() -> None:
    imports = _imports()
    for module in imports:
        reached, waiting = set[str](), [module]
        while waiting:
            fresh = imports[waiting.pop()] - reached
            reached |= fresh
            waiting += fresh
        assert module not in reached, f"{module} imports itself by way of others"


def test_rooms_import_from_earlier_rooms_only() -> None:
    for module, imported in _imports().items():
        room = module.split(".")[0]
        rooms = {name.split(".")[0] for name in imported if "." in name}
        assert rooms <= MAY_IMPORT.get(room, rooms), f"{module} imports {sorted(rooms)}"


def test_every_module_of_rules_is_registered() -> None:
    own = {"building", "registry", "translation", "complex_pairs", "loops", "__init__"}
    modules = {path.stem for path in (FOLDER / "rules").glob("*.py")} - own
    assert modules == {group.__name__.rsplit(".", 1)[-1] for group in GROUPS}


def test_an_operator_has_one_rule_and_one_for_complex_numbers() -> None:
    rule = RULES["aten.mul"]
    for when_complex in (False, True):
        with pytest.raises(ValueError, match="mul has two rules"):
            lowers("mul", when_complex=when_complex)(rule)
    assert RULES["aten.mul"] is rule and COMPLEX_RULES["aten.mul"] is not rule
