"""Erasures against another derivation, what they promise, and what they must leave alone."""

from __future__ import annotations

import numpy as np
import pytest

from bgbias.evaluation.cures import _projected as erasure

GENERATOR = np.random.default_rng(0)


def crossed(objects: int = 40, backgrounds: int = 6, dim: int = 12, strength: float = 2.0) -> np.ndarray:
    """Embeddings of objects in front of backgrounds that add to them and turn them."""
    thing = GENERATOR.normal(size=(objects, 1, dim)) * np.linspace(0.2, 3, dim)
    wall = strength * GENERATOR.normal(size=(1, backgrounds, dim))
    both = GENERATOR.normal(size=(objects, backgrounds, dim)) * 0.3
    values = thing + wall + both
    return values / np.linalg.norm(values, axis=2, keepdims=True)


def straightforward(values: np.ndarray) -> np.ndarray:
    """The matrix A that minimises E|Ax - x|^2 subject to A S_xz = 0, by Lagrange multipliers; for covariances of full rank."""
    n, m, d = values.shape
    x = values.reshape(-1, d) - values.mean(axis=(0, 1))
    z = np.tile(np.eye(m), (n, 1))
    z = z - z.mean(axis=0)
    of_x, with_z = x.T @ x / len(x), x.T @ z / len(x)
    inverse = np.linalg.inv(of_x)
    return np.eye(d) - with_z @ np.linalg.pinv(with_z.T @ inverse @ with_z) @ with_z.T @ inverse


def test_it_is_the_least_change_that_takes_out_what_is_linear() -> None:
    values = crossed()
    found = erasure.least_squares(values)
    np.testing.assert_allclose(np.eye(12) - found.removed, straightforward(values), atol=1e-9)
    assert found.rank == 5  # one fewer than backgrounds
    left = values - (values - found.mean) @ found.removed.T
    np.testing.assert_allclose(
        left.mean(axis=0), np.broadcast_to(values.mean(axis=(0, 1)), (6, 12)), atol=1e-12
    )


def test_embeddings_that_vary_in_few_directions_are_no_harder() -> None:
    """As those of a network whose last layer has lower rank than width: the covariance has no inverse."""
    few = crossed(dim=8)
    turn = np.linalg.qr(GENERATOR.normal(size=(20, 8)))[0]
    flat, deep = erasure.least_squares(few), erasure.least_squares(few @ turn.T)
    np.testing.assert_allclose(deep.removed, turn @ flat.removed @ turn.T, atol=1e-9)
    assert deep.rank == flat.rank == 5


def test_backgrounds_that_move_nothing_cost_nothing() -> None:
    objects = GENERATOR.normal(size=(30, 1, 10))
    same = np.repeat(objects / np.linalg.norm(objects, axis=2, keepdims=True), 4, axis=1)
    found = erasure.least_squares(same)
    assert found.rank == 0
    np.testing.assert_allclose(found(same[:, 0]), same[:, 0], atol=1e-12)


def test_the_direction_of_turning_backgrounds_is_found_though_it_is_none_on_average() -> None:
    """One axis says which background it is, with a sign of its own for each object: least squares cannot see it."""
    values = np.repeat(0.01 * GENERATOR.normal(size=(4000, 1, 6)), 6, axis=1)
    signs = np.repeat([1, -1], 2000)[:, None]
    values[..., 2] += signs * np.array([1, -1, 1, -1, 1, -1])
    assert erasure.least_squares(values).rank == 0
    np.testing.assert_allclose(erasure.largest_within(values, 1).removed[2, 2], 1, atol=0.01)
    assert erasure.largest_within(values, 1).rank == 1
    assert not erasure.largest_within(values, 0).removed.any()


def test_what_comes_out_has_unit_length_and_the_type_that_came_in() -> None:
    values = crossed().astype(np.float32)
    mapped = erasure.least_squares(values)(values[:, 0])
    assert mapped.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(mapped, axis=1), 1, atol=1e-6)
    nothing = erasure.Erasure(np.zeros(3), np.eye(3))
    assert not nothing(np.ones((2, 3))).any()


@pytest.mark.parametrize("shape", [(1, 5, 3), (5, 1, 3)])
def test_too_little_to_cross_is_an_error(shape: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="two of each"):
        erasure.least_squares(np.zeros(shape))
    with pytest.raises(ValueError, match="4 directions"):
        erasure.largest_within(np.zeros((5, 5, 3)), 4)
