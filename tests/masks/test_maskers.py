"""What every masker says of itself, and does without weights."""

from __future__ import annotations

import pytest

from bgbias import plugins
from bgbias.errors import UserError

NAMES = plugins.names("maskers")
NETWORKS = tuple(n for n in NAMES if "weights" in plugins.load("maskers", n).Params.model_fields)


def test_networks_predict_and_given_masks_are_read() -> None:
    predicts = {name: plugins.load("maskers", name).PREDICTS for name in NAMES}
    assert {name for name, alone in predicts.items() if not alone} == {"ground_truth", "files"}
    assert set(NETWORKS) == {"u2net", "u2netp", "isnet", "birefnet", "birefnet_lite", "onnx"}
    for module in (plugins.load("maskers", name) for name in NAMES):
        assert {*module.SPEED, *module.FILES} <= set(module.Params.model_fields)


@pytest.mark.parametrize("name", NETWORKS)
def test_without_weights_the_key_is_named(name: str) -> None:
    module = plugins.load("maskers", name)
    with pytest.raises(UserError, match=rf"'{name}' has no weights.*params\.yaml"):
        module.build(module.Params(), "cpu")


@pytest.mark.parametrize("name", ["isnet", "birefnet", "birefnet_lite"])
def test_published_files_are_known_by_bytes_and_checksum(name: str) -> None:
    first, *mirrors = plugins.load("maskers", name).PUBLISHED
    assert first.size > 1e8
    assert len(first.sha256) == 64
    assert first.called.endswith(".onnx")
    assert all(other.checks == first.checks for other in mirrors)
