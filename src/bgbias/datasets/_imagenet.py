"""ImageNet-100, and the sets that its models are asked about, whose photos are all to test: a folder of photos for each class."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from pydantic import Field

from bgbias.datasets._official import ArchiveParams, last_of_each_class, names_in, read_official
from bgbias.errors import UserError
from bgbias.files import places
from bgbias.files.archives import members
from bgbias.files.fetch import Source
from bgbias.files.pictures import is_picture
from bgbias.photos.table import Item
from bgbias.settings import read_yaml

# Those of imagenet100.txt of github.com/HobbitLong/CMC (Tian et al., ECCV 2020), sorted: a class's label is its place here.
CLASSES = tuple(Path(__file__).with_name("imagenet100_classes.txt").read_text(encoding="utf-8").splitlines())
LABEL = {wnid: number for number, wnid in enumerate(CLASSES)}
FOLDERS = ("train", "val")  # of ImageNet-100
TRAIN = 126_689
VALIDATION = 50  # photos of each class in ImageNet's validation set
SETS = read_yaml(Path(__file__).with_name("imagenet_sets.yaml"))


class ImageNetParams(ArchiveParams):
    """Where the photos are."""

    source: str | None = Field(
        None,
        description="a folder, zip or tar in the official layout; of a folder, photos of ImageNet-100's classes alone are copied",
    )


class HundredParams(ImageNetParams):
    """Where the photos are, and how many of them validate."""

    val_per_class: int = Field(0, ge=0, description="last photos of each class that validate")


class CorruptedParams(ImageNetParams):
    """Where the photos are, and which of them to take."""

    corruption: Literal[*SETS["imagenet_c"]["corruptions"]] = Field(  # type: ignore[valid-type]
        description="what is done to the photos: the folder's name"
    )
    severity: int = Field(ge=1, le=5, description="how much, from 1 to 5")


def source(params: ImageNetParams, dataset: str, above: Sequence[str] = ("",)) -> Source:
    """The user's folder or archive. ``above``: the folders that the classes' lie in; a folder without any is an error."""
    (official,) = read_official(dataset).values()
    if params.source is None:
        return official
    names = None
    if "://" not in params.source and (root := places.source(params.source)).is_dir():
        folders = tuple(str(PurePosixPath(part, wnid)) for part in above for wnid in CLASSES)
        times = tuple((root / f).stat().st_mtime_ns if (root / f).is_dir() else 0 for f in folders)
        names = _photos_in(root, folders, times)
        if not names:
            raise UserError(f"{root} has no photos in folders like {folders[0]}. {official.hint}")
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

    def is_wanted(name: str) -> bool:
        folder = PurePosixPath(name).parent
        inside = not above or any(f"/{folder.parent.as_posix()}".endswith(f"/{part}") for part in above)
        return inside and folder.name in LABEL and is_picture(name)

    names = names_in(archive, is_wanted)
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
            expectation = f", not {each}" if each else ""
            raise UserError(
                f"{archive} has {counts[wnid]} photos of the class {wnid}{expectation}: it is incomplete, get it again."
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


def _hundred_expected(params: HundredParams) -> dict[str, int]:
    val = len(CLASSES) * params.val_per_class
    return {"train": TRAIN - val, "val": val, "test": len(CLASSES) * VALIDATION}


def _hundred_items(params: HundredParams, parts: dict[str, Path], name: str) -> Iterator[Item]:
    archive = parts["photos"]
    class_of = photos(archive, f"train/{CLASSES[0]}/*.JPEG", FOLDERS)
    folder_of = {member: PurePosixPath(member).parts[-3] for member in class_of}
    train, val = ({m: wnid for m, wnid in class_of.items() if folder_of[m] == part} for part in FOLDERS)
    check(val, archive, VALIDATION)
    check(train, archive)
    if len(train) != TRAIN:
        raise UserError(
            f"{archive} has {len(train):,} training photos of ImageNet-100's classes, not {TRAIN:,}: get it again."
        )
    splits = {member: "test" if folder == "val" else "train" for member, folder in folder_of.items()}
    splits |= dict.fromkeys(
        last_of_each_class(dict(sorted(train.items())), params.val_per_class, name), "val"
    )
    yield from items(archive, class_of, "imagenet100", splits)


def _to_test(key: str, facts: Mapping[str, Any]) -> dict[str, Any]:
    """A set as ``imagenet_sets.yaml`` has it; a layout that is another one is an error."""

    def folder_of(params: ImageNetParams) -> str:
        return str(facts.get("folder", "")).format(**params.model_dump())

    def parts(params: ImageNetParams) -> dict[str, tuple[Source, ...]]:
        return {"photos": (source(params, key, (folder_of(params),)),)}

    def of_set(params: ImageNetParams, parts: dict[str, Path], name: str) -> Iterator[Item]:
        archive, above = parts["photos"], folder_of(params)
        layout = str(PurePosixPath(above, CLASSES[0], facts["photo"]))
        class_of = photos(archive, layout, [above] if above else ())
        if facts["has_all_classes"]:
            check(class_of, archive, VALIDATION if facts["is_of_validation"] else None)
        yield from items(archive, class_of, key)

    def expected(params: ImageNetParams) -> dict[str, int]:
        return {"train": 0, "val": 0, "test": facts["each"] * len(CLASSES)}

    return {
        "__doc__": facts["doc"],
        "TITLE": facts["title"],
        "PHOTO_BYTES": facts["bytes"],
        "Params": CorruptedParams if key == "imagenet_c" else ImageNetParams,
        "parts": parts,
        "items": of_set,
        **({"expected": expected} if facts["has_all_classes"] else {"TESTS_ALONE": True}),
    }


MEMBERS: dict[str, dict[str, Any]] = {
    "imagenet100": {
        "__doc__": "ImageNet-100: 131,689 photos of a hundred classes of ILSVRC 2012 (Russakovsky et al. 2015; classes of Tian et"
        " al., ECCV 2020). ImageNet's validation photos are the test: they are of the classes of its training photos"
        " (docs/methods.md, section 6).",
        "TITLE": "ImageNet-100",
        "PHOTO_BYTES": 110_000,  # about
        "Params": HundredParams,
        "parts": lambda params: {"photos": (source(params, "imagenet100", FOLDERS),)},
        "items": _hundred_items,
        "expected": _hundred_expected,
    },
    **{key: _to_test(key, facts) for key, facts in SETS.items()},
}
