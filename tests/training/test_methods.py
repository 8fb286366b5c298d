"""What every method is given and must keep to, and how params.yaml names methods."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import edited_code
import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from small_study import data_nodes, described, history, load

from bgbias import plugins, seeds
from bgbias.engine import graph
from bgbias.errors import UserError
from bgbias.images.composite import blend_batch
from bgbias.models import inference
from bgbias.models import model as models
from bgbias.nodes.train import train
from bgbias.study import methods, plan
from bgbias.study.cell import Cell
from bgbias.study.params import Study
from bgbias.study.training import around
from bgbias.training import loop
from bgbias.training.batches import Epochs
from bgbias.training.methods import Batch, Task
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


def small_model(seed: int = 0) -> models.EmbeddingModel:
    params = plugins.load("backbones", "pixels").Params()
    return models.build_model("pixels", params, 4, seeds.torch_generator("model", seed), False)


def batch() -> Batch:
    drawn = np.random.default_rng(0)
    photos, behind = (
        torch.from_numpy(drawn.integers(0, 256, (8, 3, 32, 32), dtype=np.uint8)) for _ in range(2)
    )
    masks = torch.from_numpy(drawn.random((8, 1, 32, 32), dtype=np.float32))
    return Batch(photos, torch.arange(4).repeat_interleave(2), torch.arange(8), masks, behind)


def built(name: str, **entries: dict[str, Any]) -> Any:
    loss = plugins.load("losses", "contrastive")
    base = loss.build(loss.Params(pos_margin=0, neg_margin=0.5), 4, 4, torch.Generator())
    task = Task(torch.arange(4).repeat_interleave(2), ("squares", 0))
    return around(methods.find(entries, name), small_model(), base, task)


def test_a_name_is_an_entry_or_a_file_and_may_be_on_replaced_backgrounds() -> None:
    entries = {"weak": GAINS, "gained": {"rate": 0.25}}
    for name, kind, rate, replaces in (
        ("weak", "gained", 0.5, False),
        ("weak+bgaugment", "gained", 0.5, True),
        ("gained", "gained", 0.25, False),
    ):
        found = methods.find(entries, name)
        assert (found.kind, found.params().model_dump()["rate"], found.replaces) == (kind, rate, replaces)
        assert found.needs == (frozenset({"masks", "backgrounds"}) if replaces else frozenset())


@pytest.mark.parametrize(
    ("entries", "named", "words"),
    [
        ({"weak": GAINS | {"rat": 1}}, "weak", r"unknown key 'methods\.weak\.rat'\. Did you mean 'rate'\?"),
        ({"weak": GAINS | {"rate": "x"}}, "plain", r"'methods\.weak\.rate' must be a number"),
        ({"bgaugment": {"rate": 1}}, "plain", r"unknown key 'methods\.bgaugment\.rate'\. Known keys: none"),
        ({"plain": {"rate": 1}}, "plain", r"'methods\.plain\.rate'\. Known keys: images_per_class"),
        ({"plain": GAINS}, "plain", "'plain' is a method itself; give the entry another name"),
        ({"weak/er": GAINS}, "plain", "'methods.weak/er' cannot be a name"),
        ({"gained+bgaugment": GAINS}, "plain", r"cannot be a name.*'\+bgaugment' is added where"),
        ({"weak": GAINS}, "waek", r"methods: 'waek' \(did you mean 'weak'\?\)"),
        ({"weak": GAINS}, "waek+bgaugment", r"methods: 'waek' \(did you mean 'weak'\?\)"),
        ({"weak": {"kind": "gaind"}}, "weak", r"no 'gaind' in methods; .* Did you mean 'gained'\?"),
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


def test_other_code_of_a_file_is_another_training_of_its_methods_alone(
    tmp_path: Path, raw: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("plain", "gained", "gained+bgaugment", "weak")
    study = load(tmp_path, with_methods(raw, *names, weak=GAINS))

    def trained() -> dict[str, str]:
        return {name: graph.digest(study, "train", cell=cell(name)) for name in names}

    folder = tmp_path / "plugins"
    shutil.copytree(raw["plugins"][0], folder)
    raw["plugins"] = [str(folder)]
    study = load(tmp_path, with_methods(raw, *names, weak=GAINS))
    before, file = trained(), folder / "methods" / "gained.py"
    file.write_text(f"# One reason more.\n{file.read_text()}")
    edited_code.look_again()
    assert trained() == before
    file.write_text(f"{file.read_text()}\n\nSTRONGER = 2\n")
    edited_code.look_again()
    after = trained()
    assert {n for n in names if after[n] != before[n]} == {"gained", "gained+bgaugment", "weak"}


def test_a_combination_reads_and_selects_like_bgaugment(tmp_path: Path, raw: dict[str, Any]) -> None:
    raw["train"]["selection"] = "published"
    study = load(tmp_path, with_methods(raw, "gained", "gained+bgaugment"))
    alone, combined, cure = cell("gained"), cell("gained+bgaugment"), cell("bgaugment")
    assert plan.needs(study, combined) == plan.needs(study, cure)
    assert graph.inputs(study, "train", cell=combined) == graph.inputs(study, "train", cell=cure)
    assert plan.needs(study, alone) == frozenset()
    assert [plan.selection_condition(study, c) for c in (alone, combined)] == ["clean", "corrupted"]


def test_photos_are_those_of_the_batch_or_stand_before_its_backgrounds() -> None:
    shown = batch()
    see = small_model().preprocess
    mixed = see(blend_batch(shown.images, shown.masks, shown.backgrounds))  # type: ignore[arg-type]
    assert torch.equal(built("gained").photos(shown), see(shown.images))
    assert torch.equal(built("gained+bgaugment").photos(shown), mixed)
    assert torch.equal(built("bgaugment").photos(shown), mixed)
    with pytest.raises(ValueError, match="masks and backgrounds"):
        built("gained+bgaugment").loss(Batch(shown.images, shown.labels, shown.index))


def trained(study: Study, chosen: Cell) -> tuple[dict[str, torch.Tensor], list[dict[str, str]]]:
    train(study, chosen, "cpu")
    found = study.files.at("model", **chosen.wildcards)
    return load_file(found), history(found.parent / "history.csv")


def test_plain_on_replaced_backgrounds_is_bgaugment_bit_for_bit(tmp_path: Path, raw: dict[str, Any]) -> None:
    study = load(tmp_path, with_methods(raw, "plain", "bgaugment", "plain+bgaugment"))
    data_nodes(study)
    (combined, its_rows), (cure, rows), (plain, _) = (
        trained(study, cell(name)) for name in ("plain+bgaugment", "bgaugment", "plain")
    )
    assert all(torch.equal(combined[k], cure[k]) for k in cure)
    assert its_rows == rows
    assert not torch.equal(plain["embedder.weight"], cure["embedder.weight"])


def test_embedding_the_feature_map_is_the_forward_pass() -> None:
    model = small_model().eval()
    x = model.preprocess(batch().images)
    assert torch.equal(model.embed_features(model.features(x)), model(x))


def test_a_neck_stands_between_trunk_and_pooling_and_is_kept_with_the_model(tmp_path: Path) -> None:
    model = small_model().eval()
    x = model.preprocess(batch().images)
    before = model(x)
    models.save(model, tmp_path / "plain.safetensors")
    neck = model.add_neck("gains", plugins.load("necks", "gains").Params(channels=model.embedder.in_features))
    assert torch.equal(model(x), before)
    neck.gains.data.copy_(torch.linspace(0, 2, neck.gains.numel()).view_as(neck.gains))  # type: ignore[union-attr, operator]
    expected = model.embed_features(neck(model.features(x)))
    assert torch.equal(model(x), expected)
    assert not torch.allclose(expected, before, atol=1e-3)
    models.save(model, tmp_path / "necked.safetensors")
    assert torch.equal(models.load(tmp_path / "necked.safetensors")(x), expected)
    assert torch.equal(models.load(tmp_path / "plain.safetensors")(x), before)
    torch.testing.assert_close(inference.for_inference(model)(x), expected)


def test_what_a_method_trains_and_sets_is_in_the_saved_model(tmp_path: Path, raw: dict[str, Any]) -> None:
    """The state at the end of the best epoch: ``end_epoch`` runs before validation."""
    raw["train"]["max_epochs"] = 1
    study = load(tmp_path, with_methods(raw, "still", still={"kind": "gained", "rate": 1e-30}))
    data_nodes(study)
    weights, _ = trained(study, cell("still"))
    assert torch.allclose(weights["neck.gains"], torch.tensor(0.9))


def test_a_pass_shows_every_photo_once_in_an_order_of_its_own(tmp_path: Path, raw: dict[str, Any]) -> None:
    from bgbias.study.album import Album

    study = load(tmp_path, with_methods(raw, "gained"))
    data_nodes(study)
    photos = Album(study, "squares", 40, 32).training(frozenset({"masks", "backgrounds"}))

    epochs = Epochs(photos, ("squares", 0), Train(crop_scale=(0.5, 1.0), crop_ratio=(1.0, 1.0)), 4)

    def once(epoch: int, name: str, batch_size: int = 7) -> list[Batch]:
        return list(epochs.passes(epoch, name, batch_size))

    first, again, later = once(1, "x"), once(1, "x"), once(2, "x")
    rows = [torch.cat([b.index for b in batches]).tolist() for batches in (first, again, later)]
    count = len(photos.labels)
    assert sorted(rows[0]) == list(range(count))
    assert [len(b.index) for b in first] == [7] * (count // 7) + ([count % 7] if count % 7 else [])
    assert rows[0] == rows[1] != rows[2]
    for a, b in zip(first, again, strict=True):
        assert all(torch.equal(getattr(a, k), getattr(b, k)) for k in ("images", "masks", "backgrounds"))
    assert all(np.array_equal(b.labels.numpy(), photos.labels[b.index.numpy()]) for b in first)
    alone = once(1, "other")
    assert torch.cat([b.index for b in alone]).tolist() != rows[0]


def test_methods_get_their_pass_before_each_epoch(tmp_path: Path) -> None:
    method, asked = built("gained"), []

    def passes(epoch: int, name: str, batch_size: int) -> Any:
        asked.append((epoch, name, batch_size))
        assert not method.model.training  # not yet: the epoch has not begun
        yield batch()

    method.model.eval()
    settings = Train(iterations_per_epoch=1, lr=1e-3)
    optimizer = loop.make_optimizer(method, settings)
    loop.train_epoch(method, iter([batch()]), optimizer, settings, "cpu", 3, passes)
    assert asked == [(3, "brightness", 7)]
    assert method.visited == list(range(8))
    with pytest.raises(ValueError, match="needs passes"):
        loop.train_epoch(method, iter([batch()]), optimizer, settings, "cpu", 4)


@pytest.mark.parametrize("name", plugins.names("methods"))
def test_facts_of_every_method_are_stated(name: str) -> None:
    module = plugins.load("methods", name)
    assert set(plugins.REQUIRED["methods"].needs) >= set(module.NEEDS)
    assert hasattr(module, "Method") == module.TRAINS
