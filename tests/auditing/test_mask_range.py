"""Two segmentation models: between which values the drop lies, were masks perfect; on toys whose masks are known."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import bgbias
from bgbias import plugins
from bgbias.auditing.mask_range import measure_object_share
from bgbias.auditing.prepared_photos import PreparedPhotos
from bgbias.errors import UserError
from bgbias.masks.policy import Mask
from bgbias.models.look import Look
from bgbias.photos.table import ImageTable
from tests.support.two_visits import OBJECT, SIDE, list_photos

MASKER = """
import numpy as np

from bgbias.masks.policy import Mask
from bgbias.settings import Strict

PREDICTS, SPEED, FILES = True, (), ()


class Params(Strict):
    pass


def mask(photo):
    alpha = np.zeros(photo.shape[:2], np.uint8)
    alpha[{rows}, {columns}] = 255
    return Mask(alpha, 1.0)


def build(params, device):
    return lambda photos: [mask(photo) for photo in photos]
"""
# Each misses another side of the object, or takes another side of the background for it.
SEEN = {
    "without_left": "12:24",
    "without_right": "8:20",
    "with_left": "2:24",
    "with_right": "8:30",
}


@pytest.fixture(autouse=True)
def maskers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("BGBIAS_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "own/maskers"
    folder.mkdir(parents=True)
    rows = f"{OBJECT.start}:{OBJECT.stop}"
    for name, columns in SEEN.items():
        (folder / f"{name}.py").write_text(MASKER.format(rows=rows, columns=columns))
    plugins.use(tmp_path / "own")
    yield
    plugins.use()


def of_all(batch: list[np.ndarray]) -> list[np.ndarray]:
    """What a model makes of the whole picture, the object's middle above all."""
    return [
        np.concatenate([photo.mean((0, 1)), photo[OBJECT, OBJECT].mean((0, 1)), [60]]) - 60 for photo in batch
    ]


def audited(shop: Path, photos: Any = None, **how: Any) -> bgbias.Audit:
    asked = {"size": SIDE, "resize": SIDE, "draws": 1, "attribution": 0, "place": "", "class_level": 2}
    source = shop / "photos" if photos is None else photos
    return bgbias.audit(source, of_all, backgrounds=shop / "walls", **asked | how)


def test_the_drop_with_perfect_masks_lies_between_what_two_models_leave_open(shop: Path) -> None:
    true = audited(shop, masks=shop / "masks").drop.value
    for first, second, end in (
        ("without_left", "without_right", "either"),  # together they have all of the object
        ("with_left", "with_right", "both"),  # and both have nothing but the object
    ):
        found = audited(shop, masker=first, second_masker=second).numbers
        of_range = found["mask_range"]
        assert of_range[end]["value"] == pytest.approx(true, abs=1e-12)
        alone = found["drop"][0]["value"] if isinstance(found["drop"], list) else found["drop"]["value"]
        assert abs(alone - true) > 0.01
        assert of_range["agreement"] == pytest.approx(0.5 if first.startswith("without") else 16 / 28)
        assert of_range["second"] == second
        assert of_range["object_share"] is None
    mixed = audited(shop, masker="without_left", second_masker="with_right").numbers["mask_range"]
    ends = sorted(mixed[name]["value"] for name in ("either", "both"))
    assert ends[0] < true < ends[1]


def test_drawn_masks_say_where_between_it_lies(shop: Path) -> None:
    some = list_photos(shop, "place").drop(columns="place")
    true = audited(shop, some, class_level=None).drop.value
    some.loc[np.arange(len(some)) % 4 > 0, "mask"] = None
    found = audited(
        shop, some, masker="without_left", second_masker="without_right", class_level=None
    ).numbers
    assert found["mask_range"]["object_share"] == pytest.approx(1)
    assert found["mask_range"]["extrapolated"]["value"] == pytest.approx(true, abs=1e-12)


def test_of_what_one_of_them_has_drawn_masks_say_which_share_is_object() -> None:
    """Of 28 columns half of those that one of them alone has are object."""

    def masks(first: int, last: int) -> Any:
        alpha = np.zeros((32, 32), np.uint8)
        alpha[OBJECT, first:last] = 255
        return SimpleNamespace(find_predicted=lambda _: Mask(alpha, 1.0), find=lambda _: Mask(drawn, 1.0))

    drawn = np.zeros((32, 32), np.uint8)
    drawn[OBJECT, OBJECT] = 255
    assert measure_object_share(["a", "b"], masks(12, 24), masks(2, 24)) == pytest.approx(4 / 10)
    assert np.isnan(measure_object_share(["a"], masks(12, 24), masks(12, 24)))


def test_where_the_second_model_sees_nothing_the_first_speaks_alone(tmp_path: Path) -> None:
    first, nothing = (np.zeros((32, 32), np.uint8) for _ in range(2))
    first[8:24, 12:24] = 255
    rows = {
        "image_id": ["a"],
        "label": [0],
        "class_name": ["x"],
        "split": ["test"],
        "key_set": ["s"],
        "key_item": ["a"],
    }
    photo = np.full((32, 32, 3), 90, np.uint8)
    prepared = PreparedPhotos(
        tmp_path,
        ImageTable(pd.DataFrame(rows)),
        Look(32, 32),
        lambda _: (photo, Mask(first, 1.0), Mask(nothing, 1.0)),
        True,
    )
    assert prepared.second_masks is not None
    np.testing.assert_array_equal(prepared.second_masks.get("a"), first)
    assert prepared.qualities["agreement"].tolist() == [1]


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"second_masker": "without_left"}, "without_left masks these photos already; name another one by"),
        ({"second_masker": "nobody"}, "There is no 'nobody' in maskers"),
        (
            {"second_masker": "isnet", "second_mask_weights": "no.onnx"},
            "second_mask_weights=no.onnx: there is no such file",
        ),
        ({"masks": "masks"}, "All photos have drawn masks, which are taken as right: leave out"),
        ({"photos": 6}, "which needs classes: leave it out"),
    ],
)
def test_a_second_model_that_tells_nothing_is_an_error(
    shop: Path, how: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shop)
    if "photos" in how:
        how = {"photos": sorted(Path("photos").rglob("*.png"))[:6], "class_level": None}
    with pytest.raises(UserError, match=said):
        audited(shop, **{"masker": "without_left", "second_masker": "without_right"} | how)
