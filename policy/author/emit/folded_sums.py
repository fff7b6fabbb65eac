"""Writes a sum over a long row that is computed in the pass of another reduction (`plan/one_pass.py`)."""

from __future__ import annotations

from triton_agent.policy.author.emit.arguments import Names
from triton_agent.policy.author.emit.body import Body, Text
from triton_agent.policy.author.ir.points import Binding
from triton_agent.policy.author.plan.one_pass import Fold

_EXP = "libdevice.fast_expf"
"""The exponential of sums, as in `points.py`."""


class Folded:
    """One fold in the text of a kernel."""

    def __init__(self, fold: Fold, name: str, names: Names) -> None:
        self.fold, self.name, self.names = fold, name, names
        if fold.kind == "squares":
            self.steps, self.local = names.new("steps"), names.new("local_mean")
        else:
            self.local = names.new("local_largest")

    def begin(self, body: Body, shape: str) -> None:
        if self.fold.kind == "squares":
            body.line(f"{self.steps} = 0.0")
            body.line(f"{self.local} = tl.zeros({shape}, tl.float32)")
        else:
            body.line(f'{self.local} = tl.full({shape}, -float("inf"), tl.float32)')
        body.line(f"{self.name} = tl.zeros({shape}, tl.float32)")

    def step(self, body: Body, value: Text) -> None:
        """Write one step. `value` must be minus infinity in masked lanes for a maximum; for a sum it may be
        anything.
        """
        if self.fold.kind == "squares":
            self._step_of_squares(body, value)
        else:
            self._step_of_powers(body, value)

    def _step_of_squares(self, body: Body, value: Text) -> None:
        sample, apart = self.names.new("sample"), self.names.new("apart")
        body.line(f"{self.steps} += 1.0")
        body.line(f"{sample} = tl.where(inside, {value.text}, {self.local})")
        body.line(f"{apart} = {sample} - {self.local}")
        body.line(f"{self.local} += {apart} * (1.0 / {self.steps})")
        body.line(f"{self.name} += {apart} * ({sample} - {self.local})")

    def _step_of_powers(self, body: Body, value: Text) -> None:
        sample, power = self.names.new("sample"), self.names.new("power")
        body.helpers.add("libdevice")
        body.line(f"{sample} = {value.text}")
        body.line(f"{power} = {_EXP}(tl.where({sample} == {self.local}, 0.0, -tl.abs({sample} - {self.local})))")
        grown = f"{self.name} * {power} + 1.0"
        body.line(f"{self.name} = tl.where({sample} > {self.local}, {grown}, {self.name} + {power})")
        body.line(f"{self.local} = tl.maximum({self.local}, {sample})")

    @property
    def maximum(self) -> str | None:
        """The variable with the maximum of each lane, if the fold belongs to a maximum."""
        return self.local if self.fold.kind == "powers" else None

    def conclude(self, body: Body, limit: str, lanes: str, axis: str) -> None:
        """Write the combination of the lanes, once the sum or maximum itself is known."""
        centre = body.text(self.fold.centre)
        if self.fold.kind == "powers":
            lifted = f"{_EXP}({self.local} - {centre.within(Binding.PRODUCT)})"
            body.line(f"{self.name} = tl.sum({self.name} * {lifted}, {axis})")
            return
        counts, shift = self.names.new("counts"), self.names.new("shift")
        body.line(f"{counts} = tl.where({lanes} < {limit}, ({limit} - 1 - {lanes}) // BLOCK_COLUMNS + 1, 0)")
        body.line(f"{shift} = {self.local} - {centre.within(Binding.PRODUCT)}")
        body.line(f"{self.name} = tl.sum({self.name} + {counts} * {shift} * {shift}, {axis})")
