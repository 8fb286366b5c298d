"""What a grid's models lose on other backgrounds, what methods change, and what that says on its page."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import pandas as pd

from bgbias.evaluation.conditions import CLEAN, RANDOM_BACKGROUND, SYMMETRIC
from bgbias.report import names, prose
from bgbias.report.columns import Row
from bgbias.results.rows import MAP_AT_R, MODEL, read_estimate, records
from bgbias.results.uncertainty import FEWEST_SEEDS, Estimate
from bgbias.study.cell import PLAIN
from bgbias.study.params import Study

BLOCK = MODEL[:3]  # models that are compared with one another
TEMPLATE = "comparisons.j2"
CHANGES = ("corrupted_difference", "clean_difference", "relative_drop_change")


@dataclass(frozen=True)
class LossBlock:
    """What is compared with one another: the models of one dataset, backbone and loss, each as its rows of Tables 1 and 3 have
    it, and what their classes lose.
    """

    of: tuple[str, str, str]
    title: str
    models: list[Row]
    classes: list[Row]


class Effects(NamedTuple):
    """What methods do significantly: of how many comparisons, in how many they ``reduce`` the drop (``_reduces``), raise MAP@R
    on other backgrounds, and ``lower`` it on original photos.
    """

    cases: int
    reduce: int
    raise_: int
    lower: int


def is_compared(model: Row) -> bool:
    """Whether Table 3 compares a model with plain training."""
    return not math.isnan(model.get(CHANGES[0], math.nan))


def _reduces(model: Row) -> bool:
    """Whether a method loses significantly less than plain training, and not because it finds less on other backgrounds."""
    corrupted, _, drop = (read_estimate(model, name) for name in CHANGES)
    return drop.is_below and not corrupted.is_below


def verdict(blocks: list[LossBlock]) -> tuple[str, str]:
    """A headline of what plain models lose and which methods change that; and the rest, if any."""
    losing, unshown, untested = _split_losing(blocks)
    models = [model for block in blocks for model in block.models]
    seeds = [int(m["seeds"]) for m in models if m["method"].partition("+")[0] not in names.NOT_TRAINED]
    compared = [model for block, _ in losing for model in block.models if is_compared(model)]
    of_methods: dict[str, list[Row]] = {}
    for model in compared:
        of_methods.setdefault(names.method(model["method"]), []).append(model)
    helping: dict[Effects, list[str]] = {}
    for title, rows in of_methods.items():
        corrupted, clean = ([read_estimate(model, name) for model in rows] for name in CHANGES[:2])
        does = Effects(
            len(rows) if len(losing) > 1 else 1,
            sum(map(_reduces, rows)),
            sum(change.is_above for change in corrupted),
            sum(change.is_below for change in clean),
        )
        if does.reduce or does.raise_:
            helping.setdefault(does, []).append(title)
    of_queries = _list_estimates([plain for _, plain in losing], "query_only_relative_drop")
    of_queries.sort(key=lambda drop: -drop.value)
    values = {
        "few": min(seeds) if seeds and min(seeds) < FEWEST_SEEDS else 0,
        "losing": [(block.title, read_estimate(plain, "relative_drop")) for block, plain in losing],
        "unshown": [block.title for block in unshown],
        "untested": [block.title for block in untested],
        "any_trained": bool(seeds),
        "tried": len(of_methods),
        "helping": [title for title in of_methods if any(title in titles for titles in helping.values())],
        "effects": helping,
    }
    details = prose.fill_macro(
        TEMPLATE,
        "details",
        **values,
        mixed=_list_estimates(compared, "corrupted_over_bgaugment"),
        looks=_list_estimates(compared, "ref_gain"),
        of_queries=list(dict.fromkeys(of_queries[:1] + of_queries[-1:])),
    )
    return " ".join(prose.fill_macro(TEMPLATE, "headline", **values)), " ".join(details)


def _split_losing(
    blocks: list[LossBlock],
) -> tuple[list[tuple[LossBlock, Row]], list[LossBlock], list[LossBlock]]:
    """Where plain training loses significantly, the largest drop first; where it does not; and where too few classes tell."""
    plain = [(block, model) for block in blocks for model in block.models if model["method"] == PLAIN]
    losing = [(block, model) for block, model in plain if model["relative_drop_low"] > 0]
    unshown = [block for block, model in plain if model["relative_drop_low"] <= 0]
    untested = [block for block, model in plain if math.isnan(model["relative_drop_low"])]
    return sorted(losing, key=lambda pair: -pair[1]["relative_drop"]), unshown, untested


def _list_estimates(models: list[Row], name: str) -> list[Estimate]:
    estimates = (read_estimate(model, name) for model in models)
    return [estimate for estimate in estimates if not math.isnan(estimate.value)]


def compare_grid(study: Study, read: dict[str, pd.DataFrame]) -> Iterator[LossBlock]:
    """The comparisons of a finished grid, from its tables by their names."""
    levels, compared = read["table1"], read.get("table3", pd.DataFrame(columns=MODEL))
    # Of models of several folds side by side Table 1 has differences, too.
    changed = [name for name in compared if name not in levels or str(name).startswith(CHANGES)]
    levels = levels[[name for name in levels if not str(name).startswith(CHANGES)]]
    levels = levels.merge(compared[[*MODEL, *changed]], on=MODEL, how="left")
    lost = _average_classes(study)
    several = levels["backbone"].nunique() > 1
    for _, rows in levels.groupby(BLOCK, sort=False):
        dataset, backbone, loss = rows[BLOCK].iloc[0]
        title = [names.dataset(dataset), *([backbone] * several), names.loss(loss)]
        part = lost[(lost[BLOCK] == [dataset, backbone, loss]).all(axis=1)]
        classes = _list_classes(part, rows["method"].tolist())
        yield LossBlock((dataset, backbone, loss), ", ".join(title), records(rows), classes)


def _average_classes(study: Study) -> pd.DataFrame:
    """MAP@R of each model's classes, on original photos and on other backgrounds, means over seeds, draws and photos."""
    columns = [*MODEL, "setting", "condition", "image_id", "label", MAP_AT_R]
    queries = pd.read_parquet(study.files.at("all_queries"), columns=columns)
    rows = queries[(queries["setting"] == SYMMETRIC) & queries["condition"].isin([CLEAN, RANDOM_BACKGROUND])]
    means = rows.groupby([*MODEL, "label", "condition"], sort=False)[MAP_AT_R].mean().unstack()
    photos = rows.groupby([*MODEL, "label"], sort=False)["image_id"].agg(image_id="first", queries="nunique")
    classes = means.join(photos).reset_index()
    # A class is called after its photos' folder, if that is its own.
    folder = classes["image_id"].str.rpartition("/")[0].str.rpartition("/")[2]
    is_alone = classes.assign(folder=folder).groupby(["dataset", "folder"])["label"].transform("nunique") == 1
    return classes.assign(name=folder.where(is_alone & (folder != ""), classes["label"].astype(str)))


def _list_classes(rows: pd.DataFrame, methods: list[str]) -> list[Row]:
    """Of each class its ``label``, ``name`` and number of ``queries``, a photo of it (``image_id``), what the first model finds
    with their own background (``clean``), and what each loses without it (``lost``).
    """
    wide = rows.pivot(index="label", columns="method", values=[CLEAN, RANDOM_BACKGROUND])
    lost = pd.DataFrame(wide[CLEAN] - wide[RANDOM_BACKGROUND])
    lost = lost.sort_values(methods[0], ascending=False, kind="stable")
    classes = rows[rows["method"] == methods[0]].set_index("label").loc[lost.index].reset_index()
    return records(classes.assign(lost=pd.Series(lost[methods].to_numpy().tolist())))


def advice(blocks: list[LossBlock], read: dict[str, pd.DataFrame]) -> Iterator[str]:
    """What the numbers suggest, each with what was measured of it."""
    losing, unshown, untested = _split_losing(blocks)
    for block, plain in losing:
        compared = [model for model in block.models if is_compared(model)]
        gaining = [model for model in compared if read_estimate(model, "corrupted_difference").is_above]
        best = max(gaining or filter(_reduces, compared), key=lambda model: model["corrupted"], default=None)
        yield from prose.fill_macro(
            TEMPLATE,
            "advice",
            title=block.title,
            plain=plain,
            best=best,
            is_gain=bool(gaining),
            any_tried=bool(compared),
        )
        if "table7" in read:
            yield from _advise_cures(block, read["table7"])
    titles = {"unshown": [block.title for block in unshown], "untested": [block.title for block in untested]}
    yield from prose.fill_macro(TEMPLATE, "without_a_drop", **titles)


def by_masks(blocks: list[LossBlock], read: dict[str, pd.DataFrame]) -> Iterator[str]:
    """Whether plain models lose more where masks are worst."""
    quality = records(read.get("table10", pd.DataFrame()))
    of_models = {tuple(row[key] for key in MODEL): read_estimate(row, "drop_more") for row in quality}
    for block in blocks:
        difference = of_models.get((*block.of, PLAIN))
        if difference and not math.isnan(difference.value):
            yield from prose.fill_macro(TEMPLATE, "by_masks", title=block.title, difference=difference)


def _advise_cures(block: LossBlock, cures: pd.DataFrame) -> list[str]:
    """Of what needs no training, what brings most back of the plain model, and what brings most beside its price."""
    rows = cures[(cures[BLOCK] == list(block.of)).all(axis=1) & cures["method"].str.startswith(f"{PLAIN}+")]
    if rows.empty:
        return []
    gaining = rows[[read_estimate(row, "corrupted_gain").is_above for row in records(rows)]]
    best = []
    if len(gaining):
        # What brings most back may cost more than it brings, where little changes.
        most = gaining["corrupted_gain"].idxmax()
        balanced = (gaining["corrupted_gain"] + gaining["clean_gain"]).idxmax()
        best = records(gaining.loc[list(dict.fromkeys((balanced, most)))])
    return prose.fill_macro(TEMPLATE, "without_training", title=block.title, cures=best)
