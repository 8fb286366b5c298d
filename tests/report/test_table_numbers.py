"""Numbers of tables are what naive code makes of the values a query: levels, drops and paired differences with their intervals.

Tables 1 and 2 are calculated by hand in test_tables.py; how all are printed: test_printed.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
import table_examples as examples
from table_examples import THIRD
from table_inputs import DRAWS, check, drop, less, queries, results, wide

from bgbias.evaluation.metrics import OF_DONOR
from bgbias.photos.folds import run, seed_and_fold
from bgbias.report.tables import (
    attacked,
    attribution,
    cures,
    decomposition,
    mask_quality,
    methods,
    places,
    pretrainings,
    probes,
    retrieval,
    sanity,
    shape_texture,
)
from bgbias.results import uncertainty
from bgbias.results.decomposition import PATH, STEPS
from bgbias.results.uncertainty import change_of_relative_drop

ALL = tuple(examples.STEPS)


class Number(NamedTuple):
    """What a column is made of: values of queries in the column ``of`` that have these fields beside the row's own name, or
    another name if one is among them; ``keys``: the rows that have the number, if not all do.
    """

    parts: Sequence[dict[str, Any]]
    statistic: Callable[..., Any] = lambda mean: mean
    scale: float = 100
    keys: Sequence[str] = ()
    which: np.ndarray | slice = slice(None)


def verify(
    table: pd.DataFrame, values: pd.DataFrame, numbers: Mapping[str, Number], key: str = "method"
) -> None:
    """Each number, its interval and its p, against what the library gives of values that are selected naively."""
    for name, number in numbers.items():
        rows = table[table[key].isin(list(number.keys))] if number.keys else table
        assert len(rows) == len(number.keys or table)
        assert rows[name].notna().all()
        for _, row in rows.iterrows():
            parts = []
            for fields in number.parts:
                where = {key: row[key], **fields}
                where |= {field: of(row[key]) for field, of in fields.items() if callable(of)}
                parts.append(wide(values, where.pop("of", "map_at_r"), **where))
            check(row, name, np.broadcast_arrays(*parts), number.statistic, number.scale, number.which)


def both(condition: str) -> dict[str, Any]:
    """Query and gallery in a condition."""
    return {"setting": "symmetric", "condition": condition}


def query(condition: str) -> dict[str, Any]:
    return {"setting": "query", "condition": condition}


def share(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return one / (one + other)


CLEAN, CORRUPTED = both("clean"), both("random_background")


def of_cures() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Table 7, and its values by the row that they belong to."""
    before, cured, facts = examples.cures()
    named = cured.assign(method=cured["method"] + "+" + cured["cure"])
    return cures.table(before, cured, facts, DRAWS), pd.concat([before[before["draw"] < DRAWS], named])


def of_attacks() -> tuple[pd.DataFrame, pd.DataFrame]:
    before, under, metrics, costs = examples.attacked()
    view = before["condition"].map({"clean": "", "random_background": "+random_background"})
    seen = pd.concat([before.assign(attack=view), under.assign(attack="+" + under["attack"])])
    return attacked.table(before, under, metrics, costs), seen.assign(method=seen["method"] + seen["attack"])


def pretrained(shared: tuple[int, ...] = examples.OF_FIVE, skipped: bool = False) -> pd.DataFrame:
    """Table 13 of the examples, where ``moco`` has these seeds, and scores of ``moco_patches`` are skipped or not."""
    queries, scores = examples.pretrained(examples.ALL_SEEDS | {"moco": shared})
    if skipped:
        scores.loc[scores["backbone"] == "moco_patches", "score"] = np.nan
    against = {("toy", backbone, "none", "pretrained"): other for backbone, other in examples.AGAINST.items()}
    return pretrainings.table(queries, scores, examples.probed(), against)


VIEWS = ["", "+random_background", *(f"+{name}" for name in examples.ATTACKS)]
OTHER: dict[str, Any] = {"backbone": examples.AGAINST.get}
REF, PROBED = {"of": "score", "variant": "ref"}, {"of": "linear", "condition": "random_background"}
SHAPE, TEXTURE = {"of": "precision_at_1"}, {"of": OF_DONOR}
HERE, THERE = ({"setting": f"{place}_place", "condition": "clean"} for place in ("same", "other"))
OF_STEPS = dict(zip((*STEPS, "drop"), (*pairwise(PATH), (PATH[0], PATH[-1])), strict=True))
CASES: dict[str, tuple[Callable[[], tuple[pd.DataFrame, pd.DataFrame]], str, dict[str, Number]]] = {
    "decomposition": (
        lambda: (decomposition.table(examples.stepped(), ALL), examples.stepped()),
        "method",
        {
            **{step: Number([*map(both, ends)], less) for step, ends in OF_STEPS.items()},
            "gap": Number([query("mixed_same"), query("mixed_rand")], less),
            "only_fg": Number([both("only_fg")]),
            "position": Number([both("own_inpainted"), both("moved")], less),
            "size": Number([both("own_inpainted"), both("scaled")], less),
            "cue_conflict": Number([query("mixed_rand") | of for of in (TEXTURE, SHAPE)], share),
        },
    ),
    "mask_quality": (
        lambda: (mask_quality.table(examples.stepped(), examples.masks()), examples.stepped()),
        "method",
        {
            f"{name}_{third}": Number([*map(both, ends)], less, which=which)
            for name, ends in mask_quality.PARTS.items()
            for third, which in (("worst", THIRD == 0), ("best", THIRD == 2))
        },
    ),
    "cures": (
        of_cures,
        "method",
        {
            "corrupted": Number([CORRUPTED]),
            "relative_drop": Number([CLEAN, CORRUPTED], drop),
            "corrupted_gain": Number(
                [CORRUPTED, CORRUPTED | {"method": lambda name: name.partition("+")[0]}],
                less,
                keys=[f"{method}+{cure}" for method in ("plain", "bgaugment") for cure in examples.CURES],
            ),
        },
    ),
    "sanity": (
        lambda: (sanity.table(examples.forgot(), examples.drops_of_forgot()), examples.forgot()),
        "method",
        {
            "model": Number([{"of": "score", "kind": "model"}], scale=1),
            "over_all": Number([{"of": "score", "kind": kind} for kind in ("model", "all")], less, 1),
            "faithful_over_centre": Number(
                [{"of": "faithful", "kind": kind} for kind in ("model", "centre")], less, 1
            ),
        },
    ),
    "attacked": (
        of_attacks,
        "method",
        {
            "map_at_r": Number([{"setting": "symmetric"}]),
            "p_at_1": Number([{"setting": "symmetric", "of": "precision_at_1"}]),
            "query_map_at_r": Number(
                [{"setting": "query"}], keys=[m + v for m in examples.ATTACKED_METHODS for v in VIEWS[1:]]
            ),
            "map_at_r_difference": Number(
                [
                    {"setting": "symmetric"},
                    {"setting": "symmetric", "method": lambda name: name.replace("mdprop_2", "plain")},
                ],
                less,
                keys=[f"mdprop_2{view}" for view in VIEWS],
            ),
        },
    ),
    "probes": (
        lambda: (probes.table(examples.probed()), examples.probed()),
        "backbone",
        {
            f"{name}_{column}": Number(
                [{"of": name, "condition": c} for c in ("clean", "random_background")][:parts], of
            )
            for name in ("linear", "nearest")
            for column, parts, of in (("clean", 1, lambda mean: mean), ("drop", 2, drop))
        },
    ),
    "pretrainings": (
        lambda: (pretrained(), examples.pretrained()[0]),
        "backbone",
        {
            "clean_difference": Number([CLEAN, CLEAN | OTHER], less),
            "corrupted_difference": Number([CORRUPTED, CORRUPTED | OTHER], less),
            "relative_drop_change": Number(
                [CLEAN, CORRUPTED, CLEAN | OTHER, CORRUPTED | OTHER], change_of_relative_drop
            ),
        },
    ),
    "pretrainings, scores": (
        lambda: (pretrained(), examples.pretrained()[1]),
        "backbone",
        {"ref_gain": Number([REF, REF | OTHER], less, 1)},
    ),
    "pretrainings, probes": (
        lambda: (pretrained(), examples.probed()),
        "backbone",
        {"linear_corrupted_gain": Number([PROBED, PROBED | OTHER], less)},
    ),
    "shape_texture": (
        lambda: (shape_texture.table(examples.decisions(), examples.LEARNED), examples.decisions()),
        "backbone",
        {
            "shape": Number([SHAPE]),
            "texture": Number([TEXTURE]),
            "neither": Number([SHAPE, TEXTURE], lambda shape, texture: 1 - shape - texture),
            "shape_share": Number([SHAPE, TEXTURE], share),
        },
    ),
    "places": (
        lambda: (places.table(examples.visited()), examples.visited()),
        "method",
        {"here": Number([HERE]), "natural": Number([HERE, THERE], drop)},
    ),
}


@pytest.mark.parametrize("what", CASES)
def test_numbers_are_those_of_values_that_are_selected_naively(what: str) -> None:
    make, key, numbers = CASES[what]
    verify(*make(), numbers, key)


def test_pretrainings_share_their_seeds_and_correct_for_all_backbones() -> None:
    table = pretrained()
    assert table.set_index("backbone")["against"].to_dict() == examples.AGAINST
    holm = uncertainty.holm(table["corrupted_difference_p"].tolist())
    assert table["corrupted_difference_p_holm"].tolist() == pytest.approx(holm.tolist())
    fewer = pretrained(shared=(0, 1), skipped=True).set_index("backbone")
    assert fewer.at["moco_patches", "seeds"] == 2
    assert fewer["ref_gain"].isna().to_dict() == {"moco": False, "moco_patches": True}


# -- Table 3 -----------------------------------------------------------------------------------------------------------

# What each method finds: of everything more or less, its gain on other backgrounds comes of chance alone for ``idle``.
SHARES = {"plain": 1.0, "bgaugment": 1.3, "idle": 1.0, "idle+bgaugment": 1.25}
OVER_PLAIN = {
    "corrupted_difference": Number([CORRUPTED, CORRUPTED | {"method": "plain"}], less),
    "clean_difference": Number([CLEAN, CLEAN | {"method": "plain"}], less),
    "relative_drop_change": Number(
        [part | name for name in ({}, {"method": "plain"}) for part in (CLEAN, CORRUPTED)],
        change_of_relative_drop,
    ),
    "ref_gain": Number([CLEAN | {"of": "score"}, CLEAN | {"of": "score", "method": "plain"}], less, 1),
}


def compared(values: pd.DataFrame) -> pd.DataFrame:
    """Table 3 of queries, whose attribution scores are their clean MAP@R; those of some are skipped."""
    clean = values[(values["setting"] == "symmetric") & (values["condition"] == "clean")]
    scores = pd.concat([clean.assign(variant=variant, skipped="") for variant in ("ref", "robust")])
    first = retrieval.table(results(values), values)
    return methods.table(first, attribution.table(scores), values)


def of_methods(
    of_seeds: Sequence[object] = (0, 1, 2, 3), names: Sequence[str] = tuple(SHARES)
) -> pd.DataFrame:
    made = queries({name: SHARES[name] for name in names}, of_seeds=of_seeds)
    return made.assign(score=made["map_at_r"].where(made["image_id"] < "23.jpg"))


def test_methods_are_compared_with_plain_and_on_replaced_backgrounds_with_bgaugment() -> None:
    values = of_methods()
    table = compared(values)
    verify(table, values, {"corrupted": Number([CORRUPTED])})
    others = table[table["method"] != "plain"]
    verify(others, values, OVER_PLAIN)
    mixed = Number([CORRUPTED, CORRUPTED | {"method": "bgaugment"}], less, keys=["idle+bgaugment"])
    verify(table, values, {"corrupted_over_bgaugment": mixed})
    assert table["corrupted_over_bgaugment"].notna().sum() == 1
    for name in OVER_PLAIN:
        holm = uncertainty.holm(others[f"{name}_p"].tolist())
        assert others[f"{name}_p_holm"].tolist() == pytest.approx(holm)
    p = table.set_index("method")["corrupted_difference_p_holm"]
    assert p["bgaugment"] < uncertainty.SIGNIFICANT < p["idle"]


def test_folds_are_no_further_seeds_and_seeds_that_plain_has_not_are_left_out() -> None:
    folds = of_methods([str(run(seed, fold)) for seed in (0, 1, 2) for fold in range(2)], ("plain", "idle"))
    by_seed = folds.assign(seed=[seed_and_fold(name)[0] for name in folds["seed"]])
    verify(compared(folds).iloc[1:], by_seed, OVER_PLAIN)
    every = of_methods(names=("plain", "idle"))
    table = compared(every[(every["method"] != "plain") | (every["seed"] < 3)])
    verify(table.iloc[1:], every[every["seed"] < 3], OVER_PLAIN)
    # Of itself a model keeps all of its seeds.
    verify(table.iloc[1:], every, {"corrupted": Number([CORRUPTED])})
