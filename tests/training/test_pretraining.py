"""Pretraining without labels: golden values, naive twins, torchvision's own changes of colour, and the node that does it."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from small_study import data_nodes, described, load, record, run
from torch import Tensor, nn

from bgbias import plugins, seeds
from bgbias.engine import checks, graph
from bgbias.engine.forecast import forecast
from bgbias.engine.node import step
from bgbias.errors import UserError
from bgbias.models.model import EmbeddingModel, build_model
from bgbias.nodes import pretrain as node
from bgbias.nodes._models import fresh_model
from bgbias.results import publication
from bgbias.study import plan
from bgbias.study.cell import Cell
from bgbias.study.params import Study
from bgbias.training import loop
from bgbias.training.methods import Batch
from bgbias.training.pretraining import _colours, byol, moco_v2
from bgbias.training.pretraining.moco_v2 import info_nce

pytestmark = pytest.mark.usefixtures("small_plugins")
KINDS = ("moco_v2", "byol")
NEGATIVES = ("patches", "textures", "surroundings", "boxes")
SIDE, PHOTOS, STEPS = 32, 6, 5
QUICK = {"epochs": 4, "batch_size": 4, "lr": 0.05, "dim": 5, "hidden": 7}


def batch(number: int = 0) -> Batch:
    """Two views each of some photos; the object is in the middle, of the last photo everywhere."""
    generator = seeds.torch_generator("views", number)
    photos, quilts = torch.randint(
        256, (2, 2 * PHOTOS, 3, SIDE, SIDE), generator=generator, dtype=torch.uint8
    )
    masks = torch.zeros(2 * PHOTOS, 1, SIDE, SIDE)
    masks[:, :, 8:20, 6:22] = 1
    masks[PHOTOS - 1 :: PHOTOS] = 1
    index = torch.arange(PHOTOS).repeat(2)
    return Batch(photos, index, index, masks, None, quilts)


def model() -> EmbeddingModel:
    params = plugins.load("backbones", "pixels").Params()
    return build_model("pixels", params, 4, seeds.torch_generator("model", 0), False).train()


def pretraining(kind: str, **options: Any) -> Any:
    module = plugins.load("pretraining", kind)
    made = module.Pretraining(model(), module.Params(**QUICK | options), ("squares", 0), STEPS)
    made.start_epoch(1, lambda *_: iter(()))
    return made


def test_golden_values_of_both_losses() -> None:
    """Of METHODS' independent arithmetic."""
    p, q, f = torch.tensor([0.8]), torch.tensor([[0.1, -0.2]]), torch.tensor([0.3])
    assert info_nce(p, q, 0.2).item() == pytest.approx(0.03627, abs=5e-6)
    for alpha, expected in ((1, 0.112454), (2, 0.339905), (3, 0.987925)):
        assert info_nce(p, q, 0.2, f, alpha).item() == pytest.approx(expected, abs=5e-6)
    assert info_nce(p, q, 0.2, -f, 2).item() == pytest.approx(0.037149, abs=5e-6)
    assert byol.distance(p, f, 0.05).item() == pytest.approx(0.33, abs=1e-6)
    assert byol.distance(p).item() == pytest.approx(0.4, abs=1e-6)
    none = torch.tensor([-math.inf])
    assert info_nce(p, q, 0.2, none, 2).item() == info_nce(p, q, 0.2).item()


@pytest.mark.parametrize("kind", range(4))
def test_colours_change_as_torchvision_changes_one_picture(kind: int) -> None:
    from torchvision.transforms import functional as one_picture

    generator = seeds.torch_generator("colours", kind)
    photos = torch.randint(256, (6, 3, 20, 24), generator=generator, dtype=torch.uint8)
    photos[0] = 77  # grey: it has no hue
    factors = torch.ones(6, 4)
    factors[:, _colours.HUE] = 0
    drawn = torch.rand(6, generator=generator)
    factors[:, kind] = drawn - 0.5 if kind == _colours.HUE else 0.3 + 1.4 * drawn
    order = torch.rand(6, 4, generator=generator).argsort(1)
    yes, no = torch.ones(6, dtype=torch.bool), torch.zeros(6, dtype=torch.bool)
    changes = _colours.Changes(factors, order, yes, no, torch.zeros(6), 1)
    change = (
        one_picture.adjust_brightness,
        one_picture.adjust_contrast,
        one_picture.adjust_saturation,
        one_picture.adjust_hue,
    )[kind]
    expected = [
        change(photo.float() / 255, float(f)) for photo, f in zip(photos, factors[:, kind], strict=True)
    ]
    torch.testing.assert_close(
        _colours.change_colours(photos, changes) / 255, torch.stack(expected), atol=2e-6, rtol=0
    )


def test_changes_come_in_their_order_grey_and_blur_last() -> None:
    from torchvision.transforms import functional as one_picture

    """A naive twin, picture by picture, of all that may be drawn."""
    params = moco_v2.Params(**QUICK)
    generator = seeds.torch_generator("colours")
    photos = torch.randint(256, (40, 3, 56, 56), generator=generator, dtype=torch.uint8)
    drawn = _colours.draw(40, params, 56, generator)
    for share, wanted in ((drawn.jittered, 0.8), (drawn.grey, 0.2), (drawn.blur > 0, 0.5)):
        assert abs(share.float().mean().item() - wanted) < 0.25
    assert 0 < drawn.blur[drawn.blur > 0].min() < drawn.blur.max() <= 2.0 * 56 / 224
    changes = (one_picture.adjust_brightness, one_picture.adjust_contrast, one_picture.adjust_saturation)
    for number, found in enumerate(_colours.change_colours(photos, drawn) / 255):
        x = photos[number].float() / 255
        for kind in drawn.order[number].tolist() if drawn.jittered[number] else ():
            change = (*changes, one_picture.adjust_hue)[kind]
            x = change(x, float(drawn.factors[number, kind]))
        x = one_picture.rgb_to_grayscale(x, 3) if drawn.grey[number] else x
        if sigma := float(drawn.blur[number]):
            x = one_picture.gaussian_blur(x, 2 * drawn.reach + 1, sigma)
        torch.testing.assert_close(found, x, atol=5e-6, rtol=0)


def test_the_same_is_drawn_in_the_same_step_and_another_in_the_next() -> None:
    made, again = pretraining("moco_v2"), pretraining("byol")
    first, *_ = made.views(batch())
    assert torch.equal(first, again.views(batch())[0])  # whatever the pretraining is
    assert not torch.equal(first, made.views(batch())[0])
    made.start_epoch(2, lambda *_: iter(()))
    assert not torch.equal(first, made.views(batch())[0])
    made.start_epoch(1, lambda *_: iter(()))
    assert torch.equal(first, made.views(batch())[0])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("negatives", NEGATIVES)
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
    elif negatives == "textures":
        # Seen as the photo is.
        twin = pretraining(kind, negatives=negatives)
        given = batch()
        shown, *_ = twin.views(Batch(given.textures, given.labels, given.index, None, None, given.textures))
        assert torch.equal(pictures, shown[:asked])
    else:
        outside = torch.ones(SIDE, SIDE, dtype=torch.bool)
        outside[2:26, 0:28] = False  # beyond the object, its rim and the blur around it
        torch.testing.assert_close(pictures[0][:, outside], seen[0][:, outside], atol=1e-5, rtol=0)
        assert not torch.allclose(pictures[0][:, 10:18, 10:18], seen[0][:, 10:18, 10:18])


class Twin:
    """What a pretraining is, in plain loops: a network, a head, a teacher, one photo after the other where that can be."""

    def __init__(self, made: Any) -> None:
        self.trunk, self.heads = copy.deepcopy(made.model.trunk), copy.deepcopy(made.heads)
        self.slow = copy.deepcopy(nn.ModuleList([made.model.trunk, made.heads["projector"]]))
        self.optimizer = torch.optim.SGD([*self.trunk.parameters(), *self.heads.parameters()], lr=0.1)

    def online(self, x: Tensor) -> Tensor:
        return self.heads["projector"](self.trunk(x).mean(3).mean(2))

    def taught(self, x: Tensor) -> Tensor:
        found = self.slow[1](self.slow[0](x).mean(3).mean(2)).detach()
        return found / found.norm(dim=1, keepdim=True)

    def follow(self, keep: float) -> None:
        ahead = [*self.trunk.named_parameters(), *self.heads["projector"].named_parameters()]
        behind = [*self.slow[0].named_parameters(), *self.slow[1].named_parameters()]
        for (name, new), (other, old) in zip(ahead, behind, strict=True):
            assert name == other
            old.data = keep * old.data + (1 - keep) * new.data

    def learn(self, loss: Tensor) -> None:
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


def optimizer(made: Any) -> torch.optim.SGD:
    return torch.optim.SGD([*made.model.trunk.parameters(), *made.heads.parameters()], lr=0.1)


def stepped(made: Any, learned: torch.optim.SGD, given: Batch) -> Tensor:
    """A step; its loss."""
    found: Tensor = made.loss(given)["loss"]
    learned.zero_grad()
    found.backward()
    learned.step()
    return found


def cosine(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum() / (a.norm() * b.norm())


@pytest.mark.parametrize("negatives", ["none", *NEGATIVES])
def test_moco_is_what_plain_loops_make_it(negatives: str) -> None:
    """Three steps: the order of the queue, the teacher's moving mean, and what learns."""
    options = {"queue": 10, "keep": 0.9, "negatives": negatives, "alpha": 2.0, "temperature": 0.3}
    made, views = pretraining("moco_v2", **options), pretraining("moco_v2", **options)
    twin, queue = Twin(made), list[Tensor]()
    learned = optimizer(made)
    for number in range(3):
        found = stepped(made, learned, batch(number))
        seen, pictures, counts = views.views(batch(number))
        asked = twin.online(seen[:PHOTOS])
        twin.follow(0.9)
        others = twin.taught(seen[PHOTOS:])
        further = twin.taught(pictures) if negatives != "none" else None
        losses = []
        for n in range(PHOTOS):
            top = torch.exp(cosine(asked[n], others[n]) / 0.3)
            below = top + sum(torch.exp(cosine(asked[n], entry) / 0.3) for entry in queue)
            if further is not None and counts[n]:
                below = below + torch.exp(2.0 * cosine(asked[n], further[n]) / 0.3)
            losses.append(-torch.log(top / below))
        expected = sum(losses) / PHOTOS
        twin.learn(expected)
        queue = (queue + list(others))[-10:]
        assert found.item() == pytest.approx(expected.item(), abs=1e-5)
    # Of 18 views the last 10, the ninth in the first place.
    torch.testing.assert_close(made._read_queue().roll(-8, 0), torch.stack(queue), atol=1e-5, rtol=0)
    for ours, theirs in (
        (made.model.trunk, twin.trunk),
        (made.heads, twin.heads),
        (made.teacher["trunk"], twin.slow[0]),
        (made.teacher["head"], twin.slow[1]),
    ):
        for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("negatives", ["none", *NEGATIVES])
def test_byol_is_what_plain_loops_make_it(negatives: str) -> None:
    options = {"keep": 0.8, "negatives": negatives, "alpha": 0.3}
    made, views = pretraining("byol", **options), pretraining("byol", **options)
    twin = Twin(made)
    learned = optimizer(made)
    for number in range(3):
        found = stepped(made, learned, batch(number))
        seen, pictures, counts = views.views(batch(number))
        twin.follow(1 - 0.2 * (math.cos(math.pi * number / STEPS) + 1) / 2)
        foretold = twin.heads["predictor"](twin.online(seen))
        taught = twin.taught(seen)
        further = twin.taught(pictures) if negatives != "none" else None
        expected = torch.zeros(())
        for n in range(2 * PHOTOS):
            z = foretold[n] / foretold[n].norm()
            expected = expected + (z - taught[(n + PHOTOS) % (2 * PHOTOS)]).square().sum() / PHOTOS
            if further is not None and counts[n]:
                expected = expected - 0.3 * (z - further[n]).square().sum() / PHOTOS
        twin.learn(expected)
        assert found.item() == pytest.approx(expected.item(), abs=1e-5)
    for a, b in zip(made.modules()["heads"].parameters(), twin.heads.parameters(), strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)
    assert not any(p.requires_grad for p in made.teacher.parameters())


@pytest.mark.parametrize("negatives", NEGATIVES)
def test_what_is_seen_does_not_depend_on_what_the_network_computes_in(negatives: str) -> None:
    plain, mixed = pretraining("moco_v2", negatives=negatives), pretraining("moco_v2", negatives=negatives)
    with torch.autocast("cpu", torch.bfloat16):
        found = mixed.views(batch())
    assert all(torch.equal(a, b) for a, b in zip(plain.views(batch()), found, strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_negatives_that_do_not_count_leave_no_trace(kind: str) -> None:
    bare, without = pretraining(kind), pretraining(kind, negatives="patches", alpha=0.0)
    assert torch.equal(bare.loss(batch())["loss"], without.loss(batch())["loss"])
    counts = [
        made.photos_a_step(made.params, 10)
        for made in (bare, without, pretraining(kind, negatives="patches"))
    ]
    assert counts[0] == counts[1]
    assert counts[2][0] > counts[1][0]


# -- the node ----------------------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("kind", KINDS)
def test_a_pretraining_that_is_killed_ends_with_the_same_bits(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = {}
    for name in ("whole", "killed"):
        small = study(tmp_path / name, kind=kind, negatives="surroundings")
        data_nodes(small)
        if name == "killed":
            keep, epochs = loop._save, []

            def save(*given: Any, keep: Any = keep, epochs: list[int] = epochs) -> None:
                keep(*given)
                epochs.append(given[-1].epoch)
                if len(epochs) == 2:
                    raise KeyboardInterrupt

            monkeypatch.setattr(loop, "_save", save)
            with pytest.raises(KeyboardInterrupt):
                node.pretrain(small, **WHOSE, device="cpu")
            assert not small.files.at("pretrained", **WHOSE).exists()
        node.pretrain(small, **WHOSE, device="cpu")
        if name == "killed":
            assert epochs == [1, 2, 3, 4]
        made[name] = load_file(small.files.at("pretrained", **WHOSE))
        assert not small.files.at("partial_pretraining", grid="small", **WHOSE).exists()
        assert record(small, "pretrain_record", **WHOSE)["metrics"]["epochs"] == 4
    assert made["whole"].keys() == made["killed"].keys()
    assert all(torch.equal(made["whole"][key], made["killed"][key]) for key in made["whole"])


def test_an_embeddings_length_is_not_in_what_an_interrupted_pretraining_keeps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = study(tmp_path)
    data_nodes(small)
    keep = loop._save

    def save(*given: Any) -> None:
        keep(*given)
        raise KeyboardInterrupt

    with monkeypatch.context() as killed:
        killed.setattr(loop, "_save", save)
        with pytest.raises(KeyboardInterrupt):
            node.pretrain(small, **WHOSE, device="cpu")
    wider = small.model_copy(update={"train": small.train.model_copy(update={"embedding_dim": 11})})
    assert graph.digest(wider, "pretrain", **WHOSE) == graph.digest(small, "pretrain", **WHOSE)
    node.pretrain(wider, **WHOSE, device="cpu")
    assert record(small, "pretrain_record", **WHOSE)["metrics"]["epochs"] == 4


def test_a_rate_that_is_too_high_is_told_by_its_own_key(tmp_path: Path) -> None:
    small = study(tmp_path, lr=1e30)
    data_nodes(small)
    with pytest.raises(UserError, match=r"Lower pretrainings\.own\.lr \(now 1e\+30\)"):
        node.pretrain(small, **WHOSE, device="cpu")


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


def test_models_of_a_backbone_begin_with_what_it_has_learned(tmp_path: Path) -> None:
    small = study(tmp_path)
    data_nodes(small)
    node.pretrain(small, **WHOSE, device="cpu")
    learned = load_file(small.files.at("pretrained", **WHOSE))
    begun = fresh_model(small, CELL).trunk.state_dict()
    assert all(torch.equal(learned[key], begun[key]) for key in learned)
    bare = fresh_model(small, Cell("squares", "pixels", "contrastive", "plain", 1)).trunk.state_dict()
    assert not torch.equal(bare["0.weight"], begun["0.weight"])
    run(small, CELL, "train")
    read = record(small, "train_record", **CELL.wildcards)["inputs"]
    assert str(small.files.at("pretrained", **WHOSE)) in read


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
    ],
)
def test_a_mistake_is_told_before_anything_runs(entry: dict[str, Any], says: str, tmp_path: Path) -> None:
    raw = described(tmp_path)
    raw["pretrainings"] = {"own": entry}
    raw["backbones"]["learned"] = {"kind": "pixels", "pretraining": "own"}
    raw["grids"]["small"]["cells"][0] |= {"backbones": ["learned"]}
    with pytest.raises(UserError) as error:
        plan.checked_cells(load(tmp_path, raw))
    assert says in str(error.value)


def test_a_pretraining_that_is_not_there_and_a_batch_without_photos_are_told(tmp_path: Path) -> None:
    raw = described(tmp_path)
    raw["backbones"]["learned"] = {"kind": "pixels", "pretraining": "own"}
    raw["grids"]["small"]["cells"][0] |= {"backbones": ["learned"]}
    with pytest.raises(UserError, match=r"backbones\.learned\.pretraining: 'own'"):
        load(tmp_path, raw)
    small = study(tmp_path, batch_size=5000)
    data_nodes(small)
    with pytest.raises(UserError, match="A batch of 5000 photos is asked for, and there are"):
        node.pretrain(small, **WHOSE, device="cpu")
    full = study(tmp_path, queue=5000)
    with pytest.raises(UserError, match="A queue of 5000 views is asked for, and there are"):
        node.pretrain(full, **WHOSE, device="cpu")
    with pytest.raises(
        UserError, match="A queue of 5000 views"
    ):  # and before anything runs, once photos are counted
        forecast(full)
    with pytest.raises(UserError, match="pixels is not pretrained here"):
        node.pretrain(small, "pixels", "squares", "0", device="cpu")
