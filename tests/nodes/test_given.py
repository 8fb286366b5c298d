"""A study of photos that say who is asked among whom, from its table of photos to mAP, with controls and cures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import average_precision_score
from small_study import described, load, run

from bgbias.auditing import photos
from bgbias.errors import UserError
from bgbias.evaluation import embeddings as files
from bgbias.images import pixels
from bgbias.nodes import backgrounds, collect, fetch, index, masks, remask
from bgbias.nodes import table as table_node
from bgbias.report import formats, tables
from bgbias.study import plan
from bgbias.study.cell import Cell

pytestmark = pytest.mark.usefixtures("small_plugins")
SPLITS = {"train": 4, "val": 3, "test": 6}
CAMERAS = ("left", "right", "right", "left")
CELL = Cell("persons", "pixels", "contrastive", "plain", 0)
CONDITIONS = ("clean", "random_background", "own_inpainted", "mixed_same", "mixed_rand", "only_bg")


def persons(folder: Path) -> dict[str, Any]:
    """A study of persons whose first photo is asked for, each seen by two cameras."""
    photos, random, lines = folder / "photos", np.random.default_rng(0), []
    photos.mkdir()
    mask = np.zeros((40, 40), np.uint8)
    mask[10:30, 12:28] = 255
    (photos / "mask.png").write_bytes(pixels.encode_png(mask))
    for split, person in [(split, person) for split, count in SPLITS.items() for person in range(count)]:
        colour = random.integers(0, 256, 3)
        for number, camera in enumerate(CAMERAS):
            photo = random.integers(0, 256, (40, 40, 3), dtype=np.uint8)
            photo[mask > 0] = colour
            name, asked = f"{split}{person}_{number}.png", split != "test" or number == 0
            (photos / name).write_bytes(pixels.encode_png(photo))
            lines.append([name, f"{split}{person}", split, "mask.png", asked, True, camera])
    columns = ["image", "label", "split", "mask", "query", "gallery", "camera"]
    pd.DataFrame(lines, columns=columns).to_csv(photos / "persons.csv", index=False)
    raw = described(folder)
    options = {"source": f"{photos}/persons.csv", "masks": True, "given": True}
    raw["datasets"]["persons"] = raw["datasets"]["squares"] | {"kind": "table", "options": options}
    block = {"datasets": ["persons"], "losses": ["contrastive"], "methods": ["plain"], "pretrained": True}
    raw["grids"]["small"]["cells"][0] |= block
    raw["evaluation"] = {"draws": 2, "conditions": list(CONDITIONS)}
    raw["crossing"] = {"objects": 4, "backgrounds": 3}
    raw["cures"] = {"names": ["leace"], "objects": 6, "backgrounds": 3}
    return raw


def test_map_is_that_of_its_embeddings_query_by_query(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = load(tmp_path, persons(tmp_path))
    for part in ("table", "photos"):
        fetch.fetch(study, "persons", part)
    index.index(study, "persons")
    masks.masks(study, "persons")
    backgrounds.backgrounds(study, "noise")
    remask.remask(study, "persons", "pixels")
    for cell in plan.cells(study):
        trained = cell.method == "plain"
        run(study, cell, *(["train", "attribute"] if trained else []), "embed", "score", "cross", "cure")
    collect.collect(study)
    found = files.read(study.files.at("embeddings", **CELL.wildcards))
    vectors, labels = found.views["clean", 0].astype(np.float64), found.labels
    camera = np.array([CAMERAS[int(i.partition("_")[2][0])] for i in found.ids])
    naive = []
    for row in np.flatnonzero([i.endswith("_0.png") for i in found.ids]):
        kept = (labels != labels[row]) | (camera != camera[row])
        naive.append(average_precision_score(labels[kept] == labels[row], vectors[kept] @ vectors[row]))
    table_node.table(study, "table11")
    table = formats.read(study.files.at("table_csv", table="table11")).set_index("method")
    assert table.loc["plain", "queries"] == SPLITS["test"] == len(naive)
    assert table.loc["plain", "map"] == pytest.approx(100 * np.mean(naive))
    assert set(table.index) == {"plain", "pretrained", "untrained"}

    # Its controls and cures ask the same queries.
    for name in tables.list_enabled(study):
        table_node.table(study, name)
        table = formats.read(study.files.at("table_csv", table=name))
        if "queries" in table:
            assert set(table["queries"]) == {SPLITS["test"]}
    monkeypatch.setattr(photos, "PARAMS", tmp_path / "params.yaml")
    asked = photos.list_dataset("persons").table.given
    assert asked is not None
    assert asked.query.sum() == SPLITS["test"]
    crossed = pd.read_parquet(study.files.at("crossed_queries", **CELL.wildcards))
    assert crossed["image_id"].str.endswith("_0.png").all()


def test_what_knows_no_cameras_is_refused(tmp_path: Path) -> None:
    raw = persons(tmp_path)
    with pytest.raises(UserError, match=r"by the same camera\. Set grids\.small\.probes\.folds to null"):
        plan.checked_cells(load(tmp_path, raw | {"probes": {"folds": 3}}))
    raw["grids"]["small"]["cells"][0]["datasets"] = ["persons", "squares"]
    with pytest.raises(UserError, match="persons say who is asked among whom, and the others do not"):
        plan.checked_cells(load(tmp_path, raw))
