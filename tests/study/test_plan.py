"""A node's digest changes with what the node reads, and with nothing else; what cannot be planned is refused."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torchvision.models
from backbone_models import make
from project import ROOT
from small_study import load, put, with_weights

from bgbias import plugins
from bgbias.engine import graph
from bgbias.engine.node import Node, step
from bgbias.errors import UserError
from bgbias.files import state_dicts
from bgbias.files.checksums import fingerprint
from bgbias.files.fetch import Source
from bgbias.study import plan, sources
from bgbias.study.cell import Cell
from bgbias.study.params import Study

pytestmark = pytest.mark.usefixtures("small_plugins")


def fingerprints(study: Study, *more: Node) -> dict[str, str]:
    """The digest of every node of the grid but those that show its results, and of ``more`` with what these read from."""
    with graph.share_lookups():
        nodes = [*graph.in_order(study), *graph.in_order(study, more)]
        shown = {node for node in nodes if node.name not in ("table", "figure")}
        return {node.label: graph.digest(study, node.name, **node.keywords) for node in shown}


def changed(old: dict[str, str], new: dict[str, str]) -> set[str]:
    assert old.keys() == new.keys()
    return {label for label in old if old[label] != new[label]}


def of(nodes: str, *cells: Cell) -> set[str]:
    return {f"{node} {cell.name}" for node in nodes.split() for cell in cells}


def cell(loss: str, method: str) -> Cell:
    return Cell("squares", "pixels", loss, method, 0)


ALL = [cell(loss, method) for loss in ("contrastive", "arcface") for method in ("plain", "bgaugment")]
CURED = [c for c in ALL if c.method == "bgaugment"]
PLAIN = [c for c in ALL if c.method == "plain"]
ARCFACE = [c for c in ALL if c.loss == "arcface"]
OF_MODELS = "train embed score attribute"
OF_MASKS = of("embed score attribute", *ALL) | of("train", *CURED)


def test_an_edit_reruns_what_reads_it_alone(tmp_path: Path, raw: dict[str, Any]) -> None:
    before = fingerprints(load(tmp_path, raw))
    of_backgrounds = {"backgrounds noise"} | of("embed score", *ALL) | of("train attribute", *CURED)
    for key, value, expected in (
        ("losses.arcface.default.margin", 21, of(OF_MODELS, *ARCFACE)),
        # Plain training reads no masks and no backgrounds.
        ("maskers.ground_truth", {"kind": "u2netp"}, OF_MASKS | {"masks squares/ground_truth"}),
        ("mask_policy", {"min_area": 0.2}, OF_MASKS),
        ("backgrounds.noise.test.part", [0, 2], of_backgrounds),
        ("train.selection", "published", of(OF_MODELS, *CURED)),
        ("evaluation.draws", 3, of("embed score", *ALL)),
        ("evaluation.batch_size", 1, set()),
        # What no cell of the grid names.
        ("backbones.resnet18", {"weights": None}, set()),
    ):
        found = changed(before, fingerprints(load(tmp_path, put(raw, key, value))))
        # Whatever changes, results are brought together anew.
        assert found == expected | ({"collect"} if expected else set()), key


def test_selection_is_what_a_study_asks_for(tmp_path: Path, raw: dict[str, Any]) -> None:
    def selected(selection: str) -> list[str]:
        raw["train"]["selection"] = selection
        study = load(tmp_path, raw)
        for chosen in ALL:  # no training can read the test pool
            assert not any("test" in role for role in graph.inputs(study, "train", cell=chosen))
        return [plan.selection_condition(study, c) for c in (*PLAIN, *CURED)]

    assert selected("clean") == ["clean"] * 4
    assert selected("published") == ["clean"] * 2 + ["corrupted"] * 2
    assert plan.needs(load(tmp_path, raw), PLAIN[0]) == frozenset()
    assert selected("corrupted") == ["corrupted"] * 4


def test_photos_that_are_elsewhere_cannot_have_changed(tmp_path: Path, raw: dict[str, Any]) -> None:
    """A clone brings what was made of them with its records; the photos themselves stay where they were."""
    options = {"source": str(tmp_path / "train")}
    raw["datasets"]["mine"] = raw["datasets"]["squares"] | {"kind": "folder", "options": options}
    study, index = load(tmp_path, raw), step("index", dataset="mine")
    for node in (index, step("backgrounds", pool="noise")):
        path = node.record(study)
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps({"spec": graph.spec(study, node.name, **node.keywords)}))
    before = fingerprints(study, index)
    for folder in ("train", "val", "test"):
        (tmp_path / folder).rename(tmp_path / f"{folder} elsewhere")
    fingerprint.cache_clear()
    assert changed(before, fingerprints(study, index)) == {"fetch mine/photos"}
    (tmp_path / "train").mkdir()  # they are back, and others
    fingerprint.cache_clear()
    assert "index mine" in changed(before, fingerprints(study, index))


def test_a_file_of_another_content_reruns_what_reads_it_alone(tmp_path: Path, raw: dict[str, Any]) -> None:
    readers = {
        "net.pth": ("train mine/own", "embed mine/own"),
        "mine/a/1.png": ("fetch mine/photos",),
        "drawn.zip": ("masks mine/drawn",),
        "test/test1.png": ("backgrounds",),
    }
    for file in readers:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_bytes((b"1" * 99).center(3_000_000 if file.endswith("zip") else 99))
    raw["backbones"]["own"] = {"kind": "mobilenet_v2", "weights": f"{tmp_path}/net.pth"}
    raw["maskers"]["drawn"] = {"kind": "files", "options": {"zip": f"{tmp_path}/drawn.zip"}}
    own = {"kind": "folder", "options": {"source": f"{tmp_path}/mine"}, "masker": "drawn"}
    raw["datasets"]["mine"] = raw["datasets"]["squares"] | own
    block = raw["grids"]["small"]["cells"][0] | {"pretrained": True}
    block |= {"losses": ["contrastive"], "methods": ["plain"], "datasets": ["squares", "mine"]}
    raw["grids"]["small"]["cells"] = [block | {"backbones": ["own"], "datasets": ["mine"]}, block]
    study = load(tmp_path, raw)
    before = fingerprints(study)
    for file, first in readers.items():
        (tmp_path / file).write_bytes((tmp_path / file).read_bytes().replace(b"111", b"121", 1))
        fingerprint.cache_clear()
        after, expected = fingerprints(study), set[str]()
        for node in graph.in_order(study):
            read = {source.label for source in graph.reads_from(study, node)}
            if node.label in before and (node.label.startswith(first) or read & expected):
                expected.add(node.label)
        assert expected
        assert changed(before, after) == expected, file
        before = after


def test_another_mirror_of_a_known_file_changes_nothing() -> None:
    official = Source(place="https://a.example/x.tgz", md5="1" * 32)
    mirror = Source(place="https://b.example/x.tgz", md5="1" * 32, sha256="2" * 64, file="x.tgz", size=9)
    assert sources.identity((official,)) == sources.identity((mirror, official))
    assert sources.identity((official,)) != sources.identity((official.model_copy(update={"md5": "3" * 32}),))
    unknown = [Source(place=f"https://{host}.example/x.tgz") for host in "ab"]
    assert sources.identity((unknown[0],)) != sources.identity((unknown[1],))


def test_nodes_that_make_nothing_are_refused(tmp_path: Path, raw: dict[str, Any]) -> None:
    raw["datasets"]["cars"] = raw["datasets"]["squares"] | {"kind": "cars196"}
    raw["backbones"]["tf"] = {"kind": "mobilenet_v2_tf", "weights": "published"}
    study = load(tmp_path, raw)
    for node, words in (
        (step("fetch", dataset="squares", part="photos"), "squares has nothing to fetch"),
        (step("fetch", dataset="cars", part="photo"), "no part 'photo'; it has: photos"),
        (step("train", cell=cell("none", "untrained")), "not trained"),
        (step("weights", owner="backbones/net"), "no 'backbones/net'; there are: backbones/pixels, "),
        (step("weights", owner="backbones/tf"), "no `published` weights of it are known; name a"),
    ):
        with pytest.raises(UserError, match=words):
            graph.digest(study, node.name, **node.keywords)


def test_a_bare_backbone_has_a_row_and_one_for_each_seeds_layer(tmp_path: Path, raw: dict[str, Any]) -> None:
    block = raw["grids"]["small"]["cells"][0]
    block |= {"pretrained": True, "seeds": [4, 2]}
    raw["grids"]["small"]["cells"].append(block)  # cells named twice count once
    not_trained = [c for c in plan.checked_cells(load(tmp_path, raw)) if c.loss == "none"]
    of = "squares", "pixels", "none"
    assert not_trained == [Cell(*of, "pretrained", 0), Cell(*of, "untrained", 4), Cell(*of, "untrained", 2)]
    # Alone it has no length of its own that trained models could have.
    raw["grids"]["small"]["cells"] = [{"datasets": ["squares"], "backbones": ["pixels"], "pretrained": True}]
    assert plan.cells(load(tmp_path, raw)) == (Cell(*of, "pretrained", 0),)


def test_the_random_layer_alone_depends_on_its_length(tmp_path: Path, raw: dict[str, Any]) -> None:
    own = {"losses": [], "methods": [], "pretrained": True}
    raw["grids"]["small"]["cells"][0] |= own
    before = fingerprints(load(tmp_path, raw))
    raw["train"]["embedding_dim"] += 1
    after = fingerprints(load(tmp_path, raw))
    assert changed(before, after) == of("embed score", cell("none", "untrained")) | {"collect"}
    raw["train"]["lr"] *= 2  # nothing is trained
    assert not changed(after, fingerprints(load(tmp_path, raw)))


def test_planning_imports_nothing_heavy() -> None:
    """A dry run, ``--help`` and the tables must not wait for torch."""
    code = """
import sys
from pathlib import Path
from bgbias import cli
print(*{"pandas"} & set(sys.modules))
from bgbias import plugins
from bgbias.engine import graph
from bgbias.study import plan, sources
from bgbias.study.cell import Cell
from bgbias.study.params import load
for grid in ("demo", "rivals_cub50"):
    study = load(Path("params.yaml"), grid)
    for name in study.backbones:
        graph.digest(study, "embed", cell=Cell("cub50", name, "none", "pretrained", 0))
    for cell in plan.checked_cells(study)[:20]:
        graph.digest(study, "score", cell=cell)
    graph.digest(study, "collect")
print(*sorted({"torch", "torchvision", "timm", "faiss", "mlflow", "matplotlib", "scipy"} & set(sys.modules)))
"""
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env={"PYTHONPATH": "src"}, capture_output=True, text=True
    )
    assert ran.stderr == ""
    assert ran.stdout.split() == []


# What does not go together.

SEVERAL = r"\(contrastive, multi_similarity, quadruplet, roth_arcface, roth_multi_similarity, triplet\)"


@pytest.mark.parametrize(
    ("method", "loss", "batch", "words"),
    [
        ("sam_quad", "arcface", 8, rf"/seed0: the method 'sam_quad' compares photos of one class, but with 'arcface'.*{SEVERAL}"),
        # With four photos each, as the contrastive loss has them: of one class, two and three.
        ("sam_siamese", "contrastive", 4, ""),
        ("sam_triplet", "contrastive", 4, "of 2 classes, but a batch of 4 has 1.*at least 8"),
        ("sam_quad", "contrastive", 8, "of 3 classes, but a batch of 8 has 2.*at least 12"),
        ("sam_quad", "contrastive", 12, ""),
        ("plain", "contrastive", 10, "batch_size is 10, but the loss 'contrastive' wants 4 photos a class"),
        ("plain", "arcface", 10, ""),
        ({"kind": "dcml_code", "environments": 3}, "cosface", 10, "is 10, but method 'mine' wants 4 photos a class"),
        ({"kind": "dcml_paper", "gamma": 0.01}, "contrastive", 8, r"'mine' re-weights .* compares pairs.*weights \(arcface, cos"),
    ],
)  # fmt: skip
def test_what_does_not_go_together_is_refused_with_what_does(
    tmp_path: Path, raw: dict[str, Any], method: str | dict[str, Any], loss: str, batch: int, words: str
) -> None:
    raw["train"]["batch_size"] = batch
    raw["losses"]["cosface"] = {"default": {"margin": 0.2, "scale": 8, "lr": 0.01}}
    raw["methods"] = {"mine": method} if isinstance(method, dict) else {}
    name = "mine" if isinstance(method, dict) else method
    raw["grids"]["small"]["cells"][0] |= {"methods": [name, f"{name}+bgaugment"], "losses": [loss]}
    study = load(tmp_path, raw)
    if not words:
        plan.checked_cells(study)
        return
    with pytest.raises(UserError, match=words):
        plan.checked_cells(study)


# Which weights a network starts from: who reads them, what a digest knows of them, and which are refused.

OWNER = "backbones/mobilenet_v2"
CELL = Cell("squares", "mobilenet_v2", "contrastive", "plain", 0)
FEATURES = Cell("squares", "mobilenet_v2", "none", "pretrained", 0)


def test_published_files_are_torchvisions() -> None:
    for name in ("resnet18", "resnet50", "resnet152", "mobilenet_v2"):
        kind = torchvision.models.get_model_weights(name)
        (source,) = plugins.load("backbones", name).PUBLISHED
        assert source.place == kind.IMAGENET1K_V1.url
        facts, transform = plugins.load("backbones", name).FACTS, kind.IMAGENET1K_V1.transforms()
        assert ([facts.input_size], [facts.resize]) == (transform.crop_size, transform.resize_size)
        assert (list(facts.preprocess.mean), list(facts.preprocess.std)) == (transform.mean, transform.std)


@pytest.mark.parametrize("own", [None, "shared:net.pth"])
def test_weights_of_ones_own_need_no_node(tmp_path: Path, own: str | None) -> None:
    chosen = with_weights(tmp_path, weights=own)
    assert not any(n.name == "weights" for n in graph.in_order(chosen))
    assert "fetched_weights" not in graph.spec(chosen, "train", cell=CELL)
    with pytest.raises(UserError, match="mobilenet_v2 has nothing to fetch"):
        graph.digest(chosen, "weights", owner=OWNER)


def test_digest_knows_weights_by_name_and_checksum(tmp_path: Path) -> None:
    def digests(host: str, sha256: str) -> tuple[str, ...]:
        chosen = with_weights(tmp_path, weights=f"https://{host}/net.pth", sha256=sha256)
        of_cells = (graph.digest(chosen, n, cell=c) for c, n in ((CELL, "train"), (FEATURES, "embed")))
        return graph.digest(chosen, "weights", owner=OWNER), *of_cells

    before = digests("host", "0" * 64)
    chosen = with_weights(tmp_path, weights="https://host/net.pth", sha256="0" * 64)
    state_dicts.write_state_dict({}, chosen.files.at("weights", owner=OWNER))
    assert digests("host", "0" * 64) == digests("mirror", "0" * 64) == before
    assert not set(digests("host", "f" * 64)) & set(before)


def test_checksum_belongs_to_a_url(tmp_path: Path) -> None:
    for weights, sha256, words in (
        ("https://host/net.pth", None, "a URL as `weights` needs a `sha256`"),
        ("published", "1" * 64, "nothing else takes one"),
        ("https://host/net.pth", "1" * 7, "the first 8 or more"),
        ("https://host/net.pth", "X" * 64, "lower-case hexadecimal"),
    ):
        with pytest.raises(UserError, match=words):
            with_weights(tmp_path, weights=weights, sha256=sha256)


def test_a_missing_file_of_weights_is_named_with_its_key(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none.pth is missing .*backbones\.resnet18\.weights.*`published`"):
        make("resnet18", weights=tmp_path / "none.pth")
