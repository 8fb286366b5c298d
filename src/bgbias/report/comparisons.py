"""What a grid's models lose on other backgrounds, what methods change, and what that says on its page."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import pandas as pd

from bgbias.evaluation.conditions import CLEAN, RANDOM_BACKGROUND, SYMMETRIC
from bgbias.report import names, prose
from bgbias.results.rows import MAP_AT_R, MODEL, of_row, records
from bgbias.results.uncertainty import FEWEST_SEEDS, UNKNOWN, Estimate
from bgbias.study.cell import PLAIN
from bgbias.study.params import Study

BLOCK = MODEL[:3]  # models that are compared with one another
TEMPLATE = "comparisons.j2"
DIFFERENCES = {
    "corrupted": "corrupted_difference",
    "clean": "clean_difference",
    "drop": "relative_drop_change",
    "score": "ref_gain",
    "over": "corrupted_over_bgaugment",
}


@dataclass(frozen=True)
class Change:
    """Against plain training of the same loss, with a p that is corrected by Holm: MAP@R on other backgrounds and on original
    photos, the relative drop, and the attribution score; of a method on top of BGAugment also MAP@R on other backgrounds
    against that alone.
    """

    corrupted: Estimate
    clean: Estimate
    drop: Estimate
    score: Estimate = UNKNOWN
    over: Estimate = UNKNOWN


@dataclass(frozen=True)
class MethodRow:
    """A model's levels in percent, and its attribution score; what it changes, if it is compared with plain training."""

    method: str
    title: str
    seeds: int
    corrupted: Estimate
    clean: Estimate
    drop: Estimate
    query_drop: Estimate = UNKNOWN
    """The drop where backgrounds of queries alone change."""
    score: Estimate = UNKNOWN
    first_hit: float = math.nan
    """P@1 on other backgrounds, in percent."""
    change: Change | None = None


@dataclass(frozen=True)
class LossBlock:
    """What is compared with one another: the models of one dataset, backbone and loss, and what their classes lose."""

    of: tuple[str, str, str]
    title: str
    models: list[MethodRow]
    classes: list[dict[str, Any]]


class Effects(NamedTuple):
    """What a method does significantly where plain training loses: of how many comparisons, in how many it lessens the drop,
    raises MAP@R on other backgrounds, and lowers it on original photos.
    """

    of: int
    lessen: int
    increase: int
    lower: int


def verdict(blocks: list[LossBlock]) -> tuple[str, str]:
    """A headline of what plain models lose and which methods change that; and the rest, if any."""
    losing, unshown = _losing(blocks)
    models = [model for block in blocks for model in block.models]
    seeds = [m.seeds for m in models if m.method.partition("+")[0] not in names.NOT_TRAINED]
    changes: dict[str, list[Change]] = {}
    for model in (model for block, _ in losing for model in block.models):
        if model.change:
            changes.setdefault(model.title, []).append(model.change)
    effects: dict[Effects, list[str]] = {}
    for title, of in changes.items():
        effects.setdefault(_effects(of, len(losing) > 1), []).append(title)
    helping = {does: titles for does, titles in effects.items() if does.lessen or does.increase}
    every = [change for of in changes.values() for change in of]
    alone = sorted((plain.query_drop for _, plain in losing), key=lambda drop: -drop.value)
    has_queries = bool(alone) and not math.isnan(alone[0].value)
    values = {
        "few": min(seeds) if seeds and min(seeds) < FEWEST_SEEDS else 0,
        "losing": [{"title": block.title, "drop": plain.drop} for block, plain in losing],
        "unshown": [block.title for block in unshown],
        "tried": len(changes),
        "helping": [title for title in changes if any(title in titles for titles in helping.values())],
        "effects": helping,
    }
    details = prose.fill_macro(
        TEMPLATE,
        "details",
        **values,
        mixed=[change.over for change in every if not math.isnan(change.over.value)],
        looks=[change.score for change in every if not math.isnan(change.score.value)],
        of_queries=list(dict.fromkeys((alone[0], alone[-1]))) if has_queries else [],
    )
    return " ".join(prose.fill_macro(TEMPLATE, "headline", **values)), " ".join(details)


def _losing(blocks: list[LossBlock]) -> tuple[list[tuple[LossBlock, MethodRow]], list[LossBlock]]:
    """Where plain training loses more than chance, the largest loss first; and where that is not shown."""
    plain = [(block, model) for block in blocks for model in block.models if model.method == PLAIN]
    losing = sorted((pair for pair in plain if pair[1].drop.low > 0), key=lambda pair: -pair[1].drop.value)
    return losing, [block for block, model in plain if not model.drop.low > 0]


def _effects(changes: list[Change], several: bool) -> Effects:
    return Effects(
        len(changes) if several else 1,
        sum(change.drop.is_below for change in changes),
        sum(change.corrupted.is_above for change in changes),
        sum(change.clean.is_below for change in changes),
    )


def of_grid(study: Study, read: dict[str, pd.DataFrame]) -> Iterator[LossBlock]:
    """The comparisons of a finished grid, from its tables by their names."""
    levels = read["table1"]
    changes = {tuple(row[key] for key in MODEL): row for row in records(read.get("table3", pd.DataFrame()))}
    lost = _lost(study)
    several = levels["backbone"].nunique() > 1
    for _, rows in levels.groupby(BLOCK, sort=False):
        dataset, backbone, loss = rows[BLOCK].iloc[0]
        models = [_model(row, changes.get(tuple(row[key] for key in MODEL), {})) for row in records(rows)]
        title = [names.dataset(dataset), *([backbone] * several), names.loss(loss)]
        own = lost[(lost[BLOCK] == [dataset, backbone, loss]).all(axis=1)]
        classes = list(_classes(own, [m.method for m in models]))
        yield LossBlock((dataset, backbone, loss), ", ".join(title), models, classes)


def _model(row: Mapping[str, Any], difference: Mapping[str, Any]) -> MethodRow:
    """From a model's row of Table 1 and that of Table 3, if it has one."""
    change = Change(**{name: of_row(difference, column) for name, column in DIFFERENCES.items()})
    return MethodRow(
        method=row["method"],
        title=names.method(row["method"]),
        seeds=int(row["seeds"]),
        corrupted=of_row(row, "corrupted"),
        clean=of_row(row, "clean"),
        drop=of_row(row, "relative_drop"),
        query_drop=of_row(row, "query_only_relative_drop"),
        score=of_row(difference, "ref"),
        first_hit=float(row["p_at_1_corrupted"]),
        change=None if math.isnan(change.corrupted.value) else change,
    )


def _lost(study: Study) -> pd.DataFrame:
    """MAP@R of each model's classes, as they are and on other backgrounds, means over seeds, draws and photos."""
    wanted = [*MODEL, "setting", "condition", "image_id", "label", MAP_AT_R]
    queries = pd.read_parquet(study.files.at("all_queries"), columns=wanted)
    own = queries[(queries["setting"] == SYMMETRIC) & queries["condition"].isin([CLEAN, RANDOM_BACKGROUND])]
    means = own.groupby([*MODEL, "label", "condition"], sort=False)[MAP_AT_R].mean().unstack()
    about = own.groupby([*MODEL, "label"], sort=False)["image_id"].agg(["first", "nunique"])
    found = means.join(about).reset_index()
    # A class is called after its photos' folder, if that is its own.
    found["folder"] = found["first"].str.rpartition("/")[0].str.rpartition("/")[2]
    alone = found.groupby(["dataset", "folder"])["label"].transform("nunique") == 1
    named = alone & (found["folder"] != "")
    return found.assign(name=found["folder"].where(named, found["label"].astype(str)))


def _classes(own: pd.DataFrame, methods: list[str]) -> Iterator[dict[str, Any]]:
    """Of each class its photos, what the first model finds with their own background, and what each loses without it; ``label``
    is its number, ``image_id`` a photo of it.
    """
    lost = (own[CLEAN] - own[RANDOM_BACKGROUND]).groupby([own["label"], own["method"]]).first().unstack()
    clean = own[own["method"] == methods[0]].set_index("label")
    for label in lost.sort_values(methods[0], ascending=False, kind="stable").index:
        about = clean.loc[label]
        yield {
            "label": label,
            "name": about["name"],
            "image_id": about["first"],
            "queries": about["nunique"],
            "clean": about[CLEAN],
            "lost": lost.loc[label, methods].tolist(),
        }


def advice(blocks: list[LossBlock], read: dict[str, pd.DataFrame]) -> Iterator[str]:
    """What the numbers suggest, each with what was measured of it."""
    losing, unshown = _losing(blocks)
    for block, plain in losing:
        compared = [(model, model.change) for model in block.models if model.change]
        gaining = [model for model, change in compared if change.corrupted.is_above]
        lessening = [model for model, change in compared if change.drop.is_below]
        best = max(gaining or lessening, key=lambda model: model.corrupted.value, default=None)
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
            yield from _without_training(block, read["table7"])
    yield from prose.fill_macro(TEMPLATE, "no_cure_needed", unshown=[block.title for block in unshown])


def by_masks(blocks: list[LossBlock], read: dict[str, pd.DataFrame]) -> Iterator[str]:
    """Whether plain models lose more where masks are worst."""
    if "table10" not in read:
        return
    quality = read["table10"]
    for block in blocks:
        own = records(quality[(quality[MODEL] == [*block.of, PLAIN]).all(axis=1)])
        if own and not math.isnan(own[0]["drop_more"]):
            difference = of_row(own[0], "drop_more")
            yield from prose.fill_macro(TEMPLATE, "by_masks", title=block.title, difference=difference)


def _without_training(block: LossBlock, cures: pd.DataFrame) -> list[str]:
    """Of what needs no training, what brings most back of the plain model, and what brings most beside its price."""
    own = cures[
        (cures[list(BLOCK)] == list(block.of)).all(axis=1) & cures["method"].str.startswith(f"{PLAIN}+")
    ]
    if own.empty:
        return []
    gaining = own[[of_row(row, "corrupted_gain").is_above for row in records(own)]]
    best = []
    if len(gaining):
        # What brings most back may cost more than it brings, where little changes.
        most = gaining["corrupted_gain"].idxmax()
        balanced = (gaining["corrupted_gain"] + gaining["clean_gain"]).idxmax()
        best = records(gaining.loc[list(dict.fromkeys((balanced, most)))])
    cures_of_plain = [
        {
            "title": names.method(row["method"]).partition(" + ")[2],
            "gain": of_row(row, "corrupted_gain"),
            "paid": of_row(row, "clean_gain"),
            "ms": row["ms"],
            "index": row["index"],
        }
        for row in best
    ]
    return prose.fill_macro(TEMPLATE, "without_training", title=block.title, cures=cures_of_plain)
