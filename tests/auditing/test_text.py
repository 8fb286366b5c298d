"""The sentences of an audit: each says what its numbers say, in every case."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bgbias.auditing import findings, result, slices
from bgbias.auditing.preparations import PreparationTrial
from bgbias.evaluation.crossing import Shares
from bgbias.report import prose
from bgbias.results.uncertainty import UNKNOWN, Estimate
from tests.support.handmade_audits import Photos, an_audit, labelled


def test_without_classes_the_verdict_is_what_moves() -> None:
    assert an_audit().verdict == (
        "On another background a photo's embedding has a cosine of 0.85 to that of the original photo."
        " Without classes nobody knows which photos are right."
    )
    shares = Shares(0.5, 0.25, 0.25)
    assert "25 % of what tells embeddings apart is the background. Without" in an_audit(shares=shares).verdict
    assert an_audit().sentences("masks") == []
    assert an_audit().sentences("advice")[0].startswith("Name the photos' classes")


def test_the_verdict_says_the_drop_and_the_first_match() -> None:
    assert an_audit(labelled()).verdict == (
        "MAP@R falls by 20 % [10, 30] when only the query's background changes: from 50.0 to 30.0. The first match is"
        " right for 69 of 100 queries instead of 84. 1 of 5 classes loses more than half of their MAP@R."
    )
    nothing = an_audit(labelled(Estimate(math.nan), clean=Estimate(0.0, 0.0, 0.0)))
    assert nothing.verdict == "The model finds nothing on original photos, so there is nothing to lose."
    left_out = an_audit(labelled(first=(0.5, math.nan)), collection=Photos(near_duplicates=3)).verdict
    assert left_out.endswith(
        "loses more than half of their MAP@R. Left out as near-duplicates: 3 of 103 photos."
    )
    assert "first match" not in left_out


@pytest.mark.parametrize(
    ("relative", "points", "classes", "words"),
    [
        (
            Estimate(0.5, -0.1, 1.1),
            Estimate(0.2, -0.1, 0.5),
            9,
            "falls by 50 % [−10, 100], not significantly, when",
        ),
        (Estimate(-0.5, -0.7, -0.3), Estimate(-0.2, -0.3, -0.1), 9, "rises by 50 % [30, 70] when"),
        (
            Estimate(0.68, 0.29, 1.07),
            Estimate(0.043, -0.021, 0.107),
            9,
            "In points it is 4.3 [−2.1, 10.7], which is not significant: a few classes have most of what can be lost.",
        ),
        (Estimate(0.5), Estimate(0.2), 4, "50 % (with fewer than 5 classes there is no interval) when"),
        (Estimate(0.5), Estimate(0.2), 5, "50 % (no interval can be computed) when"),
    ],
)
def test_a_verdict_says_what_is_not_significant(
    relative: Estimate, points: Estimate, classes: int, words: str
) -> None:
    found = labelled(relative, points, sizes=(20,) * classes)
    assert words in an_audit(found).verdict


@pytest.mark.parametrize(
    ("clean", "chance", "hardly"),
    [
        (0.03, 0.02, True),
        (0.05, 0.02, False),
        (0.34, 0.3, True),  # two classes: twice as much as chance is far more than hardly
        (0.5, 0.3, False),
    ],
)
def test_a_model_that_finds_hardly_more_than_chance_is_checked_first(
    clean: float, chance: float, hardly: bool
) -> None:
    found = labelled(clean=Estimate(clean, clean - 0.02, clean + 0.02), by_chance=chance)
    audit = an_audit(found)
    assert audit.finds_hardly_more_than_chance is hardly
    assert ("hardly more than chance" in audit.verdict) is hardly
    (first, *more) = audit.sentences("advice")
    assert ("weights that were not loaded" in first) is hardly
    assert bool(more) is not hardly


def test_evidence_names_what_numbers_rest_on() -> None:
    assert an_audit(labelled()).sentences("evidence") == []
    few = an_audit(labelled(sizes=(2, 2, 2)), ties=4).sentences("evidence")
    assert few[0] == "6 queries are too few for conclusions; take more photos"
    assert few[1].startswith("4 of 100 photos have the same embedding as another photo")
    one = an_audit(labelled(sizes=(65, 4, 2, 2, 2), without_a_lender=10)).sentences("evidence")
    assert one[0].startswith("65 of 75 queries are of one class (a): it is most of the evidence")
    assert one[0].endswith("take about as many photos of each class")
    assert one[1].startswith("10 of 75 have no background of their class to borrow")
    assert "65 of 75 queries are of one class" in an_audit(labelled(sizes=(65, 4, 2, 2, 2))).verdict


def test_evidence_says_the_drop_without_unclear_masks() -> None:
    surely = slices.LeftOut(80, 20, Estimate(0.159, 0.071, 0.246))
    (sentence,) = an_audit(labelled(), surely=surely).sentences("evidence")
    assert sentence == (
        "20 of 100 have an unclear mask (clarity below 0.85), of which most are wrong; without them the drop is"
        " 16 % [7, 25]; a clear one can be wrong, too"
    )
    unknown = slices.LeftOut(0, 100, UNKNOWN)
    (sentence,) = an_audit(labelled(), surely=unknown).sentences("evidence")
    assert sentence.endswith("most are wrong; a clear one can be wrong, too")


@pytest.mark.parametrize(
    ("surely", "answer", "many"),
    [
        (None, "Numbers alone cannot tell. All masks that were made are clear (0.85 or more).", False),
        (
            slices.LeftOut(95, 5, Estimate(0.15, 0.05, 0.25)),
            "Numbers alone cannot tell. 95 of 100 queries have a clear mask; for these, the drop is 15 % [5, 25]."
            " For these queries alone the drop is significant.",
            False,
        ),
        (
            slices.LeftOut(80, 20, Estimate(0.15, -0.05, 0.35)),
            "In part. 80 of 100 queries have a clear mask; for these, the drop is 15 % [−5, 35]. For these queries alone the drop"
            " is not significant.",
            True,
        ),
        (
            slices.LeftOut(95, 5, Estimate(0.15, 0.05, 0.25), drawn=60),
            "In part. 35 of 40 queries have a clear mask, and 60 are drawn; for these, the drop is 15 % [5, 25].",
            True,
        ),
        (slices.LeftOut(0, 100, UNKNOWN), "No. None of 100 queries have a clear mask.", True),
        (
            slices.LeftOut(1, 99, UNKNOWN),
            "In part. 1 of 100 queries has a clear mask; these find nothing on original photos.",
            True,
        ),
    ],
)
def test_whether_masks_can_be_trusted_is_answered_and_counts(
    surely: slices.LeftOut | None, answer: str, many: bool
) -> None:
    audit = an_audit(labelled(), surely=surely)
    sentences = audit.sentences("masks")
    assert sentences[0].startswith(answer)
    assert "in a check of 30 photos 18 masks were wrong, and 7 of these were clear" in sentences[1]
    assert audit.has_many_unsure_masks is many
    assert ("have a clear mask" in audit.verdict or "has a clear mask" in audit.verdict) is many
    advised = audit.sentences("advice")[0]
    assert (
        advised.startswith("Better masks first, because many are unclear: try a stronger segmentation model")
        is many
    )
    drawn = replace(audit, masker="2 drawn by hand")
    assert drawn.sentences("masks") == ["They were drawn by hand, and are taken as right."]


def test_a_masker_without_doubt_and_masks_that_were_drawn_are_no_proof() -> None:
    doubtless = pd.DataFrame({"clarity": [math.nan, math.nan]})
    (sentence,) = an_audit(labelled(), qualities=doubtless).sentences("masks")
    assert sentence.startswith("This segmentation model is in doubt of no pixel")
    partly = pd.DataFrame({"clarity": [math.nan, 0.95]})
    first, _ = an_audit(labelled(), qualities=partly).sentences("masks")
    assert first.endswith("clear (0.85 or more); drawn ones are taken as right.")


@pytest.mark.parametrize(("low", "answer"), [(-0.02, "not significant"), (0.01, "significant")])
def test_a_loss_of_small_masks_alone_is_beside_the_drop_and_does_not_count(low: float, answer: str) -> None:
    better = (slices.LeftOut(67, 33, Estimate(0.04, low, 0.1), drawn=7, least=0.21),)
    audit = an_audit(labelled(), better=better, masker="birefnet_lite")
    small = (
        "Leaving out the third of all queries with the smallest masks (below 21 % of what the model sees), the drop is"
        f" 4 % [{100 * low:.0f}, 10] (67 queries; those drawn by hand (7) stay).".replace("-", "−")
    )
    assert small in audit.verdict
    assert f"{small} For these queries alone the drop is {answer}." in audit.sentences("masks")
    assert audit.sentences("advice")[0] == (
        "Better masks first, because small ones, which may be wrong, lose most: draw masks (--masks), and see whether"
        " the drop stays."
    )


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (labelled(Estimate(0.5), Estimate(0.2), sizes=(3,) * 4), "more classes"),
        (labelled(Estimate(0.5), Estimate(0.2), sizes=(3,) * 8), "four photos of each class"),
        (labelled(Estimate(0.1, -0.1, 0.3)), "Undecided"),
        (labelled(Estimate(0.1, -0.1, 0.3)), "with one of 30 %"),
        (labelled(Estimate(0.1, -0.1, 1.2)), "with a large one"),
    ],
)
def test_what_is_too_few_or_not_significant_clears_the_model_of_nothing(found: Any, words: str) -> None:
    (only,) = an_audit(found).sentences("advice")
    assert words in only


def test_advice_follows_what_was_measured() -> None:
    pasting = Estimate(0.05, 0.01, 0.1)
    generated = SimpleNamespace(summary="100 drawn ones", photographed=False)
    audit = an_audit(labelled(grey=0.8, pasting=pasting), backgrounds=generated)
    audit.model.guesses = ("The mean was guessed.",)
    advice = audit.sentences("advice")
    starts = (
        "The mean",
        "Backgrounds were",
        "Grey",
        "If you can",
        "Photograph",
        "Part of the drop is pasting",
    )
    assert len(advice) == len(starts)
    for sentence, start in zip(advice, starts, strict=True):
        assert sentence.startswith(start)
    assert "MAP@R is 80.0 [0.0, 90.0]; with other ones 30.0 [20.0, 40.0]; on original photos" in advice[2]


def test_another_preparation_is_named_before_what_was_guessed() -> None:
    trial = PreparationTrial(32, {"": 0.5, "--mean 0": 0.75}, "--mean 0")
    audit = an_audit(preparations=trial)
    audit.model.guesses = ("The mean was guessed.",)
    better, guessed = audit.guesses
    assert better.startswith(
        "On 32 photos the model finds clearly more with --mean 0: MAP@R 75.0 % instead of 50.0 %."
    )
    assert guessed == "The mean was guessed."


def test_the_terminal_has_a_line_for_each_number() -> None:
    looks = SimpleNamespace(mean=Estimate(0.5, 0.4, 0.6), how="occlusion")
    found = labelled(pasting=Estimate(-0.0001, -0.0004, 0.07), sizes=(2, 2, 2, 2, 2))
    audit = an_audit(found, looks=looks, shares=Shares(0.5, 0.25, 0.25))
    lines = audit.terminal.splitlines()
    assert lines[0] == audit.verdict
    assert [line.split("  ")[0] for line in lines[3:6]] == [
        "original photos",
        "on other backgrounds",
        "object alone, on grey",
    ]
    assert lines[3].split()[-4:] == ["50.0", "[40.0,", "60.0]", "84.0"]
    pasting = next(line for line in lines if "cutting out and pasting" in line)
    assert pasting.split()[-3:] == ["0.0", "[0.0,", "7.0]"]  # none is printed below zero
    assert "variance of the embeddings: object 50.0 %, background 25.0 %, interaction 25.0 %" in lines
    assert any(line.startswith("attribution score by occlusion: 0.50 [0.40, 0.60] (1: all") for line in lines)
    for line in ("shop: 1 photo left out", "masks: one is empty", "model: mine.py", "model: photos: a crop"):
        assert line in lines
    assert "queries: 10 queries are too few for conclusions; take more photos" in lines
    assert "MAP@R" not in an_audit().terminal
    assert an_audit(shares=Shares(math.nan, math.nan, math.nan)).sentences("shares") == [
        "none: embeddings are all alike"
    ]


def test_classes_say_how_many_masks_are_unsure_where_some_are() -> None:
    def rows(audit: Any) -> list[list[str]]:
        lines = audit.terminal.splitlines()
        start = next(n for n, line in enumerate(lines) if line.startswith("classes that lose most"))
        return [line.split() for line in lines[start : start + 3]]

    found = labelled()
    classes = {
        "class_name": ["a", "b" * 60],
        "queries": [12, 9],
        "clean": [0.5, 0.25],
        "corrupted": [0.1, 0.2],
    }
    more = {"lost": [0.4, 0.05], "sd": [0.1, np.nan], "unsure_masks": [3, 0], "relative": 0.8}
    found.classes = pd.DataFrame(classes | more)
    head, first, second = rows(an_audit(found))
    assert head[-6:] == ["queries", "unsure", "clean", "changed", "lost", "(sd)"]
    assert first == ["a", "12", "3", "50.0", "10.0", "40.0", "(10)"]
    assert second == ["..." + "b" * 35, "9", "0", "25.0", "20.0", "5.0"]
    found.classes["unsure_masks"] = 0
    head, first, _ = rows(an_audit(found))
    assert head[-5:] == ["queries", "clean", "changed", "lost", "(sd)"]
    assert first == ["a", "12", "50.0", "10.0", "40.0", "(10)"]


def test_each_step_of_the_drop_goes_from_one_line_of_the_table_to_the_next() -> None:
    names = [name for name in result.TITLES["levels"] if name in findings.PATH]
    assert tuple(names) == findings.PATH


def test_a_cue_conflict_is_beside_that_of_errors_that_fell_on_all_classes_alike() -> None:
    """Of four queries one is right; the other three spread over three other classes: one each, as many as are right."""

    def of(right: float, classes: int) -> float:
        level = {"condition": "mixed_rand", "setting": "query", "metric": "precision_at_1", "value": right}
        found = SimpleNamespace(levels=[level], classes=list(range(classes)))
        return an_audit(found).conflict_of_errors

    assert of(0.25, 4) == 0.5
    assert of(0.5, 11) == pytest.approx(0.05 / 0.55)
    assert of(1.0, 4) == 0
    assert math.isnan(of(0.5, 1))


def test_remarks_of_masks_count_what_is_lost() -> None:
    def remarks(**changes: Any) -> list[str]:
        counts = {"guesses": "", "lost": 0, "photos": 9, "unseen": 0, "empty": 0, "full": 0, "absent": 0}
        return prose.fill_macro(result.SENTENCES, "mask_remarks", **counts | changes)

    assert remarks() == []
    guessed, lost, unseen = remarks(guesses="A guess", lost=3, empty=1, absent=2, unseen=1)
    assert guessed.startswith("A guess. If masks lie beside the objects")
    assert lost == "3 of 9 photos are not used as queries (empty mask: 1, no mask: 2)"
    assert unseen.startswith("in 1 photo the object lies almost entirely outside")
    assert "(mask of the whole photo: 2)" in remarks(lost=2, full=2)[0]
    assert remarks(lost=1, empty=1) == ["1 of 9 photos is not used as query (empty mask: 1)"]
