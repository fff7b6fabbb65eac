"""Writes a part as a problem file in the usual convention, with the part's class copied from the project.

The file is self-contained, so it can be read, stored, judged and exported like any other problem.
"""

from __future__ import annotations

import builtins
import dataclasses
import textwrap
from pathlib import Path

from triton_agent.runs.parts.choosing import PartPlan
from triton_agent.runs.ship.source.names import renamed
from triton_agent.runs.ship.source.original import ORIGINAL, take_out
from triton_agent.runs.ship.source.source_parts import Import, import_block
from triton_agent.tools.errors import UsageError
from triton_agent.tools.problem.problem import ProblemKind, ProblemSpec

CONVENTION = ("Model", "get_inputs", "get_init_inputs")
NAMESPACE, WIDTH = "SimpleNamespace", 112


def write(spec: ProblemSpec, part: PartPlan) -> str:
    """Return the file's text; raise `UsageError` if the class cannot be copied from its project."""
    taken = dict.fromkeys((*dir(builtins), *CONVENTION), "") | {"torch": "torch", NAMESPACE: f"types.{NAMESPACE}"}
    original = take_out(at(spec, part), taken)
    if not original.text:
        raise UsageError(f"{part.module.class_name} cannot be taken out of its file", where=part.module.file)
    torch = Import(local="torch", module="torch", name=None, renames=False)
    namespace = Import(local=NAMESPACE, module="types", name=NAMESPACE, renames=False)
    imports = import_block([torch, *original.imports, *([namespace] if f"{NAMESPACE}(" in part.module.init else [])])
    future = "from __future__ import annotations\n\n" if original.future else ""
    body = renamed(original.text, {ORIGINAL: "Model"})
    made = f"def get_inputs():\n    return [{', '.join(part.module.inputs)}]"
    init = part.module.init
    head = f"{_docstring(spec, part)}\n\n{future}{imports}"
    return "\n\n\n".join((head, body, made, f"def get_init_inputs():\n    return {init}")) + "\n"


def at(spec: ProblemSpec, part: PartPlan) -> ProblemSpec:
    """Return a specification of the part's class in its own file."""
    return dataclasses.replace(
        spec,
        path=part.module.file,
        class_name=part.module.class_name,
        kind=ProblemKind.MODEL_FILE,
        init=(),
        init_keywords={},
        inputs=(),
        inputs_file=None,
    )


def _docstring(spec: ProblemSpec, part: PartPlan) -> str:
    places = ", ".join(part.paths)
    text = f"A part of {Path(spec.path).name}: what {places} {'does' if len(part.paths) == 1 else 'do'} there."
    lines = textwrap.wrap(text.replace("\\", "/").replace('"', "'"), WIDTH)
    return '"""' + "\n".join(lines) + ('"""' if len(lines) == 1 else '\n"""')
