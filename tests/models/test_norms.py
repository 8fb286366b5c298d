"""Several batch norms: copies that learn from their own photos alone, and a model file that has but the first."""

from __future__ import annotations

from contextlib import nullcontext
from copy import deepcopy
from pathlib import Path

import pytest
import torch
from backbone_models import BACKBONES, fold, make, params, photos, unsettle
from safetensors.torch import load_file
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from bgbias.errors import UserError
from bgbias.models.model import EmbeddingModel, load, save
from bgbias.models.norms import AuxiliaryNorms, batch_norms, is_folded, known_to_lack, unfold

pytestmark = pytest.mark.usefixtures("small_plugins")

NAMES = ("stax", "mtax:2")
WITH = ("mobilenet_v2_tf", "bn_inception", "timm:mobilenetv3_small_050")


def network(name: str = "pixels") -> EmbeddingModel:
    net = make(name, freeze_batch_norm=False)
    unsettle(net)
    return net.train()


@pytest.mark.parametrize("name", WITH)
def test_no_norm_of_the_clean_photos_is_passed_by_others(name: str) -> None:
    """Each set begins as a copy of theirs, with their statistics."""
    net, shown = network(name), photos(name)
    own = [m for m in net.modules() if isinstance(m, _BatchNorm)]
    norms = AuxiliaryNorms(net, NAMES).eval()
    expected = net.eval()(shown)
    for one in NAMES:
        with norms.using(one):
            assert torch.equal(net(shown), expected)
    net.train(), norms.train()
    calls: list[nn.Module] = []
    for module in (*own, *norms.sets[0], *norms.sets[1]):
        module.register_forward_hook(lambda one, *_: calls.append(one))
    for kind, wanted in (("mtax:2", norms.sets[1]), ("stax", norms.sets[0]), ("", own)):
        calls.clear()
        with norms.using(kind) if kind else nullcontext():
            net(shown)
        assert {*map(id, calls)} == {*map(id, wanted)}


def test_gradients_are_those_of_networks_of_their_own() -> None:
    """A naive twin: a whole network a distribution. Of what they share, the gradient is the sum of theirs; each set learns from
    its own photos alone.
    """
    net = network().double()
    norms = AuxiliaryNorms(net, NAMES).train()
    twins = [deepcopy(net) for _ in range(3)]
    generator = torch.Generator().manual_seed(5)
    batches = [torch.randn(4, 3, 32, 32, generator=generator, dtype=torch.float64) for _ in range(3)]
    total = net(batches[0])[:, 0].sum()
    for name, batch in zip(NAMES, batches[1:], strict=True):
        with norms.using(name):
            total = total + net(batch)[:, 0].sum()
    total.backward()
    for twin, batch in zip(twins, batches, strict=True):
        twin(batch)[:, 0].sum().backward()
    torch.testing.assert_close(net.trunk[0].weight.grad, sum(t.trunk[0].weight.grad for t in twins))
    torch.testing.assert_close(net.embedder.weight.grad, sum(t.embedder.weight.grad for t in twins))
    for norm, twin in zip((net.trunk[1], norms.sets[0][0], norms.sets[1][0]), twins, strict=True):
        torch.testing.assert_close(norm.weight.grad, twin.trunk[1].weight.grad)
        torch.testing.assert_close(norm.running_mean, twin.trunk[1].running_mean)
        torch.testing.assert_close(norm.running_var, twin.trunk[1].running_var)


def test_the_file_holds_the_first_and_says_so(tmp_path: Path) -> None:
    net, path, shown = network(), tmp_path / "model.safetensors", photos("pixels", 4)
    save(net, path)
    assert load(path).auxiliary_norms == ()
    with AuxiliaryNorms(net, NAMES).train().using("mtax:2"):
        net(shown)
    save(net, path)
    assert load_file(path).keys() == net.state_dict().keys()
    loaded = load(path)
    assert loaded.auxiliary_norms == NAMES
    assert torch.equal(loaded(shown), net.eval()(shown))


@pytest.mark.parametrize("name", BACKBONES)
def test_what_a_network_lacks_is_known_without_its_weights(name: str) -> None:
    net = make(name)
    lacks = not any(isinstance(m, _BatchNorm) for m in net.modules())
    assert known_to_lack(name, params(name)) == lacks
    with pytest.raises(UserError, match=f"{name} has no batch norm") if lacks else nullcontext():
        AuxiliaryNorms(net, NAMES)


def test_folded_norms_get_statistics_and_compute_what_they_did() -> None:
    net = network("mobilenet_v2_tf").eval()
    shown = torch.cat([share * photos("mobilenet_v2_tf") for share in (0.5, 1, 1.5)])
    before = net.features(shown)
    assert not is_folded(net)
    fold(net)
    assert is_folded(net)
    unfold(net, shown.split(2))
    assert not is_folded(net)
    torch.testing.assert_close(net.features(shown), before, atol=1e-4, rtol=1e-4)
    # By the statistics of the same photos as one batch it computes the same, which it did not before.
    for norm in batch_norms(net):
        norm.train()
        norm.momentum = 0.0
    torch.testing.assert_close(net.features(shown), before, atol=1e-3, rtol=1e-3)
