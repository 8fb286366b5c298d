"""Photos of two visits to a shop: what another place costs, matches of the own session, and what masks leave open of a drop."""

import io
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from miniatures import as_folder
from PIL import ExifTags, Image
from rankings import embedded, map_at_r, order, unit
from snapshots import snapshot
from two_visits import CLASSES, EACH, OBJECT, SIDE, background_alone, list_photos, object_alone

import bgbias
from bgbias import plugins
from bgbias.auditing import findings
from bgbias.auditing.comparison import render
from bgbias.auditing.mask_range import measure_object_share
from bgbias.errors import UserError
from bgbias.evaluation import scores
from bgbias.evaluation.embeddings import Embeddings
from bgbias.images.pixels import day_of
from bgbias.masks.policy import Mask
from bgbias.photos.tables import NamedColumns
from tests.support.collected import collect

HOW = {"size": SIDE, "resize": SIDE, "draws": 2, "attribution": 0}


def test_backgrounds_carry_nothing_for_a_blind_model_and_all_for_one_that_sees_them_alone(shop: Path) -> None:
    how = {"place": 1, "class_level": 2, "masks": shop / "masks", "backgrounds": shop / "walls"}
    models = {"object": object_alone, "background": background_alone}
    compared = bgbias.audit(shop / "photos", models, **HOW, **how)
    blind, other = (compared.audits[name].numbers["places"] for name in models)
    assert blind["natural"]["low"] > 0  # the lamps
    assert blind["on_composites"]["value"] == pytest.approx(0, abs=1e-12)
    assert blind["carried"]["value"] == pytest.approx(0, abs=1e-12)
    assert other["natural"]["low"] > 0.3
    assert other["carried"]["low"] < 1 < other["carried"]["high"]
    assert other["carried"]["low"] > 0.5
    assert (other["queries"], other["classes"]) == (2 * CLASSES * EACH, CLASSES)
    assert "original photos from another place" in compared.audits["background"].verdict
    natural = compared.models.set_index("model")["natural"].to_dict()
    assert natural == {"object": blind["natural"]["value"], "background": other["natural"]["value"]}
    assert "carried by the background, %" in render([compared])


def test_a_level_of_folders_is_a_place_as_a_tables_column_and_no_part_of_the_class(shop: Path) -> None:
    photos, masks, one = shop / "photos", shop / "masks", NamedColumns(place="1")
    by_table = collect(list_photos(shop, "visit"), columns=NamedColumns(place="visit"))
    for how in ({}, {"class_level": 2}):
        by_folder = collect(photos, masks=masks, columns=one, **how)
        assert by_folder.table.frame["class_name"].tolist() == by_table.table.frame["class_name"].tolist()
        assert list(by_folder.places.values()) == list(by_table.places.values())
        assert by_folder.sums == by_table.sums
    inside = collect(photos, columns=NamedColumns(place="2"), class_level=1)
    assert set(inside.table.frame["class_name"]) == {"visit 0", "visit 1"}
    assert not collect(photos, class_level=2).is_across_places
    # A sample has photos of each place.
    frame = collect(photos, columns=one, sample=4 * CLASSES).table.frame
    assert (frame.groupby(["class_name", "place"]).size() == 2).all()


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("kiosk", r"--place is 'kiosk', and .* has no table with columns: name the folder .* by its number"),
        ("3", r"photos: 'visit 0/class 0/0.png' lies in no folder of level 3; say another --place"),
        ("0", r"--place is 0: it is the number of a folder of the path, 1 for the outermost"),
        ("2", r"--place is 2: .* another one than that of the class"),
    ],
)
def test_a_place_that_is_not_there_is_an_error(shop: Path, place: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        collect(shop / "photos", columns=NamedColumns(place=place), class_level=2)


def test_a_folder_with_a_table_of_its_own_is_not_read_without_it_unasked(shop: Path, tmp_path: Path) -> None:
    list_photos(shop, "place").drop(columns="mask").to_csv(tmp_path / "photos.csv", index=False)
    shutil.copytree(shop / "photos", tmp_path, dirs_exist_ok=True)
    with pytest.raises(UserError, match=r"is 1, and .* has a table, photos.csv: name its column by --place"):
        collect(tmp_path, columns=NamedColumns(place="1"))
    assert collect(tmp_path, columns=NamedColumns(place="1"), class_level=2).is_across_places


def test_a_place_in_which_no_class_meets_itself_is_an_error(shop: Path, tmp_path: Path) -> None:
    table = list_photos(shop, "visit")
    table["class"] += table["visit"]
    with pytest.raises(UserError, match=r"no class has photos of two places \(2 places in all\)"):
        collect(table, columns=NamedColumns(place="visit"))
    (tmp_path / "coco.json").write_text("{}")
    with pytest.raises(UserError, match="a COCO file has neither"):
        collect(tmp_path / "coco.json", columns=NamedColumns(place="visit"))


LABELS = np.repeat(np.arange(6), 6)
DAYS = np.tile(["monday", "monday", "monday", "tuesday", "tuesday", ""], 6)
VIEWS = (("clean", 0), ("random_background", 0), ("random_background", 1))


@pytest.fixture
def embeddings() -> Embeddings:
    """Photos of one class and day are alike, those of one class a little."""
    generator = np.random.default_rng(0)
    of_class, of_day = generator.normal(size=(6, 12)), generator.normal(size=(6, 3, 12))
    base = 0.5 * of_class[LABELS] + of_day[LABELS, np.unique(DAYS, return_inverse=True)[1]]
    spreads = zip(VIEWS, (0.5, 1.2, 1.2), strict=True)
    return embedded(LABELS, {v: unit(base + s * generator.normal(size=base.shape)) for v, s in spreads})


def test_matches_of_the_own_session_are_left_out(embeddings: Embeddings) -> None:
    found = findings.compare_sessions(
        embeddings, {row: day for row, day in zip(embeddings.ids, DAYS.tolist(), strict=True) if day}
    )
    assert found is not None
    assert (found.sessions, found.queries) == (2, len(LABELS))
    clean, *others = (embeddings.views[view] for view in VIEWS)

    def naive(view: np.ndarray) -> float:
        """MAP@R of photos without the matches of their own day, one by one."""
        of_photos = []
        for row, vector in enumerate(view):
            own = np.flatnonzero((LABELS[row] == LABELS) & (DAYS[row] == DAYS) & (DAYS != ""))
            ranked = order(vector, clean, gone={row, *own.tolist()})
            of_photos.append(map_at_r((LABELS[ranked] == LABELS[row]).tolist()))
        return float(np.mean(of_photos))

    assert found.clean.value == pytest.approx(naive(clean))
    assert found.drop.value == pytest.approx(1 - np.mean([*map(naive, others)]) / found.clean.value)
    with_all = scores.score_queries(embeddings, {}).query("condition == 'clean' and setting == 'symmetric'")
    assert found.clean.value < with_all["map_at_r"].mean() - 0.1
    first = (clean @ clean.T - 9 * np.eye(len(clean))).argmax(axis=1)
    own = (DAYS[first] == DAYS) & (DAYS != "")
    assert found.own == pytest.approx(own[LABELS[first] == LABELS].mean())


@pytest.mark.parametrize("names", [[""] * 36, [str(n) for n in range(36)], [str(n // 6) for n in range(36)]])
def test_sessions_that_part_no_class_say_nothing(embeddings: Embeddings, names: list[str]) -> None:
    sessions = {row: name for row, name in zip(embeddings.ids, names, strict=True) if name}
    assert findings.compare_sessions(embeddings, sessions) is None


def test_the_day_is_read_from_exif() -> None:
    exif, stream = Image.Exif(), io.BytesIO()
    exif.get_ifd(ExifTags.IFD.Exif)[ExifTags.Base.DateTimeOriginal] = "2024:05:31 12:00:09"
    Image.new("RGB", (9, 9)).save(stream, "JPEG", exif=exif)
    assert day_of(stream.getvalue()) == "2024:05:31"
    assert day_of(snapshot("undated")) == day_of(b"no photo") == ""


def test_an_audit_tells_matches_of_the_own_session_apart(shop: Path) -> None:
    found = bgbias.audit(list_photos(shop, "session"), background_alone, backgrounds=shop / "walls", **HOW)
    assert found.numbers["sessions"]["own"] > 0.9
    clean = found.estimate("levels", setting="query", condition="clean", metric="map_at_r")
    assert found.numbers["sessions"]["clean"]["value"] < clean.value / 2
    of_own = "right first matches are photos of the query's own session"
    assert any(of_own in line for line in found.numbers["queries"])


# -- two segmentation models: between which values the drop lies, were masks perfect ------------------------------------

MASKER = """
import numpy as np

from bgbias.masks.policy import Mask
from bgbias.settings import Strict

PREDICTS, SPEED, FILES = True, (), ()


class Params(Strict):
    pass


def build(params, device):
    alpha = np.zeros((32, 32), np.uint8)
    alpha[8:24, {columns}] = 255
    return lambda photos: [Mask(alpha, 1.0) for _ in photos]
"""
# Each misses another side of the object, or takes another side of the background for it.
COLUMNS = {"without_left": "12:24", "without_right": "8:20", "with_left": "2:24", "with_right": "8:30"}


@pytest.fixture
def maskers(tmp_path: Path) -> Iterator[None]:
    files = {f"maskers/{name}.py": MASKER.format(columns=of).encode() for name, of in COLUMNS.items()}
    plugins.use(as_folder(tmp_path, files))
    yield
    plugins.use()


def of_all(batch: list[np.ndarray]) -> list[np.ndarray]:
    """What a model makes of the whole picture, the object's middle above all."""
    return [np.concatenate([p.mean((0, 1)), p[OBJECT, OBJECT].mean((0, 1)), [60]]) - 60 for p in batch]


def audited(shop: Path, drawn: int = 0, photos: str = "", **how: Any) -> bgbias.Audit:
    """Of all photos, of which one in so many has its drawn mask; or of others."""
    rows = list_photos(shop, "place").drop(columns="place")
    rows.loc[np.arange(len(rows)) % drawn > 0 if drawn else slice(None), "mask"] = None
    source = shop / photos if photos else rows
    return bgbias.audit(source, of_all, backgrounds=shop / "walls", **HOW, **how)


def test_the_drop_of_perfect_masks_lies_between_what_two_models_leave_open(shop: Path, maskers: None) -> None:
    """The first two have all of the object together, and both of the others have nothing but the object."""
    true = audited(shop, drawn=1).drop.value
    for first, second, end, agreement in (
        ("without_left", "without_right", "either", 0.5),
        ("with_left", "with_right", "both", 16 / 28),
    ):
        found = audited(shop, masker=first, second_masker=second)
        of_range = found.numbers["mask_range"]
        assert of_range[end]["value"] == pytest.approx(true, abs=1e-12)
        assert abs(found.drop.value - true) > 0.01
        assert of_range["agreement"] == pytest.approx(agreement)
        assert (of_range["second"], of_range["object_share"]) == (second, None)
    # Drawn masks say where between it lies.
    of_range = audited(shop, 4, masker="without_left", second_masker="without_right").numbers["mask_range"]
    assert (of_range["second"], of_range["object_share"]) == ("without_right", pytest.approx(1))
    assert of_range["extrapolated"]["value"] == pytest.approx(true, abs=1e-12)


def test_of_what_one_of_them_has_drawn_masks_say_which_share_is_object() -> None:
    """Of 28 columns half of those that one of them alone has are object."""

    def mask(first: int, last: int) -> Mask:
        alpha = np.zeros((32, 32), np.uint8)
        alpha[OBJECT, first:last] = 255
        return Mask(alpha, 1.0)

    def masks(first: int, last: int) -> Any:
        return SimpleNamespace(find_predicted=lambda _: mask(first, last), find=lambda _: mask(8, 24))

    assert measure_object_share(["a", "b"], masks(12, 24), masks(2, 24)) == pytest.approx(4 / 10)
    assert np.isnan(measure_object_share(["a"], masks(12, 24), masks(12, 24)))


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"second_masker": "without_left"}, "without_left masks these photos already; name another one by"),
        ({"second_masker": "nobody"}, "There is no 'nobody' in maskers"),
        ({"second_masker": "isnet", "second_mask_weights": "no.onnx"}, "no.onnx: there is no such file"),
        ({"second_masker": None, "second_mask_weights": "no.onnx"}, "name it, too, or leave them out"),
        ({"drawn": 1}, "All photos have drawn masks, which are taken as right: leave out"),
        ({"photos": "photos/visit 0/class 0"}, "which needs classes: leave it out"),
    ],
)
def test_useless_second_maskers_are_errors(shop: Path, maskers: None, how: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        audited(shop, **{"masker": "without_left", "second_masker": "without_right"} | how)
