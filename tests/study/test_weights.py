"""Which weights a network starts from is planned: who reads them, what a digest knows of them, and which are refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import torchvision.models
from backbone_models import make
from small_study import described, load, with_weights

from bgbias import plugins
from bgbias.engine import graph
from bgbias.errors import UserError
from bgbias.files import state_dicts
from bgbias.study import sources
from bgbias.study.cell import Cell

pytestmark = pytest.mark.usefixtures("small_plugins")
OWNER = "backbones/mobilenet_v2"
CELL = Cell("squares", "mobilenet_v2", "contrastive", "plain", 0)
FEATURES = Cell("squares", "mobilenet_v2", "none", "pretrained", 0)


def test_published_files_are_torchvisions() -> None:
    for name in ("resnet18", "resnet50", "resnet152", "mobilenet_v2"):
        kind = torchvision.models.get_model_weights(name)
        (source,) = plugins.load("backbones", name).PUBLISHED
        assert source.place == kind.IMAGENET1K_V1.url
        facts, transform = plugins.load("backbones", name).FACTS, kind.IMAGENET1K_V1.transforms()
        assert ([facts.input_size], [facts.resize]) == (transform.crop_size, transform.resize_size)
        assert (list(facts.preprocess.mean), list(facts.preprocess.std)) == (transform.mean, transform.std)


@pytest.mark.parametrize("own", [None, "shared:net.pth"])
def test_weights_of_ones_own_need_no_node(tmp_path: Path, own: str | None) -> None:
    chosen = with_weights(tmp_path, weights=own)
    assert not any(n.name == "weights" for n in graph.in_order(chosen))
    assert "fetched_weights" not in graph.spec(chosen, "train", cell=CELL)
    with pytest.raises(UserError, match="mobilenet_v2 has nothing to fetch"):
        graph.digest(chosen, "weights", owner=OWNER)


def test_digest_knows_weights_by_name_and_checksum(tmp_path: Path) -> None:
    def digests(host: str, sha256: str) -> tuple[str, ...]:
        chosen = with_weights(tmp_path, weights=f"https://{host}/net.pth", sha256=sha256)
        of_cells = (graph.digest(chosen, n, cell=c) for c, n in ((CELL, "train"), (FEATURES, "embed")))
        return graph.digest(chosen, "weights", owner=OWNER), *of_cells

    before = digests("host", "0" * 64)
    chosen = with_weights(tmp_path, weights="https://host/net.pth", sha256="0" * 64)
    state_dicts.write_state_dict({}, chosen.files.at("weights", owner=OWNER))
    assert digests("host", "0" * 64) == digests("mirror", "0" * 64) == before
    assert not set(digests("host", "f" * 64)) & set(before)


def test_checksum_belongs_to_a_url(tmp_path: Path) -> None:
    for weights, sha256, words in (
        ("https://host/net.pth", None, "a URL as `weights` needs a `sha256`"),
        ("published", "1" * 64, "nothing else takes one"),
        ("https://host/net.pth", "1" * 7, "the first 8 or more"),
        ("https://host/net.pth", "X" * 64, "lower-case hexadecimal"),
    ):
        with pytest.raises(UserError, match=words):
            with_weights(tmp_path, weights=weights, sha256=sha256)


def test_weights_that_are_nowhere_are_refused(tmp_path: Path) -> None:
    raw = described(tmp_path)
    raw["backbones"]["mobilenet_v2_tf"] = {"weights": "published"}
    study = load(tmp_path, raw)
    with pytest.raises(UserError, match=r"no 'backbones/net'; there are: backbones/pixels, .*maskers/other"):
        sources.network_of(study, "backbones/net")
    with pytest.raises(UserError, match=r"no `published` weights of it are known; name a file or a URL"):
        graph.digest(study, "weights", owner="backbones/mobilenet_v2_tf")
    with pytest.raises(UserError, match=r"none.pth is missing .*backbones\.resnet18\.weights.*`published`"):
        make("resnet18", weights=tmp_path / "none.pth")
