"""Modules whose inputs, outputs and constants have unusual forms: nested containers, gaps in memory, views."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.policy.author.briefs import brief_of, problem
from tests.policy.author.test_author import check_passes, evaluated, plain

from triton_agent.policy.author.brief import BeyondAuthor
from triton_agent.policy.author.decisions import first_choice
from triton_agent.policy.author.ir.viewing import regrouped_strides
from triton_agent.policy.author.writer import write
from triton_agent.tools.processes.zygotes import Nursery

NESTED = """
ROWS, COLUMNS = 5, 12


class Model(nn.Module):
    def forward(self, batch, pair, unused):
        a, (b, c) = batch["x"], pair
        total = torch.where(batch["kept"], a + b, c)
        of_all = total.mean(), [total.std()]
        return {"total": total, "rest": of_all, "rows": a.shape[0], "ones": torch.ones(len(c), 3)}


def get_inputs():
    batch = {"x": torch.randn(ROWS, COLUMNS), "kept": torch.rand(ROWS, COLUMNS) > 0.5}
    return [batch, (torch.randn(ROWS, COLUMNS), torch.randn(COLUMNS)), torch.randn(ROWS)]


def get_init_inputs():
    return []
"""

CONSTANTS = """
ROWS, COLUMNS = 5, 40


class Model(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.mask = (torch.arange(columns) % 2).float()
        self.tables = [torch.linspace(0.0, 1.0, columns)]

    def forward(self, x):
        weights = x.new_tensor([0.1, 0.2, 0.3, 0.4])
        chosen = x[:, [3, 1, 2]].sum(1)
        return (x.view(len(x), -1, 4) * weights).sum(-1), chosen, x * self.mask + self.tables[0].to(x.device)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return [COLUMNS]
"""

GAPS = """
ROWS, COLUMNS = 6, 14


class Model(nn.Module):
    def forward(self, x, y, z):
        return x * 2 + y, z.sum(1)


def get_inputs():
    repeated = torch.randn(ROWS, 1).expand(ROWS, COLUMNS)
    return [torch.randn(COLUMNS, ROWS).t(), torch.randn(ROWS, 2 * COLUMNS)[:, ::2], repeated]


def get_init_inputs():
    return []
"""

FORMS = {
    "tensors and numbers in dicts, tuples and lists": NESTED,
    "tensors of the text and of plain attributes": CONSTANTS,
    "inputs with gaps, and of one element many times": GAPS,
    "copies of an input": plain(
        "y = torch.hstack((x, x + 1))\n        return x.tile(1, 2), y[:, : x.shape[1]], x.t().reshape(-1), x + 1"
    ),
    "all dimensions reduced and kept": plain("return x.prod(1) + x.var(), x.std(), x.mean((0, 1), keepdim=True)"),
    "what is the same all along a row": plain(
        "return (x[:, :, None] - x[0, :7]).abs().sum(-1), (x[:, :1] + torch.exp(x)).sum(1)"
    ),
}


QUICK = (
    "tensors and numbers in dicts, tuples and lists",
    "inputs with gaps, and of one element many times",
    "what is the same all along a row",
)


@pytest.mark.parametrize(
    "kind", [kind if kind in QUICK else pytest.param(kind, marks=pytest.mark.slow) for kind in FORMS]
)
def test_the_first_file_takes_and_gives_what_the_original_does(kind: str, tmp_path: Path, nursery: Nursery) -> None:
    check_passes(tmp_path, nursery, FORMS[kind])


@pytest.mark.slow
def test_operators_left_to_torch_are_called_as_torch_declares_them(tmp_path: Path, nursery: Nursery) -> None:
    """The calls pass required arguments, convert numbers to tensors, and provide buffers for additional outputs."""
    text = plain(
        "x = torch.nextafter(x, torch.tensor(2.0)) + F.rrelu(x, 0.25, 0.25, training=True)\n"
        "        return torch.cdist(x, x + 1.0, p=3.0), torch.linalg.qr(x[:8, :6] + 0.0).R * 2.0"
    )
    brief = brief_of(problem(tmp_path, text), allow_library=True)
    source = write(brief, first_choice(brief)).source
    assert "aten.nextafter" in source and "aten.rrelu_with_noise" in source
    verdict = evaluated(problem(tmp_path, text), source, nursery, allow_library=True)
    assert verdict.status == "passed", f"{verdict.message}\n{source}"


READ = """
ROWS, STEPS, COLUMNS = 4, 8, 6


class Model(nn.Module):
    def __init__(self, rows, steps, columns):
        super().__init__()
        self.register_buffer("kept", torch.zeros(rows, steps, columns))

    def forward(self, x, place):
        self.kept[:, place] = x
        return self.kept.mean(1)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS), torch.tensor(3)]


def get_init_inputs():
    return [ROWS, STEPS, COLUMNS]
"""


def test_no_file_is_written_that_is_right_for_one_value_of_an_input_only(tmp_path: Path) -> None:
    brief = brief_of(problem(tmp_path, READ))
    with pytest.raises(BeyondAuthor, match="reads values of tensors"):
        write(brief, first_choice(brief))


def test_what_the_host_shows_is_a_view_where_torch_has_one() -> None:
    assert regrouped_strides((4, 6), (6, 1), (24,)) == [1]
    assert regrouped_strides((4, 6), (1, 4), (24,)) is None
    assert regrouped_strides((4, 6), (1, 4), (2, 2, 3, 2)) == [2, 1, 8, 4]
    assert regrouped_strides((4, 6), (12, 1), (4, 1, 2, 3)) == [12, 6, 3, 1]
    assert regrouped_strides((4, 6), (0, 1), (24,)) is None
    assert regrouped_strides((1, 5, 1), (9, 3, 7), (5,)) == [3]


IN_ORDER = """
class Model(nn.Module):
    def forward(self, x):
        y = torch.relu(x + 1.0)
        moved, wide, part = y.permute(0, 2, 1), x.sum(1, keepdim=True).expand_as(x), torch.exp(x)[:, 1:4]
        return moved.contiguous(), wide.contiguous(), part.contiguous(), x.mul(2.0).transpose(1, 2)


def get_inputs():
    return [torch.randn(3, 5, 7)]
"""


def test_a_result_lies_row_by_row_where_the_originals_does(tmp_path: Path, nursery: Nursery) -> None:
    """A caller may use `view` on the result. A result that is a view in the reference stays a view."""
    answer = check_passes(tmp_path, nursery, IN_ORDER)
    (told,) = re.findall(r"^        return (.+)$", answer.source, re.MULTILINE)
    moved, wide, part, doubled = told.split(", ", 3)
    assert all(map(str.isidentifier, (moved, wide, part))) and doubled.endswith(".transpose(1, 2)")
