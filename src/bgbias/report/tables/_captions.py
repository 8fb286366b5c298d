"""What a reader must know to believe a table: selection, exclusions, repetitions, what each +- is a spread
of.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import pandas as pd

from bgbias.report import names
from bgbias.report.tables._columns import OVER_QUERIES, OVER_SEEDS
from bgbias.results import uncertainty
from bgbias.results.tests import FLIPS, SIGNIFICANT

SELECTIONS = {
    "published": "on validation MAP@R, clean for plain training and corrupted for BGAugment, as published",
    "clean": "on clean validation MAP@R, for every method alike",
    "corrupted": "on corrupted validation MAP@R, for every method alike",
}


# What folds are to a table's means and spreads, and to Table 3's tests.
COUNTED = (
    "Rows are means over them, ± seeds counts them too; where a length is named, the models' embeddings stand side by side"
    " as one."
)
AVERAGED = (
    "Rows are means over them; over seeds, the differences of one seed's folds are averaged and count once."
)


def table1(table: pd.DataFrame, selection: str, excluded: Mapping[str, int]) -> str:
    """Two paragraphs: what was measured, on whom, and how to read each column.

    ``selection`` is params.yaml's ``train.selection``; ``excluded`` is, for each dataset, the number of test
    photos whose mask was too empty or too full to replace their background.
    """
    return (
        "**Retrieval before the photos' own and before random backgrounds.** MAP@R and P@1 in percent."
        f" Models were selected {SELECTIONS[selection]}."
        f" {names.how_many(table, 'draws', 'background draw')} a photo,"
        f" {names.how_many(table, 'seeds', 'training seed')}.{_folds(table, COUNTED)}"
        f"{_exclusions(excluded, 'are no queries')}\n\n"
        "Corrupted: random backgrounds in query and gallery; query only: in the query alone. Drop: of MAP@R"
        " from clean to corrupted, in points and relative. Cure: plain's relative drop minus that of the row,"
        f" in points. [low, high]: {_bootstrap('queries')}. ± draws: sample sd over background draws for one"
        f" model, the paper's ±; ± seeds: sample sd over training seeds, – for one.{_paper(table)}"
    )


def table2(table: pd.DataFrame, selection: str, images: int | None, excluded: Mapping[str, int]) -> str:
    """As ``table1``; ``images`` is the size of the keyed subset of test photos, None if all were taken."""
    chosen = "all test photos" if images is None else f"a keyed subset of at most {images:,} test photos"
    return (
        "**Share of the attribution that lies on the object, corrected for the object's size** (1: all of it,"
        f" 0: no more than chance), on {chosen}. Models were selected {SELECTIONS[selection]}."
        f" {names.how_many(table, 'seeds', 'training seed')}.{_folds(table, COUNTED)}"
        f"{_exclusions(excluded, 'have no score')}\n\n"
        "Score: the paper's; robust: cosine similarity for every loss, absolute gradients summed over"
        f" channels{_similarity(table)}. < 0: photos whose attribution favours the background. Gain: over plain on the same"
        f" photos, [low, high] {_bootstrap('photos')}. ± images: sd over photos (ddof 0), the paper's ±;"
        f" ± seeds: sample sd over training seeds, – for one.{_paper(table)}"
    )


def table3(table: pd.DataFrame, selection: str, batch_size: int) -> str:
    """Three paragraphs, the last on costs; ``batch_size`` is the number of photos in a training step."""
    devices = dict.fromkeys(table["cost_device"].dropna())
    return (
        "**Each method against plain training with the same loss.** MAP@R in percent, its relative drop and the cure as in"
        f" Table 1, the paper's attribution score as in Table 2. Models were selected {SELECTIONS[selection]}."
        f" {names.how_many(table, 'seeds', 'training seed')}.{_folds(table, AVERAGED)}\n\n"
        "vs plain, gain: the row minus plain, in points of MAP@R and in score. Cure: plain's relative drop minus that of the"
        f" row, in points; [low, high]: {_bootstrap('queries')}; over seeds: Student's t. Marks: p < {SIGNIFICANT:g},"
        f" {OVER_QUERIES} over queries (gain: photos) by {FLIPS:,} flips of signs, which speaks of these models as if queries"
        f" were independent, though those of one class are not, {OVER_SEEDS} over training seeds by a paired t test, which speaks"
        " of the methods; both Holm-corrected for the methods beside one plain model, each difference on its own. A method with"
        " batches of its own (DCML: four photos a class, whatever the loss) differs from plain by these too. All intervals and"
        " p: table3.csv.\n\n"
        f"Step, training, memory: what training took on {', '.join(devices)}, beside whatever else ran on the machine: time of"
        f" all epochs by their steps of {batch_size} photos, what a method does between steps included (median over trainings);"
        f" all epochs without validation; largest memory of the process.{_paper(table)}"
    )


def table4(table: pd.DataFrame, selection: str, score: str, judged: Mapping[str, str]) -> str:
    """As ``table1``; ``score`` is what similarity attention asked, ``judged`` each dataset's truth: ``masks`` or ``boxes``."""
    by = ", ".join(f"{names.dataset(dataset)} by {truth}" for dataset, truth in judged.items())
    return (
        "**One-shot segmentation by similarity attention, then GrabCut.** Mean IoU in percent with the object's true place"
        f" ({by}); of boxes, it is that of the largest part's box. Every episode has a test photo of its own, and no model was"
        f" trained to segment. Models were selected {SELECTIONS[selection]}."
        f" {names.how_many(table, 'seeds', 'training seed')}; attention by the {score} score.{_folds(table, COUNTED)}\n\n"
        "A map's object is as large a share of its photo as objects of validation photos are in the mean: maps differ by"
        " where they point, not by how they are spread. 1-way: with one photo of the class; 2-way: with one (five) of it and"
        " as many of another class, the mean of the maps. Map alone: without GrabCut. Over plain, over centre: IoU more than"
        " plain's, than the centre prior's, which is one map for all photos, bright in the middle."
        f" [low, high]: {_bootstrap('episodes')}. ± seeds: sample sd over training seeds, – for one."
        " Zheng et al. (2020) report 41.6 (1-way 1-shot), 56.9 and 60.1 (2-way 1- and 5-shot) on PASCAL-5i, other photos with"
        " several objects each: no number here compares with theirs."
    )


def _folds(table: pd.DataFrame, told: str) -> str:
    if "folds" not in table:
        return ""
    return (
        f" {names.how_many(table, 'folds', 'fold').capitalize()}: as many models, each validated on other classes of the"
        f" training half. {told}"
    )


def _similarity(table: pd.DataFrame) -> str:
    if "similarity" not in table:
        return ""
    return "; similarity: similarity attention with another photo of the class instead of gradients"


def _bootstrap(of: str) -> str:
    return f"{100 * uncertainty.CONFIDENCE:.0f} % paired bootstrap over {of}, {uncertainty.RESAMPLES:,} resamples"


def _exclusions(excluded: Mapping[str, int], what: str) -> str:
    counts = [f"{names.dataset(d)} {n:,}" for d, n in excluded.items() if n]
    if not counts:
        return " No photo was excluded for its mask."
    return f" Photos with an empty or a full mask keep their background and {what}: {', '.join(counts)}."


def _paper(table: pd.DataFrame) -> str:
    """Whose numbers stand beside ours, and what was done in another way there."""
    alike: dict[str, None] = {}
    others: dict[tuple[str, str], dict[str, None]] = {}
    for name in (str(c).removesuffix("_source") for c in table.columns if str(c).endswith("_source")):
        for source, differs in table[[f"{name}_source", f"{name}_differs"]].dropna(how="all").to_numpy():
            if isinstance(differs, str):
                paper, _, number = source.rpartition(" ")
                others.setdefault((paper, differs), {})[number] = None
            else:
                alike[re.sub(r" (\d{4}) .*", r" (\1)", source)] = None
    said = f" Paper: {', '.join(alike)}, Δ: ours minus theirs." if alike else ""
    told = "; ".join(
        f"{paper} {', '.join(numbers)}: {differs}" for (paper, differs), numbers in others.items()
    )
    return said + (f" Paper, in brackets: found in another way ({told})." if told else "")
