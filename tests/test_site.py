"""The site of docs/: links for readers of the repository lead to where the site has them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

pytest.importorskip("mkdocs", reason="the extra `docs` is not installed")

from docs import site_hooks


def page(site: str) -> SimpleNamespace:
    return SimpleNamespace(file=SimpleNamespace(src_uri=site))


@pytest.mark.parametrize(
    ("site", "written", "found"),
    [
        ("index.md", "docs/usage.md", "usage.md"),
        ("index.md", "docs/report.png", "report.png"),
        ("usage.md", "../examples/softmax.py", "source/examples/softmax.py.md"),
        ("usage.md", "decisions/0010-sets-of-inputs.md", "decisions/0010-sets-of-inputs.md"),
        ("decisions/0015-house.md", "../architecture.md", "../architecture.md"),
        ("CONTRIBUTING.md", "README.md#use-it", "index.md#use-it"),
        ("usage.md", "https://pytorch.org/docs", "https://pytorch.org/docs"),
        ("usage.md", "missing.md", "missing.md"),
    ],
)
def test_a_link_of_the_repository_becomes_one_of_the_site(site: str, written: str, found: str) -> None:
    assert site_hooks.on_page_markdown(f"see [it]({written}).", page(site)) == f"see [it]({found})."


def test_every_command_and_option_is_on_the_page() -> None:
    told = site_hooks.commands()
    assert "## optimize\n" in told and "`--policy`" in told and "| `builtin` |" in told
    assert "## runs list\n" in told and "triton-agent evaluate [OPTIONS] PROBLEM KERNEL..." in told
