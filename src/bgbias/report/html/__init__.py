"""Pages of HTML that need no other file and no network: templates beside this file, filled by Jinja.

``page.html`` has the head, the style and the script; a page is a template that extends it. Whatever comes from photos, models or
people is escaped. Pictures are inside a page, as small as they are shown.
"""

import base64
import io
import re
from functools import partial
from pathlib import Path

import numpy as np
from markupsafe import Markup, escape
from PIL import Image, ImageFilter

from bgbias.report import prose
from bgbias.report.columns import format_number as number

TEMPLATES = Path(__file__).parent / "templates"
NO_BREAK = "\N{NO-BREAK SPACE}"
QUALITY = 78
OUTLINE = (255, 64, 160)  # seen on most photos


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


def inside(picture: np.ndarray, side: int) -> str:
    """A picture uint8 [H, W, 3], no larger than ``side``, as a URL that holds it."""
    return url(jpeg(picture, side))


def jpeg(picture: np.ndarray, side: int) -> bytes:
    """The same as the bytes of a file."""
    thumbnail = Image.fromarray(np.ascontiguousarray(picture))
    thumbnail.thumbnail((side, side), Image.Resampling.LANCZOS)
    data = io.BytesIO()
    thumbnail.save(data, "JPEG", quality=QUALITY, optimize=True)
    return data.getvalue()


def url(data: bytes, kind: str = "image/jpeg") -> str:
    """A file's bytes as a URL that holds them."""
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def outline(photo: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """A photo uint8 [H, W, 3] with the line around its mask uint8 [H, W], which parts it at one half; uint8 [H, W, 3]."""
    inner = Image.fromarray(np.where(mask > 127, np.uint8(255), np.uint8(0)))
    width = 2 * max(1, round(max(mask.shape) / 224)) + 1
    around = np.asarray(inner.filter(ImageFilter.MaxFilter(width))) != np.asarray(
        inner.filter(ImageFilter.MinFilter(width))
    )
    return np.where(around[..., None], np.array(OUTLINE, np.uint8), photo)
