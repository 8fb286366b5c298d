"""Every dataset in its official layout: photos, classes, splits, keys, refusals. Of persons and cars more in test_layouts.py."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import miniatures
import numpy as np
import pytest
from miniatures import IMAGENET, LISTED_BIRDS, Files, as_folder, as_tar, as_zip, deliver

from bgbias import plugins
from bgbias.datasets import _imagenet, _official, cub200, sop, stl10
from bgbias.errors import UserError
from bgbias.files.fetch import fetch
from bgbias.images import pixels
from bgbias.photos.table import Item

CLASSES = _imagenet.CLASSES


class Official(NamedTuple):
    """A dataset's replica, and how many photos of each split it has."""

    files: Callable[[], Files]
    photos: dict[str, int]
    options: dict[str, Any] = {}  # noqa: RUF012  # never changed
    packed: tuple[Callable[[Path, Files], Path], ...] = (as_tar, as_zip, as_folder)
    own_bytes: bool = True


PERSONS = {"val_persons": 2, "square": False}
SNOW = {"corruption": "snow", "severity": 5}
OFFICIAL = {
    "cub200": Official(miniatures.cub_files, {"train": 7, "val": 2, "test": 4}, miniatures.BIRDS_SPLIT),
    "cars196": Official(miniatures.cars_joint, {"train": 222, "val": 72, "test": 294}, packed=(as_tar, as_zip)),
    "sop": Official(miniatures.sop_files, {"train": 3, "val": 2, "test": 4}),
    "stl10": Official(miniatures.stl10_files, {"train": 30, "test": 20}, packed=(as_tar,), own_bytes=False),
    "market1501": Official(miniatures.market_files, {"train": 4, "val": 4, "test": 7}, PERSONS),
    "cuhk03": Official(miniatures.cuhk_files, {"train": 3, "val": 3, "test": 5}, PERSONS),
    "imagenet100": Official(lambda: IMAGENET["imagenet100"], {"train": 200, "val": 100, "test": 200}, {"val_per_class": 1}),
    "imagenet_sketch": Official(lambda: IMAGENET["imagenet_sketch"], {"test": 200}),
    "imagenet_stylized": Official(lambda: IMAGENET["imagenet_stylized"], {"test": 200}),
    "imagenet_r": Official(lambda: IMAGENET["imagenet_r"], {"test": 14}),
    "imagenet_c": Official(lambda: IMAGENET["imagenet_c"], {"test": 200}, SNOW),
}  # fmt: skip
# Photos to train and to validate, and to test, as the datasets' authors count them.
COUNTED = {
    "cub200": (5_864, 5_924),
    "cars196": (8_054, 8_131),
    "sop": (59_551, 60_502),
    "stl10": (5_000, 8_000),
    "market1501": (12_936, 3_368 + 15_913),
    "cuhk03": (7_365, 1_400 + 5_332),
    "imagenet100": (126_689, 5_000),
    "imagenet_sketch": (0, 5_100),
    "imagenet_stylized": (0, 5_000),
    "imagenet_c": (0, 5_000),
}


def items(kind: str, archives: Path | dict[str, Path], **more: Any) -> dict[str, Item]:
    return deliver(kind, archives, **OFFICIAL[kind].options | more)


@pytest.mark.parametrize("kind", OFFICIAL)
def test_every_photo_comes_with_its_class_its_split_and_a_key_of_its_own(kind: str, tmp_path: Path) -> None:
    files, of_split, options, packed, own_bytes = OFFICIAL[kind]
    found = items(kind, packed[0](tmp_path / "first", files()))
    assert Counter(i.split for i in found.values()) == of_split
    classes = {(i.label, i.class_name) for i in found.values()}
    assert len(classes) == len(dict(classes)) == len({name for _, name in classes})
    assert len({(i.key_set, i.key_item) for i in found.values()}) == len(found)
    assert all(i.key_set.startswith(f"{kind}|") for i in found.values())
    if own_bytes:
        assert {i.data for i in found.values()} <= set(files().values())
    if as_zip in packed:
        assert items(kind, as_zip(tmp_path / "second.zip", files())) == found
    if as_folder in packed:  # of which no more is fetched than is needed
        ((top, _),) = Counter(name.split("/")[0] for name in files()).most_common(1)
        folder = as_folder(tmp_path / "folder", files()) / top
        module = plugins.load("datasets", kind)
        params = module.Params.model_validate(options | {"source": str(folder)})
        fetch(module.parts(params)["photos"], tmp_path / "fetched", "mine")
        assert items(kind, tmp_path / "fetched") == found


@pytest.mark.parametrize("kind", COUNTED)
def test_counts_and_forecasts_are_the_official_ones(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    # docs/methods.md, section 1.
    assert sop.FIRST_VAL_CLASS == 8_489
    module = plugins.load("datasets", kind)
    options = {} if kind == "cub200" else OFFICIAL[kind].options
    about = module.expected(module.Params.model_validate(options))
    assert about["train"] + about["val"] == pytest.approx(COUNTED[kind][0], abs=40)
    assert about["test"] == pytest.approx(COUNTED[kind][1], abs=40)


Change = dict[str, Any]


def changed(files: Files, change: Change) -> Files:
    """Without the files whose names end so (None), with other or new content (bytes, or a function of what is there); of ``*``,
    with nothing else.
    """
    files = {} if "*" in change else dict(files)
    for name, data in change.items():
        paths = [n for n in files if n.endswith(name)] or [name]
        for path in paths:
            files[path] = data(files[path]) if callable(data) else data
    return {n: data for n, data in files.items() if data is not None}


REFUSED: list[tuple[str, Change, str]] = [
    ("cub200", {"images.txt": None}, r"has no images\.txt: it is not in the official layout of CUB-200-2011"),
    ("cub200", {"image_class_labels.txt": b"1 one\n"}, "do not fit together"),
    ("cub200", {"images/004.Ani/Ani_0000.jpg": None}, r"lacks 1 of the photos it lists, e\.g\. '004\.Ani/Ani_0000"),
    ("cars196", {"car_ims/000007.jpg": None}, r"1 photos that cars_annos\.mat lists are missing, e\.g\. 'car_ims/000007"),
    ("cars196", {"cars_annos.mat": lambda data: data[:9000]}, r"cars_annos\.mat is not what Cars196 came with"),
    ("cars196", {"cars_annos.mat": None}, r"588 photos in car_ims, annotations: none"),
    ("cars196", {"*": None} | dict(list(miniatures.cars_by_class().items())[:-1]),
     "587 photos of 196 classes, 293 of them in classes 99-196; Cars196 has 588"),
    ("cars196", {"*": None} | miniatures.cars_by_class() | {"a/Trabant 601/1.jpg": b""}, "lies in a folder that is no class"),
    ("sop", {"Products/Ebay_train.txt": b"1 1 1 a.JPG\n"}, "must begin with the line 'image_id class_id super_class_id path'"),
    ("sop", {"Products/Ebay_train.txt": lambda data: data + b"\n1 1 1"}, r"line 7 of Ebay_train\.txt cannot be read: '1 1 1'"),
    ("sop", {"Products/Ebay_train.txt": lambda data: data + b"\n1 1 1 chair_final/1_1.JPG"}, "lists .chair_final.* again"),
    ("sop", {"Products/Ebay_train.txt": lambda data: data + b"\n1 1 1 chair_final/9_9.JPG"}, "6 photos of 3 classes, not 5 of 3"),
    ("stl10", {"class_names.txt": b"cat\ndog\n"}, "class_names.txt names 2 classes, not 10"),
    ("stl10", {"test_X.bin": None}, "has 0 photos in test_X.bin, not 20"),
    ("stl10", {"train_X.bin": lambda data: data[:-1]}, "train_X.bin does not hold 30 photos of 27,648 bytes"),
    ("stl10", {"train_y.bin": lambda data: b"\0" + data[1:]}, "train_y.bin does not hold 30 classes from 1 to 10"),
    ("imagenet100", {f"train/{CLASSES[0]}/{CLASSES[0]}_0.JPEG": None}, "has 299 training photos .*, not 300"),
    *((kind, {f"{CLASSES[1]}/{CLASSES[1]}_{n}{e}": None for n in (0, 1) for e in (".JPEG", ".png")},
       f"has 0 photos of the class {CLASSES[1]}") for kind in ("imagenet_sketch", "imagenet_stylized", "imagenet_c")),
    *((kind, {"*": None, "x/n01440764/1.JPEG": b""}, "has no photos of ImageNet-100's classes like .*n01558993")
      for kind in OFFICIAL if kind.startswith("imagenet")),
    ("market1501", {"*": None, "photos/a.jpg": b""}, "not in the layout of Market-1501"),
    ("market1501", {"0002_c1s1_21_00.jpg": None}, "7 photos to train, 2 queries and 5 in the gallery, not 8, 2, 5"),
    ("market1501", {"query/who.jpg": b""}, "does not begin with a person and a camera"),
    ("cuhk03", {"*": None, "cuhk03/cuhk-03.mat": b"hdf", "README.png": b""}, r"cuhk-03\.mat itself is read, too, if source"),
    ("cuhk03", {"images_detected/1_001_1_01.png": None}, r"lacks 1 of the photos .* e\.g\. '1_001_1_01\.png'"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "change", "words"), REFUSED)
def test_what_is_no_whole_layout_is_refused(kind: str, change: Change, words: str, tmp_path: Path) -> None:
    files = changed(OFFICIAL[kind].files(), change)
    with pytest.raises(UserError, match=words):
        items(kind, as_tar(tmp_path / "archive", files))


@pytest.mark.parametrize(
    ("kind", "options", "words"),
    [
        ("cub200", {"classes": 200}, "lists 13 photos of 5 classes, not 11788 of 200"),
        ("cub200", {"split": {"train": (0, 3), "val": (2, 4), "test": (4, 5)}}, "split"),
        ("cub200", {"split": {"train": (0, 3)}}, "exactly train, val and test"),
        ("cub200", {"split": {"train": (0, 3), "val": (3, 3), "test": (4, 5)}}, r"\[from, to\) with 0 <= from < to"),
        ("cub200", {"classes": 7}, r"no photo of class 6, and 7 classes were asked for; set datasets\.mine\.options"),
        ("stl10", {"val_per_class": 3}, r"not every class has more than 3 .* lower datasets\.mine\.options.val_per_class"),
        ("stl10", {"photos": "all", "val_per_class": 1}, "val_per_class is for labelled photos"),
        ("stl10", {"source": "."}, "source is a folder"),
        ("market1501", {"val_persons": 3}, r"mine has 4 training persons, too few for 3 .* datasets\.mine\.options\.val_p"),
    ],
)  # fmt: skip
def test_unfit_options_are_refused(kind: str, options: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises((UserError, ValueError), match=words):
        items(kind, as_tar(tmp_path / "archive", OFFICIAL[kind].files()), **options)


def test_birds_are_as_listed_and_keep_their_keys_whatever_classes_are_taken(tmp_path: Path) -> None:
    archive = as_tar(tmp_path / "cub.tgz", miniatures.cub_files())
    found = items("cub200", archive)
    for place, path in enumerate(LISTED_BIRDS):
        assert (found[path].label, found[path].class_name) == (int(path[:3]) - 1, path.split("/")[0][4:])
        # Classes 1-75 belong to the official training split, whatever this study calls them.
        assert (found[path].key_set, found[path].key_item) == ("cub200|train", str(place))
        assert found[path].data == miniatures.jpeg(place + 1)
    some = items("cub200", archive, classes=3, split={"train": (0, 1), "val": (1, 2), "test": (2, 3)})
    assert {i.label: i.split for i in some.values()} == {0: "train", 1: "val", 2: "test"}
    assert all(i.key_item == found[n].key_item for n, i in some.items())


def test_a_key_counts_within_the_official_split(tmp_path: Path) -> None:
    # docs/methods.md, section 1: classes 0-74, 75-99 and 100-199; the last test photo is number 5923 (golden G2c).
    label = {f"{c}/{n}": c for c in range(200) for n in range(30)}
    places = _official.places((p, _official.split_of(n, cub200.OFFICIAL_SPLIT)) for p, n in label.items())
    last = {"74/29": ("train", 75 * 30 - 1), "199/29": ("test", 100 * 30 - 1)}
    first = {"75/0": ("val", 0), "100/0": ("test", 0)}
    assert {n: places[n] for n in (first | last)} == first | last
    found = items("sop", as_zip(tmp_path / "sop.zip", miniatures.sop_files()))
    said = {n: (i.label, i.class_name, i.split, i.key_set, i.key_item) for n, i in found.items()}
    assert said["chair_final/3_5.JPG"] == (2, "chair 3", "val", "sop|val", "1")
    assert said["chair_final/5_9.JPG"] == (4, "chair 5", "test", "sop|test", "3")


def test_segmentations_lie_inside_the_archive_or_come_as_one_of_their_own(tmp_path: Path) -> None:
    photos = as_tar(tmp_path / "cub.tgz", miniatures.cub_files())
    drawn = miniatures.cub_masks()
    inside = {f"CUB_200_2011/{name}": data for name, data in drawn.items()}
    apart = {"photos": photos, "segmentations": as_tar(tmp_path / "masks.tgz", drawn)}
    found = items("cub200", as_tar(tmp_path / "both.tgz", miniatures.cub_files() | inside))
    assert found == items("cub200", apart, segmentations=True)
    assert all((i.truth or b"").endswith(name.encode()) for name, i in found.items())
    as_tar(apart["segmentations"], changed(drawn, {LISTED_BIRDS[3].replace(".jpg", ".png"): None}))
    with pytest.raises(UserError, match=f"lacks the masks of 1 photos, e.g. '{LISTED_BIRDS[3]}'"):
        items("cub200", apart, segmentations=True)


@pytest.mark.shared
def test_the_first_50_classes_of_birds_are_indexed_as_listed(shared_data: Path) -> None:
    archive = shared_data / "cub200_first50.tgz"
    split = {"train": (0, 20), "val": (20, 25), "test": (25, 50)}
    found = items("cub200", archive, source=str(archive), classes=50, split=split)
    assert all((i.label, i.key_set) == (int(n[:3]) - 1, "cub200|train") for n, i in found.items())
    assert {int(i.key_item) for i in found.values()} == set(range(2889))
    # As the reference points were measured on.
    assert (len(found), sum(i.split == "test" for i in found.values())) == (2889, 1487)


@pytest.mark.parametrize(
    ("kind", "options", "names"),
    [
        ("cars196", {}, ["CARS196.zip"]),
        ("cars196", {"files": "car_ims.tgz"}, ["car_ims.tgz", "cars_annos.mat"]),
        ("cars196", {"files": "cars_train.tgz"},
         ["cars_train.tgz", "cars_test.tgz", "car_devkit.tgz", "cars_test_annos_withlabels.mat"]),
        ("cars196", {"source": "/d/cars.zip", "annotations": "/d/cars_annos.mat"}, ["cars.zip", "cars_annos.mat"]),
        ("cub200", {"segmentations": True}, ["CUB_200_2011.tgz", "segmentations.tgz"]),
    ],
)  # fmt: skip
def test_files_are_chosen_by_name(kind: str, options: dict[str, Any], names: list[str]) -> None:
    module = plugins.load("datasets", kind)
    parts = module.parts(module.Params.model_validate(options))
    assert [source.called for source, *_ in parts.values()] == names


def test_photos_of_stl10_are_the_right_way_up_and_without_labels_only_train(tmp_path: Path) -> None:
    # By hand: red grows from left to right, green from top to bottom, one pixel alone is blue.
    photo = np.zeros((96, 96, 3), np.uint8)
    photo[..., 0] = np.arange(96)
    photo[..., 1] = np.arange(96)[:, None]
    photo[3, 90, 2] = 255
    columns = b"".join(photo[:, x, c].tobytes() for c in range(3) for x in range(96))
    first = {"train_X.bin": lambda data: columns + data[len(columns) :]}
    archive = as_tar(tmp_path / "stl.tar.gz", changed(miniatures.stl10_files(), first))
    found = items("stl10", archive, val_per_class=1)
    last = {f"train/{n:05d}.png" for n in range(20, 30)}
    assert {n for n, i in found.items() if i.split == "val"} == last
    assert np.array_equal(pixels.decode(found["train/00000.png"].data, "photo"), photo)
    # Classes as the replica has them, counted from 1.
    assert [found[f"train/{n:05d}.png"].label for n in range(30)] == [n % 10 for n in range(30)]
    assert found["test/00003.png"].class_name == found["train/00013.png"].class_name == "cat"
    bare, every = items("stl10", archive, photos="unlabelled"), items("stl10", archive, photos="all")
    assert len(bare) == 40 == stl10.expected(stl10.Params(photos="unlabelled"))["train"]
    assert set(every) == set(bare) | {f"train/{n:05d}.png" for n in range(30)}
    assert {(i.split, i.label, i.class_name) for i in every.values()} == {("train", 0, "unlabelled")}


@pytest.mark.parametrize("kind", IMAGENET)
def test_a_folder_of_other_photos_and_none_are_refused_with_what_to_do(kind: str, tmp_path: Path) -> None:
    module, options = plugins.load("datasets", kind), OFFICIAL[kind].options
    with pytest.raises(UserError, match="has no photos in folders like"):
        module.parts(module.Params(source=str(tmp_path), **options))
    (nowhere,) = module.parts(module.Params(**options))["photos"]
    assert nowhere.place is None
    assert "option source" in nowhere.hint
