"""Runs a model once and records every torch operator that it calls.

Two torch modes observe the call: one sees operators as torch dispatches them, the other sees Python functions before
torch decomposes them. `tensor_names.py` tells which value each tensor is. Not recorded: computation outside torch
(numpy, kernels that are not torch operators), and writes that an operator does not declare.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.distributions import Distribution
from torch.overrides import TorchFunctionMode

from triton_agent.tools.dispatch_modes import UncompiledMode
from triton_agent.tools.graph.call import structure_of, tensors_in, tensors_within, undisturbed
from triton_agent.tools.graph.canonical import (
    Wording,
    composite_of,
    composite_wording,
    traits_of,
    wording_of,
    written_by,
)
from triton_agent.tools.graph.graph import Node, OperatorGraph
from triton_agent.tools.graph.operators import bare_name
from triton_agent.tools.graph.tensor_names import Layout, Memory, MemoryBook, layout_of, meta_of
from triton_agent.tools.graph.values import Argument, Reference, TensorMeta, references_in, renamed

_IGNORED_ARGUMENTS = frozenset({"device", "layout", "pin_memory", "non_blocking", "generator", "inplace"})
"""Arguments that do not change the values of the result."""
_IDENTITIES = frozenset({"lift_fresh", "lift", "detach", "alias"})
"""Operators that return their tensor unchanged. They are not recorded for a tensor that the graph does not know yet."""
_QUERIES = frozenset({"prim.device.default"})
"""Queries that tensors without memory send through the dispatcher."""
_VALUE_READS = frozenset({"tolist", "numpy", "__array__", "__dlpack__"})
"""Methods that read values without dispatching an operator."""
_VALIDATORS = frozenset({torch.nn.functional.gaussian_nll_loss})
"""Functions of torch that read values only to raise an error; the values do not change what they compute."""
_MOST_CONTENTS = 64
"""Maximum number of elements of a constant whose contents are kept; lists in the text of a model are rarely longer."""
_PLAIN_DTYPES = frozenset(
    {torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64}
    | {torch.float16, torch.bfloat16, torch.float32, torch.float64}
)


def extract(model: nn.Module, inputs: Sequence[object], *, kwargs: Mapping[str, object] | None = None) -> OperatorGraph:
    """Run `model(*inputs, **kwargs)` once on real tensors and return the graph of the call.

    The model, the inputs and the random states are restored afterwards.
    """
    keywords = kwargs or {}
    recorder = _Recorder()
    given = [*tensors_in(list(inputs)), *tensors_in(keywords)]
    validates = Distribution._validate_args
    with undisturbed(model, given) as twin:
        recorder.adopt("x", {str(position): tensor for position, tensor in enumerate(given)})
        recorder.adopt("p:", dict(twin.named_parameters()))
        recorder.adopt("b:", dict(twin.named_buffers()))
        recorder.note_attributes(twin)
        Distribution.set_default_validate_args(False)  # distributions read their arguments only to raise an error
        try:
            with torch.no_grad(), _Functions(recorder), _Operators(recorder):
                outputs = twin(*inputs, **keywords)
            return recorder.finish(outputs)
        finally:
            Distribution.set_default_validate_args(validates)
            recorder.restore()


class _Operators(UncompiledMode):
    supports_higher_order_operators = True

    def __init__(self, recorder: _Recorder) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._recorder = recorder

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return self._recorder.operator(func, args, kwargs or {})


class _Functions(TorchFunctionMode):
    def __init__(self, recorder: _Recorder) -> None:
        super().__init__()
        self._recorder = recorder

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return self._recorder.function(func, args, kwargs or {})


class _Recorder:
    """Collects nodes while a model runs."""

    def __init__(self) -> None:
        self._book = MemoryBook()
        self._nodes: list[Node] = []
        self._sources: dict[str, dict[str, TensorMeta]] = {kind: {} for kind in "xpbc"}
        self._shared: dict[str, str] = {}
        self._attributes: list[tuple[str, torch.Tensor]] = []
        self._held: dict[str, str] = {}
        self._contents: dict[str, tuple[Argument, ...]] = {}
        self._droppable: dict[int, range] = {}
        self._data_dependent = False
        self._inside_composite = False
        self._only_refuses = False
        """True while reads of values only decide if an error is raised."""
        self.restore = self._book.restore

    def adopt(self, prefix: str, tensors: Mapping[str, torch.Tensor]) -> None:
        """Add tensors that existed before the call as sources. Their names are `prefix` and their own name."""
        for name, tensor in tensors.items():
            self._sources[prefix[0]][prefix + name] = meta_of(tensor)
            shared_with = self._book.adopt(tensor, prefix + name)
            if shared_with is not None:
                self._shared[prefix + name] = shared_with

    def note_attributes(self, model: nn.Module) -> None:
        """Record the tensors that modules hold as plain attributes; a constant may be one of them."""
        for path, module in model.named_modules():
            for name, value in vars(module).items():
                if name not in ("_parameters", "_buffers", "_modules"):
                    self._attributes += tensors_within(value, f"{path}.{name}" if path else name)

    def function(self, function: Callable[..., Any], arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Call a Python function of torch, and record it as one node if it is a composite."""
        if getattr(function, "__name__", "") in _VALUE_READS and any(map(self._book.find, tensors_in(arguments))):
            self._data_dependent = True
        if function in _VALIDATORS:
            self._only_refuses = True
            try:
                return function(*arguments, **keywords)
            finally:
                self._only_refuses = False
        composite = composite_of(function, arguments, keywords)
        if composite is None or self._inside_composite:
            return function(*arguments, **keywords)
        passed = dict(zip(composite.names, arguments))
        passed.update({composite.aliases.get(name, name): value for name, value in keywords.items()})
        wording = composite_wording(composite, self._encode_all(passed))
        self._inside_composite = True
        try:
            result = function(*arguments, **keywords)
        finally:
            self._inside_composite = False
        self._write_down(wording, tensors_in(result))
        return result

    def operator(self, operator: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Call a dispatched operator, and record it."""
        handover = bare_name(str(operator)) in _IDENTITIES and self._book.find(arguments[0]) is None
        if self._inside_composite or handover or str(operator) in _QUERIES:
            return operator(*arguments, **keywords)
        names = traits_of(operator).names or map(str, range(len(arguments)))
        passed = {**dict(zip(names, arguments)), **keywords}
        overwritten = written_by(operator, passed)
        written = [tensor for name in passed if name in overwritten for tensor in tensors_in(passed[name])]
        # Look names up before the call, which may change the values that the tensors show.
        writes = tuple(self._refer(tensor).name for tensor in written)
        wording = wording_of(operator, self._encode_all(passed), len(arguments))
        if "indices" in passed:  # indexing reads values only for masks, although its tag says that it always may
            looks = any(index.dtype in (torch.bool, torch.uint8) for index in tensors_in(passed["indices"]))
        else:
            looks = traits_of(operator).looks_at_values
        self._data_dependent |= looks and bool(_references(wording)) and not self._only_refuses
        for tensor in written:
            self._book.keep_original(tensor)
        result = operator(*arguments, **keywords)
        self._write_down(wording, tensors_in(result), written, writes)
        return result

    def finish(self, outputs: object) -> OperatorGraph:
        updates: dict[str, str] = {}
        names = tuple(self._refer(tensor).name for tensor in tensors_in(outputs))
        for memory in [memory for memory in self._book if memory.written]:
            for source, layout in memory.sources:
                value = self._name_in(memory, layout)
                if value != source:
                    updates[source] = value
        graph = OperatorGraph(
            inputs=self._sources["x"],
            parameters=self._sources["p"],
            buffers=self._sources["b"],
            constants=self._sources["c"],
            outputs=names,
            output_structure=structure_of(outputs),
            updates=updates,
            nodes=tuple(self._nodes),
            shared=self._shared,
            held=self._held,
            contents=self._contents,
            data_dependent=self._data_dependent,
        )
        return _pruned(graph, self._droppable)

    def _encode_all(self, passed: Mapping[str, Any]) -> dict[str, Argument]:
        return {name: self._encode(value) for name, value in passed.items() if name not in _IGNORED_ARGUMENTS}

    def _encode(self, value: object) -> Argument:
        if isinstance(value, torch.Tensor):
            if value.dim() == 0 and value.layout is torch.strided and self._book.find(value) is None:
                number: Argument = value.item()  # made outside the graph, so it is a constant of this call
                return number
            return self._refer(value)
        if isinstance(value, list | tuple):
            return tuple(self._encode(item) for item in value)
        if value is None or isinstance(value, bool | int | float | complex | str):
            return value
        plain = isinstance(value, torch.dtype | torch.memory_format | torch.layout | torch.device)
        return str(value).removeprefix("torch.") if plain else getattr(value, "__name__", type(value).__name__)

    def _refer(self, tensor: torch.Tensor) -> Reference:
        """Return the value that `tensor` holds now; an unknown tensor becomes a constant."""
        memory = self._book.find(tensor)
        if memory is not None:
            return Reference(name=self._name_in(memory, layout_of(tensor)))
        name, meta = f"c{len(self._sources['c'])}", meta_of(tensor)
        path = next((path for path, other in self._attributes if _is_same(other, tensor)), None)
        usual = type(tensor) is torch.Tensor and tensor.layout is torch.strided and tensor.dtype in _PLAIN_DTYPES
        if path is not None:
            self._held[name] = path
        elif meta.numel <= _MOST_CONTENTS and usual and tensor.device.type != "meta":
            with torch._C.DisableTorchFunction():
                self._contents[name] = tuple(tensor.detach().flatten().tolist())
        self.adopt("c", {name.removeprefix("c"): tensor})
        return self._refer(tensor)

    def _name_in(self, memory: Memory, layout: Layout) -> str:
        """Return the value of a layout of known memory. If a write made it outdated, read it again from the root."""
        if layout not in memory.names:
            wording = _as_strided_call("as_strided", [memory.root], layout.meta)
            memory.names[layout] = self._add(wording, [layout.meta], view_of=memory.root).output_name()
        return memory.names[layout]

    def _write_down(
        self,
        wording: Wording,
        results: Sequence[torch.Tensor],
        written: Sequence[torch.Tensor] = (),
        writes: tuple[str, ...] = (),
    ) -> None:
        """Make a node of a finished call, and name the values that it made, viewed or overwrote."""
        made = [tensor for tensor in results if not self._is_known(tensor)]
        if made and not written:  # one of them may be known: `x[0]`, and then all of `x.unbind()`
            made = list(results)
        looked = not results and bool(_references(wording)) and not self._only_refuses
        if not made and not written and not looked:
            return  # a view that changes nothing, or a call that involves no value of the graph
        view_of = None
        memories = [self._book.find(tensor) for tensor in made]
        if memories and memories[0] is not None and all(other is memories[0] for other in memories):
            shown = set(memories[0].names.values())
            view_of = next((name for name in _references(wording) if name in shown), memories[0].root)
        node = self._add(wording, map(meta_of, [*made, *written]), view_of=view_of, writes=writes)
        if wording.telling_results is not None:
            self._droppable[node.index] = range(wording.telling_results, len(made))
        for position, tensor in enumerate(made):
            if not self._is_known(tensor):
                self._book.name(tensor, node.output_name(position))
        for position, tensor in enumerate(written, len(made)):
            self._overwrite(tensor, node.output_name(position))

    def _is_known(self, tensor: torch.Tensor) -> bool:
        memory = self._book.find(tensor)
        return memory is not None and layout_of(tensor) in memory.names

    def _overwrite(self, tensor: torch.Tensor, name: str) -> None:
        memory, layout = self._book.find(tensor), layout_of(tensor)
        if memory is None:
            self._book.name(tensor, name)
        elif not memory.overwrite(layout, name):
            wording = _as_strided_call("as_strided_scatter", [memory.root, name], layout.meta)
            patched = self._add(wording, [memory.root_layout.meta], writes=(memory.root,))
            memory.patch_root(patched.output_name(), layout, name)

    def _add(
        self, wording: Wording, outputs: Iterable[TensorMeta], view_of: str | None = None, writes: tuple[str, ...] = ()
    ) -> Node:
        node = Node(
            index=len(self._nodes),
            operator=wording.operator,
            overload=wording.overload,
            arguments=wording.arguments,
            argument_names=wording.names,
            keywords=wording.keywords,
            outputs=tuple(outputs),
            view_of=view_of,
            writes=writes,
        )
        self._nodes.append(node)
        return node


def _is_same(a: torch.Tensor, b: torch.Tensor) -> bool:
    if a is b:
        return True
    plain = all(tensor.layout is torch.strided and not tensor.is_nested for tensor in (a, b))
    same = plain and a.untyped_storage()._cdata == b.untyped_storage()._cdata
    return same and layout_of(a) == layout_of(b)


def _references(wording: Wording) -> list[str]:
    return [*references_in(wording.arguments), *references_in(tuple(wording.keywords.values()))]


def _as_strided_call(name: str, values: Sequence[str], meta: TensorMeta) -> Wording:
    """Return an `as_strided` or `as_strided_scatter` call, added where a write made a view outdated."""
    return Wording(
        operator=f"aten.{name}",
        overload="default",
        names=(*("self", "src")[: len(values)], "size", "stride", "storage_offset"),
        arguments=(*(Reference(name=value) for value in values), meta.shape, meta.strides, meta.offset),
    )


def _pruned(graph: OperatorGraph, droppable: Mapping[int, range]) -> OperatorGraph:
    """Return the graph without nodes that nothing depends on, and without unused outputs listed in `droppable`."""
    used = {*graph.outputs, *graph.updates.values()}
    for node in reversed(graph.nodes):  # nodes come after the values they take, so one pass backwards is enough
        if not node.outputs or any(node.output_name(k) in used for k in range(len(node.outputs))):
            used.update(node.references(), node.writes, [node.view_of] if node.view_of else [])
    nodes: list[Node] = []
    names: dict[str, str] = {}
    for node in graph.nodes:
        if node.outputs and not any(node.output_name(k) in used for k in range(len(node.outputs))):
            continue
        optional = droppable.get(node.index, range(0))
        kept = [k for k in range(len(node.outputs)) if k not in optional or node.output_name(k) in used]
        short = dataclasses.replace(
            node,
            index=len(nodes),
            outputs=tuple(node.outputs[k] for k in kept),
            arguments=tuple(renamed(argument, names) for argument in node.arguments),
            keywords={name: renamed(argument, names) for name, argument in node.keywords.items()},
            view_of=names.get(node.view_of, node.view_of) if node.view_of else None,
            writes=tuple(names.get(name, name) for name in node.writes),
        )
        names.update({node.output_name(k): short.output_name(position) for position, k in enumerate(kept)})
        nodes.append(short)
    return dataclasses.replace(
        graph,
        nodes=tuple(nodes),
        outputs=tuple(names.get(name, name) for name in graph.outputs),
        updates={source: names.get(value, value) for source, value in graph.updates.items()},
    )
