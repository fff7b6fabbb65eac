"""Code that never runs is removed before a kernel file is judged, and nothing else is."""

from __future__ import annotations

import ast

from triton_agent.tools.candidate.screen import screen, without_idle_code

NEEDED = frozenset({"torch"})
MODEL = "class ModelNew:\n    pass\n"


def _left(source: str) -> str:
    return ast.unparse(without_idle_code(ast.parse(source), NEEDED))


def test_a_self_test_at_the_end_may_import_what_it_likes() -> None:
    source = f"{MODEL}if __name__ == '__main__':\n    import sys, subprocess\n    print(sys.path)\n"
    assert screen(source) is None
    assert "sys" not in _left(source)


def test_a_condition_that_holds_here_is_no_self_test() -> None:
    for condition in ("__name__ != '__main__'", "__name__ == '__main__' or True", "'__main__' == __name__"):
        assert screen(f"{MODEL}if {condition}:\n    import sys\n    sys.exit()\n") is not None


def test_a_self_test_with_another_branch_stays() -> None:
    assert screen(f"{MODEL}if __name__ == '__main__':\n    pass\nelse:\n    import sys\n    sys.exit()\n") is not None


def test_unused_imports_are_no_fault_and_used_ones_are() -> None:
    assert screen(f"import os\nimport numpy as np\nfrom time import sleep\n{MODEL}") is None
    assert screen(f"import os\n{MODEL}    path = os.getcwd\n") is not None
    assert screen(f"from os import *\n{MODEL}") is not None


def test_lines_stay_where_they_are() -> None:
    tree = without_idle_code(ast.parse("import os\nimport torch\n\ndef f():\n    import time\n    return 1\n"), NEEDED)
    assert [node.lineno for node in tree.body] == [1, 2, 4]
    assert ast.unparse(tree) == "pass\nimport torch\n\ndef f():\n    pass\n    return 1"
