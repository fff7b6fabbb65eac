"""The parser reads answers of every form, and its complaints say exactly what is wrong and how to fix it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from triton_agent.policy.answer import read_answer, write_answer

FILE = "import torch\n\n\nclass ModelNew(torch.nn.Module):\n    pass\n"
OTHER = "import torch\n\n\nclass ModelNew(torch.nn.Module):\n    other = True\n"
CUT = "import torch\n\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return torch.empty_like(x"
NESTED = '"""How to use it:\n\n```python\nfast = ModelNew()\n```\n\nand\n\n```\nfast(x)\n```\n"""\n' + FILE
DIFF = "@@ -1,4 +1,4 @@\n import torch\n class ModelNew(torch.nn.Module):\n-    old = 1\n+    new = 1\n"


def test_what_is_written_is_read_again() -> None:
    answer = read_answer(write_answer("One pass over the row.\nThen a store.", FILE))
    assert answer.plan == "One pass over the row.\nThen a store."
    assert answer.source == FILE
    assert answer.complaint == ""


FORMS = {
    "a fence": f"plan\n```python\n{FILE}```",
    "another label": f"plan\n```py\n{FILE}```\nthat is all",
    "a label with a file's name": f"plan\n```python:kernel.py\n{FILE}```",
    "a label in braces": f"plan\n```{{.python .numberLines}}\n{FILE}```",
    "a label that is no language of ours": f"plan\n```text\n{FILE}```",
    "tildes": f"plan\n~~~\n{FILE}~~~",
    "tildes around backticks": f"plan\n~~~python\n{FILE}~~~",
    "a longer fence": f"plan\n````python\n{FILE}````",
    "indented fences": f"plan\n  ```python\n{FILE}  ```",
    "indented altogether": "1. plan\n\n   ```python\n   " + FILE.replace("\n", "\n   ") + "```\n",
    "in a list": "1. plan\n2. ```python\n" + "".join(f"   {line}\n" for line in FILE.splitlines()) + "   ```\n",
    "after thoughts": f"<think>should I?\n```python\nclass ModelNew: wrong\n```\n</think>plan\n```python\n{FILE}```",
    "after thoughts that began before": f"so\n```python\n{OTHER}```\n</think>\nplan\n```python\n{FILE}```",
    "after a plan in tags": f"<plan>\nplan\n</plan>\n<answer>\n```python\n{FILE}```\n</answer>",
    "a tag right after the fence": f"plan\n<answer>\n```python\n{FILE}```</answer>",
    "a chat's mark right after the fence": f"plan\n```python\n{FILE}```<|im_end|>",
    "after another block": f"plan\n```python\nx = 1\n```\n```python\n{FILE}```",
    "before other blocks": f"plan\n```python\n{FILE}```\nRun it:\n```bash\npython kernel.py\n```\n```\nok\n```",
    "corrected": f"plan\n```python\n{OTHER}```\nno, rather\n```python\n{FILE}```",
    "a block that was begun twice": f"plan\n```python\nimport torch\n```python\n{FILE}```",
    "within a block of Markdown": f"```markdown\nplan\n```python\n{FILE}```\n```\n",
    "never closed, but whole": f"plan\n```python\n{FILE}",
    "never closed within tags": f"plan\n<answer>\n```python\n{FILE}</answer>",
    "cut short in the second try": f"plan\n```python\n{FILE}```\nor rather\n```python\n{CUT}",
    "a tag": f"plan\n<code>\n{FILE}</code>",
    "a tag in capitals with a language": f'plan\n<CODE lang="python">\n{FILE}</code>\nDone.',
    "a tag with CDATA": f"plan\n<file name='a.py'><![CDATA[{FILE}]]></file>",
    "a tag never closed": f"<plan>plan</plan>\n<answer>\n{FILE}",
    "JSON": json.dumps({"plan": "plan", "code": FILE}),
    "JSON in a fence": "```json\n" + json.dumps({"plan": "plan", "code": FILE}, indent=2) + "\n```",
    "JSON with a fence in it": json.dumps({"thought": "plan", "answer": f"```python\n{FILE}```"}),
    "JSON of a call": json.dumps({"name": "submit", "arguments": {"files": [FILE]}, "plan": "plan"}),
    "JSON with raw line feeds": '{"plan": "plan", "code": "' + FILE + '"}',
    "JSON and words after it": json.dumps({"plan": "plan", "code": FILE}) + "\nThis should work.",
    "a byte order mark": f"\ufeffplan\n```python\n{FILE}```",
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r"], ids=["LF", "CRLF", "CR"])
def test_the_file_is_found_whatever_the_form(form: str, ends: str) -> None:
    answer = read_answer(FORMS[form].replace("\n", ends))
    assert answer.complaint == ""
    assert (answer.source or "").strip() == FILE.strip()


@pytest.mark.parametrize("form", [form for form in FORMS if "plan" in FORMS[form]])
def test_the_plan_is_the_words_and_nothing_else(form: str) -> None:
    plan = read_answer(FORMS[form]).plan
    assert plan.splitlines()[0].endswith("plan")
    assert not any(mark in plan for mark in ("```", "<", "import", "class"))


def test_a_bare_file_is_an_answer() -> None:
    assert read_answer(FILE).source == FILE
    assert read_answer(f"I would fuse these.\n\n{FILE}").plan == "I would fuse these."
    assert read_answer(f"# A plan\n\nfrom here on it is simple.\n\n{FILE}").source == FILE


@pytest.mark.parametrize("fence", ["```", "~~~"])
def test_a_fence_within_a_docstring_closes_nothing(fence: str) -> None:
    said = f"plan\n{fence}python\n{NESTED.replace('```', fence)}{fence}\nDone."
    assert read_answer(said).source == NESTED.replace("```", fence)


def test_quotes_that_are_never_closed_do_not_swallow_what_follows() -> None:
    first = FILE + '# a lonely """ in a comment\n'
    assert read_answer(f"plan\n```python\n{first}```\nDone.\n").source == first
    assert read_answer(f"plan\n```python\n{first}```\nor\n```python\n{OTHER}```\n").source == OTHER


def test_quotes_of_a_later_block_do_not_close_those_of_an_earlier_one() -> None:
    first = FILE + '# a lonely """ in a comment\n'
    second = '"""Documented."""\n' + OTHER
    third = f'"""Documented\n\n{OTHER}'
    for last in (second, third):
        assert read_answer(f"plan\n```python\n{first}```\nor\n```python\n{last}```\nDone.").source == last


def test_a_file_in_pieces_is_put_together() -> None:
    kernel = "import torch\nimport triton\n\n\n@triton.jit\ndef double(x):\n    pass\n"
    model = "class ModelNew(torch.nn.Module):\n    pass\n"
    answer = read_answer(f"The kernel:\n```python\n{kernel}```\nThe module:\n```python\n{model}```\n")
    assert answer.source is not None
    compile(answer.source, "answer", "exec")
    assert answer.source.index("def double") < answer.source.index("class ModelNew")
    whole = read_answer(f"An idea:\n```python\n{kernel}```\nThe file:\n```python\n{FILE}```\n")
    assert whole.source == FILE, "a file that imports torch needs no other piece"


COMPLAINTS = {
    "nothing": ("", ["is empty"]),
    "blank": ("   \n", ["is empty"]),
    "thinking that never ends": ("<think>hm", ["before the thinking does", "think less"]),
    "thinking and nothing else": ("<think>hm</think>\n", ["all thinking"]),
    "a file in the thinking": (f"<think>\n```python\n{FILE}```\n</think>\nDone.", ["in the thinking only"]),
    "words": ("I give up.", ["no ```python block"]),
    "words about the class": ("I would write `class ModelNew` with care.", ["only spoken of"]),
    "the class in a sentence": ("class ModelNew should be simple\nand fast.", ["only spoken of"]),
    "another class": ("```python\nclass Model: pass\n```", ["class ModelNew", "classes there: Model"]),
    "no class": ("```python\nx = 1\n```", ["no code block defines `class ModelNew`"]),
    "the class beside the block": (f"```python\nx = 1\n```\n{FILE}", ["stands outside of them"]),
    "empty JSON": ("```json\n{}\n```", ["no ```python block"]),
    "broken JSON": ('{"code": "class ModelNew(torch.nn.Module): pass', ["JSON", "broken", "without JSON"]),
    "a diff": (f"Change this:\n```diff\n{DIFF}```", ["line 3 begins a diff", "not applied"]),
    "a diff that calls itself Python": (f"```python\n{DIFF}```", ["line 2 begins a diff"]),
    "a diff as it is": (f"diff --git a/k.py b/k.py\n{DIFF}", ["line 1 begins a diff"]),
    "search and replace": ("<<<<<<< SEARCH\nx\n=======\nclass ModelNew(x): pass\n>>>>>>> REPLACE", ["begins a diff"]),
    "cut short": (f"plan\n```python\n{CUT}", ["line 2 is never closed", "'(' was never closed", "cut short"]),
    "cut short before the class": ("plan\n\n```python\nimport torch\n", ["line 3 is never closed", "cut short"]),
    "cut short in a tag": (f"plan\n<code>\n{CUT}", ["<code> tag", "line 2 is never closed", "cut short"]),
    "cut short in a docstring": ('```python\nclass ModelNew(nn.Module):\n    """It', ["unterminated", "cut short"]),
}


@pytest.mark.parametrize("case", COMPLAINTS)
def test_what_is_wrong_is_named_and_how_to_mend_it(case: str) -> None:
    text, words = COMPLAINTS[case]
    answer = read_answer(text)
    assert answer.source is None
    assert all(word in answer.complaint for word in words), answer.complaint
    assert "one complete file with `class ModelNew` in one ```python block" in answer.complaint
    assert len(answer.complaint) < 600


def test_a_plan_holds_no_code() -> None:
    text = f"First this:\n```python\nx = 1\n```\nthen that.\n```python\n{FILE}```"
    assert "x = 1" not in read_answer(text).plan


MODEL = "class ModelNew(x):\n"
PIECES = [
    *("a", " ", "\n", "\t\n", "\r", "`", "```\n", "```python\n", "```python ", "~~~\n", "~~~a\n", "    ```\n", "1. "),
    *("- \t", '"""', '"""\n', "'''\n```\n", "<think>", "<think>\n", "</think>", "<think></think>", "<code>", "<code "),
    *("</code>", "<answer>\n", "<plan>", "{", '{"a":', "[", '[{"a":"ModelNew', "@@ -1 +1 @@\n", "@@ ", "<<<<<<< "),
    *(
        "from a ",
        "import a\n",
        "class ",
        "class ModelNew",
        MODEL,
        f"```\n{MODEL}",
        f"```python\n{MODEL}",
        f"<code>{MODEL}",
    ),
    *('```\n"""\n', "\ud800", "\x00", "\ufeff", "ModelNew =", " ModelNew\n", "</answer>", "*** Begin Patch", "```<"),
]
READ_ALL = """
import json, sys
from triton_agent.policy.answer import read_answer
model, pieces = json.load(sys.stdin)
for piece in pieces:
    whole = (piece * (1_000_000 // len(piece) + 1))[:1_000_000]
    for text in (whole, "{ModelNew```python\\n" + whole[:200_000] + model):
        answer = read_answer(text)
        assert (answer.source is None) == bool(answer.complaint), piece
"""


@pytest.mark.slow
def test_a_megabyte_of_anything_is_read_without_getting_stuck() -> None:
    """Quadratic time would take hours; the limit leaves room for slow machines."""
    given = json.dumps([MODEL, PIECES])
    done = subprocess.run([sys.executable, "-c", READ_ALL], input=given, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
