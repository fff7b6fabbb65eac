"""The sizes of a problem that can be changed, read off its text, and the text with other sizes put in.

A size has a key. Three kinds:

    batch_size, shape[1]   a whole number at the module's top level, or one in a tuple there
    inputs 512             every 512 written in get_inputs (for a user module: in its --input)
    sizes 512              the same and every 512 written in get_init_inputs (in its --init)

A whole number that the classes themselves read is not free: a candidate lives in a file of its own, is told the
constructor's arguments only, and could not follow. Derived numbers (`hidden = 4 * dim`) follow by themselves.
Whether the reference runs at other sizes is not known here; `variants.py` proves it.
"""

from __future__ import annotations

import ast
import dataclasses
import operator
import symtable
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from triton_agent.tools import problem_source
from triton_agent.tools.errors import ProblemError
from triton_agent.tools.problem import ProblemKind, ProblemSpec

INPUTS, SIZES = "inputs ", "sizes "
"""First words of the keys that stand for a written value wherever it occurs."""

SMALL = 8
"""Up to here a whole number that shapes no input is taken for a kernel size, a stride, a number of heads or groups, the
index of a dimension: changing it changes what the module does, not how large it is."""

_LARGEST_EXPONENT = 64
"""A text like 9**9**9 must not hold up the reader."""

_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.Pow: operator.pow,
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A problem at other sizes. With no constants and no batch it is the problem as given."""

    name: str
    constants: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """Key of a size -> its new value."""
    batch: int | None = None
    """Length that the common leading dimension of the inputs is cut or extended to."""

    def __hash__(self) -> int:
        return hash((self.name, tuple(sorted(self.constants.items())), self.batch))


AS_GIVEN = Variant(name="as given")


def free_sizes(spec: ProblemSpec, tree: ast.Module) -> dict[str, int]:
    """Every size that may be tried: its key and its value as given, in the order of the text."""
    if spec.kind is ProblemKind.USER_MODULE:
        inputs = {size for item in spec.inputs for size in (*item.shape, item.below or 0)}
        return _written(inputs, set(_whole_numbers((spec.init, spec.init_keywords))))
    inputs = _literals(tree, "get_inputs")
    return _constants(tree) | _written(inputs, _literals(tree, "get_init_inputs"))


def _written(inputs: set[int], init: set[int]) -> dict[str, int]:
    keys: dict[str, int] = {}
    for value in sorted(inputs | init):
        if value in init and value > (1 if value in inputs else SMALL):
            keys[f"{SIZES}{value}"] = value
        if value in inputs and value > 1:
            keys[f"{INPUTS}{value}"] = value
    return keys


def label(key: str, value: int) -> str:
    """A changed size in words: `batch_size=17`, `512 -> 509`."""
    for prefix in (INPUTS, SIZES):
        if key.startswith(prefix):
            return f"{key.removeprefix(prefix)} -> {value}"
    return f"{key}={value}"


def twin_changed(key: str, sizes: Mapping[str, int], given: Mapping[str, int]) -> bool:
    """Whether the other key of the same written value is in use; only one of the two may be."""
    twin = key.replace(INPUTS, SIZES, 1) if key.startswith(INPUTS) else key.replace(SIZES, INPUTS, 1)
    return twin != key and twin in sizes and sizes[twin] != given[twin]


def resize_spec(spec: ProblemSpec, constants: Mapping[str, int]) -> ProblemSpec:
    """A user module's arguments and input shapes with other sizes. Its digest stays: it is the same problem."""
    if spec.kind is not ProblemKind.USER_MODULE or not constants:
        return spec
    everywhere, inputs_only = _replacements(constants, SIZES), _replacements(constants, INPUTS)
    in_inputs = everywhere | inputs_only
    inputs = tuple(
        dataclasses.replace(
            item,
            shape=tuple(in_inputs.get(size, size) for size in item.shape),
            below=None if item.below is None else in_inputs.get(item.below, item.below),
        )
        for item in spec.inputs
    )
    init, keywords = _substitute((spec.init, dict(spec.init_keywords)), everywhere)
    return dataclasses.replace(spec, inputs=inputs, init=init, init_keywords=keywords)


def _replacements(constants: Mapping[str, int], prefix: str) -> dict[int, int]:
    return {int(key.removeprefix(prefix)): new for key, new in constants.items() if key.startswith(prefix)}


def _substitute(value: Any, replacements: Mapping[int, int]) -> Any:
    if isinstance(value, (tuple, list)):
        return type(value)(_substitute(item, replacements) for item in value)
    if isinstance(value, dict):
        return {key: _substitute(item, replacements) for key, item in value.items()}
    return replacements.get(value, value) if type(value) is int else value


def _whole_numbers(value: Any) -> list[int]:
    if isinstance(value, (tuple, list)):
        return [number for item in value for number in _whole_numbers(item)]
    if isinstance(value, Mapping):
        return _whole_numbers(list(value.values()))
    return [value] if type(value) is int else []


def resize_tree(tree: ast.Module, constants: Mapping[str, int]) -> ast.Module:
    """The tree (changed in place) with other sizes written in."""
    places = _places(tree)
    for key, new in constants.items():
        if key.startswith((INPUTS, SIZES)):
            continue
        if key not in places:
            known = ", ".join(places) or "none"
            raise ProblemError(f"no module-level whole number {key}", remedy=f"those that can be changed: {known}")
        _overwrite(places[key], new)
    everywhere, inputs_only = _replacements(constants, SIZES), _replacements(constants, INPUTS)
    _rewrite_literals(tree, "get_inputs", everywhere | inputs_only)
    _rewrite_literals(tree, "get_init_inputs", everywhere)
    return tree


def _overwrite(node: ast.expr, new: int) -> None:
    """Turn the expression into a literal where it stands, whatever it was."""
    node.__class__ = ast.Constant
    node.__dict__.update(value=new, kind=None)


def _rewrite_literals(tree: ast.Module, function: str, replacements: Mapping[int, int]) -> None:
    for node in _literal_nodes(tree, function):
        assert isinstance(node.value, int)
        node.value = replacements.get(node.value, node.value)


def _literals(tree: ast.Module, function: str) -> set[int]:
    return {node.value for node in _literal_nodes(tree, function) if isinstance(node.value, int)}


def _literal_nodes(tree: ast.Module, function: str) -> list[ast.Constant]:
    definition = _functions(tree).get(function)
    return [
        node
        for node in (ast.walk(definition) if definition is not None else ())
        if isinstance(node, ast.Constant) and type(node.value) is int
    ]


def _constants(tree: ast.Module) -> dict[str, int]:
    """Module-level whole numbers that the inputs depend on and the classes do not read."""
    wanted = _reached(tree, ("get_inputs", "get_init_inputs"))
    taken = _reached(tree, problem_source.classes(tree))
    found: dict[str, int] = {}
    for key, node in _places(tree).items():
        value, name = _fold(node), key.partition("[")[0]
        if value is not None and value > 1 and name in wanted and name not in taken:
            found[key] = value
    return found


def _places(tree: ast.Module) -> dict[str, ast.expr]:
    """Where each module-level whole number is written; names bound twice are left out."""
    bound: dict[str, list[ast.expr | None]] = {}
    for statement in problem_source.top_level(tree):
        for name, node in _assignments(statement):
            bound.setdefault(name, []).append(node)
    rebound = {name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names}
    places: dict[str, ast.expr] = {}
    for name, nodes in bound.items():
        if len(nodes) == 1 and nodes[0] is not None and name not in rebound:
            places |= _numbers_in(name, nodes[0])
    return places


def _assignments(statement: ast.stmt) -> list[tuple[str, ast.expr | None]]:
    """Names a statement binds, each with the expression whose value it gets (None: some other way)."""
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        return [(statement.target.id, statement.value)]
    if isinstance(statement, ast.Assign):
        target, value = statement.targets[0], statement.value
        chained = [name.id for name in statement.targets if isinstance(name, ast.Name)]
        if len(chained) == len(statement.targets):  # `height = width = 128` is one number with two names
            return [(chained[0], value), *((name, ast.Name(chained[0], ast.Load())) for name in chained[1:])]
        if (
            len(statement.targets) == 1
            and isinstance(target, ast.Tuple)
            and isinstance(value, ast.Tuple)
            and len(target.elts) == len(value.elts)
        ):
            pairs = zip(target.elts, value.elts)
            return [(name.id, item) for name, item in pairs if isinstance(name, ast.Name)]
    names = [node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    return [(name, None) for name in names]


def _numbers_in(name: str, node: ast.expr) -> dict[str, ast.expr]:
    if isinstance(node, (ast.Tuple, ast.List)):
        return {f"{name}[{index}]": item for index, item in enumerate(node.elts) if _fold(item) is not None}
    return {name: node} if _fold(node) is not None else {}


def _fold(node: ast.expr) -> int | None:
    """The value of a whole number written as a literal or as simple arithmetic; None for anything else."""
    if isinstance(node, ast.Constant):
        return node.value if type(node.value) is int else None
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = _fold(node.operand)
        return None if value is None else -value
    if not isinstance(node, ast.BinOp) or type(node.op) not in _OPERATORS:
        return None
    left, right = _fold(node.left), _fold(node.right)
    if left is None or right is None:
        return None
    if isinstance(node.op, (ast.Pow, ast.LShift)) and not 0 <= right <= _LARGEST_EXPONENT:
        return None
    try:
        return int(_OPERATORS[type(node.op)](left, right))
    except (ArithmeticError, ValueError):
        return None


def _reached(tree: ast.Module, start: Iterable[str]) -> set[str]:
    """Module-level names that these definitions read, directly or through functions and module-level expressions."""
    bodies: dict[str, list[ast.AST]] = {}
    for name, definition in (_functions(tree) | problem_source.classes(tree)).items():
        bodies.setdefault(name, []).append(definition)
    for statement in problem_source.top_level(tree):
        for name, node in _assignments(statement):
            bodies.setdefault(name, []).append(statement if node is None else node)
    reached: set[str] = set()
    waiting = list(start)
    while waiting:
        for body in bodies.get(waiting.pop(), ()):
            read = _global_reads(body) & bodies.keys()
            waiting.extend(read - reached)
            reached |= read
    return reached


def _global_reads(node: ast.AST) -> set[str]:
    """Names read from the module's scope; a parameter of the same name is another matter."""
    tables = [symtable.symtable(ast.unparse(node), "<problem>", "exec")]
    outermost = tables[0]
    reads: set[str] = set()
    while tables:
        table = tables.pop()
        reads |= {
            symbol.get_name()
            for symbol in table.get_symbols()
            if symbol.is_referenced() and (table is outermost or symbol.is_global())
        }
        tables.extend(table.get_children())
    return reads


def _functions(tree: ast.Module) -> dict[str, ast.stmt]:
    return {node.name: node for node in problem_source.top_level(tree) if isinstance(node, ast.FunctionDef)}
