"""The code's docstrings as Markdown: examples as code, formulas' sections as links, and nothing taken for HTML."""

from __future__ import annotations

import inspect
import re
from typing import Any

from griffe import Extension

EXAMPLE = re.compile(r"^>>> .*(?:\n(?!\n).*)*", re.MULTILINE)
SECTION = re.compile(r"(?:METHODS|docs/methods\.md,)\s+(sections? \d+)")


def markdown(docstring: str | None) -> str:
    """A docstring for a page in ``reference/``."""
    text = inspect.cleandoc(docstring or "").replace("``", "`")
    text = SECTION.sub(r"[methods, \1](../methods.md)", escaped(text))
    return EXAMPLE.sub(lambda found: f"```python\n{found[0].replace('&lt;', '<')}\n```", text)


def escaped(text: str) -> str:
    """Text whose ``<`` outside of code is one."""
    parts = text.split("`")
    return "`".join(part if n % 2 else part.replace("<", "&lt;") for n, part in enumerate(parts))


class Docstrings(Extension):
    """Brings mkdocstrings all docstrings in this form."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        """Called for each object once it is read."""
        if obj.docstring:
            obj.docstring.value = markdown(obj.docstring.value)
