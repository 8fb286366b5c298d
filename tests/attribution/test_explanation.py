"""Explanations: maps over the photos as the model saw them, a figure of them, and mistakes in plain words."""

from pathlib import Path

import numpy as np
import pytest
import torch
from commands import bgbias
from fitting import model
from PIL import Image
from project import ROOT

from bgbias import plugins
from bgbias.attribution.explanation import explain
from bgbias.models.model import save
from bgbias.report.sheets import figure_explanation

pytestmark = pytest.mark.usefixtures("small_plugins")
NAMES = ("a.png", "b.png", "c.png", "d.png", "e.png")


def photo(number: int, height: int = 50, width: int = 40) -> np.ndarray:
    return np.random.default_rng(number).integers(0, 256, (height, width, 3), dtype=np.uint8)


class Through(torch.nn.Module):
    """A net between trunk and pooling that lets the first columns of maps through."""

    def __init__(self, columns: int) -> None:
        super().__init__()
        self.columns = columns

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return features * (torch.arange(7) < self.columns)


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


def test_only_what_the_neck_lets_through_counts() -> None:
    """Where nothing counts, the figure says so instead of showing noise."""
    for columns in (3, 0):
        made = model().eval()
        made.neck = Through(columns)
        found = explain(made, [photo(0), photo(1)])
        assert all(attention[:, 20:].max() == 0 for attention in found.maps)
        assert all(attention.any() == bool(columns) for attention in found.maps)
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
