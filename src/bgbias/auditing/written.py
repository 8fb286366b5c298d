"""An audit in words: the verdict, the lines of the terminal, and what a reader must know of both."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import numpy as np
import pandas as pd

from bgbias.auditing import findings, workplace
from bgbias.auditing.findings import Findings
from bgbias.auditing.measured import Measured
from bgbias.auditing.slices import UNSURE
from bgbias.evaluation.conditions import CLEAN, QUERY_ONLY, RANDOM_BACKGROUND, SYMMETRIC
from bgbias.evaluation.variance import Shares
from bgbias.report import html
from bgbias.report.columns import NOTHING
from bgbias.results import conflict, correlation
from bgbias.results.decomposition import DROP
from bgbias.results.rows import MAP_AT_R, PRECISION_AT_1
from bgbias.results.uncertainty import FEWEST_CLASSES, Estimate

WORST = 10
FEWEST_QUERIES = 20  # fewer say next to nothing
HARDLY = (
    2,
    0.1,
)  # times chance, and of the way from chance to 1: a model below both finds hardly more than chance
MANY_UNSURE = 0.1  # of the queries have an unsure mask: the verdict hangs on masks
STEP_TITLES = {
    "pasting": "cutting and pasting alone",
    "own_background": "this very background",
    "class_background": "the class's backgrounds",
    DROP: "together",
}
ATTRIBUTION_SCALE = (
    "1: all on the object, 0: spread over the photo; comparable only between models asked in the same way"
)
# In the order in which people read them: each step of the drop goes from one to the next.
LEVEL_TITLES = {
    CLEAN: "as they are",
    "own_inpainted": "object on its own background, filled",
    "mixed_same": "on a background of its class",
    RANDOM_BACKGROUND: "on random backgrounds",
    "mixed_rand": "on a background of another class",
    "only_fg": "object alone, on grey",
    "no_fg": "object greyed out",
    "only_bg": "background alone, filled",
}


def drop(audit: Measured, setting: str = QUERY_ONLY, unit: str = "relative") -> Estimate:
    """The drop of MAP@R, 0..1: ``relative`` or in ``points``; unknown without labels."""
    if audit.findings is None:
        return Estimate(math.nan)
    return estimate(audit.findings.drops, setting=setting, unit=unit)


def level(audit: Measured, condition: str, setting: str = SYMMETRIC) -> Estimate:
    """MAP@R, 0..1, in a condition; by default with queries and catalogue alike."""
    assert audit.findings is not None
    return estimate(audit.findings.levels, metric=MAP_AT_R, setting=setting, condition=condition)


def estimate(rows: pd.DataFrame, **where: str) -> Estimate:
    """The value with its interval of the one row in which these columns have these values."""
    for column, value in where.items():
        rows = rows[rows[column] == value]
    (row,) = rows.to_dict("records")
    return Estimate(row["value"], row["low"], row["high"], row.get("p", math.nan))


def said(found: Estimate, digits: int = 0) -> str:
    """A share and its interval in percent, as sentences of the page say them."""
    return html.interval(found.value, found.low, found.high, digits)


def verdict(audit: Measured) -> str:
    """One sentence or two, with its interval; what cannot be said is said."""
    found = audit.findings
    if found is None:
        moved = float(audit.shift[RANDOM_BACKGROUND].mean())
        text = f"Another background leaves a photo's embedding at a cosine of {moved:.2f} to itself"
        if audit.shares is not None:
            text += f"; {100 * audit.shares.background:.0f} % of what embeddings tell apart is the background"
        return f"{text}. Without classes nothing can be said of what is found."
    lost = drop(audit)
    if math.isnan(lost.value):
        return "The model finds nothing on photos as they are, so that nothing can be lost."
    if hardly_finds(audit):
        clean = level(audit, CLEAN)
        return (
            f"The model finds hardly more than chance on original photos (MAP@R {said(clean, 1)}, by chance"
            f" {html.percent(found.by_chance)}), so that nothing can be lost."
        )
    before, after = (100 * level(audit, c, QUERY_ONLY).value for c in (CLEAN, RANDOM_BACKGROUND))
    levels = f"(MAP@R from {before:.1f} to {after:.1f}{_first_hits(found)}; only queries changed)"
    chance = _by_chance(lost, drop(audit, unit="points"), len(found.classes))
    how = "worse" if lost.value >= 0 else "better"
    classes = len(found.classes)
    suffer = findings.suffering(found.classes)
    of_one = f" {most}." if (most := _of_one_class(found)) else ""
    lose = "loses" if suffer == 1 else "lose"
    sure = "".join(f" {sentence}" for sentence, _ in of_better_masks(audit))
    again, every = audit.collection.near_duplicates, len(audit.collection) + audit.collection.near_duplicates
    left_out = f" Left out as near-duplicates: {again} of {every} photos." if again else ""
    return (
        f"In front of other backgrounds the model finds the right photos {_share(lost, abs_value=True)} {how}"
        f" {levels}{chance}.{sure}{of_one} {suffer} of {classes} classes {lose} more than half.{left_out}"
    )


def hardly_finds(audit: Measured) -> bool:
    """Whether MAP@R on original photos is hardly above that of a random order; no drop says anything then."""
    assert audit.findings is not None
    clean, chance, (times, way) = level(audit, CLEAN).value, audit.findings.by_chance, HARDLY
    return clean < min(times * chance, chance + way * (1 - chance))


def _by_chance(lost: Estimate, points: Estimate, classes: int) -> str:
    """Whether a relative drop may be chance, or that in points, which is unsure where what there is to lose differs much."""
    if math.isnan(lost.low):
        few = f"with fewer than {FEWEST_CLASSES} classes there is no interval"
        return f"; {few if classes < FEWEST_CLASSES else 'no interval can be had'}"
    if lost.low <= 0 <= lost.high:
        return ", which may be chance"
    if points.low <= 0 <= points.high:
        return f"; in points it is {said(points, 1)}, which may be chance: a few classes have most of what can be lost"
    return ""


def _first_hits(found: Findings) -> str:
    """How often what is found first is right, before and after."""
    rows = found.levels[(found.levels["setting"] == QUERY_ONLY) & (found.levels["metric"] == PRECISION_AT_1)]
    before, after = (
        100 * rows.loc[rows["condition"] == c, "value"].sum(min_count=1) for c in (CLEAN, RANDOM_BACKGROUND)
    )
    known = math.isfinite(before + after)
    return f", the first hit right for {before:.0f} % and then {after:.0f} % of the queries" if known else ""


def many_unsure(audit: Measured) -> bool:
    """Whether the verdict hangs on masks that are unsure."""
    surely = audit.surely
    return surely is not None and surely.others >= MANY_UNSURE * (queries(audit) - surely.drawn)


def of_better_masks(audit: Measured) -> list[tuple[str, Estimate]]:
    """Where the verdict hangs on masks that give reason to doubt: sentences of the other queries, each with their drop."""
    told = [(of_sure_masks(audit), audit.surely.drop)] if audit.surely and many_unsure(audit) else []
    for some in audit.better:
        kept = f"; those drawn by hand ({some.drawn}) are kept" if some.drawn else ""
        small = f"smallest (below {html.percent(some.least, 0)} % of what the model sees)"
        text = f"Without the third whose masks are {small} the drop is {_share(some.drop)}"
        told.append((f"{text} ({some.queries} queries{kept}).", some.drop))
    return told


def of_sure_masks(audit: Measured) -> str:
    """The drop without the queries of unsure masks, in a sentence; nothing where all are sure or nobody knows."""
    if audit.surely is None:
        return ""
    surely, drawn = audit.surely, audit.surely.drawn
    sure, asked = surely.queries - drawn, queries(audit) - drawn
    by_hand = f", and {drawn} are drawn" if drawn else ""
    text = f"{sure or 'None'} of {asked} queries {'has' if sure == 1 else 'have'} a clear mask{by_hand}"
    if not surely.queries:
        return f"{text}."
    if math.isnan(surely.drop.value):
        return f"{text}; these find nothing on photos as they are."
    return f"{text}; of these the drop is {_share(surely.drop)}."


def _of_one_class(found: Findings) -> str:
    """That one class is most of the evidence, if it is: an interval over classes has then nothing to go by, and says so by its
    width.
    """
    sizes = found.classes.set_index("class_name")["queries"]
    largest, every = int(sizes.max()), int(sizes.sum())
    if len(sizes) < FEWEST_CLASSES or 2 * largest <= every:
        return ""
    name = findings.without_common_folder(sizes.index)[str(sizes.idxmax())]
    return (
        f"{largest} of {every} queries are of one class ({name}): it is most of the evidence, and an interval over classes can"
        " say little"
    )


def evidence(audit: Measured) -> Iterator[str]:
    """What a reader must know of the queries that the numbers rest on."""
    count, found = queries(audit), audit.findings
    if count < FEWEST_QUERIES:
        yield f"{count} say next to nothing; take more photos"
    if audit.ties:
        yield (
            f"{audit.ties} of {len(audit.collection)} photos have the same embedding as another photo; among these the order of"
            " the photos decides who is found"
        )
    if found is None:
        return
    if most := _of_one_class(found):
        yield f"{most}; take about as many photos of each class"
    if alone := findings.without_a_lender(found.photos):
        yield (
            f"{alone} of {len(found.photos)} have no background of their class to borrow, as it has two photos: the parts of the"
            " drop are of the others, and need not add up to it"
        )
    if audit.surely is not None:
        known = not math.isnan(audit.surely.drop.value)
        without = f"; without them the drop is {_share(audit.surely.drop)}" if known else ""
        yield (
            f"{audit.surely.others} of {count} have an unclear mask (clarity below {UNSURE}), of which most are wrong{without};"
            " a clear one can be wrong, too"
        )


def shown(conditions: Iterable[str]) -> list[str]:
    """Conditions in the order in which people read them, others last."""
    ranks = {name: place for place, name in enumerate(LEVEL_TITLES)}
    return sorted(dict.fromkeys(conditions), key=lambda name: ranks.get(name, len(ranks)))


def told(audit: Measured) -> Iterator[str]:
    """The lines of the terminal."""
    yield verdict(audit)
    yield from guesses(audit)
    yield ""
    found = audit.findings
    if found is not None:
        rows = found.levels[found.levels["setting"] == QUERY_ONLY]
        yield f"{'photos are seen':<40}{'MAP@R [95 %]':>24}{'P@1':>8}"
        for condition in shown(rows["condition"]):
            of = {
                m: rows[(rows["condition"] == condition) & (rows["metric"] == m)]
                for m in (MAP_AT_R, PRECISION_AT_1)
            }
            row = of[MAP_AT_R].iloc[0]
            p = 100 * of[PRECISION_AT_1]["value"].iloc[0]
            yield f"{LEVEL_TITLES.get(condition, condition):<40}{_interval(row):>24}{NOTHING if math.isnan(p) else f'{p:.1f}':>8}"
        if len(found.steps):
            yield ""
            yield f"{'what the drop is made of':<40}{'points [95 %]':>24}"
            for _, row in found.steps[found.steps["setting"] == QUERY_ONLY].iterrows():
                yield f"  {STEP_TITLES[row['step']]:<38}{_interval(row):>24}"
        both = drop(audit, SYMMETRIC)
        yield f"{'drop, queries and catalogue changed, %':<40}{_share(both, sign=''):>24}"
        yield ""
        yield from _of_classes(found.classes)
        yield ""
    if audit.shares is not None:
        yield f"what embeddings tell apart: {shares_in_words(audit.shares)}"
    if not math.isnan(audit.looks.mean.value):
        mean = audit.looks.mean
        ends = "" if math.isnan(mean.low) else f" [{mean.low:.2f}, {mean.high:.2f}]"
        yield (f"attribution score by {audit.looks.how}: {mean.value:.2f}{ends} ({ATTRIBUTION_SCALE})")
    yield from caveats(audit)


def _of_classes(classes: pd.DataFrame) -> Iterator[str]:
    """The classes that lose most, a line each below their heads; how many masks are unsure only where some are."""
    unsure = bool(classes["unsure_masks"].any())
    heads = f"{'queries':>8}{'unsure' * unsure:>8}{'clean':>8}{'changed':>8}{'lost (sd)':>18}"
    yield f"{'classes that lose most':<40}{heads}"
    short = findings.without_common_folder(classes["class_name"])
    for _, row in classes.head(WORST).iterrows():
        name = " ".join(short[row["class_name"]].split())  # a line stays one
        name = name if len(name) < 39 else f"...{name[-35:]}"
        spread = "" if math.isnan(row["sd"]) else f" ({100 * row['sd']:.0f})"
        lost = f"{100 * row['lost']:z.1f}{spread}"
        clean, then = 100 * row["clean"], 100 * row["corrupted"]
        doubtful = row["unsure_masks"] if unsure else ""
        yield f"{name:<40}{row['queries']:>8}{doubtful:>8}{clean:>8.1f}{then:>8.1f}{lost:>18}"


def shares_in_words(shares: Shares) -> str:
    """Shares of variance in words."""
    every = np.array([shares.object, shares.background, shares.interaction])
    if not np.isfinite(every).all():
        return "nothing: they are all alike"
    of = [html.percent(share, 1) for share in every]
    return f"the object {of[0]} %, the background {of[1]} %, what only both together make {of[2]} %"


def caveats(audit: Measured) -> Iterator[str]:
    """What a reader of the numbers must know: of photos, masks, model, backgrounds."""
    yield ""
    yield from audit.collection.told()
    yield f"masks: {audit.masker}"
    yield from (f"masks: {line}" for line in audit.remarks)
    yield from (f"queries: {line}" for line in evidence(audit))
    yield f"backgrounds: {audit.backgrounds.told}"
    yield from (f"model: {line}" for line in of_model(audit))
    if audit.findings is not None:
        yield "intervals [ ]: 95 %, over classes, since queries of a class are alike; sd: of a class's photos"


def guesses(audit: Measured) -> list[str]:
    """What was guessed of the model and may make all numbers wrong, the most telling first."""
    return [*audit.preparations.sentences(), *audit.model.guesses]


def of_model(audit: Measured) -> list[str]:
    """Which model, how it sees photos, and what was done to load it."""
    model = audit.model
    seen = () if any(str(model.look) in line for line in model.told) else (f"photos: {model.look}",)
    return [workplace.without_folders(line) for line in (model.name, *seen, *model.told)]


def conflict_of_errors(audit: Measured) -> float:
    """What ``cue_conflict`` would be if queries that do not find their own class first found all others alike: it grows as
    classes are fewer. Unknown where nobody is asked.
    """
    assert audit.findings is not None
    rows, classes = audit.findings.levels, len(audit.findings.classes)
    asked = (rows["condition"] == conflict.CONDITION) & (rows["setting"] == QUERY_ONLY)
    right = rows.loc[asked & (rows["metric"] == PRECISION_AT_1), "value"]
    if not len(right) or classes < 2:
        return math.nan
    wrong = (1 - float(right.iloc[0])) / (classes - 1)
    return wrong / (wrong + float(right.iloc[0]))


def score_and_loss(audit: Measured) -> tuple[float, int]:
    """Spearman's rank correlation of queries' attribution score with the MAP@R that they lose, and of how many; NaN for fewer
    than ten.
    """
    if audit.findings is None:
        return math.nan, 0
    both = (
        audit.findings.photos[["image_id", "lost"]].merge(audit.looks.scores[["image_id", "score"]]).dropna()
    )
    return correlation.spearman(both["score"].to_numpy(), both["lost"].to_numpy()), len(both)


def _share(found: Estimate, abs_value: bool = False, sign: str = " %") -> str:
    # + 0: none is printed below zero that is none when rounded.
    value, low, high = (
        round(100 * v) + 0.0 if math.isfinite(v) else v for v in (found.value, found.low, found.high)
    )
    if abs_value and value < 0:
        value, low, high = -value, -high, -low
    elif abs_value:
        high = min(high, 100.0)  # nothing more can be lost; Student's t does not know
    ends = "" if math.isnan(low) else f" [{low:.0f}, {high:.0f}]"
    return f"{value:.0f}{sign}{ends}"


def _interval(row: pd.Series) -> str:
    return html.interval(row["value"], row["low"], row["high"], 1)


def queries(audit: Measured) -> int:
    """Photos with a trusted mask and, where there are classes, somebody to find."""
    return len(audit.usable) if audit.findings is None else int(audit.findings.photos["lost"].notna().sum())
