"""Weights arrive verified: from a server, from a library, or as a copy that somebody put there."""

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
from backbone_models import make, unsettle
from safetensors.torch import load_file, save_file
from saliency_graphs import graph as saliency_graph
from small_study import described, load, record, with_weights
from web import Server, serving

from bgbias import plugins
from bgbias.engine import graph
from bgbias.errors import UserError
from bgbias.files.fetch import Source
from bgbias.files.store import ImageStore
from bgbias.masks import u2net
from bgbias.nodes import index, masks
from bgbias.nodes import weights as nodes
from bgbias.study import sources

pytestmark = pytest.mark.usefixtures("small_plugins")
OWNER = "backbones/mobilenet_v2"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.chdir(tmp_path)
    with serving(b"") as server:
        yield server


def serve(server: Server, file: Path) -> Source:
    """This file, served."""
    server.path, server.content = f"/{file.name}", file.read_bytes()
    return Source(place=server.url, sha256=hashlib.sha256(server.content).hexdigest())


def test_weights_behind_a_url_are_fetched_verified_and_converted(server: Server, tmp_path: Path) -> None:
    """A file like torchvision's, with its classifier."""
    network = make("mobilenet_v2", seed=5)
    unsettle(network)
    state = {f"features.{k}": v for k, v in network.trunk.state_dict().items() if "num_batches" not in k}
    state |= {"classifier.1.weight": torch.zeros(7, 1280), "classifier.1.bias": torch.zeros(7)}
    torch.save(state, tmp_path / "net.pth")
    source = serve(server, tmp_path / "net.pth")
    options = {"weights": source.place, "sha256": source.sha256[:8]}  # type: ignore[index]
    chosen = with_weights(tmp_path, **options)
    nodes.weights(chosen, OWNER)
    found = load_file(chosen.files.at("weights", owner=OWNER))
    assert found.keys() == state.keys()
    assert all(torch.equal(found[k], state[k]) for k in state)
    noted = record(chosen, "weights_record", owner=OWNER)
    assert noted["notes"]["source"] == {"place": options["weights"], "sha256": options["sha256"]}


def test_timms_weights_are_asked_for_and_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import timm

    monkeypatch.chdir(tmp_path)
    raw, name = described(tmp_path), "timm:vit_tiny_patch16_224"
    raw["backbones"][name] = {"weights": "published", "img_size": 32}
    chosen, owner = load(tmp_path, raw), f"backbones/{name}"
    with monkeypatch.context() as patched:
        patched.setattr(timm, "create_model", Mock(side_effect=OSError("Name or service not known")))
        with pytest.raises(UserError) as told:
            nodes.weights(chosen, owner)
    text = str(told.value)
    assert "Name or service not known" in text
    assert "https://huggingface.co/timm/vit_tiny_patch16_224.augreg_in21k_ft_in1k" in text
    assert re.search(rf"python -m bgbias weights --params \S+ {owner}", text)

    (tmp_path / "downloads").mkdir(parents=True)
    whole = {k: v.contiguous() for k, v in timm.create_model("vit_tiny_patch16_224").state_dict().items()}
    save_file(whole, tmp_path / "downloads" / "vit_tiny_patch16_224.safetensors")
    nodes.weights(chosen, owner)
    model = make(name, weights=sources.weights_file(chosen, sources.network_of(chosen, owner)))
    assert torch.equal(model.trunk.net.norm.weight, whole["norm.weight"])


def test_maskers_weights_come_in_whichever_published_format_can_be_had(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = u2net.u2netp().eval()
    torch.save(net.state_dict(), tmp_path / "u2netp.pth")
    published = (Source(place=f"{server.root}/u2netp.onnx"), serve(server, tmp_path / "u2netp.pth"))
    monkeypatch.setattr(plugins.load("maskers", "u2netp"), "PUBLISHED", published)
    raw, owner = described(tmp_path), "maskers/ground_truth"
    options = {"weights": "published", "input_size": 32, "batch_size": 16}
    raw["maskers"]["ground_truth"] = {"kind": "u2netp", "options": options}
    chosen = load(tmp_path, raw)
    index.index(chosen, "squares")
    words = r"missing; `python -m bgbias weights .*maskers/ground_truth` fetches it"
    with pytest.raises(UserError, match=words):
        masks.masks(chosen, "squares", device="cpu")
    nodes.weights(chosen, owner)
    fetched = chosen.files.at("weights", owner=owner)
    assert load_file(fetched).keys() == net.state_dict().keys()
    (tmp_path / "downloads").mkdir(exist_ok=True)
    torch.onnx.export(net, (torch.rand(1, 3, 32, 32),), tmp_path / "downloads" / "u2netp.onnx", dynamo=False)
    nodes.weights(chosen, owner)
    name = "stage1.rebnconvin.conv_s1.weight"
    assert torch.allclose(load_file(fetched)[name], net.state_dict()[name], atol=1e-4)


def test_a_graph_that_was_fetched_is_kept_byte_for_byte_and_masks(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = plugins.load("maskers", "isnet")
    file = saliency_graph(tmp_path / "isnet-general-use.onnx")
    source = serve(server, file)
    monkeypatch.setattr(module, "PUBLISHED", (source,))
    raw = described(tmp_path)
    raw["maskers"]["ground_truth"] = {"kind": "isnet", "options": {"weights": "published"}}
    chosen = load(tmp_path, raw)
    owner, masked = "maskers/ground_truth", {"dataset": "squares", "masker": "ground_truth"}
    assert owner in {n.subject_name for n in graph.in_order(chosen) if n.name == "weights"}
    nodes.weights(chosen, owner)
    kept = load_file(chosen.files.at("weights", owner=owner))
    assert {name: tensor.numpy().tobytes() for name, tensor in kept.items()} == {"onnx": file.read_bytes()}
    index.index(chosen, "squares")
    masks.masks(chosen, "squares", device="cpu")
    photos = ImageStore(chosen.files.at("photos", dataset="squares"))
    store = ImageStore(chosen.files.at("masks", **masked))
    make = module.build(module.Params(weights=str(file)), "cpu")
    for image_id, mask in zip(store.ids, make([photos.array(i) for i in store.ids]), strict=True):
        assert (store.array(image_id, "L") == mask.alpha).all()
    # Other bytes are other masks, and the version of what runs them is known.
    before = graph.digest(chosen, "masks", **masked)
    assert "onnxruntime" in graph.spec(chosen, "masks", **masked)["libraries"]
    monkeypatch.setattr(module, "PUBLISHED", (source.model_copy(update={"sha256": "0" * 64}),))
    assert graph.digest(chosen, "masks", **masked) != before
