"""The site of the documents: it builds without warnings, needs no network, and has every key, option and command."""

from __future__ import annotations

import contextlib
import re
import runpy
from pathlib import Path
from typing import Any

import pytest
import typer

from bgbias import plugins
from bgbias.cli import app
from bgbias.study import params

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As ``mkdocs build --strict`` makes it: a warning stops it, and is logged."""
    from mkdocs.commands import build
    from mkdocs.config import load_config

    folder = tmp_path_factory.mktemp("site")
    with contextlib.chdir(ROOT):
        config = load_config("mkdocs.yml", site_dir=str(folder), strict=True)
        config.plugins.on_startup(command="build", dirty=False)
        build.build(config)
        config.plugins.on_shutdown()
    return folder


def test_the_site_fetches_nothing(site: Path) -> None:
    """No script, style, font or picture has an address elsewhere."""
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        fetched = re.findall(r'<(?:script|img|iframe)[^>]*\ssrc="?(?:https?:)?//[^">]*', text)
        fetched += re.findall(r'<link[^>]*href="?(?:https?:)?//[^">]*', text)
        assert not fetched, page


def test_formulas_and_the_graph_are_drawn(site: Path) -> None:
    methods = (site / "methods.html").read_text(encoding="utf-8")
    assert methods.count("<math") > 200
    assert "arithmatex" not in methods
    text = (ROOT / "docs/workflow.md").read_text(encoding="utf-8")
    (graph,) = re.findall(r"^```mermaid\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    boxes = (site / "workflow.html").read_text(encoding="utf-8").count('<rect x="')
    assert boxes == len(set(re.findall(r"\w+(?= -->)|(?<=--> )\w+", graph)))


def test_every_page_has_the_tables_that_it_asks_for(site: Path) -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        asked = re.findall(r"^\{\{ .* \}\}$", page.read_text(encoding="utf-8"), re.MULTILINE)
        built = (site / page.relative_to(ROOT / "docs")).with_suffix(".html").read_text(encoding="utf-8")
        assert built.count("<table") >= len(asked), page
        assert "{{ table(" not in built, page


def test_the_reference_has_every_key_option_and_command(site: Path) -> None:
    settings = (site / "reference/params.html").read_text(encoding="utf-8")
    assert all(f"<code>{key}</code>" in settings for key in params.File.model_fields)
    assert all(f"<code>{key}</code>" in settings for key in params.Train.model_fields)
    families = (site / "reference/families.html").read_text(encoding="utf-8")
    for family in plugins.FAMILIES:
        assert all(f"{name}" in families for name in plugins.names(family))
    commands = (site / "reference/commands.html").read_text(encoding="utf-8")
    group: Any = typer.main.get_command(app)
    assert all(f'id="{name}"' in commands for name in group.commands)


def test_a_formula_that_cannot_be_read_stops_the_build() -> None:
    from mkdocs.exceptions import PluginError

    mathml = runpy.run_path(str(ROOT / "docs/hooks/formulas.py"))["mathml"]
    assert "<mfrac>" in mathml(r"\frac{a}{b}", "page.md", "inline")
    with pytest.raises(PluginError, match=r"page\.md.*nosuchcommand"):
        mathml(r"\nosuchcommand{a}", "page.md", "inline")
