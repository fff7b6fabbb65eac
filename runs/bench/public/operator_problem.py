"""Converts a function and a test that calls it, the form of TritonBench's operators, to a problem file.

The part before the line of `#` becomes the reference unchanged. One call of the test is selected: its arguments become
the inputs, literals among them become part of the reference, and the statements that make the inputs are kept. Sizes
are then numbers in `get_inputs()`, where they can be varied, and seeds set by the test are gone. A function that
returns nothing is taken to write into its arguments, which the reference then returns.

Nothing is executed here. The test's comparison of results is ignored, and its sizes, which are small, are kept.
"""

from __future__ import annotations

import ast
import copy
import re
from typing import TypeVar

from triton_agent.runs.bench.public.operator_calls import (
    Site,
    callables,
    called,
    halves,
    literal,
    names_imported,
    names_read,
    names_rebound,
    names_touched,
    sites,
    tests_in,
    unfit,
)
from triton_agent.tools.problem.source import SourceFile


def operator_problem(source: SourceFile, *, call: int = 1) -> str:
    """Write a problem file for the operator in `source`, with the inputs of call number `call` of its test."""
    operator_text, test = halves(source)
    operator = ast.parse(operator_text)
    found = list(sites(test, callables(source, operator)))
    if not found:
        raise unfit(source, "its test calls no function of the file outside loops and branches")
    names = [called(site.call) for site in found]
    name = source.path.stem if source.path.stem in names else names[-1]  # helpers come before the operator
    chosen = [site for site in found if called(site.call) == name]
    if not 1 <= call <= len(chosen):
        raise unfit(source, f"its test has no call {call} of {name}; it has {len(chosen)}")
    return _Writer(source, operator, test, chosen[call - 1], call).text(operator_text)


class _Writer:
    """Writes the problem file for one call."""

    def __init__(self, source: SourceFile, operator: ast.Module, test: ast.Module, site: Site, number: int) -> None:
        self.source = source
        self.test = test
        self.site = site
        self.number = number
        self.names = callables(source, operator)
        self.definition = self.names[called(site.call)]
        self.imported = names_imported(operator, test)
        self.parameters: list[str] = []
        self.given: list[ast.expr] = []

    def text(self, operator_text: str) -> str:
        call = self._call_of_parameters()
        if not self.given:
            raise unfit(self.source, f"its test hands {called(self.site.call)} nothing but literals")
        given = ", ".join(ast.unparse(_on_cpu(value)) for value in self.given)
        making = [*map(_lines, self._preparation()), [f"return [{given}]"]]
        parts = [
            [f"# {self.source.path.stem} on the inputs of call {self.number} in its test. Its own text stands first;"],
            ["# what follows was made by triton-agent of the test's statements up to that call."],
            ["", *operator_text.splitlines(), "", ""],
            *self._kept_from_test(),
            ["", ""],
            ["class Model(torch.nn.Module):", f"    def forward(self, {', '.join(self.parameters)}):"],
            [f"        {line}" for line in self._forward(call)],
            ["", "", "def get_inputs():"],
            [f"    {line}" for lines in making for line in lines],
            ["", "", "def get_init_inputs():", "    return []"],
        ]
        return "\n".join(line for lines in parts for line in lines) + "\n"

    def _forward(self, call: str) -> list[str]:
        if not self.site.result_unused:
            return [f"return {call}"]
        return [call, f"return ({', '.join(self.parameters)},)"]

    def _call_of_parameters(self) -> str:
        """Return the call, with parameters of `forward` in place of arguments that are not literals."""
        call = copy.deepcopy(self.site.call)
        if any(isinstance(argument, ast.Starred) for argument in call.args) or any(
            k.arg is None for k in call.keywords
        ):
            raise unfit(self.source, "its test passes arguments by * or **")
        own = [argument.arg for argument in self.definition.args.args] if self.definition else []
        call.args = [self._parameter(a, own[i] if i < len(own) else "") for i, a in enumerate(call.args)]
        for keyword in call.keywords:
            keyword.value = self._parameter(keyword.value, keyword.arg or "")
        return ast.unparse(call)

    def _parameter(self, value: ast.expr, name: str) -> ast.expr:
        constant = literal(value, self.site.before)
        if constant is not None:
            return constant
        name = name or (value.id if isinstance(value, ast.Name) else f"x{len(self.given)}")
        while name in (*self.parameters, called(self.site.call), "self"):
            name += "_"
        self.parameters.append(name)
        self.given.append(value)
        return ast.Name(id=name, ctx=ast.Load())

    def _preparation(self) -> list[ast.stmt]:
        """Return the statements before the call on which its inputs depend."""
        needed = set().union(*(names_read(value) for value in self.given)) - self.imported
        kept: list[ast.stmt] = []
        for statement in reversed(self.site.before):
            if names_touched(statement) & needed and not self._calls_operator(statement):
                kept.append(statement)
                needed -= names_rebound(statement)
                needed |= names_read(statement) - self.imported
        return kept[::-1]

    def _calls_operator(self, statement: ast.stmt) -> bool:
        """Return whether the statement calls an operator that writes its outputs into its arguments."""
        call = statement.value if isinstance(statement, ast.Expr) else None
        return isinstance(call, ast.Call) and called(call) in self.names

    def _kept_from_test(self) -> list[list[str]]:
        """Return the imports of the test, and its definitions other than tests."""
        imports = [_lines(node) for node in self.test.body if isinstance(node, (ast.Import, ast.ImportFrom))]
        tests = tests_in(self.test)
        others = [
            node for node in self.test.body if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node not in tests
        ]
        own = [] if ["import torch"] in imports else [["import torch"]]
        return [*own, *imports, *(["", "", *_lines(node)] for node in others)]


def _lines(node: ast.stmt) -> list[str]:
    return ast.unparse(ast.fix_missing_locations(_on_cpu(node))).splitlines()


class _OnCpu(ast.NodeTransformer):
    """Makes inputs on the CPU. The checker moves them to the GPU."""

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        is_gpu = isinstance(node.value, str) and re.fullmatch(r"cuda(:\d+)?", node.value)
        return ast.copy_location(ast.Constant(value="cpu"), node) if is_gpu else node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "cuda" and not node.args and not node.keywords:
            return node.func.value
        return node


_Node = TypeVar("_Node", bound=ast.AST)


def _on_cpu(node: _Node) -> _Node:
    changed: _Node = _OnCpu().visit(copy.deepcopy(node))
    return changed
