"""Corrections for data that another policy sampled: importance weights, rejection, staleness. Pure arithmetic.

`trained` are log-probabilities under the policy in training, `sampled` those stored at sampling; `mask` marks tokens
that the policy sampled itself.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Sequence

from triton_agent.memory.records import Distribution, SamplingRecord
from triton_agent.tools.errors import UsageError

WEIGHT_CAP = 2.0
"""Largest importance weight, so that a few tokens do not dominate a step."""
DRIFT_AT_MOST = 0.05
"""Nats per token. A bad answer that has become less likely by this much is not pushed down further, since that would
also push down what it shares with good ones. Chosen by reasoning, not by measurement.
"""
TOKEN_VETO = 1e-4
"""Ratio of a token's likelihood to that at sampling below which the whole answer is rejected, since it indicates a
mismatch.
"""
DIVERGENCE_AT_MOST, DIVERGENCE_WEIGHT = 1e-4, 1e3
"""Delta and beta of DRPO, as in the authors' published scripts."""
SHARE_NONE = 0.3
SHARE_RANGE = 0.1
"""Right answers are kept with a probability that rises from 0 at a share of device time of 0.3 to 1 at 0.4."""


def training_temperature(drawn: Sequence[SamplingRecord], stated: float | None) -> float:
    """Return the temperature to train at: the stated one, or else the one at which all of these were sampled.

    Training divides logits by it, so that a token has the probability with which it was sampled.
    """
    if stated is not None:
        if stated <= 0:
            raise UsageError(f"--temperature {stated:g}", remedy="a temperature above 0")
        return stated
    known = Counter(one.temperature for one in drawn if one.temperature)
    if len(known) == 1 or all(one.temperature == 0 for one in drawn):
        return next(iter(known), 1.0)
    if not known:
        raise UsageError(
            "the runs do not say at which temperature they were sampled", remedy="state it with --temperature"
        )
    found = ", ".join(f"{count} at {temperature:g}" for temperature, count in sorted(known.items()))
    raise UsageError(
        f"the runs were sampled at several temperatures: {found}",
        remedy="choose one with --temperature; the others are left out",
    )


def mismatch(drawn: SamplingRecord, kind: Distribution, temperature: float) -> str:
    """Return why log-probabilities of this draw cannot be compared with those of a training; empty if they can.

    `temperature` is that of the training. A draw of unknown temperature is assumed to have that one, since a user
    stated it.
    """
    if drawn.temperature == 0:
        return "the likeliest tokens were taken instead of sampled ones"
    if drawn.temperature not in (None, temperature):
        return f"sampled at temperature {drawn.temperature:g}, and training is at {temperature:g}"
    if drawn.reshaped:
        return "cut-offs, penalties or a pattern changed the distribution that was sampled"
    if kind is Distribution.MODEL and temperature != 1.0:
        return "its log-probabilities are from before the temperature was applied"
    if kind is Distribution.UNKNOWN and drawn.temperature is not None and temperature != 1.0:
        return "its engine does not state if log-probabilities are from before or after the temperature"
    return ""


def importance_weights(
    trained: Sequence[float], sampled: Sequence[float], mask: Sequence[bool], *, cap: float = WEIGHT_CAP
) -> list[float]:
    """Return the truncated likelihood ratio of each token; 0 for tokens that the policy did not sample."""
    return [
        min(math.exp(min(new - old, 50.0)), cap) if chosen else 0.0 for new, old, chosen in zip(trained, sampled, mask)
    ]


def share_keep_probability(share: float) -> float:
    """Return the probability of keeping an answer: 0 up to a share of 0.3, 1 from 0.4 on."""
    return min(max((share - SHARE_NONE) / SHARE_RANGE, 0.0), 1.0)


def kept_by_share(share: float | None, key: str, *, seed: int = 0) -> bool:
    """Decide by the key if an answer is kept, so that a resumed training keeps the same ones. Unknown shares are
    kept.
    """
    return share is None or _uniform(key, seed) < share_keep_probability(share)


def _uniform(key: str, seed: int) -> float:
    """Return a number in [0, 1) that depends on key and seed."""
    digest = hashlib.sha256(f"{seed}/{key}".encode()).digest()
    return int.from_bytes(digest[:7]) / 2**56


def versions_by_age(seen: Iterable[str], current: str) -> tuple[str, ...]:
    """Return the policy's versions in order of first appearance, the current one last."""
    order = dict.fromkeys(version for version in seen if version != current)
    return (*order, current)


def staleness(version: str, order: Sequence[str]) -> int | None:
    """Return how many versions lie between this one and the current; None for an unknown version."""
    return len(order) - 1 - order.index(version) if version in order else None


def fresh_enough(version: str, order: Sequence[str], limit: int | None) -> bool:
    """Return True if the version is within the limit; with a limit, unknown versions are not."""
    if limit is None:
        return True
    age = staleness(version, order)
    return age is not None and age <= limit
