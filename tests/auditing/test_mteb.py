"""Exported pictures as a task of MTEB: its scores are those of the library's own ranking."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import bgbias
from bgbias import seeds
from bgbias.auditing import mteb as exported
from bgbias.errors import UserError

LABELS = ["mug"] * 4 + ["house"] * 3 + ["NA"] * 2  # which is no missing value


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Pictures of noise as an export leaves them, classes told apart by their colour in the clean ones."""
    random = seeds.generator("mteb")
    for view, strength in (("clean-0", 8), ("random_background-0", 0)):
        (tmp_path / view).mkdir()
        for row, label in enumerate(LABELS):
            picture = random.integers(0, 150, (16, 16, 3))
            picture[..., sorted(set(LABELS)).index(label)] += strength
            Image.fromarray(picture.astype(np.uint8)).save(tmp_path / view / f"{row:06}.png")
    rows = [f"{row},{label}/{row}.png,{label}" for row, label in enumerate(LABELS)]
    (tmp_path / "photos.csv").write_text("\n".join(["row,image_id,class_name", *rows]) + "\n")
    return tmp_path


def colours(batch: list[np.ndarray]) -> np.ndarray:
    found = np.array([picture.mean((0, 1)) for picture in batch], np.float32)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


@pytest.mark.slow
def test_scores_of_both_splits_are_those_of_the_library(folder: Path) -> None:
    mteb = pytest.importorskip("mteb", reason="mteb is not installed")

    class Encoder(mteb.models.abs_encoder.AbsEncoder):  # type: ignore[misc]
        """MTEB's protocol around the mean colours of a picture."""

        mteb_model_meta = mteb.models.ModelMeta.create_empty(
            {"name": "test/colours", "modalities": ["image"]}
        )

        def encode(self, inputs: Any, **_: Any) -> np.ndarray:
            return colours([np.asarray(p.convert("RGB")) for batch in inputs for p in batch["image"]])

    task = exported.task(folder)
    found = mteb.evaluate(Encoder(), task, cache=None, show_progress_bar=False, co2_tracker=False)
    scores = {split: entry[0]["map_at_r"] for split, entry in found[0].scores.items()}
    vectors = bgbias.embed(colours, sorted((folder / "clean-0").glob("*.png")))
    expected = bgbias.rank(vectors, LABELS).metrics["map_at_r"].mean()
    assert scores["clean-0"] == pytest.approx(expected, abs=1e-4)
    assert scores["random_background-0"] < scores["clean-0"], "the drop"
    assert found[0].get_score(splits=["clean-0"]) == pytest.approx(expected, abs=1e-4)


def test_map_at_r_of_what_the_library_ranks_is_ours() -> None:
    vectors = colours(list(seeds.generator("ranked").integers(0, 255, (9, 4, 4, 3))))
    similar = vectors @ vectors.T
    found = []
    for row, label in enumerate(LABELS):
        right = {str(other): 1 for other, name in enumerate(LABELS) if name == label and other != row}
        scores = {str(other): float(value) for other, value in enumerate(similar[row])}
        found.append(exported._map_at_r(str(row), right, scores))
    np.testing.assert_allclose(found, bgbias.rank(vectors, LABELS).metrics["map_at_r"])


def test_a_folder_that_is_no_export_is_told(folder: Path) -> None:
    with pytest.raises(UserError, match=r"only_fg-0 is missing; write it by: bgbias audit PHOTOS --export"):
        exported.task(folder, ["only_fg-0"])
    (folder / "photos.csv").write_text("row,image_id,class_name\n0,a.png,\n")
    with pytest.raises(UserError, match="is of photos without classes"):
        exported.task(folder)
