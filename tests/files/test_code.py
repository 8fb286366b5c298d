"""What moves a number is in the code's fingerprint; how it is written, explained and arranged is not."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import edited_code
import pytest
from miniatures import as_folder

from bgbias import plugins
from bgbias.engine.freshness import differences
from bgbias.files import code

LOSS = '''
"""A loss."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from pydantic import Field

from bgbias.settings import Strict

from ._margins import margin

if TYPE_CHECKING:
    from torch import Tensor

IMAGES_PER_CLASS = 4
DISTANCE = "cosine"
TITLE = "Wide"


class Params(Strict):
    """Options."""

    scale: float = Field(2.0, gt=0, description="of distances")


def build(params: Params, classes: int, dim: int, generator: object) -> object:
    """The loss."""
    if classes < 2:
        raise ValueError(f"{classes} classes are too few")
    wide: int = dim * 2
    return lambda vectors: torch.relu(vectors * params.scale - margin(wide))
'''
SHARED = "def margin(dim):\n    return 0.5 * dim\n"
# Passages of it and what is written in their place.
SAME = (
    ("IMAGES_PER_CLASS = 4", "# four of each\nIMAGES_PER_CLASS = (\n    4\n)"),
    ('"""The loss."""', '"""The loss of the paper, section 3."""'),
    ('    """Options."""\n', ""),
    ('f"{classes} classes are too few"', '"too few classes"'),
    ('description="of distances"', 'description="times the distances"'),
    ("    from torch import Tensor\n", "    from torch import Size, Tensor\n"),
    ('"Wide"', '"Very wide"'),
)
OTHER = (
    ("params.scale - margin", "params.scale + margin"),
    ("Field(2.0", "Field(2.5"),
    ("gt=0", "ge=0"),
    ("IMAGES_PER_CLASS = 4", "IMAGES_PER_CLASS = 2"),
    ("import margin", "import other as margin"),
    ("wide: int = dim", "wide = dim"),
    ("from __future__ import annotations\n", ""),
    ("    wide: int = dim * 2\n    return lambda vectors: torch.relu(vectors * params.scale - margin(wide))",
     "    broad: int = dim * 2\n    return lambda vectors: torch.relu(vectors * params.scale - margin(broad))"),
    ("._margins", "._other"),
)  # fmt: skip
# What is added to it or stands in place of a passage, and an edit of that which moves a number.
UNUSUAL = (
    (
        "    if classes < 2:",
        "    if TYPE_CHECKING:\n        wide = 0\n    else:\n        dim = dim + 1\n    if classes < 2:",
        "dim + 1",
        "dim + 2",
    ),
    ('DISTANCE = "cosine"\nTITLE', "DISTANCE = TITLE", '"Wide"', '"l2"'),
    ('TITLE = "Wide"\n', 'TITLE = "Wide"\nLENGTH = len(TITLE)\n', '"Wide"', '"Very wide"'),
)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Somebody's folder with a loss and what it shares with others."""
    files = {"wide.py": LOSS.encode(), "_margins.py": SHARED.encode()}
    losses = as_folder(tmp_path / "mine/losses", files)
    plugins.use(losses.parent)
    edited_code.look_again()
    yield losses
    plugins.use()
    edited_code.look_again()


def fingerprint(folder: Path, text: str = "") -> str:
    """Of the loss as it lies there now, or with this text; the module itself stays as it was imported first."""
    if text:
        (folder / "wide.py").write_text(text)
    edited_code.look_again()
    return code.fingerprint(plugins.load("losses", "wide").__name__)


def edited(before: str, after: str, text: str = LOSS) -> str:
    assert text.count(before) == 1
    return text.replace(before, after)


def test_what_people_read_is_no_other_code(folder: Path) -> None:
    first = fingerprint(folder)
    for before, after in SAME:
        assert fingerprint(folder, edited(before, after)) == first, after
    # Nor is the title of an option that shares its file.
    members = '{"wide": {"__doc__": "Wide.", "TITLE": "Wide", "PLACE": 3, "MARGIN": 1}}'
    texts = (members, members.replace("Wide", "Very wide"), members.replace("1}", "2}"))
    prints = [fingerprint(folder, f"{LOSS}\nMEMBERS = {text}\n") for text in texts]
    assert prints[0] == prints[1] != prints[2]


def test_what_is_computed_is_other_code_as_are_renamed_variables_and_moved_files(folder: Path) -> None:
    (folder / "_other.py").write_text(SHARED)
    found = {fingerprint(folder), *(fingerprint(folder, edited(*edit)) for edit in OTHER)}
    assert len(found) == 1 + len(OTHER)
    for before, after, number, other in UNUSUAL:
        text = edited(before, after)
        assert fingerprint(folder, text) != fingerprint(folder, edited(number, other, text)), after


def test_what_a_file_imports_or_names_in_its_folder_is_part_of_it(folder: Path) -> None:
    (folder / "margins.json").write_text("[1]")
    (folder / "_narrow.py").write_text(SHARED.replace("0.5", "0.25"))
    first = fingerprint(folder, f'{LOSS}\nfrom ._narrow import margin as narrow\nTABLE = "margins.json"\n')
    names = set(code.modules(plugins.load("losses", "wide").__name__))
    assert {"mine/losses/wide.py", "mine/losses/_margins.py"} <= names
    (folder / "margins.json").write_text("[2]")
    second = fingerprint(folder)
    # Two helpers change places.
    (folder / "_margins.py").write_text(SHARED.replace("0.5", "0.25"))
    (folder / "_narrow.py").write_text(SHARED)
    assert len({first, second, fingerprint(folder)}) == 3


def test_differences_name_the_file(folder: Path) -> None:
    before = code.modules(plugins.load("losses", "wide").__name__)
    (folder / "_margins.py").write_text(SHARED.replace("0.5", "0.6"))
    edited_code.look_again()
    after = code.modules(plugins.load("losses", "wide").__name__)
    assert list(differences({"code": before}, {"code": after})) == ["mine/losses/_margins.py changed"]
    assert list(differences({"code": before}, {"code": before | {"new.py": "0" * 16}})) == ["new.py changed"]


def test_what_plans_or_speaks_is_in_no_code_and_builds_of_libraries_are_in_none() -> None:
    of_training = code.modules("bgbias.nodes.train")
    assert "training/loop.py" in of_training
    assert not any(f.startswith(("training/losses", "engine", "cli", "tracking")) for f in of_training)
    assert "+" not in code.libraries("bgbias.training.loop")["torch"]
    assert "sklearn" in code.libraries("bgbias.evaluation.probes")


def test_remembered_code_is_what_reading_it_again_gives(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(code, "MEMORY", tmp_path / "code.json")
    first = fingerprint(folder)
    monkeypatch.setattr(code, "_parse_source", None)
    assert fingerprint(folder) == first


def test_every_python_reads_a_format_that_ends_with_a_field_alike() -> None:
    """Python 3.12's tree has an empty string there; the number is what 3.11 and 3.13 make."""
    source = b'def shown(x, w):\n    return f"{x:>{w}}"\n'
    tree = code._Reader("wide", is_package=False).visit(ast.parse(source))
    assert code.hash_text(code._to_text(tree)) == "42f0634d89aabaed"
