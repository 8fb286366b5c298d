"""What a person types for a model, and what she says of it, is understood, or answered with the next thing to type."""

import socket
import sys
import time
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from unittest.mock import Mock
from urllib.error import URLError

import huggingface_hub
import numpy as np
import pytest
from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

from bgbias import plugins
from bgbias.errors import UserError
from bgbias.models.adapters import Options, load
from bgbias.models.adapters._library import load_source

PAGE = "https://huggingface.co/someone/hers"
HUB = "could not be fetched from https://huggingface.co"


def test_what_is_absent_is_answered_by_what_to_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = Mock(side_effect=URLError("no route"))
    monkeypatch.setattr("torchvision.models._api.load_state_dict_from_url", refused)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for spec, said in (
        ("resnet50", "'resnet50' does not say whose model it is: timm:resnet50, torchvision:resnet50"),
        ("tim:resnet50", "no 'tim' in adapters; .*Did you mean 'timm'"),
        ("timm:", "'timm:' lacks what stands behind the colon: the name of a model of timm"),
        ("weights.pth", "does not tell what network its weights are of.*timm:resnet50 --weights weights.pth"),
        ("none.py:build", "none.py is missing; correct --model"),
        ("none.py", "Say which function of none.py makes the model: none.py:<function>"),
        ("timm:ResNet50", "no model of timm 'ResNet50'. Did you mean resnet50"),
        ("timm:resnet50.a9_in1k", "no tag of resnet50 'a9_in1k'. Did you mean .*a1_in1k"),
        ("timm:mixer_s16_224", "no weights of mixer_s16_224; name a file of them: --weights"),
        ("timm:hf-hub:someone/hers", f"{HUB}/someone/hers.*--weights"),
        ("torchvision:resnet5", "no classifier of torchvision 'resnet5'. Did you mean resnet50"),
        ("torchvision:resnet50/V1", "no weights of resnet50 'V1'.*IMAGENET1K_V1 IMAGENET1K_V2"),
        ("torchvision:resnet18", "could not be fetched from https://download.pytorch.org.*--weights"),
        ("open_clip:ViT-B-33/openai", "no model of OpenCLIP 'ViT-B-33'. Did you mean ViT-B-32"),
        ("open_clip:ViT-B-32/openia", "no pretrained tag of ViT-B-32 'openia'. Did you mean openai"),
        ("open_clip:ViT-B-32", r"does not say which weights: open_clip:ViT-B-32/<tag> of \w+ \w+"),
        ("open_clip:ViT-B-32/laion2b_e16", f"{HUB}/.*--weights"),
        ("open_clip:hf-hub:someone/none", f"{HUB}/someone/none.*--weights"),
        ("transformers:./none", r"The folder ./none is missing; correct --model"),
        ("sentence-transformers:none", f"{HUB}/sentence-transformers/none"),
        ("mteb:openai/clip-vit-base-patch23", "no model of MTEB .*Did you mean openai/clip-vit-base-patch32"),
        ("mteb:intfloat/e5-small", "embeds text, no images. Those that do: python -c"),
    ):
        with pytest.raises(UserError, match=said):
            load(spec)
    monkeypatch.setitem(sys.modules, "open_clip", None)
    with pytest.raises(UserError, match=r"open_clip is not installed: pip install 'bgbias\[open-clip\]'"):
        load("open_clip:ViT-B-32")


def test_every_kind_refuses_options_that_mean_nothing_to_it() -> None:
    for kind in plugins.names("adapters"):
        adapter = plugins.load("adapters", kind)
        assert set(Options.__dataclass_fields__) - {"device"} >= adapter.OPTIONS
        if "pooling" not in adapter.OPTIONS:
            with pytest.raises(UserError, match=f"--pooling means nothing to {kind}:x"):
                load(f"{kind}:x", Options(pooling="cls"))


def test_options_that_cannot_be_are_refused() -> None:
    for options, said in (
        ({"weights": Path("none.pth")}, "weights file none.pth is missing; correct --weights"),
        ({"size": 0}, "--size is 0"),
        ({"size": 96, "resize": 90}, "give --resize 96 or more"),
        ({"mean": (0.5,)}, r"--mean takes three numbers, one for each of R, G and B, not \(0.5,\)"),
        ({"std": (0.5, 0.5, 0)}, "--std takes numbers above 0"),
        ({"pooling": "max"}, "--pooling 'max' is unknown"),
        ({"precision": "half"}, "--precision 'half' is unknown; there are float32, bfloat16, float16"),
        ({"precision": "bfloat16"}, "mean computes in its own precision; leave --precision bfloat16"),
        ({"batch_size": 0}, "--batch-size is 0; it is at least 1"),
        ({"device": "cpu"}, "chooses its device itself"),
    ):
        with pytest.raises(UserError, match=said):
            load(np.mean, Options(**options))  # type: ignore[arg-type]


def of_the_hub(kind: type[Exception]) -> Exception:
    """An error of the hub's, as transformers hands it on: behind an OSError of its own."""
    error = OSError("We couldn't load it.\nAnd more.")
    error.__cause__ = kind("refused", response=Mock(headers={}, request=None))
    return error


def test_errors_of_others_become_the_step_to_take() -> None:
    for error, source, said in (
        (of_the_hub(GatedRepoError), PAGE, rf"gated: accept its terms at {PAGE}, then `hf auth login`"),
        (of_the_hub(RepositoryNotFoundError), PAGE, rf"not to be found at {PAGE} \(We .*\). Correct its"),
        (ValueError("no zip"), "her.onnx", r"could not be loaded: no zip. Make or copy her.onnx again"),
        (ValueError("not found"), "models:/hers@best", r"could not be loaded: not found. Name its store."),
    ):
        with pytest.raises(UserError, match=f"^hers .*{said}"):
            load_source("hers", source, Mock(side_effect=error), "Name its store.")


class Hub(BaseHTTPRequestHandler):
    """One file, whatever is asked for."""

    def do_HEAD(self) -> None:
        self.send_response(200)
        for name, value in (("X-Repo-Commit", "c" * 40), ("ETag", '"1"'), ("Content-Length", "7")):
            self.send_header(name, value)
        self.end_headers()

    def do_GET(self) -> None:
        self.do_HEAD()
        self.wfile.write(b"weights")


def test_a_hub_that_is_silent_leaves_its_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And it is not tried a second time."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    place = f"http://127.0.0.1:{port}/{{repo_id}}/{{revision}}/{{filename}}"
    monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", place)
    monkeypatch.setattr(time, "sleep", Mock(side_effect=AssertionError("waited")))
    before = list(huggingface_hub.get_session().event_hooks["request"])

    get = partial(huggingface_hub.hf_hub_download, "someone/hers", "model.safetensors", cache_dir=tmp_path)

    def fetched() -> bytes:
        return Path(load_source("hers", PAGE, get)).read_bytes()

    words = rf"hers could not be fetched from {PAGE}.* \(\[Errno 111\] Connection refused\)"
    with pytest.raises(UserError, match=words):
        fetched()
    with HTTPServer(("127.0.0.1", port), Hub) as hub:
        Thread(target=hub.serve_forever, args=(0.01,), daemon=True).start()
        assert fetched() == b"weights"
        hub.shutdown()
    assert fetched() == b"weights"
    assert huggingface_hub.get_session().event_hooks["request"] == before
    # A client from before version 1.0 of the library has no hooks.
    monkeypatch.setattr(huggingface_hub, "get_session", lambda: object())
    assert fetched() == b"weights"
