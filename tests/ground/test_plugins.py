"""Other people's files are found by name, held to what ours are held to, and told with file and line where they are wrong."""

import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest
import torch
from small_study import described, load

from bgbias import plugins, seeds
from bgbias.errors import UserError
from bgbias.study import plan
from bgbias.training import losses

LOSS = """
    from bgbias.settings import Strict
    from ._shared import scaled

    IMAGES_PER_CLASS = 2
    DISTANCE = "cosine"

    class Params(Strict):
        scale: float = 1.0

    def build(params, n_classes, dim, generator):
        return scaled(params.scale)
"""
SHARED = """
    def scaled(scale):
        return lambda embeddings, labels: scale * embeddings.mean()
"""


@pytest.fixture(autouse=True)
def no_folders_afterwards() -> Iterator[None]:
    yield
    plugins.use()


def write(folder: Path, **files: str) -> Path:
    """A folder of plugins; ``losses__mine`` is losses/mine.py."""
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/', 1)}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text))
    return folder


def test_a_file_in_a_folder_is_found_by_its_name_with_what_it_shares(tmp_path: Path) -> None:
    ours = plugins.names("losses")
    plugins.use(write(tmp_path / "mine", losses__my_loss=LOSS, losses___shared=SHARED))
    assert plugins.names("losses") == tuple(sorted([*ours, "my_loss"]))
    assert plugins.known("losses", "my_loss")
    assert not plugins.known("losses", "_shared")
    module = plugins.load("losses", "my_loss")
    loss = module.build(module.Params(scale=2), 3, 4, seeds.torch_generator("loss"))
    assert loss(torch.ones(2, 4), None) == 2
    words = rf"there are: .*my_loss.*Did you mean 'my_loss'.* is a file {re.escape(str(tmp_path))}/mine/losses/my_los\.py\."
    with pytest.raises(UserError, match=words):
        plugins.load("losses", "my_los")
    plugins.use()
    assert plugins.names("losses") == ours
    with pytest.raises(UserError, match=r"file my_plugins/losses/mine\.py, with `plugins: \[my_plugins\]`"):
        plugins.load("losses", "mine")


def test_params_yaml_names_folders_seen_from_itself(tmp_path: Path) -> None:
    write(tmp_path / "mine", losses__my_loss=LOSS, losses___shared=SHARED)
    raw = described(tmp_path)
    raw["plugins"].append("mine")
    raw["losses"]["my_loss"] = {"default": {"scale": 2}}
    raw["grids"]["small"]["cells"][0] |= {"losses": ["my_loss"]}
    assert {cell.loss for cell in plan.checked_cells(load(tmp_path, raw))} == {"my_loss"}


def test_an_installed_package_offers_entry_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "site", their_losses__theirs=LOSS, their_losses___shared=SHARED)
    (tmp_path / "site/their_losses/__init__.py").touch()
    declared = tmp_path / "site/their_losses-1.0.dist-info"
    declared.mkdir()
    (declared / "METADATA").write_text("Metadata-Version: 2.1\nName: their-losses\nVersion: 1.0\n")
    points = "[bgbias.losses]\ntheirs = their_losses.theirs\ngone = their_losses.gone\n"
    (declared / "entry_points.txt").write_text(points)
    monkeypatch.syspath_prepend(tmp_path / "site")
    plugins.use()
    assert plugins.load("losses", "theirs").__name__ == "their_losses.theirs"
    with pytest.raises(UserError, match=r"their_losses\.gone of their-losses: ModuleNotFoundError"):
        plugins.load("losses", "gone")


def test_no_file_hides_another(tmp_path: Path) -> None:
    words = r"mine/losses/triplet\.py hides .*losses/triplet\.py: two files of losses"
    with pytest.raises(UserError, match=words):
        plugins.use(write(tmp_path / "mine", losses__triplet=LOSS))
    assert plugins.load("losses", "triplet").__name__ == f"{losses.__name__}.triplet"


@pytest.mark.parametrize(
    ("family", "text", "told"),
    [
        ("losses", "IMAGES_PER_CLASS = (", r"mine\.py, line 1: SyntaxError: '\(' was never closed\. Correct it"),
        ("losses", "from ._shared import margin", r"_shared\.py, line 3: ZeroDivisionError: division by zero"),
        ("losses", LOSS.replace("class Params(Strict)", "class Params"), r"mine\.py: Params must be .*Strict"),
        ("methods", 'NEEDS = ["masks", "background"]\nTRAINS = False', r"mine\.py: NEEDS is .*must be a set of back"),
        ("losses", "DISTANCE = 'l2'", r"mine\.py lacks Params, build, IMAGES_PER_CLASS, which .* pydoc bgbias\.tra"),
        # What it says of itself decides what it must have.
        ("maskers", "Params = PREDICTS = SPEED = FILES = (1,)", r"mine\.py lacks build, which"),
        ("backbones", "Params = build = None\nVARIANTS = 'a name'", r"mine\.py lacks facts, likely_resize, adapted, which"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_told_with_file_and_line(tmp_path: Path, family: str, text: str, told: str) -> None:
    shared = "margin = 1\n\nmargin / 0\n" if "margin" in text else SHARED
    plugins.use(write(tmp_path, **{f"{family}__mine": text, f"{family}___shared": shared}))
    with pytest.raises(UserError, match=rf"^{re.escape(str(tmp_path))}/{family}/{told}"):
        plugins.load(family, "mine:one" if "VARIANTS" in text else "mine")


@pytest.mark.parametrize("family", plugins.REQUIRED)
def test_our_own_files_have_what_their_family_requires(family: str) -> None:
    for name in plugins.names(family):
        stands_for_many = (family, name) in {("attacks", "mtax"), ("backbones", "timm")}
        plugins.load(family, f"{name}:any" if stands_for_many else name)


def test_a_folder_that_cannot_be_meant_is_refused(tmp_path: Path) -> None:
    for files, words in (
        ([], r"folder is missing; correct `plugins` in params\.yaml, or --plugins"),
        (["my_loss"], r"no subfolder of a family; there are: .*backbones, .*losses/my_loss\.py"),
        (["losses__mine", "metric__mine"], r"folder/metric is no family of plugins\. Did you mean 'metrics'"),
    ):
        with pytest.raises(UserError, match=words):
            plugins.use(write(tmp_path / "folder", **dict.fromkeys(files, LOSS)))
    assert not plugins.known("losses", "mine")
