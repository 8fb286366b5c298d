"""What a cell of a table may hold as a photo or a mask: the path of a file, an encoded picture, or pixels."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from os.path import commonpath
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image, ImageOps

from bgbias.errors import UserError
from bgbias.files.archives import Lookup
from bgbias.files.pictures import compose, locator
from bgbias.images import pixels

Read = Callable[[], bytes]
Find = Callable[[str], tuple[str, Read | None]]
"""Gives the id of the file that a path means, and what reads it; None where no file is there."""


def on_disk(start: Path, paths: Iterable[str]) -> Find:
    """Finds files whose relative ``paths`` begin at ``start``. So do their ids, unless one lies elsewhere: then ids begin where
    all files lie.
    """
    start, locate = start.resolve(), locator()
    folders = {(start / path).parent for path in paths}
    is_below = all(folder.is_relative_to(start) for folder in folders)
    around = start if is_below else Path(commonpath(folders))

    def find(path: str) -> tuple[str, Read | None]:
        file = locate(start / path)
        seen = file.relative_to(around) if file.is_relative_to(around) else file
        return compose(str(seen)), file.read_bytes if file.is_file() else None

    return find


def in_archive(files: Lookup, below: str) -> Find:
    """Finds files of an archive, whose paths begin at its part ``below``."""
    there = set(files.names)

    def find(path: str) -> tuple[str, Read | None]:
        name = posixpath.normpath(posixpath.join(below, compose(path)))
        return name, partial(files.read, name) if name in there else None

    return find


def is_empty(cell: Any) -> bool:
    """Whether there is nothing in a cell."""
    return bool(pd.api.types.is_scalar(cell) and (pd.isna(cell) or cell == ""))


def text(cell: Any) -> str:
    """A cell that is a name, as names are compared; empty where there is none."""
    return "" if is_empty(cell) else compose(str(cell).strip())


def path(cell: Any) -> str:
    """The path in a cell, or in Hugging Face's ``{bytes, path}`` without bytes; empty where a cell holds a picture."""
    if isinstance(cell, dict) and not cell.get("bytes"):
        cell = cell.get("path")
    return str(cell).strip().replace("\\", "/") if isinstance(cell, (str, Path)) else ""


def encoded(picture: Any, name: str) -> bytes:
    """A picture in memory as bytes: as given, or as PNG, which loses nothing. Another thing is an error.

    It may be a function without arguments that gives one, so that nothing is read before it is asked for.
    """
    picture = picture() if callable(picture) else picture
    picture = picture["bytes"] if isinstance(picture, dict) else picture
    if isinstance(picture, (bytes, bytearray, memoryview)):
        return bytes(picture)
    if isinstance(picture, Image.Image):
        upright = ImageOps.exif_transpose(picture)
        return pixels.encode_png(pixels.from_pillow(upright, "L" if picture.mode in ("1", "L") else "RGB"))
    shape: Sequence[int] = getattr(picture, "shape", ())
    kind = getattr(picture, "dtype", None)
    if kind == np.uint8 and (len(shape) == 2 or (len(shape) == 3 and shape[2] == 3)):
        return pixels.encode_png(np.ascontiguousarray(picture))
    what = f"{kind} {list(shape)}" if shape else type(picture).__name__
    raise UserError(
        f"'{name}' is {what}, and no photo: give a path, an encoded picture, one of Pillow's, or uint8 [H, W, 3] (RGB)."
    )
