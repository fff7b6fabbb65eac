"""The engine of transformers: exact tokens in every batch, and clear errors."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.policy.llm.engines.real_engines import BFLOAT16, assert_exact, require_transformers, second_opinion

from triton_agent.memory.records import Distribution, Message
from triton_agent.policy.llm.engine import EngineError, ModelQuestion, Sampled, Sampling, seeds_of
from triton_agent.tools.errors import UsageError

pytestmark = [
    pytest.mark.train,
    pytest.mark.xdist_group("transformers_engine"),
]  # what is made once is made in one process
SHORT, LONG = "Write.", "def kernel(x):\n    return x\n" * 30


def question(text: str, n: int = 1, **changes: Any) -> ModelQuestion:
    sampling = Sampling(**{"temperature": 1.0, "max_tokens": 16, "seed": 1} | changes)
    return ModelQuestion(messages=(Message(role="user", content=text),), n=n, sampling=sampling)


def ask(engine: Any, *questions: ModelQuestion) -> list[list[Sampled]]:
    return asyncio.run(engine.answer(questions))


def engine_of(folder: Path, **options: Any) -> Any:
    from triton_agent.policy.llm.engines.transformers_engine import TransformersEngine

    return TransformersEngine(folder, device="cpu", **options)


@pytest.fixture
def engine(served_model: Path) -> Iterator[Any]:
    require_transformers()
    made = engine_of(served_model)
    yield made
    asyncio.run(made.close())


@pytest.fixture
def copy(served_model: Path, tmp_path: Path) -> Path:
    """Return a copy of the model that the test may damage."""
    require_transformers()
    return Path(shutil.copytree(served_model, tmp_path / "copy"))


def test_without_the_library_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from triton_agent.policy.llm.engines import transformers_engine

    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        (tmp_path / name).write_text("{}")
    monkeypatch.setattr(transformers_engine, "NEEDED", ("torch", "a_library_nobody_has"))
    with pytest.raises(UsageError, match="needs a_library_nobody_has") as caught:
        engine_of(tmp_path)
    assert "pip install" in caught.value.remedy


def test_neighbours_in_a_batch_change_nothing(engine: Any) -> None:
    asked = [question(SHORT, 2), question(LONG, 2, max_tokens=7, top_p=0.8), question("x", temperature=0.0)]
    together = ask(engine, *asked)
    for alone, (mine, *_) in zip(together, (ask(engine, one) for one in asked)):
        assert [answer.token_ids for answer in alone] == [answer.token_ids for answer in mine]
        for one, other in zip(alone, mine):
            assert one.log_probabilities == pytest.approx(other.log_probabilities, abs=1e-4)


def test_what_is_drawn_in_several_batches_comes_back_in_order(served_model: Path) -> None:
    require_transformers()
    asked = [question(SHORT, 3), question(LONG, 2)]
    wide, narrow = engine_of(served_model), engine_of(served_model, rows_at_once=2)
    tokens = [[[one.token_ids for one in answers] for answers in ask(engine, *asked)] for engine in (wide, narrow)]
    assert tokens[0] == tokens[1]
    for engine in (wide, narrow):
        asyncio.run(engine.close())


def test_those_who_ask_at_the_same_time_are_answered_together(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests that arrive together are drawn as one batch, such as the second requests of a dozen answers that were
    cut off.
    """
    widths, real = [], engine._draw

    def counted(tokenizer: Any, model: Any, rows: list[Any], stop: Any) -> Any:
        widths.append(len(rows))
        return real(tokenizer, model, rows, stop)

    async def ask_at_once() -> list[Any]:
        return await asyncio.gather(*(engine.answer([question(text)]) for text in texts))

    texts = [f"{SHORT} {number}" for number in range(12)]
    alone = [ask(engine, question(text)) for text in texts]
    monkeypatch.setattr(engine, "_draw", counted)
    together = asyncio.run(ask_at_once())
    assert widths == [12]
    assert [[one.token_ids for one in answers[0]] for answers in together] == [
        [one.token_ids for one in answers[0]] for answers in alone
    ]


def test_who_gives_up_does_not_take_the_answers_from_others(engine: Any) -> None:
    async def give_up() -> list[list[Sampled]]:
        tasks = [asyncio.create_task(engine.answer([question(LONG, max_tokens=64, seed=seed)])) for seed in (1, 2)]
        await asyncio.sleep(0.05)
        tasks[0].cancel()
        answers = await tasks[1]
        assert tasks[0].cancelled() or tasks[0].cancelling()
        return answers

    (found,) = asyncio.run(give_up())
    (alone,) = ask(engine, question(LONG, max_tokens=64, seed=2))
    assert [one.token_ids for one in found] == [one.token_ids for one in alone]


def test_a_draw_pauses_between_tokens(engine: Any, served_model: Path) -> None:
    from triton_agent.policy.llm.engines.drawing import DrawRequest, draw

    paused = []
    row = DrawRequest(prompt_ids=(1, 2), tokens_at_most=5, temperature=1.0, top_p=1.0, seed=0)
    (drawn,) = draw(engine._weights(), [row], end_ids=frozenset(), pause=lambda: paused.append(1))
    assert len(drawn.token_ids) == len(paused) == 5


def test_memory_for_keys_and_values_is_taken_once(engine: Any) -> None:
    from triton_agent.policy.llm.engines.drawing import DrawRequest, draw

    model, places = engine._weights(), []

    class Watched:
        device, forward = model.device, model.forward

        def __call__(self, **given: Any) -> Any:
            seen = model(**given)
            places.append([layer.keys.data_ptr() for layer in seen.past_key_values.layers])
            return seen

    row = DrawRequest(prompt_ids=(1, 2), tokens_at_most=40, temperature=1.0, top_p=1.0, seed=0)
    draw(Watched(), [row], end_ids=frozenset())
    assert len(places) == 40 and all(place == places[1] for place in places[2:])


def test_keys_and_values_of_a_token_are_counted_by_the_models_shape() -> None:
    from triton_agent.policy.llm.engines.transformers_engine import cache_bytes

    class Shape:
        num_hidden_layers, num_attention_heads, num_key_value_heads, head_dim, hidden_size = 4, 8, 2, 64, 256

        def get_text_config(self) -> Shape:
            return self

    assert cache_bytes(Shape(), item_bytes=2) == 2 * 4 * 2 * 64 * 2
    Shape.num_key_value_heads = Shape.head_dim = None  # type: ignore[assignment]
    assert cache_bytes(Shape(), item_bytes=4) == 2 * 4 * 8 * 32 * 4


def test_answers_to_one_question_differ_and_follow_the_seed(engine: Any) -> None:
    answers, others = ask(engine, question(SHORT, 3), question(SHORT, 3, seed=2))
    assert len({answer.token_ids for answer in (*answers, *others)}) == 6


def test_an_answer_says_how_it_was_drawn(engine: Any) -> None:
    asked = question(SHORT, 2, temperature=0.7, top_p=0.9)
    first, second = ask(engine, asked)[0]
    assert [first.sampling.seed, second.sampling.seed] == seeds_of(asked)
    record = asked.sampling.record(seed=seeds_of(asked)[0], tokens_at_most=16)
    assert first.sampling == record and (record.temperature, record.top_p) == (0.7, 0.9)
    assert first.log_probabilities_of is Distribution.SAMPLED and len(first.tokenizer) == 16


@pytest.mark.ci
@pytest.mark.slow
def test_log_probabilities_are_exact_in_float32_and_bfloat16(engine: Any, served_model: Path) -> None:
    asked = question(LONG, 3, temperature=0.7)
    assert_exact(served_model, ask(engine, asked)[0], temperature=0.7)
    half = engine_of(served_model, dtype="bfloat16")
    assert_exact(served_model, ask(half, asked)[0], temperature=0.7, within=BFLOAT16, dtype="bfloat16")
    asyncio.run(half.close())


def test_without_temperature_the_likeliest_token_is_taken(engine: Any, served_model: Path) -> None:
    (greedy,), (narrow,) = ask(engine, question(SHORT, temperature=0.0), question(SHORT, top_p=1e-6))
    opinion = second_opinion(served_model, [greedy], temperature=0.0)[0]
    assert greedy.log_probabilities == pytest.approx(opinion.log_probabilities, abs=1e-4)
    assert narrow.token_ids == greedy.token_ids
    assert narrow.log_probabilities == pytest.approx([0.0] * len(narrow.token_ids or ()))


def test_an_answer_ends_where_the_model_ends_it_or_at_its_limit(engine: Any, served_model: Path) -> None:
    end_id = json.loads((served_model / "config.json").read_text())["eos_token_id"]
    for answer in ask(engine, question(SHORT, 16, max_tokens=200))[0]:
        assert answer.token_ids and end_id not in answer.token_ids[:-1]
        assert answer.finish_reason == ("stop" if answer.token_ids[-1] == end_id else "length")
        assert answer.finish_reason == "stop" or len(answer.token_ids) == 200


def test_a_question_that_does_not_fit_is_trouble_and_the_others_are_answered(engine: Any) -> None:
    too_long, fits = ask(engine, question("word " * 9000, 2), question(SHORT))
    assert [answer.trouble.too_long for answer in too_long if answer.trouble] == [True]
    assert fits[0].token_ids and fits[0].trouble is None


def test_an_answer_gets_the_room_that_the_question_leaves(copy: Path) -> None:
    about = json.loads((copy / "tokenizer_config.json").read_text())
    (copy / "tokenizer_config.json").write_text(json.dumps(about | {"model_max_length": 256}))
    engine = engine_of(copy)
    (answer,) = ask(engine, question("word " * 60, max_tokens=10**6))[0]
    asyncio.run(engine.close())
    tokens = len(answer.prompt_ids or ()) + len(answer.token_ids or ())
    assert engine.context_tokens == 256
    assert tokens == 256 if answer.finish_reason == "length" else tokens <= 256


def test_counts_are_those_of_the_tokenizer(engine: Any) -> None:
    (answer,) = ask(engine, question(LONG))[0]
    assert engine.count(LONG) < len(answer.prompt_ids or ()) < engine.count(LONG) + 16


def test_new_weights_give_new_answers_and_a_new_version(engine: Any, varied_model: Path) -> None:
    before = ask(engine, question(SHORT))[0]
    asyncio.run(engine.reload(varied_model))
    after = ask(engine, question(SHORT))[0]
    assert before[0].version != after[0].version == engine.version
    assert_exact(varied_model, after, temperature=1.0)


def test_a_tokenizer_without_a_form_of_conversation_gets_plain_headings(copy: Path) -> None:
    (copy / "chat_template.jinja").unlink()
    engine = engine_of(copy)
    (answer,) = ask(engine, question(SHORT))[0]
    assert engine._tokens().decode(answer.prompt_ids) == f"### User\n{SHORT}\n\n### Assistant\n"


def test_a_form_that_knows_no_system_role_gets_its_words_before_the_users(copy: Path) -> None:
    (copy / "chat_template.jinja").write_text(
        "{% for message in messages %}{% if message['role'] == 'system' %}{{ raise_exception('no system') }}{% endif %}"
        "<{{ message['role'] }}>{{ message['content'] }}{% endfor %}"
    )
    engine = engine_of(copy)
    said = (Message(role="system", content="Be brief."), Message(role="user", content="Write."))
    (answer,) = ask(engine, ModelQuestion(messages=said, sampling=Sampling(max_tokens=2)))[0]
    assert engine._tokens().decode(answer.prompt_ids) == "<user>Be brief.\n\nWrite."


def test_broken_weights_are_the_engines_failure(copy: Path) -> None:
    (copy / "model.safetensors").write_bytes(b"\0" * 100)
    with pytest.raises(EngineError, match="does not load"):
        ask(engine_of(copy), question(SHORT))


def test_an_unknown_kind_of_model_is_the_engines_failure(copy: Path) -> None:
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps(config | {"model_type": "nobody_knows", "architectures": ["No"]}))
    with pytest.raises((EngineError, UsageError), match="does not load"):
        ask(engine_of(copy), question(SHORT))
