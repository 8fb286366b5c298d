"""One-shot segmentation: whose maps, against what, how it comes into and stays out of a study, and Table 4."""

from __future__ import annotations

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
from in_memory import split
from scipy import stats
from small_study import data_nodes, described, load, options

from bgbias import seeds
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
from bgbias.segmentation.truth import TrueMasks
from bgbias.study import plan
from bgbias.study.cell import Cell

pytestmark = pytest.mark.usefixtures("small_plugins")
CELL = Cell("squares", "pixels", "contrastive", "plain", 0)


def views() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (1 + 2 * SHOTS, 32, 32, 3), dtype=np.uint8)


def stretch(seen: np.ndarray) -> np.ndarray:
    return (seen - seen.min()) / (seen.max() - seen.min())


@pytest.mark.parametrize("score", ["magnitude", "published"])
def test_maps_are_those_of_the_explanation_of_the_same_photos(score: SimilarityScore) -> None:
    """Pairs and triplets, one at a time by the other way to them; of five, the mean."""
    shown, network = views(), model().eval()
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


def test_a_backbone_without_training_is_asked_by_its_mean_features() -> None:
    shown, network = views(), model().eval()
    found = attention_maps(network, shown, Segmentation(), pooled=True)["one_way_1"]
    x = network.preprocess(torch.from_numpy(shown[:2]).permute(0, 3, 1, 2))
    maps = network.features(x).detach().split(1)
    # By hand: all its features are positive, so that d(wᵀ|g|)/dA of a channel is its weight, up to a factor.
    a, b = (torch.nn.functional.normalize(m.mean(dim=(2, 3)), dim=1) for m in maps)
    by_hand = ((1 - (a - b).abs())[0, :, None, None] * maps[0][0]).sum(0)
    large = attention.enlarge(by_hand[None], (32, 32))[0].numpy()
    np.testing.assert_allclose(found, stretch(large), atol=1e-4)


def test_every_model_is_asked_the_same_episodes_and_judged_by_grabcuts_masks() -> None:
    labels = np.repeat([0, 1], 1 + SHOTS)
    masks = [np.zeros((36, 36), np.uint8) for _ in labels]
    for number, mask in enumerate(masks):
        mask[8 : 24 + number % 3, 6 : 20 + number % 5] = 255
    walls = [seeds.generator("wall", n).integers(0, 256, (36, 36, 3), dtype=np.uint8) for n in range(12)]
    pictures = [
        np.where(mask[..., None] > 0, np.uint8([200, 40 * label, 60]), wall)
        for label, mask, wall in zip(labels, masks, walls, strict=True)
    ]
    photos = split(pictures, labels.tolist(), 32, masks, filled=pictures)
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
    assert len(shown["ids"]) == 2


@pytest.fixture
def raw(tmp_path: Path) -> dict[str, Any]:
    return options(described(tmp_path), photos=7) | {"segmentation": {"episodes": 6}}


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
    published = load(tmp_path, raw | {"segmentation": {"episodes": 6, "score": "published"}})
    digests = [graph.digest(study, "segment", cell=CELL) for study in (asked, other, published)]
    assert digests[0] == digests[1] != digests[2]
    with pytest.raises(UserError, match=r"'small' asks for no segmentation; set grids\.small\.segmentation"):
        segment(without, CELL)


def test_dataset_without_truth_is_refused_at_planning(tmp_path: Path, raw: dict[str, Any]) -> None:
    miniatures.as_folder(tmp_path / "mine", {"0/1.png": b"", "1/1.png": b"", "2/1.png": b""})
    raw["datasets"]["squares"] |= {"kind": "folder", "options": {"source": f"{tmp_path}/mine"}}
    words = "squares does not say where its objects are.*`masks` of the kinds folder and table"
    with pytest.raises(UserError, match=words):
        plan.checked_cells(load(tmp_path, raw))
    raw["datasets"]["squares"]["options"]["masks"] = f"{tmp_path}/masks"
    plan.checked_cells(load(tmp_path, raw))


@pytest.mark.parametrize(
    ("lines", "wrong"),
    [
        (b"1 45.8 20.6 248.3 232.3\n2 1.0 2.0 3.0 4.0\n", None),
        (b"1 2 3\n", "do not fit together"),
        (b"", "has no bounding_boxes.txt"),
    ],
)
def test_boxes_of_birds_are_read_from_their_archive(tmp_path: Path, lines: bytes, wrong: str | None) -> None:
    named = {"CUB/images.txt": b"1 001.A/a.jpg\n2 002.B/b.jpg\n"}
    boxes = {"CUB/bounding_boxes.txt": lines} if lines else {}
    archive = miniatures.as_zip(tmp_path / "cub.zip", named | boxes)
    if wrong:
        with pytest.raises(UserError, match=rf"cub\.zip.* {wrong}"):
            cub200.boxes(cub200.Params(), {"photos": archive})
    else:
        found = cub200.boxes(cub200.Params(), {"photos": archive})
        assert found == {"001.A/a.jpg": (45.8, 20.6, 248.3, 232.3), "002.B/b.jpg": (1, 2, 3, 4)}


def values(ious: dict[tuple[str, int | str], list[float]], centre: list[float]) -> pd.DataFrame:
    """What cells' files hold: the same values for each task, a tenth less for the map alone; a class an episode."""
    rows = [
        {"dataset": "cub50", "backbone": "tiny", "loss": "none" if method == "pretrained" else "triplet"}
        | {"method": method, "seed": seed, "image_id": f"{number}.jpg", "label": number, "task": task}
        | {"iou": iou, "map_iou": iou - 0.1}
        for (method, seed), scores in ious.items()
        for task in (*TASKS, CENTRE)
        for number, iou in enumerate(centre if task == CENTRE else scores)
    ]
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


def test_folds_are_no_further_seeds_and_the_table_is_read_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = ("0", "0-fold1", "0-fold2", "0-fold3")
    ious = {
        ("plain", run): [0.2 + shift, 0.4] * 3 for shift, run in zip((0, 0.1, 0.2, 0.3), runs, strict=True)
    }
    cured = {("bgaugment", run): [0.5, 0.4] * 3 for run in runs}
    bare: dict[tuple[str, int | str], list[float]] = {("pretrained", "0"): [0.3] * 6}
    table = table4.table(values(bare | ious | cured, centre=[0.25, 0.35] * 3))
    monkeypatch.setattr(table4.plan, "datasets", lambda _: ["cub50"])
    monkeypatch.setattr(table4.plan, "truth", lambda *_: "boxes")
    caption = captions.write(
        table4,
        SimpleNamespace(
            train=SimpleNamespace(selection="clean"), segmentation=SimpleNamespace(score="published")
        ),
        table,
        {},
    )
    written = formats.write(table, tmp_path, "table4", caption)
    golden.check(Path(__file__).parent / "golden/table4.md", written["md"].read_text(encoding="utf-8"))
