"""A node's digest changes with what the node reads, and with nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from small_study import described, load

from bgbias.engine import graph
from bgbias.engine.node import Node, step
from bgbias.errors import UserError
from bgbias.files import json_checksum
from bgbias.files.checksums import fingerprint
from bgbias.files.fetch import Source
from bgbias.study import plan
from bgbias.study.cell import Cell
from bgbias.study.params import Study
from bgbias.study.sources import identity, parts_of

ROOT = Path(__file__).resolve().parents[2]
Digests = dict[tuple[str, str], str]

pytestmark = pytest.mark.usefixtures("small_plugins")


@pytest.fixture
def raw(tmp_path: Path) -> dict[str, Any]:
    return described(tmp_path)


def fingerprints(study: Study) -> Digests:
    """(node, subject) -> digest, for every node of the study."""
    return dict(_digests(study))


def _digests(study: Study) -> Iterator[tuple[tuple[str, str], str]]:
    for dataset, chosen in study.datasets.items():
        for part in parts_of(study, dataset):
            yield ("fetch", f"{dataset}/{part}"), graph.digest(study, "fetch", dataset=dataset, part=part)
        yield ("index", dataset), graph.digest(study, "index", dataset=dataset)
        yield ("masks", dataset), graph.digest(study, "masks", dataset=dataset, masker=chosen.masker)
    for pool in study.backgrounds:
        yield ("backgrounds", pool), graph.digest(study, "backgrounds", pool=pool)
    for cell in plan.cells(study):
        for node in (
            ("train", "embed", "score", "attribute") if plan.trains(study, cell) else ("embed", "score")
        ):
            yield (node, cell.name), graph.digest(study, node, cell=cell)
    yield ("collect", ""), graph.digest(study, "collect")
    yield ("table", "table1"), graph.digest(study, "table", table="table1")


def changed(before: Study, after: Study) -> set[tuple[str, str]]:
    old, new = fingerprints(before), fingerprints(after)
    assert old.keys() == new.keys()
    return changed_between(old, new)


def changed_between(old: Digests, new: Digests) -> set[tuple[str, str]]:
    return {key for key in old if old[key] != new[key]}


def of(nodes: str, *cells: Cell) -> set[tuple[str, str]]:
    return {(node, cell.name) for node in nodes.split() for cell in cells}


def cell(loss: str, method: str) -> Cell:
    return Cell("squares", "pixels", loss, method, 0)


ALL = [cell(loss, method) for loss in ("contrastive", "arcface") for method in ("plain", "bgaugment")]
CURED = [c for c in ALL if c.method == "bgaugment"]
PLAIN = [c for c in ALL if c.method == "plain"]
ARCFACE = [c for c in ALL if c.loss == "arcface"]
REPORT = {("collect", ""), ("table", "table1")}
OF_MODELS = "train embed score attribute"
OF_MASKS = of("embed score attribute", *ALL) | of("train", *CURED) | REPORT


def test_the_same_study_has_the_same_digests_each_of_its_own(tmp_path: Path, raw: dict[str, Any]) -> None:
    found = fingerprints(load(tmp_path, raw))
    assert fingerprints(load(tmp_path, raw)) == found
    assert len(set(found.values())) == len(found)


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("losses.arcface.default.margin", 21, of(OF_MODELS, *ARCFACE) | REPORT),
        # Plain training reads no masks and no backgrounds.
        ("maskers.ground_truth", {"kind": "u2netp"}, OF_MASKS | {("masks", "squares")}),
        ("mask_policy", {"min_area": 0.2}, OF_MASKS),
        (
            "backgrounds.noise.test.part",
            [0, 2],
            {("backgrounds", "noise")} | of("embed score", *ALL) | of("train attribute", *CURED) | REPORT,
        ),
        ("train.selection", "published", of(OF_MODELS, *CURED) | REPORT),
        ("evaluation.draws", 3, of("embed score", *ALL) | REPORT),
        ("evaluation.batch_size", 1, set()),
        # What no cell of the grid names.
        ("losses.arcface.elsewhere", {"margin": 1, "scale": 1, "lr": 1}, set()),
        ("backbones.resnet18", {"weights": None}, set()),
        ("grids.other", {"train": {"lr": 1}}, set()),
    ],
)
def test_an_edit_reruns_what_reads_it_alone(
    tmp_path: Path, raw: dict[str, Any], key: str, value: Any, expected: set[tuple[str, str]]
) -> None:
    before = load(tmp_path, raw)
    *way, last = key.split(".")
    place = raw
    for step_down in way:
        place = place[step_down]
    place[last] = value if key != "grids.other" else raw["grids"]["small"] | value
    assert changed(before, load(tmp_path, raw)) == expected


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
    # On corrupted photos it reads masks for every method.
    assert selected("corrupted") == ["corrupted"] * 4
    before = load(tmp_path, raw)
    raw["mask_policy"] = {"min_area": 0.2}
    assert of("train", *ALL) < changed(before, load(tmp_path, raw))


def test_added_photo_in_a_local_folder_is_noticed(tmp_path: Path, raw: dict[str, Any]) -> None:
    before = fingerprints(load(tmp_path, raw))
    (tmp_path / "test" / "one_more.png").write_bytes(b"x")
    fingerprint.cache_clear()
    after = fingerprints(load(tmp_path, raw))
    assert before["backgrounds", "noise"] != after["backgrounds", "noise"]
    assert before["train", PLAIN[0].name] == after["train", PLAIN[0].name]


def test_photos_that_are_elsewhere_cannot_have_changed(tmp_path: Path, raw: dict[str, Any]) -> None:
    """A clone brings what was made of them with its records; the photos themselves stay where they were."""
    options = {"source": str(tmp_path / "train")}
    raw["datasets"]["mine"] = raw["datasets"]["squares"] | {"kind": "folder", "options": options}
    study = load(tmp_path, raw)
    for node in (step("index", dataset="mine"), step("backgrounds", pool="noise")):
        path = node.record(study)
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps({"spec": graph.spec(study, node.name, **node.keywords)}))
    before = fingerprints(study)
    for folder in ("train", "val", "test"):
        (tmp_path / folder).rename(tmp_path / f"{folder} elsewhere")
    fingerprint.cache_clear()
    after = fingerprints(study)
    assert {k for k in before if before[k] != after[k]} == {("fetch", "mine/photos")}
    (tmp_path / "train").mkdir()  # they are back, and others
    fingerprint.cache_clear()
    assert fingerprints(study)["index", "mine"] != before["index", "mine"]


def test_each_part_of_a_dataset_is_fetched_by_itself(tmp_path: Path, raw: dict[str, Any]) -> None:
    options = {"source": str(tmp_path / "train"), "masks": str(tmp_path / "val")}
    raw["datasets"]["mine"] = raw["datasets"]["squares"] | {"kind": "folder", "options": options}
    study = load(tmp_path, raw)
    fetched = [step("fetch", dataset="mine", part=part) for part in ("photos", "masks")]
    assert graph.reads_from(study, step("index", dataset="mine")) == fetched
    assert graph.inputs(study, "index", dataset="mine") == {
        part: study.files.at("part", dataset="mine", part=part) for part in ("photos", "masks")
    }
    assert [n.label for n in fetched] == ["fetch mine/photos", "fetch mine/masks"]
    # An added mask is fetched again, the photos are not.
    before = fingerprints(study)
    (tmp_path / "val" / "one_more.png").write_bytes(b"x")
    fingerprint.cache_clear()
    after = fingerprints(study)
    changed_keys = {key for key in before if before[key] != after[key] and "mine" in key[1]}
    assert changed_keys == {("fetch", "mine/masks"), ("index", "mine"), ("masks", "mine")}


# Files of the user's own, and the nodes that read each.
OWN = {
    "net.pth": ("train mine/own", "embed mine/own", "embed packed/own", "embed other/own"),
    "shared/net.pth": ("train mine/common", "embed mine/common"),
    "mine/a/1.png": ("fetch mine", "fetch other"),
    "mine.zip": ("fetch packed",),
    "drawn/a/1.png": ("masks mine/drawn",),
    "drawn.zip": ("masks packed/drawn_zip",),
    "u2.pth": ("masks other/u2",),
    "test/test1.png": ("backgrounds",),
}


def test_a_file_overwritten_at_equal_size_reruns_what_reads_it_and_nothing_else(
    tmp_path: Path, raw: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for file in OWN:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_bytes((b"1" * 99).center(3_000_000 if file.endswith("zip") else 99))
    monkeypatch.setenv("BGBIAS_SHARED_DATA", str(tmp_path / "shared"))
    for name, weights in (("own", f"{tmp_path}/net.pth"), ("common", "shared:net.pth")):
        raw["backbones"][name] = {"kind": "mobilenet_v2", "weights": weights}
    raw["maskers"] |= {
        "drawn": {"kind": "files", "options": {"folder": f"{tmp_path}/drawn"}},
        "drawn_zip": {"kind": "files", "options": {"zip": f"{tmp_path}/drawn.zip"}},
        "u2": {"kind": "u2netp", "options": {"weights": f"{tmp_path}/u2.pth"}},
    }
    for dataset, source, masker in (
        ("mine", "mine", "drawn"),
        ("packed", "mine.zip", "drawn_zip"),
        ("other", "mine", "u2"),
    ):
        own = {"kind": "folder", "options": {"source": f"{tmp_path}/{source}"}, "masker": masker}
        raw["datasets"][dataset] = raw["datasets"]["squares"] | own
    trained = {
        "datasets": ["mine"],
        "backbones": ["own", "common"],
        "losses": ["contrastive"],
        "methods": ["plain"],
    }
    bare = {"datasets": ["packed", "other"], "backbones": ["own"]}
    raw["grids"]["small"]["cells"] = [
        trained | {"seeds": [0], "pretrained": True},
        bare | {"pretrained": True},
    ]
    study = load(tmp_path, raw)
    nodes = graph.in_order(study)

    def planned() -> dict[Node, str]:
        fingerprint.cache_clear()
        return {node: graph.digest(study, node.name, **node.keywords) for node in nodes}

    before = planned()
    for name, readers in OWN.items():
        (tmp_path / name).write_bytes((tmp_path / name).read_bytes().replace(b"111", b"121", 1))
        after = planned()
        expected: set[Node] = set()
        for node in nodes:
            if node.label.startswith(readers) or not expected.isdisjoint(graph.reads_from(study, node)):
                expected.add(node)
        assert expected
        assert {node for node in nodes if before[node] != after[node]} == expected, name
        before = after


def test_weights_that_are_elsewhere_cannot_have_changed(tmp_path: Path, raw: dict[str, Any]) -> None:
    weights = tmp_path / "net.pth"
    weights.write_bytes(b"1")
    raw["backbones"]["mobilenet_v2"] = {"weights": str(weights)}
    raw["maskers"]["u2"] = {"kind": "u2netp", "options": {"weights": str(weights)}}
    raw["datasets"]["squares"]["masker"] = "u2"
    raw["grids"]["small"]["cells"][0] |= {"backbones": ["mobilenet_v2"], "pretrained": True}
    study = load(tmp_path, raw)
    nodes = [n for n in graph.in_order(study) if n.name in ("masks", "train", "embed")]
    for node in nodes:
        node.record(study).parent.mkdir(parents=True, exist_ok=True)
        json_checksum.write(node.record(study), {"spec": graph.spec(study, node.name, **node.keywords)})
    before = fingerprints(study)
    weights.rename(tmp_path / "elsewhere.pth")
    assert fingerprints(study) == before
    weights.write_bytes(b"2")  # they are back, and others
    assert {n for n, _ in changed_between(before, fingerprints(study))} >= {"masks", "train", "embed"}


def test_another_mirror_of_a_known_file_changes_nothing(tmp_path: Path) -> None:
    seen = partial(identity, database=tmp_path / "known.sqlite")
    official = Source(place="https://a.example/x.tgz", md5="1" * 32)
    mirror = Source(place="https://b.example/x.tgz", md5="1" * 32, sha256="2" * 64, file="x.tgz", size=9)
    assert seen((official,)) == seen((mirror, official))
    assert seen((official,)) != seen((official.model_copy(update={"md5": "3" * 32}),))
    unknown = [Source(place=f"https://{host}.example/x.tgz") for host in "ab"]
    assert seen((unknown[0],)) != seen((unknown[1],))


@pytest.mark.parametrize(
    ("dataset", "part", "words"),
    [
        ("squares", "photos", "squares has nothing to fetch"),
        ("cars", "photo", "no part 'photo'; it has: photos"),
    ],
)
def test_part_that_is_not_there_is_refused(
    tmp_path: Path, raw: dict[str, Any], dataset: str, part: str, words: str
) -> None:
    raw["datasets"]["cars"] = raw["datasets"]["squares"] | {"kind": "cars196"}
    with pytest.raises(UserError, match=words):
        graph.digest(load(tmp_path, raw), "fetch", dataset=dataset, part=part)


def test_inputs_are_what_the_method_reads(tmp_path: Path, raw: dict[str, Any]) -> None:
    study = load(tmp_path, raw)
    assert set(graph.inputs(study, "train", cell=PLAIN[0])) == {"table", "photos"}
    cured = {"table", "photos", "masks", "mask_table", "train_pool", "val_pool"}
    assert set(graph.inputs(study, "train", cell=CURED[0])) == cured
    embedding = {"model", "table", "photos", "masks", "mask_table", "test_pool"}
    assert set(graph.inputs(study, "embed", cell=PLAIN[0])) == embedding


def test_paper_sized_grid_plans_150_trainings(tmp_path: Path, raw: dict[str, Any]) -> None:
    """3 datasets x 5 losses x 2 methods x 5 seeds, and for each dataset its backbone, alone and with each seed's layer."""
    block = raw["grids"]["small"]["cells"][0]
    for name in ("cars", "products"):
        raw["datasets"][name] = raw["datasets"]["squares"]
    raw["losses"]["multi_similarity"] = {"default": {"alpha": 2, "beta": 50, "base": 0.5}}
    raw["losses"]["normalized_softmax"] = {"default": {"temperature": 0.1, "lr": 0.01}}
    block |= {"datasets": list(raw["datasets"]), "losses": list(raw["losses"]), "seeds": [0, 1, 2, 3, 4]}
    block["pretrained"] = True
    raw["grids"]["small"]["cells"].append(block)  # cells named twice count once
    study = load(tmp_path, raw)
    planned = plan.checked_cells(study)
    trained = [c for c in planned if plan.trains(study, c)]
    assert (len(planned), len(trained)) == (3 * 6 + 150, 150)
    assert len({graph.digest(study, "train", cell=c) for c in trained}) == 150
    assert len({study.files.at("model", **c.wildcards) for c in trained}) == 150


def test_untrained_row_cannot_be_trained(tmp_path: Path, raw: dict[str, Any]) -> None:
    study = load(tmp_path, raw)
    for method in ("pretrained", "untrained"):
        row = Cell("squares", "pixels", "none", method, 0)
        assert not plan.trains(study, row)
        with pytest.raises(UserError, match="not trained"):
            graph.digest(study, "train", cell=row)


def test_a_backbone_as_it_comes_has_a_row_and_one_with_the_layer_of_each_seed(
    tmp_path: Path, raw: dict[str, Any]
) -> None:
    block = raw["grids"]["small"]["cells"][0]
    block |= {"pretrained": True, "seeds": [4, 2]}
    not_trained = [c for c in plan.checked_cells(load(tmp_path, raw)) if c.loss == "none"]
    of = "squares", "pixels", "none"
    assert not_trained == [Cell(*of, "pretrained", 0), Cell(*of, "untrained", 4), Cell(*of, "untrained", 2)]
    # Alone it has no length of its own that trained models could have.
    raw["grids"]["small"]["cells"] = [
        {"datasets": ["squares"], "backbones": ["pixels"], "pretrained": True},
    ]
    assert plan.cells(load(tmp_path, raw)) == (Cell(*of, "pretrained", 0),)


@pytest.mark.parametrize("node", ["embed", "segment"])
def test_the_random_layer_depends_on_its_length_and_the_backbone_does_not(
    tmp_path: Path, raw: dict[str, Any], node: str
) -> None:
    raw["segmentation"] = {"episodes": 2}
    raw["grids"]["small"]["cells"][0]["pretrained"] = True
    cells = [Cell("squares", "pixels", "none", method, 0) for method in ("pretrained", "untrained")]

    def found() -> list[str]:
        study = load(tmp_path, raw)
        return [graph.digest(study, node, cell=cell) for cell in cells]

    before = found()
    raw["train"]["embedding_dim"] += 1
    after = found()
    assert before[0] == after[0]
    assert before[1] != after[1]
    raw["train"]["lr"] *= 2  # nothing is trained
    assert found() == after


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (Cell("squares", "resnet", "arcface", "plain", 0), "no backbone 'resnet'; there are: pixels"),
        (Cell("squares", "pixels", "arcfac", "plain", 0), "no 'arcfac' in losses"),
        (Cell("squares", "pixels", "normalized_softmax", "plain", 0), "has no settings for squares"),
        (Cell("squares", "pixels", "arcface", "plane", 0), "no 'plane' in methods"),
    ],
)
def test_cell_of_unknown_parts_is_refused(
    tmp_path: Path, raw: dict[str, Any], wrong: Cell, words: str
) -> None:
    with pytest.raises(UserError, match=words):
        plan.check_cell(load(tmp_path, raw), wrong)


def test_planning_imports_nothing_heavy() -> None:
    """A dry run, ``--help``, the options of datasets and the tables must not wait for torch."""
    code = """
import sys
from pathlib import Path
from bgbias import cli
print(*{"pandas"} & set(sys.modules))
from bgbias.datasets import cars196, cub200, folder, sop, table
print(*{"scipy", "pyarrow.parquet"} & set(sys.modules))
from bgbias.engine import graph
from bgbias.study import plan
from bgbias.study.cell import Cell
from bgbias.study.params import load
for grid in ("demo", "rivals", "rivals_cub50"):
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
