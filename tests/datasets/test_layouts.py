"""Market-1501, CUHK03 and Cars196: every layout in circulation holds the same photos; persons are asked by their protocols."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import miniatures
import numpy as np
import pytest
from miniatures import CUHK, as_folder, as_tar, as_zip, box, cuhk_files, cuhk_list, cuhk_name, deliver

from bgbias.datasets import cars196, cuhk03
from bgbias.errors import UserError
from bgbias.files.fetch import fetch
from bgbias.images import pixels
from bgbias.photos.table import Item


def cuhk(archive: Path, protocol_list: Path | None = None, **options: Any) -> dict[str, Item]:
    parts = {"photos": archive} | ({"protocol": protocol_list} if protocol_list else {})
    return deliver("cuhk03", parts, val_persons=2, **options)


@pytest.fixture
def release(tmp_path: Path) -> Path:
    return miniatures.cuhk_release(tmp_path / "cuhk-03.mat")


def test_market_says_who_is_asked_among_whom(tmp_path: Path) -> None:
    archive = as_zip(tmp_path / "market.zip", miniatures.market_files())
    found = deliver("market1501", archive, val_persons=2)
    assert {i.class_name for i in found.values() if i.split == "val"} == {"0010", "0011"}
    test = [i for i in found.values() if i.split == "test"]
    assert {i.image_id for i in test if i.query} == {"query/0001_c1s1_1_00.jpg", "query/0003_c1s1_3_00.jpg"}
    assert [i for i in test if i.query and i.gallery] == []
    distractor = found["bounding_box_test/0000_c3s1_5_01.jpg"]
    assert (distractor.query, distractor.gallery, distractor.camera) == (False, True, "3")
    assert all(i.query and i.gallery for i in found.values() if i.split != "test")
    assert not any("-1_" in name for name in found)  # junk
    # Whole persons in squares, unless the photos shall stay as they are.
    name, tall = "query/0001_c1s1_1_00.jpg", deliver("market1501", archive, val_persons=2, square=False)
    assert pixels.decode(found[name].data, name).shape == (8, 8, 3)
    assert pixels.decode(tall[name].data, name).shape == (8, 4, 3)


def test_new_protocol_by_its_configuration(tmp_path: Path) -> None:
    # As a folder, through `fetch`, which has to pack the lists, too.
    params = cuhk03.Params(source=str(as_folder(tmp_path / "folder", cuhk_files())))
    fetch(cuhk03.parts(params)["photos"], tmp_path / "photos.zip", "cuhk", part="photos")
    found = cuhk(tmp_path / "photos.zip")
    splits = {"train": {"0001", "0002"}, "val": {"0003", "0844"}, "test": {"0004", "0845"}}
    assert {s: {i.class_name for i in found.values() if i.split == s} for s in splits} == splits
    by_name = {name.rpartition("/")[2]: i for name, i in found.items()}
    asked = [(by_name[cuhk_name(p)].query, by_name[cuhk_name(p)].gallery) for p in CUHK[6:]]
    assert asked == [(True, False), (False, True), (True, False), (False, True), (False, True)]
    assert [by_name[cuhk_name(p)].camera for p in CUHK] == [str(p[2]) for p in CUHK]


def test_new_protocol_in_folders_like_markets(tmp_path: Path) -> None:
    folders = ["bounding_box_train"] * 6 + ["query", "bounding_box_test"] * 2 + ["bounding_box_test"]
    files = {
        f"cuhk03-np/labeled/{folder}/{person:04d}_c{view}_{number}.png": box(number)
        for folder, person, (_, _, view, number) in zip(folders, miniatures.CUHK_PERSONS, CUHK, strict=True)
    }
    archive = as_zip(tmp_path / "np.zip", files)
    test = [i for i in cuhk(archive, boxes="labeled").values() if i.split == "test"]
    assert Counter((i.query, i.gallery) for i in test) == {(True, False): 2, (False, True): 3}
    with pytest.raises(UserError, match=r"no splits_classic_labeled\.json.*torchreid"):
        cuhk(archive, boxes="labeled", protocol="classic")


@pytest.mark.parametrize("options", [{"protocol": "classic"}, {"protocol": "classic", "split": 1}, {}])
def test_the_release_holds_what_toolboxes_make(
    tmp_path: Path, release: Path, options: dict[str, Any]
) -> None:
    listed = tmp_path / "list.mat"
    listed.write_bytes(cuhk_list())
    own = cuhk(release, None if options else listed, square=False, **options)
    # A list is in its own order, a folder in its names'.
    assert sorted(own) == list(own)
    assert own == cuhk(as_folder(tmp_path / "cuhk", cuhk_files()), square=False, **options)
    if options:
        test = {i.class_name for i in own.values() if i.split == "test"}
        assert test == [{"1_001", "1_004"}, {"1_002", "2_002"}][options.get("split", 0)]
        assert all(i.query and i.gallery for i in own.values())
        assert len(own) == len(CUHK)


def test_the_release_brings_its_list_from_beside_it_or_its_authors(tmp_path: Path, release: Path) -> None:
    name = "cuhk03_new_protocol_config_labeled.mat"
    (by_network,) = cuhk03.parts(cuhk03.Params(boxes="labeled"))["protocol"]
    assert str(by_network.place).endswith(f"/evaluation/data/CUHK03/{name}")
    for source, place in (
        ("https://host/d/cuhk-03.mat?dl=1", f"https://host/d/{name}"),
        ("shared:CUHK-03.MAT", f"shared:{name}"),
    ):
        beside, published = cuhk03.parts(cuhk03.Params(source=source, boxes="labeled"))["protocol"]
        assert (beside.place, published) == (place, by_network)
    assert list(cuhk03.parts(cuhk03.Params(source=str(release), protocol="classic"))) == ["photos"]
    with pytest.raises(UserError, match=r"list is not beside .*/photos: rename that file to cuhk-03\.mat"):
        cuhk(release.rename(tmp_path / "photos"), source=str(tmp_path / "photos"))


def test_a_release_or_a_list_that_is_damaged_or_another_is_refused(tmp_path: Path, release: Path) -> None:
    listed = tmp_path / "list.mat"
    for content in (b"no list", cuhk_list()[:-10]):
        listed.write_bytes(content)
        with pytest.raises(UserError, match=r"list\.mat: the new protocol's list cannot be read"):
            cuhk(release, listed)
    with h5py.File(release, "r+") as file:
        photo = file[file[file["labeled"][0, 0]][0, 0]]
        file[file["labeled"][0, 0]][0, 0] = file["#refs#"].create_dataset("odd", data=photo[()] / 2).ref
    with pytest.raises(UserError, match=r"images_labeled/1_001_1_01\.png cannot be read \(float64 of"):
        cuhk(release, protocol="classic", boxes="labeled")
    release.write_bytes(release.read_bytes()[:-1000])
    with pytest.raises(UserError, match=r"is not the cuhk-03\.mat .* or not all of it .*get it again"):
        cuhk(release, listed)
    with h5py.File(release, "w") as other:
        other["photos"] = np.zeros(3)
    with pytest.raises(UserError, match=r"is not the cuhk-03\.mat that its authors give"):
        cuhk(release, protocol="classic")


def test_a_classic_split_of_other_photos_and_persons_is_refused(tmp_path: Path) -> None:
    odd = as_zip(tmp_path / "odd.zip", cuhk_files() | {"cuhk03/logo.png": box(0)})
    with pytest.raises(UserError, match=r"'cuhk03/logo\.png' is not named pair_person_view_number\.png"):
        cuhk(odd, protocol="classic")
    files, name = cuhk_files(), "cuhk03/splits_classic_detected.json"
    splits = json.loads(files[name])
    splits[1]["query"].append(["1_001_1_01.png", 0, 0])
    more = as_zip(tmp_path / "more.zip", files | {name: json.dumps(splits).encode()})
    with pytest.raises(UserError, match="a split tests 3 persons, not 2"):
        cuhk(more, protocol="classic", split=1)


# Cars196, which is the same in every layout by class and content.


def layouts(folder: Path) -> Iterator[dict[str, Path]]:
    """Two files; the official four; one zip with folders doubled and a browser's number in a name; class folders."""
    files, split = miniatures.cars_joint(), miniatures.cars_split()
    annotations, labels = folder / "annos.mat", folder / "labels.mat"
    annotations.write_bytes(files.pop("cars_annos.mat"))
    yield {"photos": as_tar(folder / "car_ims.tgz", files), "annotations": annotations}
    labels.write_bytes(*split["labels"].values())
    official = {"train": "cars_train", "test": "cars_test", "devkit": "devkit"}
    yield {p: as_tar(folder / p, split[n]) for p, n in official.items()} | {"test_labels": labels}
    photos = split["cars_train"] | split["cars_test"]
    doubled = {f"{name.split('/')[0]}/{name}": data for name, data in photos.items()} | split["devkit"]
    named = {"cars_test_annos_withlabels (1).mat": labels.read_bytes()}
    yield {"photos": as_zip(folder / "one.zip", doubled | named)}
    yield {"photos": as_zip(folder / "classes.zip", miniatures.cars_by_class())}


def test_cars_are_the_same_in_every_layout(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cars = deliver("cars196", as_tar(tmp_path / "cars.tgz", miniatures.cars_joint()))
    for layout in layouts(tmp_path):
        assert deliver("cars196", layout) == cars
    assert capsys.readouterr().err.count("mine: layout ") == 5
    truth = {miniatures.jpeg(n): c for c, _, n in miniatures.CARS}
    assert all(truth[i.data] == i.label for i in cars.values())
    assert all(cars196.NAMES[i.label] == i.class_name for i in cars.values())
    ranges = {"train": range(74), "val": range(74, 98), "test": range(98, 196)}
    for split, labels in ranges.items():
        keys = {name: int(i.key_item) for name, i in cars.items() if i.split == split}
        assert [keys[name] for name in sorted(keys)] == list(range(len(keys)))
        assert {cars[name].label for name in keys} == set(labels)
    item = next(i for i in cars.values() if i.class_name == "Ram C/V Cargo Van Minivan 2012")
    start = hashlib.sha256(item.data).hexdigest()[:16]
    assert item.image_id == f"{item.label + 1:03d}.Ram C-V Cargo Van Minivan 2012/{start}.jpg"
    # Byte-equal ones of a class are told apart.
    digests = {("photos", name): "0" * 64 for name in "abc"}
    assert len(set(cars196._ids(dict.fromkeys(digests, 0), digests).values())) == 3


def test_annotations_of_ones_own_are_known_by_the_name_of_the_file_that_was_given(tmp_path: Path) -> None:
    made = miniatures.cars_split()
    split = made["cars_train"] | made["cars_test"] | made["devkit"]
    parts = {"photos": as_zip(tmp_path / "cars.zip", split), "annotations": tmp_path / "fetched annotations"}
    parts["annotations"].write_bytes(*made["labels"].values())
    own = {"source": "cars.zip", "annotations": "/data/cars_test_annos_withlabels (1).mat"}
    assert len(deliver("cars196", parts, **own)) == 588
    with pytest.raises(UserError, match=r"cars_test_annos_withlabels\.mat is missing \(md5 b0a2b23655a3"):
        deliver("cars196", parts["photos"])
