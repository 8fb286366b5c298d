"""Pretraining without labels: naive twins, torchvision's own changes of colour, and the node that does it in a study."""

import copy
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from fitting import model, same
from safetensors.torch import load_file
from small_study import data_nodes, load, record
from torch import Tensor, nn
from torch.nn.functional import normalize
from torchvision.transforms import functional

from bgbias import plugins, seeds
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
from bgbias.training.methods import Batch
from bgbias.training.pretraining import _colours, moco_v2

pytestmark = pytest.mark.usefixtures("small_plugins")
KINDS = ("moco_v2", "byol")
SIDE, PHOTOS, STEPS = 32, 6, 5
QUICK = {"epochs": 4, "batch_size": 4, "lr": 0.05, "dim": 5, "hidden": 7}


def batch(number: int = 0) -> Batch:
    """Two views each of some photos; the object is in the middle, of the last photo everywhere."""
    drawn = seeds.torch_generator("views", number)
    photos, quilts = torch.randint(256, (2, 2 * PHOTOS, 3, SIDE, SIDE), generator=drawn, dtype=torch.uint8)
    masks = torch.zeros(2 * PHOTOS, 1, SIDE, SIDE)
    masks[:, :, 8:20, 6:22] = 1
    masks[PHOTOS - 1 :: PHOTOS] = 1
    index = torch.arange(PHOTOS).repeat(2)
    return Batch(photos, index, index, masks, None, quilts)


def pretraining(kind: str, **options: Any) -> Any:
    module = plugins.load("pretraining", kind)
    made = module.Pretraining(model(frozen=False), module.Params(**QUICK | options), ("squares", 0), STEPS)
    made.start_epoch(1, lambda *_: iter(()))
    return made


def test_colours_change_as_torchvision_changes_them_one_by_one() -> None:
    """A naive twin, picture by picture, of all that may be drawn: four changes in their order, then grey and blur."""
    params, generator = moco_v2.Params(**QUICK), seeds.torch_generator("colours")
    photos = torch.randint(256, (40, 3, 56, 56), generator=generator, dtype=torch.uint8)
    photos[0] = 77  # grey: it has no hue
    drawn = _colours.draw(40, params, 56, generator)
    for share, wanted in ((drawn.jittered, 0.8), (drawn.grey, 0.2), (drawn.blur > 0, 0.5)):
        assert abs(share.float().mean().item() - wanted) < 0.25
    assert 0 < drawn.blur[drawn.blur > 0].min() < drawn.blur.max() <= 2.0 * 56 / 224
    changes = [
        getattr(functional, f"adjust_{what}") for what in ("brightness", "contrast", "saturation", "hue")
    ]
    for number, found in enumerate(_colours.change_colours(photos, drawn) / 255):
        x = photos[number].float() / 255
        for kind in drawn.order[number].tolist() if drawn.jittered[number] else ():
            x = changes[kind](x, float(drawn.factors[number, kind]))
        x = functional.rgb_to_grayscale(x, 3) if drawn.grey[number] else x
        if sigma := float(drawn.blur[number]):
            x = functional.gaussian_blur(x, 2 * drawn.reach + 1, sigma)
        torch.testing.assert_close(found, x, atol=5e-6, rtol=0)


def test_the_same_is_drawn_in_the_same_step_and_another_in_the_next() -> None:
    made, again = pretraining("moco_v2"), pretraining("byol")
    first, *_ = made.views(batch())
    assert torch.equal(first, again.views(batch())[0])  # whatever the pretraining is
    assert not torch.equal(first, made.views(batch())[0])
    made.start_epoch(1, lambda *_: iter(()))
    assert torch.equal(first, made.views(batch())[0])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("negatives", ["patches", "textures", "surroundings", "boxes"])
def test_what_negatives_are_made_of(kind: str, negatives: str) -> None:
    made = pretraining(kind, negatives=negatives)
    seen, pictures, counts = made.views(batch())
    asked = {"moco_v2": PHOTOS, "byol": 2 * PHOTOS}[kind]  # views that the network sees
    assert seen.shape == (2 * PHOTOS, 3, SIDE, SIDE)
    assert pictures.shape == (asked, 3, SIDE, SIDE)
    whole = torch.arange(asked) % PHOTOS == PHOTOS - 1
    assert torch.equal(~counts, whole if negatives in ("surroundings", "boxes") else torch.zeros_like(whole))
    if negatives == "patches":
        assert set(pictures[0].flatten().tolist()) <= set(seen[0].flatten().tolist())
    if negatives == "textures":  # seen as the photo is
        twin = pretraining(kind, negatives=negatives)
        shown, *_ = twin.views(replace(batch(), images=batch().textures))
        assert torch.equal(pictures, shown[:asked])


class Twin:
    """What a pretraining is: a network, a head, and a teacher."""

    def __init__(self, made: Any) -> None:
        self.trunk, self.heads = copy.deepcopy(made.model.trunk), copy.deepcopy(made.heads)
        self.slow = copy.deepcopy(nn.ModuleList([made.model.trunk, made.heads["projector"]]))

    def assert_alike(self, made: Any) -> None:
        ours = (made.model.trunk, made.heads, made.teacher["trunk"], made.teacher["head"])
        for one, other in zip(ours, (self.trunk, self.heads, *self.slow), strict=True):
            for a, b in zip(one.parameters(), other.parameters(), strict=True):
                torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)

    def online(self, x: Tensor) -> Tensor:
        return self.heads["projector"](self.trunk(x).mean(3).mean(2))

    def taught(self, x: Tensor) -> Tensor:
        found = self.slow[1](self.slow[0](x).mean(3).mean(2)).detach()
        return found / found.norm(dim=1, keepdim=True)

    def follow(self, keep: float) -> None:
        ahead = [*self.trunk.parameters(), *self.heads["projector"].parameters()]
        for new, old in zip(ahead, self.slow.parameters(), strict=True):
            old.data = keep * old.data + (1 - keep) * new.data


def learn(trunk: nn.Module, heads: nn.Module, loss: Tensor) -> float:
    """A step of gradient descent; the loss."""
    parameters = [*trunk.parameters(), *heads.parameters()]
    for weights, slope in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
        weights.data -= 0.1 * slope
    return loss.item()


def test_moco_agrees_with_its_twin() -> None:
    """Three steps: the order of the queue, the teacher's moving mean, and what learns."""
    options = {"queue": 10, "keep": 0.9, "negatives": "surroundings", "alpha": 2.0, "temperature": 0.3}
    made, views = pretraining("moco_v2", **options), pretraining("moco_v2", **options)
    twin, queue = Twin(made), torch.zeros(0, QUICK["dim"])
    for number in range(3):
        found = learn(made.model.trunk, made.heads, made.loss(batch(number))["loss"])
        seen, pictures, counts = views.views(batch(number))
        asked = normalize(twin.online(seen[:PHOTOS]), dim=1)
        twin.follow(0.9)
        others = twin.taught(seen[PHOTOS:])
        further = 2.0 * (asked * twin.taught(pictures)).sum(1)
        top, pushed = (((asked * others).sum(1) / 0.3).exp(), (further / 0.3).exp())
        below = top + (asked @ queue.T / 0.3).exp().sum(1) + counts * pushed
        expected = -(top / below).log().mean()
        assert found == pytest.approx(learn(twin.trunk, twin.heads, expected), abs=1e-5)
        queue = torch.cat((queue, others))[-10:]
    # Of 18 views the last 10, the ninth in the first place.
    torch.testing.assert_close(made._read_queue().roll(-8, 0), queue, atol=1e-5, rtol=0)
    twin.assert_alike(made)


def test_byol_agrees_with_its_twin() -> None:
    options = {"keep": 0.8, "negatives": "surroundings", "alpha": 0.3}
    made, views = pretraining("byol", **options), pretraining("byol", **options)
    twin = Twin(made)
    for number in range(3):
        found = learn(made.model.trunk, made.heads, made.loss(batch(number))["loss"])
        seen, pictures, counts = views.views(batch(number))
        twin.follow(1 - 0.2 * (math.cos(math.pi * number / STEPS) + 1) / 2)
        foretold = normalize(twin.heads["predictor"](twin.online(seen)), dim=1)
        apart = (foretold - twin.taught(seen).roll(PHOTOS, 0)).square().sum(1)
        pushed = counts * (foretold - twin.taught(pictures)).square().sum(1)
        expected = (apart - 0.3 * pushed).sum() / PHOTOS
        assert found == pytest.approx(learn(twin.trunk, twin.heads, expected), abs=1e-5)
    twin.assert_alike(made)


@pytest.mark.parametrize("kind", KINDS)
def test_negatives_that_do_not_count_leave_no_trace(kind: str) -> None:
    bare, without, with_some = (
        pretraining(kind, **o) for o in ({}, {"negatives": "patches", "alpha": 0.0}, {"negatives": "patches"})
    )
    assert torch.equal(bare.loss(batch())["loss"], without.loss(batch())["loss"])
    counts = [made.photos_a_step(made.params, 10) for made in (bare, without, with_some)]
    assert counts[0] == counts[1] < counts[2]


# In a study.


@pytest.fixture
def raw(raw: dict[str, Any]) -> dict[str, Any]:
    """Squares, a backbone that is pretrained on them, and models of it, trained and not."""
    raw["pretrainings"] = {"own": {"kind": "byol", **QUICK}}
    raw["backbones"]["learned"] = {"kind": "pixels", "pretraining": "own"}
    cells = {"backbones": ["pixels", "learned"], "pretrained": True, "seeds": [0, 1], "methods": ["plain"]}
    raw["grids"]["small"]["cells"][0] |= cells
    return raw


def study(folder: Path, raw: dict[str, Any], **options: Any) -> Study:
    raw["pretrainings"]["own"] |= options
    return load(folder, raw)


CELL = Cell("squares", "learned", "contrastive", "plain", 1)
WHOSE = {"backbone": "learned", "dataset": "squares", "run": "1"}


@pytest.mark.parametrize("kind", [{"kind": "moco_v2", "queue": 6}, {"kind": "byol"}])
def test_models_begin_with_what_an_interrupted_pretraining_has_learned(
    kind: dict[str, Any], tmp_path: Path, raw: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same bits as without the interruption; the length of embeddings is not in what it keeps."""
    small = study(tmp_path, raw, negatives="surroundings", **kind)
    data_nodes(small)
    node.pretrain(small, **WHOSE, device="cpu")
    path = small.files.at("pretrained", **WHOSE)
    expected = load_file(path)
    path.unlink()
    keep, epochs = loop._save, list[int]()

    def save(*given: Any) -> None:
        keep(*given)
        epochs.append(given[-1].epoch)
        if len(epochs) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(loop, "_save", save)
    with pytest.raises(KeyboardInterrupt):
        node.pretrain(small, **WHOSE, device="cpu")
    assert not path.exists()
    wider = small.model_copy(update={"train": small.train.model_copy(update={"embedding_dim": 11})})
    node.pretrain(wider, **WHOSE, device="cpu")
    assert epochs == [1, 2, 3, 4]
    assert not small.files.at("partial_pretraining", grid="small", **WHOSE).exists()
    assert record(small, "pretrain_record", **WHOSE)["metrics"]["epochs"] == 4
    learned = load_file(path)
    assert same(learned, expected)
    begun = fresh_model(small, CELL).trunk.state_dict()
    assert all(torch.equal(learned[key], begun[key]) for key in learned)


def test_what_cannot_be_learned_from_is_told_by_its_own_key(tmp_path: Path, raw: dict[str, Any]) -> None:
    small = study(tmp_path, raw)
    data_nodes(small)
    with pytest.raises(UserError, match="pixels is not pretrained here"):
        node.pretrain(small, "pixels", "squares", "0", device="cpu")
    for options, words in (
        ({"lr": 1e30}, r"Lower pretrainings\.own\.lr \(now 1e\+30\)"),
        ({"batch_size": 5000}, "A batch of 5000 photos is asked for, and there are"),
        ({"kind": "moco_v2", "batch_size": 4, "queue": 5000}, "A queue of 5000 views is asked for"),
    ):
        wrong = study(tmp_path, raw, **options)
        with pytest.raises(UserError, match=words):
            node.pretrain(wrong, **WHOSE, device="cpu")
    # Before anything runs, once photos are counted.
    with pytest.raises(UserError, match="A queue of 5000 views"):
        forecast(wrong)


def test_weights_of_a_pretraining_are_asked_of_it_alone(tmp_path: Path, raw: dict[str, Any]) -> None:
    raw["backbones"]["learned"] |= {"kind": "mobilenet_v2", "weights": f"{tmp_path}/absent.pth"}
    small = load(tmp_path, raw)
    checks.check_weights(small, step("train", cell=CELL))
    with pytest.raises(UserError, match=r"absent\.pth of backbones/learned is missing"):
        checks.check_weights(small, step("pretrain", **WHOSE))


def test_what_is_published_says_how_networks_learned(tmp_path: Path, raw: dict[str, Any]) -> None:
    said = publication.settings_of(study(tmp_path, raw, epochs=3))
    assert said["pretrainings"] == {"own": {"kind": "byol", **QUICK, "epochs": 3}}
    raw["grids"]["small"]["cells"][0]["backbones"] = ["pixels"]
    assert "pretrainings" not in publication.settings_of(load(tmp_path, raw))


def test_every_node_of_the_backbone_waits_for_its_pretraining(tmp_path: Path, raw: dict[str, Any]) -> None:
    small = study(tmp_path, raw)
    begun = [n for n in graph.in_order(small) if n.name == "pretrain"]
    assert [n.keywords["run"] for n in begun] == ["0", "1"]
    edited = study(tmp_path, raw, epochs=5)
    for cell in plan.cells(small):
        network = step("train" if plan.trains(small, cell) else "embed", cell=cell)
        read = [n for n in graph.reads_from(small, network) if n.name == "pretrain"]
        assert read == ([begun[cell.seed]] if cell.backbone == "learned" else [])
        before, after = (graph.digest(s, network.name, cell=cell) for s in (small, edited))
        assert (before != after) == bool(read)
    # Backbones as they come have a row a seed where every seed has learned by itself.
    as_they_come = [(c.backbone, c.seed) for c in plan.cells(small) if c.method == "pretrained"]
    # Random weights are drawn by each seed, too, where pretrained ones are compared with them.
    assert as_they_come == [("pixels", 0), ("pixels", 1), ("learned", 0), ("learned", 1)]
    # One dataset for all is learned from where it is named.
    raw["datasets"]["others"] = raw["datasets"]["squares"] | {"options": {}}
    elsewhere = graph.in_order(study(tmp_path, raw, dataset="others"))
    named = [n.subject_name for n in elsewhere if n.name == "pretrain"]
    assert named == ["learned/others/0", "learned/others/1"]


def test_a_mistake_is_told_before_anything_runs(tmp_path: Path, raw: dict[str, Any]) -> None:
    for entry, says in (
        ({"kind": "moco_v3"}, "There is no 'moco_v3' in pretraining; there are: byol, moco_v2."),
        ({"epochs": 3}, "pretrainings.own needs a `kind`; there are: byol, moco_v2."),
        ({"kind": "byol", "tau": 0.9}, "unknown key 'pretrainings.own.tau'"),
        ({"kind": "byol", "dataset": "square"}, "own.dataset: 'square' (did you mean 'squares'?)"),
        ({}, "backbones.learned.pretraining: 'own'"),
    ):
        raw["pretrainings"] = {"own": entry} if entry else {}
        with pytest.raises(UserError, match=re.escape(says)):
            plan.checked_cells(load(tmp_path, raw))
