"""How params.yaml names methods, and what every method is given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from fitting import batch, method, model
from small_study import data_nodes, described, load, run

from bgbias import plugins
from bgbias.engine import graph
from bgbias.errors import UserError
from bgbias.models import inference
from bgbias.models import model as models
from bgbias.study import plan
from bgbias.study.cell import Cell
from bgbias.training import loop
from bgbias.training.settings import Train

pytestmark = pytest.mark.usefixtures("small_plugins")

GAINS = {"kind": "gained", "rate": 0.5}


@pytest.fixture
def raw(tmp_path: Path) -> dict[str, Any]:
    return described(tmp_path)


def with_methods(raw: dict[str, Any], *named: str, **entries: dict[str, Any]) -> dict[str, Any]:
    raw["methods"] = entries
    raw["grids"]["small"]["cells"][0] |= {"methods": list(named), "losses": ["contrastive"]}
    return raw


def cell(method: str) -> Cell:
    return Cell("squares", "pixels", "contrastive", method, 0)


@pytest.mark.parametrize(
    ("entries", "named", "words"),
    [
        ({"weak": GAINS | {"rat": 1}}, "weak", r"unknown key 'methods\.weak\.rat'\. Did you mean 'rate'\?"),
        ({"plain": {"rate": 1}}, "plain", r"'methods\.plain\.rate'\. Known keys: images_per_class"),
        ({"plain": GAINS}, "plain", "'plain' is a method itself; give the entry another name"),
        ({"weak/er": GAINS}, "plain", "'methods.weak/er' cannot be a name"),
        ({"gained+bgaugment": GAINS}, "plain", r"cannot be a name.*'\+bgaugment' is added where"),
        ({"weak": GAINS}, "waek", r"methods: 'waek' \(did you mean 'weak'\?\)"),
        ({}, "bgaugment+bgaugment", "makes no sense: bgaugment has its own use of backgrounds"),
        ({}, "attr_loss", r"'methods\.attr_loss\.weight' is missing; it must be a number of 0 or more"),
        ({}, "pretrained+bgaugment", "makes no sense: pretrained trains nothing"),
    ],
)
def test_wrong_names_and_options_are_refused(
    tmp_path: Path, raw: dict[str, Any], entries: dict[str, Any], named: str, words: str
) -> None:
    with pytest.raises(UserError, match=words):
        plan.checked_cells(load(tmp_path, with_methods(raw, named, **entries)))


def test_options_are_in_the_digests_of_the_cells_that_use_them_alone(
    tmp_path: Path, raw: dict[str, Any]
) -> None:
    names = ("plain", "bgaugment", "gained", "weak", "weak+bgaugment")

    def trained(**entries: dict[str, Any]) -> dict[str, str]:
        study = load(tmp_path, with_methods(raw, *names, **entries))
        return {name: graph.digest(study, "train", cell=cell(name)) for name in names}

    before = trained(weak=GAINS)
    assert len(set(before.values())) == len(names)
    assert trained(weak=GAINS, other={"kind": "gained"}) == before
    assert trained(weak=GAINS | {"noise": 0.0}, gained={"rate": 0.01}) == before  # the defaults, spelt out
    after = trained(weak=GAINS | {"rate": 0.6})
    assert {n for n in names if after[n] != before[n]} == {"weak", "weak+bgaugment"}
    after = trained(weak=GAINS, gained={"noise": 0.5})
    assert {n for n in names if after[n] != before[n]} == {"gained"}
    study = load(tmp_path, with_methods(raw, *names, weak=GAINS))
    for name in ("plain", "bgaugment"):
        assert "method" not in graph.spec(study, "train", cell=cell(name))


def test_a_combination_reads_and_selects_like_bgaugment(tmp_path: Path, raw: dict[str, Any]) -> None:
    raw["train"]["selection"] = "published"
    study = load(tmp_path, with_methods(raw, "gained", "gained+bgaugment"))
    alone, combined, cure = cell("gained"), cell("gained+bgaugment"), cell("bgaugment")
    assert plan.needs(study, combined) == plan.needs(study, cure)
    assert graph.inputs(study, "train", cell=combined) == graph.inputs(study, "train", cell=cure)
    assert plan.needs(study, alone) == frozenset()
    assert [plan.selection_condition(study, c) for c in (alone, combined)] == ["clean", "corrupted"]


def test_batches_have_as_many_photos_of_a_class_as_the_method_is_told(
    tmp_path: Path, raw: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = {
        "4": {"kind": "plain"},  # as the loss says
        "2": {"kind": "plain", "images_per_class": 2},
        "dcml_4": {"kind": "dcml_code"},
        "dcml_2": {"kind": "dcml_code", "images_per_class": 2},
    }
    study = load(tmp_path, with_methods(raw, *entries, **entries))
    data_nodes(study)
    drawn: list[int] = []

    def begin(method: Any, batches: Any, *_: Any) -> None:
        drawn.extend(n for one in batches(1) for n in one.labels.unique(return_counts=True)[1].tolist())
        raise KeyboardInterrupt

    monkeypatch.setattr(loop, "fit", begin)
    for name in entries:
        drawn.clear()
        with pytest.raises(KeyboardInterrupt):
            run(study, cell(name), "train")
        assert {*drawn} == {int(name[-1])}


def test_a_neck_stands_between_trunk_and_pooling_and_is_kept_with_the_model(tmp_path: Path) -> None:
    net = model().eval()
    x = net.preprocess(batch().images)
    before = net(x)
    models.save(net, tmp_path / "plain.safetensors")
    neck = net.add_neck("gains", plugins.load("necks", "gains").Params(channels=net.embedder.in_features))
    assert torch.equal(net(x), before)
    neck.gains.data.copy_(torch.linspace(0, 2, neck.gains.numel()).view_as(neck.gains))  # type: ignore[union-attr, operator]
    expected = net.embed_features(neck(net.features(x)))
    assert torch.equal(net(x), expected)
    assert not torch.allclose(expected, before, atol=1e-3)
    models.save(net, tmp_path / "necked.safetensors")
    assert torch.equal(models.load(tmp_path / "necked.safetensors")(x), expected)
    assert torch.equal(models.load(tmp_path / "plain.safetensors")(x), before)
    torch.testing.assert_close(inference.for_inference(net)(x), expected)


def test_methods_get_their_pass_before_each_epoch() -> None:
    made, asked = method("gained"), list[tuple[int, str, int]]()

    def passes(epoch: int, name: str, batch_size: int) -> Any:
        asked.append((epoch, name, batch_size))
        assert not made.model.training  # not yet: the epoch has not begun
        yield batch()

    made.model.eval()
    settings = Train(iterations_per_epoch=1, lr=1e-3)
    optimizer = loop.make_optimizer(made, settings)
    loop.train_epoch(made, iter([batch()]), optimizer, settings, "cpu", 3, passes)
    assert asked == [(3, "brightness", 7)]
    assert made.visited == list(range(8))
    with pytest.raises(ValueError, match="needs passes"):
        loop.train_epoch(made, iter([batch()]), optimizer, settings, "cpu", 4)
