"""Writes the `forward` of the new module: shapes, memory, launches, and calls of torch operators."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from triton_agent.policy.author.brief import BeyondAuthor
from triton_agent.policy.author.drafting import Drafting, last_word
from triton_agent.policy.author.emit.arguments import Names
from triton_agent.policy.author.emit.constructor import path_of
from triton_agent.policy.author.emit.file_parts import IN_LAYOUT, FileParts
from triton_agent.policy.author.emit.kernel_text import BlockSize, GridEntry, KernelText, Wide
from triton_agent.policy.author.ir.program import Number, Value
from triton_agent.policy.author.ir.sizes import (
    Shape,
    Size,
    is_constant,
    number_expression,
)
from triton_agent.policy.author.ir.torch_calls import BY_TAPS, IN_PARTS, TorchCall
from triton_agent.policy.author.tile.descriptors import DESCRIBED, PROCESSORS
from triton_agent.policy.author.tile.product_facts import InParts
from triton_agent.tools.graph.module_attributes import ARGUMENT, OF_THE_FILE, HeldTensor

_DIMENSION_NAMES = {
    1: ("length",),
    2: ("rows", "columns"),
    3: ("batch", "length", "width"),
    4: ("batch", "channels", "height", "width"),
    5: ("batch", "channels", "depth", "height", "width"),
}
_INDENT = "        "
_LONGEST_HEAD = 96
"""Most characters before the arguments of a launch; with more, the grid is assigned to a variable first."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Unpacked:
    """One dimension of a tensor that is unpacked into a variable."""

    tensor: str
    dim: int
    rank: int
    name: str


class Forward:
    """Writes one method. Names of tensors and sizes are decided first, because the kernels use them, too."""

    def __init__(self, drafting: Drafting, file: FileParts) -> None:
        self.file = file
        self.graph, self.program, self.constants = drafting.graph, drafting.program, file.constants
        self.names = Names({"self", "nn", "out", "grid"})
        self.host = drafting.host
        self.sizes, self.texts, self.in_place = self.host.sizes, self.host.texts, self.host.in_place
        self.limits: list[str] = []
        self.loaded: frozenset[str] = frozenset()
        """Values that kernels read. Results of torch operators among them are made contiguous, as their strides may
        differ.
        """
        self.of_the_file: list[str] = []
        """Module-level names of the reference's file that stand for tensors."""
        self.parameters = self._parameters(file.model.forward_arguments())
        self._inputs(drafting.brief.input_structure)
        self._owned(file.model.tensors_kept_as_attributes() if file.model.stands_alone else [], drafting.brief.tensors)
        self._opening: list[str] = []
        self._take_out()
        self._unpacked = self._dimensions()
        if file.model.forward_arguments() is not None:
            self._given_numbers()
        for name, values in self.graph.numbers.items():
            if name.startswith(ARGUMENT):
                continue
            text = path_of(f"p:{name}")
            self.sizes.fractions[text] = tuple(float(value) for value in values)
            if all(isinstance(value, int) for value in values):
                self.sizes.attributes[text] = tuple(int(value) for value in values)
        # Halves come last, because an expression in the module's own numbers is preferred.
        halves = {f"({text} // 2)": tuple(v // 2 for v in held) for text, held in self.sizes.attributes.items()}
        self.sizes.attributes |= {text: held for text, held in halves.items() if not is_constant(held)}
        self._derived = self._derived_sizes()
        self._lines: list[str] = []
        self._begun: set[str] = set()
        """Values that are allocated while their pieces are stored one by one."""
        self._results: dict[str, list[str]] = {}
        """The text of each result of a torch operator."""

    # -- names -----------------------------------------------------------------------------------------------------

    def _parameters(self, arguments: ast.arguments | None) -> list[str]:
        if arguments is None:
            count = len(self.graph.main.inputs)
            self.signature = ", ".join(["self", *(f"x{i}" for i in range(count))])
            return [self.names.new(f"x{i}") for i in range(count)]
        plain = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)][1:]
        bare = ast.arguments(
            posonlyargs=[_bare(a) for a in arguments.posonlyargs],
            args=[_bare(a) for a in arguments.args],
            vararg=None if arguments.vararg is None else _bare(arguments.vararg),
            kwonlyargs=[_bare(a) for a in arguments.kwonlyargs],
            kw_defaults=arguments.kw_defaults,
            kwarg=None if arguments.kwarg is None else _bare(arguments.kwarg),
            defaults=arguments.defaults,
        )
        owner = (bare.posonlyargs or bare.args)[0]
        owner.arg = "self"
        self.signature = ast.unparse(bare)
        for name in (*plain, *(argument.arg for argument in arguments.kwonlyargs)):
            self.names._taken.add(name)
        if arguments.vararg is not None:
            vararg = arguments.vararg.arg
            count = len(self.graph.main.inputs) - len(plain) - len(arguments.kwonlyargs)
            plain += [f"{vararg}[{i}]" for i in range(count)]
        return plain + [argument.arg for argument in arguments.kwonlyargs]

    def _inputs(self, structure: str) -> None:
        """Find the argument that holds each input tensor."""
        places = _places(structure, self.parameters) if structure else self.parameters
        for source, place in zip(self.graph.main.inputs, places):
            self._texts_of(source, place)

    def _texts_of(self, source: str, text: str) -> None:
        for value in self.program.values.values():
            if value.operation == "source" and value.function == source:
                self.texts[value.name] = text

    def _take_out(self) -> None:
        """Assign tensors inside lists and dicts to variables: the caller's containers must not be written to."""
        needed = self.program.needed()
        for value in self._sources():
            text = self.texts.get(value.name, "")
            if _is_input(value) and text and not text.isidentifier() and value.name in needed:
                self.texts[value.name] = self.names.new("_".join(re.findall(r"\w+", text)))
                self._opening.append(f"{_INDENT}{self.texts[value.name]} = {text}")
        moved = {name for n in self.graph.main.nodes if n.operator == "aten._to_copy" for name in n.references()}
        for value in self._sources():
            if value.function in moved and value.function in self.graph.main.constants:
                # The model moves this constant to the inputs' device; move it before anything is launched.
                own = self.texts[value.name]
                self.texts[value.name] = self.names.new(last_word(own))
                self._opening.append(f"{_INDENT}{self.texts[value.name]} = {own}.to({self._first_tensor()}.device)")

    def _owned(self, attributes: Sequence[str], held: Sequence[HeldTensor]) -> None:
        main = self.graph.main
        for source in (*main.parameters, *main.buffers):
            self._texts_of(source, path_of(source))
        used = [value.function for value in self._sources() if value.function in main.constants]
        waiting = list(held)
        rest = list(attributes)
        for source in sorted(used, key=lambda name: int(name[1:])):
            meta = main.constants[source]
            alike = next((t for t in waiting if (t.shape, t.dtype) == (meta.shape, meta.dtype)), None)
            if source in main.held:
                self._texts_of(source, path_of(f"b:{main.held[source]}"))
            elif source in main.contents:
                self._texts_of(source, f"self.{self._constant(source)}")
            elif alike is not None and alike.path.startswith(OF_THE_FILE):
                waiting.remove(alike)
                self.of_the_file.append(alike.path.removeprefix(OF_THE_FILE))
                self.names._taken.add(self.of_the_file[-1])
                self._texts_of(source, self.of_the_file[-1])
            elif alike is not None:
                waiting.remove(alike)
                self._texts_of(source, path_of(f"b:{alike.path}"))
            elif rest:
                self._texts_of(source, f"self.{rest.pop(0)}")
            else:
                raise BeyondAuthor("the model uses a tensor that is no input, parameter, buffer or attribute")

    def _constant(self, source: str) -> str:
        """Return the buffer for a literal list of numbers in the reference. A buffer is on the module's device."""
        if any(
            repr(graph.contents.get(source)) != repr(self.graph.main.contents[source]) for graph in self.graph.graphs
        ):
            raise BeyondAuthor("the model makes a tensor of numbers that change with the sizes")
        meta = self.graph.main.constants[source]
        elements = iter(self.graph.main.contents[source])
        made = f"torch.tensor({_nested(elements, meta.shape)}, dtype=torch.{meta.dtype})"
        return self.constants.name_of(made)

    def _sources(self) -> list[Value]:
        needed = self.program.needed()
        needed |= self.program.updates.keys()
        return [v for v in self.program.values.values() if v.operation == "source" and v.name in needed]

    def _idle_inputs(self) -> list[Value]:
        """Return inputs that nothing is computed from."""
        used = {value.name for value in self._sources()}
        return [v for v in self.program.values.values() if _is_input(v) and v.name not in used]

    def _dimensions(self) -> dict[str, _Unpacked]:
        """Name each size that a tensor's dimension has, those of the inputs first."""
        found: dict[str, _Unpacked] = {}
        order = sorted(self._sources(), key=lambda value: (not _is_input(value), value.name))
        for value in [*order, *self._idle_inputs()]:
            if value.name not in self.texts:
                continue
            rank = len(value.shape)
            for dim, size in enumerate(value.shape):
                if self.sizes.find(size) is not None or is_constant(size, 1):
                    continue
                wanted = _DIMENSION_NAMES.get(rank, ())[dim] if rank in _DIMENSION_NAMES else f"size{dim}"
                if not self.names.is_free(wanted):
                    wanted = f"{last_word(self.texts[value.name])}_{wanted}"
                name = self.names.new(wanted)
                found[name] = _Unpacked(value.name, dim, rank, name)
                self.sizes.add(name, size)
        return found

    def _given_numbers(self) -> None:
        """Name each size that is an argument of the call, such as the position in a cache."""
        for name, values in self.graph.numbers.items():
            place, size = name.removeprefix(ARGUMENT), tuple(int(value) for value in values)
            if place == name or int(place) >= len(self.parameters) or is_constant(size):
                continue
            if self.sizes.find(size) is None:
                self.sizes.add(self.parameters[int(place)], size)

    def _derived_sizes(self) -> dict[str, str]:
        """Name sizes of intermediate values that are not plain products, such as a convolution's height."""
        found = self._formulas()
        needed = self.program.needed()
        for value in self.program.values.values():
            if value.name not in needed or value.operation == "torch":
                continue
            for dim, size in enumerate(value.shape):
                text = None if is_constant(size) else self.sizes.search(size)
                if text is None or not re.search(r"[-+/(]", text):
                    continue
                rank = len(value.shape)
                word = _DIMENSION_NAMES[rank][dim] if rank in _DIMENSION_NAMES else "size"
                name = self.names.new(word if self.names.is_free(word) else f"out_{word}")
                found[name] = text
                self.sizes.add(name, size)
        return found

    def _formulas(self) -> dict[str, str]:
        """Name sizes for which an operator provides a formula with known operands."""
        found: dict[str, str] = {}
        for formula in self.program.formulas:
            if is_constant(formula.size) or self.sizes.find(formula.size) is not None:
                continue
            operands = [self.sizes.search(operand) for operand in formula.operands]
            if any(operand is None for operand in operands):
                continue
            plain = [o if o.isidentifier() or o.isdigit() else f"({o})" for o in operands if o is not None]
            name = self.names.new(formula.name)
            found[name] = formula.template.format(*plain)
            self.sizes.add(name, formula.size)
        return found

    def name_outputs(self, outputs: Iterable[str]) -> None:
        """Name the values that kernels store; a single result is called `out`."""
        for value in outputs:
            if value not in self.texts:
                last = len([o for o in self.program.outputs if o == value]) and len(set(self.program.outputs)) == 1
                self.texts[value] = "out" if last else self.names.new(self.program.values[value].hint or "made")

    # -- statements ------------------------------------------------------------------------------------------------

    def line(self, text: str) -> None:
        self._lines.append(_INDENT + text)

    def launch(self, kernel: KernelText) -> None:
        for root in {root.value: root for root in kernel.kernel.roots}.values():
            if root.value not in self.in_place:
                self._allocate_to_add_to(root.value) if root.adds else self._allocate(root.value)
        if kernel.parts is not None:
            self._take_parts(kernel.parts)
        given = kernel.arguments
        passed = [self._tensor_argument(value) for value in given.tensors.values()]
        for name, size in given.sizes.items():
            passed.append(self._size_argument(name, size))
        for number in given.numbers.values():
            passed.append(self._number_text(number))
        options = []
        kernel = self._with_blocks_named(kernel)
        if given.matrices:
            flag, matrices = self._described(kernel)
            passed = [*matrices, *passed]
            options = [f"DESCRIBED={flag}"]
        options += [f"{name}={self._block(block)}" for name, block in kernel.blocks.items()]
        warps = self._wide(kernel.tiles.warps, kernel.wide_warps)
        options += [f"num_warps={warps}"] if warps != "4" else []
        options += [f"num_stages={kernel.tiles.stages}"] if kernel.tiles.stages else []
        grid = self._grid(kernel)
        if len(f"{_INDENT}{kernel.name}[{grid}](") > _LONGEST_HEAD:
            self.line(f"grid = {grid}")
            grid = "grid"
        self.line(f"{kernel.name}[{grid}]({', '.join([*passed, *options])})")

    def _with_blocks_named(self, kernel: KernelText) -> KernelText:
        """Write a line for each block whose value depends on a size, and return the kernel with the blocks' names."""
        blocks = dict(kernel.blocks)
        for name, block in blocks.items():
            if block.wide is None:
                continue
            local = self.names.new(name.lower())
            self.line(f"{local} = {self._wide(block.value, block.wide)}")
            blocks[name] = BlockSize(value=local)
        return dataclasses.replace(kernel, blocks=blocks)

    def _wide(self, usual: object, wide: Wide | None) -> str:
        """Return a number that is another one where sizes are large."""
        if wide is None:
            return str(usual)
        texts = dict.fromkeys(map(self.sizes.expression, wide.sizes))
        largest = next(iter(texts)) if len(texts) == 1 else f"max({', '.join(texts)})"
        return f"{usual} if {largest} <= {wide.at_most} else {wide.value}"

    def _described(self, kernel: KernelText) -> tuple[str, list[str]]:
        """Write the line that makes tensor descriptors; return the names of the flag and of the matrices."""
        items, names = [], []
        for name, matrix in kernel.arguments.matrices.items():
            one = () if matrix.batch is None else ("1",)
            blocks = ", ".join([*one, *(self._block(kernel.blocks[block]) for block in matrix.block)])
            sizes = ", ".join(self.sizes.expression(size) for size in matrix.shape(self.graph.width))
            items.append(f"({self._tensor_argument(matrix.value)}, ({sizes}), ({blocks}))")
            names.append(self.names.new(name))
        flag = self.names.new("described")
        self.line(f"{flag}, ({', '.join(names)}) = {DESCRIBED}({', '.join(items)})")
        return flag, names

    def _tensor_argument(self, value: str) -> str:
        return self.texts[value]

    def _size_argument(self, wanted: str, size: Size) -> str:
        text = self.sizes.expression(size)
        if not text.isidentifier() and not text.isdigit():
            name = self.names.new(wanted)
            self.line(f"{name} = {text}")
            self.sizes.names = {name: size, **self.sizes.names}
            return name
        return text

    def _number_text(self, number: Number) -> str:
        values = [float(value) for value in number.values]
        found = number_expression(values, self.sizes)
        if found is None:
            self.limits.append(f"the number {values[0]} is fixed to its value at the main size")
            return repr(values[0])
        return found

    def _block(self, block: BlockSize) -> str:
        if isinstance(block.value, int | str):
            return str(block.value)
        if is_constant(block.value):
            return str(max(block.at_least, 1 << max(0, block.value[0] - 1).bit_length()))
        text = f"triton.next_power_of_2({self.sizes.expression(block.value)})"
        return text if block.at_least == 1 else f"max({block.at_least}, {text})"

    def _grid(self, kernel: KernelText) -> str:
        entries = [self._grid_entry(entry, kernel.blocks) for entry in kernel.grid]
        if kernel.persistent:
            entries[0] = f"min({entries[0]}, {PROCESSORS}({self._first_tensor()}.device))"
        return f"({entries[0]},)" if len(entries) == 1 else f"({', '.join(entries)})"

    def _grid_entry(self, entry: GridEntry, blocks: dict[str, BlockSize]) -> str:
        parts = []
        for size, block in entry.parts:
            text = self.sizes.expression(size)
            by = blocks[block].value if isinstance(block, str) else block
            parts.append(text if by == 1 else f"triton.cdiv({text}, {by})")
        if len(parts) > 1:
            parts = [
                f"({part})" if not part.replace("(", " ").split()[0].startswith("triton") and " " in part else part
                for part in parts
            ]
        return " * ".join(parts) or "1"

    def _allocate_to_add_to(self, value: str) -> None:
        """Allocate zeros, or a copy of the tensor that is added to."""
        start = self.program.values[value].inputs[2:]
        if self.program.values[value].function:  # the copy that another kernel stored is overwritten
            self.texts[value] = self.texts[start[0]]
            return
        if not start:
            self._allocate(value, "zeros")
            return
        self.line(f"{self.texts[value]} = {self.texts[start[0]]}.clone(memory_format=torch.contiguous_format)")

    def _allocate(self, value: str, how: str = "empty") -> None:
        if value in self.program.placed:
            self._find_place(value)
            return
        made = self.program.values[value]
        like = self._like(made) if self.program.stored_dtype(value) == made.dtype else None
        if like is not None:  # kernels store contiguously; an input that no kernel reads keeps the caller's strides
            layout = "" if like.name in self.loaded else ", memory_format=torch.contiguous_format"
            self.line(f"{self.texts[value]} = torch.{how}_like({self.texts[like.name]}{layout})")
            return
        dtype = self._dtype(self.program.stored_dtype(value))
        options = f"dtype={dtype}, device={self._first_tensor()}.device"
        self.line(f"{self.texts[value]} = torch.{how}({self.shape_text(made.shape)}, {options})")

    def _find_place(self, value: str) -> None:
        """Take a view of another value's memory, which is allocated when the first of its pieces is stored."""
        place = self.program.placed[value]
        if place.whole not in self._begun:
            self._begun.add(place.whole)
            self._allocate(place.whole)
        whole = self.texts[place.whole]
        if is_constant(place.start, 0):
            self.texts[value] = whole
        else:
            start, length = self.sizes.expression(place.start), self.sizes.expression(place.length)
            self.line(f"{self.texts[value]} = {whole}.narrow({place.dim}, {start}, {length})")

    def _like(self, made: Value) -> Value | None:
        """Return an input with the same shape and dtype."""
        for value in self._sources():
            alike = value.shape == made.shape and value.dtype == made.dtype and value.name not in self.program.strides
            if alike and value.function.startswith("x") and made.shape and value.name in self.texts:
                return value
        return None

    def _first_tensor(self) -> str:
        for value in [*sorted(self._sources(), key=lambda value: not _is_input(value)), *self._idle_inputs()]:
            if value.name in self.texts:
                return self.texts[value.name]
        raise BeyondAuthor("the method has no input tensor")

    def _dtype(self, dtype: str) -> str:
        for value in self._sources():
            if value.function.startswith("x") and value.dtype == dtype and value.name in self.texts:
                return f"{self.texts[value.name]}.dtype"
        return f"torch.{dtype}"

    def shape_text(self, shape: Shape) -> str:
        texts = [self.sizes.expression(size) for size in shape]
        return f"({texts[0]},)" if len(texts) == 1 else f"({', '.join(texts)})"

    # -- torch -----------------------------------------------------------------------------------------------------

    def call_torch(self, value: Value) -> None:
        """Write the call of an operator that is left to torch."""
        if value.function == BY_TAPS:
            self._lay_out_weight(value)
            return
        call: TorchCall = value.detail
        operands = [self.view_text(operand) for operand in value.inputs]
        for place in call.overwritten:
            # The operand may be needed unchanged, too.
            fresh = self.names.new("written")
            self.line(f"{fresh} = {operands[place]}.clone()")
            operands[place] = fresh
        # Pass the arguments after the first by name: some schemas have keyword-only arguments.
        by_place = [not name or name.isdigit() or i == 0 for i, (name, _) in enumerate(call.arguments)]
        given = list(zip(call.arguments, by_place))
        texts = [self._argument(item, operands, name) for (name, item), plain in given if plain]
        texts += [
            f"{name}={self._argument(item, operands, name)}"
            for (name, item), plain in given
            if not plain and (item is not None or name in call.named) and name != "cudnn_enabled"
        ]
        if value.function == "aten.batch_norm":
            texts.append("cudnn_enabled=True")
        if call.on_device:  # otherwise torch would allocate on the CPU
            texts.append(f"device={self._first_tensor()}.device")
        name = self.names.new(value.hint or "made")
        packet = f"torch.ops.{value.function}" + (f".{call.overload}" if call.overload else "")
        gaps = not call.listed and (any(call.gaps[:1]) or value.name in self.loaded)
        self.line(f"{name} = {packet}({', '.join(texts)}){'.contiguous()' if gaps else ''}")
        own = len(call.gaps) - len(call.overwritten)
        results = [f"{name}[{k}]" if call.listed else name for k in range(own)]
        self._results[value.name] = [*results, *(operands[place] for place in call.overwritten)]
        self._take_result(value, value, 0)

    def _lay_out_weight(self, value: Value) -> None:
        name, rounded = self.names.new(value.hint), ", tf32=True" if value.detail else ""
        self.line(f"{name} = {self._made_once(BY_TAPS, value.inputs[0], rounded)}")
        self.texts[value.name] = name

    def _take_parts(self, parts: InParts) -> None:
        """Write the line that gives both parts of a weight, once in the method."""
        if parts.high in self.texts:
            return
        high, low = (self.names.new(self.program.values[part].hint) for part in (parts.high, parts.low))
        self.line(f"{high}, {low} = {self._made_once(IN_PARTS, parts.weight)}")
        self.texts |= {parts.high: high, parts.low: low}

    def _made_once(self, function: str, weight: str, options: str = "") -> str:
        """Return a call of a host function that keeps what it makes of a weight until the weight changes."""
        own, self.file.lays_out = self.texts[weight], True
        return f'{function}(self, "{own.removeprefix("self.")}", {own}{options})'

    def torch_output(self, value: Value) -> None:
        """Take a further output of an operator with several."""
        self._take_result(value, self.program.values[value.inputs[0]], value.detail)

    def _take_result(self, value: Value, call: Value, position: int) -> None:
        text = self._results[call.name][position]
        if (call.detail.gaps[position] or value.name in self.loaded) and text.endswith("]"):
            whole = self.names.new(call.hint or "made")
            self.line(f"{whole} = {text}.contiguous()")
            text = whole
        self.texts[value.name] = text
        self._learn_sizes(value)

    def _learn_sizes(self, value: Value) -> None:
        for dim, size in enumerate(value.shape):
            if self.sizes.find(size) is None and not is_constant(size, 1):
                self.sizes.add(f"{self.texts[value.name]}.shape[{dim}]", size)
        for name, text in self._formulas().items():
            self.line(f"{name} = {text}")

    def _argument(self, item: Any, operands: list[str], name: str = "") -> str:
        if isinstance(item, tuple) and len(item) == 2 and item[0] == "operand":
            return operands[item[1]]
        if isinstance(item, tuple) and len(item) == 2 and item[0] == "tuple":
            return f"[{', '.join(self._argument(inner, operands) for inner in item[1])}]"
        if isinstance(item, Number):
            if all(isinstance(v, int) for v in item.values):
                return self.sizes.expression(tuple(int(v) for v in item.values))
            return self._number_text(item)
        if isinstance(item, str) and (name in ("dtype", "memory_format", "layout") or item in _TORCH_WORDS):
            return f"torch.{item}"
        if isinstance(item, float) and item in (float("inf"), float("-inf")):
            return f'float("{item}")'
        return repr(item)

    # -- views -----------------------------------------------------------------------------------------------------

    def view_text(self, name: str) -> str:
        """Return a value as host code: a name, or a view of one."""
        if name in self.texts:
            return self.texts[name]
        value = self.program.values[name]
        if value.operation == "full":
            number = value.operands[0]
            assert isinstance(number, Number)
            device = f"device={self._first_tensor()}.device"
            filled = self._argument(number if not number.fixed else number.values[0], [])
            return f"torch.full({self.shape_text(value.shape)}, {filled}, dtype=torch.{value.dtype}, {device})"
        inner = self.view_text(value.inputs[0])
        if value.operation == "reshape":
            alike = self._shaped_like(value)
            if alike is not None:
                return f"{inner}.reshape({alike}.shape)"
            if not value.shape:
                return f"{inner}.reshape(())"
            return f"{inner}.reshape({', '.join(self.sizes.expression(size) for size in value.shape)})"
        if value.operation == "expand":
            return f"{inner}.expand({', '.join(self.sizes.expression(size) for size in value.shape)})"
        if value.operation == "permute":
            moved = [i for i, dim in enumerate(value.detail) if i != dim]
            if len(moved) == 2:
                return f"{inner}.transpose({moved[0]}, {moved[1]})"
            return f"{inner}.permute({', '.join(map(str, value.detail))})"
        if value.operation == "slice":
            return self._slice_text(value, inner)
        raise BeyondAuthor(f"{value.operation} is not a view that the host can write")

    def _shaped_like(self, value: Value) -> str | None:
        """Return an input of the same shape, which reads better than the sizes."""
        alike = (v for v in self._sources() if v.shape == value.shape and v.function.startswith("x") and v.shape)
        return next((self.texts[v.name] for v in alike if v.name in self.texts), None)

    def _slice_text(self, value: Value, inner: str) -> str:
        dim, start, step = value.detail
        if step < 0:
            return f"{inner}.flip({dim})"
        length = value.shape[dim]
        if step == 1:
            return f"{inner}.narrow({dim}, {self.sizes.expression(start)}, {self.sizes.expression(length)})"
        whole = self.program.values[value.inputs[0]].shape[dim]
        end = tuple(min(w, s + (n - 1) * step + 1) for w, s, n in zip(whole, start, length))
        dots = ":, " * dim
        return f"{inner}[{dots}{self.sizes.expression(start)}:{self.sizes.expression(end)}:{step}]"

    # -- the whole -------------------------------------------------------------------------------------------------

    def layouts(self) -> dict[str, str]:
        """Return a line for each input that is not contiguous, which gives it the strides that kernels read it by."""
        found = {}
        for value in self._sources():
            is_input = value.function.startswith("x") and value.name not in self.program.updates
            if is_input and value.name in self.program.strides and value.name in self.texts:
                strides = ", ".join(map(self.sizes.expression, self.program.strides[value.name]))
                text = self.texts[value.name]
                found[value.name] = f"{text} = {IN_LAYOUT}({text}, ({strides}{',' if len(value.shape) == 1 else ''}))"
        return found

    def text(self, name: str, outputs: str, contiguous: Iterable[str], layouts: Iterable[str]) -> list[str]:
        """Return the method. It makes the inputs in `contiguous` so, and begins with the lines in `layouts`."""
        self._lines = [*(_INDENT + line for line in layouts), *self._lines]
        body = "\n".join([*self._lines, outputs])
        used = {unpacked for key, unpacked in self._unpacked.items() if re.search(rf"\b{key}\b", body)}
        lines = [f"    def {name}({self.signature}):", *self._opening]
        for value in contiguous:
            lines.append(f"{_INDENT}{self.texts[value]} = {self.texts[value]}.contiguous()")
        derived = self._used_derived(body)
        more = "\n".join(derived)
        used |= {unpacked for key, unpacked in self._unpacked.items() if re.search(rf"\b{key}\b", more)}
        lines += self._unpacking(used)
        lines += derived
        lines += self._lines
        lines.append(f"{_INDENT}return {outputs}")
        return lines

    def _used_derived(self, body: str) -> list[str]:
        lines: list[str] = []
        for name, text in reversed(self._derived.items()):
            if re.search(rf"\b{name}\b", "\n".join([body, *lines])):
                lines.insert(0, f"{_INDENT}{name} = {text}")
        return lines

    def _unpacking(self, used: set[_Unpacked]) -> list[str]:
        lines = []
        for tensor in dict.fromkeys(unpacked.tensor for unpacked in self._unpacked.values()):
            mine = {u.dim: u for u in used if u.tensor == tensor}
            text = self.texts[tensor]
            if not mine:
                continue
            rank = next(iter(mine.values())).rank
            if len(mine) == 1 and rank > 1:
                (only,) = mine.values()
                dim = only.dim if only.dim < rank - 1 else -1
                lines.append(f"{_INDENT}{only.name} = {text}.shape[{dim}]")
            else:
                words = [mine[dim].name if dim in mine else "_" for dim in range(rank)]
                lines.append(f"{_INDENT}{', '.join(words)}{',' if rank == 1 else ''} = {text}.shape")
        return lines


_TORCH_WORDS = frozenset(
    {"float32", "float16", "bfloat16", "float64", "int64", "int32", "int16", "int8", "uint8", "bool"}
)


def _nested(elements: Iterator[Any], shape: Sequence[int]) -> str:
    """Format numbers as nested lists of this shape."""
    if not shape:
        element = next(elements)
        return repr(element) if element == element and abs(element) != float("inf") else f'float("{element}")'
    return f"[{', '.join(_nested(elements, shape[1:]) for _ in range(shape[0]))}]"


def _is_input(value: Value) -> bool:
    return value.operation == "source" and value.function.startswith("x")


def _bare(argument: ast.arg) -> ast.arg:
    return ast.arg(arg=argument.arg, annotation=None)


def _places(structure: str, parameters: list[str]) -> list[str]:
    """Return the expression of each tensor within the arguments, given their nesting with a star for each tensor."""
    try:
        nested = ast.literal_eval(re.sub(r"\*", "'*'", structure))
    except (ValueError, SyntaxError):
        return parameters
    found: list[str] = []

    def walk(item: Any, text: str) -> None:
        if item == "*":
            found.append(text)
        elif isinstance(item, (list, tuple)):
            for i, inner in enumerate(item):
                walk(inner, f"{text}[{i}]")
        elif isinstance(item, dict):
            for key, inner in item.items():
                walk(inner, f"{text}[{key!r}]")

    for item, name in zip(nested if isinstance(nested, (list, tuple)) else [nested], parameters):
        walk(item, name)
    return found
