"""``audit.html``: the audit as a page for people, which needs no other file. Its numbers are those of ``audit.json``."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from bgbias.attribution.settings import Attribution
from bgbias.auditing import findings, saved, slices, workplace, written
from bgbias.auditing.masker import BY_HAND
from bgbias.auditing.measured import Measured
from bgbias.evaluation.conditions import CLEAN, QUERY_ONLY, RANDOM_BACKGROUND, SYMMETRIC
from bgbias.photos.examination import TURNED_MASKS
from bgbias.report import html, maps
from bgbias.report import queries as asking
from bgbias.report.html.pictures import inside, outlined
from bgbias.results.decomposition import DROP
from bgbias.results.uncertainty import FEWEST_CLASSES, FEWEST_HARD, Estimate
from bgbias.version import VERSION

CLASSES = 500  # rows of the page's table; classes.csv has all
SMALL = 150
STRONGER = "birefnet_lite"  # a masker than the default one
STEPS = {
    "pasting": "what cutting out and pasting costs by itself, with masks as they are",
    "own_background": "what the photo's very own background told",
    "class_background": "what the class's backgrounds have in common",
}


def made(audit: Measured) -> str:
    """The page."""
    model = workplace.without_folders(audit.model.name)
    values: dict[str, Any] = {
        "title": f"{audit.collection.name}: does {model} look at the object?",
        "about": f"{model} on {audit.collection.name}: does it look at the object, or at what stands behind it?",
        "verdict": written.verdict(audit),
        "audit": audit,
        "number_of_queries": written.queries(audit),
        "guesses": written.guesses(audit),
        "of_turned_masks": [o.told() for o in audit.collection.oddities if o.name in TURNED_MASKS],
        "evidence": list(written.evidence(audit)),
        "lost": written.drop(audit),
        "said": written.said,
        "interval": html.interval,
        "version": VERSION,
        "files": ["audit.json", *(name for name in saved.files(audit) if name != "audit.html")],
        "levels": [],
        "queries": [],
        "scale": written.ATTRIBUTION_SCALE,
        "score_and_loss": written.score_and_loss(audit),
        "samples": Attribution().samples,
        "shares": written.shares_in_words(audit.shares) if audit.shares else "",
        "maps": [
            {
                "photo": inside(outlined(m.photo, m.mask), SMALL),
                "map": inside(_coloured(m.photo, m.attribution), SMALL),
                "score": m.score,
                "image_id": m.image_id,
            }
            for m in audit.looks.maps
        ],
        "trusted": list(_trusted(audit)),
        "doubtful": [
            {
                "picture": inside(outlined(m.photo, m.mask), SMALL),
                "clarity": m.clarity,
                "image_id": m.image_id,
                "asked": m.image_id in audit.usable,
            }
            for m in audit.doubtful
        ],
        "advice": list(advice(audit)),
        "facts": list(_facts(audit)),
    }
    return html.render("audit.html", values | _of_labelled(audit))


def _of_labelled(audit: Measured) -> dict[str, Any]:
    found = audit.findings
    if found is None:
        return {}
    steps = [
        {"title": written.STEP_TITLES[str(step)]}
        | {s: written.estimate(rows, setting=s) for s in (QUERY_ONLY, SYMMETRIC)}
        for step, rows in found.steps.groupby("step", sort=False)
    ]
    short = findings.without_common_folder(found.classes["class_name"])
    least = written.drop(audit).low
    tested = audit.leak is not None and not math.isnan(audit.leak.more.low + least)
    return {
        "four": {(audit.leak.found, least > 0): ()} if audit.leak and tested else {},
        "levels": [
            {"title": written.LEVEL_TITLES.get(condition, condition), "condition": condition}
            | {s: written.level(audit, condition, s) for s in (QUERY_ONLY, SYMMETRIC)}
            for condition in written.shown(found.levels["condition"])
        ],
        "steps": steps,
        "relative": {s: written.drop(audit, s) for s in (QUERY_ONLY, SYMMETRIC)},
        "points": {s: written.drop(audit, s, "points") for s in (QUERY_ONLY, SYMMETRIC)},
        "spread": _spread(steps, audit.thirds),
        "beyond_chance": _beyond_chance(audit),
        "alone": written.level(audit, "only_fg"),
        "conflict": found.conflict,
        "conflict_of_errors": written.conflict_of_errors(audit),
        "classes": [
            {"name": short[row["class_name"]], "picture": audit.portraits.get(row["class_name"], "")}
            | {key: row[key] for key in ("queries", "unsure_masks", "clean", "corrupted", "lost", "sd")}
            for row in found.classes.head(CLASSES).to_dict("records")
        ],
        "number_of_classes": len(found.classes),
        "fewest_hard": FEWEST_HARD,
        "properties": slices.PROPERTIES,
        "queries": asking.on_page(audit.queries),
    }


def _spread(steps: list[dict[str, Any]], thirds: tuple[slices.Third, ...]) -> tuple[int, int]:
    """The ends of the lines that points are drawn on, in tens of points."""
    every = [step[s] for step in steps for s in (QUERY_ONLY, SYMMETRIC)] + [third.lost for third in thirds]
    ends = np.array([[e.value, e.low, e.high] for e in every or [Estimate(0.0)]])
    low, high = 100 * np.nanmin(ends, initial=0), 100 * np.nanmax(ends, initial=0.1)
    return 10 * math.floor(max(low, -100) / 10), 10 * math.ceil(min(high, 100) / 10)


def _coloured(photo: np.ndarray, attribution: np.ndarray) -> np.ndarray:
    return np.round(255 * maps.overlay(photo, attribution)).astype(np.uint8)


def _beyond_chance(audit: Measured) -> str | None:
    """The steps that are beyond chance where only queries change, in words; None where nobody can tell."""
    assert audit.findings is not None
    rows = audit.findings.steps
    rows = rows[(rows["setting"] == QUERY_ONLY) & (rows["step"] != DROP)]
    if not len(rows) or rows["low"].isna().any():
        return None
    return "; ".join(STEPS[step] for step in rows.loc[rows["low"] > 0, "step"])


def _trusted(audit: Measured) -> Iterator[str]:
    """The answer, as far as the masker can tell."""
    if audit.findings is None:
        return
    if audit.masker.endswith(BY_HAND):
        yield "They were drawn by hand, and are taken as right."
        return
    known = audit.qualities["clarity"].notna()
    if not known.any():
        yield "This masker is in doubt of no pixel: look at the masks of the queries that lose most."
        return
    if audit.surely is None:
        drawn = "" if known.all() else "; drawn ones are taken as right"
        yield f"Numbers alone cannot tell. All masks that were made are clear ({slices.UNSURE} or more){drawn}."
    elif not written.many_unsure(audit):
        yield f"Numbers alone cannot tell. {written.of_sure_masks(audit)}{_by_these(audit.surely.drop)}"
    told = [f"{sentence}{_by_these(drop)}" for sentence, drop in written.of_better_masks(audit)]
    if audit.surely is not None and written.many_unsure(audit):
        told.insert(0, "In part." if audit.surely.queries else "No.")
    if told:
        yield " ".join(told)
    yield (
        "A mask is clear if it is one piece, and no pixel is in doubt. That does not say whether it is the object that you mean:"
        " two in five wrong masks are clear (docs/masks.md). Look at the masks of the queries that lose most."
    )


def _by_these(drop: Estimate) -> str:
    stands = "A loss is shown" if drop.low > 0 else "No loss beyond chance is shown"
    return "" if math.isnan(drop.low) else f" {stands} by these alone."


def advice(audit: Measured) -> Iterator[str]:
    """What the numbers suggest to do, each with what was measured of it on this very model."""
    if guesses := written.guesses(audit):
        yield " ".join(guesses)
    if audit.findings is None:
        yield "Name the photos' classes: then this page says what is lost, and in which classes."
        return
    drop = written.drop(audit)
    if written.hardly_finds(audit):
        yield (
            "Find out why the model finds nothing before anything else is asked. Usual causes: weights that were not loaded,"
            " another preparation than in training (--mean, --std, --size), labels that do not say which photos look alike."
        )
        return
    if math.isnan(drop.low):
        few = len(audit.findings.classes) < FEWEST_CLASSES
        yield (
            "Nothing yet: with fewer than five classes nobody can tell the drop from chance. Take more classes."
            if few
            else "Nothing yet: too few queries have a trusted mask and another photo of their class to find. Take at least four"
            " photos of each class."
        )
        return
    if drop.low <= 0:
        large = f"one of {html.percent(drop.high, 0)} %" if drop.high < 1 else "a large one"
        yield (
            f"Undecided, which clears the model of nothing: no loss agrees with these classes, and so does {large}. Take more"
            " classes; more photos of the same ones help less."
        )
        return
    if doubtful := bool(written.of_better_masks(audit)):
        why = "many are unclear" if written.many_unsure(audit) else "those that may be wrong lose most"
        better = "" if STRONGER in audit.masker else f" try a stronger masker (--masker {STRONGER}), or"
        yield f"Better masks first, since {why}:{better} draw masks (--masks), and see whether the drop stays."
    if not audit.backgrounds.photographed:
        yield (
            "Backgrounds were drawn patterns: before money is spent, ask again with photos of places where objects will be seen"
            " (--backgrounds FOLDER)."
        )
    grey, clean, then = (written.level(audit, c) for c in ("only_fg", CLEAN, RANDOM_BACKGROUND))
    if grey.value > then.value:
        yield (
            f"Grey backgrounds, in queries and catalogue, may help where backgrounds really differ: MAP@R"
            f" {written.said(grey, 1)}, against {written.said(then, 1)} when all of them differ; on photos as they are it is"
            f" {written.said(clean, 1)}. Masks were"
            " those of the photos as they are; in use every query needs one, found in front of whatever background comes. Whether"
            " the gain is more than chance was not tested."
        )
    yield "If you can train the model: BGAugment puts objects in front of random backgrounds, and needs masks in training alone."
    yield "Photograph what loses most in several places, and add these photos to the catalogue."
    steps = audit.findings.steps
    pasting = steps[(steps["setting"] == QUERY_ONLY) & (steps["step"] == "pasting")]
    if len(pasting) and not doubtful and pasting["low"].iloc[0] > 0:
        yield (
            "Part of the drop is pasting itself: try another masker (--masker), or draw masks (--masks), and see whether it"
            " stays."
        )


def _facts(audit: Measured) -> Iterator[tuple[str, str]]:
    asked = audit.asked
    if audit.command:
        yield "command", workplace.without_folders(audit.command)
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
