"""Thirds of queries by what is measured of their photos."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from bgbias.auditing import slices


def test_a_masks_area_and_place_are_those_of_its_pixels() -> None:
    mask = np.zeros((10, 20), np.uint8)
    mask[:5, :10] = 255
    found = slices._measure_mask(mask)
    assert found["area"] == 0.25
    assert found["off_centre"] == pytest.approx(0.5)  # the middle of a quarter lies half way to the corner
    assert slices._measure_mask(np.full((4, 4), 255, np.uint8)) == {"area": 1.0, "off_centre": 0.0}
    assert np.isnan(slices._measure_mask(np.zeros((4, 4), np.uint8))["off_centre"])


def join(photos: pd.DataFrame, properties: pd.DataFrame) -> pd.DataFrame:
    """The queries among the photos, with their properties."""
    return photos[photos["lost"].notna()].merge(properties, on="image_id")


def test_thirds_hold_all_queries_in_the_order_of_the_property() -> None:
    """The smaller the object, the more is lost; photo 7 is no query."""
    area = np.random.default_rng(0).permutation(np.linspace(0.1, 0.7, 61))
    ids = [f"{i:03}" for i in range(61)]
    queries = pd.DataFrame({"image_id": ids, "clean": 0.8, "random_background": area, "lost": 0.8 - area})
    queries["class_name"] = [f"class {i % 6}" for i in range(61)]
    queries.loc[7, "lost"] = np.nan
    known = pd.DataFrame(
        {"image_id": ids, "area": area, "off_centre": 0.1, "brightness": 0.5, "clarity": 1.0}
    )
    found = list(slices.make_thirds(join(queries, known)))
    assert [third.prop for third in found] == ["area"] * 3  # what is the same for all parts nobody
    assert sum(third.queries for third in found) == 60
    assert found[0].most <= found[1].least <= found[1].most <= found[2].least
    in_order = np.sort(np.delete(area, 7))
    part, rest = np.split(in_order, [found[0].queries])
    assert found[0].lost.value == pytest.approx(0.8 - part.mean())
    assert found[0].lost.low < found[0].lost.value < found[0].lost.high
    assert list(slices.make_thirds(join(queries.head(20), known))) == []

    (larger,) = slices.leave_out_small(join(queries, known), found)
    assert (larger.queries, larger.least) == (len(rest), found[1].least)
    assert larger.drop.value == pytest.approx(1 - rest.mean() / 0.8)
    assert list(slices.leave_out_small(join(queries, known), found[::-1])) == []  # large ones lose most
    # Masks that somebody drew are the objects, however small.
    mixed = known.assign(clarity=known["clarity"].where(known["area"] > 0.15))
    (with_drawn,) = slices.leave_out_small(join(queries, mixed), found)
    assert with_drawn.drawn == (in_order <= 0.15).sum() > 0
    assert with_drawn.queries == larger.queries + with_drawn.drawn
    nobody_knows = known.assign(clarity=np.nan)  # a masker without doubt drew nothing by hand
    assert list(slices.leave_out_small(join(queries, nobody_knows), found)) == [larger]


def test_equal_values_stay_together_or_make_no_thirds() -> None:
    """Photos come in the order of their classes: parting equal ones by their names would compare classes."""
    values = {"class_name": np.arange(42) // 6, "clean": 1.0, "random_background": 0.5, "lost": 0.5}
    measured = {
        "area": np.arange(42) % 3,
        "off_centre": 0.1,
        "brightness": 0.5,
        "clarity": [0.4] * 5 + [1.0] * 37,
    }
    found = list(slices.make_thirds(pd.DataFrame(values | measured)))
    assert {third.prop for third in found} == {"area"}
    assert [(third.least, third.most) for third in found] == [(0, 0), (1, 1), (2, 2)]


def test_the_drop_is_told_of_the_queries_whose_masks_are_sure() -> None:
    queries = pd.DataFrame({"image_id": list("abcdefg"), "class_name": list("1122334"), "clean": 0.8})
    queries["random_background"] = [0.6] * 6 + [0.0]
    queries["lost"] = queries["clean"] - queries["random_background"]
    queries.loc[5, "lost"] = np.nan  # no query, however unsure its mask is
    known = pd.DataFrame({"image_id": list("abcdefg"), "clarity": [1.0, 0.85, 1.0, 1.0, 1.0, 0.1, 0.84]})
    found = slices.leave_out_unsure(join(queries, known))
    assert found is not None
    assert (found.queries, found.others) == (5, 1)
    assert found.drop.value == pytest.approx(0.25)
    assert slices.leave_out_unsure(join(queries, known.assign(clarity=1.0))) is None
    none = slices.leave_out_unsure(join(queries, known.assign(clarity=0.5)))
    assert none is not None
    assert (none.queries, none.others) == (0, 6)
    assert np.isnan(none.drop.value)
    assert slices.leave_out_unsure(join(queries, known.assign(clarity=np.nan))) is None  # nobody knows
