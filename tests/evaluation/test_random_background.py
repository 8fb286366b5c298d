"""The corrupted picture of (dataset, split, draw, image) depends on these names alone."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn

from bgbias import seeds
from bgbias.backgrounds import draws
from bgbias.evaluation import embedding, embeddings
from bgbias.evaluation.conditions import CLEAN, RANDOM_BACKGROUND, random_background, views
from bgbias.evaluation.photos import EvaluationPhotos, workers
from bgbias.files.store import writing
from bgbias.images import pixels
from bgbias.images.composite import CutOut
from bgbias.models.inference import embed_views
from bgbias.models.preprocess import Preprocess
from bgbias.models.settings import How
from bgbias.photos import picture_cache
from bgbias.photos.table import COLUMNS, ImageTable

HUNDRED = [(320, 427)] * 100
BOTH = (CLEAN, RANDOM_BACKGROUND)


@pytest.mark.parametrize(
    ("key_set", "repeat", "item", "index"),
    # Golden G2c: the photo behind, in a pool of 100.
    [
        ("cub200|test", 0, "0", 74),
        ("cub200|test", 0, "1", 95),
        ("cub200|test", 4, "5923", 44),
        ("sop|test", 2, "60501", 76),
    ],
)
def test_index_is_the_manifests(key_set: str, repeat: int, item: str, index: int) -> None:
    assert draws.draw(key_set, repeat, item, HUNDRED).index == index


def test_index_is_taken_modulo_the_pool() -> None:
    u = int.from_bytes(hashlib.sha256(b"cub200|test|bg|1|7").digest()[:8], "big")
    for pool in (1, 3, 80):
        assert draws.draw("cub200|test", 1, "7", HUNDRED[:pool]).index == u % pool


def test_crop_is_drawn_from_the_same_number() -> None:
    u = seeds.number("cub200|test|bg|1|7")
    drawn = draws.draw("cub200|test", 1, "7", HUNDRED)
    assert (drawn.box, drawn.flip) == pixels.random_box(np.random.default_rng(u), 320, 427)


def test_draws_and_photos_differ() -> None:
    drawn = [draws.draw("cub200|test", r, str(i), HUNDRED) for r in range(5) for i in range(40)]
    assert len({d.box for d in drawn}) == 200
    assert len({d.index for d in drawn}) > 70


@pytest.fixture
def pool(tmp_path: Path) -> Path:
    """Four backgrounds of different shape, as the node `backgrounds` stores them."""
    with writing(tmp_path / "test.zip") as store:
        for n, (height, width) in enumerate([(90, 131), (140, 77), (64, 64), (71, 200)]):
            noise = seeds.generator("pool", n).integers(0, 256, (height, width, 3), dtype=np.uint8)
            store.add(f"{n}.png", pixels.encode_png(noise))
    return tmp_path / "test.zip"


def test_every_backbone_sees_the_same_crop(tmp_path: Path) -> None:
    """A short side of 36 rounds a picture's shape otherwise than one of 640; the draw must not notice."""
    y, x = np.mgrid[0:90, 0:137]
    waves = np.stack([np.sin(x / 40 + k) + np.cos(y / 30 - k) for k in range(3)], axis=2)
    with writing(tmp_path / "pool.zip") as store:
        store.add("waves.png", pixels.encode_png(np.rint(127.5 + 63 * waves).astype(np.uint8)))
    sizes = draws.sizes(tmp_path / "pool.zip")
    assert sizes == [(90, 137)]
    small, large = (
        draws.Pool(picture_cache.pictures(tmp_path / "pool.zip", side, tmp_path / "prepared"), sizes)
        for side in (36, 640)
    )
    for item in range(100):
        key = ("own|test", str(item))
        seen = [pool.picture(pool.draw(key, 0), 32).astype(int) for pool in (small, large)]
        assert np.abs(seen[0] - seen[1]).max() <= 6


class Pictures(nn.Module):
    """In a model's place: a photo's embedding is the photo, 4 x 4 pixels of it."""

    preprocess = Preprocess(1.0, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0))

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.adaptive_avg_pool2d(x, 4).flatten(1)


def photos(folder: Path, pool: Path, order: np.ndarray) -> EvaluationPhotos:
    """Ten photos in some order, all but the first two with a mask that is trusted."""
    with writing(folder / "photos.zip") as store, writing(folder / "masks.zip") as masks:
        for n in range(10):
            rng = seeds.generator("photo", n)
            store.add(f"{n}.png", pixels.encode_png(rng.integers(0, 256, (36, 50, 3), dtype=np.uint8)))
            if n:
                masks.add(f"{n}.png", pixels.encode_png(rng.integers(0, 256, (36, 50), dtype=np.uint8)))
    rows = [[f"{n}.png", n // 2, "class", "test", "own|test", f"{n}.png"] for n in order]
    return EvaluationPhotos(
        ImageTable(pd.DataFrame(rows, columns=list(COLUMNS))),
        picture_cache.pictures(folder / "photos.zip", 36, folder / "prepared"),
        32,
        picture_cache.pictures(folder / "masks.zip", 36, folder / "prepared", "L"),
        frozenset(f"{n}.png" for n in range(2, 10)),
        draws.Pool(picture_cache.pictures(pool, 36, folder / "prepared"), draws.sizes(pool)),
    )


def corrupted(embedded: embeddings.Embeddings) -> np.ndarray:
    return np.stack([v for (name, _), v in embedded.views.items() if name == RANDOM_BACKGROUND])


def by_id(embedded: embeddings.Embeddings) -> dict[str, np.ndarray]:
    return {name: corrupted(embedded)[:, n] for n, name in enumerate(embedded.ids)}


def test_same_pictures_for_every_batch_size_order_and_subset(tmp_path: Path, pool: Path) -> None:
    model = Pictures()
    three, two = views(BOTH, 3), views(BOTH, 2)
    reference = by_id(embedding.embed(model, photos(tmp_path, pool, np.arange(10)), three))  # type: ignore[arg-type]
    for order, batch_size in ((np.arange(10), 1), (np.arange(10)[::-1], 7), (np.array([4, 9, 2]), 64)):
        found = by_id(
            embedding.embed(model, photos(tmp_path, pool, order), three, How(batch_size=batch_size))
        )  # type: ignore[arg-type]
        for name, seen in found.items():
            assert np.allclose(seen, reference[name], rtol=0, atol=1e-3)
    fewer = embedding.embed(model, photos(tmp_path, pool, np.arange(10)), two)  # type: ignore[arg-type]
    assert np.array_equal(fewer.views[RANDOM_BACKGROUND, 1], np.stack(list(reference.values()))[:, 1])


def test_views_are_clean_then_one_a_draw(tmp_path: Path, pool: Path) -> None:
    shown = photos(tmp_path, pool, np.arange(10))
    pictures = list(shown.views(views(BOTH, 3)))
    assert len(pictures) == 10 * 4
    assert all(v.shape == (32, 32, 3) and v.dtype == np.uint8 for v in pictures)
    for n, name in enumerate(shown.table.ids):
        clean, *replaced = pictures[4 * n : 4 * n + 4]
        assert (clean == pixels.centre_crop(shown.photos.get(name), 32)).all()
        for repeat, view in enumerate(replaced):
            if name in shown.usable:
                assert shown.backgrounds is not None
                behind = shown.backgrounds.picture(shown.backgrounds.draw(("own|test", name), repeat), 32)
                assert (view == CutOut(clean, shown.mask(name)).before(behind)).all()
                assert (view == random_background.view(shown.photo(n), repeat)).all()
                assert (view != clean).any()
            else:  # without a trusted mask a photo keeps its own background
                assert (view == clean).all()
    for one, many in zip(pictures, shown.views(views(BOTH, 3), workers=3), strict=True):
        assert (one == many).all()
    for n, name in enumerate(BOTH):
        for alone, one in zip(shown.views([(name, 0)]), pictures[n::4], strict=True):
            assert (alone == one).all()


def test_processes_that_make_views_leave_two_cores_to_a_gpus_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "16")
    assert [workers("cuda:1", photos) for photos in (0, 31, 64, 100, 10**5)] == [1, 1, 2, 3, 14]
    assert workers("cpu", 10**5) == 1
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert workers("cuda", 10**5) == 1


def test_usable_photos_are_marked_and_embeddings_survive_the_disk(tmp_path: Path, pool: Path) -> None:
    embedded = embedding.embed(Pictures(), photos(tmp_path, pool, np.arange(10)), views(BOTH, 2))  # type: ignore[arg-type]
    assert embedded.usable.tolist() == [False] * 2 + [True] * 8
    assert list(embedded.views) == [(CLEAN, 0), (RANDOM_BACKGROUND, 0), (RANDOM_BACKGROUND, 1)]
    assert {v.shape for v in embedded.views.values()} == {(10, 48)}
    embedded.write(tmp_path / "embeddings.npz")
    again = embeddings.read(tmp_path / "embeddings.npz")
    assert again.ids == embedded.ids
    for name in ("labels", "usable"):
        assert np.array_equal(getattr(again, name), getattr(embedded, name))
    assert list(again.views) == list(embedded.views)
    for view, vectors in embedded.views.items():
        assert np.array_equal(again.views[view], vectors)
    with np.load(tmp_path / "embeddings.npz") as file:  # as in files of the first version
        assert file.files == ["ids", "labels", "usable", "clean", "corrupted"]
        assert (file["clean"].shape, file["corrupted"].shape) == ((10, 48), (2, 10, 48))


def test_mask_of_another_size_is_an_error(tmp_path: Path, pool: Path) -> None:
    shown = photos(tmp_path, pool, np.arange(10))
    with writing(tmp_path / "masks.zip") as masks:
        masks.add("5.png", pixels.encode_png(np.zeros((50, 36), np.uint8)))
    other = picture_cache.pictures(tmp_path / "masks.zip", 36, tmp_path / "prepared", "L")
    wrong = EvaluationPhotos(shown.table, shown.photos, 32, other, frozenset({"5.png"}), shown.backgrounds)
    with pytest.raises(
        Exception, match=r"mask of '5\.png' is \(50, 36\), its photo \(36, 50\); remake the masks"
    ):
        list(wrong.views([(RANDOM_BACKGROUND, 0)]))


def test_views_of_photos_opened_without_what_they_need_are_an_error(tmp_path: Path, pool: Path) -> None:
    shown = photos(tmp_path, pool, np.arange(10))
    bare = EvaluationPhotos(shown.table, shown.photos, 32, shown.masks, shown.usable)
    assert len(list(bare.views([(CLEAN, 0)]))) == 10
    with pytest.raises(ValueError, match="opened without backgrounds"):
        list(bare.views([(RANDOM_BACKGROUND, 0)]))


def test_embedding_without_photos_is_an_error() -> None:
    with pytest.raises(Exception, match="no photos to embed"):
        embed_views(Pictures(), iter(()))  # type: ignore[arg-type]
    assert torch.is_grad_enabled()
