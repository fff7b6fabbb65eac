"""What the options say a module is called with: `--input` for each argument of one call, `--set` for each of several.

`--inputs FILE` once is one real call; given again, or beside `--set`, each file is a set.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from triton_agent.tools.errors import UsageError
from triton_agent.tools.problem.input_spec import InputSet, parse_sets


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class GivenCalls:
    """As problems are asked for with."""

    inputs: tuple[str, ...] = ()
    inputs_file: str | None = None
    sets: tuple[InputSet, ...] = ()


def calls_from(inputs: Sequence[str] | None, files: Sequence[str] | None, sets: Sequence[str] | None) -> GivenCalls:
    """From the options as they were given."""
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
    """Return whether `--inputs` says more than a path."""
    return "@" in file or "=" in file
