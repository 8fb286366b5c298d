"""Explanations: maps over the photos as the model saw them, a figure of them, and mistakes in plain words."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from commands import bgbias
from fitting import model
from PIL import Image
from project import ROOT

from bgbias import plugins
from bgbias.attribution.explanation import explain
from bgbias.models.model import EmbeddingModel, save
from bgbias.report.sheets import figure_explanation

pytestmark = pytest.mark.usefixtures("small_plugins")
NAMES = ("a.png", "b.png", "c.png", "d.png", "e.png")


def photo(number: int, height: int = 50, width: int = 40) -> np.ndarray:
    return np.random.default_rng(number).integers(0, 256, (height, width, 3), dtype=np.uint8)


def brightness() -> EmbeddingModel:
    """Embeds how red and how green a photo is, place by place, and sees nothing else; differences have both signs."""
    made = model().eval()
    with torch.no_grad():
        convolution, norm = made.trunk[0], made.trunk[1]  # type: ignore[index]
        convolution.weight.zero_()
        convolution.bias.fill_(1.0)  # normalised black is -1
        convolution.weight[0, 0], convolution.weight[1, 1] = 1 / 25, 1 / 25
        convolution.bias[2:] = 0
        norm.reset_running_stats()
        made.embedder.weight.zero_()
        made.embedder.bias.zero_()
        made.embedder.weight[0, 0], made.embedder.weight[1, 1] = 1, -1
    return made


def spot(channel: int, row: int, column: int) -> np.ndarray:
    """A black photo of the size that the model sees, with a spot of one colour."""
    made = np.zeros((36, 36, 3), dtype=np.uint8)
    made[row : row + 8, column : column + 8, channel] = 255
    return made


@pytest.mark.parametrize("count", [2, 4])
def test_photos_are_shown_as_the_model_saw_them_with_its_distances(count: int) -> None:
    made, photos = model().eval(), [photo(i, 60 + i, 50) for i in range(count)]
    found = explain(made, photos)
    assert len(found.photos) == len(found.maps) == len(found.roles) == count
    for view, attention in zip(found.photos, found.maps, strict=True):
        assert (view.shape, view.dtype, attention.shape) == ((32, 32, 3), np.uint8, (32, 32))
        assert 0 <= attention.min() <= attention.max() <= 1
    views = torch.from_numpy(np.stack(found.photos)).permute(0, 3, 1, 2)
    with torch.no_grad():
        z = made(made.preprocess(views))
    distances = [float((z[i] - z[0]).norm()) for i in range(1, count)]
    assert found.distances == pytest.approx(distances, abs=1e-5)
    titles = [title for axes in figure_explanation(found).axes if (title := axes.get_title())]
    assert titles[0] == found.roles[0]
    assert titles[1:] == [f"{role}, {d:.2f} away" for role, d in zip(found.roles[1:], distances, strict=True)]


def test_what_is_shared_or_sets_two_photos_apart_is_found_wherever_it_stands() -> None:
    """Two red spots in different corners; then both are half red, and the second has a green one, too."""
    found = explain(brightness(), [spot(0, 2, 2), spot(0, 26, 26)])
    for attention, (top, left) in zip(found.maps, ((0, 0), (16, 16)), strict=True):
        assert attention[top : top + 16, left : left + 16].sum() > 0.9 * attention.sum()
    first, second = spot(0, 2, 2), spot(0, 2, 2) + spot(1, 26, 26)
    second[2:10, 2:10, 0] //= 2
    apart = explain(brightness(), [first, second], same=False)
    assert apart.maps[1][16:, 16:].max() > 0.9


def test_nothing_counts_where_nothing_is_seen() -> None:
    """Two black photos: the figure says so instead of showing noise."""
    black = np.zeros((36, 36, 3), dtype=np.uint8)
    found = explain(brightness(), [black, black])
    assert not any(m.any() for m in found.maps)
    words = [t.get_text() for axes in figure_explanation(found).axes for t in axes.texts]
    assert words.count("no place counts") == 2


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five photos and a model."""
    made = tmp_path_factory.mktemp("explained")
    for number, name in enumerate(NAMES):
        Image.fromarray(photo(number)).save(made / name)
    plugins.use(ROOT / "tests/support/plugins")
    save(model(), made / "model.safetensors")
    plugins.use()
    return made


def test_command_writes_a_figure(folder: Path) -> None:
    words = ("explain", "model.safetensors", *NAMES[:3], "--out", "made/three.PDF", "--device", "cpu")
    told = bgbias(folder, *words)
    assert (told.returncode, told.stdout) == (0, "made/three.PDF\n")
    assert (folder / "made/three.PDF").read_bytes().startswith(b"%PDF")
    # What maps cannot show is said, with the command that measures it.
    assert "not what would be found on another background" in told.stderr
    assert "bgbias audit PHOTOS --model model.safetensors" in told.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (NAMES, "of two, three or four photos, not 5"),
        (("a.png", "z.png"), "the picture z.png is missing"),
        (("a.png", "b.png", "c.png", "--different"), "give two, not 3"),
        (("a.png", "b.png", "--out", "figure.jpg"), "a .png or a .pdf, not 'figure.jpg'"),
    ],
)
def test_mistakes_are_told_in_plain_words(folder: Path, words: tuple[str, ...], told: str) -> None:
    before = sorted(folder.iterdir())
    said = bgbias(folder, "explain", "model.safetensors", *words)
    assert (said.returncode, "Traceback" in said.stderr) == (2, False)
    assert told in said.stderr
    assert sorted(folder.iterdir()) == before


def test_neck_is_part_of_what_is_explained() -> None:
    """A net between trunk and pooling that lets the left half through: no place on the right counts."""

    class LeftHalf(torch.nn.Module):
        def forward(self, features: Any) -> Any:
            return features * (torch.arange(7) < 3)

    made = brightness()
    made.neck = LeftHalf()
    both = spot(0, 2, 2) + spot(0, 2, 26)
    found = explain(made, [both, both])
    assert found.maps[0][:, :12].max() > 0.9
    assert found.maps[0][:, 20:].max() == 0
