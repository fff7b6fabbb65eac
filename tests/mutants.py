"""Puts small mistakes into right kernels and counts how many of them the evaluator finds.

    python -m tests.mutants [--per-file 4] [--seed 0] [--only NAME] [--seconds 600] [--json FILE]

Each mutant is a right kernel of the corpora with one change in a kernel's body: a comparison that is strict where it
was not, a term or factor left out, a mask dropped, a constant off by a hundredth. A mutant that passes is printed with
its line. Some of them compute the same as the original, so a person has to read them; what is left shows which
inputs or checks are missing. Not part of CI: a survivor is no fault by itself.
"""

from __future__ import annotations

import argparse
import ast
import collections
import copy
import dataclasses
import json
import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.grading import Specimen, corpus, grade, habits, honest, spoken
from triton_agent.tools.results import Status
from triton_agent.tools.settings import EvaluatorSettings

OTHER_COMPARISON = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.GtE}
OTHER_OPERATION = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.FloorDiv: ast.Mod,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
ONE_OF_TWO = ("maximum", "minimum", "where", "fma")
"""Calls in whose place one of the operands may stand."""
LEFT_OUT = ("exp", "exp2", "log", "sqrt", "rsqrt", "abs", "to", "sigmoid", "tanh", "trans")
"""Calls that may be left out: their operand stays."""
SETTINGS = EvaluatorSettings(device="cpu", screen=False, call_timeout_s=30.0, total_timeout_s=120.0)


@dataclasses.dataclass(frozen=True, slots=True)
class Mutant:
    """A changed kernel file."""

    text: str
    line: int
    before: str
    after: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.before}  ->  {self.after}"


def mutants_of(text: str) -> list[Mutant]:
    """Return every mutant of a file, in the order of the lines."""
    starts = [0]  # of the lines, in bytes, as ast counts columns
    data = text.encode()
    for line in data.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found: dict[str, Mutant] = {}
    for kernel in ast.walk(ast.parse(text)):
        if not isinstance(kernel, ast.FunctionDef) or "jit" not in " ".join(map(ast.unparse, kernel.decorator_list)):
            continue
        for node in (inner for statement in kernel.body for inner in ast.walk(statement)):
            for changed in changes(node):
                assert isinstance(node, ast.expr) and node.end_lineno is not None and node.end_col_offset is not None
                begin = starts[node.lineno - 1] + node.col_offset
                end = starts[node.end_lineno - 1] + node.end_col_offset
                after = ast.unparse(changed)
                whole = (data[:begin] + f"({after})".encode() + data[end:]).decode()
                found.setdefault(whole, Mutant(whole, node.lineno, ast.unparse(node), after))
    return list(found.values())


def changes(node: ast.AST) -> Iterator[ast.expr]:
    """Yield what may stand in place of this expression."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in OTHER_COMPARISON:
        other = copy.deepcopy(node)
        other.ops[0] = OTHER_COMPARISON[type(node.ops[0])]()
        yield other
    elif isinstance(node, ast.BinOp):
        if type(node.op) in OTHER_OPERATION:
            other = copy.deepcopy(node)
            other.op = OTHER_OPERATION[type(node.op)]()
            yield other
        yield node.left
        if not isinstance(node.op, ast.Div | ast.FloorDiv | ast.Sub | ast.Mod):
            yield node.right
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.Not | ast.Invert):
        yield node.operand
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
        yield ast.Constant(node.value + 1 if isinstance(node.value, int) else node.value * 1.01 or 0.01)
    elif isinstance(node, ast.Call):
        yield from _changed_calls(node)


def _changed_calls(node: ast.Call) -> Iterator[ast.expr]:
    if isinstance(node.func, ast.Attribute):
        name, owner = node.func.attr, node.func.value
        if name in ONE_OF_TWO:
            yield from node.args[name == "where" :]
        if name in LEFT_OUT:  # `tl.exp(x)` or `x.to(...)`
            yield node.args[0] if ast.unparse(owner).split(".")[0] == "tl" else owner
    for place, keyword in enumerate(node.keywords):
        if keyword.arg in ("mask", "other"):
            other = copy.deepcopy(node)
            if keyword.arg == "mask":  # no `other` without a mask
                other.keywords = [word for word in other.keywords if word.arg not in ("mask", "other")]
            else:
                other.keywords[place].value = ast.Constant(1.0 if ast.unparse(keyword.value) in ("0", "0.0") else 0.0)
            yield other


def main() -> int:
    arguments = _arguments()
    right = [item for item in (*corpus(), *honest(), *habits()) if item.expected == ("passed",)]
    right = [item for item in right if item.where != "gpu" and not item.needs]
    chosen = [item for item in right if any(part in item.name for part in arguments.only or [""])]
    chance, began = random.Random(arguments.seed), time.monotonic()
    counted, survivors = collections.Counter[str](), list[dict[str, object]]()
    with tempfile.TemporaryDirectory() as folder:
        drawn = _drawn(chosen, arguments.per_file, chance, Path(folder))
        specimens = [dataclasses.replace(item, path=path) for path, (item, _) in drawn.items()]
        for done, outcome in grade(_by_problem(specimens, chance), SETTINGS, jobs=arguments.jobs):
            item, mutant = drawn[done.path]
            counted[spoken(outcome)] += 1
            if spoken(outcome) == Status.PASSED:
                told = {"line": mutant.line, "before": mutant.before, "after": mutant.after}
                survivors.append({"kernel": item.name, **told})
                print(f"passed: {item.name}, {mutant}", flush=True)
            if arguments.seconds and time.monotonic() - began > arguments.seconds:
                break
    total = sum(counted.values())
    print(f"{total - len(survivors)} of {total} mutants found; {dict(counted.most_common())}")
    if arguments.json:
        Path(arguments.json).write_text(json.dumps({"counted": counted, "survivors": survivors}, indent=1))
    return 0


def _drawn(
    chosen: Sequence[Specimen], per_file: int, chance: random.Random, folder: Path
) -> dict[Path, tuple[Specimen, Mutant]]:
    """Write some mutants of each kernel to the folder; return by path what they are."""
    drawn: dict[Path, tuple[Specimen, Mutant]] = {}
    for item in chosen:
        every = mutants_of(item.path.read_text())
        for mutant in chance.sample(every, min(per_file, len(every))):
            path = folder / f"{item.path.stem}_{mutant.line}_{len(drawn)}.py"
            path.write_text(mutant.text)
            drawn[path] = item, mutant
    return drawn


def _by_problem(specimens: Sequence[Specimen], chance: random.Random) -> list[Specimen]:
    """Return them with the problems in random order, so that a run that is cut short has seen any."""
    problems = sorted({item.problem for item in specimens})
    chance.shuffle(problems)
    return sorted(specimens, key=lambda item: problems.index(item.problem))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--per-file", type=int, default=4, help="mutants drawn of each file; default: 4")
    parser.add_argument("--seed", type=int, default=0, help="of what is drawn")
    parser.add_argument("--only", action="append", help="part of a name; several may be given")
    parser.add_argument("--seconds", type=float, help="begin no further problem after this long")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", help="write counts and survivors there, too")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
