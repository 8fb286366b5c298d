"""``audit.html``: the audit as a page for people, which needs no other file. Its numbers are those of ``audit.json``."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bgbias.attribution.settings import Attribution
from bgbias.auditing import advice, findings, saved, slices, written
from bgbias.auditing.masker import BY_HAND
from bgbias.auditing.measured import Measured
from bgbias.evaluation.conditions import QUERY_ONLY, SYMMETRIC
from bgbias.report import four_fields, html, maps
from bgbias.report import queries as asking
from bgbias.report.html.pictures import inside, outlined
from bgbias.results.decomposition import DROP
from bgbias.results.rows import MAP_AT_R
from bgbias.results.uncertainty import ANY_LEVELS, Estimate
from bgbias.version import VERSION

CLASSES = 500  # rows of the page's table; classes.csv has all
SMALL = 150


def made(audit: Measured) -> str:
    """The page."""
    model = _short(audit.model.name)
    values: dict[str, Any] = {
        "title": f"{audit.collection.name}: does {model} look at the object?",
        "about": f"{model} on {audit.collection.name}: does it look at the object, or at what stands behind it?",
        "verdict": written.verdict(audit),
        "caveats": list(_caveats(audit)),
        "version": VERSION,
        "files": ["audit.json", *(name for name in saved.files(audit) if name != "audit.html")],
        "draws": audit.asked.draws,
        "leak": audit.leak,
        "levels": [],
        "queries": [],
        "looks_told": list(_of_looks(audit)),
        "maps": [
            {
                "photo": inside(outlined(m.photo, m.mask), SMALL),
                "map": inside(_coloured(m.photo, m.attribution), SMALL),
                "score": m.score,
                "image_id": m.image_id,
            }
            for m in audit.looks.maps
        ],
        "masks_told": list(_of_masks(audit)),
        "doubtful": [
            {
                "picture": inside(outlined(m.photo, m.mask), SMALL),
                "confidence": m.confidence,
                "image_id": m.image_id,
                "asked": m.image_id in audit.usable,
            }
            for m in audit.doubtful
        ],
        "advice": list(advice.of(audit)),
        "methods": " ".join(_methods(audit)),
        "facts": list(_facts(audit)),
    }
    return html.render("audit.html", values | _of_labelled(audit))


def _short(model: str) -> str:
    """A model's name for a title: of a file somewhere on a disk without its folders, which the page's end tells."""
    return Path(model).name if Path(model).is_absolute() else model


def _of_labelled(audit: Measured) -> dict[str, Any]:
    found = audit.findings
    if found is None:
        return {}
    steps = [
        {"title": written.STEP_TITLES[str(step)]} | {s: _of(rows, setting=s) for s in (QUERY_ONLY, SYMMETRIC)}
        for step, rows in found.steps.groupby("step", sort=False)
    ]
    short = findings.without_common_folder(found.classes["class_name"])
    rows = found.levels[found.levels["metric"] == MAP_AT_R]
    least = written.drop(audit).low
    tested = audit.leak is not None and not math.isnan(audit.leak.more.low + least)
    return {
        "four": four_fields.of({(audit.leak.found, least > 0): ()} if audit.leak and tested else {}),
        "levels": [
            {"title": written.LEVEL_TITLES.get(condition, condition), "condition": condition}
            | {s: _of(of, setting=s) for s in (QUERY_ONLY, SYMMETRIC)}
            for condition in written.shown(rows["condition"])
            for of in [rows[rows["condition"] == condition]]
        ],
        "steps": steps,
        "relative": {s: written.drop(audit, s) for s in (QUERY_ONLY, SYMMETRIC)},
        "points": {s: written.drop(audit, s, "points") for s in (QUERY_ONLY, SYMMETRIC)},
        "spread": _spread(steps, audit.thirds),
        "of_the_drop": list(_of_the_drop(audit)),
        "classes_told": (
            "MAP@R in percent, of queries as they are (clean) and on other backgrounds (changed); lost: points; sd: of what"
            " a class's photos lose."
        ),
        "classes": [
            {"name": short[row["class_name"]], "picture": audit.portraits.get(row["class_name"], "")}
            | {key: row[key] for key in ("queries", "unsure_masks", "clean", "corrupted", "lost", "sd")}
            for row in found.classes.head(CLASSES).to_dict("records")
        ],
        "more_classes": (
            f"The {CLASSES} that lose most; classes.csv has all {len(found.classes)}."
            if len(found.classes) > CLASSES
            else ""
        ),
        "thirds": audit.thirds,
        "properties": slices.PROPERTIES,
        "digits": {prop: _digits(audit.thirds, prop) for prop in slices.PROPERTIES},
        "queries": asking.on_page(audit.queries),
    }


def _digits(thirds: tuple[slices.Third, ...], prop: str) -> int:
    """Of the ends of thirds: as many as tell them apart, from two to six."""
    ends = [(third.least, third.most) for third in thirds if third.prop == prop and third.least < third.most]
    return next((n for n in range(2, 6) if all(f"{a:.{n}f}" != f"{b:.{n}f}" for a, b in ends)), 6)


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


def _coloured(photo: np.ndarray, attribution: np.ndarray) -> np.ndarray:
    return np.round(255 * maps.overlay(photo, attribution)).astype(np.uint8)


def _caveats(audit: Measured) -> Iterator[str]:
    """What a reader of the verdict must know at once."""
    yield f"{len(audit.collection):,} photos, {written.queries(audit):,} of them queries. Masks: {audit.masker}."
    yield from (f"Photos: {line}." for line in audit.collection.remarks)
    yield from (f"Masks: {line}." for line in audit.remarks)
    yield from (f"Queries: {line}." for line in written.evidence(audit))
    yield from _of_small_masks(audit)
    if not math.isnan(written.drop(audit).low):
        assert audit.findings is not None
        few = len(audit.findings.classes) < ANY_LEVELS
        skewed = " Of so few classes it is too short where most are easy." if few else ""
        yield (
            "[low, high]: 95 % confidence interval, for other classes of this kind; of a part of the queries, and where cues"
            f" conflict, for other classes of queries in the catalogue as it is.{skewed}"
        )


def _of_small_masks(audit: Measured) -> Iterator[str]:
    """That queries of small or unsure masks lose more than the others, if they do beyond chance: it may be the masks' doing."""
    of = {"area": "cover least of the photo", "confidence": "the masker was least sure of"}
    parts = []
    for prop, which in of.items():
        thirds = [third for third in audit.thirds if third.prop == prop]
        if thirds and thirds[0].lost.low > thirds[-1].lost.high:
            least, most = (written.said(third.lost) for third in (thirds[0], thirds[-1]))
            parts.append(
                f"whose masks {which} loses {least} points of MAP@R, the third at the other end {most}"
            )
    if parts:
        yield (
            f"The third of the queries {'; the third '.join(parts)}. See among the queries that lose most whether their masks are"
            " on the object. Where they are not, the loss is the masks' and not the model's."
        )


def _of_the_drop(audit: Measured) -> Iterator[str]:
    """The steps in words: which is beyond chance, and which is not."""
    found = audit.findings
    assert found is not None
    rows = found.steps[(found.steps["setting"] == QUERY_ONLY) & (found.steps["step"] != DROP)]
    meant = {
        "pasting": "what cutting out and pasting costs by itself, with masks as they are",
        "own_background": "what the photo's very own background told",
        "class_background": "what the class's backgrounds have in common",
    }
    if len(rows) and rows["low"].notna().all():
        sure = "; ".join(meant[row["step"]] for _, row in rows.iterrows() if row["low"] > 0)
        yield f"Where only queries change, beyond chance: {sure or 'none of the three, each by itself'}."
    alone = written.level(audit, "only_fg")
    yield (
        "What a mask misses of the object stays in the picture where the background is its own, and counts as background."
        f" With the object alone on grey, in queries and catalogue, MAP@R is {written.said(alone, 1)}."
    )
    if not math.isnan(found.conflict.value):
        yield (
            "In front of another class's background, of the queries that find either class first,"
            f" {written.said(found.conflict)} % follow the background; if errors fell on all classes alike, it would be"
            f" {html.percent(written.conflict_of_errors(audit), 0)} %."
        )


def _of_looks(audit: Measured) -> Iterator[str]:
    mean, scores = audit.looks.mean, audit.looks.scores["score"].dropna()
    if audit.looks.how == "none":
        yield "Not known: the model ran elsewhere."
    elif not audit.asked.attribution:
        yield "Not asked for (--attribution)."
    elif math.isnan(mean.value):
        yield "No photo has a score."
    else:
        how = (
            "from the gradients of the embedding's similarity to that of a black picture"
            if audit.looks.how == "gradients"
            else "by blurring one place after the other, because the model has no gradients"
        )
        score = html.interval(mean.value, mean.low, mean.high, 2, scale=1)
        yield (
            f"Attribution score by {audit.looks.how} {score}, the mean of {len(scores)} photos, {how}"
            f" ({written.ATTRIBUTION_SCALE})."
        )
        rho, count = written.score_and_loss(audit)
        if not math.isnan(rho):
            yield (
                f"Does the score tell what is lost? Rank correlation {html.number(rho, 2)} over {count} queries (−1: the more"
                " lies on the object, the less is lost; 0: it tells nothing). Queries of a class are alike, so that no interval"
                " is given: a few dozen say little."
            )
    if audit.shares is not None:
        parts = written.shares_in_words(audit.shares)
        yield f"What embeddings tell apart, of the same objects in front of the same backgrounds: {parts}."


def _of_masks(audit: Measured) -> Iterator[str]:
    masks, count = audit.qualities, len(audit.collection)
    area, sure = (float(masks[name].mean()) for name in ("area", "confidence"))
    empty, full = (int(masks[name].sum()) for name in ("empty", "full"))
    confidence = f", mean confidence {html.number(sure, 2)}" if audit.doubtful else ""
    empties = (
        f"{empty} {'is' if empty == 1 else 'are'} empty or next to it,"
        f" {full} {'covers' if full == 1 else 'cover'} the whole photo"
    )
    yield from _trusted(audit)
    yield (
        f"Masks: {audit.masker}. {len(audit.usable):,} of {count:,} photos have a mask of a plausible size; {empties}. Mean"
        f" area {html.percent(area, 0)} %{confidence}."
    )


def _trusted(audit: Measured) -> Iterator[str]:
    """The answer, as far as the masker can tell."""
    if audit.findings is None:
        return
    if audit.masker.endswith(BY_HAND):
        yield "They were drawn by hand, and are taken as right."
        return
    known = audit.qualities["confidence"].notna()
    if not known.any():
        yield "The masker does not say how sure it is: look at the masks of the queries that lose most."
        return
    if audit.surely is None:
        drawn = "" if known.all() else "; drawn ones are taken as right"
        yield f"The masker was sure of all queries that it masked (a confidence of {slices.UNSURE} or more){drawn}."
    elif not written.many_unsure(audit):
        yield f"Numbers alone cannot tell. {written.of_sure_masks(audit)}{_by_these(audit.surely.drop)}"
    told = [f"{sentence}{_by_these(drop)}" for sentence, drop in written.of_better_masks(audit)]
    if audit.surely is not None and written.many_unsure(audit):
        told.insert(0, "In part." if audit.surely.queries else "No.")
    if told:
        yield " ".join(told)
    yield (
        "Confidence says how clearly the masker saw something, not whether it is the object that you mean: look at the masks of"
        " the queries that lose most."
    )


def _by_these(drop: Estimate) -> str:
    stands = "A loss is shown" if drop.low > 0 else "No loss beyond chance is shown"
    return "" if math.isnan(drop.low) else f" {stands} by these alone."


def _methods(audit: Measured) -> Iterator[str]:
    """A paragraph for a paper."""
    asked, trusted = audit.asked, len(audit.usable)
    behind = audit.backgrounds.told.partition(";")[0]
    masked = (
        f"Of {len(audit.collection):,} photos {trusted:,} had a mask of a plausible size; the others kept their background and"
        " were no queries."
        if trusted < len(audit.collection)
        else f"All {trusted:,} photos had a mask of a plausible size."
    )
    yield (
        f"Following Kobs & Hotho (2022), objects were cut out by masks ({audit.masker}) and pasted in front of {asked.draws}"
        f" random backgrounds each (of a pool of {behind}). {masked}"
    )
    found = audit.findings
    if found is not None:
        yield (
            f"Retrieval by cosine similarity of {audit.model.name} ({audit.model.dim} dimensions) was measured by MAP@R"
            " (Musgrave et al. 2020) with queries as they are and with pasted ones, in the gallery of photos as they are, the"
            " query itself left out."
        )
        if not math.isnan(written.drop(audit).low):
            yield (
                "Intervals are 95 %, by the delete-one-class jackknife with Student's t, since queries of a class are not"
                " independent (MacKinnon, Nielsen & Webb 2023)."
            )
        if len(found.steps):
            yield (
                "The drop was decomposed by pasting objects onto their own inpainted backgrounds and onto those of other photos"
                " of their class."
            )
    if audit.looks.how == "gradients" and audit.looks.maps:
        yield (
            f"Attribution is SmoothGrad ({Attribution().samples} samples) of the embedding's similarity to that of a black"
            " picture."
        )
    if audit.looks.how == "occlusion" and audit.looks.maps:
        yield "Attribution is by occlusion (Zeiler & Fergus 2014), blurring one place after the other."


def _facts(audit: Measured) -> Iterator[tuple[str, str]]:
    asked = audit.asked
    if audit.command:
        yield "command", audit.command
    collection = audit.collection
    yield "photos", "; ".join([f"{collection.name}, digest {collection.digest}", *collection.told()])
    yield "model", "; ".join(written.of_model(audit))
    yield "backgrounds", f"{audit.backgrounds.told}; digest {audit.backgrounds.digest[:16]}"
    yield "conditions", ", ".join(asked.conditions)
    yield (
        "asked",
        f"{asked.draws} backgrounds a photo, {asked.attribution} photos for attribution, {asked.objects} objects in front of"
        f" {asked.backgrounds} backgrounds for shares of variance",
    )
