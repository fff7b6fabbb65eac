"""Trial runs of a problem at other sizes: does the reference run there, and how large is a call?

A search has one time limit. Results are cached, since a search meets the same sizes repeatedly.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Mapping

import torch

from triton_agent.tools.errors import ProblemError
from triton_agent.tools.problem.problem import ProblemSpec
from triton_agent.tools.reference.allowance import TimeLimit, TooLarge
from triton_agent.tools.reference.footprint import (
    RUN_ON_GPU,
    Footprint,
    Limits,
    NotFollowed,
    Offsets,
    estimate,
    offsets_in,
    prove,
)
from triton_agent.tools.reference.reference import Reference, load
from triton_agent.tools.reference.sizes import AS_GIVEN, Variant, free_sizes, label

LEADING = "leading"
"""Key of the common leading dimension of the inputs, among the keys of sizes."""


DRAWS_OF_OFFSETS = 16
"""Number of draws in which offsets have to end at a size: some of random ones end there by chance, or do not."""
QUICK_S = 0.5
"""Time limit of a run on a GPU that only measures a size. After a longer run, fake tensors are used instead."""


@dataclasses.dataclass
class Trials:
    """The sizes tried so far in one search."""

    spec: ProblemSpec
    seed: int
    limits: Limits
    device: str = "cpu"
    pause: Callable[[], None] = lambda: None
    """Called before each attempt: lets other processes use the GPU."""

    def __post_init__(self) -> None:
        self.limit = TimeLimit(self.limits.seconds_at_most)
        self.sizes = free_sizes(self.spec, self.spec.source().tree)
        self._only_runs_tell = False
        self._runs_are_quick = self.device != "cpu"
        self.broken: ProblemError | None = None
        """Error of a run at the given sizes on a CPU. Failures on fake tensors do not count: they may be the cause."""
        self._estimates: dict[Variant, Footprint | None] = {}
        self._proofs: dict[Variant, Footprint | None] = {}

    @property
    def out_of_time(self) -> bool:
        return self.limit.is_over

    def variant(self, sizes: Mapping[str, int], given: Mapping[str, int]) -> Variant:
        """Return the variant with these sizes, without those that equal the given ones."""
        changed = {key: value for key, value in sizes.items() if given.get(key) != value}
        words = [f"{LEADING}={value}" if key == LEADING else label(key, value) for key, value in changed.items()]
        return Variant(
            name=", ".join(words) or AS_GIVEN.name,
            constants={key: value for key, value in changed.items() if key != LEADING},
            batch=changed.get(LEADING),
        )

    def estimate(self, variant: Variant) -> Footprint | None:
        """Return the footprint; None if the reference does not run. Small sizes are run, others use fake tensors."""
        if variant not in self._estimates:
            if variant != AS_GIVEN:
                self.estimate(AS_GIVEN)  # finds out if fake tensors work for this problem
            self._estimates[variant] = self._attempt(variant, self._estimated)
        return self._estimates[variant]

    def prove(self, variant: Variant) -> Footprint | None:
        """Return the footprint from a run of the reference; None if it fails or is too large."""
        if variant not in self._proofs:
            self._proofs[variant] = self._attempt(variant, self._proven)
        return self._proofs[variant]

    def offsets(self, variant: Variant) -> frozenset[Offsets]:
        """Return the inputs that look like offsets in each of several draws."""
        found = self.prove(variant)
        common = found.offsets if found is not None else frozenset[Offsets]()
        if common:
            with contextlib.suppress(ProblemError), contextlib.closing(reference_for(self.spec, variant)) as reference:
                for seed in range(self.seed + 1, self.seed + DRAWS_OF_OFFSETS):
                    common &= offsets_in(reference.make_inputs(seed))
        return common

    def fits(self, variant: Variant) -> bool:
        found = self.estimate(variant)
        return found is not None and found.load(self.limits) <= 1

    def _attempt(self, variant: Variant, measure: Callable[[Variant, Reference], Footprint]) -> Footprint | None:
        self.pause()
        if self.out_of_time:
            return None
        try:
            reference = reference_for(self.spec, variant)
        except ProblemError:
            return None
        try:
            return measure(variant, reference)
        except TooLarge:
            return None
        except ProblemError as error:
            if variant == AS_GIVEN and self.device == "cpu" and not isinstance(error, NotFollowed):
                self.broken = error
            return None
        finally:
            reference.close()

    def _estimated(self, variant: Variant, reference: Reference) -> Footprint:
        """Run a small problem; run a large one on a GPU; otherwise use fake tensors, which take 3 s to import."""
        try:
            return self._proven(variant, reference)
        except TooLarge:
            pass
        if self._runs_are_quick:
            with contextlib.suppress(ProblemError):
                began = time.monotonic()
                try:
                    return prove(reference, self.seed, limits=RUN_ON_GPU, limit=self.limit, device=self.device)
                finally:
                    self._runs_are_quick = time.monotonic() - began < QUICK_S
                    torch.cuda.empty_cache()  # such a run may take many times the memory of the problem itself
        try:
            return estimate(reference, self.seed, limit=self.limit)
        except NotFollowed as error:
            as_given = not reference.constants and reference.batch is None
            self._only_runs_tell |= error.looks_at_values or as_given
            if not self._only_runs_tell:
                raise
            if error.footprint.load(self.limits) > 1:
                return error.footprint
            try:
                return self._proven(variant, reference)
            except TooLarge:
                return dataclasses.replace(
                    error.footprint, largest=self.limits.elements_at_most + error.footprint.elements
                )

    def _proven(self, variant: Variant, reference: Reference) -> Footprint:
        """Run the reference and cache the result: drawing large inputs takes longer than the run on a GPU."""
        found = prove(reference, self.seed, limits=self.limits, limit=self.limit, device=self.device)
        self._proofs[variant] = found
        return found


def reference_for(spec: ProblemSpec, variant: Variant) -> Reference:
    return load(variant.of(spec), variant.constants, batch=variant.batch)
