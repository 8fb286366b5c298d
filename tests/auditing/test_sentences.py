"""What an audit and a comparison say, in every case: somebody has read ``golden/``. Audits are written by hand."""

import math
from dataclasses import replace
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from golden import check

from bgbias.auditing import comparison, findings, output, result
from bgbias.auditing.mask_range import MaskRange
from bgbias.auditing.preparations import PreparationTrial
from bgbias.auditing.slices import LeftOut
from bgbias.evaluation.conditions import CLEAN, RANDOM_BACKGROUND
from bgbias.evaluation.crossing import Shares
from bgbias.report import prose
from bgbias.results.background_baseline import Leak
from bgbias.results.comparison import TRUSTED_TAU, Choice, Stability
from bgbias.results.places import AcrossPlaces
from bgbias.results.uncertainty import UNKNOWN, Estimate

GOLDEN = Path(__file__).with_name("golden")
DROP = Estimate(0.2, 0.1, 0.3)
POINTS = Estimate(0.1, 0.05, 0.15)
LEVEL = Estimate(0.5, 0.4, 0.6)


def labelled(
    drop: Estimate = DROP,
    points: Estimate = POINTS,
    clean: Estimate = LEVEL,
    grey: float = 0.1,
    sizes: tuple[int, ...] = (20,) * 5,
    first: tuple[float, float] = (0.84, 0.69),
    pasting: Estimate = UNKNOWN,
    by_chance: float = 0.1,
    without_a_lender: int = 0,
    places: AcrossPlaces | None = None,
    unsure_masks: int = 0,
    first_class: str = "a",
) -> Any:
    """What an audit of photos with classes found: the first class loses more than half of its MAP@R."""

    def of_both(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{"setting": setting} | row for setting in ("query", "symmetric") for row in rows]

    levels = [
        {"condition": condition, "metric": metric} | vars(value)
        for condition, of, hits in (
            (CLEAN, clean, first[0]),
            (RANDOM_BACKGROUND, Estimate(0.3, 0.2, 0.4), first[1]),
            ("only_fg", Estimate(grey, 0.0, 0.9), 0.5),
        )
        for metric, value in (("map_at_r", of), ("precision_at_1", Estimate(hits)))
    ]
    drops = [{"unit": "relative"} | vars(drop), {"unit": "points"} | vars(points)]
    steps = [{"step": s} | vars(pasting if s == "pasting" else POINTS) for s in result.TITLES["steps"]]
    names = (first_class, *"bcdefghi")[: len(sizes)]
    classes = pd.DataFrame({"class_name": [f"shop/{name}" for name in names], "queries": sizes})
    classes = classes.assign(
        unsure_masks=unsure_masks, clean=0.5, corrupted=0.1, lost=0.4, sd=0.15, relative=0.1
    )
    classes.loc[0, ["sd", "relative"]] = math.nan, 0.8
    photos = pd.DataFrame({"image_id": [f"{n:03}" for n in range(sum(sizes))], "lost": 0.1})
    lenders = np.where(photos.index < without_a_lender, math.nan, 0.4)
    return SimpleNamespace(
        levels=of_both(levels),
        drops=of_both(drops),
        steps=[] if math.isnan(pasting.value) else of_both(steps),
        classes=classes,
        places=places,
        photos=photos.assign(**{findings.PATH[2]: lenders}),
        by_chance=by_chance,
    )


class Photos(SimpleNamespace):
    def __len__(self) -> int:
        return 100

    def describe(self) -> list[str]:
        return ["shop: 1 photo left out"]


def an_audit(
    found: Any = None, near_duplicates: int = 0, photographed: bool = True, classes: int = 0, **changes: Any
) -> Any:
    """An audit of masks that give no reason to doubt."""
    walls = SimpleNamespace(summary="20 photos of walls", photographed=photographed)
    classes = classes or (0 if found is None else len(found.classes))
    collection = Photos(near_duplicates=near_duplicates, classes=classes)
    guesses = changes.pop("guesses", ())
    parts: dict[str, Any] = {
        "findings": found,
        "question": SimpleNamespace(collection=collection, backgrounds=walls),
        "model": SimpleNamespace(guesses=guesses, name="/models/mine.py", look="a crop", notes=("a line",)),
        "masker": "u2netp",
        "remarks": ("one is empty",),
        "qualities": pd.DataFrame({"clarity": [0.95, 0.95]}),
        "usable": frozenset(map(str, range(100))),
        "shift": pd.DataFrame({RANDOM_BACKGROUND: [0.8, 0.9]}),
        "looks": SimpleNamespace(mean=UNKNOWN, how="gradients"),
        "doubtful": (),
        "ties": 0,
    }
    return result.AuditResult(**parts | changes)


def chance(clean: float, by_chance: float, **changes: Any) -> Any:
    found = labelled(clean=Estimate(clean, clean - 0.02, clean + 0.02), by_chance=by_chance)
    return an_audit(found, **changes)


def sure(queries: int, others: int, drop: Estimate, drawn: int = 0) -> Any:
    return an_audit(labelled(), surely=LeftOut(queries, others, drop, drawn=drawn))


def small_masks(low: float) -> Any:
    better = (LeftOut(67, 33, Estimate(0.04, low, 0.1), drawn=7, least=0.21),)
    return an_audit(labelled(), better=better, masker="birefnet_lite")


PLACES = AcrossPlaces(
    queries=80,
    classes=8,
    here=Estimate(0.5, 0.4, 0.6),
    there=Estimate(0.3, 0.2, 0.4),
    composite=Estimate(0.2, 0.1, 0.3),
    natural=Estimate(0.42, 0.3, 0.54),
    points=Estimate(0.2, 0.1, 0.3),
    on_composites=Estimate(0.6, 0.5, 0.7),
    carried=Estimate(0.65, 0.5, 0.8),
)


def places(**changes: Estimate) -> Any:
    return an_audit(labelled(places=replace(PLACES, **changes)))


TWO_MASKERS = MaskRange("isnet", 0.8, Estimate(0.3, 0.2, 0.4), Estimate(0.5, 0.4, 0.6), math.nan, UNKNOWN)


def mask_range(**changes: Any) -> Any:
    return an_audit(labelled(), mask_range=replace(TWO_MASKERS, **changes))


SESSIONS = findings.AcrossSessions(3, 0.8, 40, Estimate(0.2, 0.1, 0.3), Estimate(0.5, 0.4, 0.6))
SHARES = Shares(0.5, 0.25, 0.25)
RARELY = Estimate(0.68, 0.29, 1.07), Estimate(0.043, -0.021, 0.107)
NO_ENDS = Estimate(0.5), Estimate(0.2)
# By what of it is read.
AUDITS: dict[str, dict[str, Any]] = {
    "verdict": {
        "without classes": an_audit(),
        "without classes, with shares": an_audit(shares=SHARES),
        "nothing is found": an_audit(labelled(Estimate(math.nan), clean=Estimate(0.0, 0.0, 0.0))),
        "near-duplicates, and no first match": an_audit(labelled(first=(0.5, math.nan)), near_duplicates=3),
        "not significant": an_audit(labelled(Estimate(0.5, -0.1, 1.1), Estimate(0.2, -0.1, 0.5))),
        "a rise": an_audit(labelled(Estimate(-0.5, -0.7, -0.3), Estimate(-0.2, -0.3, -0.1))),
        "not significant in points": an_audit(labelled(*RARELY)),
        "four classes": an_audit(labelled(*NO_ENDS, sizes=(20,) * 4)),
        "no interval": an_audit(labelled(*NO_ENDS)),
        "places": places(),
        "places, nothing is carried": places(carried=UNKNOWN),
        "places, few classes": places(natural=Estimate(0.1)),
        "places, a rise": places(natural=Estimate(-0.2, -0.3, -0.1)),
        "places, not significant": places(natural=Estimate(0.1, -0.1, 0.3)),
        "two maskers": mask_range(),
        "two maskers and drawn masks": mask_range(object_share=0.8, extrapolated=Estimate(0.34, 0.24, 0.44)),
        "two maskers that do not agree": mask_range(agreement=0.41),
    },
    "verdict advice": {
        "hardly more than chance": chance(0.03, 0.02),
        "more than chance": chance(0.05, 0.02),
        "hardly more than chance of two classes": chance(0.34, 0.3),
    },
    "evidence": {
        "nothing to say": an_audit(labelled()),
        "few queries, equal embeddings": an_audit(labelled(sizes=(2, 2, 2)), ties=4),
        "one class, no lenders": an_audit(labelled(sizes=(65, 4, 2, 2, 2), without_a_lender=10)),
        "sessions": an_audit(labelled(), sessions=SESSIONS),
        "no lenders at all": an_audit(labelled(without_a_lender=100)),
    },
    "verdict masks": {
        "one class has most": an_audit(labelled(sizes=(65, 4, 2, 2, 2))),
        "drawn": an_audit(labelled(), masker="2 drawn by hand"),
        "a masker without doubt": an_audit(labelled(), qualities=pd.DataFrame({"clarity": [math.nan]})),
        "partly drawn": an_audit(labelled(), qualities=pd.DataFrame({"clarity": [math.nan, 0.95]})),
    },
    "verdict evidence masks advice": {
        "few unclear masks": sure(95, 5, Estimate(0.15, 0.05, 0.25)),
        "many unclear masks": sure(80, 20, Estimate(0.15, -0.05, 0.35)),
        "many unclear masks of those that are not drawn": sure(95, 5, Estimate(0.15, 0.05, 0.25), drawn=60),
        "no clear mask": sure(0, 100, UNKNOWN),
        "one clear mask": sure(1, 99, UNKNOWN),
        "small masks lose most, significant": small_masks(0.01),
        "small masks lose most, not significant": small_masks(-0.02),
        "nothing to lose, by whatever masks": chance(
            0.03,
            0.02,
            surely=LeftOut(80, 20, Estimate(0.57, -0.2, 1.0)),
            better=(LeftOut(67, 33, DROP, least=0.21),),
            mask_range=TWO_MASKERS,
            sessions=SESSIONS,
        ),
    },
    "advice": {
        "without classes": an_audit(),
        "few classes": an_audit(labelled(*NO_ENDS, sizes=(3,) * 4)),
        "few queries": an_audit(labelled(*NO_ENDS, sizes=(3,) * 8)),
        "few of eight classes": an_audit(labelled(*NO_ENDS, sizes=(3,) * 4), classes=8),
        "undecided": an_audit(labelled(Estimate(0.1, -0.1, 0.3))),
        "undecided, a large drop": an_audit(labelled(Estimate(0.1, -0.1, 1.2))),
        "a rise": an_audit(labelled(Estimate(-0.5, -0.7, -0.3))),
        "pasting costs, masks are drawn": an_audit(
            labelled(pasting=Estimate(0.05, 0.01, 0.1)), masker="100 drawn by hand"
        ),
        "all of it": an_audit(
            labelled(grey=0.8, pasting=Estimate(0.05, 0.01, 0.1)),
            photographed=False,
            guesses=("The mean was guessed.",),
            preparations=PreparationTrial(32, {"": 0.5, "--mean 0": 0.75}, "--mean 0"),
        ),
    },
    "terminal": {
        "without classes": an_audit(shares=Shares(math.nan, math.nan, math.nan)),
        "everything": an_audit(
            labelled(
                pasting=Estimate(-0.0001, -0.0004, 0.07),
                sizes=(2, 2, 2, 2, 2),
                places=PLACES,
                unsure_masks=3,
                first_class="a" * 45,
            ),
            looks=SimpleNamespace(mean=Estimate(0.5, 0.4, 0.6), how="occlusion"),
            shares=SHARES,
            mask_range=TWO_MASKERS,
            sessions=SESSIONS,
            guesses=("The mean was guessed.",),
        ),
    },
}


def fill(about: str, **values: Any) -> list[str]:
    return prose.fill_macro(comparison.SENTENCES, about, **values)


def headline(as_good: str = "", worse: str = "", is_tested: bool = True) -> list[str]:
    choice = Choice("best", tuple(as_good), tuple(worse), (), is_tested)
    return fill("headline", choice=choice, changed=Estimate(0.246, 0.208, 0.284))


def details(unbeaten: tuple[str, ...] = (), **changes: Any) -> list[str]:
    values = {"at_chance": (), "on_original": None, "stability": None} | changes
    choice = Choice("best", (), (), unbeaten, True)
    return fill("details", choice=choice, trusted_tau=TRUSTED_TAU, **values)


def order(of_classes: float, of_draws: float) -> list[str]:
    return details(stability=Stability(Estimate(of_classes), Estimate(of_draws)))


def remarks(**changes: Any) -> list[str]:
    counts = {"guesses": "", "lost": 0, "photos": 9, "unseen": 0, "empty": 0, "full": 0, "absent": 0}
    return prose.fill_macro(result.SENTENCES, "mask_remarks", **counts | changes)


OTHERS = {
    "headline: one model": headline(),
    "headline: too few classes": headline("b", is_tested=False),
    "headline: better than the other": headline(worse="b"),
    "headline: as good as one": headline("b", "c"),
    "headline: as good as many": headline("bcde", "fghi"),
    "details: the best is ahead on original photos": details(on_original={"model": "best", "clean": 0.5}),
    "details: another is ahead": details(on_original={"model": "other", "clean": 0.5}),
    "details: one at chance": details(at_chance=("random",)),
    "details: four at chance": details(at_chance=tuple("abcd")),
    "details: an unbeaten reference": details(("colours",)),
    "details: other classes order otherwise": order(0.27, 1.0),
    "details: other backgrounds do": order(0.9, 0.1),
    "details: one background": order(0.2, math.nan),
    "details: an order that holds": order(0.9, 0.8),
    "guessed: of one": fill("guessed", names=("a",)),
    "guessed: of four": fill("guessed", names=tuple("abcd")),
    "masks: guessed, lost, unseen": remarks(guesses="A guess", lost=3, empty=1, absent=2, unseen=1),
    "masks: full": remarks(lost=2, full=2),
    "masks: one": remarks(lost=1, empty=1),
}


@pytest.mark.parametrize("read", AUDITS)
def test_what_is_said_of_an_audit_is_what_was_read(read: str) -> None:
    parts = []
    for (name, audit), about in product(AUDITS[read].items(), read.split()):
        text = audit.terminal if about == "terminal" else "\n".join(audit.sentences(about))
        parts.append(f"## {name}: {about}\n\n{text or '(nothing)'}\n")
    check(GOLDEN / f"{read.replace(' ', '_')}.md", "\n".join(parts))


def test_the_box_marks_a_field_where_the_headline_speaks_of_a_drop() -> None:
    leak = Leak(0.1, Estimate(0.2, 0.1, 0.3))
    for audit, marked in (
        (an_audit(labelled(), leak=leak), [(True, True)]),
        (an_audit(labelled(Estimate(0.1, -0.1, 0.3)), leak=leak), [(True, False)]),
        (an_audit(labelled(*NO_ENDS), leak=leak), []),
        (chance(0.03, 0.02, leak=leak), []),
    ):
        assert list(output._fill_parts(audit)["four"]) == marked


def test_what_else_is_said_is_what_was_read() -> None:
    parts = (f"## {name}\n\n" + ("\n".join(lines) or "(nothing)") + "\n" for name, lines in OTHERS.items())
    check(GOLDEN / "others.md", "\n".join(parts))


@pytest.mark.parametrize(
    ("right", "classes", "share"), [(0.25, 4, 0.5), (0.5, 11, 1 / 11), (0.5, 1, math.nan)]
)
def test_a_cue_conflict_is_beside_that_of_errors_by_chance(right: float, classes: int, share: float) -> None:
    """Of four queries one is right; the other three spread over three other classes: one each, as many as are right."""
    level = {"condition": "mixed_rand", "setting": "query", "metric": "precision_at_1", "value": right}
    found = SimpleNamespace(levels=[level], classes=list(range(classes)))
    assert an_audit(found).conflict_of_errors == pytest.approx(share, nan_ok=True)
