"""Assembles a model from its reference and the kernels of its parts: one candidate for the whole model.

    assemble(spec, [Placed(...), ...]) -> the candidate's text

The reference's classes are copied unchanged (`ship/source/original.py`). The file of each part follows, with names
changed where two would collide. `ModelNew` makes the reference and replaces its modules by the parts.
"""

from __future__ import annotations

import ast
import dataclasses
import re
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

from triton_agent.runs.parts import placing
from triton_agent.runs.parts.choosing import PartPlan
from triton_agent.runs.ship.artefact import bound_names, reserved_names
from triton_agent.runs.ship.source.names import renamed
from triton_agent.runs.ship.source.original import ORIGINAL, Original, take_out
from triton_agent.runs.ship.source.source_parts import Import, Parts, import_block, is_docstring, is_script
from triton_agent.tools.errors import UsageError
from triton_agent.tools.problem.problem import ProblemSpec

MARKER = "# -- parts in the place of modules"
"""Line of `placing.py` at which the copied text begins."""
PLACES, WIDTH = "_PLACES", 114
TRAILING_COMMENTS = re.compile(r"(?:\n+#[^\n]*)+\Z")
"""Notes that the author of a kernel left at the end of its file."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A part and the file with its kernels."""

    part: PartPlan
    source: str
    attempt: str = ""
    """Key of the attempt that the file comes from."""


def assemble(spec: ProblemSpec, placed: Sequence[Placed]) -> str:
    """Write the candidate; raise `UsageError` if the reference cannot be copied out of its project."""
    common = Parts(Path(placing.__file__).read_text(encoding="utf-8"))
    taken = reserved_names(spec)
    original = take_out(spec, taken)
    require_inlined(spec, original)
    taken |= dict.fromkeys(original.bound, "") | {item.local: item.target for item in original.imports}
    taken |= bound_names(common) | {PLACES: ""}
    classes = _class_names(placed, taken)
    sections, imports, future = [], [*original.imports], original.future
    for item in placed:
        text, wanted, needs_future = _section(item, taken, classes[item.part.name])
        sections.append(_titled(f"part {item.part.name}", text))
        imports += wanted
        future = future or needs_future
    imports += [item for part in common.parts for item in part.imports if item.module != "__future__"]
    first = "from __future__ import annotations\n\n" if future else ""
    pieces = [
        _docstring(placed),
        first + import_block(item for item in imports if not item.module.startswith(("triton_agent", "__future__"))),
        _titled("the reference", original.text),
        *sections,
        common.text[common.text.index(MARKER) :].strip("\n"),
        _model(placed, original, classes),
    ]
    return "\n\n\n".join(pieces) + "\n"


def require_inlined(spec: ProblemSpec, original: Original) -> None:
    """Raise `UsageError` if the model's text could not be copied, since the assembled file has to be self-contained."""
    if not original.text:
        raise UsageError(
            f"the model cannot be taken out of its project: {'; '.join(original.notes)}",
            where=spec.path,
            remedy="leave out --parts, or put the model's classes where they can be imported by name",
        )


def _section(item: Placed, taken: dict[str, str], classes: _Classes) -> tuple[str, list[Import], bool]:
    """Return a part's file without its imports, and with unique names, which are added to `taken`."""
    parts = Parts(item.source)
    bound, changes = bound_names(parts), {"ModelNew": classes.kernels}
    for name, target in bound.items():
        if name in taken and name != "ModelNew" and not (target and taken[name] == target):
            changes[name] = _free(f"{item.part.name}_{name.lstrip('_')}", bound, taken)
    taken |= {changes.get(name, name): target for name, target in bound.items()}
    dropped = [part for part in parts.parts if part.imports or is_script(part) or is_docstring(part)]
    text = re.sub(r"\n{4,}", "\n\n\n", renamed(parts.without(dropped), changes)).strip("\n")
    text = TRAILING_COMMENTS.sub("", text)
    imports = [
        dataclasses.replace(found, local=changes[found.local], renames=True) if found.local in changes else found
        for part in parts.parts
        for found in part.imports
    ]
    return f"{text}\n\n\n{_part_class(item.part, classes)}", imports, parts.future


def _free(name: str, *taken: dict[str, str]) -> str:
    while any(name in names for names in taken):
        name += "_"
    return name


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Classes:
    """Names of the two classes of a part: its kernels' class and the module that is put in place."""

    kernels: str
    part: str


def _class_names(placed: Sequence[Placed], taken: dict[str, str]) -> dict[str, _Classes]:
    """Choose the classes' names and add them to `taken`, so that the parts' own names give way."""
    found = {}
    for item in placed:
        base = "".join(word.capitalize() for word in item.part.name.split("_"))
        names = _Classes(kernels=_free(f"{base}Kernels", taken), part=_free(f"{base}Part", taken))
        taken |= {names.kernels: "", names.part: ""}
        found[item.part.name] = names
    return found


def _part_class(part: PartPlan, classes: _Classes) -> str:
    cases = f"({', '.join(part.module.cases)}{',' if len(part.module.cases) == 1 else ''})"
    names = "{" + ", ".join(f'"{name}": {default}' for name, default in part.module.parameters) + "}"
    return "\n".join(
        (
            f"class {classes.part}({classes.kernels}):",
            f'    """Replaces {part.module.class_name}."""',
            "",
            "    def forward(self, *args, **kwargs):",
            f"        ordered = _ordered({names}, args, kwargs)",
            f"        if ordered is not None and _case(ordered) == {cases}:",
            "            return super().forward(*ordered)",
            "        return _by_the_original(self, args, kwargs)",
        )
    )


def _model(placed: Sequence[Placed], original: Original, classes: Mapping[str, _Classes]) -> str:
    kinds = ", ".join(dict.fromkeys(_original_class(item.part, original) for item in placed))
    lines = [f"{PLACES} = {{"]
    lines += [f'    "{path}": {classes[item.part.name].part},' for item in placed for path in item.part.paths]
    lines += [
        "}",
        "",
        "",
        f"class ModelNew({ORIGINAL}):",
        '    """The reference with its modules replaced by parts."""',
        "",
        "    def __init__(self, *args, **kwargs):",
        f"        with _constructors_watched([{kinds}]) as made:",
        "            super().__init__(*args, **kwargs)",
        f"        _put_in_place(self, {PLACES}, made)",
    ]
    return _titled("the whole", "\n".join(lines))


def _original_class(part: PartPlan, original: Original) -> str:
    """Return the name of the part's class in the file."""
    wanted = part.module.class_name
    stem = Path(part.module.file).stem
    known = {node.name for node in ast.parse(original.text).body if isinstance(node, ast.ClassDef)}
    for name in (wanted, f"original_{wanted}", f"{stem}_{wanted}"):
        if name in known:
            return name
    raise UsageError(f"class {wanted} is not in the model's text", where=part.module.file)


def _titled(title: str, text: str) -> str:
    gap = "\n\n\n" if text.startswith(("def ", "class ", "@", "async def ")) else "\n\n"
    return f"# -- {title} {'-' * (114 - len(title))}{gap}{text}"


def _docstring(placed: Sequence[Placed]) -> str:
    lines = ["The reference with some of its modules replaced by kernels."]
    for item in placed:
        places = f"{item.part.module.class_name}: {', '.join(item.part.paths)}"
        lines += textwrap.wrap(f"{places}; kernels of {item.attempt or 'a file'}", WIDTH, subsequent_indent="  ")
    return '"""' + lines[0] + "\n\n" + "\n".join(lines[1:]) + '\n"""'
