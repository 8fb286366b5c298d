"""What a grid's models lose in front of other backgrounds, what methods change, and what that says: the words of its page."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from bgbias.evaluation.conditions import CLEAN, RANDOM_BACKGROUND, SYMMETRIC
from bgbias.report import names
from bgbias.report.columns import with_interval
from bgbias.results.rows import MAP_AT_R, MODEL
from bgbias.results.uncertainty import FEWEST_SEEDS, SIGNIFICANT, UNKNOWN, Estimate
from bgbias.study.cell import PLAIN
from bgbias.study.params import Study

BLOCK = MODEL[:3]  # models that are compared with one another
MOST_LISTED = 4  # numbers in a sentence
Effects = tuple[int, ...]  # of how many comparisons, and in how many of them each of ``EFFECTS`` is found
DIFFERENCES = {
    "corrupted": "corrupted_difference",
    "clean": "clean_difference",
    "drop": "relative_drop_change",
    "score": "ref_gain",
    "over": "corrupted_over_bgaugment",
}
# What a method does, by the verb: one does it, several do it.
EFFECTS = {"lessen": "the drop", "raise": "MAP@R there", "lower": "it on photos as they are"}


@dataclass(frozen=True)
class Shift:
    """A difference in points with its interval, and whether it is more than chance."""

    found: Estimate
    sure: bool = False

    @property
    def more(self) -> bool:
        """Beyond chance above 0."""
        return self.sure and self.found.value > 0

    @property
    def less(self) -> bool:
        """Beyond chance below 0."""
        return self.sure and self.found.value < 0

    @property
    def chance(self) -> str:
        """What its p says, in words."""
        return "beyond chance" if self.sure else "which may be chance"


NO_SHIFT = Shift(UNKNOWN)


@dataclass(frozen=True)
class Change:
    """Against plain training of the same loss: MAP@R in front of other backgrounds and on clean photos, the relative drop, and
    the attribution score; of a method on top of BGAugment also MAP@R in front of other backgrounds against that alone.
    """

    corrupted: Shift
    clean: Shift
    drop: Shift
    score: Shift = NO_SHIFT
    over: Shift = NO_SHIFT


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
    """P@1 in front of other backgrounds, in percent."""
    change: Change | None = None


@dataclass(frozen=True)
class LossBlock:
    """What is compared with one another: the models of one dataset, backbone and loss, and what their classes lose."""

    of: tuple[str, str, str]
    title: str
    models: list[MethodRow]
    classes: list[dict[str, Any]]


def verdict(blocks: list[LossBlock]) -> tuple[str, str]:
    """What was found: a headline, of what plain models lose and which methods change that by more than chance; and the rest,
    which may be nothing.
    """
    losing, others = _losing(blocks)
    first, rest = list[str](), list[str]()
    models = [model for block in blocks for model in block.models]
    seeds = [m.seeds for m in models if m.method.partition("+")[0] not in names.NOT_TRAINED]
    few = bool(seeds) and min(seeds) < FEWEST_SEEDS
    if few:
        first.append(f"With {names.count(min(seeds), 'training seed')} each, this says little of methods.")
    if losing:
        up_to = "up to " * (len(losing) > 1)
        first.append(
            f"Where all backgrounds change, plain models lose {up_to}{_percent(losing[0][1].drop)} % of their MAP@R."
        )
    elif others:
        first.append("No loss beyond chance is shown where all backgrounds change.")
    changes: dict[str, list[Change]] = {}
    for block, _ in losing:
        for model in block.models:
            if model.change:
                changes.setdefault(model.title, []).append(model.change)
    helping: dict[Effects, list[str]] = {}
    for title, of in changes.items():
        if effects := _effects(of, len(losing) > 1):
            helping.setdefault(effects, []).append(title)
    told = [_helps(titles, effects, len(losing) > 1) for effects, titles in helping.items()]
    titles = [title for title in changes if any(title in some for some in helping.values())]
    of_methods = rest if few else first
    if len(titles) > 1:
        which = f": {names.listed(titles)}" * (len(titles) <= MOST_LISTED)
        of_methods.append(
            f"Of {len(changes)} methods {len(titles)} lessen the drop or raise MAP@R there, by more than chance{which}."
        )
        rest += told
    elif changes:
        none = "lessens the drop or raises MAP@R there by more than chance."
        of_methods += told or [f"No method {none}"]
        rest += [f"Of the other methods none {none}"] * (0 < len(titles) < len(changes))
    rest += _beside([change for of in changes.values() for change in of])
    if losing:
        rest += _of_each(losing, others)
    return " ".join(first) or "Nothing was trained: these are networks as they came.", " ".join(rest)


def _of_each(losing: list[tuple[LossBlock, MethodRow]], others: list[LossBlock]) -> Iterator[str]:
    """What plain training loses in each comparison, and where only the queries' backgrounds change."""
    count = len(losing) + len(others)
    if count > 1:
        of_each = [f"{_percent(plain.drop)} % ({block.title})" for block, plain in losing]
        how_much = names.listed(of_each) if len(losing) <= MOST_LISTED else f"{of_each[0]} to {of_each[-1]}"
        yield f"In {len(losing)} of {count} comparisons a loss is shown beyond chance: {how_much}."
    if others:
        yield f"None is shown on {names.listed([block.title for block in others])}."
    alone = sorted((p.query_drop for _, p in losing), key=lambda found: -found.value)
    if not math.isnan(alone[0].value):
        ends = " to ".join(_percent(found) for found in dict.fromkeys((alone[0], alone[-1])))
        yield f"Where only the queries' backgrounds change, plain models lose {ends} %."


def _losing(blocks: list[LossBlock]) -> tuple[list[tuple[LossBlock, MethodRow]], list[LossBlock]]:
    """Where plain training loses more than chance, the largest loss first; and where that is not shown."""
    plain = [(block, model) for block in blocks for model in block.models if model.method == PLAIN]
    losing = sorted((pair for pair in plain if pair[1].drop.low > 0), key=lambda pair: -pair[1].drop.value)
    return losing, [block for block, model in plain if not model.drop.low > 0]


def _effects(changes: list[Change], several: bool) -> Effects:
    """What a method does beyond chance where plain training loses, which it may do in ``several`` comparisons; nothing if it
    does not help.
    """
    lessen = sum(change.drop.less for change in changes)
    increase = sum(change.corrupted.more for change in changes)
    lower = sum(change.clean.less for change in changes)
    return (len(changes) if several else 1, lessen, increase, lower) if lessen + increase else ()


def _helps(titles: list[str], effects: Effects, several: bool) -> str:
    """What these methods do."""
    of, *counts = effects
    alone = len(titles) == 1
    said = names.listed(
        [
            f"{verb}{'s' * alone} {what}" + f" in {count}" * (of > 1)
            for (verb, what), count in zip(EFFECTS.items(), counts, strict=True)
            if count
        ]
    )
    if of > 1:
        said += f" of {of} comparisons with a loss" + " each" * (not alone)
    elif several:
        said += f" in {'its' if alone else 'their'} only comparison with a loss"
    return f"{names.listed(titles)} {said}, by more than chance."


def _beside(changes: list[Change]) -> Iterator[str]:
    """What comes on top of BGAugment against that alone, and whether methods move the look, in all comparisons with a loss."""
    if mixed := [change.over for change in changes if not math.isnan(change.over.found.value)]:
        better, worse = sum(shift.more for shift in mixed), sum(shift.less for shift in mixed)
        yield (
            f"Of {names.count(len(mixed), 'comparison')} of a mixture with BGAugment alone the mixture is better there in"
            f" {better or 'none'} and worse in {worse or 'none'}, by more than chance."
        )
    if scored := [change.score for change in changes if not math.isnan(change.score.found.value)]:
        more, less = sum(shift.more for shift in scored), sum(shift.less for shift in scored)
        yield (
            f"Of {names.count(len(scored), 'comparison')} with plain training attribution lies more on the object in"
            f" {more or 'none'}" + f" and less in {less}" * bool(less) + ", by more than chance."
        )


def of_grid(study: Study, read: dict[str, pd.DataFrame]) -> Iterator[LossBlock]:
    """The comparisons of a finished grid, from its tables by their names."""
    levels, changes = read["table1"], read.get("table3")
    lost = _lost(study)
    several = levels["backbone"].nunique() > 1
    for _, rows in levels.groupby(BLOCK, sort=False):
        models = [_model(row, changes) for row in rows.to_dict("records")]
        dataset, backbone, loss = rows[BLOCK].iloc[0]
        title = [names.dataset(dataset), *([backbone] * several), names.loss(loss)]
        own = lost[(lost[BLOCK] == [dataset, backbone, loss]).all(axis=1)]
        yield LossBlock(
            (dataset, backbone, loss),
            ", ".join(title),
            models,
            list(_classes(own, [m.method for m in models])),
        )


def _model(row: dict[Any, Any], changes: pd.DataFrame | None) -> MethodRow:
    own: list[dict[Any, Any]] = []
    if changes is not None:
        own = changes[(changes[MODEL] == [row[p] for p in MODEL]).all(axis=1)].to_dict("records")
    change = own[0] if own else {}
    is_compared = bool(own) and not math.isnan(change["corrupted_difference"])
    tested = {name: _tested(change, column) for name, column in DIFFERENCES.items() if column in change}
    return MethodRow(
        method=row["method"],
        title=names.method(row["method"]),
        seeds=int(row["seeds"]),
        corrupted=_of(row, "corrupted"),
        clean=_of(row, "clean"),
        drop=_of(row, "relative_drop"),
        query_drop=_of(row, "query_only_relative_drop"),
        score=_of(change, "ref") if own else UNKNOWN,
        first_hit=float(row["p_at_1_corrupted"]),
        change=Change(**tested) if is_compared else None,
    )


def _of(row: Mapping[Any, Any], name: str) -> Estimate:
    return Estimate(row[name], row[f"{name}_low"], row[f"{name}_high"])


def _tested(row: Mapping[Any, Any], column: str) -> Shift:
    """A difference as a table has it."""
    return Shift(_of(row, column), bool(row[f"{column}_p_holm"] < SIGNIFICANT))


def _percent(found: Estimate) -> str:
    return with_interval(found.value, found.low, found.high, 0)


def _lost(study: Study) -> pd.DataFrame:
    """MAP@R of each model's classes, as they are and in front of other backgrounds, means over seeds, draws and photos."""
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
    losing, others = _losing(blocks)
    for block, plain in losing:
        changes = [(model, model.change) for model in block.models if model.change]
        gaining = [pair for pair in changes if pair[1].corrupted.more]
        lessening = [pair for pair in changes if pair[1].drop.less]
        if gaining:
            best, change = max(gaining, key=lambda pair: pair[0].corrupted.value)
            yield (
                f"{block.title}: train with {best.title}. Where all backgrounds change it gains {_points(change.corrupted.found)}"
                f" points of MAP@R, beyond chance; on photos as they are it changes by {_points(change.clean.found)}"
                f" ({change.clean.chance}). Where they change, what is found first is right for {best.first_hit:.0f} of"
                f" 100 queries, after plain training for {plain.first_hit:.0f}."
            )
        elif lessening:
            best, change = max(lessening, key=lambda pair: pair[0].corrupted.value)
            yield (
                f"{block.title}: {best.title} changes the drop by {_points(change.drop.found)} points, beyond chance, but what it"
                f" gains where all backgrounds change, {_points(change.corrupted.found)}, may be chance: more seeds or classes"
                " would tell."
            )
        elif changes:
            yield f"{block.title}: of what was tried nothing helps by more than chance."
        if "table7" in read:
            yield from _without_training(block, read["table7"])
    if others:
        yield f"{names.listed([block.title for block in others])}: no loss beyond chance, and so no need of a cure, is shown."


def by_masks(blocks: list[LossBlock], read: dict[str, pd.DataFrame]) -> Iterator[str]:
    """Whether plain models lose more where masks are worst."""
    if "table10" not in read:
        return
    quality = read["table10"]
    for block in blocks:
        own = quality[(quality[MODEL] == [*block.of, PLAIN]).all(axis=1)].to_dict("records")
        if own and not math.isnan(own[0]["drop_more"]):
            found = _tested(own[0], "drop_more")
            why = ": the masks may be part of it, or such photos are harder" * found.more
            yield (
                f"{block.title}: between where masks are worst and where they are best the loss of plain training differs by"
                f" {_points(found.found)} points, {found.chance}{why}."
            )


def _without_training(block: LossBlock, cures: pd.DataFrame) -> Iterator[str]:
    """Of what needs no training, what brings most back of the plain model, and what brings most beside its price."""
    own = cures[
        (cures[list(BLOCK)] == list(block.of)).all(axis=1) & cures["method"].str.startswith(f"{PLAIN}+")
    ]
    gaining = own[(own["corrupted_gain_p_holm"] < SIGNIFICANT) & (own["corrupted_gain"] > 0)]
    if gaining.empty:
        if len(own):
            yield f"{block.title}: of what needs no training nothing helps the plain model by more than chance."
        return
    # What brings most back may cost more than it brings, where little changes.
    most = gaining["corrupted_gain"].idxmax()
    balanced = (gaining["corrupted_gain"] + gaining["clean_gain"]).idxmax()
    best = gaining.loc[list(dict.fromkeys((balanced, most)))].to_dict("records")
    yield f"{block.title}, without training again. {' '.join(map(_cure, best))}"


def _cure(row: Mapping[Any, Any]) -> str:
    """What a cure does to the plain model."""
    gain, paid = (_tested(row, f"{column}_gain") for column in ("corrupted", "clean"))
    title = names.method(row["method"]).partition(" + ")[2]
    return (
        f"{title[:1].upper()}{title[1:]}: {_points(gain.found)} points of MAP@R where all backgrounds change, beyond chance,"
        f" and {_points(paid.found)} on photos as they are ({paid.chance}), for {row['ms']:.0f} ms a photo; the index is"
        f" {row['index']}."
    )


def _points(found: Estimate) -> str:
    said = with_interval(found.value, found.low, found.high, 1)
    return said if found.value < 0 else f"+{said}"
