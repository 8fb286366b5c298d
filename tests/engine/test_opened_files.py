"""What a node is said to read is what it opens: only that is checksummed, waited for, and missed when it is not there."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import miniatures
import pytest
from small_study import data_nodes, described, load, options, run

from bgbias import plugins
from bgbias.cli.nodes import select_nodes, work
from bgbias.engine import graph, records
from bgbias.engine.node import step
from bgbias.images import pixels
from bgbias.nodes.figure import figure
from bgbias.nodes.segment import segment
from bgbias.segmentation.truth import box_of
from bgbias.study.cell import Cell
from bgbias.study.params import Study

pytestmark = pytest.mark.usefixtures("small_plugins")
PLAIN, CURED = (Cell("squares", "pixels", "contrastive", method, 0) for method in ("plain", "bgaugment"))
OPENED: list[Path] = []


def _opens(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and isinstance(arguments[0], str | os.PathLike):
        OPENED.append(Path(arguments[0]))


sys.addaudithook(_opens)


def as_birds(folder: Path) -> dict[str, Any]:
    """The squares in the archive of CUB-200-2011, which has boxes of its photos, and masks too."""
    squares = plugins.load("datasets", "squares")
    files: dict[str, bytes] = {}
    lists: dict[str, list[str]] = {n: [] for n in ("images", "image_class_labels", "bounding_boxes")}
    for number, item in enumerate(squares.items(squares.Params(photos=7), {}, "squares"), 1):
        files |= {f"CUB/images/{item.image_id}": item.data, f"CUB/segmentations/{item.image_id}": item.truth}
        box = box_of(pixels.decode(item.truth, item.image_id, "L") > 0)
        lists["images"].append(f"{number} {item.image_id}")
        lists["image_class_labels"].append(f"{number} {item.label + 1}")
        lists["bounding_boxes"].append(
            f"{number} {box.left} {box.top} {box.right - box.left} {box.bottom - box.top}"
        )
    files |= {f"CUB/{name}.txt": "\n".join(rows).encode() for name, rows in lists.items()}
    source = miniatures.as_zip(folder / "birds.zip", files)
    split = {"train": [0, 8], "val": [8, 12], "test": [12, 16]}
    return {"kind": "cub200", "options": {"source": str(source), "classes": 16, "split": split}}


def said(study: Study, node: str, **subject: Any) -> set[Path]:
    """What the node reads by Python; weights are read by another language, which no hook sees."""
    return {
        p for p in graph.inputs(study, node, **subject).values() if p.suffix not in (".safetensors", ".pth")
    }


@pytest.mark.parametrize("truth", ["masks", "boxes"])
def test_segmentation_and_its_figure_open_what_they_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, truth: str
) -> None:
    # Whoever checksums a file opens it, too.
    monkeypatch.setattr(records, "sha256", lambda path: f"{0:064}")
    raw = options(described(tmp_path), photos=7)
    raw["segmentation"] = {"episodes": 6}
    raw["train"]["max_epochs"] = 1
    raw["grids"]["small"]["cells"][0] |= {"losses": ["contrastive"]}
    if truth == "boxes":
        raw["datasets"]["squares"] |= as_birds(tmp_path)
    study = load(tmp_path, raw)
    if truth == "boxes":
        work(study, select_nodes(study, "fetch", dataset="squares"))
    data_nodes(study)
    for cell in (PLAIN, CURED):
        run(study, cell, "train")
    products = {
        p
        for node in graph.in_order(study)
        for p in graph.inputs(study, node.name, **node.keywords).values()
        if p.suffix != ".json"  # every node opens the records of those before it
    }
    OPENED.clear()
    segment(study, PLAIN, "cpu")
    assert products & set(OPENED) == said(study, "segment", cell=PLAIN)
    segment(study, CURED, "cpu")
    OPENED.clear()
    figure(study, "segmentation")
    assert products & set(OPENED) == said(study, "figure", figure="segmentation")


@pytest.mark.parametrize("truth", ["masks", "boxes"])
def test_what_segmentation_reads_is_made_by_the_nodes_before_it(tmp_path: Path, truth: str) -> None:
    raw = described(tmp_path)
    raw["segmentation"] = {"episodes": 6}
    if truth == "boxes":
        raw["datasets"]["squares"] |= as_birds(tmp_path)
    study = load(tmp_path, raw)
    fetched = ["fetch squares/photos"] if truth == "boxes" else []
    expected = {
        step("segment", cell=PLAIN): [f"train {PLAIN.name}"],
        step("figure", figure="segmentation"): [f"segment {c.name}" for c in (PLAIN, CURED)],
    }
    for node, of_cells in expected.items():
        before = [n.label for n in graph.reads_from(study, node)]
        assert before == ["index squares", *fetched, *of_cells]
        archive = {study.files.at("part", dataset="squares", part="photos")}
        masks = {study.files.at("truth", dataset="squares")}
        assert said(study, node.name, **node.keywords) >= (archive if fetched else masks)
        assert not said(study, node.name, **node.keywords) & (masks if fetched else archive)
