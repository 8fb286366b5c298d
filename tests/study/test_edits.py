"""An edit of code changes the digests of exactly the nodes whose numbers it may move, and the reason names the file.

Edits of settings and of photos: ``test_plan.py``; what follows: ``engine/test_freshness.py`` and, through Snakemake and DVC,
``workflow/test_dvc.py``.
"""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

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
MODELS = {
    *(f"squares/pixels/{loss}/{method}/seed0" for loss in ("contrastive", "own") for method in ("plain", "gaining", "bgaugment")),
    "mine/mobilenet_v2/triplet/plain/seed0",
}  # fmt: skip
FEATURES = {
    f"{of}/none/{m}/seed0"
    for of in ("squares/pixels", "mine/mobilenet_v2")
    for m in ("pretrained", "untrained")
}
Changes = Callable[[Path, str], dict[str, str]]


def train(of: str = "") -> set[str]:
    return {f"train {m}" for m in MODELS if of in m}


def every(node: str, of: str = "") -> set[str]:
    return {f"{node} {m}" for m in (MODELS if node == "attribute" else MODELS | FEATURES) if of in m}


# All that looks at photos as models see them, or shows how; no table does.
SEEN = train() | every("embed") | every("attribute")
SEEN |= {f"figure {name}" for name in ("photos", "masks", "retrieval", "attribution")}
# Validation ranks as scoring does; figures of retrieval rank, or tell what chance would give.
RANKED = train() | every("score") | {f"figure {name}" for name in ("retrieval", "change", "drop")}
# Which nodes read something else when a line is added to a file.
EDITS: dict[str, set[str]] = {
    "training/losses/_parts.py": train("contrastive") | train("own") | train("triplet"),
    "training/methods/plain.py": train("/plain/") | train("bgaugment"),
    "training/methods/_sam.py": set(),
    "models/backbones/mobilenet_v2.py": train("mine") | every("embed", "mine") | every("attribute", "mine"),
    "masks/maskers/files.py": {"masks mine/drawn"},
    "datasets/folder.py": {"index mine"},
    "evaluation/metrics/map_at_r.py": RANKED,
    "mine/losses/_own_parts.py": train("own"),
    "mine/necks/gains.py": train("gaining"),
    "report/tables/attribution.py": {"table table2"},
    "training/loop.py": train(),
    "photos/crops.py": SEEN,
    "evaluation/embedding.py": every("embed"),
}


def digested(folder: Path) -> dict[str, dict[str, Any]]:
    """What each node reads beside other nodes' products, by its label: settings, libraries, files of code."""
    raw = described(folder)
    raw["plugins"] = ["mine"]
    own = {"kind": "folder", "masker": "drawn", "options": {"source": "photos"}}
    raw["datasets"]["mine"] = raw["datasets"]["squares"] | own
    raw["maskers"]["drawn"] = {"kind": "files", "options": {"folder": "drawn"}}
    raw["backbones"]["mobilenet_v2"] = {"weights": None}
    raw["losses"]["own"] = raw["losses"]["contrastive"]
    raw["methods"] = {"gaining": {"kind": "gained", "rate": 0.5}}
    block = raw["grids"]["small"]["cells"][0] | {"pretrained": True, "losses": ["contrastive", "own"]}
    mine = {"datasets": ["mine"], "backbones": ["mobilenet_v2"], "losses": ["triplet"], "methods": ["plain"]}
    methods = ["plain", "gaining", "bgaugment"]
    raw["grids"]["small"]["cells"] = [block | {"methods": methods}, block | mine]
    edited_code.look_again()
    study, found = load(folder, raw), {}
    with graph.share_lookups():
        for node in graph.in_order(study):
            declared = graph.depends(study, node)
            modules = [module.__name__ for module in declared.code]
            by = {"code": code.modules(*modules), "libraries": code.libraries(*modules)}
            found[node.label] = by | dict(declared.settings)
    return found


@pytest.fixture(scope="module")
def changes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Changes]:
    """The nodes that read something else while a file has more text, and what: of a study beside a copy of the package."""
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
        before = digested(folder)

        def changed(path: Path, added: str) -> dict[str, str]:
            text = path.read_text()
            path.write_text(text + added)
            now = digested(folder)
            path.write_text(text)
            assert now.keys() == before.keys()
            edited = [label for label in now if now[label] != before[label]]
            return {n: ", ".join(freshness.differences(before[n], now[n])) for n in edited}

        yield changed
    plugins.use()
    edited_code.look_again()


@pytest.mark.parametrize("file", EDITS)
def test_an_edit_changes_the_nodes_whose_numbers_it_may_move_alone(changes: Changes, file: str) -> None:
    found = changes(Path(file) if file.startswith("mine/") else Path("src/bgbias", file), "\nADDED = 1\n")
    assert set(found) == EDITS[file], set(found) ^ EDITS[file]
    assert all(f"{file} changed" in why for why in found.values()), found


def test_published_numbers_are_part_of_the_tables_that_show_them(changes: Changes) -> None:
    path = next(Path("data/published").glob("*.csv"))
    found = changes(path, "\n")
    assert found
    assert set(found) <= {"table table1", "table table2"}  # table3 follows them
    assert all(path.name in why for why in found.values())
