"""Numbers of tables are what naive code makes of the values a query: levels, drops and paired differences with their intervals.

Tables 1 and 2 are calculated by hand in test_tables.py, Table 3 in test_methods_table.py; how all are printed: test_printed.py.
"""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pandas as pd
import pytest
import table_examples as examples
from asked_models import model
from scipy import stats
from table_examples import CLARITY, THIRD
from table_inputs import DRAWS, LABELS, QUERIES, SEEDS, check, drop, drops, less, wide

from bgbias.errors import UserError
from bgbias.evaluation.metrics import MATCHED_OTHERS, OF_DONOR, map_at_r
from bgbias.report.tables import (
    attacked,
    crossing,
    cures,
    decomposition,
    mask_quality,
    models,
    places,
    pretrainings,
    probes,
    sanity,
    shape_texture,
)
from bgbias.results import comparison, published, uncertainty
from bgbias.results.decomposition import PATH, STEPS, chance_levels

SHOWN = tuple(examples.STEPS)


def test_steps_add_up_to_the_drop_and_are_differences_of_levels() -> None:
    values = examples.stepped()
    table = decomposition.table(values, SHOWN).set_index("method")
    for method, row in table.iterrows():
        symmetric = {c: wide(values, method=method, setting="symmetric", condition=c) for c in SHOWN}
        query = {
            c: wide(values, method=method, setting="query", condition=c) for c in (*PATH[2:3], "mixed_rand")
        }
        assert sum(row[step] for step in STEPS) == pytest.approx(row["drop"], abs=1e-9)
        for step, ends in zip((*STEPS, "drop"), (*pairwise(PATH), (PATH[0], PATH[-1])), strict=True):
            check(row, step, [symmetric[name] for name in ends], less)
        check(row, "gap", [query["mixed_same"], query["mixed_rand"]], less)
        check(row, "only_fg", [symmetric["only_fg"]])
        check(row, "position", [symmetric["own_inpainted"], symmetric["moved"]], less)
        check(row, "size", [symmetric["own_inpainted"], symmetric["scaled"]], less)
        of = {"method": method, "setting": "query", "condition": "mixed_rand"}
        followed, right = (wide(values, column, **of) for column in (OF_DONOR, "precision_at_1"))
        assert row["cue_conflict"] == pytest.approx(100 * followed.sum() / (followed + right).sum())
        assert row["cue_conflict_low"] < row["cue_conflict"] < row["cue_conflict_high"]
    assert table["classes"].tolist() == [8, 8]


def test_chance_is_that_of_a_random_order_of_all_others() -> None:
    labels = np.array([0] * 3 + [1] * 5 + [2] * 2 + [3])
    of_class = chance_levels(labels)
    expected = map_at_r.chance_level(np.array([2, 4, 1]), len(labels) - 1)
    assert [of_class[label] for label in (0, 1, 2)] == pytest.approx(expected.tolist())
    assert np.isnan(of_class[3])
    chance = {"toy": dict.fromkeys(range(8), 0.05) | {7: 0.13}}
    table = decomposition.table(examples.stepped(), SHOWN, chance=chance)
    assert table["chance"].tolist() == pytest.approx([6.0, 6.0])
    # Of 7 photos, a query's own and its donor's left out: of a class of 3 there are 2 among 5, of one of 4 3 among 5.
    assert shape_texture.chance_levels(np.array([4, 4, 4, 6, 6, 6, 6])) == pytest.approx({4: 0.4, 6: 0.6})
    shapes = {"toy": {label: 0.1 * (label % 2) for label in range(8)}}
    assert shape_texture.table(examples.decisions(), chance=shapes)["chance"].tolist() == pytest.approx(
        [5, 5]
    )


def test_thirds_lose_what_their_queries_lose() -> None:
    values = examples.stepped()
    for method, row in mask_quality.table(values, examples.masks()).set_index("method").iterrows():
        levels = {c: wide(values, method=method, setting="symmetric", condition=c) for c in PATH}
        assert (row["measure"], row["worst_from"], row["best_to"]) == (
            "clarity",
            CLARITY[THIRD == 0].min(),
            CLARITY[THIRD == 2].max(),
        )
        for name, ends in mask_quality.PARTS.items():
            for third, which in (("worst", THIRD == 0), ("best", THIRD == 2)):
                check(row, f"{name}_{third}", [levels[end] for end in ends], less, which=which)
        lost = levels["clean"] - levels["random_background"]
        assert row["drop_more"] == pytest.approx(
            100 * (lost[:, THIRD == 0].mean() - lost[:, THIRD == 2].mean())
        )
    true = mask_quality.table(values, examples.masks(iou=1 - CLARITY)).iloc[0]
    assert true["measure"] == "iou"
    assert true["worst_to"] < true["best_from"] <= 0.8
    alike = mask_quality.table(values, examples.masks(np.ones(QUERIES)))
    assert alike[["measure", "drop_worst", "drop_more_p_holm"]].isna().all(axis=None)


def test_a_difference_between_thirds_is_judged_without_each_class_and_seed() -> None:
    values = examples.stepped()
    of = {"method": "plain", "setting": "symmetric"}
    lost = wide(values, condition="clean", **of) - wide(values, condition="random_background", **of)

    def without(seed: int | None = None, label: int | None = None) -> float:
        kept = np.ones_like(lost, dtype=bool)
        kept[slice(None) if seed is None else seed, slice(None) if label is None else label == LABELS] = False
        worst, best = (lost[:, t == THIRD][kept[:, t == THIRD]].mean() for t in (0, 2))
        return float(worst - best)

    def variance(numbers: list[float]) -> float:
        return (len(numbers) - 1) * float(np.var(numbers))

    seeds = variance([without(seed=s) for s in range(len(SEEDS))])
    classes = variance([without(label=c) for c in range(8)])
    cells = np.array([[without(s, c) for c in range(8)] for s in range(len(SEEDS))])
    left = cells - cells.mean(0) - cells.mean(1)[:, None] + cells.mean()
    together = (left**2).sum() * (cells.size - 1) ** 2 / cells.size / (len(SEEDS) - 1) / 7
    parts = [(seeds, len(SEEDS) - 1), (classes, 7)]
    power, inverse = 1 + 3 / (len(SEEDS) - 1), 0.0
    for (whole, few), (other, many) in (parts, parts[::-1]):
        first = stats.t.ppf(0.975, few) ** 2 * whole
        second = stats.t.ppf(0.975, many) ** 2 * max(other - together, 0)
        inverse += many / (few + many) / (first**power + second**power) ** (1 / power)
    row = mask_quality.table(values, examples.masks()).set_index("method").loc["plain"]
    assert row["drop_more_high"] - row["drop_more"] == pytest.approx(100 * inverse**-0.5)


def test_what_a_class_means_for_others_widens_intervals() -> None:
    values = examples.stepped()
    apart = np.where(values["label"] < 4, 0.3, -0.3) * (values["condition"] == "clean")
    moved = values.assign(**{MATCHED_OTHERS["symmetric"]: apart})
    narrow, wider = (mask_quality.table(of, examples.masks()).iloc[0] for of in (values, moved))
    assert wider["drop_best"] == narrow["drop_best"]
    assert wider["drop_best_high"] > narrow["drop_best_high"]


def test_the_worst_of_some_backgrounds_is_the_mean_over_choices() -> None:
    values, shares = examples.crossed(), examples.shares()
    numbers = {"plain": 1.0, "bgaugment": 2.0, "attr_frac": 3.0, "sam_siamese": 4.0}
    table = crossing.table(values, shares, drops(numbers)).set_index("method")
    assert "worst_20" not in table
    for place, (method, row) in enumerate(table.loc[list(examples.CROSSED)].iterrows()):
        every = np.stack([wide(values, method=method, background=b) for b in examples.BACKGROUNDS], -1)
        for name, k in (("worst_1", 1), ("worst_5", 5), ("worst_all", 6)):
            chosen = [every[..., list(some)].min(-1) for some in combinations(range(6), k)]
            check(row, name, [np.mean(chosen, axis=0)])
        assert row["object"] == pytest.approx(90 - 10 * place - 1)
        assert row["background_sd_seeds"] == pytest.approx(2)
        assert (row["objects"], row["classes"], row["backgrounds"]) == (QUERIES, 8, 6)
    # What is not the object's is compared with drops over all trainings.
    assert table[["rho", "rho_models"]].drop_duplicates().to_numpy().tolist() == [[1.0, 12]]
    assert crossing.table(values, shares, drops(numbers).head(9))["rho"].isna().all()


def test_a_row_for_each_cure_stands_below_its_model_and_is_compared_with_it() -> None:
    before, cured, facts = examples.cures()
    table = cures.table(before, cured, facts, DRAWS)
    methods = [(m, *(f"{m}+{cure}" for cure in examples.CURES)) for m in ("pretrained", "plain", "bgaugment")]
    assert table["method"].tolist() == [name for names in methods for name in names]
    by_method = table.set_index("method")
    corrupted = {"setting": "symmetric", "condition": "random_background"}
    alone = wide(before[before["draw"] < DRAWS], method="plain", **corrupted)
    check(by_method.loc["plain"], "corrupted", [alone])
    p = []
    for cure in examples.CURES:
        row = by_method.loc[f"plain+{cure}"]
        with_it = wide(cured, method="plain", cure=cure, **corrupted)
        check(row, "corrupted_gain", [with_it, alone], less)
        clean = wide(cured, method="plain", cure=cure, setting="symmetric", condition="clean")
        check(row, "relative_drop", [clean, with_it], drop)
        p.append(row["corrupted_gain_p"])
    holm = by_method.loc[[f"plain+{cure}" for cure in examples.CURES], "corrupted_gain_p_holm"]
    assert holm.tolist() == pytest.approx(uncertainty.holm(p))
    assert by_method.loc[["plain", "plain+grey"], "ms"].tolist() == [2, 31]
    assert by_method.loc["plain+grey", ["weight", "bytes"]].tolist() == pytest.approx([0.1, 512])
    assert by_method.loc[["plain", "plain+leace"], "weight"].isna().all()
    assert by_method["seeds"].tolist() == [1] * 3 + [3] * 6


def test_cures_are_judged_across_places_where_photos_say_theirs() -> None:
    before, cured, facts = examples.cures()

    def with_places(values: pd.DataFrame) -> pd.DataFrame:
        clean = values[(values["condition"] == "clean") & (values["setting"] == "symmetric")]
        other = clean.assign(setting="other_place", map_at_r=clean["map_at_r"] / 2, place=0.0)
        return pd.concat([values, other])

    made = cures.table(with_places(before), with_places(cured), facts, DRAWS)
    pd.testing.assert_series_equal(made["other_place"], made["clean"] / 2, check_names=False)
    pd.testing.assert_series_equal(made["other_place_gain"], made["clean_gain"] / 2, check_names=False)


def test_scores_are_compared_with_those_of_a_network_that_forgot() -> None:
    values = examples.forgot()
    table = sanity.table(values, examples.drops_of_forgot()).set_index("method")
    for method, row in table.iterrows():
        own, all_forgot, centre = (
            wide(values, "score", method=method, kind=k) for k in ("model", "all", "centre")
        )
        check(row, "model", [own], scale=1)
        check(row, "over_all", [own, all_forgot], less, scale=1)
        check(row, "faithful_over_centre", [own / 2, centre / 2], less, scale=1)
    assert table["over_all_p_holm"].tolist() == pytest.approx(uncertainty.holm(table["over_all_p"]))
    assert table["rho"].tolist() == [-1, -1]


def test_every_view_of_an_attack_has_its_row_beside_plain_of_the_same_view() -> None:
    before, under, metrics, costs = examples.attacked()
    table = attacked.table(before, under, metrics, costs)
    views = {
        "": before[before["condition"] == "clean"],
        "+random_background": before[before["condition"] != "clean"],
    }
    views |= {f"+{name}": under[under["attack"] == name] for name in examples.ATTACKS}
    assert table["method"].tolist() == [m + view for m in examples.ATTACKED_METHODS for view in views]
    by_name = table.set_index("method")
    for view, shown in views.items():
        for setting, prefix in (("symmetric", ""), ("query", "query_")):
            if setting not in set(shown["setting"]):
                assert np.isnan(by_name.loc["plain" + view, f"{prefix}map_at_r"])
                continue
            plain, mdprop = (wide(shown, method=m, setting=setting) for m in ("plain", "mdprop_2"))
            row = by_name.loc["mdprop_2" + view]
            check(row, f"{prefix}map_at_r", [mdprop])
            check(row, f"{prefix}map_at_r_difference", [mdprop, plain], less)
            # Corrected for one method, which is not at all.
            assert row[f"{prefix}map_at_r_difference_p_holm"] == row[f"{prefix}map_at_r_difference_p"]
            first = wide(shown, "precision_at_1", method="mdprop_2", setting=setting)
            assert row[f"{prefix}p_at_1"] == pytest.approx(100 * first.mean())
        recall = wide(shown, "recall_at_4", method="mdprop_2", setting="symmetric")
        assert row["recall_at_4"] == pytest.approx(100 * recall.mean())
        assert row["nmi"] == pytest.approx(70 if view == "+random_background" else 60)
        assert (row["nmi_sd_seeds"], row["pi_ratio"], row["pi_ratio_sd_seeds"]) == pytest.approx((10, 2, 1))
    assert by_name["cost"].dropna().to_dict() == {"plain": 1.0, "mdprop_2": 5.2}
    assert by_name.loc[["plain" + view for view in views], "map_at_r_difference"].isna().all()
    # In bold where it is significantly better than plain on photos changed alike.
    heads = {column.head: column for column in attacked.COLUMNS}
    for row in table.to_dict("records"):
        starred = "*" in heads["vs plain, MAP@R"].text(row)
        assert heads["MAP@R"].is_bold(row) == (starred and row["map_at_r_difference"] > 0)


def test_attacked_methods_are_compared_with_plain_of_their_loss_alone() -> None:
    *of_one, costs = examples.attacked()
    of_other = [part[part["method"] != "plain"].assign(loss="contrastive") for part in of_one]
    first, queries, metrics = (pd.concat(pair) for pair in zip(of_one, of_other, strict=True))
    found = attacked.table(first, queries, metrics, costs, published.read()).set_index(["loss", "method"])
    differences = found[list(attacked.DIFFERENCES)]
    assert differences.loc["contrastive"].isna().all(axis=None)
    assert differences.loc[("roth_multi_similarity", "mdprop_2+stax@0.01")].notna().all()
    assert found["difference_p_at_1"].isna().all()  # theirs was chosen on test classes


def test_accuracies_are_over_classes_and_seeds() -> None:
    values = examples.probed()
    for backbone, row in probes.table(values).set_index("backbone").drop("bare").iterrows():
        for name in ("linear", "nearest"):
            own = [wide(values, name, backbone=backbone, condition=c) for c in ("clean", "random_background")]
            check(row, f"{name}_clean", own[:1])
            check(row, f"{name}_drop", own, drop)


def pretrained(shared: tuple[int, ...] = examples.OF_FIVE, skipped: bool = False) -> pd.DataFrame:
    """Table 13 of the examples, where ``moco`` has these seeds, and scores of ``moco_patches`` are skipped or not."""
    queries, scores = examples.pretrained(examples.ALL_SEEDS | {"moco": shared})
    if skipped:
        scores.loc[scores["backbone"] == "moco_patches", "score"] = np.nan
    against = {("toy", backbone, "none", "pretrained"): other for backbone, other in examples.AGAINST.items()}
    return pretrainings.table(queries, scores, examples.probed(), against).set_index("backbone")


def test_each_pretraining_is_compared_with_the_network_that_lacks_what_it_has() -> None:
    table = pretrained()
    assert table["against"].to_dict() == examples.AGAINST
    queries, scores = examples.pretrained()
    symmetric, probed = queries[queries["setting"] == "symmetric"], examples.probed()
    for backbone, other in examples.AGAINST.items():
        row, both = table.loc[backbone], (backbone, other)

        def of(values: pd.DataFrame, column: str, **where: object) -> list[np.ndarray]:
            own = (wide(values, column, backbone=name, **where) for name in both)  # noqa: B023
            return [np.broadcast_to(part, (5, QUERIES)) for part in own]

        clean, corrupted = (of(symmetric, "map_at_r", condition=c) for c in ("clean", "random_background"))
        check(row, "clean_difference", clean, less)
        check(row, "corrupted_difference", corrupted, less)
        check(row, "ref_gain", of(scores, "score", variant="ref"), less, scale=1)
        check(row, "linear_corrupted_gain", of(probed, "linear", condition="random_background"), less)
        levels = [clean[0], corrupted[0], clean[1], corrupted[1]]
        check(row, "relative_drop_change", levels, lambda a, b, c, d: (1 - b / a) - (1 - d / c))
    p = table["corrupted_difference_p"].tolist()
    assert table["corrupted_difference_p_holm"].tolist() == pytest.approx(uncertainty.holm(p).tolist())
    fewer = pretrained(shared=(0, 1), skipped=True)
    assert fewer.at["moco_patches", "seeds"] == 2
    assert fewer["ref_gain"].isna().to_dict() == {"moco": False, "moco_patches": True}


def test_decisions_are_shared_out_over_classes_and_seeds() -> None:
    values = examples.decisions()
    table = shape_texture.table(values, examples.LEARNED).set_index("backbone")
    for backbone, row in table.iterrows():
        shape, texture = (wide(values, column, backbone=backbone) for column in ("precision_at_1", OF_DONOR))
        check(row, "shape", [shape])
        check(row, "texture", [texture])
        check(row, "neither", [1 - shape - texture])
        check(row, "shape_share", [shape, texture], lambda a, b: a / (a + b))
        for seed in SEEDS:
            expected = 100 * shape[seed].sum() / (shape[seed] + texture[seed]).sum()
            assert row[f"shape_share_seed_{seed}"] == pytest.approx(expected)
        assert (row["queries"], row["classes"], row["seeds"]) == (QUERIES, 8, 3)
    assert table["alpha"].tolist() == [0, 2]


def test_models_are_compared_as_audits_are_each_dataset_by_itself() -> None:
    found = comparison.compare({name: model(*levels) for name, levels in examples.LEVELS.items()})
    more = {name: e.value for name, e in comparison.differences(found.pairs, "resnet50").items()}
    for _, table in models.table(examples.as_they_come(("birds", "shop"))).groupby("dataset"):
        assert list(table["backbone"]) == list(found.models["model"]) == ["resnet50", "vit", "mobilenet"]
        for name in ("clean", "changed", "drop", "drop_low", "drop_high"):
            assert table[name].tolist() == pytest.approx((100 * found.models[name]).tolist())
        assert table["is_on_front"].tolist() == [True, True, False]
        against = table.set_index("backbone")["against_best"]
        assert np.isnan(against["resnet50"])
        assert against.drop("resnet50").to_dict() == pytest.approx(
            {name: 100 * of for name, of in more.items()}
        )


def test_another_place_costs_a_part_of_what_is_found_at_ones_own() -> None:
    values = examples.visited()
    table = places.table(values)
    for _, row in table.iterrows():
        here, there = (
            wide(values, method=row["method"], setting=setting, condition="clean")
            for setting in ("same_place", "other_place")
        )
        check(row, "here", [here])
        check(row, "natural", [here, there], drop)
        # Of A - B the background of the place wins back C - B.
        assert row["carried_low"] < row["carried"] < row["carried_high"]
        assert row["carried"] == pytest.approx(100 * 2 / 3, abs=3)
    assert table["there_difference"].isna().tolist() == [True, False]
    with pytest.raises(UserError, match="No dataset of the grid has a class that was seen in two places"):
        places.table(values[~values["setting"].str.contains("place")])
