"""Many small pictures with captions on one sheet."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from bgbias.errors import UserError

INK, MUTED, RULE, PAPER = "#20242A", "#6B7280", "#D5D9DF", "#FFFFFF"


def contact_sheet(
    images: Sequence[np.ndarray], columns: int, labels: Sequence[str], side: int = 192
) -> Image.Image:
    """Pictures (uint8 [H, W, 3] or masks [H, W]) in ``columns``, each fitted into ``side`` pixels, with its label below.

    Raises UserError if there is nothing to show.
    """
    import matplotlib

    if not images:
        raise UserError("There is no picture to show. Make the photos first: snakemake --cores all")
    gap, text_height = max(4, side // 24), max(12, side // 9)
    font_file = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"
    font = ImageFont.truetype(font_file, max(8, int(text_height * 0.62)))
    rows = -(-len(images) // columns)
    step = (side + gap, side + text_height + gap)
    sheet = Image.new("RGB", (columns * step[0] + gap, rows * step[1] + gap), PAPER)
    draw = ImageDraw.Draw(sheet)
    for number, (image, label) in enumerate(zip(images, labels, strict=True)):
        left, top = gap + number % columns * step[0], gap + number // columns * step[1]
        fitted = _fit(image, side)
        sheet.paste(fitted, (left + (side - fitted.width) // 2, top + (side - fitted.height) // 2))
        draw.text((left + side // 2, top + side + text_height // 2), label, INK, font, anchor="mm")
    return sheet


def _fit(image: np.ndarray, side: int) -> Image.Image:
    picture = Image.fromarray(np.ascontiguousarray(image, dtype=np.uint8)).convert("RGB")
    scale = side / max(picture.size)
    # Whole pixels stay sharp where a whole multiple nearly fills the square.
    whole = int(scale) if int(scale) > 0.9 * scale else scale
    size = (max(1, round(picture.width * whole)), max(1, round(picture.height * whole)))
    sharp = isinstance(whole, int)
    return picture.resize(size, Image.Resampling.NEAREST if sharp else Image.Resampling.LANCZOS)
