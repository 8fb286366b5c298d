"""What ImageNet-100 and the sets that models of it are asked about have in common: a folder of photos for each of its classes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path, PurePosixPath

from pydantic import Field

from bgbias.datasets._official import names_in
from bgbias.errors import UserError
from bgbias.files import places
from bgbias.files.archives import members
from bgbias.files.fetch import Source
from bgbias.files.pictures import is_picture
from bgbias.photos.table import Item
from bgbias.settings import Strict

# Those of imagenet100.txt of github.com/HobbitLong/CMC (Tian et al., ECCV 2020), sorted: a class's label is its place here.
CLASSES = tuple(Path(__file__).with_name("imagenet100_classes.txt").read_text(encoding="utf-8").splitlines())
LABEL = {wnid: number for number, wnid in enumerate(CLASSES)}
VALIDATION = 50  # photos of each class in ImageNet's validation set


class ImageNetParams(Strict):
    """Where the photos are."""

    source: str | None = Field(
        None,
        description="a folder, zip or tar in the official layout; of a folder, photos of ImageNet-100's classes alone are copied",
    )
    sha256: str | None = None


def source(params: ImageNetParams, file: str, hint: str, above: Sequence[str] = ("",)) -> Source:
    """The user's folder or archive; no host serves one to everybody. ``file``: what it is called; ``above``: the folders that the
    classes' lie in. A folder without any of these is an error.
    """
    if params.source is None:
        return Source(place=None, file=file, hint=hint)
    names = None
    if "://" not in params.source and (root := places.source(params.source)).is_dir():
        folders = tuple(str(PurePosixPath(part, wnid)) for part in above for wnid in CLASSES)
        times = tuple((root / f).stat().st_mtime_ns if (root / f).is_dir() else 0 for f in folders)
        names = _photos_in(root, folders, times)
        if not names:
            raise UserError(f"{root} has no photos in folders like {folders[0]}. {hint}")
    return Source(place=params.source, sha256=params.sha256, names=names)


@cache
def _photos_in(root: Path, folders: tuple[str, ...], times: tuple[int, ...]) -> frozenset[str]:
    """The photos in these folders below ``root``, each listed again once its time is another one; 0: it is not there."""
    there = [folder for folder, time in zip(folders, times, strict=True) if time]
    return frozenset(
        f"{folder}/{file.name}"
        for folder in there
        for file in (root / folder).iterdir()
        if is_picture(file.name)
    )


def photos(archive: Path, layout: str, above: Collection[str] = ()) -> dict[str, str]:
    """The photos of ImageNet-100's classes in an archive, each with its class, the folder that it lies in. ``above``: what the
    classes' folders lie in; anywhere if none is named. An archive without any is an error that tells the ``layout``.
    """

    def wanted(name: str) -> bool:
        folder = PurePosixPath(name).parent
        inside = not above or any(f"/{folder.parent.as_posix()}".endswith(f"/{part}") for part in above)
        return inside and folder.name in LABEL and is_picture(name)

    names = names_in(archive, wanted)
    if not names:
        raise UserError(
            f"{archive} has no photos of ImageNet-100's classes like {layout}: it is in another layout."
        )
    return {name: PurePosixPath(name).parent.name for name in names}


def check(class_of: Mapping[str, str], archive: Path, each: int | None = None) -> None:
    """Refuse a class without photos, or, where all have as many, with another number than ``each``."""
    counts = Counter(class_of.values())
    for wnid in CLASSES:
        if counts[wnid] != (each or counts[wnid] or 1):
            wanted = f", not {each}" if each else ""
            raise UserError(
                f"{archive} has {counts[wnid]} photos of the class {wnid}{wanted}: it is incomplete, get it again."
            )


def items(
    archive: Path, class_of: Mapping[str, str], key: str, splits: Mapping[str, str] | None = None
) -> Iterator[Item]:
    """The photos in the archive's order, in their ``splits``, all to test if none are given. Ids are the class and the file, and,
    where there are splits, the folder above, e.g. ``train/n01558993/n01558993_1.JPEG``.
    """
    for member, data in members(archive, class_of.__contains__):
        wnid, parts = class_of[member], PurePosixPath(member).parts
        yield Item(
            image_id="/".join(parts[-3 if splits else -2 :]),
            class_name=wnid,
            label=LABEL[wnid],
            split=splits[member] if splits else "test",
            key_set=f"{key}|{parts[-3]}" if splits else f"{key}|test",
            key_item="/".join(parts[-2:]),
            data=data,
        )
