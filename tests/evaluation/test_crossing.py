"""Objects in front of the same backgrounds: the same pictures for all, ranked as a naive twin ranks them."""

from __future__ import annotations

import hashlib
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from bgbias import seeds
from bgbias.backgrounds.draws import Pool
from bgbias.errors import UserError
from bgbias.evaluation import crossing
from bgbias.evaluation.crossing import CrossedEmbeddings
from bgbias.evaluation.embeddings import Embeddings
from bgbias.evaluation.photos import EvaluationPhotos
from bgbias.files.store import writing
from bgbias.images import pixels
from bgbias.models.settings import How
from bgbias.photos import picture_cache
from bgbias.photos.table import COLUMNS, ImageTable
from bgbias.report.tables.crossing import expected_worst

SIDE, CROP = 36, 32


def number(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def unit(*shape: int) -> np.ndarray:
    vectors = seeds.generator("crossing", *shape).normal(size=shape).astype(np.float32)
    made: np.ndarray = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    return made


class Means(nn.Module):
    """A model that sees a picture's mean colour, brought to unit length."""

    @staticmethod
    def preprocess(x: torch.Tensor) -> torch.Tensor:
        return x.float()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.normalize(x.mean(dim=(2, 3)), dim=1)


@pytest.fixture
def split(tmp_path: Path) -> EvaluationPhotos:
    with writing(tmp_path / "photos.zip") as photos, writing(tmp_path / "masks.zip") as masks:
        for n in range(6):
            picture = seeds.generator("photo", n).integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)
            mask = seeds.generator("mask", n).integers(0, 256, (SIDE, SIDE), dtype=np.uint8)
            photos.add(f"{n}.png", pixels.encode_png(picture))
            masks.add(f"{n}.png", pixels.encode_png(mask))
    rows = [[f"{n}.png", n % 2, "class", "test", "own|test", str(100 + n)] for n in range(6)]
    opened = picture_cache.pictures(tmp_path / "photos.zip", SIDE, tmp_path)
    masks_opened = picture_cache.pictures(tmp_path / "masks.zip", SIDE, tmp_path, "L")
    pool = Pool([seeds.generator("pool", b).integers(0, 256, (50, 60, 3), dtype=np.uint8) for b in range(4)])
    trusted = frozenset(f"{n}.png" for n in (0, 1, 3, 4, 5))
    table = ImageTable(pd.DataFrame(rows, columns=list(COLUMNS)))
    return EvaluationPhotos(table, opened, CROP, masks_opened, trusted, pool)


def test_every_object_stands_in_front_of_the_same_parts_of_the_same_backgrounds(
    split: EvaluationPhotos,
) -> None:
    shown = crossing.objects(split, 3)
    keyed = sorted((0, 1, 3, 4, 5), key=lambda n: number(f"crossing|own|test|{100 + n}"))
    assert shown.ids == [f"{n}.png" for n in keyed[:3]]
    found = crossing.embed(Means(), split, shown, 2, How(batch_size=4))  # type: ignore[arg-type]
    places = sorted(range(4), key=lambda b: number(f"crossing|{b}"))[:2]
    assert (found.ids, found.backgrounds.tolist()) == (shown.ids, places)
    for vectors, name in zip(found.vectors, shown.ids, strict=True):
        for vector, place in zip(vectors, places, strict=True):
            part = np.random.default_rng(number(f"crossing|{place}"))
            box, flip = pixels.random_box(part, 50, 60)
            whole = seeds.generator("pool", place).integers(0, 256, (50, 60, 3), dtype=np.uint8)
            behind = pixels.crop(whole, box, CROP, flip).astype(float)
            soft = split.mask(name)[..., None] / 255
            mean = np.rint(soft * split.clean(name) + (1 - soft) * behind).mean(axis=(0, 1))
            np.testing.assert_allclose(vector, mean / np.linalg.norm(mean), atol=1e-5)


def test_a_pool_or_a_split_of_one_is_an_error_that_says_so(split: EvaluationPhotos) -> None:
    alone = EvaluationPhotos(
        split.table, split.photos, CROP, split.masks, frozenset({"3.png"}), split.backgrounds
    )
    with pytest.raises(UserError, match=r"1 photos have a trusted mask, .* crossing\.objects to null"):
        crossing.objects(alone, 5)
    single = EvaluationPhotos(
        split.table, split.photos, CROP, split.masks, split.usable, Pool([np.zeros((9, 9, 3), np.uint8)])
    )
    with pytest.raises(UserError, match="The pool has one background"):
        crossing.embed(Means(), single, crossing.objects(single, 5), 20)  # type: ignore[arg-type]


def test_queries_are_ranked_in_the_clean_gallery_without_their_own_photo() -> None:
    labels = np.array([0, 0, 0, 1, 1, 2, 2, 2, 2, 3])
    ids = [f"{n}.png" for n in range(len(labels))]
    gallery = Embeddings(ids, labels, np.ones(len(labels), bool), {("clean", 0): unit(len(labels), 5)})
    clean = gallery.views["clean", 0]
    rows = [7, 0, 4, 9]
    crossed = CrossedEmbeddings([ids[row] for row in rows], np.array([2, 0, 5]), unit(4, 3, 5))
    found = crossing.score_queries(crossed, gallery)
    assert len(found) == 12
    for line in found.itertuples():
        n, m = rows.index(ids.index(line.image_id)), [2, 0, 5].index(line.background)
        vector, row = crossed.vectors[n, m].astype(float), rows[n]
        assert line.label == labels[row]
        assert line.cosine == pytest.approx(vector @ clean[row], abs=1e-6)
        order = [int(i) for i in np.argsort(-(clean @ vector), kind="stable") if i != row]
        relevant = int((labels == labels[row]).sum()) - 1
        hits = [labels[i] == labels[row] for i in order[:relevant]]
        expected = sum(sum(hits[: k + 1]) / (k + 1) for k in range(relevant) if hits[k])
        assert line.map_at_r == pytest.approx(expected / relevant if relevant else np.nan, nan_ok=True)


def test_what_is_crossed_is_kept(tmp_path: Path) -> None:
    crossed = CrossedEmbeddings(["a.png", "b.png"], np.array([3, 1]), unit(2, 2, 4))
    crossed.write(tmp_path / "crossed.npz")
    with np.load(tmp_path / "crossed.npz") as again:
        assert (again["ids"].tolist(), again["backgrounds"].tolist()) == (crossed.ids, [3, 1])
        assert np.array_equal(again["vectors"], crossed.vectors)


@pytest.mark.parametrize("tries", [1, 2, 3, 5])
def test_the_worst_of_some_is_the_mean_over_all_ways_to_choose_them(tries: int) -> None:
    values = seeds.generator("worst").random((4, 5))
    values[3, 2] = np.nan
    naive = [np.mean([min(chosen) for chosen in combinations(row, tries)]) for row in values]
    found = expected_worst(values, tries)
    np.testing.assert_allclose(found[:3], naive[:3], rtol=1e-12)
    assert np.isnan(found[3])


def test_the_worst_of_none_or_of_more_than_there_are_is_refused() -> None:
    for tries in (0, 6):
        with pytest.raises(ValueError, match=f"the worst of {tries} of 5 values"):
            expected_worst(np.zeros((2, 5)), tries)
