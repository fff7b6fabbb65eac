"""Reads stored attempts as training samples: tokens, their roles, and the turn's reward.

Uses only the records of `memory/records.py`, wherever they come from (a store, an import, a test). They are read once,
one after the other, and of each only what training needs is kept. Attempts that cannot be trained on are counted by
reason.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from triton_agent.memory.groups import group_of
from triton_agent.memory.observation import Observation, Tried
from triton_agent.memory.records import Attempt, Distribution, Grading, Message, SamplingRecord
from triton_agent.policy.train.prepare import held_out
from triton_agent.policy.train.prepare.credit import Turn
from triton_agent.policy.train.prepare.recipes import Recipe, grade
from triton_agent.policy.train.record import chains, novelty, rewards
from triton_agent.policy.train.record.rewards import Facts, Reward
from triton_agent.policy.train.record.roles import Decode, Spelling, token_roles
from triton_agent.policy.train.record.spool import Numbers, Spool, Spooled, packed_floats, packed_tokens
from triton_agent.tools.results import Evaluation, Interval, Status

Encode = Callable[[Sequence[Message]], Sequence[int]]
"""Encodes messages as the prompt for the next answer."""
COPY = "a copy of a kernel that stood in the prompt"
TWIN = "an earlier turn of the run had given the same answer"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSample:
    """One turn to train on."""

    turn: Turn
    numbers: Numbers | Spooled
    """Tokens and log-probabilities."""
    roles: bytes
    """The `TokenRole` of each token."""
    length: int
    """Tokens of prompt and answer."""
    scored: bool
    """Log-probabilities were kept."""
    log_probabilities_of: Distribution = Distribution.UNKNOWN
    sampling: SamplingRecord = dataclasses.field(default_factory=SamplingRecord)
    tokenizer: str = ""
    """Digest of the vocabulary of the token ids; empty if unknown."""
    policy_version: str = ""
    kernel_share: float | None = None
    problem: str = ""
    """Identity of the problem; see `held_out.identity`."""

    @property
    def chosen(self) -> list[bool]:
        """True for tokens that the policy chose itself."""
        return list(map(bool, self.roles))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Collection:
    """Samples, and counts of attempts left out."""

    samples: tuple[TrainingSample, ...]
    left_out: Mapping[str, int]
    """Attempts that cannot be trained on, by reason."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Knowledge:
    """Facts beside the records."""

    decode: Decode | None = None
    """Without it, plan and code cannot be told apart, and all tokens count as code."""
    encode: Encode | None = None
    """Used for attempts with messages but without prompt tokens."""
    sound: Mapping[str, bool] = dataclasses.field(default_factory=dict)
    """Result of `check-problem` by the problem's digest."""
    scratch: Path | None = None
    """Folder with room for the tokens while they are prepared; None for the system's own."""


@dataclasses.dataclass(slots=True, kw_only=True)
class _Reading:
    """What is kept while records are read."""

    spool: Spool
    links: list[chains.Link] = dataclasses.field(default_factory=list)
    samples: list[tuple[object, TrainingSample]] = dataclasses.field(default_factory=list)
    """Each with what it is ordered by."""
    structures: dict[str, str] = dataclasses.field(default_factory=dict)
    """Structure of the candidate by the attempt's key, where it launches kernels of its own."""
    draws: set[bytes] = dataclasses.field(default_factory=set)
    left_out: Counter[str] = dataclasses.field(default_factory=Counter)


def collect(
    records: Iterable[tuple[Attempt, Sequence[Grading]]], recipe: Recipe, knowledge: Knowledge | None = None
) -> Collection:
    """Collect samples of all attempts that have tokens, graded by the recipe, in the order of creation."""
    knowledge = knowledge or Knowledge()
    reading = _Reading(spool=Spool.scratch(knowledge.scratch))
    spelling = Spelling(knowledge.decode) if knowledge.decode else None
    for attempt, gradings in records:
        program = novelty.program(attempt.source) if attempt.source else ""
        link = chains.Link(
            key=attempt.key,
            run=attempt.run,
            number=attempt.turn,
            parent=attempt.parent,
            author=attempt.completion.policy,
            program=program,
        )
        reading.links.append(link)
        said = attempt.completion
        prompt = said.prompt_ids
        if prompt is None and said.messages and knowledge.encode is not None:
            prompt = tuple(knowledge.encode(said.messages))
        if not said.token_ids or not any(said.mask or (True,)):
            reading.left_out[said.missing or "no tokens were stored"] += 1
        elif not prompt:
            reading.left_out["no prompt was stored"] += 1
        else:
            _take(reading, attempt, latest_evaluation(gradings), prompt, program, recipe, knowledge.sound, spelling)
    return Collection(samples=_finished(reading, recipe), left_out=dict(reading.left_out))


def latest_evaluation(gradings: Sequence[Grading]) -> Evaluation | None:
    """Return the newest evaluation by any grader; None without one."""
    reached = [grading for grading in gradings if grading.evaluation is not None]
    return max(reached, key=lambda grading: grading.graded_at).evaluation if reached else None


def kernel_share(evaluation: Evaluation | None) -> float | None:
    """Return the share of device time in the candidate's own kernels; None if it was not profiled."""
    profile = evaluation.diagnosis.profile if evaluation and evaluation.diagnosis else None
    return min(profile.own_share, 1.0) if profile else None


def reward_of(
    attempt: Attempt, evaluation: Evaluation | None, recipe: Recipe, *, program: str = "", sound: bool | None = None
) -> Reward:
    """Compute the reward of an attempt as far as it follows from the attempt alone.

    `program` is the hash of its candidate, see `novelty.program`; `sound` is the result of `check-problem`.
    """
    said, shown = attempt.completion, _shown_passed(attempt.observation)
    facts = Facts(
        source=attempt.source or "",
        problem_sound=sound,
        kernel_share=kernel_share(evaluation),
        tokens=len(said.token_ids or ()),
        token_limit=said.sampling.tokens_at_most,
        shown_passed=bool(shown),
        shown_speedup=_best(shown),
    )
    reward = grade(recipe, evaluation, facts)
    copied = program and program in _programs_shown(attempt.observation)
    return reward.of_a_copy(COPY) if copied else reward


def _take(
    reading: _Reading,
    attempt: Attempt,
    evaluation: Evaluation | None,
    prompt: Sequence[int],
    program: str,
    recipe: Recipe,
    sound: Mapping[str, bool],
    spelling: Spelling | None,
) -> None:
    """Add the sample of one attempt, as far as it follows from the attempt alone."""
    said, seen, source = attempt.completion, attempt.observation, attempt.source or ""
    numbers = Numbers(
        prompt_ids=packed_tokens(prompt),
        token_ids=packed_tokens(said.token_ids or ()),
        log_probabilities=None if said.log_probabilities is None else packed_floats(said.log_probabilities),
    )
    if said.sampling.seed is not None:
        draw = hashlib.sha256(f"{said.policy_version} {said.sampling} ".encode())
        draw.update(numbers.prompt_ids.tobytes())
        draw.update(numbers.token_ids.tobytes())
        if draw.digest() in reading.draws:
            reading.left_out["the same draw is in another run"] += 1
            return
        reading.draws.add(draw.digest())
    reward = reward_of(attempt, evaluation, recipe, program=program, sound=sound.get(seen.problem.digest))
    if recipe.novelty and evaluation and source and rewards.launches_triton(evaluation, source):
        reading.structures[attempt.key] = novelty.structure(source)
    sample = TrainingSample(
        turn=Turn(
            key=attempt.key,
            group=group_of(attempt, evaluation),
            number=attempt.turn,
            parent=attempt.parent,
            reward=reward,
            potential=recipe.potentials.get(evaluation.status, 0.0) if evaluation else 0.0,
            improves=bool(_shown_passed(seen)),
        ),
        numbers=reading.spool.add(numbers),
        roles=token_roles(said.token_ids or (), said.mask, attempt.source, spelling),
        length=len(numbers.prompt_ids) + len(numbers.token_ids),
        scored=numbers.log_probabilities is not None,
        log_probabilities_of=said.log_probabilities_of,
        sampling=said.sampling,
        tokenizer=said.tokenizer,
        policy_version=said.policy_version,
        kernel_share=kernel_share(evaluation),
        problem=held_out.identity(seen.problem),
    )
    reading.samples.append(((attempt.created_at, attempt.key), sample))


def _shown_passed(seen: Observation) -> list[Tried]:
    return [item for item in seen.tried if item.source and item.status is Status.PASSED]


def _best(shown: Sequence[Tried]) -> Interval | None:
    timed = [item.speedup for item in shown if item.speedup is not None]
    return max(timed, key=lambda speedup: speedup.median, default=None)


def _programs_shown(seen: Observation) -> set[str]:
    """Return the programs whose text stood in the prompt, of this run and of earlier ones."""
    texts = [item.source for item in seen.tried] + [item.text for item in seen.recalled if item.kind == "kernel"]
    return {novelty.program(text) for text in texts if text}


def _finished(reading: _Reading, recipe: Recipe) -> tuple[TrainingSample, ...]:
    """Add to each sample what follows from the others."""
    parents, twins = chains.own_parents(reading.links), chains.twins(reading.links)
    searched = chains.searched_runs(reading.links)
    runs = {link.key: link.run for link in reading.links}
    places = {s.turn.key: (s.turn.group, reading.structures.get(s.turn.key)) for _, s in reading.samples}
    alike = Counter(places.values())
    finished = []
    for _, sample in sorted(reading.samples, key=lambda item: item[0]):  # type: ignore[arg-type, return-value]
        turn, place = sample.turn, places[sample.turn.key]
        reward: Reward = turn.reward.of_a_copy(TWIN) if turn.key in twins else turn.reward
        if place[1] and not reward.hack and not reward.why:
            reward = reward.plus(rewards.NOVELTY, recipe.novelty * rewards.novelty(alike[place]))
        turn = dataclasses.replace(turn, reward=reward, parent=parents[turn.key], searched=runs[turn.key] in searched)
        finished.append(dataclasses.replace(sample, turn=turn))
    return tuple(finished)
