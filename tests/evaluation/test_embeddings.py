"""The file of embeddings keeps all that retrieval needs of a model."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rankings import embedded, random_unit

from bgbias.errors import UserError
from bgbias.evaluation import embeddings
from bgbias.evaluation.conditions import CLEAN, RANDOM_BACKGROUND
from bgbias.photos.places import Places
from bgbias.photos.query_gallery import QueryGallerySplit

LABELS = np.array([0, 0, 1, 1])
VIEWS = {
    (CLEAN, 0): random_unit(0, 4, 3),
    (RANDOM_BACKGROUND, 0): random_unit(1, 4, 3),
    (RANDOM_BACKGROUND, 1): random_unit(2, 4, 3),
    ("mixed_rand", 0): random_unit(3, 4, 3),
}
PLAIN = embedded(LABELS, VIEWS, usable=np.array([True, False, True, True]))
FULL = replace(
    PLAIN,
    donors={("mixed_rand", 0): np.array([2, 3, 0, 1])},
    given=QueryGallerySplit(LABELS > 0, LABELS >= 0, np.array([0, 1, 0, 1])),
    places=Places.of(list("abab"), LABELS, [("s", str(n)) for n in range(4)]),
    originals=np.array([0, 0, 2, 3]),
)


@pytest.mark.parametrize("kept", [PLAIN, FULL], ids=["plain", "all"])
def test_files_give_back_what_was_written(kept: embeddings.Embeddings, tmp_path: Path) -> None:
    kept.write(tmp_path / "embeddings.npz")
    again = embeddings.read(tmp_path / "embeddings.npz")
    assert again.ids == kept.ids
    assert list(again.views) == list(kept.views)
    for name, ours in vars(kept).items():
        theirs = getattr(again, name)
        if isinstance(ours, QueryGallerySplit | Places):
            ours, theirs = vars(ours), vars(theirs)
        np.testing.assert_equal(theirs, ours)
    assert embeddings.side_by_side([again, again]).originals is again.originals


def test_embeddings_of_other_photos_are_not_joined() -> None:
    for other in (replace(PLAIN, ids=PLAIN.ids[::-1]), replace(PLAIN, views={(CLEAN, 0): VIEWS[CLEAN, 0]})):
        with pytest.raises(UserError, match="different photos"):
            embeddings.side_by_side([PLAIN, other])
