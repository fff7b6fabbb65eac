"""Hooks of mkdocs, which build the site of `make docs` from the repository as it is.

    index.md                   README.md; SECURITY.md, CONTRIBUTING.md and CHANGELOG.md keep their names
    commands.md                every command with its options, from the command line itself
    reference.md               the Python interface, from its docstrings
    source/tools/race/....md   source files that a page links to

A link of a page is written for readers of the repository: it is looked up there, and changed into one of the site. A
link to what is not there fails the build.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

import typer
from mkdocs.structure.files import File, Files

import triton_agent
from triton_agent.runs.cli.config_file import commands_of
from triton_agent.runs.cli.main import app

ROOT = Path(__file__).resolve().parents[1]
PAGES = {"README.md": "index.md", **{name: name for name in ("SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md")}}
"""Pages outside docs/: path in the repository, and on the site."""
LINK = re.compile(r"\]\(([^)#\s]+)(#[^)\s]*)?\)")
LANGUAGES = {".py": "python", ".csv": "text", ".md": "markdown", ".ipynb": "json"}


def on_config(config: Any) -> Any:
    """List the decisions."""
    decisions = sorted(path.name for path in (ROOT / "docs" / "decisions").glob("*.md"))
    next(entry for entry in config.nav if "Decisions" in entry)["Decisions"] = [
        f"decisions/{name}" for name in decisions
    ]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are not files of docs/."""
    made = {site: (ROOT / path).read_text(encoding="utf-8") for path, site in PAGES.items()}
    made |= {"commands.md": commands(), "reference.md": reference()}
    texts = {path_of(file.src_uri): file.content_string for file in files.documentation_pages()}
    for path, text in (texts | {path: made[site] for path, site in PAGES.items()}).items():
        for target, _ in LINK.findall(text):
            linked = target_of(path, target)
            if linked and site_of(linked).startswith("source/"):
                made[site_of(linked)] = source_page(linked)
    for site, text in made.items():
        files.append(File.generated(config, site, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Change links for readers of the repository into links of the site."""
    path = path_of(page.file.src_uri)
    here = posixpath.dirname(page.file.src_uri)

    def changed(match: re.Match[str]) -> str:
        target, anchor = target_of(path, match[1]), match[2] or ""
        if target is None:
            return match[0]
        return f"]({posixpath.relpath(site_of(target), here or '.')}{anchor})"

    return LINK.sub(changed, markdown)


def path_of(site: str) -> str:
    """Return where a page of the site lies in the repository."""
    return next((path for path, there in PAGES.items() if there == site), f"docs/{site}")


def target_of(path: str, link: str) -> str | None:
    """Return the file or folder of the repository that a link of a page means; None for one to somewhere else."""
    if "://" in link or link.startswith("mailto:"):
        return None
    target = posixpath.normpath(posixpath.join(posixpath.dirname(path), link))
    return target if (ROOT / target).exists() else None


def site_of(path: str) -> str:
    """Return where a file of the repository is found on the site."""
    if path.startswith("docs/") and Path(path).suffix != ".py":
        return path.removeprefix("docs/")
    return PAGES.get(path, f"source/{path}.md")


def source_page(path: str) -> str:
    """Return a page that shows a file, or lists a folder."""
    place = ROOT / path
    if place.is_dir():
        names = sorted(item.name for item in place.iterdir() if not item.name.startswith("__"))
        return "\n".join([f"# {path}", "", *(f"- `{name}`" for name in names)])
    language = LANGUAGES.get(place.suffix, "text")
    return f"# {path}\n\n````{language}\n{place.read_text(encoding='utf-8')}\n````\n"


def commands() -> str:
    """Return the page of all commands, as the command line knows them."""
    parts = ["# Commands", "", "Written from the command line itself. `triton-agent COMMAND --help` says the same."]
    for path, command in commands_of(typer.main.get_command(app)):
        arguments = [_words(item)[0] for item in command.params if item.param_type_name == "argument"]
        usage = " ".join(["triton-agent", *path, "[OPTIONS]", *arguments])
        parts += ["", f"## {' '.join(path)}", "", _prose(command.help), "", f"```\n{usage}\n```"]
        rows = [
            (", ".join(f"`{word}`" for word in _words(item)), _default(item), item.help or "")
            for item in command.params
        ]
        if rows:
            parts += ["", "| option | default | meaning |", "|---|---|---|"]
            parts += [f"| {name} | {default} | {_cell(text)} |" for name, default, text in rows]
    return "\n".join(parts) + "\n"


def _words(parameter: Any) -> list[str]:
    if parameter.param_type_name == "argument":
        return [parameter.metavar or parameter.name.upper()]
    taken = f" {parameter.metavar}" if parameter.metavar and not parameter.is_flag else ""
    return [f"{word}{taken}" for word in (*parameter.opts, *parameter.secondary_opts)]


def _default(parameter: Any) -> str:
    value = parameter.default
    if value in (None, "", ()) or isinstance(value, bool) or callable(value):
        return ""
    return f"`{value}`"


def _prose(text: str | None) -> str:
    return " ".join((text or "").split())


def _cell(text: str) -> str:
    return _prose(text).replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


def reference() -> str:
    """Return the page of the Python interface: what `triton_agent` offers, from its docstrings."""
    shown = ["optimize", "evaluate", "load", "load_run", "outcome_of"]
    rest = [name for name in triton_agent.__all__ if name not in (*shown, "__version__")]
    homes = triton_agent._HOMES
    parts = ["# Python reference", "", "Everything here is imported from `triton_agent`."]
    for name in (*shown, *sorted(rest)):
        parts += ["", f"::: {homes[name]}.{name}"]
    return "\n".join(parts) + "\n"
