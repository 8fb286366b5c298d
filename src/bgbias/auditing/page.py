"""``audit.html``: the audit as a page for people, which needs no other file. Its numbers are those of ``audit.json``."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from bgbias.auditing import findings, slices, written
from bgbias.auditing.measured import Measured
from bgbias.auditing.shown import FoundPhoto, ShownQuery
from bgbias.evaluation.conditions import CLEAN, QUERY_ONLY, RANDOM_BACKGROUND, SYMMETRIC
from bgbias.report import html, maps
from bgbias.report.html.pictures import inside, outlined
from bgbias.results.rows import MAP_AT_R
from bgbias.results.uncertainty import Estimate
from bgbias.version import VERSION

CLASSES = 500  # rows of the page's table; classes.csv has all
SIDE, SMALL, TINY = 260, 150, 84
PORTRAIT = 56
# Does the dataset leak? Does the model lean on it?
MEANINGS = {
    (
        True,
        True,
    ): "Backgrounds tell the class, and the model uses them. Where objects will be seen elsewhere, cure it.",
    (True, False): "Backgrounds tell the class, and the model does without.",
    (
        False,
        True,
    ): "Backgrounds tell nothing of the class and disturb all the same: an embedding with less of them is better"
    " everywhere.",
    (False, False): "Backgrounds tell nothing, and change nothing.",
}
KINDS = {
    "worst": (
        "The queries that lose most",
        "Chosen for their loss: they show how it happens, not how often.",
    ),
    "random": ("Queries by lot", "Chosen by lot, against cherry-picking."),
}


def made(audit: Measured) -> str:
    """The page."""
    values: dict[str, Any] = {
        "title": f"{audit.collection.name}: does {audit.model.name} look at the object?",
        "about": f"{audit.model.name} on {audit.collection.name}: does it look at the object, or at what stands behind it?",
        "verdict": written.verdict(audit),
        "caveats": list(_caveats(audit)),
        "version": VERSION,
        "draws": audit.asked.draws,
        "leak": audit.leak,
        "levels": [],
        "queries": [],
        "looks_told": list(_of_looks(audit)),
        "maps": [
            {
                "photo": inside(outlined(m.photo, m.mask), SMALL),
                "map": inside(_coloured(m.photo, m.attribution), SMALL),
            }
            | {"score": m.score}
            for m in audit.looks.maps
        ],
        "masks_told": list(_of_masks(audit)),
        "doubtful": [
            {"picture": inside(outlined(m.photo, m.mask), SMALL), "confidence": m.confidence}
            for m in audit.doubtful
        ],
        "advice": list(_advice(audit)),
        "methods": " ".join(_methods(audit)),
        "facts": list(_facts(audit)),
    }
    return html.render("audit.html", values | _of_labelled(audit))


def _of_labelled(audit: Measured) -> dict[str, Any]:
    found = audit.findings
    if found is None:
        return {}
    lost = written.drop(audit, unit="points")
    steps = [
        {"title": written.STEP_TITLES[str(step)]} | {s: _of(rows, setting=s) for s in (QUERY_ONLY, SYMMETRIC)}
        for step, rows in found.steps.groupby("step", sort=False)
    ]
    if steps:
        total = {s: written.drop(audit, s, "points") for s in (QUERY_ONLY, SYMMETRIC)}
        steps.append({"title": "the drop"} | total)
    short = findings.without_common_folder(found.classes["class_name"])
    rows = found.levels[found.levels["metric"] == MAP_AT_R]
    return {
        "here": (audit.leak is not None and audit.leak.found, lost.low > 0),
        "meanings": MEANINGS,
        "levels": [
            {"title": written.LEVEL_TITLES.get(str(condition), str(condition))}
            | {s: _of(of, setting=s) for s in (QUERY_ONLY, SYMMETRIC)}
            for condition, of in rows.groupby("condition", sort=False)
        ],
        "steps": steps,
        "spread": _spread(steps, audit.thirds),
        "of_the_drop": list(_of_the_drop(audit)),
        "classes_told": (
            f"{findings.suffering(found.classes)} of {len(found.classes)} classes lose more than half of their MAP@R. In percent;"
            " sd: of what a class's photos lose."
        ),
        "classes": [
            {"name": short[row["class_name"]], "picture": _portrait(audit, row["class_name"])}
            | {key: row[key] for key in ("queries", "clean", "corrupted", "lost", "sd")}
            for row in found.classes.head(CLASSES).to_dict("records")
        ],
        "more_classes": (
            f"The {CLASSES} that lose most; classes.csv has all {len(found.classes)}."
            if len(found.classes) > CLASSES
            else ""
        ),
        "thirds": audit.thirds,
        "properties": slices.PROPERTIES,
        "queries": [
            {
                "id": name,
                "title": KINDS[name][0],
                "told": KINDS[name][1],
                "queries": [_query(q) for q in queries],
            }
            for name, queries in audit.queries.items()
        ],
    }


def _of(rows: pd.DataFrame, **where: str) -> Estimate:
    for key, value in where.items():
        rows = rows[rows[key] == value]
    (row,) = rows.to_dict("records")
    return Estimate(row["value"], row["low"], row["high"])


def _spread(steps: list[dict[str, Any]], thirds: tuple[slices.Third, ...]) -> tuple[int, int]:
    """The ends of the lines that points are drawn on, in tens of points."""
    every = [step[s] for step in steps for s in (QUERY_ONLY, SYMMETRIC)] + [third.lost for third in thirds]
    ends = np.array([[e.value, e.low, e.high] for e in every or [Estimate(0.0)]])
    low, high = 100 * np.nanmin(ends, initial=0), 100 * np.nanmax(ends, initial=0.1)
    return 10 * math.floor(max(low, -100) / 10), 10 * math.ceil(min(high, 100) / 10)


def _portrait(audit: Measured, name: str) -> str:
    return inside(audit.portraits[name], PORTRAIT) if name in audit.portraits else ""


def _query(query: ShownQuery) -> dict[str, Any]:
    def of(found: tuple[FoundPhoto, ...]) -> list[dict[str, Any]]:
        return [
            {"class_name": f.class_name, "right": f.right, "picture": inside(f.picture, TINY)} for f in found
        ]

    return {
        "class_name": query.class_name,
        "clean": query.clean,
        "corrupted": query.corrupted,
        "views": [
            {
                "name": "own",
                "words": "as it is, with its mask",
                "picture": inside(outlined(query.photo, query.mask), SIDE),
                "found": of(query.found),
            },
            {
                "name": "elsewhere",
                "words": "in front of another background",
                "picture": inside(query.elsewhere, SIDE),
                "found": of(query.found_elsewhere),
            },
        ],
    }


def _coloured(photo: np.ndarray, attribution: np.ndarray) -> np.ndarray:
    return np.round(255 * maps.overlay(photo, attribution)).astype(np.uint8)


def _caveats(audit: Measured) -> Iterator[str]:
    """What a reader of the verdict must know at once."""
    yield f"{len(audit.collection):,} photos, {written.queries(audit):,} of them queries. Masks: {audit.masker}."
    yield from audit.collection.remarks
    yield from (f"Masks: {line}." for line in audit.remarks)


def _of_the_drop(audit: Measured) -> Iterator[str]:
    """The steps in words: which is beyond chance, and which is not."""
    found = audit.findings
    assert found is not None
    rows = found.steps[found.steps["setting"] == QUERY_ONLY]
    meant = {
        "pasting": "what cutting out and pasting costs by itself, with masks as they are",
        "own_background": "what the photo's very own background told",
        "class_background": "what the class's backgrounds have in common",
    }
    sure = [meant[row["step"]] for _, row in rows.iterrows() if row["low"] > 0]
    if len(rows):
        told = "; ".join(sure) if sure else "none of the three"
        yield f"Beyond chance: {told}."
    alone = _of(found.levels[found.levels["metric"] == MAP_AT_R], setting=SYMMETRIC, condition="only_fg")
    yield (
        "What a mask misses of the object stays in the picture where the background is its own, and counts as background."
        f" The object alone on grey, in queries and catalogue, has a MAP@R of {html.percent(alone.value)}."
    )
    if not math.isnan(found.conflict.value):
        ends = (
            ""
            if math.isnan(found.conflict.low)
            else (f" [{html.percent(found.conflict.low, 0)}, {html.percent(found.conflict.high, 0)}]")
        )
        yield (
            "In front of another class's background, of the queries that find either class first,"
            f" {html.percent(found.conflict.value, 0)}{ends} % follow the background."
        )


def _of_looks(audit: Measured) -> Iterator[str]:
    mean, scores = audit.looks.mean, audit.looks.scores["score"].dropna()
    if math.isnan(mean.value):
        yield "Not asked for, or nothing to be had: the model ran elsewhere, or no photo has a score."
    else:
        ends = "" if math.isnan(mean.low) else f" [{html.number(mean.low, 2)}, {html.number(mean.high, 2)}]"
        how = (
            "gradients"
            if audit.looks.how == "gradients"
            else "blurring one place after the other, for want of gradients"
        )
        yield f"Attribution score {html.number(mean.value, 2)}{ends}, the mean of {len(scores)} photos, by {how}."
        if audit.findings is not None:
            both = audit.findings.photos.merge(
                audit.looks.scores[["image_id", "score"]].dropna(), on="image_id"
            )
            rho = both["score"].corr(both["lost"], method="spearman")
            if len(both) >= slices.FEWEST and not math.isnan(rho):
                yield (
                    f"Whether the score tells what a photo loses: rank correlation {html.number(rho, 2)} over {len(both)} of"
                    " these photos (−1: the higher the score, the less is lost)."
                )
    if audit.shares is not None:
        parts = ", ".join(
            f"{html.percent(v, 0)} % {name}" for name, v in findings.told_shares(audit.shares).items()
        )
        yield f"What embeddings tell apart, of the same objects in front of the same backgrounds: {parts}."


def _of_masks(audit: Measured) -> Iterator[str]:
    masks, count = audit.qualities, len(audit.collection)
    area, sure = (float(masks[name].mean()) for name in ("area", "confidence"))
    empty, full = (int(masks[name].sum()) for name in ("empty", "full"))
    yield (
        f"{audit.masker}. {len(audit.usable):,} of {count:,} photos have a mask that can be trusted; {empty} show nothing, {full}"
        f" everything. Mean area {html.percent(area, 0)} %, mean confidence {html.number(sure, 2)}."
    )


def _advice(audit: Measured) -> Iterator[str]:
    """What the numbers suggest, each with what was measured of it on this model."""
    found = audit.findings
    if found is None:
        yield "Name the photos' classes: then this page says what is lost, and by whom."
        return
    drop = written.drop(audit, unit="points")
    if not drop.low > 0:
        yield "Nothing, as far as these photos say: the drop may be chance. More classes make it surer."
        return
    rows = found.levels[(found.levels["metric"] == MAP_AT_R) & (found.levels["setting"] == SYMMETRIC)]
    levels = rows.set_index("condition")["value"]
    grey, clean, then = (levels[c] for c in ("only_fg", CLEAN, RANDOM_BACKGROUND))
    yield (
        f"Grey out every background, of queries and catalogue, by the same masker: MAP@R is {html.percent(grey)} then, wherever"
        f" the objects stand; it is {html.percent(clean)} on photos as they are and {html.percent(then)} when all backgrounds"
        " differ."
        " It costs a mask for every query."
    )
    yield "Train with BGAugment: objects in front of random backgrounds. It needs masks in training alone (docs/cures.md)."
    yield "Photograph what loses most in several places, and add these photos to the catalogue."
    pasting = found.steps[(found.steps["setting"] == QUERY_ONLY) & (found.steps["step"] == "pasting")]
    if len(pasting) and pasting["low"].iloc[0] > 0:
        yield (
            "Part of the drop is pasting itself: try another masker (--masker), or masks that somebody drew (--masks), and see"
            " whether it stays."
        )


def _methods(audit: Measured) -> Iterator[str]:
    """A paragraph for a paper."""
    asked = audit.asked
    yield (
        f"Following Kobs & Hotho (2022), each of {len(audit.collection):,} photos was masked ({audit.masker}), and its object was"
        f" pasted in front of {asked.draws} random backgrounds ({audit.backgrounds.told.partition(';')[0]})."
    )
    if audit.findings is not None:
        yield (
            f"Retrieval by cosine similarity of {audit.model.name} ({audit.model.dim} dimensions) was measured by MAP@R"
            " (Musgrave et al. 2020) with clean queries and with pasted ones in the clean gallery, the query itself left out."
            " Intervals are 95 %, by the delete-one-class jackknife with Student's t, since queries of a class are not"
            " independent (MacKinnon, Nielsen & Webb 2023). The drop was decomposed by pasting objects onto their own inpainted"
            " backgrounds and onto those of other photos of their class."
        )
    if audit.looks.how == "gradients":
        yield "Attribution is SmoothGrad (25 samples) of the embedding's similarity to that of a black picture."


def _facts(audit: Measured) -> Iterator[tuple[str, str]]:
    asked = audit.asked
    yield "photos", f"{audit.collection.name}, digest {audit.collection.digest}"
    yield from (("photos", line) for line in audit.collection.told())
    yield "model", f"{audit.model.name}, {audit.model.look}"
    yield from (("model", line) for line in audit.model.told)
    yield "backgrounds", f"{audit.backgrounds.told}; digest {audit.backgrounds.digest[:16]}"
    yield "conditions", ", ".join(asked.conditions)
    yield (
        "asked",
        f"{asked.draws} backgrounds a photo, {asked.attribution} photos for attribution, {asked.objects} objects in front of"
        f" {asked.backgrounds} backgrounds for shares of variance",
    )
