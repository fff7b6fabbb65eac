"""The sizes of a problem that can be changed, read from its text, and the text with other sizes written in.

Each size has a key of one of three kinds:

    batch_size, shape[1]   a whole number at the module's top level, or one in a tuple or list there
    inputs 512             every 512 written in get_inputs (for a user module: in its --input)
    sizes 512              every 512 written in get_inputs or get_init_inputs (in its --input or --init)

A whole number that the classes themselves read cannot be changed: a candidate is a separate file that gets only the
constructor's arguments, so it would still use the old value. Derived numbers (`hidden = 4 * dim`) follow automatically.
Not covered: whether the reference runs at other sizes, which `variants.py` finds out.
"""

from __future__ import annotations

import ast
import dataclasses
import operator
import symtable
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from triton_agent.tools.errors import ProblemError
from triton_agent.tools.problem import source as problem_source
from triton_agent.tools.problem.input_spec import InputSpec, mapped
from triton_agent.tools.problem.problem import ProblemKind, ProblemSpec
from triton_agent.tools.problem.size_range import Lengths

INPUTS, SIZES = "inputs ", "sizes "
"""Prefixes of keys that stand for a written value wherever it occurs in the inputs, or there and in the constructor."""

SMALL = 8
"""A whole number up to this that shapes no input is assumed to be a kernel size, a stride, a number of heads or groups,
or a dimension index: changing it would change the computation, not its size."""

LARGEST = 1 << 38
"""A larger whole number is no size, since no GPU holds as many bytes. It may be a time in nanoseconds."""

_LARGEST_EXPONENT = 64
"""Bounds the time to evaluate a constant such as 9**9**9."""

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
    """New values of sizes, by key."""
    batch: int | None = None
    """New length of the common leading dimension of the inputs, by cutting or extending them."""
    lengths: Lengths = ()
    """Lengths of the problem's ranges, instead of the given ones."""

    def __hash__(self) -> int:
        return hash((self.name, tuple(sorted(self.constants.items())), self.batch, self.lengths))

    def of(self, spec: ProblemSpec) -> ProblemSpec:
        """Return the specification at the lengths of this variant."""
        return dataclasses.replace(spec, lengths=self.lengths) if self.lengths else spec


AS_GIVEN = Variant(name="as given")


def free_sizes(spec: ProblemSpec, tree: ast.Module) -> dict[str, int]:
    """Return each size that may be changed, key and value, in the order of the text; no numbers above `LARGEST`."""
    keys: dict[str, int] = {}
    if spec.kind is ProblemKind.USER_MODULE:
        inputs = set(_whole_numbers([item.value for item in spec.inputs]))
        init = set(_whole_numbers((spec.init, dict(spec.init_keywords))))
    else:  # module-level numbers that the inputs depend on and the classes do not read
        inputs, init = ({node.value for node in _literals(tree, f)} for f in ("get_inputs", "get_init_inputs"))
        wanted = _reached(tree, ("get_inputs", "get_init_inputs"))
        taken = _reached(tree, problem_source.classes(tree))
        for key, node in _places(tree).items():
            value, name = _fold(node), key.partition("[")[0]
            if value is not None and 1 < value <= LARGEST and name in wanted and name not in taken:
                keys[key] = value
    for value in sorted(it for it in inputs | init if it <= LARGEST):
        if value in init and value > (1 if value in inputs else SMALL):
            keys[f"{SIZES}{value}"] = value
        if value in inputs and value > 1:
            keys[f"{INPUTS}{value}"] = value
    return keys


def label(key: str, value: int) -> str:
    """Return a changed size as text: `batch_size=17`, `size 512 -> 509`, or `input size 4 -> 5` for inputs only."""
    for prefix, word in ((INPUTS, "input size"), (SIZES, "size")):
        if key.startswith(prefix):
            return f"{word} {key.removeprefix(prefix)} -> {value}"
    return f"{key}={value}"


def twin_changed(key: str, sizes: Mapping[str, int], given: Mapping[str, int]) -> bool:
    """Return True if the other key of the same written value is changed. Only one of the two may change."""
    twin = key.replace(INPUTS, SIZES, 1) if key.startswith(INPUTS) else key.replace(SIZES, INPUTS, 1)
    return twin != key and twin in sizes and sizes[twin] != given[twin]


def resize_spec(spec: ProblemSpec, constants: Mapping[str, int]) -> ProblemSpec:
    """Return a user module with other sizes in its arguments and input shapes; the digest stays the same."""
    if spec.kind is not ProblemKind.USER_MODULE or not constants:
        return spec
    everywhere, inputs_only = _replacements(constants, SIZES), _replacements(constants, INPUTS)
    in_inputs = everywhere | inputs_only
    inputs = tuple(
        dataclasses.replace(item, value=mapped(item.value, lambda leaf: _replaced(leaf, in_inputs)))
        for item in spec.inputs
    )
    init, keywords = mapped((spec.init, dict(spec.init_keywords)), lambda leaf: _replaced(leaf, everywhere))
    return dataclasses.replace(spec, inputs=inputs, init=init, init_keywords=keywords)


def _replacements(constants: Mapping[str, int], prefix: str) -> dict[int, int]:
    return {int(key.removeprefix(prefix)): new for key, new in constants.items() if key.startswith(prefix)}


def _replaced(leaf: Any, replacements: Mapping[int, int]) -> Any:
    if isinstance(leaf, InputSpec):
        shape = tuple(replacements.get(size, size) for size in leaf.shape)
        return dataclasses.replace(leaf, shape=shape, below=leaf.below and replacements.get(leaf.below, leaf.below))
    return replacements.get(leaf, leaf) if type(leaf) is int else leaf


def _whole_numbers(value: Any) -> list[int]:
    """Return the whole numbers in nested arguments, including the sizes and the bound of each `InputSpec`."""
    found: list[int] = []

    def note(leaf: Any) -> None:
        if isinstance(leaf, InputSpec):
            found.extend((*leaf.shape, leaf.below or 0))
        elif type(leaf) is int:
            found.append(leaf)

    mapped(value, note)
    return found


def resize_tree(tree: ast.Module, constants: Mapping[str, int]) -> ast.Module:
    """Write other sizes into the tree in place, and return it."""
    places = _places(tree)
    for key, new in constants.items():
        if key.startswith((INPUTS, SIZES)):
            continue
        if key not in places:
            known = ", ".join(places) or "none"
            raise ProblemError(f"no module-level whole number {key}", remedy=f"those that can be changed: {known}")
        node = places[key]
        node.__class__ = ast.Constant  # turn the expression, of any kind, into a literal in its place
        node.__dict__.update(value=new, kind=None)
    everywhere, inputs_only = _replacements(constants, SIZES), _replacements(constants, INPUTS)
    for function, replacements in (("get_inputs", everywhere | inputs_only), ("get_init_inputs", everywhere)):
        for literal in _literals(tree, function):
            literal.value = replacements.get(literal.value, literal.value)
    return tree


def _literals(tree: ast.Module, function: str) -> list[Any]:
    definition = problem_source.functions(tree).get(function)
    nodes = ast.walk(definition) if definition is not None else ()
    return [node for node in nodes if isinstance(node, ast.Constant) and type(node.value) is int]


def _places(tree: ast.Module) -> dict[str, ast.expr]:
    """Return the node of each module-level whole number, except names that are bound twice."""
    bound: dict[str, list[ast.expr | None]] = {}
    for statement in problem_source.top_level(tree):
        for name, node in _assignments(statement):
            bound.setdefault(name, []).append(node)
    rebound = {name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names}
    places: dict[str, ast.expr] = {}
    for name, nodes in bound.items():
        if len(nodes) == 1 and nodes[0] is not None and name not in rebound:
            node = nodes[0]
            items = {name: node}
            listed = node.left if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) else node
            if isinstance(listed, (ast.Tuple, ast.List)):  # `widths = [1024] * 16` has one width, for all layers
                items = {f"{name}[{i}]": item for i, item in enumerate(listed.elts)}
            places |= {key: item for key, item in items.items() if _fold(item) is not None}
    return places


def _assignments(statement: ast.stmt) -> list[tuple[str, ast.expr | None]]:
    """Return the names a statement binds, each with the expression of its value, or None if it is not a plain one."""
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


def _fold(node: ast.expr) -> int | None:
    """Return the value of a whole number written as a literal or as simple arithmetic; None for anything else."""
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
    """Return the module-level names that these definitions read, directly or through other definitions."""
    bodies: dict[str, list[ast.AST]] = {}
    for name, definition in (problem_source.functions(tree) | problem_source.classes(tree)).items():
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
    """Return the names read from the module's scope, excluding parameters and locals."""
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
