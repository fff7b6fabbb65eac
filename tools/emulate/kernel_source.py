"""Rewrites a kernel's source so that Python runs it with the compiler's semantics.

The stock rewriting covers only assignments. Elsewhere Python's own semantics apply: `a and b` on blocks gives `b`,
`not a` a single boolean, `if block:` is always true, `min(block, 0)` and `0 <= i < n` do not compare elementwise. Here
`and`, `or`, `not`, `min` and `max` work as in the compiler, and code that the compiler refuses is refused. Line numbers
stay those of the candidate's file, and nothing is added to its globals.
"""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import triton.language as tl

_LANGUAGE = "__language__"
"""Name by which the rewritten kernel finds `KernelLanguage`: a closure variable, not visible elsewhere."""

_EXTREMES = {"min": "minimum", "max": "maximum"}


class WholeConstant(int):
    """A loop variable, or an argument of one, which the compiler takes for a constant: an int with a tensor's `to`.

    So are numbers that are computed from it.
    """

    _semantic: Any = None

    def to(self, dtype: Any, **_: Any) -> Any:
        return self._semantic.cast(self._semantic.to_tensor(int(self)), tl.core._unwrap_if_constexpr(dtype))


def _keeping_kind(name: str) -> Callable[..., Any]:
    """Return an operator of integers whose whole results are of the kind of the first operand."""
    operator = getattr(int, name)

    def operated(self: WholeConstant, *others: Any) -> Any:
        result = operator(self, *others)
        return type(self)(result) if type(result) is int else result

    return operated


for _name in ("add", "radd", "sub", "rsub", "mul", "rmul", "floordiv", "rfloordiv", "mod", "rmod", "neg"):
    setattr(WholeConstant, f"__{_name}__", _keeping_kind(f"__{_name}__"))


class KernelLanguage:
    """Functions that rewritten kernels call in place of Python's operators."""

    def __init__(self, semantic: Any) -> None:
        self._semantic = semantic
        self.constant = type("WholeConstant", (WholeConstant,), {"_semantic": semantic})

    def assigned(self, value: Any) -> Any:
        if type(value) is tuple:
            return tuple(map(self.assigned, value))
        return value if isinstance(value, WholeConstant) else self._semantic.to_tensor(value, False)

    def every(self, *operands: Callable[[], Any]) -> Any:
        return self._joined(operands, False, self._semantic.logical_and)

    def some(self, *operands: Callable[[], Any]) -> Any:
        return self._joined(operands, True, self._semantic.logical_or)

    def _joined(self, operands: Iterable[Callable[[], Any]], decisive: bool, join: Callable[..., Any]) -> Any:
        """Join operands: constants short-circuit; tensors are all evaluated and joined elementwise."""
        tensors, value = [], None
        for operand in operands:
            value = operand()
            if isinstance(value, tl.tensor):
                tensors.append(value)
            elif bool(value) is decisive:
                return value
        return functools.reduce(join, tensors) if tensors else value

    def negated(self, value: Any) -> Any:
        return self._semantic.not_(value) if isinstance(value, tl.tensor) else not value

    def truth(self, value: Any) -> Any:
        if isinstance(value, tl.tensor) and value.type.is_block():
            raise ValueError("a block of values cannot be a condition; use tl.where, or reduce it to one value")
        if isinstance(value, tl.tensor):
            return tl.tensor(self._semantic.builder.create_truth(value.handle), tl.int1)
        return value

    def left_by(self, condition: Any, value: Any) -> Any:
        """Return what an `if` left in a variable that it assigns somewhere."""
        if isinstance(condition, tl.tensor) and isinstance(value, tl.tensor):
            return tl.tensor(self._semantic.builder.create_left_by(condition.handle, value.handle), value.type)
        return value

    def goes_on(self, value: Any) -> Any:
        """Return the condition of a `while` loop, and report the test, since a program may be waiting for others."""
        builder = self._semantic.builder
        for programs in (builder.interleaving, builder.together):
            if programs is not None:
                programs.loop_tested()
        return self.truth(value)

    def minimum(self, *values: Any) -> Any:
        return self._extreme(min, tl.minimum, values)

    def maximum(self, *values: Any) -> Any:
        return self._extreme(max, tl.maximum, values)

    def _extreme(self, of_numbers: Callable[..., Any], of_tensors: Callable[..., Any], values: Any) -> Any:
        is_symbolic = any(isinstance(value, tl.tensor) for value in values)
        return functools.reduce(of_tensors, values) if is_symbolic else of_numbers(*values)

    def indices(self, values: Any) -> Iterator[Any] | Any:
        return map(self.constant, values) if isinstance(values, range) else values


def rewrite(function: Any, language: KernelLanguage) -> Any:
    """Return `function` with the compiler's semantics, or unchanged if its source is not available."""
    try:
        lines, first_line = inspect.getsourcelines(function)
    except (OSError, TypeError):
        return function
    module = ast.parse(textwrap.dedent("".join(lines)))
    definition = module.body[0]
    if not isinstance(definition, ast.FunctionDef):
        return function
    ast.increment_lineno(module, first_line - 1)
    _strip_signature(definition)
    _Rewriter(function).generic_visit(definition)
    return _define(definition, function, language)


def _strip_signature(definition: ast.FunctionDef) -> None:
    """Remove decorators, defaults and annotations, which were already evaluated once."""
    definition.decorator_list = []
    definition.returns = None
    arguments = definition.args
    arguments.defaults = []
    arguments.kw_defaults = [None] * len(arguments.kwonlyargs)
    for argument in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]:
        argument.annotation = None


def _define(definition: ast.FunctionDef, function: Any, language: KernelLanguage) -> Any:
    """Compile the definition inside a factory whose parameters are the variables it closes over."""
    closure = inspect.getclosurevars(function).nonlocals
    parameters = [ast.arg(arg=name) for name in (_LANGUAGE, *closure)]
    module = ast.parse(f"def __factory__():\n    return {definition.name}")
    factory = module.body[0]
    assert isinstance(factory, ast.FunctionDef)
    factory.args.args = parameters
    factory.body.insert(0, definition)
    ast.fix_missing_locations(module)
    namespace: dict[str, Any] = {}
    exec(compile(module, function.__code__.co_filename, "exec", dont_inherit=True), function.__globals__, namespace)
    rewritten: types.FunctionType = namespace["__factory__"](language, *closure.values())
    rewritten.__defaults__, rewritten.__kwdefaults__ = function.__defaults__, function.__kwdefaults__
    return rewritten


class _Rewriter(ast.NodeTransformer):
    def __init__(self, function: Any) -> None:
        names = function.__code__.co_varnames
        self._hidden = set(names) | set(function.__globals__)

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        if len(node.targets) > 1:
            raise _refusal(node, "a chained assignment is not supported")
        self.generic_visit(node)
        node.value = _call("assigned", node.value)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        """Keep a constant only for `x: tl.constexpr = ...`; otherwise treat it as a plain assignment."""
        self.generic_visit(node)
        if node.value is not None and not ast.unparse(node.annotation).endswith("constexpr"):
            node.value = _call("assigned", node.value)
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        name = "every" if isinstance(node.op, ast.And) else "some"
        return ast.copy_location(_call(name, *(_deferred(value) for value in node.values)), node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        return ast.copy_location(_call("negated", node.operand), node) if isinstance(node.op, ast.Not) else node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        if len(node.ops) > 1:
            raise _refusal(node, "a chained comparison is not supported")
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name in _EXTREMES and name not in self._hidden and not node.keywords:
            return ast.copy_location(_call(_EXTREMES[name], *node.args), node)
        return node

    def visit_For(self, node: ast.For) -> ast.AST:
        self.generic_visit(node)
        node.iter = _call("indices", node.iter)
        return node

    def _visit_test(self, node: Any) -> ast.AST:
        self.generic_visit(node)
        node.test = _call("truth", node.test)
        return node  # type: ignore[no-any-return]

    visit_IfExp = visit_Assert = _visit_test

    def visit_If(self, node: ast.If) -> list[ast.AST]:
        """Keep the condition, and pass each variable that a branch assigns to `left_by` afterwards, if it exists."""
        assigned = _assigned_in([*node.body, *node.orelse])
        self._visit_test(node)
        condition = f"__condition_{node.lineno}_{node.col_offset}__"
        kept = ast.Assign(targets=[ast.Name(id=condition, ctx=ast.Store())], value=node.test)
        node.test = ast.Name(id=condition, ctx=ast.Load())
        told = [
            ast.parse(_LEFT_BY.format(language=_LANGUAGE, name=name, condition=condition)).body[0] for name in assigned
        ]
        for inner in (kept, *(inner for statement in told for inner in ast.walk(statement))):
            ast.copy_location(inner, node)
        return [ast.fix_missing_locations(it) for it in (kept, node, *told)]

    def visit_While(self, node: ast.While) -> ast.AST:
        self.generic_visit(node)
        node.test = _call("goes_on", node.test)
        return node


_LEFT_BY = "try: {name} = {language}.left_by({condition}, {name})\nexcept NameError: pass"


def _assigned_in(statements: Sequence[ast.stmt]) -> list[str]:
    nodes = [node for statement in statements for node in ast.walk(statement)]
    return sorted({node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)})


def _call(name: str, *arguments: ast.expr) -> ast.Call:
    function = ast.Attribute(value=ast.Name(id=_LANGUAGE, ctx=ast.Load()), attr=name, ctx=ast.Load())
    call = ast.Call(func=function, args=list(arguments), keywords=[])
    return ast.fix_missing_locations(ast.copy_location(call, arguments[0]))


def _deferred(value: ast.expr) -> ast.Lambda:
    nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    return ast.copy_location(ast.Lambda(args=nothing, body=value), value)


def _refusal(node: ast.stmt | ast.expr, reason: str) -> SyntaxError:
    return SyntaxError(reason, (None, node.lineno, node.col_offset + 1, None))
