"""Draws sentences at random from docstrings, messages and documents, to be read with fresh eyes.

    python -m tests.draw_sentences --seed 1 --count 50

A sentence that needs a second reading is rewritten; another draw follows until none does. The seed makes a draw
repeatable. Not drawn: code, tables, tests, the log.
"""

from __future__ import annotations

import argparse
import ast
import random
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("tools", "memory", "policy", "agent", "runs", "docs")
LEAST_WORDS = 4


def sentences() -> Iterator[tuple[str, str]]:
    """Yield each sentence with its file and line, in a fixed order."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield from _in_python(path)
    for path in (*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))):
        if path.name != "log.md":
            text = re.sub(r"```.*?```|^\|[^\n]*|^#[^\n]*|<!--.*?-->", "", path.read_text("utf-8"), flags=re.S | re.M)
            yield from _split(text, path.relative_to(ROOT).as_posix())


def _in_python(path: Path) -> Iterator[tuple[str, str]]:
    """Yield sentences of docstrings, strings beneath fields, and messages of raised errors."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        where = f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield from _split(node.value.value, where)
        elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            for argument in (*node.exc.args, *(keyword.value for keyword in node.exc.keywords)):
                if isinstance(argument, (ast.Constant, ast.JoinedStr)):
                    yield from _split(ast.unparse(argument).removeprefix("f").strip("'\""), where)


def _split(text: str, where: str) -> Iterator[tuple[str, str]]:
    for paragraph in re.split(r"\n\s*\n|\n\s*[-*] ", text):
        for sentence in re.split(r"(?<=[.!?])\s+", " ".join(paragraph.split())):
            if len(sentence.split()) >= LEAST_WORDS:
                yield where, sentence


def main() -> None:
    parser = argparse.ArgumentParser(description="Draw sentences to be read with fresh eyes.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=50)
    given = parser.parse_args()
    for where, sentence in random.Random(given.seed).sample(list(sentences()), given.count):
        print(f"{where}\n    {sentence}")


if __name__ == "__main__":
    main()
