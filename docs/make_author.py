"""Writes the kernels and the table of operators in docs/author.md, from what the built-in author writes today.

python docs/make_author.py            write them
python docs/make_author.py --check    only say whether they are up to date
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.policy.author.briefs import full_size_brief  # noqa: E402

from triton_agent.policy.author.decisions import first_choice  # noqa: E402
from triton_agent.policy.author.rules.building import COMPLEX_RULES, RULES  # noqa: E402
from triton_agent.policy.author.rules.registry import GROUPS  # noqa: E402
from triton_agent.policy.author.writer import write  # noqa: E402
from triton_agent.tools.problem.problem import parse_problem  # noqa: E402

PAGE = ROOT / "docs" / "author.md"
KERNEL = re.compile(r"(<!-- kernels of (\S+), made by docs/make_author\.py -->\n).*?(<!-- end -->)", re.DOTALL)
OPERATORS = re.compile(r"(<!-- operators, made by docs/make_author\.py -->\n).*?(<!-- end -->)", re.DOTALL)


def kernels(problem: str) -> str:
    """Return the kernels of the first file that the author writes for a problem, at its full size."""
    brief = full_size_brief(parse_problem(str(ROOT / problem)))
    source = write(brief, first_choice(brief)).source
    start, end = source.index("@triton.jit"), source.index("class ModelNew")
    return f"```python\n{source[start:end].rstrip()}\n```\n"


def operators() -> str:
    """Return a table with the operators of each module of rules."""
    lines = ["| group | operators |", "|---|---|"]
    for group in GROUPS:
        rules = {**RULES, **COMPLEX_RULES} if group.__name__.endswith(".complex") else RULES
        names = sorted(name.removeprefix("aten.") for name, rule in rules.items() if rule.__module__ == group.__name__)
        lines.append(f"| `rules/{group.__name__.rpartition('.')[2]}.py` | {' '.join(f'`{name}`' for name in names)} |")
    return "\n".join(lines) + "\n"


def page(text: str) -> str:
    text = KERNEL.sub(lambda match: match[1] + kernels(match[2]) + match[3], text)
    return OPERATORS.sub(lambda match: match[1] + operators() + match[2], text)


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the kernels and the table of operators in docs/author.md.")
    parser.add_argument("--check", action="store_true", help="only say whether they are up to date")
    check = parser.parse_args().check
    text = PAGE.read_text(encoding="utf-8")
    if check and page(text) != text:
        sys.exit("docs/author.md is out of date: run python docs/make_author.py")
    PAGE.write_text(page(text), encoding="utf-8")


if __name__ == "__main__":
    main()
