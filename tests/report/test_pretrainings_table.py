"""Table 13: who is compared with whom, and what comes of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from caption_studies import selected
from small_study import described, load

import bgbias
from bgbias.evaluation.metrics import OTHERS
from bgbias.report import formats
from bgbias.report.tables import pretrainings
from bgbias.results import rows, uncertainty
from bgbias.study import plan

SEEDS, IMAGES = (0, 1, 2, 3, 4), 48
LABELS = np.arange(IMAGES) % 8
LEVELS = {"bare": 0.5, "moco": 0.7, "moco_patches": 0.55}
AGAINST = {"moco": "bare", "moco_patches": "moco"}
OF_MODELS = {("toy", backbone, "none", "pretrained"): other for backbone, other in AGAINST.items()}


def values(backbone: str, what: str, seed: int) -> np.ndarray:
    random = np.random.default_rng([seed, list(LEVELS).index(backbone), len(what)])
    share = LEVELS[backbone] * (0.5 if "corrupted" in what else 1)
    made: np.ndarray = share + 0.02 * LABELS + random.normal(0, 0.05, IMAGES)
    return made


def cell(backbone: str, seed: int) -> dict[str, Any]:
    return {"dataset": "toy", "backbone": backbone, "loss": "none", "method": "pretrained", "seed": seed}


def of_photos(seeds: dict[str, tuple[int, ...]], *whats: str) -> list[tuple[str, pd.DataFrame]]:
    named = {"image_id": [f"{n:02d}.jpg" for n in range(IMAGES)], "label": LABELS, "draw": 0}
    return [
        (what, pd.DataFrame({**cell(backbone, seed), **named, "value": values(backbone, what, seed)}))
        for backbone in LEVELS
        for seed in seeds[backbone]
        for what in whats
    ]


def made(
    probe: bool = True, scored: bool = True, shared: tuple[int, ...] = SEEDS, skipped: bool = False
) -> pd.DataFrame:
    seeds: dict[str, tuple[int, ...]] = {"bare": (0,), "moco": shared, "moco_patches": SEEDS}
    views = {"clean": (rows.SYMMETRIC, rows.CLEAN), "corrupted": (rows.SYMMETRIC, rows.CORRUPTED)}
    views |= {"query corrupted": (rows.QUERY_ONLY, rows.CORRUPTED)}
    queries = [
        part.rename(columns={"value": rows.MAP_AT_R}).assign(
            setting=views[what][0], condition=views[what][1], **{OTHERS: 0.0}
        )
        for what, part in of_photos(seeds, *views)
    ]
    scores = [
        part.rename(columns={"value": "score"}).assign(variant=what)
        for what, part in of_photos(seeds, "ref", "robust")
    ]
    probed = [
        part.rename(columns={"value": "linear"}).assign(
            nearest=part["value"] / 2, condition=views[what.removeprefix("probe ")][1]
        )
        for what, part in of_photos(seeds, "probe clean", "probe corrupted")
    ]
    for part in scores if skipped else ():
        part.loc[part["backbone"] == "moco_patches", "score"] = np.nan
    return pretrainings.table(
        pd.concat(queries),
        pd.concat(scores) if scored else rows.together([]),
        pd.concat(probed) if probe else rows.together([]),
        OF_MODELS,
    )


def test_each_is_compared_with_the_network_that_lacks_what_it_has() -> None:
    table = made().set_index("backbone")
    assert table["against"].to_dict() == AGAINST

    def of(backbone: str, what: str) -> np.ndarray:
        return np.array([values(backbone, what, 0 if backbone == "bare" else seed) for seed in SEEDS])

    p = []
    for backbone, other in AGAINST.items():
        row = table.loc[backbone]
        for name, what, scale in (
            ("corrupted_difference", "corrupted", 100),
            ("clean_difference", "clean", 100),
            ("ref_gain", "ref", 1),
            ("linear_clean_gain", "probe clean", 100),
            ("linear_corrupted_gain", "probe corrupted", 100),
        ):
            more = bgbias.estimate([of(backbone, what), of(other, what)], LABELS, lambda a, b: a - b)
            assert [row[f"{name}{end}"] for end in ("", "_low", "_high", "_p")] == pytest.approx(
                [scale * more.value, scale * more.low, scale * more.high, more.p]
            )
            if name == "corrupted_difference":
                p.append(more.p)
        levels = [of(one, what) for one in (backbone, other) for what in ("clean", "corrupted")]
        change = bgbias.estimate(levels, LABELS, lambda a, b, c, d: (1 - b / a) - (1 - d / c))
        assert row["relative_drop_change"] == pytest.approx(100 * change.value)
        assert row["relative_drop_change_p"] == pytest.approx(change.p)
    assert table["corrupted_difference_p_holm"].tolist() == pytest.approx(uncertainty.holm(p).tolist())


def test_columns_without_values_are_left_out_and_not_explained() -> None:
    whole, bare = made(), made(probe=False, scored=False)
    said = pretrainings.caption(selected(), whole, {})
    assert "accuracy as in Table 12" in said
    page = formats.markdown(whole, "table13", said)
    assert "Linear, clean" in page
    assert "| moco |" in page  # whom moco_patches is compared with
    said = pretrainings.caption(selected(), bare, {})
    page = formats.markdown(bare, "table13", said)
    assert "Linear" not in page
    assert "Attribution" not in page


def test_negatives_are_compared_with_the_same_pretraining_without_them(tmp_path: Path) -> None:
    raw = described(tmp_path)
    raw["pretrainings"] = {
        "moco": {"kind": "moco_v2", "epochs": 3},
        "patches": {"kind": "moco_v2", "epochs": 3, "negatives": "patches", "alpha": 3},
        "longer": {"kind": "moco_v2", "epochs": 4, "negatives": "patches"},
        "byol": {"kind": "byol", "epochs": 3},
    }
    raw["backbones"] |= {name: {"kind": "pixels", "pretraining": name} for name in raw["pretrainings"]}
    block = raw["grids"]["small"]["cells"][0]
    block["backbones"] = list(raw["backbones"])
    study = load(tmp_path, raw)
    expected = {"moco": "pixels", "patches": "moco", "longer": "pixels", "byol": "pixels"}
    found = plan.compared_backbones(study)
    assert {model[1]: other for model, other in found.items()} == expected
    assert len(found) == 4 * 2 * 2  # with every loss and method
    assert pretrainings.wanted(study)
    block["backbones"] = ["moco", "byol"]
    assert not pretrainings.wanted(load(tmp_path, raw))
    block["backbones"] = ["pixels"]
    assert not pretrainings.wanted(load(tmp_path, raw))


def test_only_models_that_are_there_are_compared(tmp_path: Path) -> None:
    raw = described(tmp_path)
    raw["datasets"]["others"] = raw["datasets"]["squares"] | {"options": {}}
    raw["pretrainings"] = {
        "moco": {"kind": "moco_v2"},
        "patches": {"kind": "moco_v2", "negatives": "patches"},
    }
    raw["backbones"] |= {name: {"kind": "pixels", "pretraining": name} for name in raw["pretrainings"]}
    block = raw["grids"]["small"]["cells"][0] | {"losses": ["contrastive"], "methods": ["plain"]}
    apart = [block | {"backbones": ["pixels"]}, block | {"backbones": ["moco"], "datasets": ["others"]}]
    raw["grids"]["small"]["cells"] = apart
    assert plan.compared_backbones(load(tmp_path, raw)) == {}
    # Where the same pretraining without negatives is of another dataset, the bare network is the next best.
    raw["grids"]["small"]["cells"] = [*apart, block | {"backbones": ["patches"]}]
    assert plan.compared_backbones(load(tmp_path, raw)) == {
        ("squares", "patches", "contrastive", "plain"): "pixels"
    }


def test_random_weights_are_drawn_by_every_seed_where_pretrained_ones_stand_beside_them(
    tmp_path: Path,
) -> None:
    raw = described(tmp_path)
    raw["pretrainings"] = {"moco": {"kind": "moco_v2"}}
    raw["backbones"]["moco"] = {"kind": "pixels", "pretraining": "moco"}
    raw["backbones"]["mobilenet_v2"] = {"weights": "published"}
    block = raw["grids"]["small"]["cells"][0]
    block |= {"backbones": ["pixels", "moco", "mobilenet_v2"], "pretrained": True, "seeds": [0, 1, 2]}

    def seeds(backbone: str) -> list[int]:
        cells = plan.cells(load(tmp_path, raw))
        return [c.seed for c in cells if (c.backbone, c.method) == (backbone, "pretrained")]

    assert seeds("pixels") == seeds("moco") == [0, 1, 2]
    assert seeds("mobilenet_v2") == [0]
    block["backbones"] = ["pixels"]
    assert seeds("pixels") == [0]


def test_seeds_that_are_not_shared_do_not_count() -> None:
    table = made(shared=(0, 1)).set_index("backbone")
    assert table.at["moco_patches", "seeds"] == 2
    assert "over classes alone" in pretrainings.caption(selected(), table.reset_index(), {})


def test_scores_of_no_photo_are_no_difference() -> None:
    table = made(skipped=True).set_index("backbone")
    assert np.isnan(table.at["moco_patches", "ref_gain"])
    assert np.isfinite(table.at["moco", "ref_gain"])
