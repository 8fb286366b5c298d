"""Pools of backgrounds come from anywhere, share nothing and are certified; which one stands behind a photo."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from miniatures import as_zip
from PIL import Image
from project import ROOT
from small_study import POOLS, load

from bgbias import plugins, seeds
from bgbias.backgrounds import draws, pools
from bgbias.backgrounds.foregrounds import look
from bgbias.backgrounds.generated import pictures
from bgbias.backgrounds.settings import PROCEDURAL, PoolSource, Proposal
from bgbias.engine.records import read as read_record
from bgbias.errors import UserError
from bgbias.files import checksums
from bgbias.files.store import ImageStore, writing
from bgbias.images import pixels
from bgbias.masks.policy import Mask
from bgbias.nodes import backgrounds, gather, propose
from bgbias.photos import picture_cache
from bgbias.study.params import Study

pytestmark = pytest.mark.usefixtures("small_plugins")


def pool_names(study: Study, role: str) -> list[str]:
    return ImageStore(study.files.at(f"{role}_pool", pool="noise")).ids


def test_pools_are_sorted_and_certified(tmp_path: Path, raw: dict[str, Any]) -> None:
    raw["backgrounds"]["noise"]["train"] |= {"part": [1, 4], "licence": "CC0"}
    study = load(tmp_path, raw)
    backgrounds.backgrounds(study, "noise")
    assert pool_names(study, "train") == ["train1.png", "train2.png", "train3.png"]
    assert pool_names(study, "test") == [f"test{n}.png" for n in range(4)]
    table = pd.read_csv(study.files.at("pool_table", pool="noise"))
    assert table.columns.tolist() == ["pool", "name", "width", "height", "licence", "sha256"]
    assert table["licence"].tolist() == ["CC0"] * 3 + ["unknown"] * 7
    assert table.loc[1, ["width", "height"]].tolist() == [50, 44]
    for row in table.itertuples():
        assert checksums.sha256(tmp_path / str(row.pool) / str(row.name)) == row.sha256


def test_pools_come_from_folders_lists_and_zips_alike(tmp_path: Path, raw: dict[str, Any]) -> None:
    study = load(tmp_path, raw)
    backgrounds.backgrounds(study, "noise")
    first = {r: study.files.at(f"{r}_pool", pool="noise").read_bytes() for r in ("train", "val", "test")}
    shutil.copytree(tmp_path / "test", tmp_path / "test" / ".thumbnails")  # hidden
    (tmp_path / "list.txt").write_text("".join(f"train/train{n}.png\n" for n in (3, 1, 0, 4, 2)))
    photos = {f"val/val{n}.png": (tmp_path / f"val/val{n}.png").read_bytes() for n in (2, 0, 1)}
    as_zip(tmp_path / "val.zip", {"__MACOSX/val/._val0.png": b"junk"} | photos)
    raw["backgrounds"]["noise"]["train"]["source"] = str(tmp_path / "list.txt")
    raw["backgrounds"]["noise"]["val"]["source"] = str(tmp_path / "val.zip")
    study = load(tmp_path, raw)
    backgrounds.backgrounds(study, "noise")
    assert first == {r: study.files.at(f"{r}_pool", pool="noise").read_bytes() for r in first}


def added(folder: Path, name: str, content: bytes | None = None) -> dict[str, Any]:
    """A file among the test's photos, which is a training photo if its content is not said."""
    (folder / "test" / name).write_bytes(content or (folder / "train" / "train0.png").read_bytes())
    return {}


def listed(folder: Path, content: bytes) -> dict[str, Any]:
    (folder / "list.txt").write_bytes(content)
    return {"train": {"source": str(folder / "list.txt")}}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda f: added(f, "z.png"), r"'z\.png' stands in the pools train and test of noise; they must"),
        (lambda f: added(f, "train1.png"), r"'train1\.png' stands in the pools train and test of noise"),
        (lambda f: added(f, "broken.png", b"x"), r"'broken\.png' cannot be decoded"),
        (lambda f: {"test": {"source": str(f / "nowhere.zip")}}, r"nowhere\.zip is missing. Put it there, set BGBIAS_SHARED_"),
        (lambda f: {"test": {"source": str(f / "test"), "part": [10, 20]}}, "gives no pictures for the test pool"),
        (lambda f: listed(f, b"train/nobody.png\n"), r"list\.txt lists .*nobody\.png, which is missing"),
        (lambda f: listed(f, "für.png\n".encode("latin-1")), r"list\.txt is not UTF-8"),
        (lambda f: listed(f, b"val/val0.png\n./val/val0.png\n"), r"Two pictures are called 'val0\.png'"),
    ],
)  # fmt: skip
def test_pools_that_cannot_be_meant_are_refused(
    tmp_path: Path, raw: dict[str, Any], change: Callable[[Path], dict[str, Any]], words: str
) -> None:
    raw["backgrounds"]["noise"] |= change(tmp_path)
    study = load(tmp_path, raw)
    with pytest.raises(UserError, match=words):
        backgrounds.backgrounds(study, "noise")
    with pytest.raises(UserError, match="no backgrounds 'noisy'; there are: noise"):
        backgrounds.depends(study, "noisy")
    assert not study.files.at("backgrounds_record", pool="noise").exists()


# Listed photos.


@pytest.fixture
def listed_raw(tmp_path: Path, raw: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The small study with its three pools in one list: val and train share a group, cut into parts, and lie in a zip, where one
    photo is another one; the test's are published in a folder.
    """
    rows = ["pool,name,url,author,licence,sha256"]
    for group, folders in {"seen": ("train", "val"), "unseen": ("test",)}.items():
        for photo in sorted(p for folder in folders for p in (tmp_path / folder).iterdir()):
            checksum = checksums.sha256(photo)
            rows.append(f"{group},{photo.name},{tmp_path}/served/{photo.name},unknown,CC0,{checksum}")
    (tmp_path / "list.csv").write_text("\n".join(rows))
    seen = {f"photos/{p.name}": p.read_bytes() for f in ("train", "val") for p in (tmp_path / f).iterdir()}
    as_zip(tmp_path / "seen.zip", seen | {"photos/train0.png": seen["photos/val1.png"]})
    monkeypatch.setenv("BGBIAS_SHARED_DATA", str(tmp_path))
    source = {"source": "shared:list.csv", "copies": [str(tmp_path / "seen.zip"), "nowhere.zip"]}
    raw["backgrounds"]["noise"] = {
        "train": {**source, "group": "seen", "part": [0, 5]},
        "val": {**source, "group": "seen", "part": [5, 8]},
        "test": {**source, "group": "unseen"},
    }
    return raw


def serve(folder: Path, *names: str) -> None:
    (folder / "served").mkdir(exist_ok=True)
    for name in names:
        (source,) = folder.glob(f"t[er]*/{name}")
        added = b"another copy" if name == "train0.png" else b""
        (folder / "served" / name).write_bytes(source.read_bytes() + added)


def test_good_copies_are_taken_and_others_fetched_once(tmp_path: Path, listed_raw: dict[str, Any]) -> None:
    """What was fetched before a failure is not fetched again."""
    serve(tmp_path, "train0.png", "test0.png", "test1.png")
    study = load(tmp_path, listed_raw)
    with pytest.raises(UserError, match=r"(?s)2 of 12 listed photos cannot be had.*'test2\.png'.*`copies`"):
        gather.gather(study, "noise")
    assert not study.files.at("gather_record", pool="noise").exists()
    shutil.rmtree(tmp_path / "served")
    serve(tmp_path, "test2.png", "test3.png")
    gather.gather(study, "noise")
    record = read_record(study.files.at("gather_record", pool="noise"))
    assert record["metrics"] == {"photos": 12, "other_copies": 1}
    gathered = ImageStore(study.files.at("gathered", pool="noise"))
    assert gathered.read("train0.png").endswith(b"another copy")
    assert gathered.read("val0.png") == (tmp_path / "val/val0.png").read_bytes()
    backgrounds.backgrounds(study, "noise")
    for role, count in POOLS.items():
        assert pool_names(study, role) == [f"{role}{n}.png" for n in range(count)]


def test_a_list_that_cannot_be_meant_is_refused(tmp_path: Path) -> None:
    header, row = "name,url,licence,sha256\n", "a.png,x,CC0,0\n"
    for text, words in (
        (header.replace("licence,", ""), "no column 'licence'"),
        (header + row + row, r"line 3: 'a\.png' is listed twice"),
        (f"{header}../{row}", r"line 2: '\.\./a\.png' is not the file name"),
        (header, "lists no photo"),
    ):
        (tmp_path / "list.csv").write_text(text)
        with pytest.raises(UserError, match=words):
            pools.read_list(PoolSource(source=f"{tmp_path}/list.csv"))


def test_the_papers_backgrounds_are_two_hundred_in_two_pools_without_a_photo_in_common() -> None:
    path = str(ROOT / "data/backgrounds/sources.csv")
    val, test = (pools.read_list(PoolSource(source=path, group=pool)) for pool in ("val", "test"))
    assert (len(val), len(test)) == (100, 100)
    assert len({p.name for p in val + test}) == len({p.sha256 for p in val + test}) == 200
    assert all(p.url.endswith(p.name) and p.licence for p in val + test)
    with pytest.raises(UserError, match="lists no photo of pool 'tset'; it has: test, val"):
        pools.read_list(PoolSource(source=path, group="tset"))


# Photos without an obvious foreground, of which a person has the last word.

OBJECTS = [f"object{n:02d}.png" for n in range(6)]
SCENES = [f"scene{n:02d}.png" for n in range(6)]


def soft(salient: np.ndarray, confidence: float = 1.0) -> Mask:
    return Mask((salient * 255).astype(np.uint8), confidence)


def test_foreground_is_what_a_hand_counts() -> None:
    salient = np.zeros((10, 10), np.float32)
    salient[2:6, 0:5] = 1.0  # 20 pixels, 4 of the border's 36
    salient[8, 2:7] = 0.3  # 5 possible ones
    found = look(soft(salient))
    assert found.area == pytest.approx(0.20)
    assert found.sharpness == pytest.approx(20 / 25)
    assert found.border == pytest.approx(4 / 36)
    assert found.obvious
    for nothing in (
        soft(np.zeros((10, 10)), 0.0),
        soft(np.ones((10, 10))),  # all of it: a wall
        soft(np.pad(np.ones((5, 5)), 5), 0.4),  # something, but nobody is sure
        soft(np.vstack([np.ones((10, 20)), np.zeros((10, 20))])),  # the upper half: a horizon
        soft(np.hstack([np.ones((1, 1)), np.zeros((1, 399))]).reshape(20, 20)),  # a speck
    ):
        assert not look(nothing).obvious


@pytest.fixture
def proposed(tmp_path: Path, raw: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A folder with red squares on blue and with blue alone, whose foreground is what is red."""
    (tmp_path / "photos").mkdir()
    for names, level in ((OBJECTS, 255), (SCENES, 0)):
        for number, name in enumerate(names):
            picture = np.full((40, 40, 3), (0, 0, 40 * number), np.uint8)
            picture[10:30, 10:30, 0] = level
            (tmp_path / "photos" / name).write_bytes(pixels.encode_png(picture))
    raw["maskers"]["net"] = {"kind": "red"}
    see_red = lambda masker, photos: [Mask(photo[..., 0].copy(), 1.0) for photo in photos]  # noqa: E731
    monkeypatch.setattr(plugins.load("maskers", "red").Red, "__call__", see_red)
    raw["backgrounds"]["noise"] = {
        "propose": {"source": str(tmp_path / "photos"), "masker": "net", "licence": "CC0"}
    }
    return raw


def test_objects_are_rejected_unless_a_person_keeps_them(tmp_path: Path, proposed: dict[str, Any]) -> None:
    (tmp_path / "photos" / "broken.png").write_bytes(b"x")
    proposed["backgrounds"]["noise"]["propose"] |= {"keep": OBJECTS[:1], "drop": SCENES[:1]}
    study = load(tmp_path, proposed)
    propose.propose(study, "noise", "cpu")
    found = pd.read_csv(study.files.at("proposal", pool="noise"), index_col="name")["kept"]
    pooled = [OBJECTS[0], *SCENES[1:]]
    assert found.index[found].tolist() == pooled
    assert found.index[~found].tolist() == [*OBJECTS[1:], SCENES[0]]
    with Image.open(study.files.at("proposal_sheet", pool="noise")) as sheet:
        assert sheet.width > 1000
    backgrounds.backgrounds(study, "noise")
    shared_out = [pool_names(study, role) for role in POOLS]
    assert sorted(n for names in shared_out for n in names) == pooled
    assert [len(names) for names in shared_out] == [2, 1, 3]


def test_proposals_that_cannot_be_meant_are_refused(tmp_path: Path, proposed: dict[str, Any]) -> None:
    usual = proposed["backgrounds"]["noise"]["propose"]
    for change, words in (
        ({"keep": ["nobody.png"]}, r"names 'nobody\.png', which .*photos does not hold"),
        ({"masker": "ground_truth"}, "predicts nothing and cannot look for foregrounds"),
        # Before anything runs.
        ({"masker": "nte"}, r"backgrounds\.noise\.propose\.masker: 'nte' \(did you mean 'net'\?\)"),
        ({"shares": [0.5, 0.1, 0.5]}, "add up to 1"),
        ({"keep": ["a.png"], "drop": ["a.png"]}, r"'a\.png' is both kept and dropped"),
    ):
        proposed["backgrounds"]["noise"]["propose"] = usual | change
        with pytest.raises(UserError, match=words):
            propose.propose(load(tmp_path, proposed), "noise")


def test_three_photos_make_three_pools_and_fewer_none(tmp_path: Path, proposed: dict[str, Any]) -> None:
    proposal = Proposal(source="walls", masker="net", shares=(0.4, 0.1, 0.5))
    for count in (3, 4, 5, 9):
        shared_out = pools.share_out([f"{n}.png" for n in range(count)], proposal)
        assert sorted(n for names in shared_out.values() for n in names) == [f"{n}.png" for n in range(count)]
        assert all(shared_out.values())
    with pytest.raises(UserError, match="too few for three pools"):
        pools.share_out(["1.png", "2.png"], proposal)
    (tmp_path / "photos" / "more").mkdir()
    (tmp_path / "photos" / "more" / SCENES[0]).write_bytes(b"another")
    with pytest.raises(UserError, match=f"two photos called '{SCENES[0]}'"):
        propose.propose(load(tmp_path, proposed), "noise")


# Which of them, and which part of it.

HUNDRED = [(320, 427)] * 100


def test_the_published_draws() -> None:
    """Golden G2c: the photo behind, in a pool of 100."""
    of_cub, of_sop = "cub200|test", "sop|test"
    published = ((of_cub, 0, "0", 74), (of_cub, 4, "5923", 44), (of_sop, 2, "60501", 76))
    for key_set, repeat, item, index in published:
        drawn, u = draws.draw(key_set, repeat, item, HUNDRED), seeds.number(f"{key_set}|bg|{repeat}|{item}")
        assert drawn.index == index == u % 100
        assert (drawn.box, drawn.flip) == pixels.random_box(np.random.default_rng(u), 320, 427)
        assert draws.draw(key_set, repeat, item, HUNDRED[:3]).index == u % 3


def test_every_backbone_sees_the_same_crop(tmp_path: Path) -> None:
    """A short side of 36 rounds a picture's shape otherwise than one of 640; the draw must not notice."""
    y, x = np.mgrid[0:90, 0:137]
    waves = np.stack([np.sin(x / 40 + k) + np.cos(y / 30 - k) for k in range(3)], axis=2)
    with writing(tmp_path / "pool.zip") as store:
        store.add("waves.png", pixels.encode_png(np.rint(127.5 + 63 * waves).astype(np.uint8)))
    sizes = draws.sizes(tmp_path / "pool.zip")
    assert sizes == [(90, 137)]
    small, large = (
        draws.Pool(picture_cache.pictures(tmp_path / "pool.zip", side, tmp_path / "prepared"), sizes)
        for side in (36, 640)
    )
    for item in range(40):
        key = ("own|test", str(item))
        seen = [pool.picture(pool.draw(key, 0), 32).astype(int) for pool in (small, large)]
        assert np.abs(seen[0] - seen[1]).max() <= 6


@pytest.mark.parametrize("kind", PROCEDURAL)
def test_a_larger_pool_begins_with_the_smaller_one_and_roles_share_no_picture(kind: str) -> None:
    large, small = list(pictures(kind, 12, "train", 48)), list(pictures(kind, 5, "train", 48))
    assert [n for n, _ in large] == sorted(n for n, _ in large)
    assert all(p.shape == (48, 48, 3) and p.dtype == np.uint8 for _, p in large)
    for (a, first), (b, second) in zip(small, large, strict=False):
        assert a == b
        assert np.array_equal(first, second)
    roles = ("train", "val", "test")
    every = [p.tobytes() for role in roles for _, p in pictures(kind, 12, role, 48)]
    assert len(set(every)) == 36
