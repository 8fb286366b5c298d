"""The table of photos survives the disk; a sample is always the same; folds say who validates, and stand side by side."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pretended
import pytest
from in_memory import of_rows
from rankings import embedded, random_unit
from small_study import described, load, options, run

from bgbias.engine import graph
from bgbias.engine.node import step
from bgbias.errors import UserError
from bgbias.evaluation import embeddings
from bgbias.files.atomic import write_frame
from bgbias.photos import folds
from bgbias.photos.sample import sample_classes
from bgbias.photos.table import COLUMNS, ImageTable, read_table
from bgbias.study import plan
from bgbias.study.cell import Cell

pytestmark = pytest.mark.usefixtures("small_plugins")
ROW = ["a/1.jpg", 0, "a", "train", "mine|train", "a/1.jpg"]


def test_image_table_survives_the_disk_and_is_checked(tmp_path: Path) -> None:
    rows = [
        ROW,
        ["NA", 1, "null", "test", "cub200|test", "007"],
        ['é,"1".jpg', 2, "", "unused", "k|s", "1e5"],
    ]
    write_frame(tmp_path / "images.csv", pd.DataFrame(rows, columns=list(COLUMNS)))
    again = read_table(tmp_path / "images.csv")
    assert again.frame.to_numpy().tolist() == rows
    assert again.split("test").ids == ["NA"]
    with pytest.raises(UserError, match="split 'val' has no photos"):
        again.split("val")
    with pytest.raises(UserError, match="python -m bgbias index birds"):
        read_table(tmp_path / "birds" / "images.csv")
    for rows, columns, words in (
        ([ROW, ROW], COLUMNS, r"'a/1\.jpg' is listed twice"),
        ([[*ROW[:3], "dev", *ROW[4:]]], COLUMNS, "Unknown split 'dev'"),
        ([ROW[:5]], COLUMNS[:5], "has the columns image_id, label"),
    ):
        with pytest.raises(UserError, match=words):
            ImageTable(pd.DataFrame(rows, columns=list(columns)))


def listed(sizes: list[int], name: str = "own") -> ImageTable:
    named = [(f"{c}/{n}.jpg", c) for c, size in enumerate(sizes) for n in range(size)]
    return of_rows([(image, c, f"class {c}", "test", f"{name}|test", image) for image, c in named])


@pytest.mark.parametrize(
    ("everything", "count", "most", "classes"),
    [
        ([3 + c % 4 for c in range(150)], 500, None, 111),  # whole classes, where a hundred fit
        ([30] * 150, 2000, 20, 100),  # a hundred classes, with equally many photos
        ([10] * 150, 30, 4, 7),  # too few for a hundred: four of fewer classes
        ([100, 4, 4], 20, 12, 3),  # small classes stay whole
        ([5, 5, 5], 4, 2, 2),
        ([6, 6, 6, 1, 1, 1], 9, 4, 2),  # of one photo there is nobody to find
    ],
)
def test_whole_classes_are_taken_where_a_hundred_fit_else_equally_many_photos_of_each(
    everything: list[int], count: int, most: int | None, classes: int
) -> None:
    drawn, found = sample_classes(listed(everything), "audit", count)
    sizes = drawn.frame["label"].value_counts().to_dict()
    assert (found, len(sizes)) == (most, classes)
    assert sizes == {c: min(everything[c], most or 500) for c in sizes}
    assert len(drawn) <= count


def test_sample_follows_from_names_alone() -> None:
    whole = listed([8] * 30)
    drawn, _ = sample_classes(whole, "audit", 60)
    shuffled = ImageTable(whole.frame.sample(frac=1, random_state=1).reset_index(drop=True))
    again, _ = sample_classes(shuffled, "audit", 60)
    assert sorted(again.ids) == sorted(drawn.ids)
    assert drawn.ids == [i for i in whole.ids if i in set(drawn.ids)]  # in the table's order
    for other in (sample_classes(listed([8] * 30, "other"), "audit", 60), sample_classes(whole, "else", 60)):
        assert sorted(other[0].ids) != sorted(drawn.ids)
    # Who is there does not change how a class's own photos are chosen.
    alone = ImageTable(whole.frame[whole.frame["label"] == 3].reset_index(drop=True))
    both = [set(sample_classes(t, "audit", n)[0].ids) for t, n in ((alone, 4), (whole, 120))]
    assert both[0] == {i for i in both[1] if i.startswith("3/")}


# Folds.


PLAIN = Cell("squares", "pixels", "contrastive", "plain", 0)


@pytest.fixture
def raw(tmp_path: Path) -> dict[str, Any]:
    """Ten classes before the test, two of which validate."""
    raw = options(described(tmp_path), train_classes=8, val_classes=2, test_classes=3)
    of_folds = {"losses": ["contrastive"], "methods": ["plain"], "folds": [0, 1, 2, 3]}
    raw["grids"]["small"]["cells"][0] |= of_folds
    raw["train"] |= {"max_epochs": 1}
    return raw


@pytest.mark.parametrize(
    ("train", "val", "expected"),
    [
        (75, 25, [(75, 99), (50, 74), (25, 49), (0, 24)]),
        (74, 24, [(74, 97), (50, 73), (26, 49), (0, 23)]),
        (8489, 2829, [(8489, 11317), (5660, 8488), (2831, 5659), (0, 2828)]),
    ],
    ids=["CUB200", "Cars196", "SOP"],
)
def test_golden_folds_of_the_literature(train: int, val: int, expected: list[tuple[int, int]]) -> None:
    classes = range(train), range(train, train + val)
    found = [folds.validating(*classes, fold) for fold in range(4)]
    assert found == [list(range(first, last + 1)) for first, last in expected]


def test_a_fold_moves_classes_between_training_and_validation_alone() -> None:
    split_of = {n: "train" if n < 8 else "val" if n < 10 else "test" for n in range(13)}
    rows = [(f"{n}/{k}", n, str(n), s, "own|x", f"{n}/{k}") for n, s in split_of.items() for k in range(2)]
    own = of_rows(rows)
    assert own.of_fold(0) is own
    validated = []
    for fold in range(4):
        table = own.of_fold(fold)
        assert table.split("test").ids == own.split("test").ids
        assert table.frame.drop(columns="split").equals(own.frame.drop(columns="split"))
        train, val = (set(table.split(name).labels.tolist()) for name in ("train", "val"))
        assert train | val == set(range(10))
        assert not train & val
        validated.append(sorted(val))
    assert validated == [[8, 9], [6, 7], [4, 5], [0, 1]]


def test_folds_that_would_overlap_or_share_classes_are_refused() -> None:
    with pytest.raises(UserError, match="4 folds of 3 validation classes would overlap among 11 classes"):
        folds.validating(range(8), range(8, 11), 1)
    with pytest.raises(UserError, match="train and validate both"):
        folds.validating(range(8), range(7, 9), 1)


def test_four_folds_are_four_models_and_one_of_all(tmp_path: Path, raw: dict[str, Any]) -> None:
    """Three of them are three models. The one of all reads their embeddings, and is trained by nobody."""
    study = load(tmp_path, raw)
    together = replace(PLAIN, method="plain+32d")
    of_folds = tuple(replace(PLAIN, fold=fold) for fold in range(4))
    assert plan.checked_cells(study) == (*of_folds, together)
    assert [c.name.split("/")[-1] for c in of_folds] == ["seed0", "seed0-fold1", "seed0-fold2", "seed0-fold3"]
    assert plan.folds_of(study, together) == of_folds
    read = graph.reads_from(study, step("embed", cell=together))
    assert read == [step("embed", cell=part) for part in of_folds]
    planned = {(n.name, n.keywords["cell"]) for n in graph.in_order(study) if "cell" in n.keywords}
    assert {name for name, cell in planned if cell == together} == {"embed", "score"}
    for node in ("train", "attribute"):
        with pytest.raises(UserError, match="4 models side by side, squares/pixels/contrastive/plain/seed0"):
            graph.digest(study, node, cell=together)
    raw["grids"]["small"]["cells"][0]["folds"] = [3, 1, 2]
    assert plan.cells(load(tmp_path, raw)) == (of_folds[3], of_folds[1], of_folds[2])
    # The own split is planned as if there were no folds.
    del raw["grids"]["small"]["cells"][0]["folds"]
    without = load(tmp_path, raw)
    assert plan.cells(without) == (PLAIN,)
    for node in ("train", "embed", "score", "attribute"):
        digests = [graph.digest(study, node, cell=part) for part in of_folds]
        assert digests[0] == graph.digest(without, node, cell=PLAIN)
        assert len(set(digests)) == 4


def test_names_of_runs_say_seed_and_fold() -> None:
    for run_of in [(0, 0), (12, 0), (0, 3), (12, 1)]:
        assert folds.seed_and_fold(folds.run(*run_of)) == run_of
    for name in ["0-fold4", "0-fold0", "0-fold", "-1"]:
        with pytest.raises(UserError, match=f"'{name}' names no seed and fold"):
            folds.seed_and_fold(name)


VIEWS = [("clean", 0), ("random_background", 0), ("random_background", 1)]


def test_models_side_by_side_are_as_similar_as_in_their_mean(tmp_path: Path, raw: dict[str, Any]) -> None:
    """However long a model's embeddings were."""
    study, usable = load(tmp_path, raw), np.array([True, True, False, True, True])
    vectors = random_unit(3, 4, len(VIEWS), 5, 3)
    parts = [
        embedded(range(5), dict(zip(VIEWS, of_views, strict=True)), usable=usable) for of_views in vectors
    ]
    *of_folds, together = plan.cells(study)
    for n, (part, cell) in enumerate(zip(parts, of_folds, strict=True)):
        path = study.files.at("embeddings", **cell.wildcards)
        path.parent.mkdir(parents=True)
        replace(part, views={view: (n + 1) * unit for view, unit in part.views.items()}).write(path)
        pretended.certify(study, step("embed", cell=cell))
    run(study, together, "embed")
    found = embeddings.read(study.files.at("embeddings", **together.wildcards))
    assert list(found.views) == VIEWS
    assert {(v.shape, v.dtype.name) for v in found.views.values()} == {((5, 12), "float32")}
    assert found.ids == parts[0].ids
    assert np.array_equal(found.usable, parts[0].usable)
    gallery = VIEWS[0]
    for view in VIEWS:
        of_each = np.mean([p.views[view] @ p.views[gallery].T for p in parts], axis=0)
        assert found.views[view] @ found.views[gallery].T == pytest.approx(of_each, abs=1e-6)
    less = replace(parts[0], views={view: parts[0].views[view] for view in VIEWS[:2]})
    for other in (replace(parts[0], ids=[*"abcde"]), less):
        with pytest.raises(UserError, match="embedded different photos"):
            embeddings.side_by_side([parts[0], other])
