"""Pages of HTML that need no other file and no network: templates beside this file, filled by Jinja.

``page.html`` has the head, the style and the script; a page is a template that extends it. Whatever comes from photos, models or
people is escaped.
"""

import re
from functools import partial
from pathlib import Path

from markupsafe import Markup, escape

from bgbias.report import prose
from bgbias.report.columns import format_number as number
from bgbias.report.html.pictures import inside, outline, url

TEMPLATES = Path(__file__).parent / "templates"
NO_BREAK = "\N{NO-BREAK SPACE}"


def render(template: str, values: dict[str, object]) -> str:
    """The page of a template; a value that a template names and is not given is an error of Jinja's."""
    environment = prose.environment(TEMPLATES, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {
        "as_url": url,
        "inside": inside,
        "number": number,
        "outlined": outline,
        "in_percent": lambda share, digits=1: number(100 * share, digits),
        # Of a long name, behind which it may go on in the next line.
        "pieces": partial(re.split, r"(?<=[/_.])"),
        "together": together,
        "with_contents": with_contents,
    }
    return environment.get_template(template).render(values)


def together(text: str) -> Markup:
    """A sentence, escaped, of which a line's end parts no number from its interval and unit, and no option."""
    text = re.sub(r"( \[[^\[\]]*\])?( %)?", lambda match: match[0].replace(" ", NO_BREAK), text)
    return Markup(re.sub(r"--[a-z][a-z-]*", r'<span class="nowrap">\g<0></span>', str(escape(text))))


def with_contents(body: Markup) -> Markup:
    """A page's body with links to its sections at the end of its header."""
    sections = re.findall(r'<h2 id="([^"]+)">(.*?)</h2>', body, re.DOTALL)
    if len(sections) < 2:
        return body
    links = "".join(f'<li><a href="#{anchor}">{title}</a></li>' for anchor, title in sections)
    contents = f'<nav aria-label="On this page"><ul>{links}</ul></nav>\n'
    return Markup(str(body).replace("</header>", f"{contents}</header>", 1))


def whole_intervals(table: str) -> str:
    """A table's HTML in which a line may end before ``[low, high] *``, and not within: where there is no room an interval stands
    below its number, with its star.
    """
    return re.sub(r"\[[^\[\]<>]*\]( \*)?", lambda match: match[0].replace(" ", NO_BREAK), table)
