"""Reads the calls of a module from options: `--input` for each argument of one call, `--set` for each of several calls.

A single `--inputs FILE` is one captured call; repeated, or beside `--set`, each file is a set of inputs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from triton_agent.tools.errors import UsageError
from triton_agent.tools.problem.input_spec import InputSet, parse_sets


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class GivenCalls:
    """The calls of a problem, as given."""

    inputs: tuple[str, ...] = ()
    inputs_file: str | None = None
    sets: tuple[InputSet, ...] = ()


def calls_from(inputs: Sequence[str] | None, files: Sequence[str] | None, sets: Sequence[str] | None) -> GivenCalls:
    """Combine the options into the calls of a problem; raise UsageError if they contradict each other."""
    inputs, files, sets = tuple(inputs or ()), tuple(files or ()), tuple(sets or ())
    if not sets and len(files) <= 1 and not any(_weighs(file) for file in files):
        return GivenCalls(inputs=inputs, inputs_file=next(iter(files), None))
    if inputs:
        raise UsageError(
            "--input gives the arguments of one call, --set and repeated --inputs whole calls",
            remedy='write each call as a set of its own: --set "f32[8,16]; f32[16]"',
        )
    return GivenCalls(sets=parse_sets([*sets, *files]))


def _weighs(file: str) -> bool:
    """Return True if `--inputs` holds a name or a weight beside the path."""
    return "@" in file or "=" in file
