"""Runs all stages from a brief and a choice to a plan in words and a file.

`write` is a pure function: equal briefs and choices give the same text.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Collection, Sequence

from triton_agent.policy.author.brief import Answer, BeyondAuthor, Brief
from triton_agent.policy.author.choice import Choice
from triton_agent.policy.author.drafting import Drafting, HostNames, tf32_convolutions
from triton_agent.policy.author.emit import (
    skeleton_attention,
    skeleton_chain,
    skeleton_points,
    skeleton_product,
    skeleton_recurrence,
    skeleton_rows,
)
from triton_agent.policy.author.emit.constructor import ModelText, tree_of_parameters
from triton_agent.policy.author.emit.file_parts import IN_LAYOUT, LAYING_OUT, PUTTING_IN_LAYOUT, TAKING_PARTS, FileParts
from triton_agent.policy.author.emit.forward import Forward
from triton_agent.policy.author.emit.kernel_text import KernelText
from triton_agent.policy.author.emit.line_breaking import formatted, wrapped
from triton_agent.policy.author.emit.wording import kernel_comment, kernel_name, plan_text
from triton_agent.policy.author.ir.alignment import AlignedGraph, align
from triton_agent.policy.author.ir.points import FUNCTIONS
from triton_agent.policy.author.ir.program import INTEGERS, MIDDLE, VIEWS, Number, Program, Value
from triton_agent.policy.author.ir.torch_calls import BY_TAPS, IN_PARTS
from triton_agent.policy.author.ir.viewing import first_moved
from triton_agent.policy.author.plan.kernel_plan import Kernel, Stuck
from triton_agent.policy.author.plan.memory_order import in_memory_order
from triton_agent.policy.author.plan.partition import Partition
from triton_agent.policy.author.plan.placing import (
    better_strides,
    joined_results,
    shared_lookups,
    stored_instead,
    with_pieces_placed,
    work_of,
)
from triton_agent.policy.author.plan.tiling import collapsed
from triton_agent.policy.author.rules.translation import lower
from triton_agent.policy.author.tile.descriptors import DESCRIBED, DESCRIPTOR_IMPORT, HOST_FUNCTIONS, PROCESSORS
from triton_agent.policy.author.tile.splitting import parts_of, split
from triton_agent.tools.graph.graph import OperatorGraph
from triton_agent.tools.graph.module_attributes import ARGUMENT

_SKELETONS: dict[str, Callable[[Kernel, Drafting, str, tuple[str, ...]], KernelText]] = {
    "points": skeleton_points.write,
    "rows": skeleton_rows.write,
    "product": skeleton_product.write,
    "attention": skeleton_attention.write,
    "chain": skeleton_chain.write,
    "recurrence": skeleton_recurrence.write,
}
NO_KERNEL = "no kernel was found for it"
BY_CHOICE = "by choice: there is a kernel for it"
DENSE_ONLY = "aten._embedding_bag"
"""Beginning of the names of torch's operators that read tensors as if they were contiguous."""
_WHOLE_NUMBER = re.compile(r"((?<![\w.'])-?\d+(?![\w.']))")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """One written method, `forward` or its part for one mode: program, kernels, text and known limits."""

    program: Program
    kernels: tuple[KernelText, ...]
    lines: tuple[str, ...]
    limits: tuple[str, ...]
    statements: tuple[str, ...] = ()
    """Statements that the constructor runs after the reference's own, for this draft and earlier drafts of the file."""
    of_the_file: tuple[str, ...] = ()
    """Tensors at module level of the reference's file that the method reads."""


def write(brief: Brief, choice: Choice) -> Answer:
    """Write a file and its plan in words."""
    drafts = drafts_of(brief, choice)
    if not choice.left_to_torch and not any(one.kernels for one in drafts):
        raise BeyondAuthor("; ".join(["nothing of it becomes a kernel", *_limits(drafts)]))
    model = ModelText(brief.source, brief.class_name)
    return Answer(plan=plan_text([d.kernels for d in drafts], _limits(drafts)), source=_file(brief, model, drafts))


def describe_limits(brief: Brief, choice: Choice | None = None) -> list[str]:
    """Return a line for each part of the problem that the author cannot write."""
    return _limits(drafts_of(brief, choice or Choice()))


def drafts_of(brief: Brief, choice: Choice) -> list[Draft]:
    """Return a draft for evaluation mode, and one for training mode if that computes something else."""
    model = ModelText(brief.source, brief.class_name)
    if not model.stands_alone:  # the new module then has the reference's parameters but none of its other attributes
        brief = _without_attributes(brief)
    file = FileParts(model, brief.source)
    if not brief.train_graphs:
        return [draft(brief, choice, file, brief.graphs, "forward")]
    before = file.state()
    evaluated = draft(brief, choice, file, brief.graphs, "_evaluate")
    trained = draft(brief, choice, file, brief.train_graphs, "_train")
    if evaluated.lines[1:] != trained.lines[1:]:
        return [evaluated, trained]
    file.back_to(before)  # the operators differ in a flag that changes nothing, such as that of a recurrent layer
    return [draft(brief, choice, file, brief.graphs, "forward")]


def _without_attributes(brief: Brief) -> Brief:
    graphs, train_graphs = (
        tuple(dataclasses.replace(graph, held={}) for graph in some) for some in (brief.graphs, brief.train_graphs)
    )
    given = tuple({k: v for k, v in held.items() if k.startswith(ARGUMENT)} for held in brief.numbers)
    return dataclasses.replace(brief, numbers=given, tensors=(), graphs=graphs, train_graphs=train_graphs)


def _limits(drafts: Sequence[Draft]) -> list[str]:
    return list(dict.fromkeys(limit for one in drafts for limit in one.limits))


def draft(brief: Brief, choice: Choice, file: FileParts, graphs: Sequence[OperatorGraph], method: str) -> Draft:
    """Write one method. If every operator were left to torch, try again without the library where torch would win."""
    aligned = align(graphs, brief.numbers)
    _require_one_way(aligned.main)
    before = file.state()
    made = _attempted(brief, choice, file, aligned, method, library=brief.allow_library)
    if made.kernels or not brief.allow_library:
        return made
    file.back_to(before)
    return _attempted(brief, choice, file, aligned, method, library=False)


def _attempted(
    brief: Brief, choice: Choice, file: FileParts, aligned: AlignedGraph, method: str, *, library: bool
) -> Draft:
    """Write the method. Each time no kernel can be written for an operator, leave it to torch and start again."""
    left = dict.fromkeys(choice.left_to_torch, BY_CHOICE)
    apart: set[int] = set()
    before = file.state()
    for _ in range(2 * len(aligned.nodes) + 2):
        file.back_to(before)
        program = lower(
            aligned,
            left,
            exact=choice.exact,
            on_cpu=brief.device == "cpu",
            library=library,
            tf32_convolutions=tf32_convolutions(brief, choice),
            apart=apart if choice.online else None,
        )
        drafting = Drafting(brief=brief, choice=choice, graph=aligned, program=program, host=HostNames(program))
        try:
            return _drafted(drafting, file, method)
        except Stuck as stuck:
            place = program.origins.get(stuck.value, (-1, ""))[0]
            if program.values[stuck.value].operation == "attention" and place not in apart:
                apart.add(place)
                continue
            # the failing operator is unknown or already left to torch: leave all the others to torch
            if place < 0 or place in left:
                left = {**dict.fromkeys((node.node.index for node in aligned.nodes), NO_KERNEL), **left}
            left[place] = NO_KERNEL
    raise BeyondAuthor("no operator is left to leave to torch")


def _require_one_way(graph: OperatorGraph) -> None:
    """Refuse a graph that depends on the values of tensors, in control flow or as plain numbers."""
    told = [node for node in graph.nodes if not node.outputs]
    by_operators = any(node.operator.removeprefix("aten.") in _BY_VALUES for node in graph.nodes)
    if told or (graph.data_dependent and not by_operators):
        by = f" ({told[0].operator})" if told else ""
        raise BeyondAuthor(f"the model reads values of tensors{by}: calls with other values may run other operators")


_BY_VALUES = frozenset(
    {
        *("nonzero", "masked_select", "unique", "unique2", "unique_consecutive", "unique_dim", "bincount"),
        *("index", "index_put", "_unsafe_index", "_unsafe_index_put", "masked_scatter"),
    }
)
"""Operators with results whose sizes depend on values, and operators whose masks become indices. They are
data-dependent without branches in the model.
"""


_SIZED_BY_VALUES = frozenset(
    {
        *("aten.nonzero", "aten.masked_select", "aten.unique", "aten.unique2", "aten._unique2"),
        *("aten.unique_consecutive", "aten.unique_dim"),
    }
)
"""Operators of torch whose results have as many elements as values say. No tape holds them."""


def _require_sizes(program: Program) -> None:
    """Refuse a program in which an operator that is left to torch has a result whose size depends on values."""
    needed = program.needed()
    for value in program.values.values():
        if value.operation == "torch" and value.function in _SIZED_BY_VALUES and value.name in needed:
            raise BeyondAuthor(
                f"{value.function} depends on values: how many elements its result has is known only after the call"
            )


def _drafted(drafting: Drafting, file: FileParts, method: str) -> Draft:
    _require_sizes(drafting.program)
    drafting, partition = _with_results_joined(drafting)
    program = drafting.program
    forward = Forward(drafting, file)
    steps = _in_order(program, partition)
    loads = [frozenset(step.loads) if isinstance(step, Kernel) else frozenset() for step in steps]
    forward.loaded = frozenset().union(*loads)
    _write_in_place(program, forward, steps)
    forward.name_outputs(place.whole for place in program.placed.values())
    forward.name_outputs(root.value for step in steps if isinstance(step, Kernel) for root in step.roots)
    layouts = forward.layouts()
    written: list[KernelText] = []
    for place, step in enumerate(steps, 1):
        if isinstance(step, Kernel):
            drafting.host.loaded_later = frozenset().union(*loads[place:])
            try:
                texts = _kernel_texts(drafting, file, forward, step)
            except BeyondAuthor as reason:
                raise Stuck(step.key, str(reason)) from reason
            for fresh in texts:
                text = file.kernels.once(fresh)
                if text.repeats:
                    file.names.release(fresh.name)
                written.append(text)
                forward.launch(text)
        elif step.function == "output":
            forward.torch_output(step)
        else:
            forward.call_torch(step)
    for source, value in program.updates.items():
        more = _counted_up(program, source, value)
        if more is not None:
            forward.line(f"{forward.texts[source]}.add_({more})")
        elif value not in forward.in_place:
            forward.line(f"{forward.texts[source]}.copy_({forward.view_text(value)})")
    structure = _structure([graph.output_structure for graph in drafting.graph.graphs], forward)
    outputs = _filled(structure, [forward.view_text(name) for name in program.outputs])
    loaded = {tensor for text in written for tensor in text.arguments.loaded()}
    loaded |= {name for v in program.values.values() if v.function.startswith(DENSE_ONLY) for name in v.inputs}
    contiguous = [
        v.name
        for v in program.values.values()
        if v.name in loaded
        and v.operation == "source"
        and v.function.startswith("x")
        and v.name not in program.strides
        and v.shape
    ]
    guessed = [f"the size {size[0]} is fixed to its value at the main size" for size in forward.sizes.guessed]
    return Draft(
        program=program,
        kernels=tuple(written),
        lines=tuple(forward.text(method, outputs, contiguous, [layouts[v] for v in layouts if v in loaded])),
        limits=tuple(dict.fromkeys([*program.limits, *forward.limits, *guessed])),
        statements=tuple(file.statements()),
        of_the_file=tuple(forward.of_the_file),
    )


def _with_results_joined(drafting: Drafting) -> tuple[Drafting, Partition]:
    """Partition the program. Write the pieces of a concatenated result directly into it wherever that is less work."""
    wanted = _wanted(drafting.program)
    best = _partitioned(drafting, wanted)
    for name in sorted(joined_results(drafting.program, wanted)):
        program = with_pieces_placed(drafting.program, name, wanted)
        other = dataclasses.replace(drafting, program=program, host=HostNames(program))
        try:
            found = _partitioned(other, wanted)
        except BeyondAuthor:
            continue
        if work_of(program, found.kernels) < work_of(drafting.program, best.kernels):
            drafting, best = other, found
    return drafting, best


def _partitioned(drafting: Drafting, wanted: Collection[str]) -> Partition:
    """Partition the program into kernels, and again as long as stored values should get another memory layout."""
    program = drafting.program
    # A value stored by choice belongs to one mode's program; the other program may use its name for another value.
    known = (program.values[name] for name in drafting.choice.stored if name in program.values)
    apart = [value.name for value in known if value.operation in MIDDLE]
    apart += [*sorted(program.apart), *shared_lookups(program)]
    stored = stored_instead(program, wanted)
    partition = Partition(drafting, stored, apart=apart)
    while strides := better_strides(program, partition.kernels, stored):
        program.strides.update(strides)
        partition = Partition(drafting, stored, apart=apart)
    return partition


def _counted_up(program: Program, source: str, value: str) -> int | None:
    """Return the increment of an integer counter, such as a count of batches, that torch adds on the host; else
    None.
    """
    made = program.values[value]
    if made.operation != "point" or made.function != "add" or made.shape or made.operands[0] != source:
        return None
    more = made.operands[1]
    return int(more.values[0]) if isinstance(more, Number) and more.fixed and made.dtype in INTEGERS else None


def _write_in_place(program: Program, forward: Forward, steps: Sequence[Kernel | Value]) -> None:
    """Write an update over its source where a single kernel reads the source, element by element."""
    for source, value in program.updates.items():
        made, old = program.values[value], program.values[source]
        readers = [step for step in steps if source in _needs(program, step)]
        writers = [step for step in steps if isinstance(step, Kernel) and value in {r.value for r in step.roots}]
        if len(writers) != 1 or readers not in ([], writers) or value in program.outputs or source in program.strides:
            continue
        (root,) = (root for root in writers[0].roots if root.value == value)
        if root.adds:
            continue
        places = {node.index for node in writers[0].nodes if node.kind == "load" and node.tensor == source}
        if places <= {root.index} and made.shape == old.shape and program.stored_dtype(value) == old.dtype:
            forward.texts[value] = forward.texts[source]
            forward.in_place[value] = source


def _wanted(program: Program) -> set[str]:
    """Return the values that must be in memory in any partition: results, updates, and inputs of torch operators."""
    needed = program.needed()
    found: set[str] = set()
    counted = {v for s, v in program.updates.items() if _counted_up(program, s, v) is not None} - set(program.outputs)
    for name in (*program.outputs, *(v for v in program.updates.values() if v not in counted)):
        found |= _base(program, name, whole=False)
    scattered = [v for v in program.values.values() if v.operation == "scatter" and v.name in needed]
    found |= {value.name for value in scattered}
    found |= {value.inputs[2] for value in scattered if value.function}
    for value in program.values.values():
        if value.name in needed and value.operation == "torch":
            for name in value.inputs:
                found |= _base(program, name, whole=True)
    return found


def _base(program: Program, name: str, *, whole: bool) -> set[str]:
    """Return the values that must be stored for the host to show this value as a view of them."""
    value = program.values[name]
    if not whole and (moved := first_moved(program, name)) is not None:
        return {moved}
    views = VIEWS if whole else VIEWS - {"slice"}
    while value.operation in views:
        value = program.values[value.inputs[0]]
    if value.operation == "slice":
        behind = value
        while behind.operation in VIEWS:
            behind = program.values[behind.inputs[0]]
        if behind.operation in ("source", "torch"):
            return set()
    return set() if value.operation in ("source", "torch") or (whole and value.operation == "full") else {value.name}


def _in_order(program: Program, partition: Partition) -> list[Kernel | Value]:
    """Sort kernels and torch operators so that each follows its inputs."""
    needed = program.needed()
    order = {name: i for i, name in enumerate(program.values)}
    torch_calls = [v for v in program.values.values() if v.operation == "torch" and v.name in needed]
    waiting: list[Kernel | Value] = [*reversed(partition.kernels), *torch_calls]
    waiting.sort(key=lambda step: order[step.name if isinstance(step, Value) else step.roots[0].value])
    made: set[str] = set()
    steps: list[Kernel | Value] = []
    computed = {root.value for kernel in partition.kernels for root in kernel.roots} | {v.name for v in torch_calls}
    while waiting:
        ready = next((step for step in waiting if _needs(program, step) & computed <= made), None)
        if ready is None:
            raise BeyondAuthor("two kernels depend on each other")
        waiting.remove(ready)
        steps.append(ready)
        made |= {ready.name} if isinstance(ready, Value) else {root.value for root in ready.roots}
    return steps


def _needs(program: Program, step: Kernel | Value) -> set[str]:
    if isinstance(step, Kernel):
        begun = {name for root in step.roots if root.adds for name in program.values[root.value].inputs[2:]}
        return {*step.loads, *begun} - {root.value for root in step.roots}
    found: set[str] = set()
    for name in step.inputs:
        value = program.values[name]
        found.add(value.name)
        while value.operation in VIEWS:
            value = program.values[value.inputs[0]]
            found.add(value.name)
    return found


def _kernel_texts(drafting: Drafting, file: FileParts, forward: Forward, kernel: Kernel) -> list[KernelText]:
    """Write one kernel; two if its rows are split into parts."""
    program = drafting.program
    name, comment = kernel_name(program, kernel), kernel_comment(program, kernel)
    small = collapsed(in_memory_order(kernel))

    def text(of: Kernel, called: str, said: tuple[str, ...], key: str) -> KernelText:
        write_kernel = _SKELETONS[of.kind]
        return dataclasses.replace(write_kernel(of, drafting.with_tiles(key), file.names.new(called), said), key=key)

    parts = parts_of(program, small, drafting.choice.tiles_of(kernel.key), drafting.brief.hardware.processors)
    if parts < 2:
        return [text(small, name, comment, kernel.key)]
    first, second = split(program, small, parts)
    forward.name_outputs(root.value for root in first.roots)
    put_together = (f"{comment[0].split(':')[0]}: combines the parts.",)
    return [
        text(first, f"{name.removesuffix('_kernel')}_parts_kernel", comment, kernel.key),
        text(collapsed(second), name, put_together, f"{kernel.key}/parts"),
    ]


def _structure(structures: Sequence[str], forward: Forward) -> str:
    """Return the nesting of the outputs, with an expression for each whole number in it that changes with the sizes."""
    apart = [_WHOLE_NUMBER.split(structure) for structure in structures]
    if any(len(parts) != len(apart[0]) or parts[::2] != apart[0][::2] for parts in apart):
        raise BeyondAuthor("the outputs are nested differently at other sizes")
    made = ""
    for entries in zip(*apart):
        known = len(set(entries)) == 1
        made += entries[0] if known else forward.sizes.expression(tuple(int(entry) for entry in entries))
    return made


def _filled(structure: str, texts: Sequence[str]) -> str:
    parts = structure.split("*")
    made = parts[0] + "".join(text + rest for text, rest in zip(texts, parts[1:]))
    return made[1:-1] if made.startswith("(") and made.endswith(")") and not made.endswith(",)") else made


# -- the file ------------------------------------------------------------------------------------------------------


def _file(brief: Brief, model: ModelText, drafts: Sequence[Draft]) -> str:
    kernels = [kernel for one in drafts for kernel in one.kernels if not kernel.repeats]
    more = drafts[-1].statements
    if model.stands_alone:
        beside = [name for one in drafts for name in one.of_the_file]
        imports, helpers, header, constructor = model.header(more, beside)
    else:
        graph = (brief.train_graphs or brief.graphs)[0]
        imports, helpers, header = [], [], "class ModelNew(nn.Module):"
        constructor = tree_of_parameters(graph) if graph.parameters or graph.buffers or more else []
        constructor += [f"        {line}" for line in more]
    lines = [*_imports(imports, kernels, drafts, helpers, constructor), ""]
    for function in dict.fromkeys(f for kernel in kernels for f in kernel.functions):
        lines += ["", *FUNCTIONS[function], ""]
    for kernel in kernels:
        lines += ["", *_kernel_lines(kernel), ""]
    if any(kernel.arguments.matrices for kernel in kernels):
        lines += ["", *HOST_FUNCTIONS[DESCRIBED], ""]
    if any(kernel.persistent for kernel in kernels):
        lines += ["", *HOST_FUNCTIONS[PROCESSORS], ""]
    host = ((BY_TAPS, LAYING_OUT), (IN_PARTS, TAKING_PARTS), (IN_LAYOUT, PUTTING_IN_LAYOUT))
    for called, function_lines in host:
        if any(f" = {called}(" in line for one in drafts for line in one.lines):
            lines += ["", *function_lines, ""]
    for helper in helpers:
        lines += ["", *helper.splitlines(), ""]
    lines += ["", header, *constructor]
    if len(drafts) > 1:
        forward = list(drafts[0].lines)
        signature = forward[0].strip().removeprefix("def _evaluate(").removesuffix("):")
        passed = ", ".join(item.split("=")[0].strip() for item in signature.split(",")[1:])
        lines += ["", f"    def forward({signature}):"]
        lines += [f"        return self._train({passed}) if self.training else self._evaluate({passed})"]
    for one in drafts:
        lines += ["", *one.lines]
    return "\n".join(_tidy(formatted(lines))) + "\n"


def _imports(
    own: Sequence[str],
    kernels: Sequence[KernelText],
    drafts: Sequence[Draft],
    helpers: Sequence[str],
    more: Sequence[str],
) -> list[str]:
    text = "\n".join([*(line for one in drafts for line in one.lines), *helpers, *more])
    standard = {"import math"} if "math." in text else set()
    third = {"import torch", "import torch.nn as nn"}
    if kernels:
        third |= {"import triton", "import triton.language as tl"}
    if any(kernel.arguments.matrices for kernel in kernels):
        third.add(DESCRIPTOR_IMPORT)
    if any(kernel.persistent for kernel in kernels):
        standard.add("import functools")
    if any(kernel.uses_libdevice for kernel in kernels):
        third.add("from triton.language.extra import libdevice")
    for line in own:
        (third if line.split()[1].split(".")[0] in ("torch", "triton") else standard).add(line)
    future = sorted(line for line in standard if "__future__" in line)
    standard -= set(future)
    parts = [future, sorted(standard), sorted(third, key=lambda line: (line.split()[1], line))]
    return [line for part in parts if part for line in (*part, "")][:-1]


def _kernel_lines(kernel: KernelText) -> list[str]:
    signature = wrapped(f"def {kernel.name}({', '.join(kernel.signature())}):")
    comment = [f'    """{kernel.comment[0]}"""'] if kernel.comment else []
    return ["@triton.jit", *signature, *comment, *kernel.lines]


def _tidy(lines: Sequence[str]) -> list[str]:
    """Remove all but two of consecutive blank lines, and those at the end."""
    made: list[str] = []
    for line in lines:
        if line or not (len(made) > 1 and not made[-1] and not made[-2]):
            made.append(line)
    while made and not made[-1]:
        made.pop()
    return made
