"""DCML through the nodes: what is refused, killed and resumed, and what is saved."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
from dcml_models import KINDS, one_batch
from small_study import data_nodes, described, history, load
from torch import Tensor

from bgbias import plugins
from bgbias.errors import UserError
from bgbias.models import inference
from bgbias.models import model as models
from bgbias.nodes.train import train
from bgbias.study.cell import Cell
from bgbias.study.params import Study
from bgbias.training import loop
from bgbias.training.methods import BaseMethod, Batch

pytestmark = pytest.mark.usefixtures("small_plugins")


@pytest.fixture
def raw(tmp_path: Path) -> dict[str, Any]:
    return described(tmp_path)


def with_methods(raw: dict[str, Any], **entries: dict[str, Any]) -> dict[str, Any]:
    raw["methods"] = entries
    raw["losses"]["cosface"] = {"default": {"margin": 0.2, "scale": 8, "lr": 0.01}}
    raw["grids"]["small"]["cells"][0] |= {"methods": ["plain", *entries], "losses": ["cosface"]}
    return raw


def study_of(folder: Path, raw: dict[str, Any], **entries: dict[str, Any]) -> Study:
    study = load(folder, with_methods(raw, **entries))
    data_nodes(study)
    return study


def cell(method: str) -> Cell:
    return Cell("squares", "pixels", "cosface", method, 0)


def weights_of(study: Study, chosen: Cell) -> dict[str, Tensor]:
    from safetensors.torch import load_file

    return load_file(study.files.at("model", **chosen.wildcards))


def rows_of(study: Study, chosen: Cell) -> list[dict[str, str]]:
    return history(study.files.at("history", **chosen.wildcards))


def test_attention_without_environments_is_refused(tmp_path: Path, raw: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=r"methods\.odd.*set attention to false"):
        load(tmp_path, with_methods(raw, odd={"kind": "dcml_code", "environments": 0}))


def test_plain_takes_as_many_photos_of_a_class_as_it_is_told(tmp_path: Path, raw: dict[str, Any]) -> None:
    study = study_of(tmp_path, raw, two={"kind": "plain", "images_per_class": 2}, loss={"kind": "plain"})
    for name in ("plain", "two", "loss"):
        train(study, cell(name), "cpu")
    plain, two, loss = (weights_of(study, cell(name)) for name in ("plain", "two", "loss"))
    assert all(torch.equal(plain[k], loss[k]) for k in plain)
    assert not all(torch.equal(plain[k], two[k]) for k in plain)


def watched(patch: pytest.MonkeyPatch, die_after: int | None = None) -> dict[int, dict[str, Tensor]]:
    """All that a checkpoint holds of the method after each epoch; the process ends after ``die_after``."""
    save, seen = loop._save, dict[int, dict[str, Tensor]]()

    def save_and_see(path: Path, digest: str, method: BaseMethod, optimizer: Any, state: Any) -> None:
        save(path, digest, method, optimizer, state)
        seen[state.epoch] = {
            f"{m} {k}": v.clone()
            for m, module in method.modules().items()
            for k, v in module.state_dict().items()
        }
        if state.epoch == die_after:
            raise KeyboardInterrupt

    patch.setattr(loop, "_save", save_and_see)
    return seen


@pytest.mark.parametrize("killed_after", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_killed_and_resumed_is_as_if_nothing_had_happened(
    tmp_path: Path, raw: dict[str, Any], kind: str, killed_after: int
) -> None:
    """With environments that are learned before epochs 1 and 3: restored in one case, learned again in the other."""
    chosen = cell("mine+bgaugment")
    entries = {"mine": {"kind": kind, "update_every": 2, "passes": 2, "attention_lr": 0.01}}
    study = study_of(tmp_path, raw, **entries)
    files = [study.files.at(name, **chosen.wildcards) for name in ("model", "history", "train_record")]
    with pytest.MonkeyPatch.context() as patch:
        uninterrupted = watched(patch)
        train(study, chosen, "cpu")
    weights, rows = files[0].read_bytes(), history(files[1])
    for path in files:
        path.unlink()
    with pytest.MonkeyPatch.context() as patch:
        watched(patch, killed_after)
        with pytest.raises(KeyboardInterrupt):
            train(study, chosen, "cpu")
    torch.manual_seed(99)
    with pytest.MonkeyPatch.context() as patch:
        resumed = watched(patch)
        train(study, chosen, "cpu")
    logits = [uninterrupted[epoch]["dcml environments.logits"] for epoch in range(1, 5)]
    assert [torch.equal(a, b) for a, b in itertools.pairwise(logits)] == [True, False, True]
    assert list(resumed) == list(range(killed_after + 1, 5))
    for epoch, state in resumed.items():
        assert state.keys() == uninterrupted[epoch].keys()
        assert all(torch.equal(state[name], uninterrupted[epoch][name]) for name in state)
    nets = [name for name in uninterrupted[1] if "net" in name]
    assert nets
    assert not any(torch.equal(uninterrupted[3][name], uninterrupted[4][name]) for name in nets)
    assert files[0].read_bytes() == weights
    assert history(files[1]) == rows


@pytest.mark.parametrize("kind", KINDS)
def test_saved_model_attends_with_the_mean_of_the_nets_of_its_best_epoch(
    tmp_path: Path, raw: dict[str, Any], kind: str
) -> None:
    raw["train"]["max_epochs"] = 2
    study, chosen = study_of(tmp_path, raw, mine={"kind": kind, "attention_lr": 0.01}), cell("mine")
    with pytest.MonkeyPatch.context() as patch:
        seen = watched(patch)
        train(study, chosen, "cpu")
    rows = rows_of(study, chosen)
    best = seen[max((1, 2), key=lambda epoch: float(rows[epoch - 1]["val_map_at_r"]))]
    model = models.load(study.files.at("model", **chosen.wildcards))
    assert model.neck is not None
    for name, weights in model.neck.named_parameters():
        nets = [best[f"dcml nets.{j}.{name}"] for j in (0, 1)]
        assert not torch.equal(*nets)
        assert torch.equal(weights, (nets[0] + nets[1]) / 2)
    assert set(rows[0]) >= {"loss", "base_loss", "environments", "irm", "task", "attention"}
    x = model.preprocess(one_batch().images.float())
    expected = model.embed_features(model.neck(model.features(x)))
    assert torch.equal(model(x), expected)
    assert not torch.allclose(model.embed_features(model.features(x)), expected, atol=1e-3)
    torch.testing.assert_close(inference.for_inference(model)(x), expected, rtol=0, atol=1e-5)


def test_batches_have_several_photos_of_a_class_unless_told_otherwise(
    tmp_path: Path, raw: dict[str, Any]
) -> None:
    raw["train"]["max_epochs"] = 1
    entries = {"two": {"images_per_class": 2}, "loss": {"images_per_class": None}}
    study = study_of(tmp_path, raw, **{n: {"kind": "dcml_code", **o} for n, o in entries.items()})
    kind, counts = plugins.load("methods", "dcml_code").Method, dict[str, set[int]]()
    for name in entries:
        with pytest.MonkeyPatch.context() as patch:
            loss, seen = kind.loss, counts.setdefault(name, set())

            def watch(self: Any, batch: Batch, loss: Any = loss, seen: set[int] = seen) -> Any:
                seen.update(batch.labels.unique(return_counts=True)[1].tolist())
                return loss(self, batch)

            patch.setattr(kind, "loss", watch)
            train(study, cell(name), "cpu")
    assert counts["two"] == {2}
    assert 1 in counts["loss"]
