"""Figures of published results drawn again from the published tables, so that what pages show is what this code draws.

Only of figures that are drawn from tables alone (``figures.of_tables``): others show photos, which are not published.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from bgbias.files import atomic
from bgbias.files.checksums import sha256
from bgbias.report import figures, look
from bgbias.results import publication
from bgbias.results.publication import Publication
from bgbias.study.params import Study

# A processor may round a few pixels of an edge otherwise; a mark that moves or is painted otherwise has more.
PIXELS, LEVELS = 20, 32


def differing(published: Publication, study: Study) -> Iterator[tuple[str, bytes]]:
    """The file of each published figure that this code draws otherwise, and the PNG that it draws."""
    whole = published.made["files"].keys() - published.damaged()
    for file in sorted(name for name in whole if name.endswith(".png")):
        figure = figures.load(Path(file).stem)
        if not hasattr(figure, "of_tables"):
            continue
        with tempfile.TemporaryDirectory() as folder:
            anew = Path(folder) / file
            look.write(figure.of_tables(study, published.table), anew)
            if not alike(published.folder / file, anew):
                yield file, anew.read_bytes()


def alike(one: Path, other: Path) -> bool:
    """Whether a person sees the same: as large, and no more than a few pixels apart."""
    a, b = pixels(one), pixels(other)
    return a.shape == b.shape and int((np.abs(a - b).max(axis=-1) > LEVELS).sum()) <= PIXELS


def pixels(path: Path) -> np.ndarray:
    """A picture as int16 RGB [H, W, 3]."""
    from PIL import Image

    with Image.open(path) as picture:
        return np.asarray(picture.convert("RGB"), dtype=np.int16)


def draw(published: Publication, study: Study) -> list[Path]:
    """Replace the figures that this code draws otherwise; gives their files."""
    anew = dict(differing(published, study))
    for file, content in anew.items():
        with atomic.replacing(published.folder / file) as temporary:
            temporary.write_bytes(content)
    if anew:
        files = published.made["files"] | {file: sha256(published.folder / file) for file in anew}
        publication.write(replace(published, made=published.made | {"files": files}))
    return [published.folder / file for file in anew]
