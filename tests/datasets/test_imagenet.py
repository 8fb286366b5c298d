"""ImageNet-100 and the sets that its models are asked about: official layouts, classes, splits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from miniatures import Files, as_folder, as_tar, as_zip, jpeg

from bgbias import plugins
from bgbias.datasets import _imagenet
from bgbias.errors import UserError
from bgbias.files.fetch import fetch
from bgbias.photos.table import Item

CLASSES = _imagenet.CLASSES
OTHER = "n01440764"  # the tench, of ImageNet and not of ImageNet-100


@pytest.fixture(autouse=True)
def counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_imagenet, "TRAIN", 300)
    monkeypatch.setattr(_imagenet, "VALIDATION", 2)


def folders(
    prefix: str, each: int, classes: tuple[str, ...] = (*CLASSES, OTHER), ending: str = "JPEG"
) -> Files:
    return {
        f"{prefix}{wnid}/{wnid}_{n}.{ending}": jpeg(100 * c + n)
        for c, wnid in enumerate(classes)
        for n in range(each)
    }


def ilsvrc() -> Files:
    return folders("imagenet/train/", 3) | folders("imagenet/val/", 2) | folders("imagenet/test/", 1)


# What each set's folder or archive holds, with other photos of ImageNet beside those that are meant.
LAYOUTS: dict[str, Files] = {
    "imagenet_sketch": folders("sketch/", 2),
    "imagenet_r": folders("imagenet-r/", 2, (*CLASSES[:7], OTHER), "jpg"),
    "imagenet_stylized": folders("stylized/train/", 1) | folders("stylized/val/", 2, ending="png"),
    "imagenet_c": folders("c/snow/5/", 2) | folders("c/snow/4/", 1) | folders("c/frost/5/", 1),
}


def options(kind: str) -> dict[str, Any]:
    return {"corruption": "snow", "severity": 5} if kind == "imagenet_c" else {}


def items(kind: str, archive: Path, **more: Any) -> dict[str, Item]:
    module = plugins.load("datasets", kind)
    params = module.Params(**options(kind), **more)
    return {i.image_id: i for i in module.items(params, {"photos": archive}, "dataset")}


def test_the_classes_are_a_hundred_of_imagenets() -> None:
    # The first and the last one of CMC's list, and two in its middle.
    assert {"n02869837", "n02090622", "n03379051", "n02483362"} < set(CLASSES)
    assert len(set(CLASSES)) == 100
    assert list(CLASSES) == sorted(CLASSES)
    assert OTHER not in CLASSES


@pytest.mark.parametrize("packed", [as_zip, as_tar, as_folder])
def test_official_validation_photos_are_the_test(
    packed: Callable[[Path, Files], Path], tmp_path: Path
) -> None:
    archive = packed(tmp_path / "imagenet", ilsvrc())
    found = items("imagenet100", archive)
    assert Counter(i.split for i in found.values()) == {"train": 300, "test": 200}
    assert {i.split for n, i in found.items() if n.startswith("val/")} == {"test"}
    assert {i.class_name: i.label for i in found.values()} == {wnid: n for n, wnid in enumerate(CLASSES)}
    name = f"train/{CLASSES[4]}/{CLASSES[4]}_1.JPEG"
    assert found[name].data == ilsvrc()[f"imagenet/{name}"]
    validating = items("imagenet100", archive, val_per_class=1)
    assert {n for n, i in validating.items() if i.split == "val"} == {
        f"train/{c}/{c}_2.JPEG" for c in CLASSES
    }
    with pytest.raises(UserError, match=r"lower datasets\.dataset\.options.val_per_class"):
        items("imagenet100", archive, val_per_class=3)


@pytest.mark.parametrize("kind", LAYOUTS)
def test_sets_are_photos_of_the_same_classes_to_test(kind: str, tmp_path: Path) -> None:
    found = items(kind, as_tar(tmp_path / "set.tar", LAYOUTS[kind]))
    assert {i.split for i in found.values()} == {"test"}
    classes = CLASSES[:7] if kind == "imagenet_r" else CLASSES
    assert Counter(i.class_name for i in found.values()) == dict.fromkeys(classes, 2)
    assert all(i.label == CLASSES.index(i.class_name) for i in found.values())
    one = found[next(iter(found))]
    assert one.data in [data for name, data in LAYOUTS[kind].items() if name.endswith(one.image_id)]


@pytest.mark.parametrize("kind", ["imagenet100", *LAYOUTS])
def test_of_a_whole_folder_only_its_own_photos_are_copied(kind: str, tmp_path: Path) -> None:
    files = ilsvrc() if kind == "imagenet100" else LAYOUTS[kind]
    (top,) = {name.split("/")[0] for name in files}
    folder = as_folder(tmp_path / "folder", files) / top
    module = plugins.load("datasets", kind)
    (source,) = module.parts(module.Params(source=str(folder), **options(kind)))["photos"]
    fetch((source,), tmp_path / "photos.zip", "dataset", part="photos")
    assert source.names is not None
    assert len(items(kind, tmp_path / "photos.zip")) == len(source.names)
    with pytest.raises(UserError, match="has no photos in folders like"):
        module.parts(module.Params(source=str(tmp_path), **options(kind)))
    (nowhere,) = module.parts(module.Params(**options(kind)))["photos"]
    assert nowhere.place is None
    assert "option source" in nowhere.hint


@pytest.mark.parametrize("kind", ["imagenet100", *LAYOUTS])
def test_another_layout_and_classes_without_photos_are_refused(kind: str, tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match=r"other\.zip has no photos of ImageNet-100's classes like .*n01558993"
    ):
        items(kind, as_zip(tmp_path / "other.zip", folders("x/", 1, (OTHER,))))
    if kind == "imagenet_r":
        return
    files = ilsvrc() if kind == "imagenet100" else LAYOUTS[kind]
    folder = {"imagenet100": "/val", "imagenet_sketch": "sketch"}.get(kind, "")
    fewer = {n: d for n, d in files.items() if f"{folder}/{CLASSES[1]}/" not in n}
    with pytest.raises(UserError, match=rf"fewer\.zip has 0 photos of the class {CLASSES[1]}"):
        items(kind, as_zip(tmp_path / "fewer.zip", fewer))


def test_too_few_training_photos_are_refused(tmp_path: Path) -> None:
    files = ilsvrc()
    del files[f"imagenet/train/{CLASSES[0]}/{CLASSES[0]}_0.JPEG"]
    with pytest.raises(UserError, match="has 299 training photos of ImageNet-100's classes, not 300"):
        items("imagenet100", as_zip(tmp_path / "less.zip", files))
