"""One-shot segmentation: whose maps, against what truth, in which episodes, how it stays out of a study, and Table 4."""

import itertools
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import golden
import miniatures
import numpy as np
import pandas as pd
import pytest
import torch
from fitting import model
from in_memory import split, table
from small_study import data_nodes, load, options

from bgbias.attribution import explanation
from bgbias.attribution import similarity as attention
from bgbias.attribution.settings import SimilarityScore
from bgbias.datasets import cub200
from bgbias.engine import graph
from bgbias.engine.forecast import forecast
from bgbias.errors import UserError
from bgbias.masks import grabcut
from bgbias.nodes.segment import segment
from bgbias.report import captions, formats
from bgbias.report.tables import segmentation as table4
from bgbias.segmentation import episodes
from bgbias.segmentation.episodes import CENTRE, SHOTS, TASKS
from bgbias.segmentation.one_shot import attention_maps, segment_photos
from bgbias.segmentation.settings import Segmentation
from bgbias.segmentation.truth import Box, TrueBoxes, TrueMasks, box_iou, in_crop, mean_area
from bgbias.study import plan
from bgbias.study.cell import Cell

pytestmark = pytest.mark.usefixtures("small_plugins")


def stretch(seen: np.ndarray) -> np.ndarray:
    return (seen - seen.min()) / (seen.max() - seen.min())


@pytest.mark.parametrize("score", ["magnitude", "published"])
def test_maps_are_those_of_the_explanation_of_the_same_photos(score: SimilarityScore) -> None:
    """Pairs and triplets, one at a time by the other way to them; of five, the mean."""
    shown = np.random.default_rng(0).integers(0, 256, (1 + 2 * SHOTS, 32, 32, 3), dtype=np.uint8)
    network = model().eval()
    test, positives, negatives = shown[0], shown[1 : 1 + SHOTS], shown[1 + SHOTS :]

    def one(*photos: np.ndarray) -> np.ndarray:
        large = [np.pad(p, ((2, 2), (2, 2), (0, 0))) for p in photos]  # their middle is cropped again
        return explanation.explain(network, large, score=score).maps[0]

    triplets = [one(test, p, n) for p, n in zip(positives, negatives, strict=True)]
    expected = {"one_way_1": one(test, positives[0]), "two_way_1": triplets[0]}
    expected["two_way_5"] = np.mean(triplets, axis=0)
    found = attention_maps(network, shown, Segmentation(score=score))
    assert list(found) == list(TASKS)
    for task, seen in expected.items():
        np.testing.assert_allclose(found[task], stretch(seen), atol=1e-4)
    # A backbone without training is asked by its mean features. These are positive: d(wᵀ|g|)/dA is a channel's weight but for a
    # factor.
    found = attention_maps(network, shown, Segmentation(), pooled=True)
    x = network.preprocess(torch.from_numpy(shown[:2]).permute(0, 3, 1, 2))
    maps = network.features(x).detach().split(1)
    a, b = (torch.nn.functional.normalize(m.mean(dim=(2, 3)), dim=1) for m in maps)
    by_hand = ((1 - (a - b).abs())[0, :, None, None] * maps[0][0]).sum(0)
    large = attention.enlarge(by_hand[None], (32, 32))[0].numpy()
    np.testing.assert_allclose(found["one_way_1"], stretch(large), atol=1e-4)


def test_every_model_is_asked_the_same_episodes_and_judged_by_grabcuts_masks() -> None:
    labels = np.repeat([0, 1], 1 + SHOTS)
    masks = np.zeros((len(labels), 36, 36), np.uint8)
    pictures = np.random.default_rng(0).integers(0, 256, (*masks.shape, 3), dtype=np.uint8)
    for number, (label, mask, picture) in enumerate(zip(labels, masks, pictures, strict=True)):
        mask[8 : 24 + number % 3, 6 : 20 + number % 5] = 255
        picture[mask > 0] = [200, 40 * label, 60]
    photos = split(list(pictures), labels.tolist(), 32, list(masks), filled=list(pictures))
    truth = TrueMasks(photos.masks, photos.table.ids, 32)  # type: ignore[arg-type]
    drawn, settings, area = episodes.draw(photos.table, truth.ids, 3), Segmentation(rounds=2), 0.25
    first, second = (
        segment_photos(model(seed).eval(), False, photos, truth, drawn, area, settings, keep=2)
        for seed in (0, 1)
    )
    frame, shown = first
    assert list(zip(frame["image_id"], frame["task"], strict=True)) == list(
        itertools.product([episode.test for episode in drawn], (*TASKS, CENTRE))
    )
    blind = frame["task"] == CENTRE
    pd.testing.assert_frame_equal(frame[blind], second[0][blind])
    assert not frame.equals(second[0])
    episode = drawn[1]
    assert (shown["ids"][1], shown["supports"][1]) == (episode.test, episode.positives[0])
    seen = np.stack([photos.clean(name) for name in episode.photos])
    heat = attention_maps(model().eval(), seen, settings)["one_way_1"]
    np.testing.assert_allclose(shown["maps"][1], heat, atol=2e-3)
    mask = grabcut.segment(seen[0], heat, area, settings.sure, settings.rounds)
    assert np.array_equal(shown["masks"][1], mask)
    row = frame[(frame["image_id"] == episode.test) & (frame["task"] == "one_way_1")].iloc[0]
    assert row["iou"] == pytest.approx(truth.iou(episode.test, mask))
    assert row["map_iou"] == pytest.approx(truth.iou(episode.test, grabcut.brightest(heat, area)))


@pytest.fixture
def raw(raw: dict[str, Any]) -> dict[str, Any]:
    return options(raw, photos=7) | {"segmentation": {"episodes": 6}}


def test_study_that_does_not_ask_keeps_its_plan(tmp_path: Path, raw: dict[str, Any]) -> None:
    asked = load(tmp_path, raw)
    del raw["segmentation"]
    without = load(tmp_path, raw)
    nodes = graph.in_order(without)
    added = {n.label.split("/")[0] for n in set(graph.in_order(asked)) - set(nodes)}
    assert added == {"segment squares", "table table4", "figure segmentation"}
    for node in (node for node in nodes if node.name in ("train", "embed", "score", "collect")):
        digests = [graph.digest(study, node.name, **node.keywords) for study in (asked, without)]
        assert digests[0] == digests[1]
    data_nodes(asked)
    costs, models = forecast(asked)["segment"], len(plan.cells(asked))
    assert (costs.nodes, costs.images, costs.forward) == (models, models * 6, (models * 6 * 11,) * 2)
    assert "segment" not in forecast(without)
    # It reads neither masks nor backgrounds.
    raw["datasets"]["squares"]["masker"] = "other"
    other = load(tmp_path, raw | {"segmentation": {"episodes": 6}})
    cell = Cell("squares", "pixels", "contrastive", "plain", 0)
    assert graph.digest(asked, "segment", cell=cell) == graph.digest(other, "segment", cell=cell)
    with pytest.raises(UserError, match=r"'small' asks for no segmentation; set grids\.small\.segmentation"):
        segment(without, cell)


def test_dataset_without_truth_is_refused_at_planning(tmp_path: Path, raw: dict[str, Any]) -> None:
    miniatures.as_folder(tmp_path / "mine", {"0/1.png": b"", "1/1.png": b"", "2/1.png": b""})
    raw["datasets"]["squares"] |= {"kind": "folder", "options": {"source": f"{tmp_path}/mine"}}
    words = "squares does not say where its objects are.*`masks` of the kinds folder and table"
    with pytest.raises(UserError, match=words):
        plan.checked_cells(load(tmp_path, raw))
    raw["datasets"]["squares"]["options"]["masks"] = f"{tmp_path}/masks"
    plan.checked_cells(load(tmp_path, raw))


def test_boxes_of_birds_are_read_from_their_archive(tmp_path: Path) -> None:
    def read(**files: bytes) -> dict[str, tuple[float, ...]]:
        named = {f"CUB/{name}.txt": lines for name, lines in files.items()}
        return cub200.boxes(cub200.Params(), {"photos": miniatures.as_zip(tmp_path / "cub.zip", named)})

    images = b"1 001.A/a.jpg\n2 002.B/b.jpg\n"
    found = read(images=images, bounding_boxes=b"1 45.8 20.6 248.3 232.3\n2 1.0 2.0 3.0 4.0\n")
    assert found == {"001.A/a.jpg": (45.8, 20.6, 248.3, 232.3), "002.B/b.jpg": (1, 2, 3, 4)}
    with pytest.raises(UserError, match=r"cub\.zip.* do not fit together"):
        read(images=images, bounding_boxes=b"1 2 3\n")
    with pytest.raises(UserError, match=r"cub\.zip.* has no bounding_boxes\.txt"):
        read(images=images)


def test_folds_are_no_further_seeds_of_table_4(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A class an episode; the same for each task, and a tenth less for the map alone."""
    runs = ("0", "0-fold1", "0-fold2", "0-fold3")
    ious = {("none", "pretrained", "0"): [0.3, 0.3]}
    ious |= {("triplet", "plain", run): [0.2 + number / 10, 0.4] for number, run in enumerate(runs)}
    ious |= {("triplet", "bgaugment", run): [0.5, 0.4] for run in runs}
    rows = [
        {"dataset": "cub50", "backbone": "tiny", "loss": loss, "method": method, "seed": run}
        | {"image_id": f"{number}.jpg", "label": number, "task": task, "iou": iou, "map_iou": iou - 0.1}
        for (loss, method, run), scores in ious.items()
        for task in (*TASKS, CENTRE)
        for number, iou in enumerate(3 * ([0.25, 0.35] if task == CENTRE else scores))
    ]
    means = table4.table(pd.DataFrame(rows))
    monkeypatch.setattr(table4.plan, "datasets", lambda _: ["cub50"])
    monkeypatch.setattr(table4.plan, "truth", lambda *_: "boxes")
    asked = {"train": SimpleNamespace(selection="clean"), "segmentation": SimpleNamespace(score="published")}
    caption = captions.write(table4, SimpleNamespace(**asked), means, {})
    written = formats.write(means, tmp_path, "table4", caption)
    golden.check(Path(__file__).parent / "golden/table4.md", written["md"].read_text(encoding="utf-8"))


# Where objects are, and how well a mask says so.


def test_box_goes_through_resize_and_crop() -> None:
    for box, photo, side, size, expected in (
        # 200 wide, 100 high: at short side 50 it is 100 x 50, and a crop of 40 begins at column 30, row 5.
        ((100, 40, 40, 40), (100, 200), 50, 40, (20, 15, 40, 35)),
        # Cut off on the left, where the crop begins at column 25.
        ((0, 0, 80, 100), (100, 200), 50, 50, (0, 0, 15, 50)),
        # 333 x 500 at short side 256: 384 columns (384.38 rounded down), crop 227 from column 78, row 14.
        ((250, 100, 50, 30), (333, 500), 256, 227, (114, 62.876876876876, 152.4, 85.939939939939)),
    ):
        assert tuple(in_crop(box, photo, side, size)) == pytest.approx(expected)  # type: ignore[arg-type]
        assert in_crop((0, 0, 20, 100), (100, 200), 50, 50).area == 0  # beside the crop


def test_iou_of_masks_is_that_of_counted_pixels_and_crops_without_object_are_not_judged() -> None:
    random = np.random.default_rng(0)
    grey = random.integers(0, 256, (9, 11), dtype=np.uint8)
    mask = random.random((5, 5)) < 0.4
    truth = TrueMasks({"a": grey}, ["a"], 5)  # type: ignore[arg-type]
    # The middle five rows and columns of nine and eleven; 128 and more is object.
    known = grey[2:7, 3:8] >= 128
    assert truth.iou("a", mask) == pytest.approx((mask & known).sum() / (mask | known).sum())
    corner = np.zeros((9, 9), np.uint8)
    corner[0, 0] = 255
    masks = {"corner": corner, "middle": np.full((9, 9), 255, np.uint8), "not_asked_for": grey}
    assert TrueMasks(masks, ["corner", "middle", "unknown"], 5).ids == {"middle"}  # type: ignore[arg-type]


def test_mask_is_judged_by_the_box_of_its_largest_part() -> None:
    assert box_iou(Box(0, 0, 2, 2), Box(1, 1, 3, 3)) == pytest.approx(1 / 7)  # a quarter of each is shared
    assert box_iou(Box(0, 0, 6, 4), Box(1, 2, 3, 3)) == pytest.approx(2 / 24)  # one lies in the other
    truth = TrueBoxes({"a": Box(1, 1, 5, 5)}, 8)
    mask = np.zeros((8, 8), bool)
    mask[1:5, 1:5] = True
    assert truth.iou("a", mask) == 1
    mask[7, 7] = True  # a stray pixel, far away
    assert truth.iou("a", mask) == 1
    assert truth.iou("a", np.zeros((8, 8), bool)) == 0
    assert np.argwhere(truth.locate("a")).tolist() == np.argwhere(mask[:6, :6]).tolist()
    # The size of objects is learned from known ones.
    truth = TrueBoxes({"a": Box(0, 0, 10, 10), "b": Box(5, 5, 15, 25)}, 50)
    # An ellipse in a box takes pi/4 of it: of 100 and of 200 pixels of 2,500.
    expected = math.pi / 4 * (100 + 200) / 2 / 2500
    assert mean_area(truth, ["a", "b", "unknown"]) == pytest.approx(expected)
    with pytest.raises(UserError, match="No validation photo's object is known"):
        mean_area(truth, ["unknown"])


def classes(*sizes: int) -> dict[str, int]:
    return {f"{label}/{n}": label for label, size in enumerate(sizes) for n in range(size)}


def test_every_photo_with_enough_others_is_tested_once_with_supports_of_the_right_class() -> None:
    photos = classes(8, 9, 6, 5, 4)
    drawn = episodes.draw(table(photos), photos, 100)
    for episode in drawn:
        own = photos[episode.test]
        assert {photos[name] for name in episode.positives} == {own}
        (other,) = {photos[name] for name in episode.negatives}
        assert other != own
        assert len(set(episode.photos)) == 1 + 2 * SHOTS == len(episode.photos)
    assert sorted(e.test for e in drawn) == [name for name, label in photos.items() if label <= 2]
    # Five photos support, though none of them can be tested; four do neither.
    assert {photos[name] for episode in drawn for name in episode.negatives} == {0, 1, 2, 3}
    # Episodes depend on names alone. Photos of unknown objects support, and are not tested.
    assert episodes.draw(table(dict(reversed(photos.items()))), list(photos), 100) == drawn
    assert episodes.draw(table(photos), photos, 7) == drawn[:7]
    assert [e.test for e in drawn] != sorted(e.test for e in drawn)
    judged = [name for name, label in photos.items() if label == 1]
    assert episodes.draw(table(photos), judged, 100) == [e for e in drawn if e.test in judged]
    for few in (classes(5, 5), classes(9, 4)):  # nobody is left, or no other class
        with pytest.raises(UserError, match="no episode to draw: it takes a test photo"):
            episodes.draw(table(few), few, 3)
