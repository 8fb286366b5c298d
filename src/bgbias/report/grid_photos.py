"""What a grid's page shows of photos: queries with what models find for them, a photo of each class, and whether backgrounds
alone tell the class.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pandas as pd

from bgbias.engine import inputs
from bgbias.evaluation import embeddings
from bgbias.evaluation.conditions import CLEAN, QUERY_ONLY, RANDOM_BACKGROUND, SYMMETRIC, random_background
from bgbias.masks.policy import read_mask_table
from bgbias.report import names, queries
from bgbias.report.columns import Row, format_number
from bgbias.report.comparisons import BLOCK, LossBlock
from bgbias.report.queries import AskedModel, ShownQuery
from bgbias.results import background_baseline
from bgbias.results.background_baseline import Leak
from bgbias.results.rows import MAP_AT_R
from bgbias.study import plan
from bgbias.study.album import Album
from bgbias.study.cell import PLAIN
from bgbias.study.params import Study

FEWEST = 4  # queries of either kind that a dataset is shown with, however many datasets there are
Field = tuple[bool, bool]


@dataclass(frozen=True)
class DatasetPhotos:
    """Of a dataset what is shown of its photos: in the comparison (``title``) in which plain training loses most.

    ``queries`` by their kind (``queries.select_example_queries``), and ``over``, of what their MAP@R is the mean; ``portraits``
    by the class's name; ``missing``: the first file that is not on this machine, and because of which nothing is shown.
    """

    dataset: str
    title: str
    over: str = ""
    queries: Mapping[str, Sequence[ShownQuery]] = field(default_factory=dict)
    portraits: Mapping[str, str] | None = None
    leak: Leak | None = None
    missing: str = ""


def list_photos(study: Study, blocks: Sequence[LossBlock]) -> Iterator[DatasetPhotos]:
    """Dataset by dataset."""
    by_dataset: dict[str, list[LossBlock]] = {}
    for block in blocks:
        by_dataset.setdefault(block.of[0], []).append(block)
    count = max(FEWEST, queries.QUERIES // len(by_dataset))
    for group in by_dataset.values():
        yield _list_dataset(study, find_largest_drop(group), count)


def find_largest_drop(blocks: Sequence[LossBlock]) -> LossBlock:
    """The comparison in which plain training loses most; one without any training only where there are no others."""
    trained = [block for block in blocks if any(m["method"] not in names.NOT_TRAINED for m in block.models)]
    return max(trained or blocks, key=lambda block: _find_first(block)["relative_drop"])


def _find_first(block: LossBlock) -> Row:
    plain = (model for model in block.models if model["method"] == PLAIN)
    return next(plain, _select_trained(block)[0])


def _select_trained(block: LossBlock) -> list[Row]:
    return [m for m in block.models if m["method"] not in names.NOT_TRAINED] or block.models


def _list_dataset(study: Study, block: LossBlock, count: int) -> DatasetPhotos:
    dataset, backbone, _ = block.of
    first = _find_first(block)
    others = [model for model in _select_trained(block) if model is not first]
    # Beside the plain one the best: more would fill a page that nobody reads.
    rows = [first, *sorted(others, key=lambda model: -model["corrupted"])[:1]]
    first_runs = {(c.dataset, c.backbone, c.loss, c.method): c for c in reversed(plan.cells(study))}
    methods = [model["method"] for model in rows]
    cells = [first_runs[*block.of, method] for method in methods]
    embedded = inputs.of_models(cells, "embed", "embeddings")
    read = inputs.photos(dataset) | inputs.masks(study, dataset) | inputs.pools(study, dataset, "test")
    paths = {role: file.path(study) for role, file in (read | embedded).items()}
    # Tables can be brought along without what they were made from.
    if gone := [str(path) for path in paths.values() if not path.exists()]:
        return DatasetPhotos(dataset, block.title, missing=gone[0])
    album = Album.seen_by(study, dataset, backbone)
    photos = album.evaluation(album.table("test"), random_background.NEEDS, "test")
    unsure = queries.unsure(read_mask_table(paths["mask_table"]))
    levels = _levels(study, block.of, methods)
    models = [
        AskedModel(names.method(m) if len(methods) > 1 else "", embeddings.read(paths[role]), levels[m])
        for m, role in zip(methods, embedded, strict=True)
    ]
    frame = photos.table.frame
    of_label = dict(zip(frame["label"].astype(int), frame["class_name"], strict=True))
    of_label |= {int(row["label"]): row["name"] for row in block.classes}
    draws = f"with the own background → mean of {names.count(study.evaluation.draws, 'other')}"
    seeds = f" and {names.count(first['seeds'], 'seed')}; shown is what seed {cells[0].run} finds"
    return DatasetPhotos(
        dataset,
        block.title,
        draws + seeds * (first["seeds"] > 1),
        queries.select_example_queries(models, photos, of_label, unsure, count),
        queries.portraits({row["name"]: row["image_id"] for row in block.classes}, photos),
        background_baseline.measure_leak(photos),
    )


def _levels(study: Study, block: tuple[str, str, str], methods: list[str]) -> dict[str, pd.DataFrame]:
    """MAP@R of each model's queries in the gallery of original photos, means over seeds and draws."""
    of_block = [(key, "==", name) for key, name in zip(BLOCK, block, strict=True)]
    rows = pd.read_parquet(
        study.files.at("all_queries"),
        columns=["method", "setting", "condition", "image_id", MAP_AT_R],
        filters=[*of_block, ("method", "in", methods)],
    )
    # Clean queries are of either setting, and written as symmetric.
    settings = rows["condition"].map({CLEAN: SYMMETRIC, RANDOM_BACKGROUND: QUERY_ONLY})
    means = rows[rows["setting"] == settings].groupby(["method", "image_id", "condition"])[MAP_AT_R].mean()
    return {str(method): part.droplevel(0).unstack() for method, part in means.groupby(level="method")}


def four(blocks: Sequence[LossBlock], leaks: Mapping[str, Leak | None]) -> dict[Field, list[str]]:
    """By whether backgrounds tell the class and whether models lose without them, the trainings that stand there and their drops,
    dataset by dataset; nothing where a leak cannot be tested. A model leans on backgrounds if its drop is significant.
    """
    placed: dict[Field, list[str]] = {}
    for dataset, leak in leaks.items():
        if leak is None or math.isnan(leak.more.low):
            continue
        of_dataset = [block for block in blocks if block.of[0] == dataset]
        drops: dict[str, list[Row]] = {}
        for model in (model for block in of_dataset for model in _select_trained(block)):
            if not math.isnan(model["relative_drop_low"]):
                drops.setdefault(names.method(model["method"]), []).append(model)
        for leans in (True, False):
            parts = []
            for title, models in drops.items():
                there = [model for model in models if (model["relative_drop_low"] > 0) == leans]
                if len(models) == len(there) == 1:
                    parts.append(f"{title} {format_number(there[0]['relative_drop'], 0)} %")
                elif there:
                    parts.append(f"{title} ({len(there)} of {len(models)} cases)")
            if parts:
                text = f"{names.dataset(dataset)}: {'; '.join(parts)}"
                placed.setdefault((leak.found, leans), []).append(text)
    return placed
