"""Runs the reference in one case: its outputs, the truth behind them, and the state it leaves behind.

Computed once per problem and shared by all candidates. A case is a variant, a distribution, a version of the parameters
and a mode (train or eval). Only the packed inputs and parameters ever enter a candidate's process.

A dozen runs of the reference go into the limits of errors. Most right answers stay within narrower limits that take
three runs, so small cases begin with a *brief* expectation. For the first answer that fails it makes one with randomly
rounded runs, and that makes one with more of them for an answer that fails by little.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import copy
import dataclasses
import functools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

from triton_agent.tools.chance import secret_seed
from triton_agent.tools.problem.named_tuples import is_named
from triton_agent.tools.processes.payloads import Payload, pack
from triton_agent.tools.processes.tensors import Foreign, aliases, flatten, is_expanded, leaves, nested_tensors
from triton_agent.tools.reference.index_bounds import WildIndex, refusing_on_gpu
from triton_agent.tools.reference.input_tensors import is_plain
from triton_agent.tools.reference.module_copy import copied_module
from triton_agent.tools.reference.tensor_cores import Around
from triton_agent.tools.reference.user_code import seed_torch
from triton_agent.tools.truth.jumps import (
    AtJumps,
    Operands,
    decided_calls,
    margins,
    span_between,
    ties_in_all,
)
from triton_agent.tools.truth.random_rounding import DoublesSeen, Flush, Moved, Nudge
from triton_agent.tools.truth.truth import run_lifted
from triton_agent.tools.truth.yardstick import Yardstick, left_to_chance, near

NUDGE = 2.0**-24
"""Half a unit in the last place of float32, the precision in which kernels usually compute."""
NUDGE_DOUBLE = 2.0**-53
NUDGES_AT_FIRST = 2
"""Number of randomly rounded runs that usually suffice."""
NUDGES = 8
"""Number of randomly rounded runs if two leave much to chance. That all eight err by a quarter of the usual size or
less happens in two cases of a million."""

INFINITIES_GROWN = 2.0
"""How many times as many infinities of a sign an answer may have as the one to the inputs as given."""
PACKED_BESIDE_BYTES = 4 << 20
"""Size of inputs below which packing is faster than starting a thread for it."""


class OriginalFailed(Exception):
    """The reference cannot be used in this case: the text says why, `where` names the line, `remedy` what to do."""

    def __init__(self, what: str, *, where: str = "", remedy: str = "") -> None:
        super().__init__(what)
        self.where = where
        self.remedy = remedy


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """One tensor among the outputs, or a buffer after the call, and its yardstick."""

    name: str
    yard: Yardstick


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """The reference's behaviour in one case."""

    packed_inputs: Payload
    inputs_after: tuple[torch.Tensor, ...]
    """The input tensors after the reference has run."""
    inputs_changed: Mapping[int, Output] = dataclasses.field(default_factory=dict)
    """Yardsticks of inputs with floats that the call changed, by number. Without one, a candidate's bits must agree."""
    tree: Any = None
    """Nesting of the outputs as returned by `tensors.flatten`."""
    outputs: tuple[Output, ...] = ()
    state_before: dict[str, torch.Tensor] = dataclasses.field(default_factory=dict)
    state_after: tuple[Output, ...] = ()
    """Buffers that the call changed."""
    aliases: frozenset[tuple[int, str]] = frozenset()
    """Outputs of the reference that share memory with another tensor; a candidate's may share the same memory."""
    lifted: bool = False
    """True if the truth is float64; False if it is the reference in its own precision."""
    expanded: frozenset[int] = frozenset()
    """Outputs of the reference in which several elements share one place in memory."""
    strides: tuple[tuple[int, ...], ...] = ()
    """Strides of each output."""
    brief: bool = False
    """True if no randomly rounded runs were made."""
    closer: Callable[[], Expectation] | None = None
    """Makes an expectation with more randomly rounded runs, whose limits are nowhere narrower, if there is one."""

    def completed(self) -> Expectation:
        return self.closer() if self.brief and self.closer is not None else self

    @property
    def answer_bytes(self) -> int:
        """Size of the outputs and the inputs after the reference has run."""
        return bytes_of([*self.inputs_after, *(output.yard.original for output in self.outputs)])

    @property
    def state_bytes(self) -> int:
        return bytes_of(self.state_before.values())


def bytes_of(tensors: Iterable[torch.Tensor]) -> int:
    """Return the size of dense copies, as an answer contains them."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def expect(
    model: torch.nn.Module,
    args: list[Any] | Payload,
    *,
    scales: dict[str, float] | None = None,
    around: Around = contextlib.nullcontext,
    coarse: Around | None = None,
    draws: int = NUDGES_AT_FIRST,
    closer: Callable[[Payload], Expectation] | None = None,
) -> Expectation:
    """Run the reference on one set of inputs, packed or not; `model` itself does not change.

    `around` enters the user's precision and autocast; `coarse` enters less accurate arithmetic that is also allowed.
    `draws` is the least number of randomly rounded runs. With none the expectation is brief, unless the answer jumps
    somewhere. `closer` makes an expectation with more of them from the packed inputs.
    """
    with contextlib.closing(Given(args)) as given:
        doubles, operands = _computes_in_double(model, given, around)
        seen = _observed(model, given, around)
        names = [name for name, leaf in leaves(seen.tree) if "tensor" in leaf]
        names += [f"buffer {name}" for name in seen.changed]
        names += [f"input {number}" for number in seen.inputs_changed]
        jumps = _Jumps(operands)
        exact = _lifted(model, given.values, seen, jumps.watch())
        # Where the answer jumps, the reference's own error may be a jump, and is no limit for others.
        is_brief = not draws and exact is not None and not operands.seen
        nudged = []
        if exact is not None and not is_brief:
            least = max(draws, NUDGES_AT_FIRST)
            nudged = _nudged(model, given.values, seen, exact, jumps, doubles=doubles, least=least)
        yards = [
            _yardstick(original, truth, [run[i] for run in nudged], (scales or {}).get(name, 0.0))
            for i, (name, original, truth) in enumerate(zip(names, seen.tensors, exact or seen.tensors))
        ]
        if exact is not None and jumps.margins(doubles=doubles):
            runs = [_lifted(model, given.values, seen, jumps.moved(sign)) for sign in (1.0, -1.0)]
            sides = [run for run in runs if run is not None]
            yards = [_with_sides(yard, [side[i] for side in sides]) for i, yard in enumerate(yards)]
        if draws >= NUDGES and exact is not None and not doubles:
            flushed = _lifted(model, given.values, seen, Flush())
            yards = [_with_underflow(yard, flushed[i]) for i, yard in enumerate(yards)] if flushed else yards
        if coarse is not None and not is_brief:
            subject = copied_module(model)
            inputs = given.copies()
            with coarse() as products:
                coarser = nested_tensors(_run(subject, inputs))
            pairs = zip(yards, seen.in_order(coarser, subject, inputs))
            if products.met:
                yards = [
                    dataclasses.replace(yard, coarse=(other,) if other.shape == yard.truth.shape else ())
                    for yard, other in pairs
                ]
        kept = list(nested_tensors(seen.args))
        judged = tuple(Output(name=name, yard=yard.brought_near()) for name, yard in zip(names, yards))
        count = len(seen.outputs)
        outputs, others = judged[:count], iter(judged[count:])
        return Expectation(
            packed_inputs=given.packed(),
            tree=seen.tree,
            outputs=outputs,
            inputs_after=tuple(near(tensor.detach().clone()) for tensor in kept),
            state_before={name: near(value) for name, value in seen.before.items()},
            state_after=tuple(next(others) for _ in seen.changed),
            inputs_changed=dict(zip(seen.inputs_changed, others)),
            aliases=frozenset((i, name) for i, name in aliases(seen.outputs, kept, seen.subject)),
            lifted=exact is not None,
            expanded=frozenset(
                i
                for i, it in enumerate(seen.outputs)
                if it.layout is torch.strided and is_expanded(it.shape, it.stride())
            ),
            strides=tuple(it.stride() if it.layout is torch.strided else () for it in seen.outputs),
            brief=is_brief,
            closer=_later(closer, given.packed()) if is_brief or draws else None,
        )


def _later(closer: Callable[[Payload], Expectation] | None, packed: Payload) -> Callable[[], Expectation] | None:
    """Return a function that makes the closer expectation of these inputs at its first call, and keeps it."""
    return None if closer is None else functools.cache(functools.partial(closer, packed))


class Given:
    """The inputs of one case, for several runs of the reference, each on its own copies, and packed for candidates.

    Plain inputs are packed in a thread during these runs and used as they are. Other inputs are unpacked from their
    package first, so that they share nothing with the caller's objects.
    """

    def __init__(self, args: list[Any] | Payload) -> None:
        self._packing = concurrent.futures.Future[Payload]()
        self.values: list[Any]
        """The inputs. They are never written."""
        if isinstance(args, Payload) or not _is_plain(args):
            self._packing.set_result(args if isinstance(args, Payload) else pack(args))
            self.values = self.packed().unpack()
        else:
            self.values = args
            if bytes_of(nested_tensors(args)) < PACKED_BESIDE_BYTES:
                self._packing.set_result(pack(args))
            else:
                beside = concurrent.futures.ThreadPoolExecutor(max_workers=1, thread_name_prefix="packing")
                self._packing = beside.submit(pack, args)
                beside.shutdown(wait=False)

    def packed(self) -> Payload:
        return self._packing.result()

    def close(self) -> None:
        """Wait until packing no longer uses the GPU."""
        concurrent.futures.wait([self._packing])

    def copies(self) -> list[Any]:
        """Return copies on the same device with the same strides and sharing; unpacking again would move data again."""
        try:
            return copy.deepcopy(self.values)
        except NotImplementedError:  # some sparse and nested tensors
            return list(self.packed().unpack())


def _is_plain(value: Any) -> bool:
    """Return True if runs on copies, or in float64, cannot change the value."""
    if type(value) in (list, tuple) or is_named(value):
        return all(map(_is_plain, value))
    if type(value) is dict:
        return all(map(_is_plain, value.values()))
    if type(value) is torch.Tensor:
        return value.is_leaf
    return isinstance(value, (int, float, complex, str, bytes, torch.dtype, torch.device)) or value is None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """Outputs and changed buffers of a call of the reference, without the data needed to judge others."""

    outputs: tuple[torch.Tensor, ...]
    changed: dict[str, torch.Tensor]
    """Buffers that the call changed."""

    @classmethod
    def of(cls, expectation: Expectation) -> Behaviour:
        return cls(
            outputs=tuple(output.yard.original for output in expectation.outputs),
            changed={output.name: output.yard.original for output in expectation.state_after},
        )

    def agrees(self, other: Behaviour) -> bool:
        """Return True if all values are equal; NaN counts as zero."""
        if len(self.outputs) != len(other.outputs) or len(self.changed) != len(other.changed):
            return False
        pairs = zip((*self.outputs, *self.changed.values()), (*other.outputs, *other.changed.values()))
        return all(torch.equal(one.nan_to_num(), two.nan_to_num().to(one.device)) for one, two in pairs)


def behaviour(model: torch.nn.Module, packed: Payload, around: Around = contextlib.nullcontext) -> Behaviour:
    """Run the reference as `expect` does, without making an expectation; raise `OriginalFailed` in the same cases."""
    given = Given(packed)
    _computes_in_double(model, given, around)
    seen = _observed(model, given, around)
    return Behaviour(
        outputs=tuple(seen.outputs), changed={f"buffer {name}": value for name, value in seen.changed.items()}
    )


def single_answer(model: torch.nn.Module, args: list[Any], around: Around) -> list[torch.Tensor]:
    """Run the reference once, on this module and these inputs themselves, and return its outputs."""
    with around(), refusing_on_gpu(args):
        return tensors_of(_run(model, args))[0]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Observed:
    """One observed run of the reference."""

    subject: torch.nn.Module
    args: list[Any]
    """Inputs after the run."""
    outputs: list[torch.Tensor]
    tree: Any
    before: dict[str, torch.Tensor]
    changed: dict[str, torch.Tensor]
    """New values of the buffers that the call changed."""
    inputs_changed: dict[int, torch.Tensor]
    """New values of inputs with floats that the call changed, by number, but for those that share memory."""

    @property
    def tensors(self) -> list[torch.Tensor]:
        """Outputs, changed buffers, changed inputs: the order used for all runs of a case."""
        return [*self.outputs, *self.changed.values(), *self.inputs_changed.values()]

    def in_order(self, outputs: list[torch.Tensor], subject: torch.nn.Module, inputs: list[Any]) -> list[torch.Tensor]:
        """Return the tensors of another run in this order."""
        state, after = state_of(subject), nested_tensors(inputs)
        return [*outputs, *(state[name] for name in self.changed), *(after[number] for number in self.inputs_changed)]


def _are_equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Return True if all elements are equal, or both are NaN."""
    if torch.equal(one, other):
        return True
    return one.shape == other.shape and bool(((one == other) | ((one != one) & (other != other))).all())


def _observed(model: torch.nn.Module, given: Given, around: Around) -> _Observed:
    subject = copied_module(model)
    before = state_of(subject)
    args = given.copies()
    with around():
        outputs = _run(subject, args)
    tensors, tree = tensors_of(outputs)
    after = state_of(subject)
    changed = {name: value for name, value in after.items() if not _are_equal(value, before[name])}
    # Run once more with the same module, or with a copy if it keeps a visible state. Atomics may reorder sums, so the
    # second run, with other random numbers, has to agree approximately.
    seed_torch(secret_seed())
    with around():
        again = _run(copied_module(model) if changed else subject, given.copies())
    first, second = list(nested_tensors(outputs)), list(nested_tensors(again))

    def near_enough(a: torch.Tensor, b: torch.Tensor) -> bool:
        if a.shape != b.shape or a.dtype != b.dtype:
            return False
        if a.is_floating_point() or a.is_complex():
            return torch.allclose(a, b, rtol=1e-2, atol=1e-6, equal_nan=True)
        return torch.equal(a, b)

    if not (len(first) == len(second) and all(map(near_enough, first, second))):
        raise OriginalFailed(
            "the reference gives different answers in two calls (dropout, sampling, or a state in plain attributes)",
            remedy="pass random numbers as an input; let dropout depend on self.training; keep a state in buffers",
        )
    return _Observed(
        subject=subject,
        args=args,
        outputs=tensors,
        tree=tree,
        before=before,
        changed=changed,
        inputs_changed=_inputs_changed(given.values, args),
    )


def _inputs_changed(before: list[Any], after: list[Any]) -> dict[int, torch.Tensor]:
    """Return the inputs with floats that differ after a call, by number, but for those that share memory."""
    given, found = nested_tensors(before), {}
    places = Counter(tensor.untyped_storage().data_ptr() for tensor in given if is_plain(tensor))
    for number, (old, new) in enumerate(zip(given, nested_tensors(after))):
        is_alone = is_plain(old) and places[old.untyped_storage().data_ptr()] == 1
        if is_alone and (new.is_floating_point() or new.is_complex()) and not _are_equal(old, new):
            found[number] = new.detach().clone()
    return found


def _run(model: torch.nn.Module, args: list[Any]) -> Any:
    try:
        with torch.no_grad():
            return model(*args)
    except Exception as error:
        raise OriginalFailed(f"the reference raises {type(error).__name__}: {error}") from error


def tensors_of(outputs: Any) -> tuple[list[torch.Tensor], Any]:
    tensors: list[torch.Tensor] = []

    def keep(tensor: torch.Tensor) -> int:
        tensors.append(tensor.detach())
        return len(tensors) - 1

    try:
        tree = flatten(outputs, keep)
    except Foreign as error:
        raise OriginalFailed(f"the reference returns {error}, which cannot be compared") from error
    if not tensors:
        remedy = "let forward return a tensor, or several in a tuple, a list or a dict"
        raise OriginalFailed("the reference returns no tensor", remedy=remedy)
    return tensors, tree


class _Jumps:
    """Operands at which the reference's answer jumps, collected over the runs of one case."""

    def __init__(self, operands: Operands) -> None:
        """`operands` of the reference itself."""
        self._original, self._ties, self._within = operands.seen, operands.ties, operands.within
        self._watched: list[AtJumps] = []
        self._margins: dict[int, torch.Tensor] = {}

    def watch(self, inner: Moved | None = None) -> Moved | None:
        """Return the context of a run in float64, moved by `inner`, that records operands. The first run is exact."""
        if not self._original:
            return inner
        decided = decided_calls(self._original, self._watched[0].seen) if self._watched else {}
        self._watched.append(AtJumps(inner=inner or Moved(), decided=decided))
        return self._watched[-1]

    def margins(self, *, doubles: bool) -> dict[int, torch.Tensor]:
        """Return, for each call, how far an honest kernel's operand may be off; empty if all operands are decided."""
        if self._watched:
            exact, *others = [run.seen for run in self._watched]
            decided = decided_calls(self._original, exact)
            unit = NUDGE_DOUBLE if doubles else NUDGE
            self._margins = margins(exact, [self._original, *others], decided, self._within, unit)
        return self._margins

    def moved(self, sign: float) -> Moved:
        """Return a context that moves all undecided operands by their margins; values computed from them follow."""
        ties = ties_in_all([self._ties, *(run.ties for run in self._watched)])
        return AtJumps(shifts={call: sign * margin for call, margin in self._margins.items()}, kept=ties)


def _with_sides(yard: Yardstick, sides: list[torch.Tensor]) -> Yardstick:
    """Accept, for each element, any value between these runs."""
    if yard.original.is_complex() or any(side.shape != yard.truth.shape for side in sides):
        return yard
    span = span_between(yard.truth, sides, yard.original.dtype)
    moved = () if span is not None else tuple(side.clone() for side in sides)
    return dataclasses.replace(yard, span=span, nudged=(*yard.nudged, *moved))


def _with_underflow(yard: Yardstick, flushed: torch.Tensor) -> Yardstick:
    """Accept what comes of results below the normal float32 numbers that are taken as zero, NaN and infinities too.

    `fast_expf` of a GPU takes them so, and on a CPU the last digits of such results depend on the instruction set.
    """
    if not yard.original.is_floating_point() or flushed.shape != yard.truth.shape:
        return yard
    yard = dataclasses.replace(yard, nudged=(*yard.nudged, flushed.clone()))
    return _with_any_infinity(yard, torch.isfinite(yard.truth) & ~torch.isfinite(flushed))


def _with_any_infinity(yard: Yardstick, unbounded: torch.Tensor) -> Yardstick:
    """Accept NaN and infinities in these elements too."""
    if yard.unbounded is not None:
        unbounded = unbounded | yard.unbounded.to(unbounded.device)
    original = torch.where(unbounded, math.nan, yard.original)
    return dataclasses.replace(yard, original=original, unbounded=unbounded)


def _lifted(
    model: torch.nn.Module, args: list[Any], seen: _Observed, nudge: Moved | None = None
) -> list[torch.Tensor] | None:
    """Run the reference in float64, exactly or with nudged numbers; return None if it does not run in float64."""
    run = run_lifted(model, args, nudge=nudge)
    if run is None:
        return None
    outputs, subject, inputs = run
    found = nested_tensors(outputs)
    return seen.in_order(found, subject, inputs) if len(found) == len(seen.outputs) else None


def _nudged(
    model: torch.nn.Module,
    args: list[Any],
    seen: _Observed,
    exact: list[torch.Tensor],
    jumps: _Jumps,
    *,
    doubles: bool,
    least: int,
) -> list[list[torch.Tensor]]:
    """Run the reference in randomly rounding arithmetic: `least` times, and more often if that leaves much to chance.

    If it computes in float64 itself, only the inputs are rounded: such a problem asks for float64 accuracy.
    """
    wide = all(t.dtype in (torch.float64, torch.complex128) for t in seen.outputs if t.is_floating_point())
    relative = NUDGE_DOUBLE if wide else NUDGE

    def run(draw: int) -> list[torch.Tensor] | None:
        moved = None
        if not doubles:
            moved = _lifted(model, args, seen, jumps.watch(Nudge(relative=relative, draw=draw, everywhere=True)))
        if moved is None:
            moved = _lifted(model, args, seen, jumps.watch(Nudge(relative=relative, draw=draw, everywhere=False)))
        return moved

    runs = [moved for moved in map(run, range(least)) if moved is not None]
    if least < NUDGES and any(
        true.is_floating_point()
        and original.is_floating_point()
        and left_to_chance(true, [run[i] for run in runs if run[i].shape == true.shape], original.dtype)
        for i, (true, original) in enumerate(zip(exact, seen.tensors))
    ):
        runs += [moved for moved in map(run, range(least, NUDGES)) if moved is not None]
    return runs


def _computes_in_double(model: torch.nn.Module, given: Given, around: Around) -> tuple[bool, Operands]:
    """Return True if anything is computed in float64 or the run fails, and the operands at which the answer jumps.

    This is the first run of the reference. On a GPU it finds indices out of range, and raises `OriginalFailed`.
    """
    seen, operands, args = DoublesSeen(), Operands(), given.copies()
    try:
        with around(), refusing_on_gpu(args), seen, operands:
            _run(copied_module(model), args)
    except OriginalFailed as error:
        if isinstance(error.__cause__, WildIndex):
            raise
        return True, Operands()
    return seen.any, operands


def _yardstick(original: torch.Tensor, truth: torch.Tensor, nudged: list[torch.Tensor], scale: float) -> Yardstick:
    if truth.shape != original.shape:
        truth, nudged = original, []  # the shape depends on values, and differs in float64
    same_shape = tuple(other.clone() for other in nudged if other.shape == truth.shape)
    return Yardstick(truth=truth.clone(), original=original.clone(), nudged=same_shape, scale=scale)


def with_any_infinity(expectation: Expectation, spoiled: Behaviour) -> Expectation:
    """Accept NaN and infinities in outputs and buffers wherever this behaviour has NaN.

    A sum with one infinity is infinite or NaN, depending on how it is computed, but not finite.
    """

    def opened(output: Output, other: torch.Tensor | None) -> Output:
        yard = output.yard
        is_number = yard.original.is_floating_point() or yard.original.is_complex()
        if other is None or not is_number or yard.original.shape != other.shape:
            return output
        return dataclasses.replace(output, yard=_with_any_infinity(yard, near(other).isnan()))

    outputs = tuple(opened(output, other) for output, other in zip(expectation.outputs, spoiled.outputs))
    state = tuple(opened(output, spoiled.changed.get(output.name)) for output in expectation.state_after)
    closer = changed(expectation.closer, lambda it: with_any_infinity(it, spoiled))
    return dataclasses.replace(expectation, outputs=outputs, state_after=state, closer=closer)


def with_slack(expectation: Expectation, factor: float, *, gross_only: bool = False) -> Expectation:
    """Widen all limits by a factor; with `gross_only`, refuse only answers of which a large part is wrong."""

    def loose(output: Output) -> Output:
        yard = dataclasses.replace(output.yard, slack=factor, gross_only=gross_only)
        return dataclasses.replace(output, yard=yard)

    return dataclasses.replace(
        expectation,
        outputs=tuple(map(loose, expectation.outputs)),
        state_after=tuple(map(loose, expectation.state_after)),
        inputs_changed={number: loose(output) for number, output in expectation.inputs_changed.items()},
        closer=changed(expectation.closer, lambda it: with_slack(it, factor, gross_only=gross_only)),
    )


def changed(
    closer: Callable[[], Expectation] | None, change: Callable[[Expectation], Expectation]
) -> Callable[[], Expectation] | None:
    """Return a function that makes the closer expectation and changes it, once."""
    return None if closer is None else functools.cache(lambda: change(closer()))


def scales_of(expectation: Expectation) -> dict[str, float]:
    """Return the root mean square of each floating output and changed buffer, for `expect` with other distributions."""
    scales = {}
    for output in (*expectation.outputs, *expectation.state_after):
        truth = output.yard.truth
        if truth.is_floating_point() and truth.numel():
            finite = truth.double().nan_to_num(posinf=0.0, neginf=0.0)
            scales[output.name] = float(finite.square().mean().sqrt())
    return scales


def state_of(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return copies of all parameters and buffers; a tied parameter appears under each of its names."""
    named = {**dict(model.named_parameters(remove_duplicate=False)), **dict(model.named_buffers())}
    return {name: value.detach().clone() for name, value in named.items()}


def non_finite_share(expectation: Expectation) -> float:
    """Return the share of infinities and NaN, in the reference's answer and in the truth."""
    return _share_of(expectation, lambda tensor: ~torch.isfinite(tensor))


def is_as_finite(expectation: Expectation, given: Expectation) -> bool:
    """Return True if an answer has no more infinities and NaN than the one to the inputs as given.

    If that one has infinities of a sign, the reference gives them by design (masked logits). Their number then depends
    on the draw, so there may be `INFINITIES_GROWN` times as many.
    """
    if non_finite_share(expectation) <= non_finite_share(given):
        return True
    if _share_of(expectation, torch.isnan) > _share_of(given, torch.isnan):
        return False
    is_complex = any(output.yard.original.is_complex() for output in expectation.outputs)
    ways: list[Callable[[torch.Tensor], torch.Tensor]] = [torch.isposinf, torch.isneginf]
    if is_complex:  # its infinities have no sign
        ways = [torch.isinf]
    return all(_share_of(expectation, way) <= INFINITIES_GROWN * _share_of(given, way) for way in ways)


def _share_of(expectation: Expectation, which: Callable[[torch.Tensor], torch.Tensor]) -> float:
    """Return the share of elements of this kind, in the reference's answer and in the truth."""
    answers = [output.yard.original for output in expectation.outputs]
    tensors = [answer for answer in answers if answer.is_floating_point() or answer.is_complex()]
    tensors += [output.yard.truth.to(output.yard.original.dtype) for output in expectation.outputs]
    total = sum(tensor.numel() for tensor in tensors)
    return sum(int(which(tensor).sum()) for tensor in tensors) / total if total else 0.0
