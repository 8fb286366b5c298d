"""One file per image collection: an uncompressed zip with random access.

A hundred thousand small files cost minutes in every copy, pull and checksum; one archive costs seconds (and any zip tool
opens it). Each process opens it for itself, so that forked workers do not disturb each other.
"""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from bgbias.errors import UserError
from bgbias.files.atomic import replacing
from bgbias.files.pictures import PICTURES, has_suffix, is_picture, walk, why_not

# A fixed date keeps the archive's bytes equal from run to run.
EPOCH = (1980, 1, 1, 0, 0, 0)


class ImageStore:
    """Read access to a collection by image id."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            raise UserError(f"{path} is missing; `snakemake --cores all` makes it.")
        self.path = path
        self._archives: dict[int, zipfile.ZipFile] = {}
        with self._open() as archive:
            self._sums = {i.filename: (i.CRC, i.file_size) for i in archive.infolist()}

    def __reduce__(self) -> tuple[type[ImageStore], tuple[Path]]:
        return ImageStore, (self.path,)

    def __contains__(self, image_id: str) -> bool:
        return image_id in self._sums

    def __len__(self) -> int:
        return len(self._sums)

    @property
    def ids(self) -> list[str]:
        """Image ids in the order of writing."""
        return list(self._sums)

    @property
    def fingerprint(self) -> str:
        """16 hex digits of names, checksums and sizes of all pictures, in their order; reads none of them."""
        text = repr([(name, *sums) for name, sums in self._sums.items()])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def read(self, image_id: str) -> bytes:
        """The encoded picture; an unknown id is an error that names it."""
        if image_id not in self._sums:
            raise UserError(
                f"{self.path} has no image '{image_id}'; rebuild it with `snakemake --cores all`."
            )
        with self._open() as archive:
            return archive.read(image_id)

    def array(self, image_id: str, mode: str = "RGB") -> np.ndarray:
        """The decoded picture: uint8 [H, W, 3] for RGB, [H, W] for mode L."""
        from bgbias.images import pixels

        return pixels.decode(self.read(image_id), image_id, mode)

    @contextmanager
    def _open(self) -> Iterator[zipfile.ZipFile]:
        """This process's own archive; what turns out to be damaged is an error that names it."""
        try:
            if os.getpid() not in self._archives:
                self._archives[os.getpid()] = zipfile.ZipFile(self.path)
            yield self._archives[os.getpid()]
        except zipfile.BadZipFile as error:
            raise UserError(
                f"{self.path} is damaged ({error}); delete it and run `snakemake --cores all` again."
            ) from error


class StoreWriter:
    """Adds pictures to a store that is being made."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive

    def add(self, image_id: str, data: bytes) -> None:
        """Append one encoded picture; an id that is there already is an error."""
        if image_id in self._archive.NameToInfo:
            raise UserError(f"Two pictures are called '{image_id}'; rename or remove one of them.")
        self._archive.writestr(zipfile.ZipInfo(image_id, EPOCH), data, compress_type=zipfile.ZIP_STORED)


@contextmanager
def writing(path: Path) -> Iterator[StoreWriter]:
    """A new store, which appears at ``path`` when the block ends well."""
    with replacing(path) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as archive:
        yield StoreWriter(archive)


def pack(folder: Path, target: Path, names: Collection[str] | None, keep: tuple[str, ...]) -> None:
    """A folder's pictures, or those of these ``names``, and files with the endings ``keep``, as one archive in sorted order."""
    files, left_out = walk(folder)
    if names is not None and not files.keys() & set(names):
        raise UserError(
            f"The folder {folder} holds none of the {len(names)} files that the table names, e.g. '{min(names)}';"
            " they are named relative to the table's folder, or to the option `root`."
        )
    if not any(map(is_picture, files)):
        others = [why_not(name) for name in files] + list(left_out.values())
        there = (
            f" What is there: {Counter(others).most_common(1)[0][0]} ({len(others)} files in all)."
            if others
            else ""
        )
        raise UserError(
            f"The folder {folder} holds no pictures ({', '.join(PICTURES)}), not even in folders below it.{there}"
        )
    with writing(target) as store:
        for name, path in files.items():
            is_named = names is None or name in names
            if is_named and has_suffix(name, PICTURES + keep):
                store.add(name, path.read_bytes())
