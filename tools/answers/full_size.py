"""One case at a problem's own sizes when its tensors are gigabytes, made and judged in pieces.

Breadth (distributions, directed values, layouts, parameters, modes) is checked at a reduced size. Full size is used for
what only it shows: index overflow, full grids, cached launches and timing. Its inputs mix several distributions, since
a kernel could otherwise rely on the given one at large sizes. An answer is checked in three ways:

    slices     a few random slices of the leading dimension, and the first and the last one, are judged against the
               float64 truth like any other output, if the reference works slice by slice
    whole      every element is compared with the reference's answer, some millions at a time; the limit comes from the
               slices, or else from the reduced size and the reference's own error in a row of the leading dimension
    unchanged  the executor reports whether a call changed its inputs, which the reference must not change here

The reference's answer is kept in host memory. On the device, the checker holds one call of the reference, and later the
candidate's answer and a few pieces. See docs/decisions/0013-memory.md.
Not covered: references that write into inputs or buffers, share memory between outputs, or return complex numbers.
They are checked at full size like a small problem, or not at all (`fits`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import mmap
import weakref
from collections.abc import Collection, Iterator
from typing import Any

import torch

from triton_agent.tools.answers.accuracy import Judgement, judge, looks_like_rounding
from triton_agent.tools.answers.checks import mutated_inputs
from triton_agent.tools.cases.distributions import AS_GIVEN, randomise
from triton_agent.tools.cases.full_size_inputs import make_most_equal, mix, told_by
from triton_agent.tools.cases.plan import SHUFFLED, Case, Trial
from triton_agent.tools.chance import secret_seed
from triton_agent.tools.processes.digests import Digests
from triton_agent.tools.processes.payloads import Aside, pack
from triton_agent.tools.processes.staged_copies import touch
from triton_agent.tools.processes.tensors import nested_tensors
from triton_agent.tools.reference.allowance import TooLarge
from triton_agent.tools.reference.footprint import RUN_ON_GPU, Limits, prove
from triton_agent.tools.reference.input_tensors import leading_size, map_tensors
from triton_agent.tools.reference.module_copy import copied_module
from triton_agent.tools.reference.reference import Reference
from triton_agent.tools.reference.tensor_cores import as_the_user_runs_it
from triton_agent.tools.results import Finding
from triton_agent.tools.settings import EvaluatorSettings
from triton_agent.tools.truth.expectation import Expectation, OriginalFailed, Output, expect, state_of, tensors_of
from triton_agent.tools.truth.truth import run_lifted
from triton_agent.tools.truth.yardstick import NARROW, WIDE, Yardstick

LARGE_ELEMENTS = 1 << 28
"""Size of inputs, parameters and outputs together (1 GiB of float32) from which a problem is judged in pieces. Below
it, a few dozen copies fit on any card."""
REDUCED = Limits(elements_at_most=1 << 21, flops_at_most=20_000_000_000, seconds_at_most=60.0)
"""Limits of the reduced size. Some twenty cases are kept there, each with a dozen float64 tensors."""
PIECE = 1 << 24
"""Elements compared at once: half a gigabyte in float64, with the temporaries of the comparison."""
SLICES = 6
"""Number of random slices, besides the first and the last."""
SLICE_ELEMENTS = 1 << 20
"""Maximum number of elements of inputs or outputs in a slice; a float64 run takes several dozen times their memory."""
SURE = 2.0
"""Factor on a slice's largest allowed error, for elements outside the slices."""
FROM_REDUCED = 8.0
"""Factor on the limits of the reduced size if there are no slices: errors of a sum grow with the root of its length."""
MOST_IN_ROW = 1 << 28
"""Maximum number of elements of inputs or outputs in a row of which the reference's own error is measured."""
FEWEST_ROWS = 4
"""The row is not measured if there are fewer. A float64 run of it takes at most half of the reference's memory then."""
RARE_FLIPS = 2e-6
"""Share of integers computed from floats that may differ: rare ties, which the slices may not contain."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """Rows of the leading dimension, and their yardstick."""

    start: int
    stop: int
    yard: Yardstick


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class PiecewiseYardstick(Yardstick):
    """The yardstick of a large output. `truth` is the reference's own answer, in its own dtype."""

    slices: tuple[Slice, ...]
    reach: dict[str, float]
    """Allowed distance from the reference's answer: of one element (`max`), and the RMS over a piece (`l2`)."""
    loose: int
    """Number of integers that may be off by one."""
    holds_nan: bool
    """True if the answer has NaN; found on the device when the answer was made, since the host is slow at it."""
    device: str

    def judge(self, got: torch.Tensor) -> Judgement:
        """Judge the slices, then the whole piece by piece; stop at the first failure."""
        closest = Judgement(metric="l2", limit=1.0)
        for part in self.slices:
            judgement = judge(got[part.start : part.stop].to(self.device), part.yard)
            if not judgement.ok:
                detail = f"in rows {part.start} to {part.stop - 1}, counted from {part.start}: {judgement.detail}"
                return dataclasses.replace(judgement, detail=detail)
            if judgement.limit and judgement.error / judgement.limit > closest.error / closest.limit:
                closest = judgement
        wrong = 0
        for at, mine, theirs in _pieces(got, self.original, self.device):
            if got.is_floating_point():
                fault = self._fault(at, mine.double(), theirs.double())
                if fault is not None:
                    return fault
            else:
                off = mine != theirs
                wrong += int(off.sum())
                far = got.dtype is not torch.bool and bool(((mine.double() - theirs.double()).abs() > 1).any())
                if far or wrong > self.loose:
                    detail = f"{wrong} elements or more; the first piece with one too many begins at flat index {at}"
                    limit = float(self.loose)
                    return Judgement(
                        metric="mismatches", error=float(wrong), limit=limit, finding=Finding.VALUES, detail=detail
                    )
        return closest

    def _fault(self, at: int, mine: torch.Tensor, theirs: torch.Tensor) -> Judgement | None:
        same = (torch.isnan(mine) & torch.isnan(theirs)) | (mine == theirs)
        error = torch.where(same, 0.0, (mine - theirs).abs())
        if not bool(torch.isfinite(error).all()):
            where = at + int((~torch.isfinite(error)).to(torch.uint8).argmax())
            detail = f"first at flat index {where}"
            return Judgement(metric="max", error=math.inf, finding=Finding.NON_FINITE, detail=detail)
        measured = {"max": float(error.max()), "l2": float(error.square().mean().sqrt())}
        metric = max(measured, key=lambda name: measured[name] / self.reach[name])
        if measured[metric] <= self.reach[metric]:
            return None
        worst = int(error.argmax())
        detail = f"worst at flat index {at + worst}: got {mine[worst]:.7g}, expected {theirs[worst]:.7g}"
        limit = self.reach[metric]
        return Judgement(
            metric=metric,
            error=measured[metric],
            limit=limit,
            finding=Finding.PRECISION if looks_like_rounding(error, theirs) else Finding.VALUES,
            detail=detail,
            from_reference=True,
        )


def _pieces(
    got: torch.Tensor, reference: torch.Tensor, device: str
) -> Iterator[tuple[int, torch.Tensor, torch.Tensor]]:
    """Yield both tensors in pieces on the device, with the flat index at which each piece begins."""
    rows = got.contiguous().view(-1), reference.view(-1)
    for at in range(0, rows[0].numel(), PIECE):
        mine, theirs = (row[at : at + PIECE].to(device) for row in rows)
        yield at, mine, theirs


def is_large(reference: Reference, settings: EvaluatorSettings) -> bool:
    """Return True if the problem's tensors are gigabytes, found by a run on the device that stops at that size."""
    if settings.device != "cuda" or not reference.has_reference:
        return False
    limits = Limits(elements_at_most=2 * LARGE_ELEMENTS, flops_at_most=RUN_ON_GPU.flops_at_most, seconds_at_most=60.0)
    with contextlib.suppress(Exception):  # a problem of another kind is reported better by the regular checks
        try:
            return prove(reference, secret_seed(), limits=limits, device=settings.device).elements > LARGE_ELEMENTS
        except TooLarge:
            return True
    return False


def fits(reduced: Trial) -> bool:
    """Return True if the reference, as seen at the reduced size, can be judged in pieces."""
    return not any(
        case.expectation.state_after
        or case.expectation.aliases
        or case.expectation.expanded
        or mutated_inputs(case)
        or any(output.yard.original.is_complex() for output in case.expectation.outputs)
        for case in reduced.cases
    )


def make_full_trial(
    reference: Reference,
    name: str,
    settings: EvaluatorSettings,
    reduced: Trial,
    *,
    looks: int,
    aside: Aside = contextlib.nullcontext,
) -> tuple[Trial, torch.nn.Module]:
    """Return a trial with one case at full size and `looks` more cases for timing, and the reference's module.

    `aside` is entered for what takes seconds on the host.
    """
    build_seed = secret_seed()
    model = reference.make_model(build_seed).to(settings.device)
    if settings.remedies:
        randomise(model, secret_seed())
    model.train(reduced.cases[0].train)

    given = reduced.cases[0].expectation
    known = {case.distribution for case in reduced.cases} if settings.remedies else set()
    equal = told_by(reduced.cases).equal if settings.remedies else frozenset[int]()

    def drawn(number: int) -> Case:
        return Case(
            name=f"{name} / {AS_GIVEN}",
            variant=name,
            distribution=AS_GIVEN,
            train=reduced.cases[0].train,
            expectation=_expect(reference, model, settings, given, () if number else known, equal, aside),
        )

    cases = [drawn(number) for number in range(1 + looks)]
    return (
        Trial(
            variant=name,
            packed_init=pack(reference.told_arguments()),
            by_keyword=reference.keyword_only(),
            build_seed=build_seed,
            states=(pack(state_of(model)),),
            cases=tuple(cases[:1]),
            looks=tuple(cases[1:]),
            free_order=any(case.distribution == SHUFFLED for case in reduced.cases),
        ),
        model,
    )


def _expect(
    reference: Reference,
    model: torch.nn.Module,
    settings: EvaluatorSettings,
    reduced: Expectation,
    known: Collection[str],
    equal: Collection[int],
    aside: Aside,
) -> Expectation:
    """Draw inputs, run the reference on them once, and keep its answer on the host.

    The inputs mix the distributions in `known`, unless the answer is then not finite. In half of the problems without
    floats, most elements of the inputs in `equal` are equal. Sums of floats at one place would err by more than others.
    """
    device = settings.device
    drawn = reference.make_inputs_on(device, secret_seed())
    inputs = [map_tensors(value, lambda tensor: tensor.to(device)) for value in drawn]
    del drawn
    mix(inputs, known, secret_seed())
    if known and not any(it.is_floating_point() for it in nested_tensors(inputs)) and secret_seed() % 2:
        make_most_equal(inputs, equal, secret_seed())
    packed = pack(inputs, aside)
    digests = Digests(device)
    before = digests.of(nested_tensors(inputs))
    around = as_the_user_runs_it(settings.conditions, device)
    with around(), torch.no_grad():
        made = reference.call(model, inputs)
    outputs, tree = tensors_of(made)
    if known and not all(map(_is_finite, outputs)):
        return _expect(reference, model, settings, reduced, (), (), aside)
    if not torch.equal(digests.of(nested_tensors(inputs)), before):
        raise OriginalFailed("the reference writes into its inputs at its own sizes, and not at a reduced one")
    scale = {output.name: output.yard for output in reduced.outputs}
    names = [output.name for output in reduced.outputs]
    rounds = any(tensor.is_floating_point() for tensor in nested_tensors(inputs))
    slices = _slices(reference, model, inputs, outputs, settings)
    own = [] if slices else _own_errors(reference, model, inputs, outputs, settings)
    kept = []
    for number, (name, output) in enumerate(zip(names, outputs, strict=True)):
        mine = tuple(Slice(start=a, stop=b, yard=found.outputs[number].yard) for a, b, found in slices)
        yard = _yardstick(output, mine, scale[name], device, aside, rounds=rounds)
        if own:
            yard = _allowing(yard, own[number])
        kept.append(Output(name=name, yard=yard))
    given = nested_tensors(inputs)
    return Expectation(
        packed_inputs=packed,
        tree=tree,
        outputs=tuple(kept),
        inputs_after=tuple(torch.empty_like(tensor, device="meta") for tensor in given),
        state_before=state_of(model),
        lifted=bool(slices) and all(found.lifted for _, _, found in slices),
    )


def _is_finite(output: torch.Tensor) -> bool:
    """Return True if all elements are finite. Uses minimum and maximum, so it needs no other tensor of that size."""
    ends = output.reshape(-1).aminmax() if output.numel() and output.is_floating_point() else ()
    return all(bool(torch.isfinite(end)) for end in ends)


def _yardstick(
    output: torch.Tensor, slices: tuple[Slice, ...], reduced: Yardstick, device: str, aside: Aside, *, rounds: bool
) -> PiecewiseYardstick:
    """Make a yardstick with the limits of the slices, or else of the reduced size, as absolute values."""
    reach, loose = {"max": 0.0, "l2": 0.0}, 0
    if output.is_floating_point():
        parts = torch.split(output.reshape(-1), PIECE)
        peak = max((float(part.abs().nan_to_num(0.0, 0.0, 0.0).max()) for part in parts if part.numel()), default=0.0)
        sources = [(part.yard, SURE) for part in slices] or [(reduced, FROM_REDUCED)]
        for yard, times in sources:
            limits = yard.limits
            if limits is None:
                continue
            size = {"max": limits.peak, "l2": limits.peak * limits.rms}
            for metric in reach:
                allowed = limits.allowed[metric] + limits.of_original[metric]
                full = size[metric] if slices else size[metric] * max(1.0, peak / limits.peak)
                reach[metric] = max(reach[metric], times * allowed * full)
        reach["l2"] = min(max(reach["l2"], 1e-300), max(reach["max"], 1e-300))
        reach["max"] = max(reach["max"], 1e-300)
    elif rounds:
        seen = max((part.yard.flips.count / max(1, part.yard.truth.numel()) for part in slices), default=0.0)
        loose = math.ceil(max(RARE_FLIPS, 3 * seen) * output.numel())
    held = _on_host(output, aside)
    floats = torch.split(output.reshape(-1), PIECE) if output.is_floating_point() else ()
    return PiecewiseYardstick(
        truth=held,
        original=held,
        nudged=(),
        scale=0.0,
        slices=slices,
        reach=reach,
        loose=loose,
        holds_nan=any(bool(torch.isnan(part).any()) for part in floats),
        device=device,
    )


def _allowing(yard: PiecewiseYardstick, own: dict[str, float]) -> PiecewiseYardstick:
    """Return the yardstick with limits that allow a multiple of the reference's own errors."""
    factor = (WIDE if yard.original.element_size() >= 4 else NARROW).factor
    reach = {metric: max(limit, SURE * (1.0 + factor[metric]) * own[metric]) for metric, limit in yard.reach.items()}
    return dataclasses.replace(yard, reach=reach)


def _own_errors(
    reference: Reference,
    model: torch.nn.Module,
    inputs: list[Any],
    outputs: list[torch.Tensor],
    settings: EvaluatorSettings,
) -> list[dict[str, float]]:
    """Return the reference's largest and RMS errors in one row of the leading dimension, for each output.

    A sum of millions errs by more than the reduced size tells. The list is empty if rows are too large or too few, if
    float64 does not work, or if the answer to the row alone is not that row of the answer to the whole: more differs
    then than rounding.
    """
    rows = leading_size(inputs) or 0
    widest = max((tensor.numel() for tensor in (*outputs, *nested_tensors(inputs))), default=0) // max(1, rows)
    if rows < FEWEST_ROWS or widest > MOST_IN_ROW or any(it.dim() == 0 or it.shape[0] != rows for it in outputs):
        return []
    at = secret_seed() % rows
    part = [map_tensors(value, functools.partial(_cut, rows=rows, start=at, height=1)) for value in inputs]
    around = as_the_user_runs_it(settings.conditions, settings.device)
    try:
        with reference.running("forward"):
            with around(), torch.no_grad():
                alone, _ = tensors_of(copied_module(model)(*part))
            lifted = run_lifted(model, part)
    except Exception:  # the reference does not accept a single row
        return []
    if lifted is None:
        return []
    found = []
    for whole, mine, truth in zip(outputs, alone, tensors_of(lifted[0])[0]):
        row = whole[at : at + 1]
        if not row.is_floating_point():
            found.append(dict.fromkeys(("max", "l2"), 0.0))
            continue
        if mine.shape != row.shape or truth.shape != row.shape:
            return []
        moved, error_alone = _distances(row, mine), _distances(mine, truth)
        if any(moved[metric] > 2.0 * error_alone[metric] for metric in moved):
            return []
        found.append(_distances(row, truth))
    return found


def _distances(one: torch.Tensor, other: torch.Tensor) -> dict[str, float]:
    """Return the largest distance of finite elements and the largest RMS distance of a piece."""
    largest, rms = 0.0, 0.0
    for mine, theirs in zip(torch.split(one.reshape(-1), PIECE), torch.split(other.reshape(-1), PIECE)):
        error = (mine.double() - theirs.double()).abs_().nan_to_num_(0.0, 0.0, 0.0)
        largest = max(largest, float(error.max()))
        rms = max(rms, float(error.square().mean().sqrt()))
    return {"max": largest, "l2": rms}


def _cut(tensor: torch.Tensor, rows: int, start: int, height: int) -> torch.Tensor:
    """Return a copy of some rows of a tensor with that leading size; others stay as they are."""
    same = tensor.dim() > 0 and tensor.shape[0] == rows
    return tensor[start : start + height].clone() if same else tensor


def _on_host(output: torch.Tensor, aside: Aside) -> torch.Tensor:
    """Copy to host memory that the card reads at full speed: every candidate's answers are compared with it.

    torch would pin up to twice as much memory, rounded to a power of two. Huge pages take a fifth of the time to map,
    and several threads map them faster than the driver does.
    """
    if not output.is_cuda or not output.nbytes:
        return torch.empty(output.shape, dtype=output.dtype).copy_(output.detach())
    with aside():
        memory = mmap.mmap(-1, output.nbytes)
        with contextlib.suppress(OSError):  # the kernel may not support huge pages
            memory.madvise(mmap.MADV_HUGEPAGE)
        touch(memory)
        held = torch.frombuffer(memory, dtype=torch.uint8).view(output.dtype).view(output.shape)
        runtime: Any = torch.cuda.cudart()  # type: ignore[no-untyped-call]
        if int(runtime.cudaHostRegister(held.data_ptr(), held.nbytes, 0)) == 0:
            weakref.finalize(held, _unpin, held.untyped_storage())
    return held.copy_(output.detach())


def _unpin(storage: torch.UntypedStorage) -> None:
    runtime: Any = torch.cuda.cudart()  # type: ignore[no-untyped-call]
    runtime.cudaHostUnregister(storage.data_ptr())


def _slices(
    reference: Reference,
    model: torch.nn.Module,
    inputs: list[Any],
    outputs: list[torch.Tensor],
    settings: EvaluatorSettings,
) -> list[tuple[int, int, Expectation]]:
    """Return slices with their expectations; none if the reference does not work slice by slice.

    It does so if its answer to a slice is approximately that slice of its answer to the whole.
    """
    rows = leading_size(inputs)
    if not rows or any(output.dim() == 0 or output.shape[0] != rows for output in outputs):
        return []
    widest = max(tensor.numel() // rows for tensor in (*outputs, *nested_tensors(inputs)))
    height = min(rows, SLICE_ELEMENTS // max(1, widest))
    if height < 1:
        return []
    generator = torch.Generator().manual_seed(secret_seed())
    starts = [0, rows - height, *torch.randint(rows - height + 1, (SLICES,), generator=generator).tolist()]
    around = as_the_user_runs_it(settings.conditions, settings.device)
    found = []
    for start in dict.fromkeys(starts):
        cut = functools.partial(_cut, rows=rows, start=start, height=height)
        part = [map_tensors(value, cut) for value in inputs]
        try:
            with reference.running("forward"):
                expectation = expect(copied_module(model), part, around=around)
        except Exception:  # the reference does not accept so few rows
            return []
        for output, whole in zip(expectation.outputs, outputs):
            mine = whole[start : start + height]
            if output.yard.original.shape != mine.shape or not judge(mine, output.yard).ok:
                return []
        found.append((start, start + height, expectation))
    return found
