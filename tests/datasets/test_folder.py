"""A folder of one's own photos as a dataset: its classes, its splits, its masks."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from miniatures import as_folder, as_zip

from bgbias.datasets import folder
from bgbias.datasets.folder import ClassSplit, assign
from bgbias.errors import UserError
from bgbias.files.fetch import fetch
from bgbias.photos.table import Item


@pytest.fixture
def classes(tmp_path: Path) -> Path:
    """A user's folder: twelve classes, one of them with a single photo."""
    photos = {
        f"class {c:02d}/{n}.jpg": b"%d %d" % (c, n) for c in range(12) for n in range(1 if c == 4 else 3)
    }
    return as_folder(tmp_path / "photos", photos | {"read me.txt": b""})


def folder_items(source: Path, **options: Any) -> list[Item]:
    params = folder.Params.model_validate({"source": str(source), **options})
    parts = {part: source.parent / f"fetched {part}" for part in folder.parts(params)}
    for part, sources in folder.parts(params).items():
        fetch(sources, parts[part], "mine", part=part)
    return list(folder.items(params, parts, "mine"))


def test_a_folder_gives_a_class_for_each_folder_whatever_lies_around_all(
    classes: Path, tmp_path: Path
) -> None:
    masks = as_zip(tmp_path / "masks", {"class 00/0.png": b"first", "class 07/2.png": b"second"})
    found = folder_items(classes, masks=str(masks))
    assert len(found) == 11 * 3 + 1
    names = sorted({i.class_name for i in found})
    assert names == [f"class {c:02d}" for c in range(12)]
    for item in found:
        assert item.label == names.index(item.class_name)
        assert item.image_id.startswith(f"{item.class_name}/")
        assert (item.key_set, item.key_item) == (f"mine|{item.split}", item.image_id)
    truth = {i.image_id: i.truth for i in found if i.truth}
    assert truth == {"class 00/0.jpg": b"first", "class 07/2.jpg": b"second"}
    around = tmp_path / "around"
    around.mkdir()
    classes.rename(around / "shop")
    assert sorted({i.class_name for i in folder_items(around)}) == names


@pytest.mark.parametrize(
    ("photo", "masks", "words"),
    [
        ("", ["class 0/0.png", "class 1/0.png"], r"the mask 'class 0/0\.png' fits no photo \(2 in all\)"),
        ("", ["class 00/0.bmp"], r"the masks 'class 00/0\.bmp' and 'class 00/0\.png' have one name"),
        ("class 00/0.png", [], r"the photos 'class 00/0\.jpg' and 'class 00/0\.png' have one name"),
        ("loose.jpg", [], r"mine: 'loose\.jpg' lies in no folder"),
    ],
)
def test_photos_and_masks_that_do_not_fit_are_named(
    classes: Path, tmp_path: Path, photo: str, masks: list[str], words: str
) -> None:
    if photo:
        (classes / photo).touch()
    drawn = as_folder(tmp_path / "masks", dict.fromkeys(["class 00/0.png", *masks], b""))
    with pytest.raises(UserError, match=words):
        folder_items(classes, masks=str(drawn))


def test_classes_are_split_by_a_seed_or_in_their_order() -> None:
    names = [f"{c:02d}" for c in range(12)]

    def split(**options: Any) -> dict[str, str]:
        return assign(names, ClassSplit(**options), "mine")

    assert Counter(split().values()) == {"train": 6, "val": 1, "test": 5}
    assert split() != split(shuffle=1)
    fixed = split(shuffle=None, train_classes=3, val_classes=2)
    assert [fixed[c] for c in names] == ["train"] * 3 + ["val"] * 2 + ["test"] * 7


@pytest.mark.parametrize(
    ("options", "together", "words"),
    [
        ({"train_classes": 3}, [], "mine has 4 classes, too few for 3 to train, 1 to validate"),
        ({"train_classes": 2}, ["ab", "bc", "cd"], "mine has 4 classes, too few"),
    ],
)
def test_too_few_classes_or_bundles_for_three_splits_are_refused(
    options: dict[str, int], together: list[str], words: str
) -> None:
    with pytest.raises(UserError, match=rf"{words}(.|\n)*datasets\.mine\.options\.train_classes"):
        assign("abcd", ClassSplit(**options), "mine", together)


def test_folders_in_folders_are_refused_until_somebody_says_which_are_the_classes(tmp_path: Path) -> None:
    names = [f"kind{k}/product{p}/{n}.jpg" for k in range(6) for p in range(2) for n in range(2)]
    nested = as_folder(tmp_path / "nested", {name: name.encode() for name in names})
    words = (
        r"datasets\.mine\.options\.class_level in params\.yaml: (.|\n)*"
        r"1 \(6 classes, e\.g\. 'kind0'\), or 2 \(12 classes, e\.g\. 'kind0/product0'\)"
    )
    with pytest.raises(UserError, match=words):
        folder_items(nested)
    for level, some in ((1, {"kind0", "kind5"}), (2, {"kind0/product0", "kind5/product1"})):
        split_of = {(i.class_name, i.split) for i in folder_items(nested, class_level=level)}
        assert some < dict(split_of).keys()
        assert len(split_of) == len(dict(split_of)) == 6 * level  # nobody lies in two splits
    with pytest.raises(UserError, match=r"lies in no folder of level 3"):
        folder_items(nested, class_level=3)
