"""The lender of device memory reads what another process has written there, and all of it is freed afterwards."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

from triton_agent.tools.processes import answers, card_files

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

BORROWER = """
import sys
import torch
from triton_agent.tools.processes import card_files
torch.cuda.init()
lent = card_files.borrowed(int(sys.argv[1]), int(sys.argv[2]))
lent.copy_(torch.arange(lent.numel(), device="cuda") % 251)
torch.cuda.synchronize()
"""
SIZE = answers.CARD_BYTES + 12345


def test_another_process_writes_and_the_lender_reads() -> None:
    torch.cuda.init()
    file, memory = card_files.create(SIZE)
    argv = [sys.executable, "-c", BORROWER, str(file), str(SIZE)]
    subprocess.run(argv, pass_fds=(file,), check=True, timeout=120)
    os.close(file)
    assert torch.equal(memory, (torch.arange(SIZE, device="cuda") % 251).to(torch.uint8))


def test_the_memory_is_given_back_with_its_last_view() -> None:
    torch.zeros(1, device="cuda")
    free, _ = torch.cuda.mem_get_info()
    file, memory = card_files.create(1 << 30)
    view = memory[5:]
    del memory
    os.close(file)
    view.fill_(1)
    assert torch.cuda.mem_get_info()[0] <= free - (1 << 30)
    del view
    assert torch.cuda.mem_get_info()[0] == free


def test_what_is_no_memory_of_a_card_is_refused() -> None:
    torch.cuda.init()
    file = os.memfd_create("other")
    try:
        with pytest.raises(OSError, match="cuMemImportFromShareableHandle"):
            card_files.borrowed(file, SIZE)
    finally:
        os.close(file)


def test_more_than_the_card_has_is_refused() -> None:
    torch.cuda.init()
    with pytest.raises(OSError, match="cuMemCreate"):
        card_files.create(1 << 42)
