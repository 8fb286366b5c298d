"""DCML as a method: its loss and environments against slow twins, its ablations, what it saves, and going on after a kill."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from small_study import data_nodes, described, history, load
from torch import Tensor

from bgbias import model as models
from bgbias import named_methods, plan, plugins, seeds, training
from bgbias.batches import Batch
from bgbias.errors import UserError
from bgbias.methods import BaseMethod, Task
from bgbias.methods._environments import Environments, batch_weights
from bgbias.nodes.models import train
from bgbias.params import Study
from bgbias.plan import Cell

pytestmark = pytest.mark.usefixtures("small_plugins")

KINDS = ("dcml_code", "dcml_paper")
LABELS = torch.arange(5).repeat_interleave(4)  # of the training photos
ALONE = {"environments": 0, "attention": False, "images_per_class": None}
SCALE, MARGIN = 8.0, 0.2


def built(kind: str, **options: Any) -> Any:
    """The method on a small model in double precision, with a loss whose logits a test can write down."""
    params = plugins.load("backbones", "pixels").Params()
    model = models.build_model("pixels", params, 6, seeds.torch_generator("model"), False)
    loss = plugins.load("losses", "cosface")
    base = loss.build(
        loss.Params(margin=MARGIN, scale=SCALE, lr=0.1), 5, 6, seeds.torch_generator("class weights")
    )
    entries = {"chosen": {"kind": kind, **options}}
    method = named_methods.find(entries, "chosen").build(model, base, Task(LABELS, ("squares", 0)))
    for module in method.modules().values():
        module.double().eval()
    return method


def batches(purpose: str, size: int = 8) -> Iterator[Batch]:
    """Every training photo once."""
    drawn = seeds.torch_generator("photos", purpose)
    order = torch.randperm(len(LABELS), generator=drawn)
    for rows in order.split(size):
        photos = 255 * torch.rand((len(rows), 3, 32, 32), generator=drawn, dtype=torch.float64)
        yield Batch(photos, LABELS[rows], rows)


def passes(name: str, size: int) -> Iterator[Batch]:
    return batches(name, size)


def one_batch() -> Batch:
    return next(batches("one", 12))


def unlike(method: Any) -> Any:
    """Nets, class weights and environments that differ, as they do after some training."""
    generator = seeds.torch_generator("unlike")
    for module in method.modules().values():
        for weights in module.parameters():
            weights.data += 0.1 * torch.randn(weights.shape, generator=generator, dtype=weights.dtype)
    method.environments.draw(generator)
    method.end_epoch()
    return method


# The loss against its slow twin: METHODS section 5 with automatic differentiation and loops.


def logits_by_hand(class_weights: Tensor, embeddings: Tensor, labels: Tensor) -> Tensor:
    cosines = F.normalize(embeddings, dim=1) @ F.normalize(class_weights, dim=0)
    return SCALE * (cosines - MARGIN * F.one_hot(labels, 5).double())


def attended_by_hand(matrices: list[Tensor], features: Tensor) -> Tensor:
    w1, w2, w3, w4 = matrices
    where = ((features.mean(1).flatten(1) @ w1.T).relu() @ w2.T).sigmoid()
    seen = features * where.view(len(features), 1, *features.shape[2:])
    return seen * ((seen.mean((2, 3)) @ w3.T).relu() @ w4.T).sigmoid()[:, :, None, None]


def class_weights(method: Any) -> list[Tensor]:
    return list(method.base_loss.parameters())


def penalty_by_dummy(logits: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
    dummy = torch.ones(1, 5, dtype=torch.float64, requires_grad=True)
    losses = F.cross_entropy(logits * dummy, labels, reduction="none")
    (slope,) = torch.autograd.grad((weights * losses).sum(), dummy, create_graph=True)
    return slope.square().sum()


def expected_loss(method: Any, batch: Batch, kind: str) -> Tensor:
    model, chosen, y = method.model, method.params, batch.labels
    features = model.features(method.photos(batch))
    shared = method.environments.logits[batch.index].softmax(1)
    own_weights, environment_weights = class_weights(method)[0], class_weights(method)[-1]
    nets = [list(net.parameters()) for net in method.nets]
    means = [sum(matrices) / len(nets) for matrices in zip(*nets, strict=True)]
    terms: list[Tensor] = []
    for j in range(chosen.environments):
        weights = shared[:, j] / sum(shared[i, j] for i in range(len(y)))
        attended = attended_by_hand(nets[j], features) if nets else features
        projected = attended.mean((2, 3)) @ model.embedder.weight.T + model.embedder.bias
        logits = logits_by_hand(environment_weights, projected, y)
        task = torch.zeros((), dtype=torch.float64)
        for i, k in itertools.combinations(range(len(y)), 2):
            if kind == "dcml_paper" and y[i] == y[k]:
                task = task + (attended[i] - attended[k]).square().sum()
        for i in range(len(y) if kind == "dcml_code" else 0):
            task = task + weights[i] * (projected[i] - projected[y == y[i]].mean(0).detach()).square().sum()
        terms.append(
            (weights * F.cross_entropy(logits, y, reduction="none")).sum()
            + chosen.alpha * penalty_by_dummy(logits, y, weights)
            + chosen.gamma * task
        )
    total = sum(terms) / (len(terms) if kind == "dcml_code" else 1)
    beside = [(w, mean) for net in nets for w, mean in zip(net, means, strict=True)]
    if nets and kind == "dcml_code":
        # The root has no slope at 0, where one net is its own mean.
        gaps = [((w - mean).square().sum() + 1e-30).sqrt() / w.abs().sum() for w, mean in beside]
        total = total + chosen.beta * sum(gap**2 for gap in gaps) / len(gaps)
        features = attended_by_hand(list(method._empirical_net.parameters()), features)
    elif nets:
        total = total + chosen.beta * sum((w - mean).square().sum() for w, mean in beside)
        features = attended_by_hand(means, features)
    projected = features.mean((2, 3)) @ model.embedder.weight.T + model.embedder.bias
    return total + F.cross_entropy(logits_by_hand(own_weights, projected, y), y)


ABLATIONS: dict[str, dict[str, Any]] = {
    "DCML": {},
    "w/o inv emb": {"alpha": 0},
    "w/o inv at": {"beta": 0},
    "w/o inv task": {"gamma": 0},
    "w random": {"weights": "random"},
    "w/o envs": {"environments": 1, "alpha": 0},
    "w/o at": {"attention": False},
    "k = 5": {"environments": 5},
    "heavy penalties": {"alpha": 3, "beta": 50, "gamma": 7},
}


@pytest.mark.parametrize("options", ABLATIONS.values(), ids=list(ABLATIONS))
@pytest.mark.parametrize("kind", KINDS)
def test_loss_agrees_with_its_slow_twin(kind: str, options: dict[str, Any]) -> None:
    """And so do the gradients of everything that is trained."""
    method, batch = unlike(built(kind, **options)), one_batch()
    found, expected = method.loss(batch)["loss"], expected_loss(method, batch, kind)
    assert found.item() == pytest.approx(expected.item(), rel=1e-10)
    named = [
        (name, p) for m in method.modules().values() for name, p in m.named_parameters() if "neck" not in name
    ]
    trained = [p for _, p in named]
    slopes = torch.autograd.grad(found, trained), torch.autograd.grad(expected, trained)
    for (name, _), a, b in zip(named, *slopes, strict=True):
        assert torch.allclose(a, b, rtol=1e-8, atol=1e-12), name
        assert a.abs().sum() > 0, name


@pytest.mark.parametrize("kind", KINDS)
def test_every_penalty_weighs_as_much_as_it_is_told(kind: str) -> None:
    parts = unlike(built(kind, alpha=2, beta=3, gamma=5)).loss(one_batch())
    total = parts["empirical"] + parts["environments"]
    total = total + 2 * parts["irm"] + 3 * parts["attention"] + 5 * parts["task"]
    assert parts["loss"].item() == pytest.approx(total.item(), rel=1e-12)
    assert all(value.item() > 0 for value in parts.values())


def test_environments_share_class_weights_that_are_the_empirical_branchs_in_the_paper_alone() -> None:
    for kind, count in zip(KINDS, (2, 1), strict=True):
        method = built(kind)
        weights = class_weights(method)
        assert len(weights) == count
        method.loss(one_batch())["loss"].backward()
        assert all(w.grad is not None and w.grad.abs().sum() > 0 for w in weights)
        groups = training.make_optimizer(method, plan_train(), 0.1).param_groups
        (of_loss,) = (g for g in groups if any(p is weights[0] for p in g["params"]))
        assert len(of_loss["params"]) == count
        assert of_loss["lr"] == 0.1


def plan_train() -> Any:
    from bgbias.params import Train

    return Train(lr=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_mixed_precision_does_not_reach_beyond_the_trunk(kind: str) -> None:
    method, batch = unlike(built(kind)), one_batch()
    for module in method.modules().values():
        module.float()
    features = method.model.features(method.photos(batch).float()).bfloat16()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(method.model, "features", lambda photos: features)
        expected = method.loss(batch)
        with torch.autocast("cpu", torch.bfloat16):
            found = method.loss(batch)
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    assert all(value.dtype == torch.float32 for value in found.values())


# The environments.


def test_golden_weights_of_a_photo() -> None:
    """Logits 0 and ln 3; and in a batch of two such photos, halves."""
    logits = torch.tensor([[0.0, math.log(3)]] * 2)
    assert logits.softmax(1)[0].tolist() == pytest.approx([0.25, 0.75])
    assert batch_weights(logits).flatten().tolist() == pytest.approx([0.5] * 4)


def test_weights_of_photos_that_an_environment_hardly_holds_are_finite() -> None:
    weights = batch_weights(torch.tensor([[0.0, 400.0], [0.0, 401.0], [0.0, 400.0]]))
    assert weights.isfinite().all()
    assert weights.sum(0).tolist() == pytest.approx([1, 1])
    assert weights[0, 0].item() == pytest.approx(1 / (2 + math.exp(-1)))


def slow_objective(method: Any, logits: Tensor, batch: Batch) -> Tensor:
    """By dummies for class weights, channels and positions, and a second differentiation."""
    features = method.model.features(method.photos(batch)).detach()
    shared = logits[batch.index].softmax(1)
    values = []
    for j, net in enumerate(method.nets):
        weights = shared[:, j] / shared[:, j].sum()
        attended = net(features).detach()
        _, c, h, w = attended.shape
        dummies = [
            torch.ones(size, dtype=torch.float64, requires_grad=True) for size in ((1, c, 1, 1), (1, 1, h, w))
        ]
        projected = (attended * dummies[0] * dummies[1]).mean((2, 3)) @ method.model.embedder.weight.T
        seen = logits_by_hand(class_weights(method)[-1], projected + method.model.embedder.bias, batch.labels)
        loss = (weights * F.cross_entropy(seen, batch.labels, reduction="none")).sum()
        slopes = torch.autograd.grad(loss, dummies, create_graph=True)
        values.append(sum(s.square().sum() for s in slopes) + penalty_by_dummy(seen, batch.labels, weights))
    return sum(values) / len(values)  # type: ignore[return-value]


@pytest.mark.parametrize("kind", KINDS)
def test_learned_environments_agree_with_a_slow_twin(kind: str) -> None:
    """Two passes of Adam, with both differentiations by machine."""
    method = unlike(built(kind, passes=2))
    generator = seeds.torch_generator("environments", "squares", 0, 1)
    logits = torch.randn((20, 2), generator=generator).double().requires_grad_()
    optimizer, kept, best = torch.optim.Adam([logits], lr=0.5), logits, -1.0
    for number in range(2):
        values = []
        for batch in passes(f"environments {number}", 64):
            value = slow_objective(method, logits, batch)
            optimizer.zero_grad()
            (-value).backward()
            optimizer.step()
            values.append(value.item())
        if (mean := sum(values) / len(values)) > best:
            kept, best = logits.detach().clone(), mean
    method.start_epoch(1, passes)
    assert torch.allclose(method.environments.logits, kept, rtol=0, atol=1e-8)


def test_learned_environments_suit_the_model_worse_than_random_ones() -> None:
    method, worst = unlike(built("dcml_code", passes=10)), unlike(built("dcml_code", weights="random"))
    method.start_epoch(1, passes)
    worst.start_epoch(1, passes)
    batch = next(batches("all", 20))
    learned, random = (slow_objective(m, m.environments.logits, batch).item() for m in (method, worst))
    assert learned > 1.2 * random


def test_the_pass_with_the_highest_mean_is_kept() -> None:
    """Gradients that turn round after the first pass, so that the second is lower."""
    environments = Environments(2, 2)
    rows = torch.tensor([0, 1])
    first = [[torch.tensor([[4.0], [0.0]])], [torch.tensor([[0.0], [4.0]])]]
    small = [[g / 100 for g in of] for of in first]
    kept: list[Tensor] = []

    def batches_of(gradients: Any) -> Callable[[], Iterator[Any]]:
        def batches() -> Iterator[Any]:
            kept.append(environments.logits.clone())
            yield rows, gradients

        return batches

    environments.draw(seeds.torch_generator("start"))
    reached = environments.learn([batches_of(first), batches_of(small), batches_of(small)], 0.5)
    assert reached[0] > reached[1]
    assert not torch.equal(kept[0], kept[1])
    assert torch.equal(environments.logits, kept[1])


def test_update_leaves_the_model_as_it_is() -> None:
    method = unlike(built("dcml_code"))
    before = {
        f"{m} {k}": v.clone()
        for m, module in method.modules().items()
        for k, v in module.state_dict().items()
    }
    method.start_epoch(1, passes)
    after = {f"{m} {k}": v for m, module in method.modules().items() for k, v in module.state_dict().items()}
    changed = [name for name in before if not torch.equal(before[name], after[name])]
    assert changed == ["dcml environments.logits"]
    assert all(p.grad is None for module in method.modules().values() for p in module.parameters())


def looked_at(method: Any, epochs: int) -> tuple[list[str], list[Tensor]]:
    """The passes a method asks for in so many epochs, and its environments after each start."""
    asked, logits = list[str](), list[Tensor]()
    for epoch in range(1, epochs + 1):

        def watch(name: str, size: int, epoch: int = epoch) -> Iterator[Batch]:
            asked.append(f"{epoch} {name} {size}")
            return passes(name, size)

        method.start_epoch(epoch, watch)
        logits.append(method.environments.logits.clone())
    return asked, logits


def test_environments_are_new_every_few_epochs() -> None:
    asked, logits = looked_at(built("dcml_code", update_every=3, passes=2, environment_batch=16), 7)
    assert asked == [f"{epoch} environments {number} 16" for epoch in (1, 4, 7) for number in (0, 1)]
    assert [torch.equal(a, b) for a, b in itertools.pairwise(logits)] == [True, True, False] * 2
    every, _ = looked_at(built("dcml_code", update_every=1, passes=1), 3)
    assert len(every) == 3


def test_random_environments_are_drawn_as_often_and_never_learned() -> None:
    asked, logits = looked_at(built("dcml_code", update_every=2, weights="random"), 4)
    assert asked == []
    assert [torch.equal(a, b) for a, b in itertools.pairwise(logits)] == [True, False, True]
    drawn = torch.randn((20, 2), generator=seeds.torch_generator("environments", "squares", 0, 3))
    assert torch.equal(logits[2], drawn.double())


def test_one_environment_is_all_photos_alike() -> None:
    method = built("dcml_code", environments=1, alpha=0)
    asked, _ = looked_at(method, 2)
    assert asked == []
    assert method.environments.weights(torch.arange(8)).flatten().tolist() == pytest.approx([1 / 8] * 8)


# Start, neutral setting, and what is refused.


@pytest.mark.parametrize("kind", KINDS)
def test_nets_start_alike_unless_told_otherwise(kind: str) -> None:
    """Where they are alike, the net of test time is one of them."""
    alike, apart = built(kind, environments=3), built(kind, environments=3, same_start=False)
    for method, same in ((alike, True), (apart, False)):
        first, *others = (dict(net.named_parameters()) for net in method.nets)
        assert all(torch.equal(net[name], first[name]) == same for net in others for name in first)
        neck = method.model.neck.state_dict()
        assert all(torch.allclose(neck[name], first[name], rtol=1e-5) == same for name in first)


@pytest.mark.parametrize("kind", KINDS)
def test_without_environments_and_attention_the_loss_is_plain(kind: str) -> None:
    method, plain = built(kind, **ALONE), built("plain")
    batch = one_batch()
    found = method.loss(batch)
    assert found.keys() == {"loss"}
    assert torch.equal(found["loss"], plain.loss(batch)["loss"])


def test_attention_without_environments_is_refused(tmp_path: Path, raw: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=r"methods\.odd.*set attention to false"):
        load(tmp_path, with_methods(raw, odd={"kind": "dcml_code", "environments": 0}))


@pytest.mark.parametrize("kind", KINDS)
def test_loss_over_pairs_is_refused_when_planning(tmp_path: Path, raw: dict[str, Any], kind: str) -> None:
    raw = with_methods(raw, mine={"kind": kind})
    raw["grids"]["small"]["cells"][0]["losses"] = ["contrastive"]
    words = r"'mine' re-weights cross-entropies, but 'contrastive' compares pairs.*arcface, cosface, normal"
    with pytest.raises(UserError, match=words):
        plan.checked_cells(load(tmp_path, raw))


@pytest.mark.parametrize("loss", ["arcface", "cosface", "normalized_softmax"])
def test_logits_are_those_of_the_loss(loss: str) -> None:
    from bgbias.losses._class_logits import class_logits

    module = plugins.load("losses", loss)
    settings = (
        {"margin": 0.3, "scale": 10, "lr": 1} if "softmax" not in loss else {"temperature": 0.1, "lr": 1}
    )
    base = module.build(module.Params(**settings), 5, 6, seeds.torch_generator("class weights"))
    generator = seeds.torch_generator("embeddings")
    z, y = F.normalize(torch.randn(12, 6, generator=generator), dim=1), torch.arange(12) % 5
    logits = class_logits(base, z, y)
    assert logits.shape == (12, 5)
    assert F.cross_entropy(logits, y).item() == pytest.approx(base(z, y).item(), rel=1e-6)


# Through the nodes: neutral bit for bit, killed and resumed, and what is saved.


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


@pytest.mark.parametrize("kind", KINDS)
def test_neutral_training_is_plain_bit_for_bit(tmp_path: Path, raw: dict[str, Any], kind: str) -> None:
    study = study_of(tmp_path, raw, alone={"kind": kind, **ALONE})
    for name in ("plain", "alone"):
        train(study, cell(name), "cpu")
    plain, alone = (weights_of(study, cell(name)) for name in ("plain", "alone"))
    assert plain.keys() == alone.keys()
    assert all(torch.equal(plain[k], alone[k]) for k in plain)
    assert rows_of(study, cell("plain")) == rows_of(study, cell("alone"))


def watched(patch: pytest.MonkeyPatch, die_after: int | None = None) -> dict[int, dict[str, Tensor]]:
    """All that a checkpoint holds of the method after each epoch; the process ends after ``die_after``."""
    save, seen = training._save, dict[int, dict[str, Tensor]]()

    def save_and_see(path: Path, digest: str, method: BaseMethod, optimizer: Any, state: Any) -> None:
        save(path, digest, method, optimizer, state)
        seen[state.epoch] = {
            f"{m} {k}": v.clone()
            for m, module in method.modules().items()
            for k, v in module.state_dict().items()
        }
        if state.epoch == die_after:
            raise KeyboardInterrupt

    patch.setattr(training, "_save", save_and_see)
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
    assert set(rows[0]) >= {"loss", "empirical", "environments", "irm", "task", "attention"}
    x = model.preprocess(one_batch().images.float())
    expected = model.embed_features(model.neck(model.features(x)))
    assert torch.equal(model(x), expected)
    assert not torch.allclose(model.embed_features(model.features(x)), expected, atol=1e-3)
    torch.testing.assert_close(models.for_inference(model)(x), expected, rtol=0, atol=1e-5)


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
