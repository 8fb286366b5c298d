"""Parts of the network that training leaves as they are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor

from bgbias import plugins, seeds
from bgbias.errors import UserError
from bgbias.models.model import EmbeddingModel, build_model
from bgbias.training import loop
from bgbias.training.methods import Batch
from bgbias.training.methods.plain import Method as Plain
from bgbias.training.settings import Train


def resnet() -> EmbeddingModel:
    params = plugins.load("backbones", "resnet18").Params(weights=None)
    return build_model("resnet18", params, 4, seeds.torch_generator("model"))


def trained(folder: Path, optimizer: str, *frozen: str) -> dict[str, Tensor]:
    """The state of a network after two steps with these parts frozen."""
    loss = plugins.load("losses", "contrastive")
    base = loss.build(loss.Params(pos_margin=0, neg_margin=0.5), 4, 4, torch.Generator())
    method = Plain(resnet(), base)

    def batches(epoch: int) -> Iterator[Batch]:
        for step in range(2):
            photos = 255 * torch.rand((8, 3, 32, 32), generator=seeds.torch_generator("batch", step))
            yield Batch(photos, torch.arange(4).repeat_interleave(2), torch.arange(8))

    settings = Train(
        iterations_per_epoch=2, max_epochs=1, lr=1e-3, weight_decay=0.5, optimizer=optimizer, frozen=frozen
    )
    loop.fit(
        method, batches, lambda model: {"val_map_at_r": 0.0}, "val_map_at_r", settings, folder / "state", folder / "curve", "d"
    )  # fmt: skip
    return method.model.state_dict()


@pytest.mark.parametrize("optimizer", ["adamw", "rmsprop"])
def test_what_is_frozen_stays_and_all_else_learns(tmp_path: Path, optimizer: str) -> None:
    """Weight decay would move what gets no gradient, too."""
    before, frozen = resnet().state_dict(), ("conv1", "bn1", "layer1", "layer2.0.conv1")
    after = trained(tmp_path, optimizer, *frozen)
    learns = {name for name, value in resnet().named_parameters()}
    stays = {name for name in learns if any(name.startswith(f"trunk.{part}.") for part in frozen)}
    assert stays
    assert all(torch.equal(before[name], after[name]) for name in stays)
    assert not any(torch.equal(before[name], after[name]) for name in learns - stays)


def test_a_frozen_trunk_leaves_the_embedding_layer_to_learn(tmp_path: Path) -> None:
    before, parts = resnet(), [name for name, _ in resnet().trunk.named_children()]
    after = trained(
        tmp_path, "adamw", *(part for part in parts if list(getattr(before.trunk, part).parameters()))
    )
    moved = {name for name, value in before.named_parameters() if not torch.equal(value, after[name])}
    assert moved == {"embedder.weight", "embedder.bias"}


@pytest.mark.parametrize("part", ["layer", "layer9", "layer1.2", "relu", ""])
def test_a_part_that_the_network_does_not_have_is_told_with_those_it_has(part: str) -> None:
    """``layer`` is no part, though names begin with it; ``relu`` has nothing to freeze."""
    with pytest.raises(UserError, match=rf"train.frozen: resnet18 has no part '{part}' .* layer1, layer2"):
        loop.freeze(resnet().trunk, ["layer1", part], "resnet18")
