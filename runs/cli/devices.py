"""Parses `--device`: the interpreter, or the visible GPUs on which verdicts are reached.

    auto        the first visible GPU if there is one, otherwise the interpreter
    cpu         the interpreter
    cuda        the first visible GPU
    cuda:1      the second one
    cuda:0,2    these two; several cards have to be of one model, since a speed-up on one says little about another
    cuda:all    every visible GPU

Numbers count the GPUs in CUDA_VISIBLE_DEVICES, in its order, as torch does. The option is stored as given: a resumed
run chooses its cards anew.

Not covered: choosing by load; a busy card is noticed when something is timed on it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re

from triton_agent.tools.errors import UsageError
from triton_agent.tools.machine.hardware import Gpu, visible_gpus
from triton_agent.tools.processes.zygotes import Nursery, own_nursery

FORMS = "auto, cpu, cuda, cuda:N, cuda:N,M or cuda:all"
ALL = "all"
NUMBERS = re.compile(r"\d+(,\d+)*")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """One device, or several cards of one model."""

    device: str
    """`cpu` or `cuda`."""
    cards: str = ""
    """The cards as named after the colon; empty for the first."""
    gpus: tuple[Gpu, ...] = ()
    """The cards; empty without a GPU."""

    @property
    def uuids(self) -> tuple[str, ...]:
        """UUID of each evaluator's card; one empty text if no card was named."""
        if self.device != "cuda" or not self.cards:
            return ("",)
        return tuple(gpu.uuid for gpu in self.gpus)

    def at_once(self, most: int, *, cores_for_one: int, cores: int) -> int:
        """Return how much work shares a card, at most `most`, if each needs so many of the machine's cores."""
        return max(1, min(most, cores // (cores_for_one * len(self.uuids))))


def early_nursery(wanted: str) -> contextlib.AbstractContextManager[Nursery | None]:
    """Start the processes that import torch, in parallel with this process.

    Return an empty context if cards are named by number: each card needs processes of its own, and the numbers are not
    resolved yet.
    """
    return contextlib.nullcontext() if ":" in wanted else own_nursery()


def choose(wanted: str) -> Chosen:
    """Resolve `--device` on this machine; raise UsageError if it is not possible."""
    kind, colon, cards = wanted.partition(":")
    numbered = kind == "cuda" and (cards == ALL or NUMBERS.fullmatch(cards))
    if kind not in ("auto", "cpu", "cuda") or (colon and not numbered):
        raise UsageError(f"--device {wanted}", remedy=FORMS)
    found = visible_gpus() if kind != "cpu" else ()
    if kind == "cuda" and not found:
        raise UsageError(
            f"--device {wanted}: no GPU was found", remedy="see `triton-agent doctor`, or use --device cpu"
        )
    if not found:
        return Chosen(device="cpu")
    return Chosen(device="cuda", cards=cards, gpus=_of_one_model(_numbered(found, cards)))


def chosen_before(device: str, cards: str) -> Chosen:
    """Repeat an earlier choice on the machine as it is now."""
    return choose(f"{device}:{cards}" if cards else device)


def choose_one(wanted: str, why: str) -> Chosen:
    """Choose exactly one device; `why` explains to the user that several cannot be used."""
    chosen = choose(wanted)
    if len(chosen.gpus) > 1 and chosen.cards:
        raise UsageError(f"--device {wanted} names {len(chosen.gpus)} cards: {why}", remedy="name one, as in cuda:0")
    return chosen


def _numbered(found: tuple[Gpu, ...], cards: str) -> tuple[Gpu, ...]:
    if not cards:
        return found[:1]
    if cards == ALL:
        return found
    numbers = [int(number) for number in cards.split(",")]
    for number in numbers:
        if number >= len(found):
            there = "one GPU is visible, number 0" if len(found) == 1 else f"{len(found)} GPUs are visible, from 0"
            raise UsageError(f"--device cuda:{cards}: {there}", remedy="see `triton-agent doctor`, or use cuda:all")
    if len(set(numbers)) < len(numbers):
        raise UsageError(f"--device cuda:{cards} names a card twice", remedy="name each once")
    return tuple(found[number] for number in numbers)


def _of_one_model(gpus: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
    if len({(gpu.name, gpu.sm_count) for gpu in gpus}) > 1:
        models = ", ".join(f"{gpu.name} ({gpu.sm_count} multiprocessors)" for gpu in gpus)
        raise UsageError(
            f"cards of different models: {models}",
            remedy="speed-ups on one say little of another; name cards of one model, as in --device cuda:0,1",
        )
    return gpus
