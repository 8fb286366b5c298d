"""Formulas as MathML, which browsers draw without a script: LaTeX between $ signs, as GitHub reads it too."""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError

# What pymdownx.arithmatex makes of $...$ and $$...$$.
INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.DOTALL)
BLOCK = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', re.DOTALL)


def on_page_content(content: str, page: Any, **_: Any) -> str:
    """A page's HTML with its formulas drawn."""
    place = page.file.src_uri
    content = BLOCK.sub(lambda m: f'<div class="formula">{mathml(m[1], place, "block")}</div>', content)
    return INLINE.sub(lambda m: mathml(m[1], place, "inline"), content)


def mathml(escaped: str, place: str, display: str) -> str:
    """MathML of a formula; one that cannot be read stops the build and is named."""
    latex = html.unescape(escaped).strip()
    try:
        made = convert(latex, display=display)
    except Exception as error:  # latex2mathml raises many kinds
        raise PluginError(f"{place}: the formula {latex!r} cannot be read ({error!r})") from error
    # A command that it does not know is printed as it stands.
    if unknown := re.search(r"\\[^ <]*", re.sub(r"<annotation.*?</annotation>", "", made)):
        raise PluginError(f"{place}: {unknown[0]} in the formula {latex!r} is not known to latex2mathml")
    return made
