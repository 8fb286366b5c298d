"""Two versions of a table are compared by a few numbers with plain names."""

from __future__ import annotations

import math

import pandas as pd
import yaml

from bgbias.report import headline

MODEL = {"dataset": "cub50", "backbone": "timm:vit", "loss": "arcface"}


def test_numbers_are_named_by_model_and_what_they_measure() -> None:
    table = pd.DataFrame(
        [
            MODEL
            | {"method": "plain", "clean": 60.5, "corrupted": 40.25, "relative_drop": 33.5, "queries": 9},
            MODEL | {"method": "bgaugment", "clean": 59.0, "corrupted": 58.0, "relative_drop": math.nan},
        ]
    )
    assert yaml.safe_load(headline.text(table, "table1")) == {
        "cub50": {
            "timm:vit": {
                "arcface": {
                    "plain": {"MAP@R clean": 60.5, "MAP@R corrupted": 40.25, "relative drop": 33.5},
                    # What is unknown is left out: a difference to it is none.
                    "bgaugment": {"MAP@R clean": 59.0, "MAP@R corrupted": 58.0},
                }
            }
        }
    }


def test_the_attribution_score_is_told_as_the_paper_defines_it() -> None:
    table = pd.DataFrame([MODEL | {"method": "plain", "ref": 0.25, "robust": 0.5}])
    assert headline.numbers(table, "table2")["cub50"]["timm:vit"]["arcface"]["plain"] == {
        "attribution score": 0.25
    }
