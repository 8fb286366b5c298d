"""Masks of a dataset: each photo's is made once, whatever happens around it, and what is missing is counted."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest
from small_study import described, load, options, record

from bgbias import plugins
from bgbias.auditing.masker import find
from bgbias.engine import freshness, graph
from bgbias.errors import UserError
from bgbias.files.checksums import fingerprint
from bgbias.files.store import ImageStore
from bgbias.images import pixels
from bgbias.masks import policy as masking
from bgbias.nodes import backgrounds, fetch, index, masks
from bgbias.nodes.masks import photo_key
from bgbias.study import plan
from bgbias.study.album import Album
from bgbias.study.params import Study
from bgbias.study.sources import parts_of

pytestmark = pytest.mark.usefixtures("small_plugins")


@pytest.fixture
def raw(tmp_path: Path) -> dict[str, Any]:
    return described(tmp_path)


@pytest.fixture
def red() -> Iterator[ModuleType]:
    module = plugins.load("maskers", "red")
    module.masked.clear()
    module.interrupt_after.clear()
    yield module
    module.interrupt_after.clear()


def photos(folder: Path, names: list[str]) -> None:
    """Pictures of one grey level each, which no two names share."""
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        level = np.frombuffer(photo_key(name.encode()).encode(), np.uint8)
        path.write_bytes(pixels.encode_png(np.tile(level[None, :, None], (9, 1, 3))))


FIRST = [f"class{c}/{n}.png" for c in range(6) for n in range(3)]


def folder_study(tmp_path: Path, raw: dict[str, Any], **changed: Any) -> Study:
    """A study of photos in a folder, with a masker that counts."""
    own = {"kind": "folder", "masker": "red", "options": {"source": str(tmp_path / "mine")}}
    raw["datasets"]["mine"] = raw["datasets"]["squares"] | own
    raw["maskers"]["red"] = {"kind": "red", "options": changed}
    fingerprint.cache_clear()
    return load(tmp_path, raw)


def make(study: Study, dataset: str = "mine") -> dict[str, Any]:
    """Fetch, index and mask; what the masks' record says."""
    for part in parts_of(study, dataset):
        study.files.at("part", dataset=dataset, part=part).unlink(missing_ok=True)
        fetch.fetch(study, dataset, part)
    index.index(study, dataset)
    # As Snakemake does before a job.
    for name in ("masks", "mask_table", "masks_record"):
        study.files.at(name, dataset=dataset, masker="red").unlink(missing_ok=True)
    masks.masks(study, dataset, "red", "cpu")
    return record(study, "masks_record", dataset=dataset, masker="red")


def made(study: Study, dataset: str = "mine") -> list[bytes]:
    return [study.files.at(n, dataset=dataset, masker="red").read_bytes() for n in ("masks", "mask_table")]


def test_added_photos_alone_are_masked_and_the_result_is_as_from_scratch(
    tmp_path: Path, raw: dict[str, Any], red: ModuleType
) -> None:
    photos(tmp_path / "mine", FIRST)
    study = folder_study(tmp_path, raw)
    assert make(study)["metrics"] | {"reused": 0, "computed": 18} == make(study)["metrics"] | {
        "reused": 0, "computed": 18,
    }  # fmt: skip
    assert red.masked == [18]
    photos(tmp_path / "mine", ["class2/new.png", "class9/new.png"])
    found = make(folder_study(tmp_path, raw))["metrics"]
    assert (found["reused"], found["computed"], red.masked) == (18, 2, [18, 2])
    table = masking.read_mask_table(study.files.at("mask_table", dataset="mine", masker="red"))
    store = ImageStore(study.files.at("masks", dataset="mine", masker="red"))
    pictures = ImageStore(study.files.at("photos", dataset="mine"))
    assert table["image_id"].tolist() == store.ids
    assert set(store.ids) == {*FIRST, "class2/new.png", "class9/new.png"}
    for image_id, key, area in zip(table["image_id"], table["sha256"], table["area"], strict=True):
        assert key == photo_key(pictures.read(image_id))
        np.testing.assert_array_equal(store.array(image_id, "L"), pictures.array(image_id)[..., 0])
        assert area == pytest.approx(pictures.array(image_id)[..., 0].mean() / 255)
    after = made(study)
    shutil.rmtree(Path(study.paths.work) / "mask_cache")
    make(study)
    assert red.masked == [18, 2, 20]
    assert made(study) == after


def test_masks_that_came_without_their_cache_are_kept_before_they_are_replaced(
    tmp_path: Path, raw: dict[str, Any], red: ModuleType
) -> None:
    photos(tmp_path / "mine", FIRST)
    raw["grids"]["small"]["cells"][0]["datasets"] = ["mine"]
    study = folder_study(tmp_path, raw)
    make(study)
    shutil.rmtree(Path(study.paths.work) / "mask_cache")  # `dvc pull` brings declared outputs only
    photos(tmp_path / "mine", ["class2/new.png"])
    study = folder_study(tmp_path, raw)
    assert "out of date: fetch mine" in freshness.out_of_date(freshness.settle(study))
    assert make(study)["metrics"]["reused"] == 18
    assert red.masked == [18, 1]


def test_renamed_moved_and_removed_photos_cost_nothing(
    tmp_path: Path, raw: dict[str, Any], red: ModuleType
) -> None:
    photos(tmp_path / "mine", FIRST)
    make(folder_study(tmp_path, raw))
    folder = tmp_path / "mine"
    (folder / "class1/0.png").rename(folder / "class2/renamed.png")
    shutil.copy(folder / "class0/0.png", folder / "class0/twin.png")
    (folder / "class5/2.png").unlink()
    found = make(folder_study(tmp_path, raw))["metrics"]
    assert (found["photos"], found["computed"], red.masked) == (18, 0, [18])


def test_datasets_of_one_masker_share_masks(tmp_path: Path, raw: dict[str, Any], red: ModuleType) -> None:
    photos(tmp_path / "mine", FIRST)
    study = folder_study(tmp_path, raw)
    make(study)
    raw["datasets"]["again"] = raw["datasets"]["mine"]
    study = folder_study(tmp_path, raw)
    assert make(study, "again")["metrics"]["computed"] == 0
    assert red.masked == [18]


def test_batch_size_changes_nothing_and_other_options_and_weights_everything(
    tmp_path: Path, raw: dict[str, Any], red: ModuleType
) -> None:
    photos(tmp_path / "mine", FIRST)
    weights = tmp_path / "weights.bin"
    weights.write_bytes(b"first")
    study = folder_study(tmp_path, raw, weights=str(weights))
    make(study)
    before = graph.digest(study, "masks", dataset="mine", masker="red")
    study = folder_study(tmp_path, raw, weights=str(weights), batch_size=64)
    assert graph.digest(study, "masks", dataset="mine", masker="red") == before
    assert make(study)["metrics"]["computed"] == 0
    weights.write_bytes(b"other weights under the same name")
    assert make(study)["metrics"]["computed"] == 18
    study = folder_study(tmp_path, raw, weights=str(weights), inverted=True)
    assert graph.digest(study, "masks", dataset="mine", masker="red") != before
    assert make(study)["metrics"]["computed"] == 18
    # What a masker made before it was changed is deleted.
    (kept,) = (Path(study.paths.work) / "mask_cache/red").iterdir()
    assert len(list(kept.rglob("*.png"))) == 18


def test_a_study_and_an_audit_name_the_masks_of_one_masker_alike(
    tmp_path: Path, raw: dict[str, Any], red: ModuleType
) -> None:
    weights = tmp_path / "weights.bin"
    weights.write_bytes(b"first")
    study = folder_study(tmp_path, raw, weights=str(weights), inverted=True)
    studied = masks.find_predictor(study, "red", "cpu")
    assert studied.key == find("red", weights, "cpu", {"inverted": True}).key
    assert studied.key != find("red", weights, "cpu").key


def test_interrupted_masks_go_on_where_they_stopped(
    tmp_path: Path, raw: dict[str, Any], red: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(masks, "AT_ONCE", 5)
    photos(tmp_path / "mine", FIRST)
    red.interrupt_after.append(2)
    with pytest.raises(KeyboardInterrupt):
        make(folder_study(tmp_path, raw))
    red.interrupt_after.clear()
    red.masked.clear()
    photos(
        tmp_path / "mine", ["class0/late.png"]
    )  # what was done counts, although the dataset is another one
    study = folder_study(tmp_path, raw)
    found = make(study)["metrics"]
    assert (found["reused"], found["computed"], red.masked) == (10, 9, [5, 4])


def test_masks_that_come_one_by_one_survive_an_interruption_in_the_middle_of_a_chunk(
    tmp_path: Path,
    raw: dict[str, Any],
    red: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    photos(tmp_path / "mine", FIRST)
    whole = red.Red.__call__

    def one_by_one(masker: Any, some: Any) -> Iterator[masking.Mask]:
        for n, photo in enumerate(some):
            if n == 7:
                raise KeyboardInterrupt
            yield from whole(masker, [photo])

    monkeypatch.setattr(red.Red, "one_by_one", one_by_one, raising=False)
    with pytest.raises(KeyboardInterrupt):
        make(folder_study(tmp_path, raw))
    assert "masks mine: 18 photos to mask; what is done stays done" in capsys.readouterr().err
    monkeypatch.delattr(red.Red, "one_by_one")
    found = make(folder_study(tmp_path, raw))["metrics"]
    assert (found["reused"], found["computed"]) == (7, 11)


def test_photos_that_no_split_uses_are_not_masked(
    tmp_path: Path, raw: dict[str, Any], red: ModuleType
) -> None:
    photos(tmp_path / "mine", FIRST)
    splits = ["train", "train", "val", "test", "test", "unused"]
    rows = pd.DataFrame({"image": n, "label": n[:6], "split": splits[int(n[5])]} for n in FIRST)
    rows.to_csv(tmp_path / "mine.csv", index=False)
    own = {
        "kind": "table",
        "masker": "red",
        "options": {"source": f"{tmp_path}/mine.csv", "root": f"{tmp_path}/mine"},
    }
    raw["datasets"]["mine"] = raw["datasets"]["squares"] | own
    raw["maskers"]["red"] = {"kind": "red"}
    found = make(load(tmp_path, raw))["metrics"]
    assert (found["photos"], found["computed"], found["without_mask"], red.masked) == (15, 15, 0, [15])


def test_a_damaged_mask_is_made_again_when_the_step_is_repeated(
    tmp_path: Path, raw: dict[str, Any], red: ModuleType
) -> None:
    photos(tmp_path / "mine", FIRST)
    study = folder_study(tmp_path, raw)
    make(study)
    expected = made(study)
    first = next((Path(study.paths.work) / "mask_cache").rglob("*.png"))
    first.write_bytes(b"half a picture")
    with pytest.raises(UserError, match=r"damaged.* run the same command again"):
        make(study)
    assert make(study)["metrics"]["computed"] == 1
    assert made(study) == expected


def test_photo_without_mask_and_empty_mask_are_counted(tmp_path: Path, raw: dict[str, Any]) -> None:
    study = load(tmp_path, options(raw, without_mask=["12/0.png", "12/1.png"], empty_mask=["13/2.png"]))
    index.index(study, "squares")
    masks.masks(study, "squares")
    certified = record(study, "masks_record", dataset="squares", masker="ground_truth")
    found = certified["metrics"]
    assert (found["photos"], found["without_mask"], found["empty"], found["full"]) == (80, 2, 1, 0)
    assert (found["outside_policy"], found["mean_iou"], found["mean_off_object"]) == (1, 1, 0)
    assert certified["notes"]["without_mask"] == ["12/0.png", "12/1.png"]
    table = pd.read_csv(study.files.at("mask_table", dataset="squares", masker="ground_truth"))
    assert len(table) == 78
    assert table.loc[table["image_id"] == "13/2.png", "area"].item() == 0


def test_masks_that_leave_no_query_are_an_error_before_anything_is_trained(
    tmp_path: Path, raw: dict[str, Any]
) -> None:
    every = [f"{c:02d}/{n}.png" for c in range(16) for n in range(5)]
    study = load(tmp_path, options(raw, empty_mask=every) | {"mask_policy": {"keep_all": True}})
    index.index(study, "squares")
    with pytest.raises(
        UserError, match=r"of 20 photos of 4 classes \(0 of one photo\) 20 have an empty mask, 0 a full one"
    ):
        masks.masks(study, "squares")
    test = [i for i in every if i >= "12"]
    study = load(
        tmp_path, options(raw, lonely=[12], empty_mask=test[6:], without_mask=["12/0.png", "13/0.png"])
    )
    index.index(study, "squares")
    with pytest.raises(
        UserError, match=r"of 16 photos of 4 classes \(1 of one photo\) 14 have .* and 2 none"
    ) as told:
        masks.masks(study, "squares")
    assert "`mask_policy`" in str(told.value)


def test_iou_of_two_empty_masks_is_no_iou_and_counted(tmp_path: Path, raw: dict[str, Any]) -> None:
    study = load(tmp_path, options(raw, empty_mask=["13/2.png", "00/1.png"]))
    index.index(study, "squares")
    masks.masks(study, "squares")
    where = {"dataset": "squares", "masker": "ground_truth"}
    assert record(study, "masks_record", **where)["metrics"]["iou_of_two_empty"] == 2
    table = pd.read_csv(study.files.at("mask_table", **where)).set_index("image_id")
    assert table.index[table["iou"].isna()].tolist() == ["00/1.png", "13/2.png"]


def test_true_masks_are_not_kept_by_photo(tmp_path: Path, raw: dict[str, Any]) -> None:
    # They belong to the dataset: equal photos may well have different true masks.
    study = load(tmp_path, raw)
    index.index(study, "squares")
    masks.masks(study, "squares")
    assert not (Path(study.paths.work) / "mask_cache").exists()


def test_dataset_without_true_masks_names_the_key(tmp_path: Path, raw: dict[str, Any]) -> None:
    photos(tmp_path / "mine", FIRST)
    study = folder_study(tmp_path, raw)
    fetch.fetch(study, "mine", "photos")
    index.index(study, "mine")
    said = r"'ground_truth' has no mask for any photo of mine; name another one at datasets\.mine\.masker"
    with pytest.raises(UserError, match=said):
        masks.masks(study, "mine", "ground_truth")


def test_masker_that_is_not_there_is_refused(tmp_path: Path, raw: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="no masker 'u2ned'; there are: ground_truth, other"):
        masks.masks(load(tmp_path, raw), "squares", "u2ned")


def test_thresholded_masks_are_black_and_white_where_they_are_used(
    tmp_path: Path, raw: dict[str, Any], red: ModuleType
) -> None:
    raw["maskers"]["red"] = {"kind": "red"}
    raw["datasets"]["squares"] |= {"masker": "red"}
    raw["mask_policy"] = {"keep_all": True}
    study = load(tmp_path, raw)
    make(study, "squares")
    backgrounds.backgrounds(study, "noise")
    kept = made(study, "squares")

    def used(study: Study) -> np.ndarray:
        # At the photos' own short side, so that nothing is resampled.
        album = Album(study, "squares", 40, 40)
        shown = album.evaluation(album.table("test"), {"masks"}, "test")
        return np.asarray(shown.mask(shown.table.ids[0]))

    soft = used(study)
    raw["mask_policy"] |= {"kind": "threshold", "threshold": 100}
    study = load(tmp_path, raw)
    hard = used(study)
    assert len(np.unique(soft)) > 2
    white = soft >= (100 if soft.dtype == np.uint8 else 100 / 255)
    np.testing.assert_array_equal(hard, np.where(white, hard.max(), 0))
    # Made masks are soft, whatever their use.
    assert make(study, "squares")["metrics"]["computed"] == 0
    assert made(study, "squares") == kept


def test_only_a_threshold_in_use_is_part_of_a_plan(tmp_path: Path, raw: dict[str, Any]) -> None:
    def embedded(**policy: Any) -> Any:
        study = load(tmp_path, raw | {"mask_policy": policy})
        cell = next(c for c in plan.cells(study) if c.method == "bgaugment")
        return graph.spec(study, "embed", cell=cell)["mask_policy"]

    # As it was before masks could be thresholded: finished studies stay finished.
    assert embedded() == {"min_area": 0.01, "max_area": 0.95, "keep_all": False}
    assert embedded(kind="threshold")["threshold"] == 128
    with pytest.raises(UserError, match="soft masks have no threshold"):
        embedded(threshold=99)
