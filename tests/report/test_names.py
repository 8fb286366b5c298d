"""What losses, methods and datasets are called, where they stand and which colour they have is said in their own files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb
from miniatures import as_folder
from project import ROOT

from bgbias import plugins
from bgbias.report import names, style
from bgbias.study import params, plan
from bgbias.study.cell import PLAIN

LOSS = "from bgbias.training.losses.contrastive import DISTANCE, IMAGES_PER_CLASS, Params, build\n"
METHOD = "from bgbias.training.methods.plain import NEEDS, TRAINS, Method\n"


@pytest.fixture
def mine(tmp_path: Path) -> Iterator[None]:
    """A loss and two methods of somebody's own; a loss and a method say what they are called, and where they stand."""
    titled = 'TITLE = "My THING"\nPLACE = 1.5\n'
    files = {
        "losses/my_loss": LOSS + titled,
        "losses/other_loss": LOSS,
        "methods/thing": METHOD + titled + 'ENTRIES = {"thing_8": "Eight things", "no_thing": "No thing"}\n',
        "methods/other": METHOD,
    }
    plugins.use(as_folder(tmp_path, {f"{name}.py": text.encode() for name, text in files.items()}))
    yield
    plugins.use()


def test_a_new_file_needs_no_entry_elsewhere(mine: None) -> None:
    assert (names.loss("my_loss"), names.loss("other_loss")) == ("My THING", "Other loss")
    assert names.method("thing+bgaugment") == "My THING + BGAugment"
    assert (names.method("thing_8"), names.method("thing_of_mine")) == ("Eight things", "Thing of mine")
    # Also an entry that is not called after its file is one of it.
    assert (names.method("no_thing"), names.family("no_thing+bgaugment")) == ("No thing", "thing")
    of_one_file = [style.colour(name) for name in ("thing", "thing_8", "no_thing", PLAIN)]
    assert len(set(of_one_file)) == len(of_one_file)
    assert style.colour("other") in style.OTHERS


def test_rows_stand_where_their_files_say_and_others_below_as_they_come(mine: None) -> None:
    methods = ["zero", "other", "dcml_code", "thing_8", "thing", "bgaugment", "attr_emb+bgaugment", "plain"]
    rows = pd.DataFrame({"dataset": "d", "backbone": "b", "loss": "my_loss", "method": methods})
    ordered = names.in_order(rows)["method"].tolist()
    assert ordered[:5] == ["plain", "bgaugment", "thing", "thing_8", "dcml_code"]
    assert ordered[5:] == ["zero", "other", "attr_emb+bgaugment"]
    losses = ["unknown", "other_loss", "triplet", "my_loss", "contrastive", "none"]
    rows = pd.DataFrame({"dataset": "d", "backbone": "b", "loss": losses, "method": "plain"})
    assert names.in_order(rows)["loss"].tolist() == [
        "none", "contrastive", "my_loss", "triplet", "unknown", "other_loss",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("loss", "method", "printed"),
    [
        ("contrastive+neg_margin=0.3", "plain", "Contrastive, neg margin 0.3"),
        ("contrastive+train.lr=0.001", "bgaugment", "+ BGAugment"),
        ("contrastive", "plain+train.lr=0.001+grey", "+ Plain, lr 0.001 + grey background"),
        ("arcface", "attr_frac+weight=2+bgaugment", "+ Attribution fraction, weight 2 + BGAugment"),
        ("contrastive", "plain+stax@0.01", "+ STAX at 0.01"),
        ("arcface", "mdprop_2+bgaugment+mtax:5@0.1", "+ MDProp, 2 attacks + BGAugment + MTAX-5 at 0.1"),
        ("multi_similarity", "sam_triplet+bgaugment", "+ SAM, triplets + BGAugment"),
        # An entry of params.yaml that no file names has no name but its own.
        ("arcface", "dcml_no_fault", "+ DCML no fault"),
    ],
)
def test_names_of_rows_and_the_settings_that_they_carry_are_words(
    loss: str, method: str, printed: str
) -> None:
    assert names.row(loss, method) == printed


def test_a_loss_is_said_without_a_plain_row_and_a_part_of_a_dataset_like_the_whole() -> None:
    assert names.row("arcface", "bgaugment", below_plain=False) == "ArcFace + BGAugment"
    assert (names.count(1, "query"), names.count(1487, "query")) == ("1 query", "1,487 queries")
    asked = ("cub200", "cub50", "sop", "toy_090", "my_cub")
    assert [names.dataset(name) for name in asked] == ["CUB200", "CUB50", "SOP", "toy_090", "my_cub"]


def test_each_of_ours_has_a_title_and_a_place_of_its_own() -> None:
    for family in ("losses", "methods"):
        files = [plugins.load(family, name) for name in plugins.names(family)]
        assert len({file.TITLE for file in files}) == len({file.PLACE for file in files}) == len(files)


@pytest.mark.parametrize("grid", params.read(ROOT / "params.yaml")["grids"])
def test_methods_of_a_grid_have_colours_of_their_own_whose_letters_can_be_read(grid: str) -> None:
    methods = {cell.method for cell in plan.cells(params.load(ROOT / "params.yaml", grid))}
    assert len({style.colour(method) for method in methods}) == len(methods)
    shares = np.array([to_rgb(style.ink(method)) for method in methods])
    light = np.where(shares <= 0.04045, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4)
    assert (1.05 / (light @ [0.2126, 0.7152, 0.0722] + 0.05)).min() >= 4.5
