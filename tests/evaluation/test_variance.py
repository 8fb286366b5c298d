"""Shares of variance: golden, by simulation, and as an independent analysis of variance has them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bgbias.evaluation.crossing import shares


def test_golden() -> None:
    found = shares(np.array([[[1.0], [2.0]], [[3.0], [6.0]]]))
    assert (found.object, found.background, found.interaction) == pytest.approx(
        (0.615385, 0.230769, 0.153846), abs=1e-6
    )
    assert found.negative == ()


def test_known_components_are_found() -> None:
    random = np.random.default_rng(0)
    n, m, d = 400, 120, 16
    crossed = (
        2 * random.normal(size=(n, 1, d))
        + random.normal(size=(1, m, d))
        + 0.5 * random.normal(size=(n, m, d))
    )
    found = shares(crossed)
    total = 4 + 1 + 0.25
    assert (found.object, found.background, found.interaction) == pytest.approx(
        (4 / total, 1 / total, 0.25 / total), abs=0.02
    )


def test_neither_a_turn_nor_a_shift_nor_a_scale_of_the_embedding_matters() -> None:
    random = np.random.default_rng(1)
    crossed = random.normal(size=(6, 1, 5)) + random.normal(size=(6, 4, 5))
    turn, _ = np.linalg.qr(random.normal(size=(5, 5)))
    one, other = shares(crossed), shares(3 * crossed @ turn + 7)
    for name in ("object", "background", "interaction"):
        assert getattr(one, name) == pytest.approx(getattr(other, name))


def test_a_component_below_nothing_is_nothing_and_told() -> None:
    """Rows whose means agree more than their values' scatter lets them."""
    found = shares(np.array([[[1.0], [-1.0]], [[-1.0], [1.0]]]))
    assert (found.object, found.background, found.interaction) == (0, 0, 1)
    assert found.negative == ("object", "background")


def test_nothing_to_share() -> None:
    assert math.isnan(shares(np.ones((3, 2, 4))).object)
    with pytest.raises(ValueError, match="1 objects and 5 backgrounds"):
        shares(np.ones((1, 5, 4)))
