"""The node that pretrains backbones: what it leaves, what is planned around it, and what it refuses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from fitting import same
from safetensors.torch import load_file
from small_study import data_nodes, described, load, record, run

from bgbias.engine import checks, graph
from bgbias.engine.forecast import forecast
from bgbias.engine.node import step
from bgbias.errors import UserError
from bgbias.nodes import pretrain as node
from bgbias.nodes._models import fresh_model
from bgbias.results import publication
from bgbias.study import plan
from bgbias.study.cell import Cell
from bgbias.study.params import Study
from bgbias.training import loop

pytestmark = pytest.mark.usefixtures("small_plugins")
QUICK = {"epochs": 4, "batch_size": 4, "lr": 0.05, "dim": 5, "hidden": 7}


def study(folder: Path, **options: Any) -> Study:
    """Squares, a backbone that is pretrained on them, and models of it, trained and not."""
    raw = described(folder)
    own = {"kind": "moco_v2", **QUICK, **options}
    queue = {"queue": 6} if own["kind"] == "moco_v2" else {}  # of fewer views than there are photos
    raw["pretrainings"] = {"own": queue | own}
    raw["backbones"]["learned"] = {"kind": "pixels", "pretraining": "own"}
    block = raw["grids"]["small"]["cells"][0]
    block |= {"backbones": ["pixels", "learned"], "pretrained": True, "seeds": [0, 1], "methods": ["plain"]}
    return load(folder, raw)


CELL = Cell("squares", "learned", "contrastive", "plain", 1)
WHOSE = {"backbone": "learned", "dataset": "squares", "run": "1"}


def test_models_begin_with_what_an_interrupted_pretraining_has_learned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same bits as without the interruption; the length of embeddings is not in what it keeps."""
    whole, killed = (study(tmp_path / name, negatives="surroundings") for name in ("whole", "killed"))
    for small in (whole, killed):
        data_nodes(small)
    node.pretrain(whole, **WHOSE, device="cpu")
    keep, epochs = loop._save, list[int]()

    def save(*given: Any) -> None:
        keep(*given)
        epochs.append(given[-1].epoch)
        if len(epochs) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(loop, "_save", save)
    with pytest.raises(KeyboardInterrupt):
        node.pretrain(killed, **WHOSE, device="cpu")
    assert not killed.files.at("pretrained", **WHOSE).exists()
    wider = killed.model_copy(update={"train": killed.train.model_copy(update={"embedding_dim": 11})})
    assert graph.digest(wider, "pretrain", **WHOSE) == graph.digest(killed, "pretrain", **WHOSE)
    node.pretrain(wider, **WHOSE, device="cpu")
    assert epochs == [1, 2, 3, 4]
    assert not killed.files.at("partial_pretraining", grid="small", **WHOSE).exists()
    assert record(killed, "pretrain_record", **WHOSE)["metrics"]["epochs"] == 4
    learned, expected = (load_file(s.files.at("pretrained", **WHOSE)) for s in (killed, whole))
    assert same(learned, expected)

    begun = fresh_model(killed, CELL).trunk.state_dict()
    assert all(torch.equal(learned[key], begun[key]) for key in learned)
    bare = fresh_model(killed, replace(CELL, backbone="pixels")).trunk.state_dict()
    assert not torch.equal(bare["0.weight"], begun["0.weight"])
    run(killed, CELL, "train")
    read = record(killed, "train_record", **CELL.wildcards)["inputs"]
    assert str(killed.files.at("pretrained", **WHOSE)) in read


def test_what_cannot_be_learned_from_is_told_by_its_own_key(tmp_path: Path) -> None:
    small = study(tmp_path)
    data_nodes(small)
    for options, words in (
        ({"lr": 1e30}, r"Lower pretrainings\.own\.lr \(now 1e\+30\)"),
        ({"batch_size": 5000}, "A batch of 5000 photos is asked for, and there are"),
        ({"queue": 5000}, "A queue of 5000 views is asked for, and there are"),
    ):
        with pytest.raises(UserError, match=words):
            node.pretrain(study(tmp_path, **options), **WHOSE, device="cpu")
    with pytest.raises(
        UserError, match="A queue of 5000 views"
    ):  # before anything runs, once photos are counted
        forecast(study(tmp_path, queue=5000))
    with pytest.raises(UserError, match="pixels is not pretrained here"):
        node.pretrain(small, "pixels", "squares", "0", device="cpu")


def test_weights_that_only_the_pretraining_reads_are_asked_of_it_alone(tmp_path: Path) -> None:
    raw = described(tmp_path)
    raw["pretrainings"] = {"own": {"kind": "byol", **QUICK}}
    raw["backbones"]["learned"] = {
        "kind": "mobilenet_v2",
        "weights": f"{tmp_path}/absent.pth",
        "pretraining": "own",
    }
    raw["grids"]["small"]["cells"][0] |= {"backbones": ["learned"]}
    small = load(tmp_path, raw)
    checks.check_weights(small, step("train", cell=CELL))
    with pytest.raises(UserError, match=r"absent\.pth of backbones/learned is missing"):
        checks.check_weights(small, step("pretrain", **WHOSE))


def test_what_is_published_says_how_networks_learned(tmp_path: Path) -> None:
    said = publication.settings_of(study(tmp_path, epochs=3))
    assert said["pretrainings"] == {"own": {"queue": 6, "kind": "moco_v2", **QUICK, "epochs": 3}}
    assert "pretrainings" not in publication.settings_of(load(tmp_path, described(tmp_path)))


def test_every_node_of_the_backbone_waits_for_its_seeds_pretraining(tmp_path: Path) -> None:
    small = study(tmp_path)
    nodes = graph.in_order(small)
    begun = [n for n in nodes if n.name == "pretrain"]
    assert [n.keywords["run"] for n in begun] == ["0", "1"]
    for cell in plan.cells(small):
        network = step("train" if plan.trains(small, cell) else "embed", cell=cell)
        read = [n for n in graph.reads_from(small, network) if n.name == "pretrain"]
        assert read == ([begun[cell.seed]] if cell.backbone == "learned" else [])
    # Backbones as they come have a row a seed where every seed has learned by itself.
    as_they_come = [(c.backbone, c.seed) for c in plan.cells(small) if c.method == "pretrained"]
    # Random weights are drawn by each seed, too, where pretrained ones are compared with them.
    assert as_they_come == [("pixels", 0), ("pixels", 1), ("learned", 0), ("learned", 1)]


def test_an_edit_of_the_pretraining_is_seen_by_all_that_begins_with_it(tmp_path: Path) -> None:
    def known(**options: Any) -> list[str]:
        small = study(tmp_path, **options)
        bare = Cell("squares", "pixels", "contrastive", "plain", 1)
        return [
            graph.digest(small, "pretrain", **WHOSE),
            graph.digest(small, "train", cell=CELL),
            graph.digest(small, "train", cell=bare),
        ]

    before, after = known(), known(epochs=5)
    assert [a == b for a, b in zip(before, after, strict=True)] == [False, False, True]


def test_one_dataset_for_all_is_learned_from_where_it_is_named(tmp_path: Path) -> None:
    raw = described(tmp_path)
    raw["datasets"]["others"] = raw["datasets"]["squares"] | {"options": {}}
    raw["pretrainings"] = {"own": {"kind": "byol", "dataset": "others", **QUICK}}
    raw["backbones"]["learned"] = {"kind": "pixels", "pretraining": "own"}
    raw["grids"]["small"]["cells"][0] |= {"backbones": ["learned"]}
    small = load(tmp_path, raw)
    (made,) = [n for n in graph.in_order(small) if n.name == "pretrain"]
    assert made.subject_name == "learned/others/0"
    assert {plan.list_datasets(small, cell) for cell in plan.cells(small)} == {("squares", "others")}
    # What that dataset is masked by is looked at before anything runs, too.
    raw["maskers"]["torn"] = {"kind": "u2net", "options": {"sharpness": 1}}
    raw["datasets"]["others"]["masker"] = "torn"
    with pytest.raises(UserError, match=r"maskers\.torn"):
        plan.checked_cells(load(tmp_path, raw))


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        (
            {"kind": "moco_v3"},
            "There is no 'moco_v3' in pretraining; there are: byol, moco_v2. Did you mean 'moco_v2'?",
        ),
        ({"epochs": 3}, "pretrainings.own needs a `kind`; there are: byol, moco_v2."),
        ({"kind": "byol", "tau": 0.9}, "unknown key 'pretrainings.own.tau'"),
        ({"kind": "byol", "blur": [0.1, 100]}, "pretrainings.own.blur"),
        ({"kind": "byol", "smallest": 80}, "smallest is 80, largest 72: exchange them"),
        (
            {"kind": "byol", "dataset": "square"},
            "pretrainings.own.dataset: 'square' (did you mean 'squares'?)",
        ),
        ({}, "backbones.learned.pretraining: 'own'"),
    ],
)
def test_a_mistake_is_told_before_anything_runs(entry: dict[str, Any], says: str, tmp_path: Path) -> None:
    raw = described(tmp_path)
    raw["pretrainings"] = entry and {"own": entry}
    raw["backbones"]["learned"] = {"kind": "pixels", "pretraining": "own"}
    raw["grids"]["small"]["cells"][0] |= {"backbones": ["learned"]}
    with pytest.raises(UserError) as error:
        plan.checked_cells(load(tmp_path, raw))
    assert says in str(error.value)
