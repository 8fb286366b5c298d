"""Two segmentation models: between which values the drop lies, were masks perfect; on toys whose masks are known."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import bgbias
from bgbias import plugins
from bgbias.auditing.mask_range import measure_object_share
from bgbias.errors import UserError
from bgbias.masks.policy import Mask
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
    alpha[8:24, {columns}] = 255
    return Mask(alpha, 1.0)


def build(params, device):
    return lambda photos: [mask(photo) for photo in photos]
"""
# Each misses another side of the object, or takes another side of the background for it.
COLUMNS = {"without_left": "12:24", "without_right": "8:20", "with_left": "2:24", "with_right": "8:30"}


@pytest.fixture(scope="module", autouse=True)
def maskers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    own = tmp_path_factory.mktemp("own")
    (own / "maskers").mkdir()
    for name, columns in COLUMNS.items():
        (own / "maskers" / f"{name}.py").write_text(MASKER.format(columns=columns))
    plugins.use(own)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("BGBIAS_CACHE", str(own / "cache"))
        yield
    plugins.use()


def of_all(batch: list[np.ndarray]) -> list[np.ndarray]:
    """What a model makes of the whole picture, the object's middle above all."""
    return [
        np.concatenate([photo.mean((0, 1)), photo[OBJECT, OBJECT].mean((0, 1)), [60]]) - 60 for photo in batch
    ]


def audited(shop: Path, drawn: int = 0, photos: Any = None, **how: Any) -> bgbias.Audit:
    """Of all photos, of which one in so many has its drawn mask; or of others."""
    rows = list_photos(shop, "place").drop(columns="place")
    rows.loc[np.arange(len(rows)) % drawn > 0 if drawn else slice(None), "mask"] = None
    asked = {"size": SIDE, "resize": SIDE, "draws": 1, "attribution": 0}
    return bgbias.audit(rows if photos is None else photos, of_all, backgrounds=shop / "walls", **asked | how)


@pytest.fixture(scope="module")
def true(shop: Path) -> float:
    """The drop with drawn masks."""
    return audited(shop, drawn=1).drop.value


@pytest.mark.parametrize(
    ("first", "second", "end", "agreement"),
    [
        ("without_left", "without_right", "either", 0.5),  # together they have all of the object
        ("with_left", "with_right", "both", 16 / 28),  # and both have nothing but the object
    ],
)
def test_the_drop_with_perfect_masks_lies_between_what_two_models_leave_open(
    shop: Path, true: float, first: str, second: str, end: str, agreement: float
) -> None:
    found = audited(shop, masker=first, second_masker=second)
    of_range = found.numbers["mask_range"]
    assert of_range[end]["value"] == pytest.approx(true, abs=1e-12)
    assert abs(found.drop.value - true) > 0.01
    assert of_range["agreement"] == pytest.approx(agreement)
    assert of_range["second"] == second
    assert of_range["object_share"] is None


def test_drawn_masks_say_where_between_it_lies(shop: Path, true: float) -> None:
    two = {"masker": "without_left", "second_masker": "without_right"}
    of_range = audited(shop, drawn=4, **two).numbers["mask_range"]
    assert of_range["object_share"] == pytest.approx(1)
    assert of_range["extrapolated"]["value"] == pytest.approx(true, abs=1e-12)


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


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"second_masker": "without_left"}, "without_left masks these photos already; name another one by"),
        ({"second_masker": "nobody"}, "There is no 'nobody' in maskers"),
        (
            {"second_masker": "isnet", "second_mask_weights": "no.onnx"},
            "weights=no.onnx: there is no such file",
        ),
        ({"drawn": 1}, "All photos have drawn masks, which are taken as right: leave out"),
        ({"photos": 6}, "which needs classes: leave it out"),
    ],
)
def test_a_second_model_that_tells_nothing_is_an_error(shop: Path, how: dict[str, Any], said: str) -> None:
    if "photos" in how:
        how = {"photos": sorted((shop / "photos").rglob("*.png"))[: how["photos"]]}
    with pytest.raises(UserError, match=said):
        audited(shop, **{"masker": "without_left", "second_masker": "without_right"} | how)
