"""Masks of a dataset: each photo's is made once, whatever happens around it, and what is missing is counted."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest
from small_study import load, options, record

from bgbias import plugins
from bgbias.auditing.masker import find
from bgbias.engine import freshness, graph
from bgbias.errors import UserError
from bgbias.files.checksums import fingerprint
from bgbias.files.store import ImageStore
from bgbias.images import pixels
from bgbias.masks import policy as masking
from bgbias.nodes import fetch, index, masks
from bgbias.nodes.masks import photo_key
from bgbias.study.album import Album
from bgbias.study.params import Study

pytestmark = pytest.mark.usefixtures("small_plugins")
FIRST = [f"class{c}/{n}.png" for c in range(6) for n in range(3)]
TRUE = {"dataset": "squares", "masker": "ground_truth"}
MINE = {"dataset": "mine", "masker": "red"}


@pytest.fixture
def red() -> Iterator[ModuleType]:
    module = plugins.load("maskers", "red")
    module.masked.clear()
    module.interrupt_after.clear()
    yield module
    module.interrupt_after.clear()


class Mine:
    """A study of photos in a folder, with a masker that counts."""

    def __init__(self, folder: Path, raw: dict[str, Any]) -> None:
        self.folder, self.raw = folder, raw
        own = {"kind": "folder", "masker": "red", "options": {"source": str(folder / "mine")}}
        raw["datasets"]["mine"] = raw["datasets"]["squares"] | own
        raw["grids"]["small"]["cells"][0]["datasets"] = ["mine"]
        self.add(*FIRST)
        self.load()

    def add(self, *names: str) -> None:
        """Pictures of one grey level each, which no two names share."""
        for name in names:
            path = self.folder / "mine" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            level = np.frombuffer(photo_key(name.encode()).encode(), np.uint8)
            path.write_bytes(pixels.encode_png(np.tile(level[None, :, None], (9, 1, 3))))

    def load(self, **changed: Any) -> Study:
        self.raw["maskers"]["red"] = {"kind": "red", "options": changed}
        fingerprint.cache_clear()
        self.study = load(self.folder, self.raw)
        return self.study

    def make(self, **changed: Any) -> dict[str, Any]:
        """Fetch, index and mask; the numbers of the masks' record."""
        study = self.load(**changed)
        study.files.at("part", dataset="mine", part="photos").unlink(missing_ok=True)
        fetch.fetch(study, "mine", "photos")
        index.index(study, "mine")
        # As Snakemake does before a job.
        for name in ("masks", "mask_table", "masks_record"):
            study.files.at(name, **MINE).unlink(missing_ok=True)
        masks.masks(study, "mine", "red", "cpu")
        return dict(record(study, "masks_record", **MINE)["metrics"])

    @property
    def digest(self) -> str:
        return graph.digest(self.study, "masks", **MINE)

    @property
    def cache(self) -> Path:
        return Path(self.study.paths.work) / "mask_cache"


@pytest.fixture
def mine(tmp_path: Path, raw: dict[str, Any], red: ModuleType) -> Mine:
    return Mine(tmp_path, raw)


def test_added_photos_alone_are_masked_and_the_result_is_as_from_scratch(mine: Mine, red: ModuleType) -> None:
    first, again = mine.make(), mine.make()
    assert first == again | {"reused": 0, "computed": 18}
    shutil.rmtree(mine.cache)  # `dvc pull` brings declared outputs only
    added = ["class2/new.png", "class9/new.png"]
    mine.add(*added)
    (mine.folder / "mine/class1/0.png").rename(mine.folder / "mine/class2/renamed.png")
    assert "out of date: fetch mine" in freshness.out_of_date(freshness.settle(mine.load()))
    found = mine.make()
    assert (found["reused"], found["computed"], red.masked) == (18, 2, [18, 2])
    table = masking.read_mask_table(mine.study.files.at("mask_table", **MINE))
    store = ImageStore(mine.study.files.at("masks", **MINE))
    pictures = ImageStore(mine.study.files.at("photos", dataset="mine"))
    assert table["image_id"].tolist() == store.ids
    assert set(store.ids) == {*FIRST, *added, "class2/renamed.png"} - {"class1/0.png"}
    for image_id, key, area in zip(table["image_id"], table["sha256"], table["area"], strict=True):
        assert key == photo_key(pictures.read(image_id))
        np.testing.assert_array_equal(store.array(image_id, "L"), pictures.array(image_id)[..., 0])
        assert area == pytest.approx(pictures.array(image_id)[..., 0].mean() / 255)
    files = [mine.study.files.at(name, **MINE) for name in ("masks", "mask_table")]
    after = [path.read_bytes() for path in files]
    shutil.rmtree(mine.cache)
    mine.make()
    assert red.masked == [18, 2, 20]
    assert [path.read_bytes() for path in files] == after


def test_batch_size_changes_nothing_and_other_options_and_weights_everything(mine: Mine) -> None:
    weights = mine.folder / "weights.bin"
    weights.write_bytes(b"first")
    mine.make(weights=str(weights))
    before = mine.digest
    assert mine.make(weights=str(weights), batch_size=64)["computed"] == 0
    assert mine.digest == before
    weights.write_bytes(b"other weights under the same name")
    assert mine.make(weights=str(weights))["computed"] == 18
    assert mine.make(weights=str(weights), inverted=True)["computed"] == 18
    assert mine.digest != before
    # What a masker made before it was changed is deleted.
    (kept,) = (mine.cache / "red").iterdir()
    assert len(list(kept.rglob("*.png"))) == 18
    # A study and an audit name the masks of one masker alike.
    studied = masks.find_predictor(mine.study, "red", "cpu")
    assert studied.key == find("red", weights, "cpu", {"inverted": True}).key
    assert studied.key != find("red", weights, "cpu").key


def test_interrupted_masks_go_on(mine: Mine, red: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masks, "AT_ONCE", 5)
    red.interrupt_after.append(2)
    with pytest.raises(KeyboardInterrupt):
        mine.make()
    red.interrupt_after.clear()
    red.masked.clear()
    mine.add("class0/late.png")  # what was done counts, although the dataset is another one
    found = mine.make()
    assert (found["reused"], found["computed"], red.masked) == (10, 9, [5, 4])


def mask_squares(folder: Path, raw: dict[str, Any], **changed: Any) -> Study:
    study = load(folder, options(raw, **changed))
    index.index(study, "squares")
    masks.masks(study, "squares")
    return study


def test_missing_and_empty_masks_are_counted_or_leave_no_query(tmp_path: Path, raw: dict[str, Any]) -> None:
    missing, empty = ["12/0.png", "12/1.png"], ["13/2.png", "00/1.png"]
    study = mask_squares(tmp_path, raw, without_mask=missing, empty_mask=empty)
    certified = record(study, "masks_record", **TRUE)
    found = certified["metrics"]
    assert (found["photos"], found["without_mask"], found["empty"], found["full"]) == (80, 2, 2, 0)
    assert (found["outside_policy"], found["mean_iou"], found["mean_off_object"]) == (2, 1, 0)
    assert found["iou_of_two_empty"] == 2  # which is no IoU
    assert certified["notes"]["without_mask"] == missing
    table = pd.read_csv(study.files.at("mask_table", **TRUE)).set_index("image_id")
    assert table.index[table["iou"].isna()].tolist() == sorted(empty)
    # A name that reads as a missing value is a name.
    file = study.files.at("mask_table", **TRUE)
    file.write_text(file.read_text().replace("00/0.png", "NA"))
    assert "NA" in masking.read_mask_table(file)["image_id"].tolist()
    # True masks belong to the dataset, and are not kept by photo: equal photos may well have different ones.
    assert not (Path(study.paths.work) / "mask_cache").exists()
    empty = [f"{c:02d}/{n}.png" for c in range(12, 16) for n in range(5)][6:]
    words = r"(?s)of 16 photos of 4 classes \(1 of one photo\) 14 have .* and 2 none.*`mask_policy`"
    with pytest.raises(UserError, match=words):
        mask_squares(tmp_path, raw, lonely=[12], empty_mask=empty, without_mask=["12/0.png", "13/0.png"])


def test_maskers_that_cannot_be_meant_name_the_key(mine: Mine) -> None:
    with pytest.raises(UserError, match="no masker 'u2ned'; there are: ground_truth, other, red"):
        masks.masks(mine.study, "squares", "u2ned")
    fetch.fetch(mine.study, "mine", "photos")
    index.index(mine.study, "mine")
    words = r"'ground_truth' has no mask for any photo of mine; name another one at datasets\.mine\.masker"
    with pytest.raises(UserError, match=words):
        masks.masks(mine.study, "mine", "ground_truth")


def test_thresholded_masks_are_black_and_white(tmp_path: Path, raw: dict[str, Any], red: ModuleType) -> None:
    raw["maskers"]["red"] = {"kind": "red"}
    raw["datasets"]["squares"] |= {"masker": "red"}
    study = load(tmp_path, raw)
    index.index(study, "squares")
    masks.masks(study, "squares", "red", "cpu")

    def use(**policy: Any) -> tuple[np.ndarray, str]:
        # At the photos' own short side, so that nothing is resampled.
        study = load(tmp_path, raw | {"mask_policy": policy | {"keep_all": True}})
        album = Album(study, "squares", 40, 40)
        shown = album.evaluation(album.table("test"), {"masks"}, "test")
        digest = graph.digest(study, "masks", dataset="squares", masker="red")
        return np.asarray(shown.mask(shown.table.ids[0])), digest

    (soft, before), (hard, after) = use(), use(kind="threshold", threshold=100)
    assert len(np.unique(soft)) > 2
    np.testing.assert_array_equal(hard, np.where(soft >= 100, 255, 0))
    assert after == before  # made masks are soft, whatever their use
    with pytest.raises(UserError, match="soft masks have no threshold"):
        load(tmp_path, raw | {"mask_policy": {"threshold": 99}})


def test_every_masker_says_whether_it_predicts_and_a_network_that_it_lacks_weights() -> None:
    modules = {name: plugins.load("maskers", name) for name in plugins.names("maskers")}
    networks = {name for name, of in modules.items() if "weights" in of.Params.model_fields} - {"red"}
    assert {name for name, module in modules.items() if not module.PREDICTS} == {"ground_truth", "files"}
    assert networks == {"u2net", "u2netp", "isnet", "birefnet", "birefnet_lite", "onnx"}
    for name, module in modules.items():
        assert {*module.SPEED, *module.FILES} <= set(module.Params.model_fields)
        if name in networks:
            with pytest.raises(UserError, match=rf"'{name}' has no weights.*params\.yaml"):
                module.build(module.Params(), "cpu")
