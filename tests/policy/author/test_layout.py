"""Breaking long lines keeps the meaning of the code."""

from __future__ import annotations

import ast

import pytest

from triton_agent.policy.author.emit.line_breaking import LIMIT, formatted, wrapped

LONG = [
    f"value = call({', '.join(f'argument_number_{i}' for i in range(12))})",
    f"    loaded = tl.load(pointer + {' + '.join(f'row_{i}[:, None] * stride_{i}' for i in range(8))}, mask=inside)",
    f"def kernel({', '.join(f'tensor_{i}_ptr' for i in range(9))}, BLOCK: tl.constexpr):",
    f"made = tl.where({' & '.join(f'(index_{i} < size_{i})' for i in range(9))}, value, 0.0)",
    f"kernel[(triton.cdiv(rows, 4), columns)](x, y, out, {', '.join(f'size_{i}' for i in range(14))}, BLOCK=1024)",
    f"        grid = (min({' * '.join(f'triton.cdiv(length_{i}, 128)' for i in range(4))}, processors),)",
]


@pytest.mark.parametrize("line", LONG)
def test_a_long_line_becomes_short_ones_that_say_the_same(line: str) -> None:
    lines = wrapped(line)
    assert len(lines) > 1 and all(len(item) <= LIMIT for item in lines)
    body = "\n    pass" if line.startswith("def") else ""
    before, after = ast.parse(line.strip() + body), ast.parse("\n".join(lines).strip() + body)
    assert ast.dump(before) == ast.dump(after)


def test_short_lines_are_left_alone() -> None:
    assert formatted(["x = 1  ", "", "    return x"]) == ["x = 1", "", "    return x"]
