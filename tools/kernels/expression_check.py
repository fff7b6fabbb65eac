"""Checks the expressions of one kernel function: names, attributes and calls, each against a list.

A name is a parameter, a variable, a captured value, a name of the language, or one of a few builtins; nothing else is
reachable. Functions are not values: they are called, or passed to a parameter that is called, and a variable never
holds one. The target of each call is therefore always known here.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator, Mapping
from typing import Final, NoReturn

from triton_agent.tools.kernels.inline_assembly import fault_of_assembly, fault_of_constraints
from triton_agent.tools.kernels.kernel import (
    INTEGER_BOUND,
    MAX_SOURCE,
    FunctionReference,
    JitFunction,
    KernelSet,
    LanguageName,
    NotKernelLanguage,
    Value,
    plain_name,
)
from triton_agent.tools.kernels.language_names import BUILTINS, CALLABLE_CLASSES, MEMBERS, METHODS, child, table
from triton_agent.tools.kernels.values import MAX_EXPONENT, bare, calculated
from triton_agent.tools.parsing import name_parts, parse
from triton_agent.tools.processes.tensors import Malformed

MAX_DEPTH: Final = 120
"""Deepest syntax tree of a function."""
MAX_NODES: Final = 50_000
MAX_REASON: Final = 400
"""Maximum number of characters of a refusal."""

_TL = "triton.language"
_OPERATORS = (
    ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow,
    ast.LShift, ast.RShift, ast.BitAnd, ast.BitOr, ast.BitXor,
)  # fmt: skip
_COMPARISONS = (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Is, ast.IsNot)
_FUNCTION_POSITIONS = {
    "reduce": (2, "combine_fn"),
    "associative_scan": (2, "combine_fn"),
    "map_elementwise": (0, "scalar_fn"),
}
"""Position and name of a parameter that takes a function. In methods of the same name the position is one less."""
_ASSEMBLY_PARAMETERS = ("asm", "constraints", "args", "dtype", "is_pure", "pack")
_WORDS: Final = {
    "FunctionDef": "a nested function",
    "ClassDef": "a class",
    "Import": "import",
    "ImportFrom": "import",
    "With": "with",
    "Try": "try",
    "Raise": "raise",
    "Delete": "del",
    "Global": "global",
    "Nonlocal": "nonlocal",
    "Break": "break (Triton has none; use a flag in a while loop)",
    "Continue": "continue (Triton has none; use an if)",
    "For": "else after a loop",
    "While": "else after a loop",
    "Assign": "a chained assignment",
    "Lambda": "a lambda",
    "ListComp": "a comprehension",
    "SetComp": "a comprehension",
    "DictComp": "a comprehension",
    "GeneratorExp": "a comprehension",
    "JoinedStr": "an f-string outside of a message",
    "NamedExpr": "an assignment in an expression (:=)",
    "Subscript": "an element of a tensor",
    "Attribute": "an attribute",
    "Dict": "a dictionary",
    "Set": "a set",
    "Starred": "an argument with a *",
}

UNKNOWN: Final = object()
"""The meaning of an expression that is not a name: a value, never a function."""


class Local:
    """The meaning of a variable or a value parameter: a value, never a function."""


class FunctionParameter:
    """The meaning of a parameter that is called, or passed on to a function that calls it."""


class Builtin:
    def __init__(self, name: str) -> None:
        self.name = name


def words_for(node: ast.AST) -> str:
    """Return the name of a syntax element for a message."""
    return _WORDS.get(type(node).__name__, type(node).__name__)


class ExpressionCheck:
    """Checks expressions, and resolves the names of the function."""

    _callable_methods = METHODS

    def __init__(self, function: JitFunction, kernels: KernelSet, called: dict[str, frozenset[str]]) -> None:
        """`called` holds, for each function checked before, the parameters that it calls."""
        self._function = function
        self._kernels = kernels
        self._called: Mapping[str, frozenset[str]] = called
        self._globals = dict(function.globals)
        self._definition = self._parsed()
        self._parameters = frozenset(parameter.name for parameter in function.parameters)
        self._constexprs = frozenset(p.name for p in function.parameters if p.annotation == "constexpr")
        self._stored = [n for n in self._body() if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)]
        self._local = self._parameters | {node.id for node in self._stored}
        annotated = [n for n in self._body() if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)]
        self._constant_lines = {n.target.id: n.lineno for n in sorted(annotated, key=lambda n: n.lineno)}  # type: ignore[union-attr]
        self._texts, self._tuples = self._find_texts_and_tuples()
        self._function_parameters: frozenset[str] = frozenset()

    def _parsed(self) -> ast.FunctionDef:
        source = self._function.source
        if len(source) > MAX_SOURCE:
            self._refuse(None, f"its source has more than {MAX_SOURCE} characters")
        if any(character in source for character in "\r\f\v\0"):
            self._refuse(None, "its source holds control characters")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = parse(source)
        except SyntaxError as error:
            self._refuse_line(error.lineno or 1, f"a syntax error: {error.msg}")
        except (ValueError, MemoryError, RecursionError):
            self._refuse(None, "its source cannot be parsed")
        if len(tree.body) != 1 or not isinstance(tree.body[0], ast.FunctionDef) or not source.startswith("def "):
            self._refuse(None, "its source is not a single function definition")
        definition = tree.body[0]
        has_more = definition.decorator_list or getattr(definition, "type_params", None)
        if has_more or definition.name != self._function.name:
            self._refuse(None, "its source has decorators, type parameters, or another name")
        layer: list[ast.AST] = [definition]
        depth = count = 0
        while layer:
            depth, count = depth + 1, count + len(layer)
            if depth > MAX_DEPTH or count > MAX_NODES:
                self._refuse(layer[0], "its source is nested too deeply or too long")
            layer = [inner for node in layer for inner in ast.iter_child_nodes(node)]
        return definition

    def _body(self) -> Iterator[ast.AST]:
        """Yield every node of the body. The signature in the text is not used."""
        for statement in self._definition.body:
            yield from ast.walk(statement)

    def _find_texts_and_tuples(self) -> tuple[set[str], set[str]]:
        """Return the names that are known to hold strings, and those known to hold tuples."""
        held: list[tuple[str, object]] = [(name, bare(value)) for name, value in self._function.globals]
        held += [(p.name, bare(p.default)) for p in self._function.parameters if p.has_default]
        texts = {name for name, value in held if isinstance(value, str)}
        tuples = {name for name, value in held if isinstance(value, tuple)}
        for node in self._body():
            if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
                is_text = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    if isinstance(target, ast.Name) and is_text:
                        texts.add(target.id)
                    elif isinstance(target, ast.Name) and isinstance(node.value, (ast.Tuple, ast.List)):
                        tuples.add(target.id)
        return texts, tuples

    def _find_function_parameters(self) -> frozenset[str]:
        """Return the parameters that are called here, or passed to a function that calls them."""
        found: set[str] = set()
        for node in self._body():
            if not isinstance(node, ast.Call):
                continue
            if isinstance(node.func, ast.Name) and node.func.id in self._parameters:
                found.add(node.func.id)
            for argument in self._function_arguments(node):
                if isinstance(argument, ast.Name) and argument.id in self._parameters:
                    found.add(argument.id)
        for stored in self._stored:
            if stored.id in found:
                self._refuse(stored, f"{stored.id} is called as a function and assigned to")
        return frozenset(found)

    def _function_arguments(self, call: ast.Call) -> list[ast.expr]:
        """Return the arguments of a call that the called function will call."""
        meaning = self._meaning(call.func)
        positions: list[tuple[int, str]] = []
        if isinstance(meaning, FunctionReference):
            names = [parameter.name for parameter in self._kernels.functions[meaning.identity].parameters]
            positions = [(names.index(name), name) for name in self._called[meaning.identity]]
        elif isinstance(meaning, LanguageName):
            last = meaning.path.rpartition(".")[2]
            positions = [_FUNCTION_POSITIONS[last]] if last in _FUNCTION_POSITIONS else []
        elif isinstance(call.func, ast.Attribute) and call.func.attr in _FUNCTION_POSITIONS:
            position, name = _FUNCTION_POSITIONS[call.func.attr]
            positions = [(position - 1, name)]
        if positions and any(isinstance(argument, ast.Starred) for argument in call.args):
            self._refuse(call, "arguments with a * cannot be passed to a function that takes a function")
        return [
            argument
            for position, name in positions
            for argument in [*call.args[position : position + 1], *(k.value for k in call.keywords if k.arg == name)]
        ]

    def _value(self, node: ast.expr) -> None:
        match node:
            case ast.Constant(value=int() as value) if abs(value) >= INTEGER_BOUND:
                self._refuse(node, "an integer of more than 64 bits")
            case ast.Constant(value=None | bool() | int() | float() | str()):
                pass
            case ast.Constant():
                self._refuse(node, f"a constant of type {type(node.value).__name__} cannot be used in a kernel")
            case ast.Name() | ast.Attribute():
                self._name(node)
            case ast.BinOp():
                self._operation(node, node.left, node.op, node.right)
                self._value(node.left)
                self._value(node.right)
            case ast.UnaryOp(op=ast.UAdd() | ast.USub() | ast.Invert()):
                self._value(node.operand)
            case ast.UnaryOp(op=ast.Not()):
                self._condition(node.operand)
            case ast.BoolOp():
                for operand in node.values:
                    self._value(operand)
            case ast.Compare():
                if self._is_test(node):
                    return
                for operator in node.ops:
                    if not isinstance(operator, _COMPARISONS):
                        self._refuse(node, "`in` cannot be used in a kernel")
                for operand in (node.left, *node.comparators):
                    self._value(operand)
            case ast.IfExp():
                self._condition(node.test)
                self._value(node.body)
                self._value(node.orelse)
            case ast.Call():
                self._call(node)
            case ast.Subscript(ctx=ast.Load()):
                self._value(node.value)
                self._index(node.slice)
            case ast.Tuple() | ast.List():
                for item in node.elts:
                    self._value(item)
            case _:
                self._refuse(node, f"{words_for(node)} cannot be used in a kernel")

    def _index(self, node: ast.expr) -> None:
        items = node.elts if isinstance(node, ast.Tuple) else [node]
        for item in items:
            if isinstance(item, ast.Slice):
                for bound in filter(None, (item.lower, item.upper, item.step)):
                    self._value(bound)
            else:
                self._value(item)

    def _name(self, node: ast.Name | ast.Attribute) -> None:
        """Check a name or attribute that is used as a value."""
        meaning = self._meaning(node)
        if isinstance(meaning, FunctionParameter):
            self._refuse(node, f"{ast.unparse(node)} is a function; it can be called, passed on or compared with None")
        if isinstance(meaning, LanguageName):
            if table()[meaning.path].role not in ("dtype", "constant"):
                self._refuse(node, f"{ast.unparse(node)} is not a value; it can only be called")
            return
        if isinstance(meaning, (Builtin, FunctionReference)):
            self._refuse(node, f"{ast.unparse(node)} is a function and cannot be used as a value")
        if meaning is UNKNOWN:
            assert isinstance(node, ast.Attribute)
            if node.attr not in MEMBERS:
                hint = "; it is a method, so call it" if node.attr in METHODS else ""
                self._refuse(node, f"the attribute .{node.attr} cannot be used in a kernel{hint}")
            self._value(node.value)

    def _is_test(self, node: ast.expr) -> bool:
        """Return True if the expression tests whether a function parameter was given: `f`, `f is (not) None`."""
        match node:
            case ast.Compare(left=ast.Name() as left, ops=[ast.Is() | ast.IsNot() | ast.Eq() | ast.NotEq()]):
                right = node.comparators[0]
                is_none = isinstance(right, ast.Constant) and right.value is None
                return is_none and isinstance(self._meaning(left), FunctionParameter)
            case ast.Name():
                return isinstance(self._meaning(node), FunctionParameter)
        return False

    def _condition(self, node: ast.expr) -> None:
        if isinstance(node, ast.BoolOp):
            for operand in node.values:
                self._condition(operand)
        elif not self._is_test(node):
            self._value(node)

    def _message(self, node: ast.expr) -> None:
        """Check an argument that is printed: a value, or a string with plain names in it."""
        if not isinstance(node, ast.JoinedStr):
            self._value(node)
            return
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                if part.format_spec is not None or not isinstance(part.value, ast.Name):
                    self._refuse(node, "an f-string in a kernel holds plain names only, without a format")
                self._value(part.value)

    def _operation(self, node: ast.AST, left: ast.expr, operator: ast.operator, right: ast.expr) -> None:
        """Refuse operators that a kernel does not need and that can build huge values."""
        if not isinstance(operator, _OPERATORS):
            self._refuse(node, "this operator cannot be used in a kernel")
        kinds = {self._kind(left), self._kind(right)}
        if "text" in kinds or ("tuple" in kinds and not isinstance(operator, ast.Add)):
            self._refuse(node, "arithmetic on strings or tuples cannot be used in a kernel")
        if isinstance(operator, ast.Pow):
            exponent = self._folded(right, node)
            is_nested = any(isinstance(inner, ast.Pow) for inner in ast.walk(left))
            if exponent is None or abs(exponent) > MAX_EXPONENT or is_nested:
                self._refuse(node, f"the exponent of ** is a constant up to {MAX_EXPONENT}; use tl.exp2 or a shift")
        if isinstance(operator, (ast.LShift, ast.RShift)):
            shift = self._folded(right, node)
            if shift is not None and not 0 <= shift <= MAX_EXPONENT:
                self._refuse(node, f"a shift by more than {MAX_EXPONENT}")
        if isinstance(node, ast.BinOp):
            self._folded(node, node)

    def _kind(self, node: ast.expr) -> str:
        """Return `text` or `tuple` if the expression is known to be one, else ""."""
        if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str)):
            return "text"
        if isinstance(node, (ast.Tuple, ast.List)):
            return "tuple"
        if isinstance(node, ast.BinOp):
            return "tuple" if "tuple" in (self._kind(node.left), self._kind(node.right)) else ""
        if isinstance(node, ast.Name) and node.id in self._texts:
            return "text"
        return "tuple" if isinstance(node, ast.Name) and node.id in self._tuples else ""

    def _folded(self, node: ast.expr, where: ast.AST) -> int | float | None:
        """Return the value of a constant numeric expression, or None if it is not constant; refuse huge values."""
        result: int | float | None = None
        match node:
            case ast.Constant(value=int() | float()):
                result = node.value  # type: ignore[assignment]
            case ast.Name():
                value = None if node.id in self._local else bare(self._globals.get(node.id))
                result = value if isinstance(value, (int, float)) else None
            case ast.UnaryOp(op=ast.USub()):
                inner = self._folded(node.operand, where)
                result = None if inner is None else -inner
            case ast.BinOp():
                left, right = self._folded(node.left, where), self._folded(node.right, where)
                result = None if left is None or right is None else calculated(node.op, left, right)
        if isinstance(result, int) and abs(result) >= INTEGER_BOUND:
            self._refuse(where, "a constant of more than 64 bits")
        return result

    def _call(self, node: ast.Call) -> None:
        meaning = self._meaning(node.func)
        name = ast.unparse(node.func)
        match meaning:
            case Builtin():
                self._builtin_call(node, meaning.name)
            case FunctionReference():
                self._arguments(node)
            case LanguageName():
                self._language_call(node, meaning.path)
            case FunctionParameter():
                self._arguments(node)
            case _:
                if meaning is not UNKNOWN or not isinstance(node.func, ast.Attribute):
                    self._refuse(node, f"{name} is not a function that a kernel can call")
                if node.func.attr not in self._callable_methods:
                    self._refuse(node, f"the method .{node.func.attr} cannot be used in a kernel")
                if self._kind(node.func.value) == "text":
                    self._refuse(node, "methods of strings cannot be used in a kernel")
                self._value(node.func.value)
                self._arguments(node)

    def _builtin_call(self, node: ast.Call, name: str) -> None:
        if node.keywords or any(isinstance(argument, ast.Starred) for argument in node.args) or name == "range":
            self._refuse(node, f"{name} takes plain arguments in a kernel, and range stands in a for loop")
        for argument in node.args:
            self._message(argument) if name == "print" else self._value(argument)

    def _language_call(self, node: ast.Call, path: str) -> None:
        role, last = table()[path].role, path.rpartition(".")[2]
        if role not in ("function", "direct") and f"{_TL}.{last}" not in CALLABLE_CLASSES:
            self._refuse(node, f"{ast.unparse(node.func)} cannot be called in a kernel")
        if role == "direct" and last in ("static_print", "device_print", "static_assert", "device_assert"):
            allowed = {"hex"} if last == "device_print" else {"mask"} if last == "device_assert" else set()
            if any(keyword.arg not in allowed for keyword in node.keywords):
                self._refuse(node, f"tl.{last} takes no such keyword in a kernel")
            for argument in node.args:
                if isinstance(argument, ast.Starred):
                    self._refuse(node, f"tl.{last} takes no arguments with a *")
                self._message(argument)
            for keyword in node.keywords:
                self._value(keyword.value)
            return
        if last == "inline_asm_elementwise":
            self._assembly(node)
        self._arguments(node)

    def _assembly(self, node: ast.Call) -> None:
        given = dict(zip(_ASSEMBLY_PARAMETERS, node.args)) | {k.arg: k.value for k in node.keywords if k.arg}
        is_plain = not any(isinstance(argument, ast.Starred) for argument in node.args)
        if (
            not is_plain
            or len(node.args) + len(node.keywords) != len(given)
            or not given.keys() <= {*_ASSEMBLY_PARAMETERS}
        ):
            self._refuse(node, "tl.inline_asm_elementwise takes asm, constraints, args, dtype, is_pure and pack")
        for name, fault_of in (("asm", fault_of_assembly), ("constraints", fault_of_constraints)):
            text = self._text(given.get(name))
            if text is None:
                self._refuse(node, f"the {name} of inline assembly has to be a literal text or a global constant")
            fault = fault_of(text)
            if fault:
                self._refuse(node, fault)

    def _text(self, node: ast.expr | None) -> str | None:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return node.value
        if isinstance(node, (ast.Name, ast.Attribute)):
            meaning = bare(self._meaning(node))
            return meaning if isinstance(meaning, str) else None
        return None

    def _arguments(self, node: ast.Call) -> None:
        """Check the arguments of a call: values, and functions for the parameters that take functions."""
        functions = self._function_arguments(node)
        for keyword in node.keywords:
            if keyword.arg is None:
                self._refuse(node, "arguments with ** cannot be used in a kernel")
            if keyword.arg.startswith("_"):
                self._refuse(node, f"the keyword {keyword.arg} belongs to Triton's inner workings")
        for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
            if any(argument is function for function in functions):
                self._function_value(argument)
            else:
                self._value(argument.value if isinstance(argument, ast.Starred) else argument)

    def _function_value(self, node: ast.expr) -> None:
        meaning = self._meaning(node)
        if isinstance(meaning, LanguageName) and table()[meaning.path].role == "function":
            return
        if isinstance(meaning, FunctionReference):
            if self._called[meaning.identity]:
                self._refuse(node, "a function that itself takes functions cannot be passed to another")
            return
        is_none = isinstance(node, ast.Constant) and node.value is None
        if not is_none and not isinstance(meaning, FunctionParameter):
            self._refuse(node, f"{ast.unparse(node)} is called there, so it has to be the name of a function")

    def _meaning(self, node: ast.expr) -> object:
        """Return the meaning of a name or dotted name; `UNKNOWN` for anything else, such as `x.shape`."""
        parts = name_parts(node)
        if not parts:
            return UNKNOWN
        if parts[0] in self._local:
            if len(parts) > 1:
                return UNKNOWN
            return FunctionParameter() if parts[0] in self._function_parameters else Local()
        for length in range(len(parts), 0, -1):
            key = ".".join(parts[:length])
            if key in self._globals:
                return self._followed(self._globals[key], parts[length:], node)
        if parts[0] in BUILTINS or parts[0] == "range":
            return Builtin(parts[0]) if len(parts) == 1 else UNKNOWN
        if parts[0] == self._function.name:
            self._refuse(node, "the function calls itself")
        self._refuse(node, f"{ast.unparse(node)} is not defined, or not something that a kernel may use")

    def _followed(self, value: Value, parts: list[str], node: ast.expr) -> object:
        """Return the meaning of the attributes `parts` of a global; a wrapped function stands for the function."""
        if isinstance(bare(value), (FunctionReference, LanguageName)):
            value = bare(value)  # type: ignore[assignment]
        while parts and isinstance(value, LanguageName) and table()[value.path].role == "module":
            path = child(value.path, parts[0])
            if path is None:
                self._refuse(node, f"{value.path} has no {parts[0]} that a kernel may use")
            value, parts = LanguageName(path=path), parts[1:]
        return value if not parts else UNKNOWN

    def _check_name(self, name: str, node: ast.AST) -> None:
        try:
            plain_name(name)
        except Malformed:
            self._refuse(node, f"{name!r:.60} cannot be a name in a kernel")

    def _refuse(self, node: ast.AST | None, reason: str) -> NoReturn:
        self._refuse_line(getattr(node, "lineno", 1), reason)

    def _refuse_line(self, line: int, reason: str) -> NoReturn:
        raise NotKernelLanguage(self._function.name, self._function.first_line + line - 1, reason[:MAX_REASON])
