"""Reads stored attempts as training samples: tokens, their roles, and the turn's reward.

Uses only the records of `memory/records.py`, from a store, an import or a test. They are read once, in one process or
several, and only what training needs is kept of each. Attempts that cannot be trained on are counted by reason.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import gc
import hashlib
import itertools
import math
import multiprocessing
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import ClassVar

from triton_agent.memory.groups import group_of
from triton_agent.memory.observation import Observation, Tried
from triton_agent.memory.records import Attempt, Completion, Distribution, Grading, Message, SamplingRecord
from triton_agent.policy.train.prepare import held_out
from triton_agent.policy.train.prepare.credit import Turn
from triton_agent.policy.train.prepare.recipes import DRPO, Recipe, grade
from triton_agent.policy.train.record import chains, novelty, rewards
from triton_agent.policy.train.record.rewards import Facts, Reward
from triton_agent.policy.train.record.roles import Decode, Spelling, token_roles
from triton_agent.policy.train.record.spool import Numbers, Spool, Spooled, packed_floats, packed_tokens
from triton_agent.tools.results import Evaluation, Interval, Status
from triton_agent.tools.sandbox.privileges import die_with_parent

Encode = Callable[[Sequence[Message]], Sequence[int]]
"""Encodes messages as the prompt for the next answer."""
Record = tuple[Attempt, Sequence[Grading]]
Part = Callable[[], Iterable[Record]]
"""Reads a part of the records."""
COPY = "a copy of a kernel in the prompt"
TWIN = "a copy of an earlier answer of the run"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSample:
    """One turn to train on."""

    turn: Turn
    numbers: Numbers | Spooled
    """Tokens and log-probabilities."""
    roles: bytes
    """The `TokenRole` of each token."""
    length: int
    """Number of tokens of prompt and answer."""
    scored: bool
    """True if log-probabilities were stored."""
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
        """True for tokens that the policy sampled itself."""
        return list(map(bool, self.roles))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Collection:
    """Samples, and counts of attempts left out."""

    samples: tuple[TrainingSample, ...]
    left_out: Mapping[str, int]
    """Number of attempts that cannot be trained on, by reason."""
    unsampled: tuple[Turn, ...] = ()
    """Later turns of the samples' chains that cannot be trained on; they count in the returns of the turns before."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Knowledge:
    """Facts beside the records."""

    decode: Decode | None = None
    """Without a decoder, plan and code cannot be told apart, and all tokens count as code."""
    encode: Encode | None = None
    """Used for attempts that have messages but no prompt tokens."""
    sound: Mapping[str, bool] = dataclasses.field(default_factory=dict)
    """Result of `check-problem` by the problem's digest."""
    scratch: Path | None = None
    """Folder for the tokens while they are prepared; None for the system's own."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Read:
    """A sample with everything that follows from its attempt alone."""

    created_at: datetime.datetime
    draw: bytes | None
    """Equal for samples of one draw; None without a seed."""
    sample: TrainingSample


@dataclasses.dataclass(slots=True, kw_only=True)
class _Reading:
    """Data that is collected while records are read."""

    links: list[chains.Link] = dataclasses.field(default_factory=list)
    samples: list[_Read] = dataclasses.field(default_factory=list)
    unsampled: list[Turn] = dataclasses.field(default_factory=list)
    structures: dict[str, str] = dataclasses.field(default_factory=dict)
    """Structure of the candidate by the attempt's key, if it launches kernels of its own."""
    left_out: Counter[str] = dataclasses.field(default_factory=Counter)

    def add(self, other: _Reading) -> None:
        self.links += other.links
        self.samples += other.samples
        self.unsampled += other.unsampled
        self.structures |= other.structures
        self.left_out.update(other.left_out)


def collect(records: Iterable[Record], recipe: Recipe, knowledge: Knowledge | None = None) -> Collection:
    """Collect samples of all attempts that have tokens, graded by the recipe, in the order of creation."""
    knowledge = knowledge or Knowledge()
    spool = Spool.scratch(knowledge.scratch)
    with _without_garbage_collection():
        return _collection(_read_all(records, recipe, knowledge, _spelling(knowledge), spool), recipe)


def collect_parts(parts: Sequence[Part], recipe: Recipe, knowledge: Knowledge, processes: int) -> Collection:
    """Collect samples in several processes, each of which reads one part after another. All arguments must pickle."""
    if processes == 1:
        return collect(itertools.chain.from_iterable(part() for part in parts), recipe, knowledge)
    whole = _Reading()
    with (
        _without_garbage_collection(),
        tempfile.TemporaryDirectory(dir=knowledge.scratch) as folder,
        ProcessPoolExecutor(
            processes, multiprocessing.get_context("spawn"), initializer=_Reader.begin, initargs=(recipe, knowledge)
        ) as pool,
    ):
        paths = [Path(folder) / str(number) for number in range(len(parts))]
        for reading in pool.map(_Reader.read, parts, paths):
            whole.add(reading)
        return _collection(whole, recipe)


@contextlib.contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Disable the garbage collector: few of the millions of objects are in cycles, and it takes a fifth of the time."""
    looks = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if looks:
            gc.enable()


class _Reader:
    """A reading process. It gets recipe and knowledge once, since a vocabulary is large."""

    recipe: ClassVar[Recipe]
    knowledge: ClassVar[Knowledge]
    spelling: ClassVar[Spelling | None]

    @classmethod
    def begin(cls, recipe: Recipe, knowledge: Knowledge) -> None:
        die_with_parent()  # it would wait forever for a command that was killed
        cls.recipe, cls.knowledge, cls.spelling = recipe, knowledge, _spelling(knowledge)

    @classmethod
    def read(cls, part: Part, path: Path) -> _Reading:
        with _without_garbage_collection():
            return _read_all(part(), cls.recipe, cls.knowledge, cls.spelling, Spool(path.open("w+b")))


def _spelling(knowledge: Knowledge) -> Spelling | None:
    return Spelling(knowledge.decode) if knowledge.decode else None


def _read_all(
    records: Iterable[Record], recipe: Recipe, knowledge: Knowledge, spelling: Spelling | None, spool: Spool
) -> _Reading:
    reading = _Reading()
    for attempt, gradings in records:
        evaluation = latest_evaluation(gradings)
        program = novelty.program(attempt.source) if attempt.source else ""
        link = chains.Link(
            key=attempt.key,
            run=attempt.run,
            number=attempt.turn,
            parent=attempt.parent,
            author=attempt.completion.policy,
            program=program if evaluation else "",
            progress=recipe.potentials.get(evaluation.status, 0.0) if evaluation else 0.0,
        )
        reading.links.append(link)
        said, sound = attempt.completion, knowledge.sound.get(attempt.observation.problem.digest)
        reward = reward_of(attempt, evaluation, recipe, program=program, sound=sound)
        turn = Turn(
            key=attempt.key,
            group=group_of(attempt, evaluation),
            number=attempt.turn,
            parent=attempt.parent,
            reward=reward,
            improves=bool(_shown_passed(attempt.observation)),
        )
        prompt = said.prompt_ids
        if prompt is None and said.messages and knowledge.encode is not None:
            prompt = tuple(knowledge.encode(said.messages))
        sampled = said.token_ids and any(said.mask or (True,))
        if sampled and prompt:
            _take(reading, attempt, evaluation, turn, prompt, recipe, spelling, spool)
        else:
            why = "no prompt was stored" if sampled else said.missing or "no tokens were stored"
            reading.left_out[why] += 1
            reading.unsampled.append(dataclasses.replace(turn, sampled=False))
    return reading


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
        tokens=_longest_answer(said),
        token_limit=said.sampling.tokens_at_most,
        shown_passed=bool(shown),
        shown_speedup=_best(shown),
    )
    reward = grade(recipe, evaluation, facts)
    copied = program and program in _programs_shown(attempt.observation)
    return reward.of_a_copy(COPY) if copied else reward


def _longest_answer(said: Completion) -> int:
    """Return the number of tokens of the longest answer to one request. Between the answers of a conversation are
    tokens that the policy did not sample.
    """
    if said.mask is None:
        return len(said.token_ids or ())
    return max((sum(1 for _ in answer) for own, answer in itertools.groupby(said.mask) if own), default=0)


def _take(
    reading: _Reading,
    attempt: Attempt,
    evaluation: Evaluation | None,
    turn: Turn,
    prompt: Sequence[int],
    recipe: Recipe,
    spelling: Spelling | None,
    spool: Spool,
) -> None:
    """Add the sample of one attempt, as far as it follows from the attempt alone."""
    said, source = attempt.completion, attempt.source or ""
    numbers = Numbers(
        prompt_ids=packed_tokens(prompt),
        token_ids=packed_tokens(said.token_ids or ()),
        log_probabilities=None if said.log_probabilities is None else packed_floats(said.log_probabilities),
    )
    draw = None
    if said.sampling.seed is not None:
        drawn = hashlib.sha256(f"{said.policy_version} {said.sampling} ".encode())
        drawn.update(numbers.prompt_ids.tobytes())
        drawn.update(numbers.token_ids.tobytes())
        draw = drawn.digest()
    # a wrong answer that is paid for being rare earns more than a right one in turns that only pay for progress
    if recipe.novelty and turn.reward.passed and source:
        reading.structures[attempt.key] = novelty.structure(source)
    if recipe.baseline == DRPO and said.log_probabilities:
        own = list(itertools.compress(said.log_probabilities, said.mask or itertools.repeat(True)))
        turn = dataclasses.replace(turn, score=math.fsum(own) / len(own))
    sample = TrainingSample(
        turn=turn,
        numbers=spool.add(numbers),
        roles=token_roles(said.token_ids or (), said.mask, attempt.source, spelling),
        length=len(numbers.prompt_ids) + len(numbers.token_ids),
        scored=numbers.log_probabilities is not None,
        log_probabilities_of=said.log_probabilities_of,
        sampling=said.sampling,
        tokenizer=said.tokenizer,
        policy_version=said.policy_version,
        kernel_share=kernel_share(evaluation),
        problem=held_out.identity(attempt.observation.problem),
    )
    reading.samples.append(_Read(attempt.created_at, draw, sample))


def _shown_passed(seen: Observation) -> list[Tried]:
    return [item for item in seen.tried if item.source and item.status is Status.PASSED]


def _best(shown: Sequence[Tried]) -> Interval | None:
    timed = [item.speedup for item in shown if item.speedup is not None]
    return max(timed, key=lambda speedup: speedup.median, default=None)


def _programs_shown(seen: Observation) -> set[str]:
    """Return the programs whose text was in the prompt, of this run and of earlier ones. One that could not be measured
    may be repeated.
    """
    texts = [item.source for item in seen.tried if item.status] + [
        item.text for item in seen.recalled if item.kind == "kernel"
    ]
    return {novelty.program(text) for text in texts if text}


def _collection(reading: _Reading, recipe: Recipe) -> Collection:
    """Keep the first sample of each draw, and add to each turn what depends on the others."""
    order, draws, samples = sorted(reading.samples, key=lambda one: (one.created_at, one.sample.turn.key)), set(), []
    for read in order:
        if read.draw is not None and read.draw in draws:
            reading.left_out["the same draw is in another run"] += 1
        else:
            samples.append(read.sample)
            draws.add(read.draw)
    parents, twins = chains.own_parents(reading.links), chains.twins(reading.links)
    searched, progress = chains.searched_runs(reading.links), chains.progress_before(reading.links)
    runs = {link.key: link.run for link in reading.links}
    own_progress = {link.key: link.progress for link in reading.links}

    def placed(turn: Turn) -> Turn:
        return dataclasses.replace(
            turn,
            reward=turn.reward.of_a_copy(TWIN) if turn.key in twins else turn.reward,
            parent=parents[turn.key],
            searched=runs[turn.key] in searched,
            progress_before=progress[turn.key],
            progress_after=max(progress[turn.key], own_progress[turn.key]),
        )

    places = {s.turn.key: (s.turn.group, reading.structures.get(s.turn.key)) for s in samples}
    alike = Counter(places.values())
    finished = []
    for sample in samples:
        turn, place = placed(sample.turn), places[sample.turn.key]
        if place[1] and not turn.reward.hack and not turn.reward.why:
            part = recipe.novelty * rewards.novelty(alike[place])
            turn = dataclasses.replace(turn, reward=turn.reward.plus(rewards.NOVELTY, part))
        finished.append(dataclasses.replace(sample, turn=turn))
    followed, unsampled = {sample.turn.key for sample in samples}, list[Turn]()
    for turn in sorted(reading.unsampled, key=lambda turn: (turn.number, turn.key)):
        if parents[turn.key] in followed:
            followed.add(turn.key)
            unsampled.append(placed(turn))
    return Collection(samples=tuple(finished), unsampled=tuple(unsampled), left_out=dict(reading.left_out))
