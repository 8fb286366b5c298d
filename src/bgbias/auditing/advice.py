"""What an audit's numbers suggest to do, each with what was measured of it on this very model."""

from __future__ import annotations

import math
from collections.abc import Iterator

from bgbias.auditing import written
from bgbias.auditing.measured import Measured
from bgbias.evaluation.conditions import CLEAN, QUERY_ONLY, RANDOM_BACKGROUND
from bgbias.report import html
from bgbias.results.uncertainty import FEWEST_CLASSES

STRONGER = "birefnet_lite"  # a masker than the default one


def of(audit: Measured) -> Iterator[str]:
    """What the numbers suggest, each with what was measured of it on this model."""
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
        why = "many are unsure" if written.many_unsure(audit) else "those that may be wrong lose most"
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
