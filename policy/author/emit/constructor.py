"""The constructor of the new module, derived from the reference's text.

Parameters must have the names that they have in the reference, which its own constructor ensures. Everything that the
constructor reads of its file (classes, functions, constants, imports) is copied, modules without the methods that only
a call needs. If the text cannot stand alone, a tree of empty modules holds parameters with the reference's names and
with their shapes at the main size.
"""

from __future__ import annotations

import ast
import builtins
import copy
import functools
import textwrap
from collections.abc import Sequence

from triton_agent.policy.author.brief import BeyondAuthor
from triton_agent.tools.candidate.screen import ALLOWED_MODULES, screen
from triton_agent.tools.graph.graph import OperatorGraph

_CALL_METHODS = frozenset({"forward", "extra_repr", "__repr__", "__str__"})
_ALWAYS_THERE = {"torch": "import torch", "nn": "import torch.nn as nn", "math": "import math"}


class ModelText:
    """The parts of the reference's file that the new file needs."""

    def __init__(self, source: str, class_name: str) -> None:
        self.tree = ast.parse(source)
        self.class_name = class_name
        self.definitions = _definitions(self.tree)
        self.model = self._class(class_name)

    def _class(self, name: str) -> ast.ClassDef:
        """Return the class with this name, following assignments of a class to another name."""
        found = self.definitions.get(name)
        for _ in self.definitions:
            if not (isinstance(found, ast.Assign) and isinstance(found.value, ast.Name)):
                break
            found = self.definitions.get(found.value.id)
        if not isinstance(found, ast.ClassDef):
            raise BeyondAuthor(f"no class {name} in the text")
        return found

    # -- forward ---------------------------------------------------------------------------------------------------

    def forward_arguments(self) -> ast.arguments | None:
        method = self._method(self.model, "forward")
        return None if method is None else method.args

    def tensors_kept_as_attributes(self) -> list[str]:
        """Return attributes that the constructor makes with torch functions: tensors, neither parameters nor
        buffers.
        """
        method = self._method(self.model, "__init__")
        found = []
        for node in ast.walk(method) if method is not None else ():
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                target, made = node.targets[0], ast.unparse(node.value.func)
                on_self = isinstance(target, ast.Attribute) and ast.unparse(target.value) == "self"
                if on_self and made.startswith("torch.") and isinstance(target, ast.Attribute):
                    found.append(target.attr)
        return found

    @functools.cached_property
    def stands_alone(self) -> bool:
        """True if the constructor can be copied."""
        try:
            self.header()
        except BeyondAuthor:
            return False
        return True

    # -- the class -------------------------------------------------------------------------------------------------

    def header(
        self, more: Sequence[str] = (), beside: Sequence[str] = ()
    ) -> tuple[list[str], list[str], str, list[str]]:
        """Return imports, helpers, the class statement, and the lines of the class up to `forward`.

        `more` are statements to append to the constructor. `beside` are further module-level names, of tensors, that
        the new file needs.
        """
        members = self._members(self.model, keep=set())
        if more:
            members = _with_statements(members, more)
        if self._default_dtype is not None:
            members = [_cast_at_the_end(member, self._default_dtype) for member in members]
        body = copy.copy(self.model)
        body.name, body.keywords, body.decorator_list = "ModelNew", [], []
        body.body = [*members, *(ast.Expr(ast.Name(name, ast.Load())) for name in beside)]
        needed = self._needed(body)
        for name in beside:
            if "rand" in ast.unparse(self.definitions[name]):
                raise BeyondAuthor(f"{name} is random at import: another file cannot reproduce it")
        imports, helpers = [], []
        for name in needed:
            definition = self.definitions[name]
            if isinstance(definition, (ast.Import, ast.ImportFrom)):
                imports.append(_import_line(definition, name))
            else:
                helpers.append(self._helper(definition))
        bases = ", ".join(ast.unparse(base) for base in self.model.bases) or "nn.Module"
        lines = [line for member in members for line in ["", *_text(member)]][1:]
        helpers, head = list(dict.fromkeys(helpers)), f"class ModelNew({bases}):"
        _require_harmless("\n".join([*helpers, head, *(lines or ["    pass"])]))
        return sorted(dict.fromkeys(imports)), helpers, head, lines

    @property
    def _default_dtype(self) -> ast.expr | None:
        """The dtype that the file sets as torch's default, if it does."""
        for node in self.tree.body:
            call = node.value if isinstance(node, ast.Expr) else None
            if isinstance(call, ast.Call) and call.args and ast.unparse(call.func) == "torch.set_default_dtype":
                return call.args[0]
        return None

    def _members(self, model: ast.ClassDef, keep: set[str]) -> list[ast.stmt]:
        """Return class attributes, the constructor, and the methods that it calls, also of base classes in the file."""
        methods: dict[str, list[ast.FunctionDef]] = {}
        for one in self._with_bases(model):
            for node in one.body:
                if isinstance(node, ast.FunctionDef):
                    methods.setdefault(node.name, []).append(node)
        wanted, waiting = set(keep), ["__init__"]
        while waiting:
            name = waiting.pop()
            if name in wanted or name not in methods:
                continue
            wanted.add(name)
            waiting += [
                node.attr
                for method in methods[name]
                for node in ast.walk(method)
                if isinstance(node, ast.Attribute) and node.attr not in _CALL_METHODS
            ]
        chosen: list[ast.stmt] = []
        for node in model.body:
            if isinstance(node, ast.FunctionDef) and node.name in wanted:
                chosen.append(_without_hooks(_plain_super(node)))
            elif isinstance(node, (ast.Assign, ast.AnnAssign)):
                chosen.append(node)
        return chosen

    def _with_bases(self, model: ast.ClassDef) -> list[ast.ClassDef]:
        """Return the class and its base classes in the file."""
        found = [model]
        for one in found:
            bases = (self.definitions.get(ast.unparse(base)) for base in one.bases)
            found += [base for base in bases if isinstance(base, ast.ClassDef) and base not in found]
        return found

    def _helper(self, definition: ast.stmt) -> str:
        if isinstance(definition, ast.ClassDef):
            reduced = copy.deepcopy(definition)
            is_module = any("Module" in ast.unparse(base) for base in definition.bases)
            if is_module:
                reduced.body = self._members(definition, keep=set()) or [ast.Pass()]
            definition = reduced
        return ast.unparse(definition)

    def _needed(self, body: ast.ClassDef) -> list[str]:
        """Return the module-level names that this class reads, and those that they read, in the order of the file."""
        found: set[str] = set()
        waiting: list[ast.AST] = [body]
        while waiting:
            for name in _names(waiting.pop()):
                if name in found or name in _ALWAYS_THERE or name not in self.definitions:
                    if name not in self.definitions and not _is_known(name, body) and name not in found:
                        raise BeyondAuthor(f"the constructor needs {name}, which the file does not define")
                    continue
                found.add(name)
                definition = self.definitions[name]
                _require_allowed(definition)
                if isinstance(definition, ast.ClassDef) and any("Module" in ast.unparse(b) for b in definition.bases):
                    reduced = copy.deepcopy(definition)
                    reduced.body = self._members(definition, keep=set()) or [ast.Pass()]
                    definition = reduced
                waiting.append(definition)
        return [name for name in self.definitions if name in found]

    def _method(self, model: ast.ClassDef, name: str) -> ast.FunctionDef | None:
        """Return the method of the class, or of its nearest base class in the file."""
        for node in model.body:
            if isinstance(node, ast.FunctionDef) and node.name == name:
                return node
        for base in model.bases:
            found = self.definitions.get(ast.unparse(base))
            if isinstance(found, ast.ClassDef):
                method = self._method(found, name)
                if method is not None:
                    return method
        return None


def _definitions(tree: ast.Module) -> dict[str, ast.stmt]:
    """Return the module-level definitions of the file by name, in order."""
    found: dict[str, ast.stmt] = {}
    for node in tree.body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            found[node.name] = node
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            found.update({(item.asname or item.name).split(".")[0]: node for item in node.names})
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                found.update({n.id: node for n in ast.walk(target) if isinstance(n, ast.Name)})
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found[node.target.id] = node
    return found


def _names(tree: ast.AST) -> set[str]:
    """Return the names that are read but not bound inside."""
    nodes = list(ast.walk(tree))
    methods = {item for node in nodes if isinstance(node, ast.ClassDef) for item in node.body}
    read = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    bound = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    bound |= {n.arg for n in nodes if isinstance(n, ast.arg)}
    bound |= {n.name for n in nodes if isinstance(n, (ast.ClassDef, ast.FunctionDef)) and n not in methods}
    bound |= {n.name for n in nodes if isinstance(n, ast.ExceptHandler) and n.name}
    imports = [n for n in nodes if n is not tree and isinstance(n, (ast.Import, ast.ImportFrom))]
    bound |= {(item.asname or item.name).split(".")[0] for node in imports for item in node.names}
    return read - bound


def _is_known(name: str, body: ast.ClassDef) -> bool:
    return name in _ALWAYS_THERE or hasattr(builtins, name) or name == body.name


def _require_allowed(definition: ast.stmt) -> None:
    if isinstance(definition, ast.Import):
        roots = {item.name.split(".")[0] for item in definition.names}
    elif isinstance(definition, ast.ImportFrom):
        roots = {(definition.module or "").split(".")[0]}
    else:
        return
    if roots - ALLOWED_MODULES:
        raise BeyondAuthor(f"the constructor needs {', '.join(sorted(roots))}")


def _require_harmless(text: str) -> None:
    """Refuse text with constructs that the screen forbids to candidates."""
    objection = screen("\n".join([*_ALWAYS_THERE.values(), text]))  # the screen resolves names through their imports
    if objection is not None:
        raise BeyondAuthor(f"the constructor cannot be copied: {objection.message}")


def _import_line(definition: ast.Import | ast.ImportFrom, name: str) -> str:
    items = [item for item in definition.names if (item.asname or item.name).split(".")[0] == name]
    reduced = copy.copy(definition)
    reduced.names = items
    return ast.unparse(reduced)


class _Super(ast.NodeTransformer):
    """Removes the arguments of `super(Model, self)`, as the class has another name here."""

    def visit_Call(self, node: ast.Call) -> ast.Call:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == "super":
            node.args = []
        return node


def _plain_super(node: ast.FunctionDef) -> ast.FunctionDef:
    made: ast.FunctionDef = _Super().visit(copy.deepcopy(node))
    if made.body and isinstance(made.body[0], ast.Expr) and isinstance(made.body[0].value, ast.Constant):
        made.body = made.body[1:] or [ast.Pass()]
    return made


def _with_statements(members: list[ast.stmt], more: Sequence[str]) -> list[ast.stmt]:
    """Append statements to the constructor; if there is none, add one that forwards its arguments."""
    found = [node for node in members if isinstance(node, ast.FunctionDef) and node.name == "__init__"]
    plain = "def __init__(self, *arguments, **keywords):\n    super().__init__(*arguments, **keywords)"
    (made,) = found or ast.parse(plain).body
    assert isinstance(made, ast.FunctionDef)
    owner = (made.args.posonlyargs or made.args.args)[0].arg
    made.body += ast.parse("\n".join(more).replace("self.", f"{owner}.")).body
    return members if found else [*members, made]


def _without_hooks(node: ast.FunctionDef) -> ast.FunctionDef:
    """Remove hooks on the model itself: the graph contains their operators, so `forward` computes them."""
    for parent in ast.walk(node):
        body = getattr(parent, "body", None)
        if isinstance(body, list) and any(map(_hooks_on_self, body)):
            parent.body = [item for item in body if not _hooks_on_self(item)] or [ast.Pass()]  # type: ignore[attr-defined]
    return node


def _cast_at_the_end(member: ast.stmt, dtype: ast.expr) -> ast.stmt:
    """Cast the parameters to the file's default dtype, which the new file does not set."""
    if isinstance(member, ast.FunctionDef) and member.name == "__init__":
        member.body = [*member.body, ast.parse(f"self.to({ast.unparse(dtype)})").body[0]]
    return member


def _hooks_on_self(statement: ast.AST) -> bool:
    call = getattr(statement, "value", None)
    return (
        isinstance(statement, (ast.Expr, ast.Assign))
        and isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and ast.unparse(call.func.value) == "self"
        and call.func.attr in ("register_forward_hook", "register_forward_pre_hook")
    )


def _text(node: ast.stmt) -> list[str]:
    return textwrap.indent(ast.unparse(ast.fix_missing_locations(node)), "    ").splitlines()


def tree_of_parameters(graph: OperatorGraph) -> list[str]:
    """Write a constructor that only makes parameters and buffers with the right names."""
    lines = ["    def __init__(self, *arguments, **keywords):", "        super().__init__()"]
    made: set[str] = set()
    for name, meta in {**graph.parameters, **graph.buffers}.items():
        kind, _, path = name.partition(":")
        *parents, leaf = path.split(".")
        owner = "self"
        for depth in range(len(parents)):
            inner = ".".join(parents[: depth + 1])
            if inner not in made:
                made.add(inner)
                lines.append(f"        {owner}.add_module({parents[depth]!r}, nn.Module())")
            owner = f"self.get_submodule({inner!r})"
        shape, dtype = tuple(meta.shape), meta.dtype
        empty = f"torch.zeros({shape}, dtype=torch.{dtype})"
        if kind == "p":
            differentiable = ", requires_grad=False" if not dtype.startswith(("float", "bfloat")) else ""
            lines.append(f"        {owner}.register_parameter({leaf!r}, nn.Parameter({empty}{differentiable}))")
        else:
            lines.append(f"        {owner}.register_buffer({leaf!r}, {empty})")
    return lines


def path_of(source: str) -> str:
    """Return how `forward` reaches a parameter or buffer: `self.blocks[0].weight`."""
    kind, _, path = source.partition(":")
    parts = path.split(".")
    text = "self"
    for part in parts:
        if part.isdigit():
            text += f"[{part}]"
        elif part.partition("[")[0].isidentifier():  # an element of a list attribute: `tables[1]`
            text += f".{part}"
        else:
            getter = "get_parameter" if kind == "p" else "get_buffer"
            return f"self.{getter}({path!r})"
    return text
