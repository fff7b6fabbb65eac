"""Counts how large and how tangled the code is, for docs/decisions/0014-house.md.

    python docs/make_house_table.py eed08c5 HEAD     print a Markdown table with a column for each revision
    python docs/make_house_table.py --write          renew the table in the page, for HEAD

Only the text of a revision is read, as git returns it; nothing is imported or run. How each row is counted:

- *Modules of a room*: Python files in one folder, without `__init__.py`.
- *Groups of files that import each other*: directly or through others. Deferred imports count, imports for types
  do not.
- *Modules on the trip*: files that docs/architecture.md of that revision names for a candidate, an attempt or a file; a
  folder stands for its own files.
- *Hand-overs on the trip*: imports among these files.
- *Function length*: lines from the end of the signature to the end of the body, without a docstring.
- *Lines*: all lines of product code; *lines of code*: without blank lines, comments and docstrings.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import statistics
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


def trips(revision: str, texts: Mapping[str, str]) -> dict[str, tuple[int, int]]:
    """Return the number of modules and hand-overs of each trip on the map of a revision."""
    page = _git("show", f"{revision}:docs/architecture.md")
    graph = import_graph(texts)
    found = {}
    for section in re.split(r"^## ", page, flags=re.MULTILINE)[1:]:
        title, _, body = section.partition("\n")
        named = re.findall(rf"`((?:{'|'.join(FOLDERS)})/[\w/]+(?:\.py)?)`", body)
        modules = {name for name in texts for place in named if place in (name, _room(name))}
        found[title.strip()] = (len(modules), sum(len(graph[name] & modules) for name in modules))
    return found


def function_lengths(texts: Mapping[str, str]) -> list[int]:
    """Return the number of lines of each function's body, without its docstring."""
    lengths = []
    for text in texts.values():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                body = node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body
                if body:
                    lengths.append((node.end_lineno or 0) - body[0].lineno + 1)
    return sorted(lengths)


def code_lines(text: str) -> int:
    """Return the number of lines with code: no blank lines, comments or docstrings."""
    held: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            for item in node.body:
                if (
                    isinstance(item, ast.Expr)
                    and isinstance(item.value, ast.Constant)
                    and isinstance(item.value.value, str)
                ):
                    held |= set(range(item.lineno, (item.end_lineno or item.lineno) + 1))
    lines = enumerate(text.splitlines(), start=1)
    return sum(
        bool(line.strip()) and not line.lstrip().startswith("#") and number not in held for number, line in lines
    )


def figures(revision: str) -> dict[str, str]:
    """Return the rows of one column."""
    texts = sources(revision)
    rooms: dict[str, int] = {}
    for name in texts:
        if not name.endswith("__init__.py"):
            rooms[_room(name)] = rooms.get(_room(name), 0) + 1
    largest = max(rooms, key=lambda room: rooms[room])
    lengths = function_lengths(texts)
    rows = {
        "modules": f"{sum(rooms.values())}",
        "rooms": f"{len(rooms)}",
        "modules of a room, mean": f"{statistics.fmean(rooms.values()):.1f}",
        "modules of a room, most": f"{rooms[largest]} (`{largest}`)",
        "groups of files that import each other": f"{len(cycles(import_graph(texts)))}",
    }
    for title, (modules, pairs) in trips(revision, texts).items():
        rows |= {f"modules on the trip: {title}": f"{modules}", f"hand-overs on the trip: {title}": f"{pairs}"}
    rows |= {
        "functions": f"{len(lengths):,}",
        "function length, median": f"{statistics.median(lengths):g}",
        "function length, 95th percentile": f"{lengths[int(0.95 * len(lengths))]}",
    }
    for folder in FOLDERS:
        own = [text for name, text in texts.items() if name.startswith(f"{folder}/")]
        rows[f"lines of code, `{folder}`"] = f"{sum(map(code_lines, own)):,}"
    rows["lines of code"] = f"{sum(map(code_lines, texts.values())):,}"
    rows["lines"] = f"{sum(len(text.splitlines()) for text in texts.values()):,}"
    return rows


def table(revisions: list[str]) -> str:
    """Return a Markdown table with a column for each revision."""
    columns = {_git("rev-parse", "--short", revision).strip(): figures(revision) for revision in revisions}
    names = list(dict.fromkeys(name for rows in columns.values() for name in rows))
    lines = [f"| | {' | '.join(f'`{commit}`' for commit in columns)} |", "|---|" + "---:|" * len(columns)]
    lines += [f"| {name} | {' | '.join(rows.get(name, '') for rows in columns.values())} |" for name in names]
    return "\n".join(lines)


def _room(name: str) -> str:
    return name.rpartition("/")[0]


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("revisions", nargs="*", default=[BEFORE, "HEAD"])
    parser.add_argument("--write", action="store_true", help="renew the table in docs/decisions/0014-house.md")
    given = parser.parse_args()
    made = table(given.revisions)
    if not given.write:
        print(made)
        return
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n\n{made}\n\n{END}{rest.partition(END)[2]}", encoding="utf-8")


if __name__ == "__main__":
    main()
