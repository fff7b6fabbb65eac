"""The tokenizer of a fresh policy encodes a repeated line as one token, and decodes any text exactly."""

from __future__ import annotations

from tests.policy.train.marks import needs_training

from triton_agent.policy.train.update.fresh import SIZES, common_lines, make_tokenizer

FRAME = "import triton\n\n\n@triton.jit\ndef {0}_kernel(x_ptr, out_ptr, count):\n    {0} = tl.load(x_ptr)\n"
NAMES = ("tanh", "gelu", "silu", "relu", "elu", "mish")


@needs_training
def test_a_line_of_many_texts_is_one_token_and_any_text_comes_back() -> None:
    tokenizer = make_tokenizer([FRAME.format(name) for name in NAMES], SIZES["tiny"], whole_lines=True)
    new = FRAME.format("swish \N{GREEK SMALL LETTER ALPHA}")
    ids = tokenizer(new)["input_ids"]
    assert tokenizer.decode(ids) == new
    assert [tokenizer.decode([one]) for one in ids].count("import triton\n") == 1
    known = len(tokenizer(FRAME.format("tanh"))["input_ids"])
    assert known < len(ids) < known + 16, "only the new name is cut into more"


def test_common_lines_are_those_of_many_texts_however_often_one_repeats_them() -> None:
    texts = ["a line\n" * 9 + "its own\n", *["a line\nshared\n"] * 3]
    assert common_lines(texts) == ["a line\n"]
