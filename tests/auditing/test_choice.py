"""Which model to take, in words: every branch of the template."""

import math
from types import SimpleNamespace

import pytest

from bgbias.auditing.comparison import SENTENCES
from bgbias.report import prose
from bgbias.results.comparison import TRUSTED_TAU, Choice, Stability
from bgbias.results.uncertainty import Estimate


def a_choice(
    as_good: tuple[str, ...] = (),
    worse: tuple[str, ...] = (),
    unbeaten: tuple[str, ...] = (),
    is_tested: bool = True,
) -> Choice:
    return Choice("best", as_good, worse, unbeaten, is_tested)


@pytest.mark.parametrize(
    ("choice", "sentence"),
    [
        (a_choice(), "best has a MAP@R of 24.6 [20.8, 28.4] on other backgrounds."),
        (a_choice(as_good=("b",), is_tested=False), "There are too few classes to test the difference."),
        (a_choice(worse=("b",)), "Take best. On other backgrounds its MAP@R is highest"),
        (a_choice(worse=("b", "c")), "significantly higher than that of each of the other 2 models."),
        (
            a_choice(as_good=("b",), worse=("c",)),
            "but not significantly higher than b. c is significantly worse.",
        ),
        (
            a_choice(as_good=tuple("bcde"), worse=tuple("fghi")),
            "but not significantly higher than 4 others. 4 models are significantly worse.",
        ),
    ],
)
def test_the_headline_names_the_model_and_whether_it_is_significantly_better(
    choice: Choice, sentence: str
) -> None:
    (told,) = prose.fill_macro(SENTENCES, "headline", choice=choice, changed=Estimate(0.246, 0.208, 0.284))
    assert sentence in told


def details(**changes: object) -> list[str]:
    values = {"choice": a_choice(), "on_original": None, "fastest": None, "stability": None}
    return prose.fill_macro(SENTENCES, "details", **values | changes, trusted_tau=TRUSTED_TAU)


def test_details_name_what_else_decides() -> None:
    assert details() == []
    assert details(on_original={"model": "best", "clean": 0.5}) == []
    assert details(on_original={"model": "other", "clean": 0.5}) == [
        "On original photos other is ahead, with MAP@R 50.0."
    ]
    (fastest,) = details(fastest=SimpleNamespace(model="small", seconds_a_photo=0.012))
    assert "small is fastest: 12.0 ms a photo" in fastest
    (unbeaten,) = details(choice=a_choice(unbeaten=("colours",)))
    assert unbeaten.startswith("colours knows nothing of these photos, and is not significantly worse")


@pytest.mark.parametrize(
    ("of_classes", "of_draws", "sentence"),
    [
        (
            0.27,
            1.0,
            "other classes would order the drops differently (Kendall's τ 0.27 between halves of the classes, 1.00",
        ),
        (0.9, 0.1, ": other backgrounds would order the drops differently"),
        (0.2, 0.1, ": other classes and other backgrounds would order"),
        (0.2, math.nan, "differently (Kendall's τ 0.20 between halves of the classes)."),
    ],
)
def test_an_order_that_does_not_hold_is_named_with_its_reason(
    of_classes: float, of_draws: float, sentence: str
) -> None:
    (told,) = details(stability=Stability(Estimate(of_classes), Estimate(of_draws)))
    assert sentence in told


def test_an_order_that_holds_needs_no_words() -> None:
    assert details(stability=Stability(Estimate(0.9), Estimate(0.8))) == []


def test_models_whose_preparation_was_guessed_are_named() -> None:
    def guessed(*names: str) -> list[str]:
        return prose.fill_macro(SENTENCES, "guessed", names=names)

    assert guessed() == []
    assert guessed("a")[0].startswith("Nobody specified how a prepares photos, so that it was assumed.")
    assert guessed("a", "b")[0].startswith("Nobody specified how a and b prepare photos")
    assert guessed(*"abcd")[0].startswith("Nobody specified how 4 models prepare photos")
