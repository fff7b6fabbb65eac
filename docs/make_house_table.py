"""Counts how large and how tangled the code is, for docs/decisions/0014-house.md.

    python docs/make_house_table.py eed08c5 HEAD     a column for each revision, as a Markdown table
    python docs/make_house_table.py --write          renew the table in the page

Everything is counted on the text of a revision, which git hands out; nothing is imported or run:

- *Modules of a room*: Python files of one folder, `__init__.py` left out.
- *Imports*: the files of this project that a file imports, deferred imports included, those for type checking left out.
- *Mutual imports*: groups of files that import each other, directly or through others.
- *Modules that ... passes*: files that are reached from where it enters by the imports of its own stages. They are named
  in `TRIPS`: where it enters, and which folders belong to the trip. Tests, screens and what merely shares a process are
  left out.
- *Hand-overs*: imports between two rooms on that trip, each pair of rooms once.
- *Length of a function*: lines from `def` to its end, without decorators and docstring.
"""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "decisions" / "0014-house.md"
FOLDERS = ("tools", "memory", "policy", "agent", "runs")
BEFORE = "eed08c5"
BEGIN, END = "<!-- made by docs/make_house_table.py -->", "<!-- end -->"

Graph = dict[str, set[str]]


def sources(revision: str) -> dict[str, str]:
    """Return the text of each product file of a revision."""
    archive = subprocess.run(["git", "archive", revision, *FOLDERS], cwd=ROOT, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        files = [member for member in tar.getmembers() if member.isfile() and member.name.endswith(".py")]
        return {member.name: tar.extractfile(member).read().decode() for member in files}  # type: ignore[union-attr]


def import_graph(texts: Mapping[str, str]) -> Graph:
    """Return the files of the project that each file imports; deferred imports count, those for types do not."""
    return {name: set(_imported(ast.parse(text), texts)) - {name} for name, text in texts.items()}


def _imported(tree: ast.AST, texts: Mapping[str, str]) -> Iterator[str]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        names: list[str] = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names] + [node.module]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            path = name.removeprefix("triton_agent.").replace(".", "/")
            if name.startswith("triton_agent.") and f"{path}.py" in texts:
                yield f"{path}.py"
        yield from _imported(node, texts)


def cycles(graph: Graph) -> list[list[str]]:
    """Return the groups of files that reach each other by imports (Tarjan's strongly connected components)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in sorted(graph[name]):
            if other not in index:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], index[other])
        if low[name] == index[name]:
            group = stack[stack.index(name) :]
            del stack[stack.index(name) :]
            if len(group) > 1:
                found.append(sorted(group))

    sys.setrecursionlimit(max(sys.getrecursionlimit(), 10 * len(graph)))
    for name in sorted(graph):
        if name not in index:
            visit(name)
    return sorted(found)
