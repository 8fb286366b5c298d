"""One-shot segmentation: whose maps, against what, and how it comes into and stays out of a study."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import miniatures
import numpy as np
import pandas as pd
import pytest
import torch
from caption_studies import selected
from scipy import stats
from small_study import data_nodes, described, load, options, record, run

from bgbias import plugins, seeds
from bgbias.attribution import explanation
from bgbias.attribution import similarity as attention
from bgbias.attribution.sanity import centre
from bgbias.attribution.settings import SimilarityScore
from bgbias.datasets import cub200
from bgbias.engine import graph, records
from bgbias.engine.forecast import forecast
from bgbias.engine.node import step
from bgbias.errors import UserError
from bgbias.files.archives import members
from bgbias.images import pixels
from bgbias.masks.grabcut import brightest
from bgbias.models.model import EmbeddingModel, build_model
from bgbias.nodes import table as report
from bgbias.nodes.segment import segment
from bgbias.report import captions, formats
from bgbias.report.tables import segmentation as table4
from bgbias.segmentation.episodes import SHOTS, TASKS
from bgbias.segmentation.one_shot import attention_maps
from bgbias.segmentation.settings import Segmentation
from bgbias.segmentation.truth import Box, TrueBoxes, mean_area
from bgbias.study import plan
from bgbias.study.cell import Cell

pytestmark = pytest.mark.usefixtures("small_plugins")
CELL = Cell("squares", "pixels", "contrastive", "plain", 0)
PRETRAINED = Cell("squares", "pixels", "none", "pretrained", 0)


def model() -> EmbeddingModel:
    backbone = plugins.load("backbones", "pixels").Params()
    return build_model("pixels", backbone, 4, seeds.torch_generator("model")).eval()


def views() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (1 + 2 * SHOTS, 32, 32, 3), dtype=np.uint8)


@pytest.mark.parametrize("score", ["magnitude", "published"])
def test_maps_are_those_of_the_explanation_of_the_same_photos(score: SimilarityScore) -> None:
    """Pairs and triplets, one at a time by the other way to them; of five, the mean."""
    shown, network = views(), model()
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
        stretched = (seen - seen.min()) / (seen.max() - seen.min())
        np.testing.assert_allclose(found[task], stretched, atol=1e-4)


def test_a_backbone_without_training_is_asked_by_its_mean_features() -> None:
    shown, network = views(), model()
    found = attention_maps(network, shown, Segmentation(), pooled=True)["one_way_1"]
    x = network.preprocess(torch.from_numpy(shown[:2]).permute(0, 3, 1, 2))
    maps = network.features(x).detach().split(1)
    # By hand: all its features are positive, so that d(wᵀ|g|)/dA of a channel is its weight, up to a factor.
    a, b = (torch.nn.functional.normalize(m.mean(dim=(2, 3)), dim=1) for m in maps)
    by_hand = ((1 - (a - b).abs())[0, :, None, None] * maps[0][0]).sum(0)
    large = attention.enlarge(by_hand[None], (32, 32))[0].numpy()
    np.testing.assert_allclose(found, (large - large.min()) / (large.max() - large.min()), atol=1e-4)


def test_centre_prior_is_brightest_in_the_middle_and_even_all_around() -> None:
    seen = centre(100)
    disc = np.argwhere(brightest(seen, math.pi * 0.3**2)) - 49.5
    assert np.hypot(*disc.T).max() == pytest.approx(30, abs=0.8)
    for turned in (seen.T, seen[::-1]):
        np.testing.assert_allclose(seen, turned, atol=1e-12)
    assert seen.min() == pytest.approx(0, abs=1e-12)


def test_size_of_objects_is_learned_from_known_ones() -> None:
    boxes = {"a": Box(0, 0, 10, 10), "b": Box(5, 5, 15, 25)}
    # An ellipse in a box takes pi/4 of it: of 100 and of 200 pixels of 2,500.
    expected = math.pi / 4 * (100 + 200) / 2 / 2500
    assert mean_area(TrueBoxes(boxes, 50), ["a", "b", "unknown"]) == pytest.approx(expected)
    with pytest.raises(UserError, match="No validation photo's object is known"):
        mean_area(TrueBoxes(boxes, 50), ["unknown"])


@pytest.fixture
def raw(tmp_path: Path) -> dict[str, Any]:
    made = options(described(tmp_path), photos=7)
    made["segmentation"] = {"episodes": 6}
    made["grids"]["small"]["cells"][0] |= {"losses": ["contrastive"], "pretrained": True}
    return made


def test_every_model_is_asked_the_same_episodes_and_the_table_compares_them(
    tmp_path: Path, raw: dict[str, Any]
) -> None:
    study = load(tmp_path, raw)
    data_nodes(study)
    for cell in plan.cells(study):
        if plan.trains(study, cell):
            run(study, cell, "train")
        segment(study, cell, "cpu")
    costs = forecast(study)["segment"]
    assert (costs.nodes, costs.images, costs.forward) == (4, 4 * 6, (4 * 6 * 11,) * 2)
    found = {c: pd.read_csv(study.files.at("segmentation", **c.wildcards)) for c in plan.cells(study)}
    for frame in found.values():
        assert frame["label"].tolist() == [int(image_id.split("/")[0]) for image_id in frame["image_id"]]
        assert frame.groupby("task").size().to_dict() == dict.fromkeys(("centre", *TASKS), 6)
        assert frame["iou"].between(0, 1).all()
        pd.testing.assert_frame_equal(
            frame[frame["task"] == "centre"], found[CELL][found[CELL]["task"] == "centre"]
        )
    metrics = record(study, "segment_record", **CELL.wildcards)["metrics"]
    assert 0.1 < metrics["object_area"] < 0.5  # squares of 20 in 40
    mine = found[CELL][found[CELL]["task"] == "two_way_5"]
    assert metrics["iou_two_way_5"] == pytest.approx(mine["iou"].mean())
    # The same values are found again, and belong to the settings that made them.
    products = [study.files.at(n, **PRETRAINED.wildcards) for n in ("segmentation", "segments")]
    before = [path.read_bytes() for path in products]
    segment(study, PRETRAINED, "cpu")
    assert [path.read_bytes() for path in products] == before
    assert records.read_current(study, step("segment", cell=PRETRAINED))
    changed = raw | {"segmentation": raw["segmentation"] | {"rounds": 2}}
    assert not records.read_current(load(tmp_path, changed), step("segment", cell=PRETRAINED))
    report.table(study, "table4")
    table = pd.read_csv(study.files.at("table_csv", table="table4"))
    assert table["method"].tolist() == ["centre", "pretrained", "untrained", "plain", "bgaugment"]
    assert table["two_way_5"][3] == pytest.approx(100 * mine["iou"].mean())
    text = study.files.at("table_md", table="table4").read_text(encoding="utf-8")
    assert "squares · pixels · 1 seed · 6 episodes" in text
    assert "| Centre prior | " in text
    assert "squares by masks" in text


def test_study_that_does_not_ask_keeps_its_plan(tmp_path: Path, raw: dict[str, Any]) -> None:
    asked = load(tmp_path, raw)
    del raw["segmentation"]
    without = load(tmp_path, raw)
    nodes = graph.in_order(without)
    assert set(nodes) < set(graph.in_order(asked))
    added = {n.label.split("/")[0] for n in set(graph.in_order(asked)) - set(nodes)}
    assert added == {"segment squares", "table table4", "figure segmentation"}
    for node in nodes:
        assert graph.digest(asked, node.name, **node.keywords) == graph.digest(
            without, node.name, **node.keywords
        )
    with pytest.raises(UserError, match=r"'small' asks for no segmentation; set grids\.small\.segmentation"):
        segment(without, CELL)


def test_segmentation_reads_neither_masks_nor_backgrounds(tmp_path: Path, raw: dict[str, Any]) -> None:
    before = graph.digest(load(tmp_path, raw), "segment", cell=CELL)
    raw["datasets"]["squares"]["masker"] = "other"
    assert graph.digest(load(tmp_path, raw), "segment", cell=CELL) == before
    raw["segmentation"]["score"] = "published"
    assert graph.digest(load(tmp_path, raw), "segment", cell=CELL) != before


def test_dataset_without_truth_is_refused_at_planning(tmp_path: Path, raw: dict[str, Any]) -> None:
    miniatures.as_folder(tmp_path / "mine", {"0/1.png": b"", "1/1.png": b"", "2/1.png": b""})
    mine = {"kind": "folder", "options": {"source": f"{tmp_path}/mine"}}
    raw["datasets"]["squares"] |= mine
    words = "squares does not say where its objects are.*`masks` of the kinds folder and table"
    with pytest.raises(UserError, match=words):
        plan.checked_cells(load(tmp_path, raw))
    raw["datasets"]["squares"]["options"]["masks"] = f"{tmp_path}/masks"
    plan.checked_cells(load(tmp_path, raw))


BIRDS = {
    "CUB/images.txt": b"1 001.A/a.jpg\n2 002.B/b.jpg\n",
    "CUB/bounding_boxes.txt": b"1 45.8 20.6 248.3 232.3\n2 1.0 2.0 3.0 4.0\n",
}


def test_boxes_of_birds_are_read_from_their_archive(tmp_path: Path) -> None:
    archive = miniatures.as_zip(tmp_path / "cub.zip", BIRDS)
    found = cub200.boxes(cub200.Params(), {"photos": archive})
    assert found == {"001.A/a.jpg": (45.8, 20.6, 248.3, 232.3), "002.B/b.jpg": (1, 2, 3, 4)}
    assert cub200.truth(cub200.Params()) == "boxes"
    assert cub200.truth(cub200.Params(segmentations=True)) == "masks"


@pytest.mark.parametrize(
    "changed", [{"CUB/bounding_boxes.txt": b"3 1 2 3 4\n"}, {"CUB/bounding_boxes.txt": b"1 2 3\n"}, None]
)
def test_boxes_that_are_missing_or_do_not_fit_are_an_error(
    tmp_path: Path, changed: dict[str, bytes] | None
) -> None:
    files = BIRDS | changed if changed else {"CUB/images.txt": BIRDS["CUB/images.txt"]}
    archive = miniatures.as_zip(tmp_path / "cub.zip", files)
    wrong = "do not fit together" if changed else "has no bounding_boxes.txt"
    with pytest.raises(UserError, match=rf"cub\.zip.* {wrong}"):
        cub200.boxes(cub200.Params(), {"photos": archive})


@pytest.mark.shared
def test_boxes_lie_in_their_photos(shared_data: Path) -> None:
    archive = shared_data / "cub200_first50.tgz"
    boxes = cub200.boxes(cub200.Params(), {"photos": archive})
    photos = itertools.islice(members(archive, lambda name: name.endswith(".jpg")), 200)
    for name, data in photos:
        left, top, width, height = boxes[name.split("/images/")[1]]
        rows, columns = pixels.size(data, name)
        assert left >= 0
        assert top >= 0
        assert left + width <= columns + 1
        assert top + height <= rows + 1
        assert width * height > 0.01 * rows * columns


def values(ious: dict[tuple[str, int | str], list[float]], centre: list[float]) -> pd.DataFrame:
    """What cells' files hold: the same values for each task, a tenth less for the map alone; a class an episode."""
    rows = []
    for (method, seed), scores in ious.items():
        for task in (*TASKS, "centre"):
            for number, iou in enumerate(centre if task == "centre" else scores):
                rows.append(
                    {
                        **dict(zip(("dataset", "backbone"), ("cub50", "tiny"), strict=True)),
                        **{"loss": "none" if method == "pretrained" else "triplet", "method": method},
                        **{"seed": seed, "image_id": f"{number}.jpg", "label": number, "task": task},
                        **{"iou": iou, "map_iou": iou - 0.1},
                    }
                )
    return pd.DataFrame(rows)


def test_table_4_by_hand() -> None:
    ious = {
        ("bgaugment", 0): [0.4, 0.6] * 3,
        ("plain", 0): [0.2, 0.4] * 3,
        ("plain", 1): [0.4, 0.6] * 3,
        ("pretrained", 0): [0.3] * 6,
    }
    table = table4.table(values(ious, centre=[0.25, 0.35] * 3))
    assert table["method"].tolist() == ["centre", "pretrained", "plain", "bgaugment"]
    centre, _, plain, cured = (row for _, row in table.iterrows())
    for task in TASKS:
        expected = {task: 40.0, f"{task}_map": 30.0, f"{task}_sd_seeds": 20 / math.sqrt(2)}
        assert plain[list(expected)].to_dict() == pytest.approx(expected)
        # Three times .3 and .5, each of a class of its own.
        reach = stats.t(5).ppf(0.975) * 10 / math.sqrt(5)
        assert plain[[f"{task}_low", f"{task}_high"]].tolist() == pytest.approx([40 - reach, 40 + reach])
        # Episode by episode .2 more than plain with the same seed: an interval without width.
        assert cured[[f"{task}_gain{e}" for e in ("", "_low", "_high")]].tolist() == pytest.approx([20] * 3)
        assert plain[f"{task}_over_centre"] == pytest.approx(10)
        assert centre[task] == pytest.approx(30)
        assert math.isnan(centre[f"{task}_over_centre"])
        assert math.isnan(plain[f"{task}_gain"])
        # Without noise it is better than plain beyond doubt; one method is corrected for no other.
        assert cured[f"{task}_gain_p_holm"] == cured[f"{task}_gain_p"] < 0.001
    assert (plain["seeds"], plain["episodes"], plain["classes"]) == (2, 6, 6)


@pytest.fixture
def of_boxes(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A study of CUB50, in which boxes are the truth."""
    monkeypatch.setattr(table4.plan, "datasets", lambda _: ["cub50"])
    monkeypatch.setattr(table4.plan, "truth", lambda *_: "boxes")
    return selected(segmentation=SimpleNamespace(score="published"))


def test_folds_are_no_further_seeds(of_boxes: Any) -> None:
    runs = ("0", "0-fold1", "0-fold2", "0-fold3")
    ious = {("plain", run): [0.2 + shift, 0.4] for shift, run in zip((0, 0.1, 0.2, 0.3), runs, strict=True)}
    table = table4.table(values(ious | {("pretrained", "0"): [0.3, 0.3]}, centre=[0.25, 0.35]))
    assert table[["method", "seeds", "folds"]].to_numpy().tolist() == [
        ["centre", 1, 1],
        ["pretrained", 1, 1],
        ["plain", 1, 4],
    ]
    assert table["two_way_1"][2] == pytest.approx(100 * (0.35 + 0.4) / 2)
    caption = captions.write(table4, of_boxes, table, {})
    assert " 1 training seed; " in caption
    assert "4 folds: as many models, each validated on other classes" in caption


def test_models_of_several_folds_become_one_row(tmp_path: Path, raw: dict[str, Any]) -> None:
    """Though one file's seed is a number and another's a word."""
    options(raw, photos=7, train_classes=8, val_classes=2, test_classes=3)
    raw["grids"]["small"]["cells"][0] |= {"methods": ["plain"], "folds": [0, 2], "pretrained": False}
    study = load(tmp_path, raw)
    data_nodes(study)
    for cell in plan.cells(study):
        run(study, cell, "train")
        segment(study, cell, "cpu")
    report.table(study, "table4")
    text = study.files.at("table_md", table="table4").read_text(encoding="utf-8")
    assert "squares · pixels · 1 seed · 2 folds · 6 episodes" in text


def test_other_episodes_are_refused() -> None:
    frame = values({("plain", 0): [0.2, 0.4], ("plain", 1): [0.2, 0.4]}, centre=[0.3, 0.3])
    gone = (frame["seed"] == 1) & (frame["image_id"] == "1.jpg") & (frame["task"] == "two_way_1")
    with pytest.raises(
        UserError, match=r"triplet/plain lacks values a query for two_way_1.*snakemake .*--cores all"
    ):
        table4.table(frame[~gone])


def test_table_4_in_words(tmp_path: Path, of_boxes: Any) -> None:
    table = table4.table(
        values({("plain", 0): [0.2, 0.4] * 3, ("bgaugment", 0): [0.4, 0.5] * 3}, centre=[0.3, 0.4] * 3)
    )
    caption = captions.write(table4, of_boxes, table, {})
    written = formats.write(table, tmp_path, "table4", caption)
    text = written["md"].read_text(encoding="utf-8")
    assert "CUB50 by boxes" in text
    assert "| Triplet | 30.0 [18.5, 41.5] | 20.0 | – | −5.0 [" in text
    assert "Table 4" in written["html"].read_text(encoding="utf-8")
    assert max(map(len, formats.show(table, "table4").splitlines())) <= 110
    again = pd.read_csv(written["csv"], keep_default_na=False, na_values=[""])
    assert formats.show(again, "table4") == formats.show(table, "table4")
