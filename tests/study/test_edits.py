"""An edit of code changes the digests of exactly the nodes whose numbers it may move, and the reason names the file.

Edits of settings and of photos: ``test_plan.py``; what follows: ``engine/test_freshness.py`` and, through Snakemake and DVC,
``workflow/test_edited_code.py``.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import edited_code
import pytest
from project import ROOT
from small_study import described, load

from bgbias import plugins
from bgbias.engine import freshness, graph
from bgbias.files import code

OWN_LOSS = """
from bgbias.training.losses.contrastive import DISTANCE, IMAGES_PER_CLASS, Params
from ._own_parts import scaled


def build(params, classes, dim, generator):
    return scaled(params.neg_margin)
"""
LOSS, METHOD, CODE = "training/losses", "training/methods", "\nADDED = 1\n"
TOYS, MINE = "squares/pixels", "mine/mobilenet_v2"
MODELS = {
    *(
        f"{TOYS}/{loss}/{method}/seed0"
        for loss in ("contrastive", "own")
        for method in ("plain", "gaining", "bgaugment")
    ),
    f"{MINE}/triplet/plain/seed0",
}
FEATURES = {f"{of}/none/{method}/seed0" for of in (TOYS, MINE) for method in ("pretrained", "untrained")}


class Edit(NamedTuple):
    """A passage of a file replaced, or text added; the nodes that read something else then, and a word of the reason."""

    file: str
    changed: set[str]
    why: str = ""
    before: str = ""
    after: str = CODE


def train(of: str = "") -> set[str]:
    return {f"train {m}" for m in MODELS if of in m}


def embed(of: str = "") -> set[str]:
    return {f"embed {m}" for m in MODELS | FEATURES if of in m}


def attribute(of: str = "") -> set[str]:
    return {f"attribute {m}" for m in MODELS if of in m}


def source(file: str, *changed: set[str]) -> Edit:
    """Code added to a file of the package, or to one of the user's."""
    path = file if file.startswith("mine/") else f"src/bgbias/{file}"
    return Edit(path, set().union(*changed), f"{file} changed")


SCORES = {f"score {m}" for m in MODELS | FEATURES}
TABLES = {"table table1", "table table2"}  # table3 follows them
RANKED = {f"figure {name}" for name in ("retrieval", "change", "drop")}  # or tell what chance would give
# All that looks at photos as models see them, or shows how; no table does.
SEEN = train() | embed() | attribute()
SEEN |= {f"figure {name}" for name in ("photos", "masks", "retrieval", "attribution")}

EDITS = (
    source(f"{LOSS}/_parts.py", train("contrastive"), train("own"), train("triplet")),
    source(f"{METHOD}/plain.py", train("/plain/"), train("bgaugment")),
    source(f"{METHOD}/_sam.py"),
    source("models/backbones/mobilenet_v2.py", train(MINE), embed(MINE), attribute(MINE)),
    source("masks/maskers/files.py", {"masks mine/drawn"}),
    source("datasets/folder.py", {"index mine"}),
    source("evaluation/metrics/map_at_r.py", train(), SCORES, RANKED),
    source("mine/losses/_own_parts.py", train("own")),
    source("mine/necks/gains.py", train("gaining")),
    source("report/tables/attribution.py", {"table table2"}),
    source("training/loop.py", train()),
    source("photos/crops.py", SEEN),
    source("evaluation/embedding.py", embed()),
    # What moves no number.
    Edit(f"src/bgbias/{LOSS}/contrastive.py", set(), after="\n# Why it is so.\n"),
    Edit("src/bgbias/nodes/train.py", set(), "", '"""From the epochs that', '"""At least the epochs that'),
    Edit("src/bgbias/nodes/train.py", set(), "", "(epochs: int) -> int:\n        return", "(epochs: int):\n        return"),

)  # fmt: skip


class Project:
    """The small study with a dataset, a masker and a loss of somebody's own, beside a copy of the package."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.before = self.read()

    def read(self) -> dict[str, dict[str, Any]]:
        """What each node reads beside other nodes' products, by its label: settings, libraries, files of code."""
        edited_code.look_again()
        study, found = load(self.folder, _described(self.folder)), {}
        with graph.share_lookups():
            for node in graph.in_order(study):
                declared = graph.depends(study, node)
                modules = [module.__name__ for module in declared.code]
                by = {"code": code.modules(*modules), "libraries": code.libraries(*modules)}
                found[node.label] = by | dict(declared.settings)
        return found

    def changes(self) -> dict[str, str]:
        """The nodes that read something else than before, and what."""
        now = self.read()
        assert now.keys() == self.before.keys()
        return {
            label: ", ".join(freshness.differences(self.before[label], own))
            for label, own in now.items()
            if own != self.before[label]
        }


def _described(folder: Path) -> dict[str, Any]:
    raw = described(folder)
    raw["plugins"] = ["mine"]
    own = {"kind": "folder", "masker": "drawn", "options": {"source": "photos"}}
    raw["datasets"]["mine"] = raw["datasets"]["squares"] | own
    raw["maskers"]["drawn"] = {"kind": "files", "options": {"folder": "drawn"}}
    raw["backbones"]["mobilenet_v2"] = {"weights": None}
    raw["losses"]["own"] = raw["losses"]["contrastive"]
    raw["methods"] = {"gaining": {"kind": "gained", "rate": 0.5}}
    block = raw["grids"]["small"]["cells"][0] | {"pretrained": True}
    methods = ["plain", "gaining", "bgaugment"]
    mine = {"datasets": ["mine"], "backbones": ["mobilenet_v2"], "losses": ["triplet"], "methods": ["plain"]}
    raw["grids"]["small"]["cells"] = [
        block | {"losses": ["contrastive", "own"], "methods": methods},
        block | mine,
    ]
    return raw


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    folder = tmp_path_factory.mktemp("edits")
    compiled = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "src", folder / "src", ignore=compiled)
    shutil.copytree(ROOT / "tests/support/plugins", folder / "mine", ignore=compiled)
    shutil.copytree(ROOT / "data/published", folder / "data/published")
    (folder / "mine/losses").mkdir()
    (folder / "mine/losses/own.py").write_text(OWN_LOSS)
    (folder / "mine/losses/_own_parts.py").write_text("def scaled(by):\n    return 2 * by\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(code, "ROOT", folder / "src/bgbias")
        patch.setattr(code, "MEMORY", folder / "code.json")
        patch.syspath_prepend(folder / "libraries")
        yield Project(folder)
    plugins.use()
    edited_code.look_again()


@pytest.mark.parametrize("edit", EDITS, ids=lambda e: f"{e.file}:{e.after[:24]}")
def test_an_edit_changes_the_nodes_whose_numbers_it_may_move_and_no_others(
    project: Project, edit: Edit
) -> None:
    path = project.folder / edit.file
    text = path.read_text()
    assert not edit.before or text.count(edit.before) == 1
    path.write_text(text.replace(edit.before, edit.after) if edit.before else text + edit.after)
    changes = project.changes()
    path.write_text(text)
    assert set(changes) == edit.changed, set(changes) ^ edit.changed
    assert all(edit.why in why for why in changes.values()), changes


def test_another_library_is_noticed_where_it_is_imported(project: Project) -> None:
    other = project.folder / "libraries/faiss_gpu-99.0.dist-info"
    other.mkdir(parents=True)
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: faiss-gpu\nVersion: 99.0\n")
    changes = project.changes()
    shutil.rmtree(other)
    # Validation ranks as scoring does.
    assert {label.split()[0] for label in changes} <= {"train", "score", "figure"}
    assert train() | SCORES <= set(changes)
    assert all("libraries.faiss" in why and "99.0" in why for why in changes.values())


def test_published_numbers_are_part_of_the_tables_that_show_them(project: Project) -> None:
    path = next((project.folder / "data/published").glob("*.csv"))
    text = path.read_text()
    path.write_text(f"{text}\n")
    changes = project.changes()
    path.write_text(text)
    assert changes
    assert set(changes) <= TABLES
    assert all(path.name in why for why in changes.values())
